"""The commands as they are typed: what they write, what they refuse, and how they end."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from site_tools import FILES, REPOSITORY, cache, make_site, pages, read, tree

from pylit.cache import user_cache
from pylit.cli import main
from pylit.node.process import NodeError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of a small site, in whose folder the commands are given."""
    root = make_site(tmp_path)
    cache(root)
    monkeypatch.chdir(root)
    return root / "pkg"


def run(*given: str | Path) -> int:
    """A command in this process, with a cache that has fonts and formulas."""
    return main([*map(str, given), "--cache", ".cache"], REPOSITORY)


def test_packages_are_rendered_without_being_run_and_their_html_is_text(package, tmp_path, capsys):
    (package / "trap.py").write_text("raise SystemExit('I was run')\n")
    assert run("build", package, "--out", "site") == 0
    assert "pkg/trap.html" in pages(tmp_path / "site")
    home = read(tmp_path, "index.html")
    assert "<title>pkg</title>" in home and 'href="pkg/one.html"' in home
    said = capsys.readouterr().out
    assert re.search(r"4 pages in \d+\.\d\d s; 4 made, 0 reused; \d+ files changed in site/", said)
    other = tmp_path / "other.py"
    other.write_text('"""A <script>alert(1)</script> Tuple[<T>] $\\nosuch$ [x](y.md)"""\n')
    both = ["build", package, other, "--out", "site", "--title", "Both"]
    both += ["--base-url", "https://example.org/x"]
    assert run(*both) == 0
    found = capsys.readouterr()
    assert "1 warning" in found.out and "other.py:1" in found.err
    page = read(tmp_path, "other.html")
    assert "<script>alert" not in page and "Tuple[&lt;T&gt;]" in page and "[x](y.md)" in page
    assert "<title>Both</title>" in read(tmp_path, "index.html")
    assert "https://example.org/x/other.html" in read(tmp_path, "sitemap.xml")
    assert run(*both, "--check") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sorce", "x"], "unrecognized arguments: --sorce"),
        (["biuld"], "choose from"),
        (["--jobs", "many"], "--jobs: many is no number of processes"),
        (["--jobs", "0"], "--jobs: 0 is no number of processes; expected 1 or more"),
        (["--jobs=-3"], "expected 1 or more"),
        (["serve", "--check"], "unrecognized arguments: --check"),
        (["new", "x.py", "--out", "x"], "unrecognized arguments: --out x"),
        (["--title", "x"], "without docs_src/site.toml"),
        (["build", "x"], "a SOURCE needs --out DIR"),
        (["build", "x", "--out", "y", "--base-url", "z.org"], "expected https://…"),
        (["build", "x", "--out", "y", "--base-url", "https://"], "expected https://…"),
        (["build", "--cache", "/dev/null/x"], "/dev/null/x cannot be written"),
    ],
)
def test_a_wrong_command_exits_with_2_and_says_what_was_meant(arguments, said, capsys):
    try:
        status = main(arguments, REPOSITORY)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert said in capsys.readouterr().err


def start(*arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
    """A command in a process of its own."""
    command = [sys.executable, str(REPOSITORY / "build_site.py"), *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | environment)


def test_ctrl_c_ends_it_cleanly_and_the_site_stays(package: Path, tmp_path: Path) -> None:
    for number in range(40):
        text = "# A note with $x$.\nx = [1, 2, 3]\n\n" * 400
        (package / f"m{number}.py").write_text(text)
    with start("build", "pkg", "--out", "out", "--cache", "c") as child:
        while not (tmp_path / "c/pages").exists():  # It has begun to work.
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in said and b"unchanged" in said
    assert not (tmp_path / "out").exists()


def test_the_site_of_a_package_is_begun_and_built(package: Path, tmp_path, capsys):
    shutil.rmtree(tmp_path / "docs_src")
    kept = ["--cache", ".cache"]
    assert [main(["init", "no"]), main(["build", *kept])] == [2, 2]
    assert [main(["init", "pkg"]), main(["init", "pkg"])] == [0, 2]
    assert [main(["new", "pkg/x.py"]), main(["new", "pkg/x.py"])] == [0, 2]
    said = capsys.readouterr().err
    for words in ("there is no no", "`pylit init PACKAGE`", "site.toml exists already"):
        assert words in said
    assert "pkg/x.py exists already" in said
    assert main(["build", *kept, "--check"]) == main(["build", str(tmp_path), *kept]) == 0
    assert "pkg/one.html" in pages(tmp_path / "site")
    assert main(["build", "--out", "one", "pkg/one.py", *kept]) == 0
    assert pages(tmp_path / "one") == {"pkg/one.html", "index.html", "404.html"}


def test_without_node_formulas_are_tex(package: Path, tmp_path, monkeypatch, capsys):
    def missing() -> None:
        raise NodeError("there is no Node")

    command = ["build", "--cache", ".cache"]
    with monkeypatch.context() as patch:
        patch.setattr("pylit.cli.set_up", missing)
        assert main(command) == 0
    assert "warning[node]: formulas are shown as TeX" in capsys.readouterr().err
    assert '<code class="tex">a + b</code>' in read(tmp_path, "pkg/one.html")
    assert not list((tmp_path / "site/assets").rglob("*.woff2"))
    assert main(command) == main([*command, "--out", "anew"]) == 0
    assert '<code class="tex">' not in read(tmp_path, "pkg/one.html")
    assert tree(tmp_path / "site") == tree(tmp_path / "anew")


def test_the_first_page_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (REPOSITORY / "docs_src/pages/annotate.md").read_text(encoding="utf-8")
    steps = guide.partition("## A first page")[2].partition("\n## ")[0]
    module, runs = re.findall(r"```python\n(.*?)```", steps, re.DOTALL)
    files = {"demo/attention.py": module, "docs_src/traces/demo/attention.py": runs}
    make_site(tmp_path, dict.fromkeys(FILES, "") | {"demo/__init__.py": "\n"} | files)
    monkeypatch.chdir(tmp_path)
    build = ["build", "--run", "--cache", str(cache(tmp_path))]
    assert main(["init", "demo"]) == main([*build, "--check"]) == main(build) == 0
    page = read(tmp_path, "demo/attention.html")
    assert "<mjx-container" in page
    assert "<b>scores</b> [T, S]" in page and "<b>mean</b> [T, V]" in page
    assert page.count('href="#weights" data-x="demo.attention.weights"') >= 2


def test_without_a_folder_for_caches_the_option_is_named(
    package: Path, tmp_path, capsys, monkeypatch
):
    """Seven modules are made in processes of their own, which hand pages on in the cache."""
    for number in range(7):
        (package / f"more{number}.py").write_text("x = 1\n")
    (tmp_path / "file").touch()
    monkeypatch.setenv("PYLIT_CACHE", str(tmp_path / "file" / "cache"))
    command = ["build", "pkg", "--out", "out", "--jobs", "2"]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "file/cache cannot be written" in said and "nothing is cached" in said
    assert "pkg/more6.html" in pages(tmp_path / "out")

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    # As for a user of a container who is in no list of users.
    for name in ("PYLIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    assert not user_cache().exists()
    assert main(command) == 0
    assert "nothing is cached; --cache DIR names another folder" in capsys.readouterr().err


def test_a_tilde_is_the_home_folder_in_every_path(package: Path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path / "docs_src")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["build", "~/pkg", "--out=~/site", "--cache=~/cache"]) == 0
    assert pages(tmp_path / "site") and (tmp_path / "cache").is_dir()
    with pytest.raises(SystemExit):
        main(["build", "~nobody-of-this-name/package"])
    assert "the home folder in ~nobody-of-this-name/package is not known" in capsys.readouterr().err


def test_a_terminal_that_knows_only_ascii(package: Path, tmp_path: Path) -> None:
    """In a process of its own, since a terminal's encoding is decided when it starts."""
    (package / "größe.py").write_text("x = 1  # π\n", encoding="utf-8")
    build = "build pkg --out ü --cache .cache"
    for words in (build, "new naïve.py", "translate zh --missing"):
        with start(*words.split(), PYTHONIOENCODING="ascii") as child:
            said = child.communicate(timeout=60)[1]
        assert b"Traceback" not in said and said.isascii()
    assert "π" in (tmp_path / "ü/pkg/größe.html").read_text(encoding="utf-8")
