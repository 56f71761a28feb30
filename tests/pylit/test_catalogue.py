"""Addresses of pages, and the lists that lead to them."""

from dataclasses import replace

from pylit_sources import source

from pylit.addresses import PageAddresses, module_url, prose_url
from pylit.diagnostics import Report
from pylit.model import Draft, DraftSection, Heading, NoteHtml, PageGroup, PageLink, generated_page
from pylit.pages.navigation import neighbours, other_groups, package_menu, page_link


def draft(name: str, *, package: bool = False, empty: bool = False) -> Draft:
    """A page called as its module; one that is empty has no sections."""
    one = source("", name=name, package=package)
    drafted = generated_page(module_url(one), name, "", [NoteHtml("x")])[1]
    drafted = replace(drafted, name=name, display=one.display, prose=False)
    return replace(drafted, sections=()) if empty else drafted


def test_the_dotted_name_is_the_path_but_where_a_package_or_a_special_page_has_it() -> None:
    for name, url in {
        "pkg.mha": "pkg/mha.html",
        "pkg.index": "pkg/index.py.html",
        "pkg.Index": "pkg/Index.py.html",
        "404": "404.py.html",
        "pkg.404": "pkg/404.html",
    }.items():
        assert module_url(source("", name=name)) == url
    assert module_url(source("", name="pkg.sub", package=True)) == "pkg/sub/index.html"
    assert prose_url("guide/start") == "guide/start.html"


def test_an_address_belongs_to_one_source() -> None:
    report = Report()
    addresses = PageAddresses(report)
    claims = {"one": "a.html", "two": "a.html", "three": "A.html", "four": "b.html"}
    given = [name for name, url in claims.items() if addresses.claim(url, source("", name=name))]
    assert given == ["one", "three", "four"]
    collisions = [("three.py", "page-collision"), ("two.py", "page-collision")]
    assert [(d.path, d.code) for d in report] == collisions
    assert "`one.py`" in next(iter(report)).message


def names(groups: tuple[PageGroup, ...]) -> list[tuple[str, str]]:
    return [(group.title, " ".join(page.title for page in group.pages)) for group in groups]


def test_pages_that_no_group_names_are_grouped_by_their_folders() -> None:
    drafts = [draft("p", package=True), draft("p.x"), draft("p.a", package=True, empty=True)]
    drafts += [draft("p.a.one"), draft("p.a.deep", package=True), draft("p.a.deep.two")]
    drafts += [draft("p.b", package=True)]
    groups = [("p", "p p.x"), ("p.a", "p.a.one"), ("p.a.deep", "p.a.deep p.a.deep.two")]
    assert names(other_groups((), drafts)) == [*groups, ("p.b", "p.b")]
    # Packages come first, and what is private last.
    drafts = [draft("a.x"), draft("_q", package=True), draft("p._i"), draft("p.z")]
    drafts += [draft("p", package=True), draft("p._v.y"), draft("setup")]
    first = [("Other pages", "setup"), ("p", "p p.z p._i"), ("a", "a.x")]
    assert names(other_groups((), drafts)) == [*first, ("_q", "_q"), ("p/_v", "p._v.y")]
    # Empty packages and the home page are in no list.
    named = (PageGroup("g", "", (PageLink("p/a.html", "p.a"),)),)
    rest = other_groups(named, [draft("p.b"), draft("p.a"), draft("p", package=True, empty=True)])
    assert names(rest) == [("p", "p.b")]
    assert other_groups(named, [draft("p.a"), replace(draft("index"), url="index.html")]) == ()


def test_neighbours_are_those_of_the_first_group_that_has_the_page() -> None:
    a, b, c = (PageLink(f"{n}.html", n) for n in "abc")
    found = neighbours([PageGroup("path", "", (a, b))], [PageGroup("group", "", (c, b, a))])
    first, second, other = (found[f"{n}.html"] for n in "abc")
    assert (first.previous, first.next) == (None, b)
    assert (second.previous, second.next) == (a, None)
    assert (other.next, other.path_title) == (b, "group")
    # The pages of a path have numbers, and no others.
    numbers = [(each.number, each.total) for each in (first, second, other)]
    assert numbers == [(1, 2), (2, 2), (0, 0)]


def test_a_page_of_a_package_has_a_menu_of_what_is_around_it() -> None:
    drafts = [draft(name, package=True) for name in ("p", "p.a", "p.a.deep", "p.b", "p.b.far")]
    drafts += [draft("p.a.one"), draft("p.a.two"), draft("p.b.three")]
    # Titles may change; the menu has names.
    drafts = [replace(one, title=f"About {one.name}") for one in drafts]
    menu = package_menu("p/a/one.html", other_groups((), drafts))
    assert names(menu) == [("p.a", "a one two"), ("", "p p.a.deep p.b")]
    urls = [page.url for page in menu[1].pages]
    assert urls == ["p/index.html", "p/a/deep/index.html", "p/b/index.html"]


def test_a_link_knows_where_a_page_can_be_tried() -> None:
    plain = draft("pkg.a")
    note = NoteHtml("x", headings=(Heading(2, "try-it", "Try it", "Try it", 1),))
    lively = replace(plain, sections=(DraftSection("", (note,), ()),))
    assert (page_link(plain).demo, page_link(lively).demo) == ("", "try-it")
