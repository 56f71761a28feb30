"""Links over packages that nobody here wrote."""

import importlib
import re
from pathlib import Path

import pytest
from sweeps import swept

from pylit.diagnostics import Report
from pylit.source.discover import discover
from pylit.source.names import Index, Resolver, targets
from pylit.source.parse import parse_module

ABSENT = object()


@pytest.mark.parametrize("package", swept(["asyncio", "json", "torch.nn.modules"], "asyncio"))
def test_each_link_stands_on_a_name_and_leads_to_a_thing_that_exists(package):
    """What the resolver reads, Python can import: names under ``__name`` it mangles aside."""
    package = pytest.importorskip(package)
    sources = discover(Path(package.__file__).parent, own=False, report=Report())
    modules = [parse_module(source, Report()) for source in sources]
    known = {}
    for each in modules:
        known |= targets(each, f"{each.source.name}.html")
    index = Index(known)
    checked = 0
    for each in modules:
        lines = each.source.lines
        for (line, offset), link in Resolver(each, index.lookup).tokens().items():
            text = lines[line - 1]
            assert text[offset].isidentifier()
            assert offset == 0 or not text[offset - 1].isidentifier()
            place, _, anchor = link.url.partition("#")
            mangled = re.search(r"\.__\w+(?<!__)$", anchor)
            if link.external or re.fullmatch(r"L\d+", anchor) or "windows" in place or mangled:
                continue
            thing = importlib.import_module(place.removesuffix(".html"))
            for part in anchor.split(".") if anchor else ():
                thing = getattr(thing, part, ABSENT)
            assert thing is not ABSENT, (each.source.name, link)
            checked += 1
    assert checked > 20
