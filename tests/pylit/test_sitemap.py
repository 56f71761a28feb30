import xml.etree.ElementTree as ET

from pylit.site.sitemap import robots, sitemap

NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


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
