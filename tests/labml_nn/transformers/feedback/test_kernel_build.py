"""Building the kernel: what is kept, and what happens where there is no compiler, or a bad one.

Compilers are small scripts here, which say what they were asked, fail, or copy the real library.
"""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from feedback_tools import C, build, tokens

from labml_nn.transformers.feedback import kernel
from labml_nn.transformers.feedback.kernel import build as builder

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def real():
    """The file of the real kernel."""
    try:
        builder.load()
    except builder.BuildError as error:
        pytest.skip(str(error))
    path = builder.cache() / builder.file_name()
    return path if path.exists() else pytest.skip("this machine has no cache")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own, and a process in which nothing was loaded yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel, "_found", None)
    monkeypatch.setattr(kernel, "_told", set())
    return tmp_path / "cache" / "labml_nn"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Name a script as the compiler."""

    def make(*lines):
        path = tmp_path / "compiler"
        path.write_text("\n".join(["#!/bin/sh", f'echo "$@" >> {tmp_path}/asked', *lines, ""]))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CXX", str(path))
        return tmp_path / "asked"

    return make


def copying(path):
    """Make the last argument a copy of `path`."""
    return ("for last; do :; done", f'cp "{path}" "$last"')


def test_it_is_built_once_and_kept(real, cache, compiler, capfd):
    asked = compiler(*copying(real))
    assert builder.load().lanes in (4, 8, 16)
    assert "compiling" in capfd.readouterr().err
    assert builder.load().lanes in (4, 8, 16)
    assert capfd.readouterr() == ("", "")
    assert len(asked.read_text().splitlines()) == 1
    assert [path.name for path in cache.iterdir()] == [builder.file_name()]


def test_the_compiler_is_told_what_the_processor_can_do(real, cache, compiler, monkeypatch):
    asked = compiler(*copying(real))
    names = []
    for capability, expected in (("AVX512", "-mavx512f"), ("AVX2", "-mavx2"), ("DEFAULT", "-O3")):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
        cache.mkdir(parents=True, exist_ok=True)
        builder.compile_to(cache / builder.file_name())
        assert expected in asked.read_text().splitlines()[-1].split()
        names.append(builder.file_name())
    assert len(set(names)) == 3
    assert "-mavx" not in asked.read_text().splitlines()[-1]


def test_a_change_of_the_source_is_another_file(tmp_path, monkeypatch):
    names = {builder.file_name()}
    monkeypatch.setattr(builder, "FOLDER", tmp_path)
    for text in ("int a;", "int b;"):
        (tmp_path / "feedback.cpp").write_text(text)
        names.add(builder.file_name())
    assert len(names) == 3


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
    assert torch.equal(model(x), y)


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


@pytest.mark.parametrize("trouble", ["a file in the way", "no home", "a broken file"])
def test_a_cache_that_cannot_be_used(real, cache, compiler, monkeypatch, trouble):
    """The kernel is built for this process alone, and a broken file is replaced."""
    asked = compiler(*copying(real))
    if trouble == "a file in the way":
        cache.parent.write_text("")
    elif trouble == "a broken file":
        cache.mkdir(parents=True)
        (cache / builder.file_name()).write_text("half a libr")
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", classmethod(_no_home))
    for _ in range(2):
        assert builder.load().lanes in (4, 8, 16)
    times = 1 if trouble == "a broken file" else 2
    assert len(asked.read_text().splitlines()) == times


def _no_home(cls):
    raise RuntimeError("Could not determine home directory.")


def test_two_processes_at_once(real, cache, compiler):
    """Both build, neither sees half a file, one file is left."""
    compiler("sleep 0.3", *copying(real))
    code = (
        "import importlib.util as u; s = u.spec_from_file_location('b', "
        f"{builder.__file__!r}); b = u.module_from_spec(s); s.loader.exec_module(b); "
        "print(b.load().lanes)"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for _ in range(2)
    ]
    said = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert len({out for out, _ in said}) == 1
    assert [path.name for path in cache.iterdir()] == [builder.file_name()]


def test_the_source_goes_along_with_the_package():
    """A wheel without it could never build anything."""
    text = (ROOT / "setup.py").read_text()
    for path in builder.sources():
        assert f'"*{path.suffix}"' in text
    assert builder.FOLDER / "feedback.cpp" in builder.sources()
