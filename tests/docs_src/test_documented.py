"""The names of other projects' documentation that the generator ships, and how they are renewed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from pylit.model import Definition, DefinitionKind, Target
from pylit.source.inventories import ADDRESSES, DOCUMENTED, inventory, read_inventory

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "docs_src/documented.py"
    spec = importlib.util.spec_from_file_location("documented", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets(text: str) -> dict[str, Target]:
    """Names, each with its kind and its address."""
    found = {}
    for name, kind, url in map(str.split, text.strip().splitlines()):
        known: DefinitionKind = "class" if kind == "class" else "function"
        found[name] = Target(Definition(known, name, "", 0, ""), url)
    return found


def urls(found: dict[str, Target]) -> dict[str, str]:
    return {name: target.url for name, target in found.items()}


def test_names_that_the_library_has_not_go_and_public_ones_come(script: ModuleType) -> None:
    found = script.pytorch(
        targets("""
            torch.nn.parameter.Parameter class    a.html#torch.nn.parameter.Parameter
            torch.nn.functional.conv1d   function b.html
            torch.nn.functional.nonsense function c.html
        """)
    )
    assert urls(found) == {
        "torch.nn.parameter.Parameter": "a.html#torch.nn.parameter.Parameter",
        "torch.nn.Parameter": "a.html#torch.nn.parameter.Parameter",
        "torch.nn.functional.conv1d": "b.html",
        "torch.conv1d": "b.html",
    }


def test_names_that_need_no_import_belong_to_their_module(script: ModuleType) -> None:
    found = script.python(targets("len function f.html#len\nmath.sqrt function m.html#math.sqrt"))
    assert urls(found) == {"builtins.len": "f.html#len", "math.sqrt": "m.html#math.sqrt"}


def test_what_is_shipped_is_read_and_written_alike() -> None:
    for name in ADDRESSES:
        data = (DOCUMENTED / f"{name}.inv").read_bytes()
        known = read_inventory(data)
        again = read_inventory(inventory("Any", "1", known.values()))
        assert len(known) > 2000 and again == known
