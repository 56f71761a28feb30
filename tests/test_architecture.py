"""Who may import whom, read from the source of every module.

utils, checks <- transformers, recurrent, sampling <- experiments
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
    {"labml_nn.checks", "labml_nn.utils"},
    {"labml_nn.transformers", "labml_nn.recurrent", "labml_nn.sampling"},
    {"labml_nn.experiments"},
]
#: Data, training and logging: for experiments only.
EXPERIMENTAL = {
    "labml",
    "logging",
    "tqdm",
    "torch.utils.data",
    "torch.optim",
    "labml_nn.experiments",
}
#: What the library may import from outside, beside the standard library.
OUTSIDE = {"torch", "jaxtyping"}
#: What a model needs to do with text and files: nothing.
NO_FILES = {"pathlib", "urllib", "json", "io", "shutil", "os"}


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
    return not within(dotted(path), LAYERS[2]) and path.name != "experiment.py"


def layer_of(path_or_name):
    """How high a module stands, -1 for what belongs to no part: the package itself."""
    if isinstance(path_or_name, Path) and not is_model(path_or_name):
        return 2
    name = dotted(path_or_name) if isinstance(path_or_name, Path) else path_or_name
    return next((i for i, parts in enumerate(LAYERS) if within(name, parts)), -1)


def case(path):
    return pytest.param(path, id=path.relative_to(ROOT).as_posix())


LIBRARY = [case(path) for path in sources("labml_nn")]
MODELS = [case(path) for path in sources("labml_nn") if is_model(path)]
GENERATOR = [case(path) for path in [*sources("pylit"), ROOT / "build_site.py"] if path.exists()]


@pytest.mark.parametrize("path", LIBRARY)
def test_arrows_point_down(path):
    for name in imports(path):
        if within(name, {"labml_nn"}):
            assert 0 <= layer_of(name) <= layer_of(path), f"{dotted(path)} imports {name}"


@pytest.mark.parametrize("path", LIBRARY)
def test_siblings_do_not_lean_on_each_other(path):
    """Of transformers, recurrent and sampling none imports another."""
    own = within(dotted(path), LAYERS[1])
    for name in imports(path):
        if own and is_model(path) and (part := within(name, LAYERS[1])):
            assert part == own, f"{dotted(path)} imports {name}"


@pytest.mark.parametrize("path", MODELS)
def test_models_import_neither_data_nor_training_nor_logging(path):
    for name in imports(path):
        assert not within(name, EXPERIMENTAL | NO_FILES), f"{dotted(path)} imports {name}"
        top = name.split(".")[0]
        known = OUTSIDE | {"labml_nn"} | sys.stdlib_module_names
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
ROOMS = ("source", "code", "prose", "tex", "page", "site", "pipeline", "serving", "cli")


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


def test_importing_a_model_loads_torch_and_jaxtyping_only():
    """Nothing else from outside, not even by way of an `__init__.py`."""
    code = (
        "import sys, torch, jaxtyping; before = set(sys.modules); "
        "import labml_nn.transformers.feedback, labml_nn.transformers.models; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    loaded = set(child.stdout.split())
    assert "labml_nn" in loaded
    assert loaded <= {"labml_nn", "torch", "jaxtyping", *sys.stdlib_module_names}


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
