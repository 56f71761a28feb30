"""A feedback transformer where its kernel cannot be had: no compiler, or a bad one.

Compilers are small scripts here, which fail in all the ways in which compilers do.
"""

import stat

import pytest
from feedback_tools import C, build, tokens

from labml_nn.kernels import build as builder
from labml_nn.transformers.feedback import kernel


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own, and a process in which nothing was loaded yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel.KERNEL, "found", None)
    monkeypatch.setattr(kernel.KERNEL, "told", set())
    return tmp_path / "cache" / "labml_nn"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Name a script as the compiler."""

    def make(*lines):
        path = tmp_path / "compiler"
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CXX", str(path))

    return make


def assert_runs_all_the_same(reason):
    """One line of warning, on the first of two readings, and the results of the form by hand."""
    model = build(True)
    x = tokens(9, 2, C)
    with pytest.warns(RuntimeWarning, match=reason) as told:
        y = model(x)
        model(x).sum().backward()
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    model.backend = "by_hand"
    assert model(x).equal(y)


def test_no_compiler(cache, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert_runs_all_the_same("there is no C\\+\\+ compiler")


def test_a_compiler_that_is_not_there(cache, monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++ -Wall")
    assert_runs_all_the_same("/nowhere/c\\+\\+")


def test_a_compiler_that_fails(cache, compiler):
    compiler("echo 'In file included from here:' >&2", "echo 'error: no such header' >&2", "exit 3")
    assert_runs_all_the_same("status 3: error: no such header")
    assert list(cache.iterdir()) == []


def test_a_compiler_that_makes_nothing(cache, compiler):
    compiler("exit 0")
    assert_runs_all_the_same("status 0: no message")


def test_a_compiler_that_cannot_be_run(cache, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("no program")
    monkeypatch.setenv("CXX", str(tmp_path / "text"))
    assert_runs_all_the_same("did not run")


def test_a_compiler_that_never_ends(cache, compiler, monkeypatch):
    compiler("exec sleep 60")
    monkeypatch.setattr(builder, "PATIENCE", 0.2)
    assert_runs_all_the_same("did not run: .* timed out")


def test_a_library_that_is_none(cache, compiler):
    compiler("for last; do :; done", 'echo nonsense > "$last"')
    assert_runs_all_the_same("file too short|invalid ELF|not a mach-o|slice is not valid")


def test_nowhere_to_write(cache, monkeypatch, tmp_path):
    cache.parent.write_text("")
    monkeypatch.setattr(builder.tempfile, "tempdir", str(cache.parent))
    assert_runs_all_the_same("Not a directory|No such file|File exists")
