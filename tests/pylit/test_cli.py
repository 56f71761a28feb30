import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from site_tools import REPOSITORY, cache, make_site, pages, tree

from pylit.cli import main
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.pipeline.build import Options, Outcome
from pylit.pipeline.summary import summary, tell

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command, in this process."""
    return lambda *arguments: main([str(a) for a in (*arguments, "--cache", cache(tmp_path))])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    make_site(tmp_path)
    return tmp_path / "pkg"


def test_a_package_is_rendered_without_being_run(
    run: Run, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "trap.py").write_text("raise SystemExit('I was run')\n")
    assert run("--source", package, "--out", tmp_path / "out") == 0
    assert "pkg/trap.html" in pages(tmp_path / "out")
    home = (tmp_path / "out/index.html").read_text()
    assert "<title>pkg</title>" in home and 'href="pkg/one.html"' in home
    said = capsys.readouterr().out
    assert re.search(r"4 pages in \d+\.\d\d s; 4 made, 0 reused; \d+ files changed in .*out/", said)


def test_two_sources_a_title_and_an_address(run: Run, package: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text('"""Another."""\n')
    out = tmp_path / "out"
    arguments = ["--source", package, "--source", tmp_path / "other.py", "--out", out]
    assert run(*arguments, "--title", "Both", "--base-url", "https://example.org/x") == 0
    assert {"pkg/one.html", "other.html"} <= pages(out)
    assert "<title>Both</title>" in (out / "index.html").read_text()
    assert "https://example.org/x/other.html" in (out / "sitemap.xml").read_text()


def test_somebody_elses_html_is_text_and_faults_are_warnings(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.py").write_text(
        '"""A <script>alert(1)</script> Tuple[<T>] $\\nosuch$ [x](y.md)"""\n'
    )
    arguments = ["--source", tmp_path / "m.py", "--out", tmp_path / "out"]
    assert run(*arguments) == 0
    page = (tmp_path / "out/m.html").read_text()
    assert "<script>alert" not in page and "Tuple[&lt;T&gt;]" in page
    found = capsys.readouterr()
    assert "2 warnings" in found.out and "m.py:1" in found.err
    assert run(*arguments, "--check") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sorce", "x"], "did you mean --source?"),
        (["--jobs", "0"], "'0': expected a whole number from 1 on\n"),
        (["--port", "99999", "--serve"], "0 to 65535"),
        (["--port", "80"], "--port is for --serve"),
        (["--check", "--serve"], "choose one"),
        (["--title", "x"], "--source"),
        (["--source", "x", "--out", "y", "--base-url", "example.org"], "expected https://"),
        (["--source", "x"], "--source needs --out DIR"),
        (["stray"], "unrecognized arguments: stray"),
    ],
)
def test_a_wrong_command_exits_with_2_and_says_what_was_meant(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert said in message and "--help" in message


@pytest.mark.parametrize("kind", ["missing", "empty", "text"])
def test_a_source_without_python_is_an_error(
    run: Run, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    if kind == "empty":
        source.mkdir()
    elif kind == "text":
        source.write_text("not Python at all, by its name")
    assert run("--source", source, "--out", tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert "error[source-" in said and "hint" in said and "1 error" in said
    assert not (tmp_path / "out").exists()


BAD_FILES: dict[str, bytes] = {
    "bom.py": b'\xef\xbb\xbf"""With a mark."""\nx = 1\n',
    "crlf.py": b'"""Two\r\nlines."""\r\nx = 1\r\n',
    "tabs.py": b"if True:\n\t# A note.\n\tx = 1\n",
    "formfeed.py": b"x = 1\n\x0c\n# A note.\ny = 2\n",
    "no_newline.py": b"x = 1",
    "empty.py": b"",
    "latin.py": b'# -*- coding: latin-1 -*-\nname = "\xe9t\xe9"\n',
    "long_line.py": b"data = '" + b"x" * 100_000 + b"'\n",
    "many_lines.py": b"# A note.\nx = 1\n\n" * 7000,
    "index.py": b'"""Not the package."""\n',
    "syntax.py": b"def f(:\n",
    "odd name.py": b'"""A name that no import takes."""\n',
    "umlaut_\xc3\xa4.py": b'"""A name in another alphabet."""\n',
}


def test_odd_files_all_get_their_page(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "odd"
    source.mkdir()
    (source / "__init__.py").write_bytes(b"")
    for name, data in BAD_FILES.items():
        (source / os.fsdecode(name.encode("latin-1"))).write_bytes(data)
    (source / "loop").symlink_to(source)
    assert run("--source", source, "--out", tmp_path / "out") == 0
    found = pages(tmp_path / "out")
    names = {Path(os.fsdecode(n.encode("latin-1"))).stem for n in BAD_FILES} - {"index"}
    assert found == {f"odd/{n}.html" for n in names} | {
        "odd/index.html",
        "odd/index.py.html",
        "index.html",
        "404.html",
    }
    assert "été" in (tmp_path / "out/odd/latin.html").read_text()
    assert 'id="L20999"' not in (tmp_path / "out/odd/long_line.html").read_text()
    assert 'id="L20999"' in (tmp_path / "out/odd/many_lines.html").read_text()


def test_a_file_that_cannot_be_decoded_is_named(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/good.py").write_text("x = 1\n")
    (tmp_path / "src/bad.py").write_bytes(b'x = "\xe9"\n')
    assert run("--source", tmp_path / "src", "--out", tmp_path / "out") == 0
    assert "bad.py:1" in capsys.readouterr().err
    assert run("--source", tmp_path / "src", "--out", tmp_path / "out", "--check") == 1


def outcome(errors: int, warnings: int) -> Outcome:
    report = Report()
    for line in range(errors):
        report.add(Diagnostic("a.py", line + 1, 1, "tex", "bad"))
    for line in range(warnings):
        report.add(Diagnostic("b.py", line + 1, 1, "tex", "odd", severity=Severity.WARNING))
    return Outcome(report, pages=3, seconds=12.3)


def test_many_warnings_are_cut_and_errors_never(capsys: pytest.CaptureFixture[str]) -> None:
    tell(outcome(25, 25), Options())
    said = capsys.readouterr().err
    assert said.count("error[tex]") == 25 and said.count("warning[tex]") == 20
    assert "5 more warnings" in said
    assert "25 errors, 25 warnings in 12 s; the site is as it was." in said
    tell(outcome(0, 25), Options(), verbose=True)
    assert capsys.readouterr().err.count("warning[tex]") == 25


def test_the_last_line_counts(tmp_path: Path) -> None:
    line = summary(outcome(0, 0), Options(out=tmp_path, check=True), [], [])
    assert line == "3 pages in 12 s; 0 made, 3 reused; checked, nothing written."


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, REPOSITORY / "build_site.py", *arguments]
    return subprocess.Popen(
        [str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_ctrl_c_ends_it_cleanly_and_the_site_stays(package: Path, tmp_path: Path) -> None:
    for number in range(40):
        text = "# A note with $x$.\nx = [1, 2, 3]\n\n" * 400
        (package / f"m{number}.py").write_text(text)
    with start("--source", package, "--out", tmp_path / "out", "--cache", tmp_path / "c") as child:
        while not (tmp_path / "c/pages").exists():  # It has begun to work.
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in said and "as it was" in said
    assert not (tmp_path / "out").exists()


def test_killed_in_the_middle_the_next_build_recovers(
    run: Run, package: Path, tmp_path: Path
) -> None:
    arguments = ["--source", package, "--out", tmp_path / "out", "--cache", cache(tmp_path)]
    assert run("--source", package, "--out", tmp_path / "clean") == 0
    for delay in (0.3, 0.6, 0.9):
        with start(*arguments) as child:
            time.sleep(delay)
            child.kill()
            child.communicate()
    with start(*arguments) as child:
        child.communicate(timeout=60)
    assert child.returncode == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "clean")


def test_the_order_of_sets_leaves_no_trace(run: Run, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        root = make_site(tmp_path / seed)
        command = [sys.executable, REPOSITORY / "build_site.py", "--source", root / "pkg"]
        command += ["--out", root / "out", "--cache", cache(root)]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([str(c) for c in command], check=True, env=environment, capture_output=True)
    assert tree(tmp_path / "1/out") == tree(tmp_path / "2/out")
