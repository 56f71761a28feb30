"""Files of C++ beside the Python ones: their notes and code, their pages, and links to these."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pylit_sources import check_whole, golden_cases, source
from pylit_sources import listing as sections
from site_tools import FILES, build, faults, golden, listing, make_site, pages, read, succeed

from pylit.source.cpp import cpp_links, parse_cpp
from pylit.source.names import targets

KERNEL, LISTED = golden_cases("cpp")[0].values


def cpp(text):
    return parse_cpp(replace(source(text), name="pkg/twice.h", display="pkg/twice.h"))


def test_comments_with_lines_of_their_own_are_notes():
    assert sections(cpp(KERNEL)) == LISTED.rstrip("\n")


@pytest.mark.parametrize("text", ["", "\n", "int x;", "// a\n    // b\n// c\n", "//\n//\nint x;\n"])
def test_no_line_is_lost(text):
    check_whole(cpp(text))


def test_time_is_linear_in_the_names():
    module = cpp("int f(int x) { return f(x); }\n" * 8_000)
    known = targets(module, "twice.h.html")
    before = time.process_time()
    # All but that on the line of the definition itself.
    assert len(cpp_links(module.source, known.get)) == 2 * 7_999
    assert time.process_time() - before < 5


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with a header beside its modules, and a page that names it."""
    one = FILES["pkg/one.py"].replace("It has", "[Here](twice.h), or `twice.h`. It has")
    return make_site(tmp_path, {"pkg/twice.h": KERNEL, "pkg/one.py": one})


def test_it_has_a_page_that_notes_lead_to(site: Path):
    succeed(site)
    assert read(site, "pkg/one.html").count('href="twice.h.html"') == 2
    page = read(site, "pkg/twice.h.html")
    assert listing(page) == golden("header")
    assert "<title>Doubling" in page and '<span class="hk">static inline int</span>' in page
    build(site, sources=(site / "pkg",))
    assert "pkg/twice.h.html" not in pages(site / "site"), "another's package has Python alone"
    (site / "pkg/twice.h").write_bytes(b"// caf\xe9\nint x;\n")
    assert faults(build(site)) == [("pkg/twice.h", 1, "source-encoding")]


USE = """\
#include <vector>
#include "four.h"
struct Box { int twice; };
static int eight(Box twice, int x) {
    return twice.twice + ::twice(FOUR * x);  // twice(x)
}
int nine(Box box) { return eight(box, 1) + box.twice(2); } // "FOUR"
"""


def test_names_lead_to_definitions_and_includes_to_files(site: Path):
    four = '#include "twice.h"\nconstexpr int FOUR = 4;\n'
    files = {"pkg/deep/__init__.py": "\n", "pkg/four.h": four, "pkg/deep/use.cpp": USE}
    succeed(make_site(site, files | {"pkg/twice.h": KERNEL}))
    page = read(site, "pkg/deep/use.cpp.html")
    found = re.findall(r'<a class="x[^"]*" href="([^"]*)" data-x="[^"]*">(\w+)</a>', page)
    assert [f"{name} {href}" for href, name in found] == [
        "four ../four.h.html",
        "Box #L3",
        "twice ../twice.h.html#L10",
        "FOUR ../four.h.html#L2",
        "Box #L3",
        "eight #L4",
    ]
