import re
import xml.etree.ElementTree as ET
import zlib

from pylit.model import Definition, PageLink, Target
from pylit.outputs.indexes import robots, sitemap
from pylit.source.inventories import inventory

BASE = "https://example.org/nn/"
NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
#: How Sphinx reads a line (sphinx.util.inventory, format version 2).
LINE = re.compile(r"(.+?)\s+(\S+)\s+(-?\d+)\s+?(\S*)\s+(.*)")


def test_the_sitemap_lists_every_page_once_in_order() -> None:
    base = "https://e.org/?a&b="
    pages = ["b/mha.html", "index.html", "b/index.html", "b/reindex.html"]
    root = ET.fromstring(sitemap(base, pages))
    assert root.tag == NAMESPACE + "urlset"
    assert [child.tag for child in root] == [NAMESPACE + "url"] * 4
    found = [location.text for location in root.iter(NAMESPACE + "loc")]
    assert found == [base + page for page in ("b/", "b/mha.html", "b/reindex.html", "")]


def test_robots_name_the_sitemap_only_where_there_is_one() -> None:
    assert (
        robots("https://e.org/")
        == b"User-agent: *\nAllow: /\n\nSitemap: https://e.org/sitemap.xml\n"
    )
    assert b"Sitemap" not in robots("")


def target(kind: str, module: str, qualname: str, url: str) -> Target:
    definition = Definition(kind, module, qualname, 3, "")  # type: ignore[arg-type]
    return Target(definition, url)


def decode(data: bytes) -> tuple[list[bytes], dict[tuple[str, str], tuple[str, str]]]:
    *header, body = data.split(b"\n", 4)
    objects = {}
    for line in zlib.decompress(body).decode().splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        name, role, _, address, shown = match.groups()
        if address.endswith("$"):
            address = address[:-1] + name
        objects[role, name] = (address, name if shown == "-" else shown)
    return header, objects


def test_sphinx_finds_every_object() -> None:
    targets = [
        target("module", "pkg.mha", "", "pkg/mha.html"),
        target("class", "pkg.mha", "MHA", "pkg/mha.html#MHA"),
        target("method", "pkg.mha", "MHA.forward", "pkg/mha.html#MHA.forward"),
        target("function", "pkg.mha", "mask", "pkg/mha.html#mask"),
        target("constant", "pkg.mha", "SIZE", "pkg/mha.html#L7"),
    ]
    pages = [PageLink("notation.html", "Shapes and symbols")]
    data = inventory("Two\nwords", "1.2", targets, pages)
    header, objects = decode(data)
    assert header[0] == b"# Sphinx inventory version 2"
    assert header[1] == b"# Project: Two words"
    assert header[2] == b"# Version: 1.2"
    assert b"zlib" in header[3]
    assert objects == {
        ("py:module", "pkg.mha"): ("pkg/mha.html", "pkg.mha"),
        ("py:class", "pkg.mha.MHA"): ("pkg/mha.html#MHA", "pkg.mha.MHA"),
        ("py:method", "pkg.mha.MHA.forward"): ("pkg/mha.html#MHA.forward", "pkg.mha.MHA.forward"),
        ("py:function", "pkg.mha.mask"): ("pkg/mha.html#mask", "pkg.mha.mask"),
        ("py:data", "pkg.mha.SIZE"): ("pkg/mha.html#L7", "pkg.mha.SIZE"),
        ("std:doc", "notation"): ("notation.html", "Shapes and symbols"),
    }
