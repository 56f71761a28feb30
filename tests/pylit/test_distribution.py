"""The generator's own distribution: its wheel, unpacked, builds a site without the library."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling import build
from site_tools import REPOSITORY, cache, make_site, succeed, tree

import pylit

#: Neither the checkout nor the library may be found.
ALONE = """
import sys
sys.modules |= dict.fromkeys(("torch", "labml_nn", "jaxtyping"))
import pylit.__main__
assert "installed" in pylit.__file__, pylit.__file__
sys.exit(pylit.__main__.main())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installation."""
    folder, old = tmp_path_factory.mktemp("installed"), Path.cwd()
    os.chdir(REPOSITORY / "pylit")
    try:
        wheel = build.build_wheel(str(folder))
    finally:
        os.chdir(old)
    assert wheel == f"pylit_site-{pylit.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel) as archive:
        archive.extractall(folder)
    return folder


def run(program: str, installed: Path, cwd: Path, *given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", program, *given]
    # The order of sets is another one than in this process.
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONHASHSEED": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_it_builds_the_same_site_as_the_checkout(installed: Path, tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    (tmp_path / "alone").mkdir()
    cache(tmp_path / "alone")
    given = ("build", "--out", "alone/site", "--cache", "alone/.cache")
    done = run(ALONE, installed, tmp_path, *given)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "alone/site") == tree(tmp_path / "site")


def test_on_windows_it_says_where_it_runs(installed: Path, tmp_path: Path) -> None:
    windows = "import sys; sys.platform = 'win32'; sys.modules['fcntl'] = None\n"
    done = run(windows + ALONE, installed, tmp_path, "build")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "on Windows" in done.stderr
