"""Building a kernel: what is kept, what the compiler is told, who builds beside whom.

The kernel is a small one. Compilers are scripts, which say what they were asked and copy a library.
"""

import ast
import ctypes
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from labml_nn.kernels import build as builder
from labml_nn.kernels.build import BuildError, Extension, Library
from labml_nn.kernels.call import Call, fields

ROOT = Path(__file__).parents[3]
CODE = """
#include "vectors.h"
struct Args { Size count; double by; float *numbers; };
extern "C" const char *small_scale(const Args *args) {
    if (args->count < 0) return "count is negative";
    for (Size i = 0; i < args->count; i += LANES)
        store(args->numbers + i, load(args->numbers + i) * float(args->by));
    return nullptr;
}
extern "C" Size lanes() { return LANES; }
extern "C" Size args_size() { return sizeof(Args); }
"""


class Args(ctypes.Structure):
    _fields_ = fields("count", "by", "numbers")


def small(folder):
    return Extension("small", folder, "scale", what="small kernel", instead="Nothing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.cpp").write_text(CODE)
    return folder


@pytest.fixture
def kernel(folder):
    return small(folder)


@pytest.fixture(scope="module")
def real(folder):
    """The file of the small kernel."""
    try:
        small(folder).compile(folder / "small.so")
    except BuildError as error:
        pytest.skip(str(error))
    return folder / "small.so"


@pytest.fixture
def cache(tmp_path, monkeypatch):
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


def test_it_runs(real):
    library = Library("small", ("scale",), real)
    assert library.args_size == ctypes.sizeof(Args)
    call = Call(library, Args(), torch.empty(0))
    call.args.count, call.args.by = 5, 0.5
    call.point(numbers=call.wide(torch.arange(5.0)))
    call.run("scale")
    assert call.tensors["numbers"][:5].tolist() == [0, 0.5, 1, 1.5, 2]
    call.args.count = -1
    with pytest.raises(RuntimeError, match="count is negative; the sizes do not belong together"):
        call.run("scale")
    with pytest.raises(OSError, match="is not the kernel `small`"):
        Library("small", ("other",), real)


def test_it_is_built_once_and_kept(kernel, cache, compiler, capfd, monkeypatch):
    """The reported time is right, and after a power failure a file with a name is complete."""
    asked = compiler("sleep 0.3")
    done, sync, rename = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: [done.append("sync"), sync(file)])
    monkeypatch.setattr(Path, "replace", lambda *args: [done.append("name"), rename(*args)])
    assert kernel.load().lanes in (4, 8, 16)
    out, err = capfd.readouterr()
    said = re.fullmatch(r"labml_nn: compiling the kernel `small`, once \.\.\. (.*) s\n", err)
    assert out == "" and 0.3 <= float(said[1]) < 30
    assert kernel.load().lanes in (4, 8, 16)
    assert capfd.readouterr() == ("", "")
    assert len(asked.read_text().splitlines()) == 1 and done == ["sync", "name"]
    (path,) = cache.iterdir()
    assert path.name.startswith(kernel.key())


def test_a_change_of_the_source_is_another_file(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    monkeypatch.setattr(builder, "SHARED", tmp_path)
    names = set()
    for place in ("own/small.cpp", "own/part.h", "shared.h"):
        for text in ("int a;", "int b;"):
            (tmp_path / place).write_text(text)
            names.add(small(tmp_path / "own").key())
    assert len(names) == 6


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:4096] + bytes(4096) + content[8192:],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    ],
    ids=["cut to half", "a page of zeros", "one bit"],
)
def test_a_damaged_library_is_never_loaded(kernel, cache, compiler, damage):
    """To load a library of which a part is missing ends Python with a signal."""
    asked = compiler()
    kernel.load()
    (path,) = cache.iterdir()
    damaged = damage(path.read_bytes())
    path.unlink()  # the loaded library is a mapping of this file
    path.write_bytes(damaged)
    assert kernel.load().lanes in (4, 8, 16)
    assert len(asked.read_text().splitlines()) == 2
    (path,) = cache.iterdir()
    assert path.read_bytes() != damaged


def test_a_cache_that_cannot_be_used(kernel, cache, compiler, monkeypatch):
    """The kernel is built for this process; if nothing can be written at all, a warning says so."""
    asked = compiler()
    cache.parent.write_text("a file in the way")
    for _ in range(2):
        assert kernel.load().lanes in (4, 8, 16)
    assert len(asked.read_text().splitlines()) == 2
    monkeypatch.setattr(builder.tempfile, "tempdir", str(cache.parent))
    with pytest.warns(RuntimeWarning, match="small kernel is not used: .*Nothing runs") as warned:
        assert kernel.find() is None and kernel.find() is None
    assert len(warned) == 1


def test_no_home(kernel, compiler, monkeypatch):
    compiler()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home directory")))
    assert kernel.load().lanes in (4, 8, 16)


def test_two_processes_at_once(folder, kernel, cache, compiler):
    """Both build, neither sees half a file, one file is left."""
    asked = compiler("sleep 0.3")
    code = (
        "import pathlib; from labml_nn.kernels.build import Extension; "
        f"Extension('small', pathlib.Path({str(folder)!r}), 'scale', '', '').load()"
    )
    children = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    (path,) = cache.iterdir()
    assert path.name.startswith(kernel.key())
    assert 1 <= len(asked.read_text().splitlines()) <= 2


def test_the_source_goes_along_with_the_package():
    """A wheel without it could never build anything."""
    words = [n for n in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if hasattr(n, "arg")]
    (data,) = (ast.literal_eval(word.value) for word in words if word.arg == "package_data")
    packed = set()
    for package, patterns in data.items():
        for pattern in patterns:
            packed |= {*(ROOT / package.replace(".", "/")).glob(pattern)}
    sources = {path for path in (ROOT / "labml_nn").rglob("*") if path.suffix in {".h", ".cpp"}}
    assert sources and sources <= packed
