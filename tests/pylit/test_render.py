"""Templates filled in, and addresses as a page writes them."""

import json
from dataclasses import replace

import html5lib
import pytest
from page_tools import SITE, code, section, view

from pylit.addresses import relative
from pylit.model import CodeLine, DraftSection, Neighbours, NoteHtml, PageGroup, PageLink
from pylit.pages.navigation import Place
from pylit.pages.render import Renderer, arguments, indentation
from pylit.pages.rows import Block
from pylit.runs.shapes.lines import ModuleShapes
from pylit.site.options import THEME

RENDERER = Renderer((THEME,), SITE)


#: Of a page, the address of another one, and how the page writes it.
RELATIVE = """
a/b.html    a/b.html#x             #x
a/b.html    #x                     #x
a/b.html    a/b.html               b.html
a/b.html    a/c.html               c.html
a/b.html    index.html             ../index.html
a/b/c.html  a/index.html#Y.z       ../index.html#Y.z
index.html  a/b.html               a/b.html
index.html  assets/fonts/          assets/fonts/
a/b.html    https://pytorch.org/x  https://pytorch.org/x
a/b.html    //cdn/x                //cdn/x
a/b.html    mailto:a@b             mailto:a@b
index.html  sub/c:d.html           sub/c:d.html
sub/b.html  sub/1:d.html           ./1:d.html
"""


@pytest.mark.parametrize("line", RELATIVE.strip().split("\n"))
def test_relative(line):
    from_url, to_url, expected = line.split()
    assert relative(from_url, to_url) == expected
    assert relative(from_url, "") == ""


def test_text_is_escaped_and_html_is_not():
    page = RENDERER.page(view(title="A &amp; <em>B</em>"))
    assert "<title>A &amp; B · The &lt;site&gt;</title>" in page
    assert '<meta name="description" content="Say &#34;x&#34;.">' in page
    assert "<h1>A &amp; <em>B</em></h1>" in page
    assert "<h1>A &amp; B</h1>" in RENDERER.page(view())


def test_a_page_is_parsed_without_errors_whatever_is_given():
    link = PageLink("pkg/x.html", "X < Y")
    urls = ["https://github.com/s", "https://github.com/n", "https://colab.research.google.com/n"]
    crumbs = (("pkg", "pkg/index.html"), ("sub", ""), ("mod", ""))
    used = {"Thing": {"used_by": [("a.html#b", "b", "a.b")]}}
    compared = [("compare/a...b.html", "A < B", "")]
    full = view(
        summary="<p>S</p>",
        place=Place(crumbs, Neighbours(link, link, "Path"), *urls, used, compared=compared),
        front_matter={"paper": "https://arxiv.org/abs/1"},
        outline=((2, "Thing", "<code>Thing</code>"),),
        sections=(section("<p>n</p>", code(1), "Thing"), section("<p>m</p>"), section("", code(3))),
        shapes=ModuleShapes({1: "[T, B]"}, {1: 70}, frozenset({3})),
        import_line="import pkg",
        warning="Cannot be parsed.",
    )
    kinds = [view(f"{kind}.html", kind=kind) for kind in ("prose", "compare", "home", "missing")]
    for page in (full, view(), *kinds):
        html5lib.HTMLParser(strict=True).parse(RENDERER.page(page))


def test_what_a_page_tells_programs_is_absolute_and_short():
    made = view("pkg/index.html", card="assets/cards/pkg/index.png")
    sections = (DraftSection("", (NoteHtml("", text="word " * 1540),), ()),)
    text = replace(made.draft, summary="word " * 50, sections=sections)
    crumbs = Place((("pkg", "pkg/index.html"), ("mod", "")))
    page = RENDERER.page(replace(made, draft=text, place=crumbs))
    root = html5lib.parse(page, namespaceHTMLElements=False)
    meta = {m.get("property", m.get("name")): m.get("content") for m in root.iter("meta")}
    assert len(meta["description"]) <= 160 and meta["description"].endswith("word …")
    assert meta["og:url"] == "https://example.org/docs/pkg/"
    assert meta["og:image"] == "https://example.org/docs/assets/cards/pkg/index.png"
    data = json.loads(root.find(".//script[@type='application/ld+json']").text)
    article, trail = data["@graph"]
    assert (article["@type"], article["timeRequired"]) == ("TechArticle", "PT7M")
    steps = [(step["position"], step["name"]) for step in trail["itemListElement"]]
    assert steps == [(1, "The <site>"), (2, "pkg"), (3, "A & B")]
    assert "@misc{pkg,\n  title = {A &amp; B},\n  author = {{Authors of" in page


def test_the_home_page_shows_each_path_below_its_title():
    lesson = PageLink("a.html", "A (b)", demo="try-it", minutes=7)
    path = PageGroup("Path", "In order.", (lesson,), "You need sums.", anchor="first")
    brief = PageGroup("Others", "Many.", (PageLink("b.html", "B"),), brief=True, anchor="many")
    paths = (path, PageGroup("", "", (lesson,) * 2))
    site = replace(SITE, paths=paths, catalogue=(brief,), index="all.html")
    page = Renderer((THEME,), site).page(view("index.html", kind="home"))
    root = html5lib.parse(page, namespaceHTMLElements=False)

    def links(element):
        return [(a.text, a.get("href")) for a in element.iter("a")]

    # One way to begin, with its minutes, and what one must know.
    hero = next(h for h in root.iter("header") if "hero" in h.get("class"))
    assert links(hero) == [("Start: A, 7 min", "a.html"), ("All 3 lessons", "#first")]
    assert "You need sums." in [p.text for p in hero.iter("p")]
    # A group may be no more than its title, and leads to its list.
    more = next(d for d in root.iter("div") if d.get("class") == "more")
    assert links(more) == [("Others", "all.html#many")]
    shelves = [s for s in root.iter("section") if s.find("ol") is not None]
    shown = [(s.find("h2").text, s.findtext("p"), len(s.findall("ol/li"))) for s in shelves]
    assert shown == [("Path", "In order.", 1), (None, None, 2)]
    assert links(shelves[0]) == [("A", "a.html"), ("Try it", "a.html#try-it")]


def test_the_missing_page_finds_the_root_from_any_address():
    page = RENDERER.page(view("404.html", kind="missing"))
    assert '<base href="https://example.org/docs/">' in page and "canonical" not in page
    assert 'name="robots" content="noindex"' in page


def lines(*texts):
    return Block("", tuple(CodeLine(7 + i, text) for i, text in enumerate(texts)))


def test_a_phone_does_without_the_indentation_that_lines_share():
    short = lines("    <b>x</b> = 1", "", "        y = x &lt; 2")
    assert indentation([short]) == ' style="--in:4"'
    assert indentation([lines("x = 1", "    y")]) == ""
    # A long line goes on further in than it begins; one of the tags alone is not long.
    long = lines("    x", f"        {'z' * 60}")
    assert indentation([long]) == ' style="--in:4;--to:6"'
    assert indentation([lines(f"x = <a href='{'z' * 60}'>y</a>")]) == ""


def test_the_lines_of_arguments_and_where_a_signature_ends():
    shown = ("@once", "    def f(", "        x,", "        y=(1, 2),", "    ) -> int:")
    several = arguments(lines(*shown))
    assert list(several) == [9, 10] and several.stop == 11
    assert not arguments(lines("def f(x):", "    return x"))
    assert not arguments(lines("x = g(", ")"))
