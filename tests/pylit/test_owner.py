"""What the owner of a project finds: README, metadata, colour, logo, links to other projects."""

import html
import http.server
import re
import shutil
import threading
from functools import partial
from pathlib import Path

import pytest
import yaml
from pylit_sources import parse
from site_tools import SITE, build, cache, make_site, read, succeed

from pylit.addresses import Anchors, github_slug
from pylit.cli import main
from pylit.config import has_settings
from pylit.diagnostics import Severity
from pylit.model import Definition, Target
from pylit.outputs.assets import accent_rule, contrast
from pylit.scaffold import init_workflow
from pylit.site.readme import for_pages
from pylit.source.inventories import _answer, inventory

READMES = Path(__file__).parent / "golden/readme"
PYPROJECT = """\
[project]
name = "Great"
version = "2.1"
description = "It is great."
urls.Source = "https://github.com/some/one"

[tool.pylit]
sources = ["pkg"]
"""
README = (READMES / "badges.md").read_text(encoding="utf-8")
#: No settings, and no pages beside the modules.
BARE = {f"docs_src/{name}": "" for name in ("site.toml", "pages/index.md", "pages/notes.md")}
SETTINGS = BARE | {"docs_src/site.toml": 'title = "T"\nsources = ["pkg"]\n'}


def test_settings_in_pyproject_and_metadata_and_a_readme_make_a_site(tmp_path):
    changes = "# Changelog\n\n## 2.1\n\n- It is [greater](docs/guide.md).\n"
    files = {"pyproject.toml": PYPROJECT, "README.md": README, "CHANGELOG.md": changes}
    succeed(make_site(tmp_path, BARE | files))
    guide = 'href="https://github.com/some/one/blob/main/docs/guide.md"'
    home = read(tmp_path, "index.html")
    assert "<title>Great</title>" in home and "It is great." in home and guide in home
    assert home.index("See ") < home.index('id="pages"') < home.index('href="pkg/one.html"')
    assert "<img" not in home and "example.org/logo" not in home
    assert b"# Version: 2.1\n" in (tmp_path / "site/objects.inv").read_bytes()
    notes = read(tmp_path, "llms-full.txt")
    assert "More than none." in notes and "class One" not in notes
    # A changelog is a page that the footer leads to.
    page = read(tmp_path, "changelog.html")
    assert "<title>Changelog · Great</title>" in page and "It is" in page and guide in page
    assert '<a href="../changelog.html">Changelog</a>' in read(tmp_path, "pkg/one.html")
    (tmp_path / "README.md").rename(tmp_path / "README.rst")
    (tmp_path / "CHANGELOG.md").unlink()
    succeed(tmp_path)
    assert 'id="pages"' not in read(tmp_path, "index.html")
    assert "changelog.html" not in read(tmp_path, "pkg/one.html")


def test_a_stranger_s_metadata_and_readme_stop_no_build_and_leak_nothing(tmp_path):
    make_site(tmp_path / "repo", BARE | {"pyproject.toml": "tool = 1\nproject = [1]\n"})
    (tmp_path / "secret").write_text("password\n")
    assert not has_settings(tmp_path / "repo")
    succeed(tmp_path, sources=(tmp_path / "repo",))
    toml = "[project]\nname = 3\nurls.Source = 1\n[tool]\nother = 2\n"
    (tmp_path / "repo/pyproject.toml").write_text(toml)
    (tmp_path / "repo/README.md").symlink_to("../secret")
    (fault,) = build(tmp_path, sources=(tmp_path / "repo",)).report
    assert (fault.path, fault.code) == ("README.md", "source-link")
    assert "password" not in read(tmp_path, "index.html")


def test_settings_in_two_places_are_an_error(tmp_path):
    (fault,) = build(make_site(tmp_path, {"pyproject.toml": PYPROJECT})).report
    assert "[tool.pylit] too" in fault.message and fault.hint == "keep one of the two"


@pytest.mark.parametrize(
    ("table", "line", "said"),
    [
        ("sorces = []", 3, "unknown key `sorces`"),
        ('readme = "none.md"', 0, "`readme` is 'none.md'"),
        ('logo = "../logo.svg"', 0, "`logo` is '../logo.svg'"),
        ('accent = "red"', 3, "`accent` is 'red'"),
        ("[[tool.pylit.path]]\npages = []\n[other]", 3, "`title` is missing"),
        ("x =", 3, "cannot be read"),
    ],
)
def test_what_is_wrong_in_pyproject_is_said(tmp_path, table, line, said):
    text = f'[tool.pylit]\nsources = ["pkg"]\n{table}\n[project]\nname = "T"\n'
    make_site(tmp_path, BARE | {"pyproject.toml": text})
    (tmp_path.parent / "logo.svg").write_text("<svg/>")
    found = [(d.path, d.line, d.code) for d in build(tmp_path).report if d.message.startswith(said)]
    assert found == [("pyproject.toml", line, "config")]


def test_a_readme_keeps_its_lines_its_words_and_its_code():
    shown = for_pages(README, "")
    assert shown.count("\n") == README.count("\n")
    assert "\n[Home](https://example.org)\n" in shown and "\n# Great\n" in shown
    assert "See the guide, code, `<b>` and <https://example.org>." in shown
    assert "<b>kept</b> ![kept](x.png)" in shown
    assert not any(name in shown for name in ("logo.png", "b.svg", "y.png"))
    for tags in ("<!--" * 50_000, "<a href=" * 20_000):
        assert for_pages(tags, "") == tags, "and takes no time for it"


def test_a_logo_and_an_accent_are_on_every_page(tmp_path):
    toml = SETTINGS["docs_src/site.toml"] + 'logo = "art/logo.svg"\naccent = "#ff8800"\n'
    make_site(tmp_path, {"docs_src/site.toml": toml, "art/logo.svg": "<svg/>"})
    succeed(tmp_path)
    page = read(tmp_path, "pkg/one.html")
    assert 'src="../assets/logo.svg"' in page and 'rel="icon" href="../assets/logo.svg"' in page
    assert accent_rule("#ff8800") in page
    assert read(tmp_path, "assets/logo.svg") == "<svg/>"


@pytest.mark.parametrize("colour", ["#ffff00", "#000000", "#7a1f5c", "#808080", "#ffffff"])
def test_an_accent_can_be_read_in_both_themes(colour):
    light, dark = accent_rule(colour).split("light-dark(")[1].rstrip(")}").split(",")
    for ground in ("#ffffff", "#f6f8fa", "#e4eefb", "#d3e4fa"):
        assert contrast(light, ground) >= 4.5
    for ground in ("#14171c", "#1b1f26", "#202c3c", "#253c57"):
        assert contrast(dark, ground) >= 4.5


def test_what_is_private_comes_last_and_is_imported_from_where_it_is_public(tmp_path):
    files = {
        "pkg/__init__.py": '"""The package."""\nfrom pkg._impl import Thing as Thing\n',
        "pkg/_impl.py": '"""How."""\nclass Thing: ...\nclass Other: ...\n',
        "pkg/two.py": '__all__ = ["Shown"]\n\n\nclass Shown: ...\n\n\nclass Other: ...\n',
    }
    succeed(make_site(tmp_path, SETTINGS | files))
    home = read(tmp_path, "index.html").partition("<main")[2]
    names = ("pkg/index.html", "pkg/one.html", "pkg/two.html", "pkg/_impl.html")
    places = [home.index(f'href="{name}"') for name in names]
    assert places == sorted(places)
    assert "<code>from pkg import Thing</code>" in read(tmp_path, "pkg/_impl.html")
    # What `__all__` leaves out is not imported, and the outline is of what is for users.
    page = read(tmp_path, "pkg/two.html")
    assert "<code>from pkg.two import Shown</code>" in page
    assert '<a href="#Shown">' in page and '<a href="#Other">' not in page


def test_names_of_other_projects_are_links(tmp_path, monkeypatch):
    definition = Definition("class", "numpy", "ndarray", 1, "")
    data = inventory("numpy", "2", [Target(definition, "arrays.html#numpy.ndarray")], ())
    for name in ("objects.inv", "numpy.inv"):
        (tmp_path / name).write_bytes(data)
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, *_):
            asked.append(self.path)

    monkeypatch.setenv("PYLIT_CACHE", str(tmp_path / "user"))
    link = 'href="{}arrays.html#numpy.ndarray"'
    module = '"""An array is `numpy.ndarray`."""\n\nimport numpy\n\nx: numpy.ndarray\n'
    settings = 'title = "T"\nsources = ["pkg"]\ninventories = ["{}"]\n'
    place = ("127.0.0.1", 0)
    with http.server.ThreadingHTTPServer(place, partial(Handler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        files = {"pkg/two.py": module, "docs_src/site.toml": settings.format(address)}
        succeed(make_site(tmp_path, files))
        assert read(tmp_path, "pkg/two.html").count(link.format(address)) == 2
        _answer.cache_clear()
        succeed(tmp_path)
        server.shutdown()
    assert asked == ["/objects.inv"], "it is fetched once"
    copied = settings.format("https://numpy.example/ numpy.inv")
    (tmp_path / "docs_src/site.toml").write_text(copied)
    succeed(tmp_path)
    assert link.format("https://numpy.example/") in read(tmp_path, "pkg/two.html")


def test_inventories_that_cannot_be_read_are_a_warning_each(tmp_path, monkeypatch):
    monkeypatch.setenv("PYLIT_CACHE", str(tmp_path))
    wanted = ["http://127.0.0.1:9/", "file:///etc/", "https://a.b/ none.inv"]
    bad = b"", b"<html>", b"# Sphinx inventory version 2\n\n\n\nnot compressed"
    for number, data in enumerate(bad):
        (tmp_path / f"bad{number}.inv").write_bytes(data)
        wanted.append(f"https://a{number}.b/ bad{number}.inv")
    make_site(tmp_path, {"docs_src/site.toml": f"inventories = {wanted}\n{SITE}"})
    report = build(tmp_path).report
    assert [(d.code, d.severity) for d in report] == [("inventory", Severity.WARNING)] * 6
    assert (tmp_path / "site/index.html").is_file()


def test_strict_writes_the_site_and_fails_on_a_warning(tmp_path, monkeypatch):
    make_site(tmp_path, BARE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg/bad.py").write_text('"""A formula, $\\nosuch$."""\n')
    arguments = ["build", "pkg", "--cache", str(cache(tmp_path))]
    assert main([*arguments, "--out", "a"]) == 0
    assert main([*arguments, "--out", "b", "--check"]) == 1
    assert main([*arguments, "--out", "c", "--strict"]) == 1
    assert not (tmp_path / "b").exists() and (tmp_path / "c/pkg/bad.html").is_file()


def test_a_project_is_begun_with_its_own_words(tmp_path, monkeypatch, capsys):
    metadata = PYPROJECT.partition("[tool")[0]
    make_site(tmp_path, BARE | {"pyproject.toml": metadata, "pkg/tests/test_x.py": "x = 1\n"})
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 2
    assert "name a package" in capsys.readouterr().err
    assert main(["init", "pkg", "--github"]) == 0
    written = (tmp_path / "docs_src/site.toml").read_text()
    assert 'title = "Great"\nsummary = "It is great."' in written and '["tests"]' in written
    assert main(["new", "pkg/page.py"]) == 0
    succeed(tmp_path)
    assert (tmp_path / "site/pkg/page.html").is_file()
    assert not (tmp_path / "site/pkg/tests").exists()
    shutil.rmtree(tmp_path / "docs_src")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    assert main(["init", "pkg"]) == 2
    assert "has settings already" in capsys.readouterr().err


def test_the_workflow_builds_publishes_and_may_do_no_more(tmp_path):
    workflow = yaml.safe_load(init_workflow(tmp_path).read_text())
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert workflow["permissions"] == {"contents": "read"}
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    steps = [*build["steps"], *publish["steps"]]
    assert all(step.get("uses", "actions/x").startswith("actions/") for step in steps)
    commands = [step["run"] for step in steps if "run" in step]
    assert "pylit build --strict" in commands
    assert not any("${{" in command for command in commands), "no text of others in a command"


@pytest.mark.parametrize(
    "written",
    [
        '__all__ = ["A"]\n__all__ += ["B"]',
        '__all__ = ["A"]\n__all__.extend(("B",))',
        '__all__ = ["A"]\nif True:\n    __all__.append("B")',
        '_core = ["A"]\n__all__ = [*_core, "B"]',
        '_core = ("B",)\n__all__: list[str] = list(_core) + ["A"]',
        'import os\n__all__ = ["A", "B"] + os.__all__\n__all__ += os.path.__all__',
        'names = ["C"]\n__all__ = names = ["B", "A"]',
        # What only a run would know hides nothing.
        '__all__ = ["A"]\n__all__ += f()',
    ],
)
def test_all_may_be_put_together(written):
    module = parse(f"{written}\n\nclass A: ...\nclass B: ...\nclass C: ...\n")
    public = "".join(name for name in "ABC" if module.is_public(name))
    assert public == ("ABC" if "f()" in written else "AB")


GITHUB = (READMES / "github.md").read_text(encoding="utf-8")


def test_a_readme_is_the_markdown_of_github(tmp_path):
    succeed(make_site(tmp_path, SETTINGS | {"README.md": GITHUB}))
    page = read(tmp_path, "index.html")
    assert page.partition("<body")[2].count(" things great.") == 1, "its opening is shown once"
    links = dict(re.findall(r'<a href="#([^"]*)">([a-j])</a>', page))
    assert sorted(links.values()) == list("abcdefghij")
    assert not [anchor for anchor in links if page.count(f'id="{anchor}"') != 1]
    assert page.count('id="usage"') == page.count('id="usage-1"') == 1
    text = html.unescape(re.sub("<[^>]+>", "", page))
    assert '<div id="app"></div>' in text and "[x](y.md) and ![z](z.png)" in text
    assert '<script src="app.js"></script>' in text
    assert "The note of it." in text and "[^1]" not in text
    # Without a repository, files of it have no address.
    assert "](pkg" not in text and "pkg/one.py" not in page


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("🚀 Install", "-install"),
        ("Load / Save", "load--save"),
        ("my_name", "my_name"),
        ("What's new?", "whats-new"),
        ("C++ & Python", "c--python"),
        ("1.2.3 (2024-01-02)", "123-2024-01-02"),
        ("Über uns", "über-uns"),
        ("⚙️ Setup", "\ufe0f-setup"),
        ("安装", "安装"),
    ],
)
def test_a_heading_of_a_readme_has_the_anchor_of_github(heading, anchor):
    assert github_slug(heading) == anchor
    anchors = Anchors(github=True)
    assert [anchors.slug(heading)[0] for _ in range(3)] == [anchor, f"{anchor}-1", f"{anchor}-2"]
