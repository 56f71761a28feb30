"""Where modules are found, what they are called, and what is said of those that cannot be read."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import SourceFile
from pylit.source.discover import discover


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write `files` below `root`, with their folders."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def found(root: Path, *, own: bool = False) -> tuple[dict[str, SourceFile], list[Diagnostic]]:
    """What `discover` finds, by name, and what it reports."""
    report = Report()
    sources = list(discover(root, own=own, report=report))
    assert len({source.name for source in sources}) == len(sources)
    assert [source.name for source in sources] == sorted(source.name for source in sources)
    return {source.name: source for source in sources}, list(report)


def names(root: Path) -> list[str]:
    """The names below a faultless `root`."""
    sources, report = found(root)
    assert report == []
    return list(sources)


PACKAGE = {
    "lib/pkg/__init__.py": "",
    "lib/pkg/__main__.py": "",
    "lib/pkg/nn/__init__.py": "x = 1\r\n",
    "lib/pkg/nn/linear.py": "y = 1",
    "lib/pkg/plain/tool.py": "",
    "lib/pkg/data.txt": "",
}


def test_a_package(tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    sources, report = found(tmp_path / "lib/pkg", own=True)
    assert report == []
    assert " ".join(sources) == "pkg pkg.__main__ pkg.nn pkg.nn.linear pkg.plain.tool"
    package = sources["pkg.nn"]
    assert package.display == "pkg/nn/__init__.py"
    assert package.path == tmp_path / "lib/pkg/nn/__init__.py"
    assert package.is_package and package.own
    assert package.text == "x = 1\n"
    assert package.digest == hashlib.sha256(b"x = 1\r\n").hexdigest()
    assert not sources["pkg.nn.linear"].is_package


def test_names_come_from_the_packages_around(tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    assert names(tmp_path / "lib/pkg/nn") == ["pkg.nn", "pkg.nn.linear"]
    assert names(tmp_path / "lib/pkg/nn/linear.py") == ["pkg.nn.linear"]
    assert names(tmp_path / "lib/pkg/nn/__init__.py") == ["pkg.nn"]
    assert names(tmp_path / "lib/pkg/plain") == ["pkg.plain.tool"]
    assert names(tmp_path / "lib") == names(tmp_path / "lib/pkg")


def test_a_plain_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "sub/b.py": "", "my-scripts/2to3.py": "", "pkg/__init__.py": ""})
    sources, _ = found(tmp_path)
    shown = [(name, source.display) for name, source in sources.items()]
    files = [("a", "a.py"), ("my-scripts.2to3", "my-scripts/2to3.py")]
    assert shown == [*files, ("pkg", "pkg/__init__.py"), ("sub.b", "sub/b.py")]


def test_names_are_those_of_imports_in_projects_and_installed_packages(tmp_path: Path) -> None:
    two = {"two/setup.py": "", "two/pkg2/m.py": "", "two/tests/t.py": "", "src/tests/t.py": ""}
    site = {"env/site-packages/google/cloud/m.py": ""}
    write(tmp_path, {"one/pyproject.toml": "", "one/src/pkg/__init__.py": "", **two, **site})
    below = ["google.cloud.m", "pkg", "pkg2.m", "setup", "src.tests.t", "two.tests.t"]
    assert names(tmp_path) == below
    assert names(tmp_path / "two") == ["pkg2.m"], "its tests and its set-up are no modules of it"
    assert names(tmp_path / "one") == names(tmp_path / "one/src") == ["pkg"]
    assert names(tmp_path / "env/site-packages/google") == ["google.cloud.m"]


def test_a_namespace_package_has_its_name(tmp_path: Path) -> None:
    files = ("p/src/space/sub/m.py", "q/space/sub/__init__.py", "q/scripts/run.py", "r/space/m.py")
    write(tmp_path, dict.fromkeys((*files, "p/setup.py", "q/pyproject.toml"), ""))
    assert names(tmp_path / "p/src/space") == ["space.sub.m"]
    assert names(tmp_path / "p/src/space/sub") == ["space.sub.m"]
    assert names(tmp_path / "q/space") == names(tmp_path / "q/space/sub") == ["space.sub"]
    assert names(tmp_path / "q/scripts") == ["run"]
    assert names(tmp_path / "r/space") == ["m"], "nothing says that it is one"


def test_a_stub_stands_for_a_module_that_is_not_python(tmp_path: Path) -> None:
    files = ("a.pyi", "a.py", "_fast.pyi", "_fast.cpython-311.so", "native/__init__.pyi")
    write(tmp_path, dict.fromkeys((f"pkg/{name}" for name in (*files, "__init__.py")), ""))
    sources, report = found(tmp_path / "pkg")
    assert not report and [source.display for source in sources.values()] == [
        "pkg/__init__.py",
        "pkg/_fast.pyi",
        "pkg/a.py",
        "pkg/native/__init__.pyi",
    ]


def test_what_a_pattern_excludes(tmp_path: Path) -> None:
    files = ("__init__", "a", "tests/t", "sub/tests/t", "sub/_vendor/v", "sub/m", "test_x")
    write(tmp_path, {f"pkg/{name}.py": "" for name in files})
    exclude = ("tests", "pkg/sub/_*", "test_*.py")
    kept = discover(tmp_path / "pkg", own=True, report=Report(), exclude=exclude)
    assert [source.name for source in kept] == ["pkg", "pkg.a", "pkg.sub.m"]


SKIPPED = """.git/a.py .hidden.py __pycache__/a.py node_modules/a/a.py venv/pyvenv.cfg venv/a.py
conda/conda-meta/history conda/a.py cache/CACHEDIR.TAG cache/a.py x.egg-info/a.py
x-1.0.dist-info/a.py build/lib/a.py dist/a.py a.pyc a.ipynb"""


def test_what_is_left_out(tmp_path: Path) -> None:
    kept = ("sub/build/kept.py", "sub/dist/__init__.py", "dist.py", "sub.py/inner.py")
    write(tmp_path, {"pyproject.toml": "", **dict.fromkeys((*SKIPPED.split(), *kept), "")})
    assert names(tmp_path) == ["dist", "sub.build.kept", "sub.dist", "sub.py.inner"]


@pytest.mark.parametrize(
    ("path", "said", "hint"),
    [
        ("unlike/x.py", "it is not there", "paths count from where you are"),
        ("missing", "it holds no Python", "hidden folders"),
        ("notes.txt", "it holds no Python", "name a package"),
    ],
)
def test_no_python(tmp_path: Path, path: str, said: str, hint: str) -> None:
    write(tmp_path, {"missing/.venv/a.py": "", "notes.txt": ""})
    sources, (diagnostic,) = found(tmp_path / path)
    assert not sources and diagnostic.severity is Severity.ERROR
    assert (diagnostic.path, diagnostic.code) == (str(tmp_path / path), "source-missing")
    assert diagnostic.message == said and hint in diagnostic.hint


@pytest.mark.parametrize("own", [True, False])
def test_a_file_that_cannot_be_read(tmp_path: Path, own: bool) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/good.py": ""})
    (tmp_path / "pkg/gone.py").symlink_to("nowhere.py")
    os.mkfifo(tmp_path / "pkg/pipe.py")
    sources, report = found(tmp_path / "pkg", own=own)
    assert list(sources) == ["pkg", "pkg.good"]
    assert [(d.path, d.code, d.message) for d in report] == [
        ("pkg/gone.py", "source-unreadable", "cannot be read: No such file or directory"),
        ("pkg/pipe.py", "source-unreadable", "cannot be read: not a regular file"),
    ]
    assert {d.severity for d in report} == {Severity.ERROR if own else Severity.WARNING}
    assert all(d.hint for d in report)


@pytest.mark.parametrize("target", [".", "../../pkg", "loop", "../../..", "/"])
def test_a_link_back_up_ends_nowhere(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/sub/__init__.py": ""})
    (tmp_path / "pkg/sub/loop").symlink_to(target)
    sources, report = found(tmp_path / "pkg")
    assert list(sources) == ["pkg", "pkg.sub"]
    assert {d.code for d in report} <= {"source-link"}


def test_links_to_files_inside_the_source_are_followed_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, {"secret.py": "", "real/m.py": "", "src/a.py": "", "src/z/b.py": ""})
    (tmp_path / "src/linked").symlink_to("../real")
    (tmp_path / "src/key.py").symlink_to("../secret.py")
    (tmp_path / "src/0").symlink_to("z")
    (tmp_path / "src/alias.py").symlink_to("a.py")
    sources, report = found(tmp_path / "src", own=True)
    assert list(sources) == ["a", "alias", "z.b"]
    assert [(d.path, d.code, d.severity) for d in report] == [
        ("key.py", "source-link", Severity.WARNING),
        ("linked", "source-link", Severity.WARNING),
    ]
    # What is named is shown, whatever it is.
    (tmp_path / "named").symlink_to("src")
    assert list(found(tmp_path / "named")[0]) == ["a", "alias", "z.b"]
    assert names(tmp_path / "src/key.py") == ["key"]
