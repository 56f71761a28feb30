"""Who may import whom, read from the source of every module.

checks, compiled, utils, configuration, evaluation, language_model, saving
    <- transformers, recurrent, sampling
    <- attention_maps, registry, labml_nn itself <- optimizers, experiments
a model imports neither data nor logging; the library and the generator do not know each other
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Parts of the library, from the ground up: a part may import itself and the parts below it.
LAYERS = [
    {
        "labml_nn.checks",
        "labml_nn.kernels",
        "labml_nn.utils",
        "labml_nn.configuration",
        "labml_nn.evaluation",
        "labml_nn.language_model",
        "labml_nn.saving",
    },
    {"labml_nn.transformers", "labml_nn.recurrent", "labml_nn.sampling"},
    {"labml_nn.attention_maps", "labml_nn.registry"},
    {"labml_nn.optimizers", "labml_nn.experiments", "labml_nn.__main__"},
]
#: The package itself and the experiments stand on all that are below them.
ROOF, EXPERIMENTS = 2, 3
#: Data, training and logging: for experiments only.
EXPERIMENTAL = {
    "labml",
    "logging",
    "tqdm",
    "torch.utils.data",
    "torch.optim",
    "labml_nn.optimizers",
    "labml_nn.experiments",
}
#: What the library may import from outside, beside the standard library.
OUTSIDE = {"torch", "jaxtyping"}
#: Programs for a GPU are written in Triton's language. Nobody imports it who does not run them.
PROGRAMS = {"labml_nn.transformers.feedback.gpu.kernel"}
#: What a model needs to do with text and files: nothing.
NO_FILES = {"pathlib", "urllib", "json", "io", "shutil", "os"}
#: The parts that read or write files, and what they may use for it. Kernels are compiled from
#: files beside them, into a cache, and `LABML_NN_KERNELS` switches them off.
FILES = {
    "labml_nn.saving",
    "labml_nn.attention_maps.picture",
    "labml_nn.kernels",
    "labml_nn.transformers.feedback.kernel",
    "labml_nn.transformers.feedback.writing",
}
FOR_FILES = {"pathlib", "json", "os", "safetensors"}


def sources(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Dotted names that a module imports, wherever in it: `from a.b import c` counts as a.b.c."""
    package = dotted(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def within(name, parts):
    """The part among `parts` that `name` is, or lies in."""
    return next((part for part in parts if name == part or name.startswith(f"{part}.")), None)


def is_model(path):
    """Everything below the experiments; `experiment.py` beside a model is one of them."""
    return not within(dotted(path), LAYERS[EXPERIMENTS]) and path.name != "experiment.py"


def layer_of(path_or_name):
    """How high a module stands; the package itself, and names that it offers, are the roof."""
    if isinstance(path_or_name, Path) and not is_model(path_or_name):
        return EXPERIMENTS
    name = dotted(path_or_name) if isinstance(path_or_name, Path) else path_or_name
    return next((i for i, parts in enumerate(LAYERS) if within(name, parts)), ROOF)


def case(path):
    return pytest.param(path, id=path.relative_to(ROOT).as_posix())


LIBRARY = [case(path) for path in sources("labml_nn")]
MODELS = [case(path) for path in sources("labml_nn") if is_model(path)]
GENERATOR = [case(path) for path in [*sources("pylit"), ROOT / "build_site.py"] if path.exists()]


@pytest.mark.parametrize("path", LIBRARY)
def test_arrows_point_down(path):
    for name in imports(path):
        if within(name, {"labml_nn"}):
            assert layer_of(name) <= layer_of(path), f"{dotted(path)} imports {name}"


@pytest.mark.parametrize("path", LIBRARY)
def test_each_module_belongs_to_a_part(path):
    parts = set().union(*LAYERS)
    assert dotted(path) == "labml_nn" or within(dotted(path), parts), f"where is {dotted(path)}?"


@pytest.mark.parametrize("path", LIBRARY)
def test_siblings_do_not_lean_on_each_other(path):
    """Of transformers, recurrent and sampling none imports another."""
    own = within(dotted(path), LAYERS[1])
    for name in imports(path):
        if own and is_model(path) and (part := within(name, LAYERS[1])):
            assert part == own, f"{dotted(path)} imports {name}"


@pytest.mark.parametrize("path", MODELS)
def test_models_import_neither_data_nor_training_nor_logging(path):
    files = FOR_FILES if within(dotted(path), FILES) else set()
    for name in imports(path):
        refused = EXPERIMENTAL | NO_FILES - files
        assert not within(name, refused), f"{dotted(path)} imports {name}"
        top = name.split(".")[0]
        known = OUTSIDE | {"labml_nn"} | files | sys.stdlib_module_names
        if within(dotted(path), PROGRAMS):
            known = known | {"triton"}
        assert top in known, f"{dotted(path)} imports {name}"


@pytest.mark.parametrize("path", LIBRARY)
def test_the_library_does_not_know_the_generator(path):
    for name in imports(path):
        assert not within(name, {"pylit"}), f"{dotted(path)} imports {name}"


@pytest.mark.parametrize("path", GENERATOR)
def test_the_generator_does_not_know_the_library(path):
    for name in imports(path):
        assert not within(name, {"labml_nn", "torch"}), f"{path.name} imports {name}"


#: The rooms of the generator, each of which may import those before it.
ROOMS = (
    *("source", "code", "prose", "tex", "runs", "shapes", "figures"),
    *("page", "site", "notebooks", "pipeline", "serving", "cli"),
)


def room_of(name):
    """How far along a module of the generator stands; -1 for what all rooms share."""
    part = name.split(".")[1] if "." in name else ""
    return ROOMS.index(part) if part in ROOMS else -1


@pytest.mark.parametrize("path", GENERATOR)
def test_rooms_of_the_generator_lean_on_those_before_them(path):
    own = room_of(dotted(path)) if path.name != "build_site.py" else len(ROOMS)
    for name in imports(path):
        if within(name, {"pylit"}):
            assert room_of(name) <= own, f"{dotted(path)} imports {name}"


def test_the_door_holds_no_logic():
    path = ROOT / "build_site.py"
    inside = [name for name in imports(path) if name.split(".")[0] not in sys.stdlib_module_names]
    assert inside
    assert all(within(name, {"pylit.cli"}) for name in inside), inside
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    assert not [node for node in statements if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def loaded_by(*modules):
    """What the imports of `modules` load beside torch and jaxtyping, in a process of its own."""
    code = (
        "import sys, torch, jaxtyping; before = set(sys.modules); "
        f"import {', '.join(modules)}; print(*sorted(set(sys.modules) - before))"
    )
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return set(child.stdout.split())


def test_importing_a_model_loads_torch_and_jaxtyping_only():
    """Nothing else from outside, not even by way of an `__init__.py`."""
    loaded = loaded_by("labml_nn.transformers.feedback", "labml_nn.transformers.models")
    tops = {name.split(".")[0] for name in loaded}
    assert "labml_nn" in tops
    assert tops <= {"labml_nn", "torch", "jaxtyping", *sys.stdlib_module_names}


def test_importing_the_library_is_light():
    """Models are imported when they are asked for, and safetensors when a file is."""
    loaded = loaded_by("labml_nn")
    assert "labml_nn.registry" in loaded
    heavy = {"safetensors", "numpy", "labml_nn.transformers", "labml_nn.recurrent"}
    assert not {name for name in loaded if within(name, heavy)}


# The tests above prove something only if the reader of imports sees them all.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from a.b import c, d as e", ["a.b.c", "a.b.d"]),
        ("from . import x", ["labml_nn.transformers.x"]),
        ("from .mha import y", ["labml_nn.transformers.mha.y"]),
        ("from ..utils import z", ["labml_nn.utils.z"]),
        ("def f():\n    import late", ["late"]),
    ],
)
def test_imports_are_read(monkeypatch, tmp_path, line, expected):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "labml_nn" / "transformers" / "module.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert list(imports(path)) == expected
    package = path.with_name("__init__.py")
    package.write_text(line)
    assert list(imports(package)) == expected
