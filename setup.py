"""The distribution ``labml-nn``: the library, with extras for training and for the tests.

The generator of its site is a distribution of its own, ``pylit/pyproject.toml``. The tests need
both, and ``make install`` installs both.
"""

from pathlib import Path

from setuptools import find_packages, setup

# Training is more than the library asks for: a progress bar, curves, and labml's record of the run.
TRAIN = ["tqdm>=4.66", "matplotlib>=3.9", "labml>=0.5.3"]
NOTEBOOKS = [
    *TRAIN,
    "nbformat>=5.10",
    "nbclient>=0.10",
    "ipykernel>=7",
]
TEST = [
    "pytest>=9",
    "pytest-xdist>=3.8",
    "hypothesis>=6.140",
    "beartype>=0.22",
    "numpy>=2",
    "playwright>=1.56",
    "html5lib>=1.1",
    "import-linter>=2.16",
    "hatchling>=1.27",
    "mypy>=1.18",
    "ruff>=0.14",
    "types-Pygments",
    "types-tqdm",
]

README = Path(__file__).with_name("README.md")

setup(
    name="labml-nn",
    version="1.0.0",
    description="Annotated PyTorch modules: attention and recurrence, to read and to import",
    long_description=README.read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["labml_nn", "labml_nn.*"]),
    # Kernels are compiled where they are used, so their source goes along.
    package_data={
        "labml_nn": ["py.typed"],
        "labml_nn.experiments": ["*.toml"],
        "labml_nn.kernels": ["cpp/*.h", "cpp/*/*.h", "cpp/*/*.cpp"],
    },
    entry_points={"console_scripts": ["labml-nn = labml_nn.experiments.command_line:main"]},
    # The oldest PyTorch with which all tests of the library pass. With 2.8 all else does, but a
    # transformer's language model cannot be exported; with 2.6 attention does not compile.
    install_requires=["torch>=2.9", "jaxtyping>=0.3", "safetensors>=0.5", "numpy>=1.26"],
    extras_require={
        "train": TRAIN,
        "notebooks": NOTEBOOKS,
        "test": NOTEBOOKS + TEST,
    },
    keywords="deep learning, attention, transformer, annotated, literate programming",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
