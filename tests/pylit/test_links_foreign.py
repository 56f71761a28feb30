"""Links and highlighting over packages that nobody here wrote."""

import asyncio
import importlib
import json
import re
from pathlib import Path

import pytest

from pylit.code.resolve import Resolver
from pylit.code.values import Index, targets
from pylit.diagnostics import Report
from pylit.model import SourceFile
from pylit.source.parse import parse_module

ABSENT = object()


def modules(folder: Path, package: str):
    found = []
    for path in sorted(folder.glob("*.py")):
        name = package if path.stem == "__init__" else f"{package}.{path.stem}"
        text = path.read_text(encoding="utf-8")
        source = SourceFile(path, name, path.name, path.stem == "__init__", False, text, "")
        found.append(parse_module(source, Report()))
    return found


def torch_modules():
    torch = pytest.importorskip("torch")
    return Path(torch.__file__).parent / "nn" / "modules", "torch.nn.modules"


@pytest.fixture(
    scope="module",
    params=[
        lambda: (Path(asyncio.__file__).parent, "asyncio"),
        lambda: (Path(json.__file__).parent, "json"),
        torch_modules,
    ],
    ids=["asyncio", "json", "torch"],
)
def linked(request):
    """Each module of a package with the links of its code."""
    parsed = modules(*request.param())
    known = {}
    for each in parsed:
        known.update(targets(each, f"{each.source.name}.html"))
    index = Index(known)
    return [(each, Resolver(each, index.lookup).tokens()) for each in parsed]


def test_each_link_stands_on_an_identifier(linked):
    for module, links in linked:
        lines = module.source.lines
        for line, offset in links:
            text = lines[line - 1]
            assert text[offset].isidentifier()
            assert offset == 0 or not text[offset - 1].isidentifier()


def test_each_link_leads_to_a_thing_that_exists(linked):
    """What the resolver reads, Python can import: names under ``__name`` it mangles aside."""
    checked = 0
    for module, links in linked:
        for link in links.values():
            place, _, anchor = link.url.partition("#")
            if link.external or re.fullmatch(r"L\d+", anchor) or "windows" in place:
                continue
            if re.search(r"\.__\w+(?<!__)$", anchor):
                continue
            thing = importlib.import_module(place.removesuffix(".html"))
            for part in anchor.split(".") if anchor else ():
                thing = getattr(thing, part, ABSENT)
            assert thing is not ABSENT, (module.source.name, link)
            checked += 1
    assert checked > 20
