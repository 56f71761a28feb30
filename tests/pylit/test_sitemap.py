import xml.etree.ElementTree as ET

from pylit.page.render import canonical
from pylit.site.sitemap import robots, sitemap

NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


def test_the_sitemap_lists_every_page_once_in_order() -> None:
    root = ET.fromstring(
        sitemap("https://example.org/nn/", ["b/mha.html", "index.html", "b/index.html"])
    )
    assert root.tag == NAMESPACE + "urlset"
    assert [child.tag for child in root] == [NAMESPACE + "url"] * 3
    assert [location.text for location in root.iter(NAMESPACE + "loc")] == [
        "https://example.org/nn/b/",
        "https://example.org/nn/b/mha.html",
        "https://example.org/nn/",
    ]


def test_addresses_are_escaped() -> None:
    root = ET.fromstring(sitemap("https://example.org/?a&b=", ["x.html"]))
    assert root[0][0].text == "https://example.org/?a&b=x.html"


def test_only_whole_names_are_folders() -> None:
    assert canonical("https://e.org/", "a/reindex.html") == "https://e.org/a/reindex.html"


def test_robots_name_the_sitemap_only_where_there_is_one() -> None:
    assert (
        robots("https://e.org/")
        == b"User-agent: *\nAllow: /\n\nSitemap: https://e.org/sitemap.xml\n"
    )
    assert b"Sitemap" not in robots("")
