"""Pages that compare two modules: what belongs together, and what is marked."""

import re
import shutil
from html import escape, unescape
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from site_tools import build, edit, figures, golden, listing, make_site, pages, read, succeed, tree

from pylit.pages.comparisons import Code, Hunk, Line, changes, hunks, marked, paired

PAGE = "compare/pkg.one...pkg.two.html"
ONE, TWO = golden("compared-one"), golden("compared-two")
FILES = {"pkg/one.py": ONE, "pkg/two.py": TWO}


def statements(text: str) -> list[list[Line]]:
    """Statements of one line each; a text of several lines is one statement."""
    return [[line(part) for part in one.split("\n")] for one in text.split("\n\n")]


def line(text: str) -> Line:
    tokens = tuple((match.start(), match[0]) for match in re.finditer(r"\w+|[^\w\s]", text))
    return Line(str(id(text)), escape(text), (), tokens)


def shown(found: list[Hunk]) -> list[tuple[str, list[str], list[str]]]:
    def texts(lines: list[Line]) -> list[str]:
        return [unescape(one.html) for one in lines]

    return [(hunk.how, texts(hunk.old), texts(hunk.new)) for hunk in found]


def code(**definitions: str) -> Code:
    """Code by definition, `__` for the point in a name."""
    return {"": []} | {n.replace("__", "."): statements(text) for n, text in definitions.items()}


def test_definitions_belong_together_by_choice_then_name_then_likeness():
    old = code(Cell="class Cell(Base)", Cell__step="h = f(x, h)", Cell__old="1 2", Twin="t = u + v")
    new = code(Other="t = u + v + w", Net="class Net(Base)", Net__step="step(x, h)", Net__new="4")
    pairs = [("Twin", "Other"), ("Cell", "Net"), ("Cell.step", "Net.step"), ("Cell.old", "")]
    assert paired(old, new, {"": ""}) == [*pairs, ("", "Net.new"), ("", "")]
    # Those that an author names come first, and are alone without the sign for all others.
    named = [("Cell", "Other"), ("Cell.step", ""), ("Cell.old", "")]
    assert paired(old, new, {"Other": "Cell"}) == named
    assert ("", "Net") in paired(old, new, {"Other": "Cell", "": ""})
    assert paired(old, new, {"Net.step": "Twin"}) == [("Twin", "Net.step")]
    # Of definitions that are alike, names decide. A class is no function.
    old = code(a_table="def f x + y", a_loop="def f x + y", Cache="class f x + y")
    new = code(b_loop="def f x + y", b_new="def f x + y", b_other="def f x + y")
    found = [("a_loop", "b_loop"), ("a_table", "b_new"), ("", "b_other"), ("Cache", ""), ("", "")]
    assert paired(old, new, {"": ""}) == found
    # What is inside a definition without a partner is not shown again.
    old = code(Gone="class Gone", Gone__step="y = 1")
    new = code(New="def a b c", New__step="x = 2")
    assert paired(old, new, {"": ""}) == [("", "New"), ("Gone", ""), ("", "")]


def test_lines_that_are_alike_stand_beside_each_other():
    old = statements("a = f(x)\n\n\n\nb = g(x, y)\n\nc = 1\n\nz.close()")
    new = statements("a = f(x)\n\nb = g(x, y, z)\n\nn.open(p)\n\nz.close()")
    assert shown(hunks(old, new)) == [
        ("same", ["a = f(x)"], ["a = f(x)"]),
        ("alone", [""], []),
        ("alike", ["b = g(x, y)"], ["b = g(x, y, z)"]),
        ("alone", ["c = 1"], ["n.open(p)"]),
        ("same", ["z.close()"], ["z.close()"]),
    ]


def test_other_line_breaks_are_no_change():
    old, new = statements("f(\na, b,\nc)\n\nx"), statements("f(a, b, c)\n\nx")
    assert [(how, len(a), len(b)) for how, a, b in shown(hunks(old, new))] == [
        ("same broken", 3, 1),
        ("same", 1, 1),
    ]
    # Of those that have several lines in both, each line has its counterpart.
    old, new = statements("f(\na=1,\nb=2,\n)"), statements("f(\na=1,\nc=3,\nb=2,\n)")
    assert [how for how, *_ in shown(hunks(old, new))] == ["same", "alone", "same"]


LINES = st.lists(
    st.sampled_from(["", "a", "a b", "a b c", "f(\na,\nb)", "f(a, b)", "x y z"]), max_size=9
)


@given(LINES, LINES)
def test_no_line_is_lost_and_none_comes_twice(one: list[str], other: list[str]):
    old, new = ([lines for text in side for lines in statements(text)] for side in (one, other))
    found = hunks(old, new)
    assert [one for hunk in found for one in hunk.old] == [one for lines in old for one in lines]
    assert [one for hunk in found for one in hunk.new] == [one for lines in new for one in lines]
    for hunk in found:
        words = [[word for one in side for _, word in one.tokens] for side in (hunk.old, hunk.new)]
        if hunk.how != "alone":
            assert hunk.how.startswith("same") == (words[0] == words[1])
            assert hunk.old and hunk.new


def test_definitions_of_thousands_of_lines_come_to_an_end():
    big = [[line(f"x{n}")] for n in range(3000)]
    assert [hunk.how for hunk in hunks(big, big)] == ["alone"]


def test_what_has_changed_is_marked():
    (old,), (new,) = statements("sums = (f(h) + g(x)).chunk(4)"), statements("h_r = f(h).chunk(3)")
    spans = changes(old, new)
    found = [
        re.findall(f"<{tag}>(.*?)</{tag}>", marked(one.html, part[one.number], tag))
        for (one,), part, tag in zip((old, new), spans, ("del", "ins"), strict=True)
    ]
    assert found == [["sums", "(", "+ g(x))", "4"], ["h_r", "3"]]


@given(
    st.text("ab<>&\"' =", max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)))
)
def test_marks_change_no_text_and_leave_elements_whole(text: str, spans: list[tuple[int, int]]):
    html = f'<a href="x">{escape(text, quote=False)}</a>{escape(text[::-1], quote=False)}'
    found = marked(html, spans, "ins")
    assert re.sub("</?ins>", "", found) == html
    assert not re.search("<ins>[^<]*</?a", found)


def code_lines(page: str, module: str) -> list[int]:
    """The numbers of the lines of a module that a page shows."""
    link = rf'id="L(\d+)"|{module}.html#L(\d+)" tabindex'
    return sorted(int(one or other) for one, other in re.findall(link, page))


def test_a_page_shows_both_modules_side_by_side_and_is_named_where_they_are(tmp_path: Path):
    succeed(make_site(tmp_path, FILES))
    page = read(tmp_path, PAGE)
    assert listing(page) == golden("compared")
    # Of a note that both have, one is enough.
    assert 'href="../pkg/one.html#one-step"' not in page
    for name in ("one", "two"):
        link = f'<a href="../{PAGE}">One and Two compared</a>'
        assert link in read(tmp_path, f"pkg/{name}.html")
    assert PAGE not in read(tmp_path, "pkg/index.html")
    assert f"https://example.org/small/{PAGE}" in read(tmp_path, "sitemap.xml")
    assert any(PAGE in path.read_text() for path in tmp_path.rglob("texts-*.js"))
    assert "compare.css" in page and "compare.css" not in read(tmp_path, "pkg/one.html")


def test_after_edits_it_is_that_of_a_clean_build(tmp_path: Path):
    root = make_site(tmp_path / "root", FILES | {"pkg/far.py": '"""Far."""\n'})
    succeed(root)
    before = tree(root / "site")[PAGE]
    edit(root, "pkg/far.py", "Far", "Near")
    assert succeed(root).rendered < 5 and tree(root / "site")[PAGE] == before
    for name, old, new in (
        ("one", "h = self.scale(h)", "h = self.shift(h)"),
        ("one", "Only here is", "In this module is"),
        ("two", "class TwoCell", "class ThreeCell"),
        ("two", "compare: pkg.one\n", "compare: pkg.one(OneCell=ThreeCell)\n"),
        ("two", 'title: "Two: the second"', "title: Last"),
    ):
        edit(root, f"pkg/{name}.py", old, new)
        succeed(root)
        after = tree(root / "site")[PAGE]
        assert after != before, new
        before = after
    ignored = shutil.ignore_patterns("site", ".cache")
    clean = shutil.copytree(root, tmp_path / "clean", ignore=ignored)
    succeed(clean)
    assert tree(root / "site") == tree(clean / "site")
    edit(root, "pkg/two.py", "compare: pkg.one(OneCell=ThreeCell)\n", "")
    succeed(root)
    assert PAGE not in pages(root / "site")


def test_definitions_of_one_module_are_compared(tmp_path: Path):
    text = TWO.replace("pkg.one", "pkg.two(TwoCell.step=TwoCell.same, added)")
    succeed(make_site(tmp_path, FILES | {"pkg/two.py": text}))
    page = listing(read(tmp_path, "compare/pkg.two...pkg.two.html"))
    assert page.startswith("TwoCell.step and TwoCell.same compared\n")
    heads = re.findall("^== (.*?):", page, re.MULTILINE)
    assert heads == ["added", "TwoCell.step-TwoCell.same"]


#: What the front matter of a module `pkg.me` says, the word that is wrong, and why.
FAULTS = [
    ("pkg.on", "pkg.on", "there is no module `pkg.on`", "did you mean `pkg.one`?"),
    ("notes", "notes", "there is no module `notes`", "package.module"),
    ("pkg.one pkg.one(OneCell)", "pkg.one", "`pkg.one` is compared twice", "one list"),
    ("pkg.me", "pkg.me", "`pkg.me` is compared with itself", "pkg.me(Old=New)"),
    ("pkg.me(added)", "pkg.me", "`pkg.me` is compared with itself", "pkg.me(Old=New)"),
    ("pkg.one(OneCel=TwoCell)", "OneCel", "`pkg.one` does not define `OneCel`", "`OneCell`"),
    ("pkg.one(OneCell=TwoCel)", "TwoCel", "`pkg.me` does not define `TwoCel`", "`TwoCell`"),
    ("pkg.one(OneCell=TwoCell", "compare", "`compare` is `pkg.one(OneCell=TwoCell`", "Old=New"),
    ("a" * 200 + ")", "compare", "`compare` is `aaa", "Old=New"),
]


def test_what_cannot_be_compared_is_a_fault_at_its_word(tmp_path: Path):
    for value, word, message, hint in FAULTS:
        make_site(tmp_path, {"pkg/one.py": ONE, "pkg/me.py": TWO.replace("pkg.one", value)})
        (fault,) = build(tmp_path, check=True).report
        column = f"compare: {value}".index(word, 9 if word != "compare" else 0) + 1
        place = ("pkg/me.py", 4, column, "front-matter")
        assert (fault.path, fault.line, fault.column, fault.code) == place, value
        assert message in fault.message and hint in fault.hint, value
    # A page without code cannot be compared.
    notes = "---\ntitle: Notes\ncompare: pkg.one\n---\n\nText.\n"
    make_site(tmp_path, {"docs_src/pages/notes.md": notes, "pkg/me.py": TWO})
    (fault,) = build(tmp_path, check=True).report
    assert (fault.path, fault.line) == ("docs_src/pages/notes.md", 3)
    assert "in a module" in fault.hint


def test_odd_code_is_compared_and_other_packages_are_not(tmp_path: Path):
    odd = {
        "pkg/one.py": "def f(:\n    return '('\n",
        "pkg/two.py": '"""\n---\ntitle: "<Two>"\ncompare: pkg.one\n---\n"""\n\n'
        "x = '([{'  # )\n\ny = '''\n(\n'''\n\n\n"
        "def search(a, /, *, b=')'):\n\treturn a\n\n\ndef search(a):\n    return b''\n",
    }
    assert {fault.code for fault in build(make_site(tmp_path, odd)).report} <= {"syntax"}
    page, lesson = read(tmp_path, PAGE), read(tmp_path, "pkg/two.html")
    assert code_lines(page, "two") == code_lines(lesson, "")
    assert '<h2 id="search"' not in page
    build(tmp_path, sources=(tmp_path / "pkg",), out=tmp_path / "other")
    assert not [name for name in pages(tmp_path / "other") if name.startswith("compare/")]


def test_the_first_pictures_of_both_stand_at_the_head_or_none(tmp_path: Path):
    one = ONE.replace("It has *one*.", "It has *one*.\n\n![One.](figure:drawn.one)")
    drawn = figures(one="The first.", two="The second.")
    succeed(make_site(tmp_path, FILES | {"pkg/one.py": one, "docs_src/figures/drawn.py": drawn}))
    assert "<figure" not in read(tmp_path, PAGE)
    edit(tmp_path, "pkg/two.py", '---\n"""', '---\n\n![Two.](figure:drawn.two)\n"""')
    succeed(tmp_path)
    page = read(tmp_path, PAGE)
    both = page.partition('<div class="both">')[2].partition('<section class="pair">')[0]
    order = ['"The first."', 'class="a"', '"The second."', 'class="b"']
    assert both.count("<figure") == 2
    assert sorted(order, key=both.index) == order
