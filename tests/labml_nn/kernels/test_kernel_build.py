"""Building a kernel: what is kept, what the compiler is told, who builds beside whom.

The kernel is a small one. Compilers are scripts, which say what they were asked and copy a library.
"""

import ast
import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labml_nn.kernels import build as builder
from labml_nn.kernels.build import Source
from labml_nn.kernels.call import Call, fields

ROOT = Path(__file__).parents[3]
CODE = """
#include "vectors.h"
struct Task { Size count; double by; float *numbers; };
extern "C" void small_scale(const Task *task) {
    for (Size i = 0; i < task->count; i += LANES)
        store(task->numbers + i, load(task->numbers + i) * float(task->by));
}
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
"""


class Task(ctypes.Structure):
    _fields_ = fields("count", "by", "numbers")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.cpp").write_text(CODE)
    return Source("small", folder, ("scale",))


@pytest.fixture(scope="module")
def real(source, tmp_path_factory):
    """The file of the small kernel."""
    path = tmp_path_factory.mktemp("real") / "small.so"
    try:
        builder.compile_library(path, source)
    except builder.BuildError as error:
        pytest.skip(str(error))
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labml_nn"


@pytest.fixture
def compiler(tmp_path, monkeypatch, real):
    """A script as the compiler, which makes its last argument a copy of the kernel."""

    def make(*lines):
        path = tmp_path / "compiler"
        asked, copy = f'echo "$@" >> {tmp_path}/asked', f'cp "{real}" "$last"'
        path.write_text("\n".join(["#!/bin/sh", asked, *lines, "for last; do :; done", copy, ""]))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CXX", str(path))
        return tmp_path / "asked"

    return make


def test_it_runs(source, real):
    library = builder.Library(source, real)
    assert library.task_size == ctypes.sizeof(Task)
    call = Call(library, Task(), torch.empty(0))
    call.task.count, call.task.by = 5, 0.5
    call.point(numbers=call.wide(torch.arange(5.0)))
    call.run("scale")
    assert call.tensors["numbers"][:5].tolist() == [0, 0.5, 1, 1.5, 2]


def test_it_is_built_once_and_kept(source, cache, compiler, capfd):
    asked = compiler()
    assert builder.load(source).lanes in (4, 8, 16)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "labml_nn: compiling the kernel `small`, once; about 5 s\n")
    assert builder.load(source).lanes in (4, 8, 16)
    assert capfd.readouterr() == ("", "")
    assert len(asked.read_text().splitlines()) == 1
    (path,) = cache.iterdir()
    assert path.name.startswith(source.key())


def test_the_compiler_is_told_what_the_processor_can_do(source, cache, compiler, monkeypatch):
    asked = compiler()
    cache.mkdir(parents=True)
    names = []
    for capability, expected in (("AVX512", "-mavx512f"), ("AVX2", "-mavx2"), ("DEFAULT", "-O3")):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
        assert source.key() == source.key(capability)
        builder.store(cache, source)
        assert expected in asked.read_text().splitlines()[-1].split()
        names.append(source.key())
    assert len(set(names)) == 3
    assert "-mavx" not in asked.read_text().splitlines()[-1]


def test_a_change_of_the_source_is_another_file(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    monkeypatch.setattr(builder, "SHARED", tmp_path)
    source, names = Source("small", tmp_path / "own", ()), set()
    for place in ("own/small.cpp", "own/part.h", "shared.h"):
        for text in ("int a;", "int b;"):
            (tmp_path / place).write_text(text)
            names.add(source.key())
    assert len(names) == 6


@pytest.mark.parametrize("damage", ["cut off", "one bit"])
def test_a_damaged_library_is_never_loaded(source, cache, compiler, damage):
    """To load a library of which a part is missing ends Python with a signal."""
    asked = compiler()
    builder.load(source)
    (path,) = cache.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "one bit":
        content[-1] ^= 1
    path.unlink()  # the loaded library is a mapping of this file
    damaged = bytes(content[: len(content) // 2] if damage == "cut off" else content)
    path.write_bytes(damaged)
    assert builder.load(source).lanes in (4, 8, 16)
    assert len(asked.read_text().splitlines()) == 2
    (path,) = cache.iterdir()
    assert path.read_bytes() != damaged


@pytest.mark.parametrize("trouble", ["a file in the way", "no home"])
def test_a_cache_that_cannot_be_used(source, cache, compiler, monkeypatch, trouble):
    """The kernel is built for this process alone."""
    asked = compiler()
    if trouble == "a file in the way":
        cache.parent.write_text("")
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", classmethod(_no_home))
    for _ in range(2):
        assert builder.load(source).lanes in (4, 8, 16)
    assert len(asked.read_text().splitlines()) == 2


def _no_home(cls):
    raise RuntimeError("Could not determine home directory.")


def test_a_cache_that_is_read_only_without_a_place_for_the_moment(source, monkeypatch, tmp_path):
    """Nothing can be written anywhere: there is a reason, and no other error."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(builder.tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(builder.BuildError, match=r"Not a directory|No such file|File exists"):
        builder.load(source)


def test_two_processes_at_once(source, cache, compiler):
    """Both build, neither sees half a file, one file is left."""
    asked = compiler("sleep 0.3")
    code = (
        "import importlib.util as u, pathlib, sys; "
        f"s = u.spec_from_file_location('b', {builder.__file__!r}); b = u.module_from_spec(s); "
        "sys.modules['b'] = b; s.loader.exec_module(b); "
        f"print(b.load(b.Source('small', pathlib.Path({str(source.folder)!r}), ('scale',))).lanes)"
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
    (path,) = cache.iterdir()
    assert path.name.startswith(source.key())
    assert 1 <= len(asked.read_text().splitlines()) <= 2


def test_the_source_goes_along_with_the_package():
    """A wheel without it could never build anything."""
    calls = list(ast.walk(ast.parse((ROOT / "setup.py").read_text())))
    (data,) = (
        ast.literal_eval(node.value)
        for node in calls
        if isinstance(node, ast.keyword) and node.arg == "package_data"
    )
    packed = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    sources = {path for path in (ROOT / "labml_nn").rglob("*") if path.suffix in {".h", ".cpp"}}
    assert sources and sources <= packed
