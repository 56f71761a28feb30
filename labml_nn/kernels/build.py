r"""
---
title: Building a kernel
summary: >
  C++ becomes a library the first time it is needed, and is kept. Where that fails,
  something slower runs, and says so in one line.
---

Who installs this package installs Python files. A [kernel](index.html) is C++, so
somebody has to compile it, and for the processor that it will run on: with vectors of
16 numbers where there are such, of 8 or 4 elsewhere. We do it **on first use**. It
takes some seconds, because no header of PyTorch is read: the functions take pointers,
and `ctypes`, which comes with Python, calls them.

**It is kept.** The library goes to `$XDG_CACHE_HOME/labml_nn` (`~/.cache/labml_nn` if
the variable is not set), under a name made of a hash of the source and of everything
that the compiler was told. So a new source or another processor finds another file,
and nobody has to ask whether a file is out of date.

**Two at once.** Training in several processes starts several builds at the same moment.
Each compiles into a file of its own and then renames it. Renaming is one indivisible
step, so nobody ever sees half a library; whoever comes last replaces a file by an equal
one.

**What may go wrong** is a lot: no compiler, one that fails, a directory in which nobody
may write. None of it is an error. Each kernel stands beside a form in PyTorch that
computes the same, and one line says why that has to run.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

#: Headers that kernels share.
SHARED = Path(__file__).parent / "cpp"
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


def flags(vectors: str | None = None) -> tuple[str, ...]:
    r"""
    * `vectors` is a name out of `VECTORS`, or `DEFAULT` for what every processor has;
      `None` is the best that this one can do
    """
    return FLAGS + VECTORS.get(vectors or torch.backends.cpu.get_cpu_capability(), ())


class BuildError(Exception):
    r"""
    ## Why there is no kernel

    Its text is what the one line says.
    """


@dataclass(frozen=True)
class Source:
    r"""
    ## What is compiled

    * `name` is that of the file of C++ in `folder`, without its `.cpp`
    * `folder` is where it lies, with headers of its own. Those beside this page can be
      included too
    * `functions` are those that Python calls. In C++, `forward` of the kernel
      `feedback` is `feedback_forward`; it takes a pointer to a structure and returns
      nothing
    """

    name: str
    folder: Path
    functions: tuple[str, ...]

    def files(self) -> list[Path]:
        r"""
        All that goes into it.
        """
        own = [*self.folder.glob("*.h"), *self.folder.glob("*.cpp")]
        return sorted(own) + sorted(SHARED.glob("*.h"))

    def file_name(self, vectors: str | None = None) -> str:
        r"""
        ### A name that says what is in it
        """
        known = hashlib.sha256()
        for part in (sys.platform, platform.machine(), *flags(vectors)):
            known.update(part.encode() + b"\0")
        for path in self.files():
            known.update(path.read_bytes() + b"\0")
        return f"{self.name}-{known.hexdigest()[:20]}.so"


class Library:
    r"""
    ## A kernel, loaded

    * `lanes` is how many numbers a vector has
    * `task_size` is how many bytes its structure has. Python knows the size too, and
      that both agree is a good sign that they mean the same
    """

    def __init__(self, source: Source, path: Path) -> None:
        r"""
        * `source` is what it was made of
        * `path` is the library's file

        Raises `OSError` or `AttributeError` if it is none of ours.
        """
        library = ctypes.CDLL(str(path))
        for name in ("lanes", "task_size"):
            getattr(library, name).restype = ctypes.c_int64
        self.lanes = int(library.lanes())
        self.task_size = int(library.task_size())
        self._functions = {
            name: getattr(library, f"{source.name}_{name}") for name in source.functions
        }
        for function in self._functions.values():
            function.argtypes, function.restype = [ctypes.c_void_p], None

    def run(self, name: str, task: ctypes.Structure) -> None:
        r"""
        Call a function. Meanwhile other threads of Python run too.

        * `name` is one of the source's `functions`
        * `task` is its structure
        """
        self._functions[name](ctypes.byref(task))


def cache() -> Path:
    r"""
    ## Where it is kept
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return base / "labml_nn"


def compile_to(path: Path, source: Source, vectors: str | None = None) -> None:
    r"""
    ## Compile

    * `path` is the file to make, in a directory that is there
    * `source`, `vectors` are as above

    The compiler is the one that `$CXX` names, as it is with other programs that build
    something, or else the first of `c++`, `g++` and `clang++` that is there.

    Raises `BuildError` if there is none, or it fails, and `OSError` if nothing can be
    written.
    """
    named = os.environ.get("CXX", "").split()
    candidates = [named] if named else [[name] for name in COMPILERS]
    told = [*flags(vectors), f"-I{SHARED}", str(source.folder / f"{source.name}.cpp")]
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        made = Path(folder) / path.name
        for command in candidates:
            try:
                done = subprocess.run(
                    [*command, *told, "-o", str(made)],
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


def load(source: Source, vectors: str | None = None) -> Library:
    r"""
    ## Load, and build before if need be

    * `source` is what to compile
    * `vectors` is for which processor, as above

    Raises `BuildError` with the reason if it cannot be had.
    """
    name = source.file_name(vectors)
    try:
        path = cache() / name
        kept = _kept(source, path)
        if kept is not None:
            return kept
        path.parent.mkdir(parents=True, exist_ok=True)
        return _built(source, path, vectors)
    except (OSError, RuntimeError) as problem:
        # Nothing can be written there, or there is no home. A directory of the moment
        # will do: a library that is loaded does not need its file any more.
        try:
            with tempfile.TemporaryDirectory(prefix="labml_nn-") as folder:
                return _built(source, Path(folder) / name, vectors)
        except OSError as again:
            raise BuildError(f"{problem}; {again}") from again


# A file that cannot be loaded, whatever has happened to it, is made anew.
def _kept(source: Source, path: Path) -> Library | None:
    try:
        return _opened(source, path) if path.exists() else None
    except OSError:
        return None


def _built(source: Source, path: Path, vectors: str | None) -> Library:
    print(
        f"labml_nn: compiling the kernel `{source.name}`, once; about 5 s",
        file=sys.stderr,
    )
    compile_to(path, source, vectors)
    return _opened(source, path)


def _opened(source: Source, path: Path) -> Library:
    try:
        return Library(source, path)
    except AttributeError as error:
        raise OSError(f"{path} is not the kernel: {error}") from error


class Kernel:
    r"""
    ## A kernel, or the reason why there is none

    A model asks for its library at every reading. It is looked for once in a process,
    and what is in its way is told once: a training run of many steps hears it on the
    first.
    """

    def __init__(self, source: Source, what: str, instead: str) -> None:
        r"""
        * `source` is what to compile
        * `what` is what the library computes, in words
        * `instead` is what runs where there is none, at the beginning of a sentence
        """
        self.source, self.what, self.instead = source, what, instead
        self.found: Library | BuildError | None = None
        self.told: set[str] = set()

    def find(self) -> Library | None:
        r"""
        The library, or `None`, with a warning the first time.
        """
        if self.found is None:
            try:
                self.found = load(self.source)
            except BuildError as error:
                self.found = error
        if isinstance(self.found, BuildError):
            self.tell(str(self.found))
            return None
        return self.found

    def tell(self, reason: str) -> None:
        r"""
        Say, once, why something slower runs.
        """
        if reason not in self.told:
            self.told.add(reason)
            warnings.warn(
                f"the compiled {self.what} is not used: {reason}. {self.instead} runs, "
                "with the same results",
                RuntimeWarning,
                stacklevel=3,
            )


def is_switched_off() -> bool:
    r"""
    Whether `LABML_NN_KERNEL=0` forbids all kernels.
    """
    return os.environ.get("LABML_NN_KERNEL") == "0"
