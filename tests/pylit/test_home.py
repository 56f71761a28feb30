"""The home page shows a piece of a lesson, and each page says who wrote it."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

from page_tools import SITE, view
from site_tools import SITE as SETTINGS
from site_tools import build, edit, golden, listing, make_site, read, succeed

from pylit.config import load_config
from pylit.diagnostics import Report
from pylit.pages.render import Renderer
from pylit.site.options import THEME

EXCERPT = """
[[excerpt]]
page = "pkg.two"
lines = ["def two", "return 2"]
lit = "return 2"
"""
TWO = '''"""Two of a kind."""


def two(x=1):
    """Twice what is given."""
    # **Twice.** The *double* of `x`, see `One`.
    return 2 * x
'''
INDEX = "---\ntitle: Home\n---\n\nBelow it.\n\n## Use\n\nAfter all.\n"


def excerpted(tmp_path: Path, excerpt: str = EXCERPT) -> Path:
    files = {"docs_src/site.toml": SETTINGS + excerpt, "pkg/two.py": TWO}
    return make_site(tmp_path, files | {"docs_src/pages/index.md": INDEX})


def test_the_home_page_shows_lines_of_a_lesson_and_the_note_of_one(tmp_path: Path) -> None:
    root = excerpted(tmp_path)
    succeed(root)
    # Lines with the note of one, what the author says before the first heading, and no links.
    assert listing(read(root, "index.html")) == golden("home")
    # The page is made again when the lesson changes.
    edit(root, "pkg/two.py", "2 * x", "2 * x + 0")
    succeed(root)
    assert "> return 2 * x + 0" in listing(read(root, "index.html"))


def test_an_excerpt_of_what_is_not_there_is_a_fault(tmp_path: Path) -> None:
    for old, new, message in (
        ('"def two", ', '"def three", ', "no line with `def three`"),
        ('page = "pkg.two"', 'page = "pkg.tow"', "no page `pkg.tow`"),
    ):
        (fault,) = build(excerpted(tmp_path, EXCERPT.replace(old, new)), check=True).report
        assert fault.code == "navigation" and message in fault.message


def test_a_bar_that_leads_nowhere_is_a_fault(tmp_path: Path) -> None:
    text = SETTINGS.replace("[[group]]", 'bar = ["All", "notes", "nots"]\n\n[[group]]', 1)
    root = make_site(tmp_path, {"docs_src/site.toml": text})
    (fault,) = build(root).report
    assert "`nots`" in fault.message and "notes" in (fault.hint or "")
    edit(root, "docs_src/site.toml", ', "nots"', "")
    succeed(root)
    bar = re.findall(r'class="ends".*?</nav>', read(root, "index.html"), re.DOTALL)[0]
    assert re.findall('href="([^"]*)"', bar) == ["all.html#list-all", "notes.html"]


def test_what_needs_the_address_of_the_repository_is_there_with_it_and_not_before(tmp_path):
    settings = "docs_src/site.toml"
    line = 'install = "pip install git+{repository}"\n'
    succeed(make_site(tmp_path, {settings: line + SETTINGS}))
    page = read(tmp_path, "pkg/one.html")
    # The line that installs stands above the one that imports.
    lines = "pip install git+https://github.com/someone/small\nfrom pkg.one import One\n"
    assert lines in listing(page) and 'id="report"' in page
    edit(tmp_path, settings, 'repository = "someone/small"\n', "")
    succeed(tmp_path)
    page = read(tmp_path, "pkg/one.html")
    assert not [word for word in ("pip install", 'id="report"', "github") if word in page]


def test_a_project_signs_its_pages_without_a_setting(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "2"\nlicense = {text = "BSD"}\n'
        'authors = [{name = "Ada"}, {email = "b@c"}, {name = "Bo"}]\n'
        '[tool.pylit]\nsources = ["x"]\ninstall = "pip install x"\n'
    )

    def signed() -> tuple[str, ...]:
        config = load_config(tmp_path, Report())
        assert config
        return config.authors, config.license, config.version, config.date

    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert signed() == ("Ada, Bo", "BSD", "2", "")
    # The day is that of the last commit, so that the same sources give the same pages.
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2024-02-29T12:00:00")
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    assert signed()[3] == "2024-02-29"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert signed()[3] == "1970-01-02"


def test_a_citation_is_whole() -> None:
    signed = replace(SITE, authors="Ada", version="2", date="2024-02-29")
    page = Renderer((THEME,), signed).page(view("pkg/a.html"))
    entry = page.partition("@misc{")[2].partition("</code>")[0]
    found = dict(re.findall(r"(\w+) = \{+([^{}]+)", entry))
    assert (found["author"], found["year"]) == ("Ada", "2024")
    assert found["url"] == "https://example.org/docs/pkg/a.html"
    assert "version 2" in entry
