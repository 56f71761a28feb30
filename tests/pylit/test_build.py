"""What a build makes of a small site, what it makes again after an edit, and what it refuses."""

import shutil
import zipfile
from pathlib import Path

from site_tools import SITE, build, edit, faults, make_site, options, pages, read, succeed, tree

from pylit.build import Builder
from pylit.site.options import THEME
from pylit.site.stages import draft_pages


def test_a_site_has_a_page_for_every_source_and_the_files_around_them(tmp_path: Path) -> None:
    beside = {"docs_src/pages/img/a.svg": "<svg/>", "docs_src/pages/.hidden": "x"}
    outcome = succeed(make_site(tmp_path, beside))
    site = tmp_path / "site"
    made = {"index.html", "notes.html", "pkg/index.html", "pkg/one.html", "pkg/two.html"}
    assert pages(site) == {"404.html", "all.html"} | made
    assert outcome.pages == len(made)
    files = "sitemap.xml robots.txt objects.inv .nojekyll llms.txt llms-full.txt notes.html.md"
    assert {*files.split(), "assets/cards/pkg/one.png", "img/a.svg"} <= tree(site).keys()
    assert ".hidden" not in tree(site)
    with zipfile.ZipFile(site / "site.zip") as archive:
        assert {"site/index.html", "site/assets/site.css"} <= set(archive.namelist())
    for name, texts in {
        "index.html": ['href="pkg/one.html"', "The first"],
        "notes.html": ['href="pkg/two.html"', "mjx-container", 'href="pkg/one.html#One"'],
        "pkg/one.html": ["<mjx-container", 'id="what-is-one"', 'id="One.say"'],
        "notes.html.md": ["[two](pkg/two.html.md)"],
        "pkg/one.html.md": ["# The first\n\nNumber one.\n\nIt has $a + b$", "```python\nclass"],
        # Pages of a reading path come first.
        "llms.txt": ["## The path", "small/pkg/one.html.md): Number one.\n", "## All"],
    }.items():
        places = [read(tmp_path, name).index(text) for text in texts]
        assert places == sorted(places), name


def test_an_edit_makes_what_it_concerns_and_nothing_else(tmp_path: Path) -> None:
    make_site(tmp_path)
    edit(tmp_path, "docs_src/pages/notes.md", "`One`", "`One.say`")
    edit(tmp_path, "pkg/two.py", "Twice one", "Twice `Three`")
    succeed(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "site").rglob("*")}
    again = succeed(tmp_path, check=True), succeed(tmp_path)
    assert [(o.drafted, o.rendered, o.written.written) for o in again] == [(0, 0, [])] * 2
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "site").rglob("*")} == before
    one, two, notes = "pkg/one.html", "pkg/two.html", "notes.html"
    for old, new, drafted, written in (
        ("with $c$", "with $d$", 1, {one}),
        ("More than none", "Less than two", 1, {one}),
        # Lines move, and nobody links to lines.
        ("\n\n\nclass", "\n\n\n\nclass", 1, {one}),
        ("say", "tell", 3, {one, two, notes}),
        # The menu of every page has the titles of the path.
        ("The first", "The very first", 1, pages(tmp_path / "site")),
    ):
        edit(tmp_path, "pkg/one.py", old, new)
        outcome = succeed(tmp_path)
        assert outcome.drafted == drafted, old
        changed = {name for name in outcome.written.written if name.endswith(".html")}
        assert changed == written, old
    # A new module answers a link that led nowhere.
    (tmp_path / "pkg/three.py").write_text("class Three:\n    pass\n")
    assert succeed(tmp_path).drafted == 2
    assert 'href="three.html#Three"' in read(tmp_path, two)


def test_an_author_sees_the_page_before_runs_and_search_are_done(tmp_path: Path) -> None:
    trace = "import numpy as np\nfrom pkg.two import two\n\ndef trace_it(T):\n    two(np.ones(T))\n"
    code = '"""Two."""\n\n\ndef two(x=1):\n    """Twice."""\n    return 2 * x\n'
    make_site(tmp_path, {"docs_src/traces/pkg/two.py": trace, "pkg/two.py": code})
    index = tmp_path / "site/assets/search"

    def shown() -> tuple[bool, bool]:
        text = read(tmp_path, "pkg/two.html")
        return "Thrice" in text, "<samp" in text

    with Builder(options(tmp_path, serving=True)) as builder:
        assert not builder.build().report.failed
        before = tree(index)
        edit(tmp_path, "pkg/two.py", "Twice", "Thrice")
        assert not builder.build(quick=True).report.failed
        # Only a note was edited, so the shapes are known.
        assert shown() == (True, True) and tree(index) == before
        assert not builder.build().report.failed
        assert tree(index) != before
        edit(tmp_path, "pkg/two.py", "2 * x", "3 * x")
        assert not builder.build(quick=True).report.failed
        assert shown() == (True, False)
        assert not builder.build().report.failed
        assert shown() == (True, True)


def test_processes_and_damage_leave_no_trace_in_the_site(tmp_path: Path) -> None:
    text = '"""Module {0} with $x_{0}$."""\nfrom pkg.one import One\n'
    many = {f"pkg/m{i}.py": text.format(i) for i in range(9)}
    one, more = (make_site(tmp_path / name, many) for name in ("one", "more"))
    succeed(one)
    succeed(more, jobs=3)
    assert tree(one / "site") == tree(more / "site")
    with Builder(options(one)) as builder:
        assert builder.cache.folder is not None
        for path in builder.cache.folder.iterdir():
            path.write_bytes(path.read_bytes()[:-7])
    again = succeed(one)
    assert again.drafted == again.pages
    assert tree(one / "site") == tree(more / "site")


def test_all_faults_are_found_in_one_build_and_again_in_the_next_and_the_site_stays(tmp_path: Path):
    succeed(make_site(tmp_path))
    before = tree(tmp_path / "site")
    toml, page = "docs_src/site.toml", "docs_src/pages/pkg/one.md"
    bad = {
        "pkg/one.py": '"""\n$\\nosuchmacro$ and [x](none.py)\nand [y](two.py#Two).\n"""\n',
        "pkg/two.py": '"""\n## A\n\n## A\n"""\n',
        "docs_src/pages/notes.md": "$x^{2$\n",
        page: "# Mine\n",
        toml: SITE.replace('"notes"', '"nodes"'),
    }
    make_site(tmp_path, bad)
    for _ in range(2):
        assert faults(build(tmp_path)) == [
            ("docs_src/pages/notes.md", 1, "tex"),
            (page, 0, "page-collision"),
            (toml, 14, "navigation"),
            ("pkg/one.py", 2, "tex"),
            ("pkg/one.py", 2, "link-broken"),
            ("pkg/one.py", 3, "anchor-broken"),
            ("pkg/two.py", 4, "slug-duplicate"),
        ]
    make_site(tmp_path, {toml: SITE.replace('["pkg"]', '["pgk"]')})
    assert (f"{tmp_path}/pgk", 0, "source-missing") in faults(build(tmp_path))
    assert tree(tmp_path / "site") == before


def test_a_folder_that_is_not_ours_is_refused_before_any_work(tmp_path: Path) -> None:
    make_site(tmp_path, {"site/thesis.tex": "years of work"})
    outcome = build(tmp_path)
    assert [code for _, _, code in faults(outcome)] == ["output"]
    assert outcome.drafted == 0
    assert tree(tmp_path / "site").keys() == {"thesis.tex"}


def test_without_the_drafts_that_wait_in_the_cache_there_is_no_site(tmp_path, monkeypatch):
    def emptied(site, *given):
        pairs = draft_pages(site, *given)
        shutil.rmtree(site.cache.folder)
        return pairs

    monkeypatch.setattr("pylit.build.draft_pages", emptied)
    outcome = build(make_site(tmp_path), sources=(tmp_path / "pkg",))
    assert ("cache", 0, "output") in faults(outcome)
    assert not (tmp_path / "site").exists()


def test_a_file_that_two_sources_hold_is_one_page(tmp_path: Path) -> None:
    make_site(tmp_path)
    package = tmp_path / "pkg"
    outcome = build(tmp_path, sources=(package, package, package / "one.py"), check=True)
    assert not outcome.report.failed and not (tmp_path / "site").exists()
    assert outcome.pages == build(tmp_path, sources=(package,)).pages


def test_a_broken_template_is_a_fault_with_its_line(tmp_path: Path) -> None:
    theme = shutil.copytree(THEME, tmp_path / "theme")
    make_site(tmp_path)
    for wrong in ("{% if %}", "{{ no.such.thing }}", "{% include 'no.html' %}"):
        (theme / "module.html").write_text(f"fine\n{wrong}\n")
        outcome = build(tmp_path, theme=theme)
        assert faults(outcome) == [(str(theme / "module.html"), 2, "theme")], wrong
    assert not (tmp_path / "site").exists()


def test_a_link_out_of_the_pages_is_not_published(tmp_path: Path) -> None:
    make_site(tmp_path)
    (tmp_path / "secret.txt").write_text("password")
    for name in ("leak.txt", "leak.md"):
        (tmp_path / "docs_src/pages" / name).symlink_to("../../secret.txt")
    (tmp_path / "docs_src/pages/alias.md").symlink_to("notes.md")
    outcome = build(tmp_path)
    leaks = ["docs_src/pages/leak.md", "docs_src/pages/leak.txt"]
    assert faults(outcome) == [(leak, 0, "source-link") for leak in leaks]
    assert outcome.report.failed
    for leak in leaks:
        (tmp_path / leak).unlink()
    assert not build(tmp_path).report.failed
    assert "alias.html" in pages(tmp_path / "site")
