import re
import xml.etree.ElementTree as ET
import zlib

from pylit.model import Definition, PageLink, Target
from pylit.outputs.indexes import robots, sitemap
from pylit.source.inventories import inventory

NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
#: How Sphinx reads a line (sphinx.util.inventory, format version 2).
LINE = re.compile(r"(.+?)\s+(\S+)\s+(-?\d+)\s+?(\S*)\s+(.*)")


def test_the_sitemap_lists_every_page_once_in_order_and_robots_name_it() -> None:
    base = "https://e.org/?a&b="
    root = ET.fromstring(sitemap(base, ["b/mha.html", "index.html", "b/index.html", "b/re.html"]))
    assert root.tag == NAMESPACE + "urlset"
    assert [child.tag for child in root] == [NAMESPACE + "url"] * 4
    found = [location.text for location in root.iter(NAMESPACE + "loc")]
    assert found == [base + page for page in ("b/", "b/mha.html", "b/re.html", "")]
    assert robots("") == b"User-agent: *\nAllow: /\n"
    assert robots(base) == robots("") + f"\nSitemap: {base}sitemap.xml\n".encode()


def decode(data: bytes) -> tuple[list[bytes], dict[str, str]]:
    """The header of an inventory, and its objects with their addresses and titles."""
    *header, body = data.split(b"\n", 4)
    objects = {}
    for line in zlib.decompress(body).decode().splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        name, role, _, address, shown = match.groups()
        address = address.removesuffix("$") + (name if address.endswith("$") else "")
        objects[f"{role} {name}"] = f"{address} {name if shown == '-' else shown}"
    return header, objects


def test_sphinx_finds_every_object() -> None:
    targets = [
        Target(Definition(kind, "pkg.mha", name, 3, ""), url)  # type: ignore[arg-type]
        for kind, name, url in (
            ("module", "", "pkg/mha.html"),
            ("class", "MHA", "pkg/mha.html#MHA"),
            ("method", "MHA.forward", "pkg/mha.html#MHA.forward"),
            ("function", "mask", "pkg/mha.html#mask"),
            ("constant", "SIZE", "pkg/mha.html#L7"),
        )
    ]
    pages = [PageLink("notation.html", "Shapes and symbols")]
    header, objects = decode(inventory("Two\nwords", "1.2", targets, pages))
    first = [b"# Sphinx inventory version 2", b"# Project: Two words", b"# Version: 1.2"]
    assert header[:3] == first and b"zlib" in header[3]
    assert objects == {
        "py:module pkg.mha": "pkg/mha.html pkg.mha",
        "py:class pkg.mha.MHA": "pkg/mha.html#MHA pkg.mha.MHA",
        "py:method pkg.mha.MHA.forward": "pkg/mha.html#MHA.forward pkg.mha.MHA.forward",
        "py:function pkg.mha.mask": "pkg/mha.html#mask pkg.mha.mask",
        "py:data pkg.mha.SIZE": "pkg/mha.html#L7 pkg.mha.SIZE",
        "std:doc notation": "notation.html Shapes and symbols",
    }
