"""Whole sites of packages that nobody here wrote: no crash, no lost line, and links lead on."""

import asyncio
import html
import importlib
import json
import re
from pathlib import Path

import pytest
import torch
from site_tools import CACHE, REPOSITORY, build, pages, tree
from sweeps import swept

from pylit.addresses import module_url
from pylit.diagnostics import Report, Severity
from pylit.model import Module
from pylit.source.discover import discover
from pylit.source.names import Index, Resolver, targets
from pylit.source.parse import parse_module

LINE = re.compile(r'<i class="n" id="L(\d+)"></i>(.*?)(?=\n<i class="n"|</code>)', re.DOTALL)
TAG = re.compile(r"<[^>]*>")
WORD = re.compile(r"[A-Za-z]{4,}")
#: Images from elsewhere are not fetched, so their addresses are not kept.
ADDRESS = re.compile(r"\]\([^)]*\)")
#: Names of roles and fields, what roles link to, and directives with what they say to Sphinx.
MARK = re.compile(r":[a-z:]+(?=[ :]|:`)|<[^<>`]*>(?=`)|^ *\.\. .*|^ *:[a-z]+:.*$", re.MULTILINE)


#: Packages, and how many modules they have at least.
PACKAGES = {
    "labml_nn.transformers": (REPOSITORY / ".cache/oracle/labml_nn/transformers", 65),
    "torch.nn.modules": (Path(torch.nn.modules.__file__).parent, 20),
    "asyncio": (Path(asyncio.__file__).parent, 20),
    "json": (Path(json.__file__).parent, 4),
}


def parsed(source: Path) -> list[Module]:
    return [parse_module(s, Report()) for s in discover(source, own=False, report=Report())]


@pytest.mark.parametrize("name", swept(PACKAGES, "asyncio"))
def test_a_foreign_package_becomes_a_site_with_every_line_of_it(name: str, tmp_path: Path) -> None:
    source, least = PACKAGES[name]
    if not source.is_dir():
        pytest.skip(f"{source} is not installed; `make install` does it")
    outcome = build(REPOSITORY, sources=(source,), out=tmp_path / "out", cache=CACHE, jobs=2)
    assert not [d for d in outcome.report if d.severity is Severity.ERROR]
    modules = parsed(source)
    assert len(modules) >= least
    expected = {module_url(module.source): module for module in modules}
    assert pages(tmp_path / "out") == {*expected, "index.html", "404.html"}
    for url, module in expected.items():
        check_page((tmp_path / "out" / url).read_text(encoding="utf-8"), module)
    home = (tmp_path / "out/index.html").read_text(encoding="utf-8")
    assert not [url for url, m in expected.items() if f'"{url}"' not in home and m.sections]
    assert "sitemap.xml" not in tree(tmp_path / "out"), "a site without an address has no sitemap"


def check_page(page: str, module: Module) -> None:
    """Every line is code on the page, exactly as it stands, or part of a note; never both.

    Every word of every note without mathematics is there, addresses and marks aside.
    """
    source = module.source
    code = {}
    for number, shown in LINE.findall(page):
        assert int(number) not in code, f"{source.display}:{number} is on its page twice"
        code[int(number)] = html.unescape(TAG.sub("", shown))
    words = set(WORD.findall(html.unescape(page)))
    noted: set[int] = set()
    for note in (note for section in module.sections for note in section.notes):
        lines = set(range(note.span.first, note.span.last + 1))
        assert not lines & (noted | code.keys())
        noted |= lines
        if "$" not in note.text and "\\" not in note.text:
            written = set(WORD.findall(MARK.sub("", ADDRESS.sub("]", note.text))))
            assert written <= words, f"{source.display} {note.span}"
    for number, line in enumerate(source.lines, start=1):
        if number in code:
            # HTML has no null, and a browser would turn a lone carriage return into a line's end.
            assert code[number] == line.replace("\0", "\u2400")
        else:
            assert number in noted or not line.strip(), f"{source.display}:{number} is lost"


@pytest.mark.parametrize("name", swept(["asyncio", "json", "torch.nn.modules"], "asyncio"))
def test_each_link_stands_on_a_name_and_leads_to_a_thing_that_exists(name: str) -> None:
    """What the resolver reads, Python can import: names under ``__name`` it mangles aside."""
    modules = parsed(PACKAGES[name][0])
    known = {}
    for each in modules:
        known |= targets(each, f"{each.source.name}.html")
    index = Index(known)
    checked = 0
    for each in modules:
        for (line, offset), link in Resolver(each, index.lookup).tokens().items():
            text = each.source.lines[line - 1]
            assert text[offset].isidentifier()
            assert offset == 0 or not text[offset - 1].isidentifier()
            place, _, anchor = link.url.partition("#")
            mangled = re.search(r"\.__\w+(?<!__)$", anchor)
            if link.external or re.fullmatch(r"L\d+", anchor) or "windows" in place or mangled:
                continue
            thing = importlib.import_module(place.removesuffix(".html"))
            for part in anchor.split(".") if anchor else ():
                assert hasattr(thing, part), (each.source.name, link)
                thing = getattr(thing, part)
            checked += 1
    assert checked > 20
