r"""
---
title: Building the kernel
summary: >
  C++ becomes a library the first time it is needed, and is kept. Where that fails,
  something slower runs, and says so in one line.
---

Who installs this package installs Python files. The [kernel](index.html) is C++, so
somebody has to compile it, and for the processor that it will run on: with vectors of
16 numbers where there are such, of 8 or 4 elsewhere. We do it **on first use**. It
takes some seconds, because no header of PyTorch is read: the two functions take
pointers, and `ctypes`, which comes with Python, calls them.

**It is kept.** The library goes to `$XDG_CACHE_HOME/labml_nn` (`~/.cache/labml_nn` if
the variable is not set), under a name made of a hash of the source and of everything
that the compiler was told. So a new source or another processor finds another file,
and nobody has to ask whether a file is out of date.

**Two at once.** Training in several processes starts several builds at the same moment.
Each compiles into a file of its own and then renames it. Renaming is one indivisible
step, so nobody ever sees half a library; whoever comes last replaces a file by an equal
one.

**What may go wrong** is a lot: no compiler, one that fails, a directory in which nobody
may write. None of it is an error. [The form by hand](../by_hand/index.html) computes
the same, and one line says why it has to.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

FOLDER = Path(__file__).parent
COMPILERS = ("c++", "g++", "clang++")
PATIENCE = 300.0  # seconds

# ## What the compiler is told
#
# PyTorch knows what the processor can do, and so the same file is never loaded by one
# that cannot. `-ffp-contract=fast` lets $a + b c$ be one instruction, with one
# rounding. No other freedom is given: what is infinite or not a number stays so.
FLAGS = ("-O3", "-std=c++17", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread")
VECTORS = {
    "AVX512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "AVX2": ("-mavx2", "-mfma"),
}


class BuildError(Exception):
    r"""
    ## Why there is no kernel

    Its text is what the one line says.
    """


class Library:
    r"""
    ## The kernel, loaded

    * `lanes` is how many numbers a vector has
    * `forward`, `backward` take a pointer to a [task](task.py)

    While one of them runs, other threads of Python run too.
    """

    def __init__(self, path: Path) -> None:
        r"""
        * `path` is the library's file

        Raises `OSError` or `AttributeError` if it is none of ours.
        """
        library = ctypes.CDLL(str(path))
        for name in ("feedback_lanes", "feedback_task_size"):
            getattr(library, name).restype = ctypes.c_int64
        self.lanes = int(library.feedback_lanes())
        self.task_size = int(library.feedback_task_size())
        self.forward = library.feedback_forward
        self.backward = library.feedback_backward
        for function in (self.forward, self.backward):
            function.argtypes, function.restype = [ctypes.c_void_p], None


def flags() -> tuple[str, ...]:
    r"""
    For this processor.
    """
    return FLAGS + VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())


def sources() -> list[Path]:
    r"""
    All files of C++.
    """
    return sorted([*FOLDER.glob("*.h"), *FOLDER.glob("*.cpp")])


def file_name() -> str:
    r"""
    ## A name that says what is in it
    """
    known = hashlib.sha256()
    for part in (sys.platform, platform.machine(), *flags()):
        known.update(part.encode() + b"\0")
    for path in sources():
        known.update(path.read_bytes() + b"\0")
    return f"feedback-{known.hexdigest()[:20]}.so"


def cache() -> Path:
    r"""
    ## Where it is kept
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return base / "labml_nn"


def compile_to(path: Path) -> None:
    r"""
    ## Compile

    * `path` is the file to make, in a directory that is there

    The compiler is the one that `$CXX` names, as it is with other programs that build
    something, or else the first of `c++`, `g++` and `clang++` that is there.

    Raises `BuildError` if there is none, or it fails, and `OSError` if nothing can be
    written.
    """
    named = os.environ.get("CXX", "").split()
    candidates = [named] if named else [[name] for name in COMPILERS]
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        made = Path(folder) / path.name
        for command in candidates:
            try:
                done = subprocess.run(
                    [*command, *flags(), str(FOLDER / "feedback.cpp"), "-o", str(made)],
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=PATIENCE,
                )
            except FileNotFoundError:
                continue
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BuildError(f"`{command[0]}` did not run: {error}") from error
            if done.returncode or not made.exists():
                raise BuildError(_complaint(command[0], done))
            made.replace(path)
            return
    raise BuildError(
        f"there is no C++ compiler ({', '.join(c[0] for c in candidates)}); install "
        "one, or name one in `CXX`"
    )


def _complaint(name: str, done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line] or lines or ["no message"]
    return f"`{name}` failed with status {done.returncode}: {telling[0][:200]}"


def load() -> Library:
    r"""
    ## Load, and build before if need be

    Raises `BuildError` with the reason if it cannot be had.
    """
    name = file_name()
    try:
        path = cache() / name
        kept = _kept(path)
        if kept is not None:
            return kept
        path.parent.mkdir(parents=True, exist_ok=True)
        _build(path)
        return _opened(path)
    except (OSError, RuntimeError) as problem:
        # Nothing can be written there, or there is no home. A directory of the moment
        # will do: a library that is loaded does not need its file any more.
        try:
            with tempfile.TemporaryDirectory(prefix="labml_nn-") as folder:
                _build(Path(folder) / name)
                return _opened(Path(folder) / name)
        except OSError as again:
            raise BuildError(f"{problem}; {again}") from again


# A file that cannot be loaded, whatever has happened to it, is made anew.
def _kept(path: Path) -> Library | None:
    try:
        return _opened(path) if path.exists() else None
    except OSError:
        return None


def _build(path: Path) -> None:
    print(
        "labml_nn: compiling the kernel of the feedback transformer, once; about 5 s",
        file=sys.stderr,
    )
    compile_to(path)


def _opened(path: Path) -> Library:
    try:
        return Library(path)
    except AttributeError as error:
        raise OSError(f"{path} is not the kernel: {error}") from error
