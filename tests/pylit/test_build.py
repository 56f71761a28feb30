"""What a build makes of a small site, what it makes again after an edit, and what it refuses."""

import shutil
import zipfile
from pathlib import Path

import pytest
from site_tools import (
    SITE,
    build,
    faults,
    make_site,
    options,
    pages,
    pages_cache,
    succeed,
    tree,
)

from pylit.pipeline.build import THEME, Builder
from pylit.site.write import MANIFEST


def edit(root: Path, name: str, old: str, new: str) -> None:
    path = root / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_site_has_a_page_for_every_source_and_the_files_around_them(tmp_path: Path) -> None:
    outcome = succeed(make_site(tmp_path))
    assert pages(tmp_path / "site") == {
        "index.html",
        "404.html",
        "all.html",
        "notes.html",
        "pkg/index.html",
        "pkg/one.html",
        "pkg/two.html",
    }
    beside = {"sitemap.xml", "feed.xml", "robots.txt", "objects.inv", ".nojekyll"}
    beside |= {"llms.txt", "notes.html.md", "assets/cards/pkg/one.png"}
    assert beside <= tree(tmp_path / "site").keys()
    with zipfile.ZipFile(tmp_path / "site/site.zip") as archive:
        assert {"site/index.html", "site/assets/site.css"} <= set(archive.namelist())
    assert "[two](pkg/two.html.md)" in (tmp_path / "site/notes.html.md").read_text()
    one = (tmp_path / "site/pkg/one.html.md").read_text()
    assert one.startswith("# The first\n\nNumber one.\n\nIt has $a + b$")
    assert "More than none.\n\n```python\nclass One:\n```\n" in one
    assert "small/pkg/one.html.md): Number one.\n" in (tmp_path / "site/llms.txt").read_text()
    assert (outcome.pages, outcome.tally.rendered) == (5, 5)


def test_what_pages_say_of_each_other(tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    home = (tmp_path / "site/index.html").read_text()
    one = (tmp_path / "site/pkg/one.html").read_text()
    notes = (tmp_path / "site/notes.html").read_text()
    two = (tmp_path / "site/pkg/two.html").read_text()
    assert 'href="pkg/one.html"' in home
    assert "The first" in home and "The first" in two
    assert 'href="pkg/one.html#One"' in notes and 'href="pkg/two.html"' in notes
    assert 'href="one.html#One.say"' in two
    assert 'id="One.say"' in one and 'id="what-is-one"' in one
    assert "<mjx-container" in one and "mjx-container" in notes


def test_a_second_build_makes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "site").rglob("*")}
    outcome = succeed(tmp_path)
    assert (outcome.tally.drafted, outcome.tally.rendered) == (0, 0)
    assert not outcome.written.written
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "site").rglob("*")} == before


def changed_by(root: Path, name: str, old: str, new: str) -> tuple[int, set[str]]:
    """How many pages an edit makes anew, and which ones come out different."""
    edit(root, name, old, new)
    outcome = succeed(root)
    written = {n for n in outcome.written.written if n.endswith(".html")}
    return outcome.tally.drafted, written


def test_an_edit_makes_its_page_and_no_other(tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    assert changed_by(tmp_path, "pkg/one.py", "with $c$", "with $d$") == (1, {"pkg/one.html"})
    assert changed_by(tmp_path, "pkg/one.py", "More than none", "Less than two") == (
        1,
        {"pkg/one.html"},
    )
    # Lines move, and nobody links to lines.
    assert changed_by(tmp_path, "pkg/one.py", "\n\n\nclass", "\n\n\n\nclass")[0] == 1


def test_an_author_sees_the_page_before_runs_and_search_are_done(tmp_path: Path) -> None:
    trace = (
        "import numpy as np\nfrom pkg.two import two\n\n\ndef trace_it(T):\n    two(np.ones(T))\n"
    )
    code = '"""Two."""\n\n\ndef two(x=1):\n    """Twice."""\n    return 2 * x\n'
    make_site(tmp_path, {"docs_src/traces/pkg/two.py": trace, "pkg/two.py": code})
    page, index = tmp_path / "site/pkg/two.html", tmp_path / "site/assets/search"
    seen: list[tuple[bool, bool, dict[str, str]]] = []

    def shown(_: object) -> None:
        text = page.read_text()
        seen.append(("Thrice" in text, "<samp" in text, tree(index)))

    with Builder(options(tmp_path, serving=True)) as builder:
        assert not builder.build().report.failed
        before = tree(index)
        edit(tmp_path, "pkg/two.py", "Twice", "Thrice")
        assert not builder.build(shown=shown).report.failed
        # Only a note was edited, so the shapes are known.
        assert seen.pop() == (True, True, before)
        assert tree(index) != before
        edit(tmp_path, "pkg/two.py", "2 * x", "3 * x")
        assert not builder.build(shown=shown).report.failed
    assert seen.pop()[:2] == (True, False)
    assert "<samp" in page.read_text()
    clean = make_site(tmp_path / "clean")
    for name in ("pkg/two.py", "docs_src/traces/pkg/two.py"):
        (clean / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / name, clean / name)
    succeed(clean)
    mine, theirs = tree(tmp_path / "site"), tree(clean / "site")
    changed = {name for name in mine | theirs if mine.get(name) != theirs.get(name)}
    assert changed <= {"site.zip", MANIFEST}


def test_an_edit_makes_the_pages_whose_links_it_changes(tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    edit(tmp_path, "docs_src/pages/notes.md", "`One`", "`One.say`")
    succeed(tmp_path)
    drafted, written = changed_by(tmp_path, "pkg/one.py", "say", "tell")
    assert (drafted, written) == (3, {"pkg/one.html", "pkg/two.html", "notes.html"})
    assert "#One.tell" not in (tmp_path / "site/pkg/two.html").read_text()


def test_a_new_title_reaches_neighbours_and_home_and_nobody_else(tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    drafted, written = changed_by(tmp_path, "pkg/one.py", "The first", "The very first")
    assert drafted == 1
    assert {"pkg/one.html", "pkg/two.html", "index.html"} <= written
    assert "notes.html" not in written


def test_a_new_module_answers_a_link_that_led_nowhere(tmp_path: Path) -> None:
    make_site(tmp_path)
    edit(tmp_path, "pkg/two.py", "Twice one", "Twice `Three`")
    succeed(tmp_path)
    assert "three.html" not in (tmp_path / "site/pkg/two.html").read_text()
    (tmp_path / "pkg/three.py").write_text("class Three:\n    pass\n")
    outcome = succeed(tmp_path)
    assert 'href="three.html#Three"' in (tmp_path / "site/pkg/two.html").read_text()
    assert outcome.tally.drafted == 2


def test_many_processes_make_the_same_site(tmp_path: Path) -> None:
    many = {
        f"pkg/m{i}.py": f'"""Module {i} with $x_{i}$."""\nfrom pkg.one import One\n'
        for i in range(9)
    }
    for name, jobs in (("one", 1), ("more", 3)):
        succeed(make_site(tmp_path / name, many), jobs=jobs)
    assert tree(tmp_path / "one/site") == tree(tmp_path / "more/site")


def test_a_damaged_cache_is_only_slower(tmp_path: Path) -> None:
    succeed(make_site(tmp_path))
    before = tree(tmp_path / "site")
    for path in pages_cache(tmp_path).iterdir():
        path.write_bytes(path.read_bytes()[:-7])
    outcome = succeed(tmp_path)
    assert outcome.tally.drafted == 5
    assert tree(tmp_path / "site") == before


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("pkg/bad.py", '"""\nA formula $\\nosuchmacro$.\n"""\n', ("pkg/bad.py", 2, "tex")),
        ("pkg/bad.py", '"""\n[x](nowhere.py)\n"""\n', ("pkg/bad.py", 2, "link-broken")),
        ("pkg/bad.py", '"""\n[x](one.py#Two)\n"""\n', ("pkg/bad.py", 2, "anchor-broken")),
        ("pkg/bad.py", '"""\n## A\n\n## A\n"""\n', ("pkg/bad.py", 4, "slug-duplicate")),
        ("pkg/bad.py", "def x(:\n", ("pkg/bad.py", 1, "syntax")),
        (
            "docs_src/pages/pkg/one.md",
            "# Mine\n",
            ("docs_src/pages/pkg/one.md", 0, "page-collision"),
        ),
        (
            "docs_src/site.toml",
            SITE.replace('"notes"', '"nodes"'),
            ("docs_src/site.toml", 13, "navigation"),
        ),
        ("docs_src/site.toml", SITE.replace('["pkg"]', '["pgk"]'), ("pgk", 0, "source-missing")),
    ],
)
def test_a_fault_is_reported_with_its_place_and_the_site_stays(
    tmp_path: Path, name: str, text: str, fault: tuple[str, int, str]
) -> None:
    succeed(make_site(tmp_path))
    before = tree(tmp_path / "site")
    outcome = build(make_site(tmp_path, {name: text}))
    found = [
        (f[0].rpartition("/")[2] if f[2] == "source-missing" else f[0], *f[1:])
        for f in faults(outcome)
    ]
    assert fault in found
    if fault[2] == "syntax":
        # A warning: the page shows the source as it stands.
        page = (tmp_path / "site/pkg/bad.html").read_text()
        assert not outcome.report.failed
        assert "cannot parse" in page and "line 1" in page
    else:
        assert outcome.report.failed
        assert tree(tmp_path / "site") == before


def test_all_faults_are_found_in_one_build_and_again_in_the_next(tmp_path: Path) -> None:
    bad = {
        "pkg/one.py": '"""$\\nosuchmacro$ and [x](none.py)"""\n',
        "pkg/two.py": '"""\n## A\n\n## A\n"""\n',
        "docs_src/pages/notes.md": "$x^{2$\n",
    }
    first = faults(build(make_site(tmp_path, bad)))
    assert {code for _, _, code in first} == {"tex", "link-broken", "slug-duplicate"}
    assert [line for _, line, _ in first] == [1, 1, 1, 4]
    assert [path for path, _, _ in first] == sorted(path for path, _, _ in first)
    assert faults(build(tmp_path)) == first
    assert not (tmp_path / "site").exists()


def test_checking_writes_nothing(tmp_path: Path) -> None:
    outcome = build(make_site(tmp_path), check=True)
    assert not len(outcome.report)
    assert not (tmp_path / "site").exists()


def test_a_folder_that_is_not_ours_is_refused_before_any_work(tmp_path: Path) -> None:
    make_site(tmp_path, {"site/thesis.tex": "years of work"})
    outcome = build(tmp_path)
    assert [code for _, _, code in faults(outcome)] == ["output"]
    assert outcome.tally.drafted == 0
    assert tree(tmp_path / "site").keys() == {"thesis.tex"}


def test_files_beside_the_markdown_pages_come_along(tmp_path: Path) -> None:
    succeed(
        make_site(tmp_path, {"docs_src/pages/img/a.svg": "<svg/>", "docs_src/pages/.hidden": "x"})
    )
    assert (tmp_path / "site/img/a.svg").read_text() == "<svg/>"
    assert not (tmp_path / "site/.hidden").exists()


def test_a_file_that_two_sources_hold_is_one_page(tmp_path: Path) -> None:
    make_site(tmp_path)
    outcome = build(tmp_path, sources=(tmp_path / "pkg", tmp_path / "pkg", tmp_path / "pkg/one.py"))
    assert not outcome.report.failed
    assert outcome.pages == build(tmp_path, sources=(tmp_path / "pkg",)).pages


def test_a_broken_template_is_a_fault_with_its_line(tmp_path: Path) -> None:
    theme = shutil.copytree(THEME, tmp_path / "theme")
    make_site(tmp_path)
    for wrong in ("{% if %}", "{{ no.such.thing }}", "{% include 'no.html' %}"):
        (theme / "module.html").write_text(f"fine\n{wrong}\n")
        outcome = build(tmp_path, theme=theme)
        assert faults(outcome) == [(str(theme / "module.html"), 2, "theme")], wrong
    assert not (tmp_path / "site").exists()
