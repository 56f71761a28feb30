"""A build that finds nothing changed does nothing, and finds every change."""

import os
import time

import pytest
from site_tools import build, make_site, options, succeed, tree

from pylit.build import Builder
from pylit.site.options import inputs


@pytest.fixture
def made(monkeypatch):
    """Grows with every build that looks at contents."""
    found: list[int] = []
    make = Builder._make
    monkeypatch.setattr(Builder, "_make", lambda *a, **k: (found.append(1), make(*a, **k)))
    return found


def same_time(path, text):
    """Write a text, and set back the time of the file."""
    old = path.stat()
    path.write_text(text)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


CHANGES = [
    lambda root: (root / "pkg/one.py").write_text('"""`two` is an edit."""\n'),
    # An edit of the same size that hides its time.
    lambda root: same_time(
        root / "pkg/two.py", (root / "pkg/two.py").read_text().replace("Twice", "Once!")
    ),
    lambda root: (root / "pkg/three.py").write_text("x = 1\n"),
    lambda root: (root / "pkg/three.py").rename(root / "pkg/drei.py"),
    lambda root: (root / "pkg/drei.py").unlink(),
    lambda root: (root / "site/pkg/one.html").unlink(),
    lambda root: same_time(root / "site/pkg/one.html", "mine"),
    lambda root: (root / "site/.pylit-manifest.json").write_text("{}"),
]


def test_what_has_changed_is_found(tmp_path, made):
    make_site(tmp_path, {"docs_src/site.toml": "", "docs_src/pages/notes.md": ""})
    package = (tmp_path / "pkg",)
    pages = succeed(tmp_path, sources=package).pages
    for number, change in enumerate(CHANGES, 2):
        change(tmp_path)
        time.sleep(0.05)
        build(tmp_path, sources=package)
        assert len(made) == number
        again = succeed(tmp_path, sources=package)
        assert (len(made), again.rendered) == (number, 0)
    assert again.pages == pages
    clean = tmp_path / "clean"
    succeed(tmp_path, sources=package, out=clean, cache=None)
    assert tree(tmp_path / "site") == tree(clean)


def test_faults_are_told_again(tmp_path, made):
    make_site(tmp_path, {"pkg/one.py": '"""[x](none.py)"""\ndef x(:\n'})
    time.sleep(0.05)
    first, again = (list(build(tmp_path, sources=(tmp_path / "pkg",)).report) for _ in range(2))
    assert len(made) == 1
    assert first == again != []


def test_environments_caches_and_what_is_hidden_are_not_looked_at(tmp_path):
    def write(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("x")
        return inputs(options(tmp_path, cache=None), None)

    (tmp_path / "loop").symlink_to(tmp_path)
    # A file system's clock may be a tick behind.
    begun = time.time_ns() - 20_000_000
    before = write("a.py", "b/a.py", "venv/pyvenv.cfg", "site/x.html")
    # What was touched a moment ago may be touched again unseen.
    assert before[1] > begun
    assert write(".git/x", "__pycache__/a.pyc", "venv/lib.py", "site/y.html") == before
    assert write("b/c.py") != before
