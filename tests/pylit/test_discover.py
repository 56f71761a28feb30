"""Where modules are found, what they are called, how they are decoded, and what cannot be read."""

import codecs
import hashlib
import io
import os
import tokenize
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import SourceFile
from pylit.source.discover import decode, discover


def write(root: Path, names: str) -> Path:
    """Write empty files below `root`, with their folders."""
    for name in names.split():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def found(root: Path, *, own: bool = False) -> tuple[dict[str, SourceFile], list[Diagnostic]]:
    """What `discover` finds, by name, and what it reports."""
    report = Report()
    sources = list(discover(root, own=own, report=report))
    names = [source.name for source in sources]
    assert names == sorted(set(names))
    return dict(zip(names, sources, strict=True)), list(report)


def names(root: Path) -> str:
    """The names below a faultless `root`."""
    sources, report = found(root)
    assert report == []
    return " ".join(sources)


PACKAGE = """lib/pkg/__init__.py lib/pkg/__main__.py lib/pkg/nn/__init__.py lib/pkg/nn/linear.py
lib/pkg/plain/tool.py lib/pkg/data.txt"""
MODULES = "pkg pkg.__main__ pkg.nn pkg.nn.linear pkg.plain.tool"
PROJECTS = """one/pyproject.toml one/src/pkg/__init__.py two/setup.py two/pkg2/m.py two/tests/t.py
src/tests/t.py env/site-packages/google/cloud/m.py"""
SPACES = """p/src/space/sub/m.py q/space/sub/__init__.py q/scripts/run.py r/space/m.py
p/setup.py q/pyproject.toml"""
SKIPPED = """pyproject.toml .git/a.py .hidden.py __pycache__/a.py node_modules/a/a.py
venv/pyvenv.cfg venv/a.py conda/conda-meta/history conda/a.py cache/CACHEDIR.TAG cache/a.py
x.egg-info/a.py x-1.0.dist-info/a.py build/lib/a.py dist/a.py a.pyc a.ipynb
sub/build/kept.py sub/dist/__init__.py dist.py sub.py/inner.py"""


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        # Names come from the packages around.
        (PACKAGE, "lib/pkg", MODULES),
        (PACKAGE, "lib", MODULES),
        (PACKAGE, "lib/pkg/nn", "pkg.nn pkg.nn.linear"),
        (PACKAGE, "lib/pkg/nn/linear.py", "pkg.nn.linear"),
        (PACKAGE, "lib/pkg/nn/__init__.py", "pkg.nn"),
        (PACKAGE, "lib/pkg/plain", "pkg.plain.tool"),
        # A plain folder.
        ("a.py sub/b.py my-scripts/2to3.py pkg/__init__.py", "", "a my-scripts.2to3 pkg sub.b"),
        # In projects and installed packages they are those of imports.
        (PROJECTS, "", "google.cloud.m pkg pkg2.m setup src.tests.t two.tests.t"),
        (PROJECTS, "one", "pkg"),
        (PROJECTS, "one/src", "pkg"),
        (PROJECTS, "env/site-packages/google", "google.cloud.m"),
        # Tests and the set-up of a project are no modules of it.
        (PROJECTS, "two", "pkg2.m"),
        # A namespace package has its name, where a project says that it is one.
        (SPACES, "p/src/space", "space.sub.m"),
        (SPACES, "p/src/space/sub", "space.sub.m"),
        (SPACES, "q/space", "space.sub"),
        (SPACES, "q/space/sub", "space.sub"),
        (SPACES, "q/scripts", "run"),
        (SPACES, "r/space", "m"),
        # Environments, caches, what is built and what is hidden are left out.
        (SKIPPED, "", "dist sub.build.kept sub.dist sub.py.inner"),
    ],
)
def test_names(tmp_path: Path, files: str, path: str, expected: str) -> None:
    assert names(write(tmp_path, files) / path) == expected


def test_what_is_known_of_a_file(tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    (tmp_path / "lib/pkg/nn/__init__.py").write_bytes(b"x = 1\r\n")
    sources, _ = found(tmp_path / "lib/pkg", own=True)
    package = sources["pkg.nn"]
    assert package.display == "pkg/nn/__init__.py"
    assert package.path == tmp_path / "lib" / package.display
    assert package.is_package and package.own and not sources["pkg.nn.linear"].is_package
    assert package.text == "x = 1\n"
    assert package.digest == hashlib.sha256(b"x = 1\r\n").hexdigest()


def test_a_stub_stands_for_a_module_that_is_not_python(tmp_path: Path) -> None:
    files = "__init__.py a.pyi a.py _fast.pyi _fast.cpython-311.so native/__init__.pyi"
    sources, report = found(write(tmp_path / "pkg", files))
    kept = ["pkg/__init__.py", "pkg/_fast.pyi", "pkg/a.py", "pkg/native/__init__.pyi"]
    assert not report and [source.display for source in sources.values()] == kept


def test_what_a_pattern_excludes(tmp_path: Path) -> None:
    files = "__init__.py a.py tests/t.py sub/tests/t.py sub/_vendor/v.py sub/m.py test_x.py"
    exclude = ("tests", "pkg/sub/_*", "test_*.py")
    root = write(tmp_path / "pkg", files)
    kept = discover(root, own=True, report=Report(), exclude=exclude)
    assert [source.name for source in kept] == ["pkg", "pkg.a", "pkg.sub.m"]


@pytest.mark.parametrize(
    ("path", "said", "hint"),
    [
        ("unlike/x.py", "it is not there", "paths count from where you are"),
        ("missing", "it holds no Python", "hidden folders"),
        ("notes.txt", "it holds no Python", "name a package"),
    ],
)
def test_no_python(tmp_path: Path, path: str, said: str, hint: str) -> None:
    write(tmp_path, "missing/.venv/a.py notes.txt")
    sources, (diagnostic,) = found(tmp_path / path)
    assert not sources and diagnostic.severity is Severity.ERROR
    assert (diagnostic.path, diagnostic.code) == (str(tmp_path / path), "source-missing")
    assert diagnostic.message == said and hint in diagnostic.hint


@pytest.mark.parametrize("own", [True, False])
def test_a_file_that_cannot_be_read(tmp_path: Path, own: bool) -> None:
    root = write(tmp_path / "pkg", "__init__.py good.py")
    (root / "gone.py").symlink_to("nowhere.py")
    os.mkfifo(root / "pipe.py")
    sources, report = found(root, own=own)
    assert list(sources) == ["pkg", "pkg.good"]
    assert [(d.path, d.code, d.message) for d in report] == [
        ("pkg/gone.py", "source-unreadable", "cannot be read: No such file or directory"),
        ("pkg/pipe.py", "source-unreadable", "cannot be read: not a regular file"),
    ]
    assert {d.severity for d in report} == {Severity.ERROR if own else Severity.WARNING}
    assert all(d.hint for d in report)


@pytest.mark.parametrize("target", [".", "../../pkg", "loop", "../../..", "/"])
def test_a_link_back_up_ends_nowhere(tmp_path: Path, target: str) -> None:
    root = write(tmp_path / "pkg", "__init__.py sub/__init__.py")
    (root / "sub/loop").symlink_to(target)
    sources, report = found(root)
    assert list(sources) == ["pkg", "pkg.sub"]
    assert {d.code for d in report} <= {"source-link"}


def test_links_to_files_inside_the_source_are_followed_and_no_others(tmp_path: Path) -> None:
    root = write(tmp_path, "secret.py real/m.py src/a.py src/z/b.py") / "src"
    (root / "linked").symlink_to("../real")
    (root / "key.py").symlink_to("../secret.py")
    (root / "0").symlink_to("z")
    (root / "alias.py").symlink_to("a.py")
    sources, report = found(root, own=True)
    assert list(sources) == ["a", "alias", "z.b"]
    assert [(d.path, d.code) for d in report] == [(n, "source-link") for n in ("key.py", "linked")]
    assert {d.severity for d in report} == {Severity.WARNING}
    # What is named is shown, whatever it is.
    (tmp_path / "named").symlink_to("src")
    assert list(found(tmp_path / "named")[0]) == ["a", "alias", "z.b"]
    assert names(root / "key.py") == "key"


TEXT = "# größe €\nx = 'é'\n"


@pytest.mark.parametrize(
    "raw",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        b"x = 1\ry = 2\r",
        b"",
        b"x = 1\n# coding: latin-1\n# \xc3\xa9\n",
        b"\x0c# coding: latin-1\n# \xe9\n",
        # Only ends of lines end lines.
        "a\x0cb\x0bc\x1cd\u2028e\x85f\ng".encode(),
    ],
)
def test_a_file_is_decoded_as_python_reads_it(raw: bytes) -> None:
    text, fault = decode(raw)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    assert text == io.TextIOWrapper(io.BytesIO(raw), encoding, newline=None).read()
    assert fault is None


CODING = b"# coding: "
UNREAD = "Python cannot read it: "


@pytest.mark.parametrize(
    ("raw", "text", "place", "said"),
    [
        (b"x = 1\n# caf\xe9 \xc3\xa9\n", "# caf\\xe9 é\n", (2, 6), "byte 0xE9 is not UTF-8"),
        (CODING + b"ascii\n# \xc3\xa9\n", "# é\n", (2, 3), "byte 0xC3 is not ASCII"),
        (CODING + b"klingon\n", "klingon\n", (1, 1), f"{UNREAD}unknown encoding: klingon"),
        (CODING + b"hex\n", "hex\n", (1, 1), f"{UNREAD}'hex' is not a text encoding"),
        (CODING + b"rot13\nx = 1", "x = 1", (1, 1), f"{UNREAD}'rot13' is not a text encoding"),
        (codecs.BOM_UTF8 + CODING + b"latin-1\n\xc3\xa9", "é", (1, 1), f"{UNREAD}encoding problem"),
        (CODING + b"unicode_escape\n\\ud800", "\\ud800", (1, 1), f"{UNREAD}'utf-8' codec can't"),
        (b"\xff\xfex\0", "\\xff\\xfex\0", (1, 1), f"{UNREAD}invalid or missing"),
    ],
)
def test_what_cannot_be_decoded(raw: bytes, text: str, place: tuple[int, int], said: str) -> None:
    decoded, fault = decode(raw)
    assert decoded.endswith(text)
    assert fault is not None and fault[:2] == place
    assert fault[2].startswith(said)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60), st.sampled_from(["", "# coding: utf-7\n", "# coding: ascii\n"]))
def test_any_bytes_become_text(raw: bytes, first: str) -> None:
    text, fault = decode(first.encode() + raw)
    text.encode("utf-8")
    assert "\r" not in text
    if fault is not None:
        assert 1 <= fault[0] <= text.count("\n") + 1
        assert fault[1] >= 1
