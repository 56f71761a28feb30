import datetime
import xml.etree.ElementTree as ET

from pylit.site.feed import Entry, feed

ATOM = "{http://www.w3.org/2005/Atom}"
BASE = "https://example.org/nn/"


def entry(day: int, title: str) -> Entry:
    return Entry(datetime.date(2026, 1, day), title, "a < b & c", f"{BASE}{title}.html")


def test_a_feed_has_what_atom_requires_newest_first() -> None:
    root = ET.fromstring(feed(BASE, 'A "title"', "A summary", [entry(3, "old"), entry(9, "new")]))
    assert root.tag == ATOM + "feed"
    for required in ("id", "title", "updated", "author/" + ATOM + "name"):
        assert root.findtext(ATOM + required)
    assert root.findtext(ATOM + "updated") == "2026-01-09T00:00:00Z"
    entries = root.findall(ATOM + "entry")
    assert [e.findtext(ATOM + "title") for e in entries] == ["new", "old"]
    for e in entries:
        assert all(e.find(ATOM + tag) is not None for tag in ("id", "title", "updated", "link"))
        assert e.findtext(ATOM + "summary") == "a < b & c"


def test_two_pieces_of_news_about_one_page_have_two_identities() -> None:
    root = ET.fromstring(feed(BASE, "t", "s", [entry(3, "page"), entry(4, "page")]))
    identities = [e.findtext(ATOM + "id") for e in root.findall(ATOM + "entry")]
    assert len(set(identities)) == 2
