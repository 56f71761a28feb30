r"""
---
title: Compiled kernels
summary: >
  Loops in C++, compiled on first use: vectors, products of few rows, threads, and how a
  library is built, cached and checked.
---

Each call of PyTorch costs some microseconds. A recurrence has a thousand sequential
steps, each a dozen products of a few rows: the arithmetic of a step may take two
microseconds, and the calls around it twenty. So sequential loops have a
[kernel](__init__.py) in C++: **one** [call](call.py) for all steps. Without a compiler
the same module runs in PyTorch, more slowly and with equal results.

**Vectors.** A CPU core adds and multiplies several floats per instruction: 16 with
AVX-512, 8 with AVX2, 4 elsewhere. GCC and Clang have a vector type of any length, for
which `a + b * c` is one instruction. `vectors.h` defines it and names no instruction
set, so it compiles for every CPU.

**Products of few rows.** Nearly all time is spent in $C = A B$ where $A$ has one row
per sequence and $B$ is a weight matrix. A block of $R$ rows and $V$ vectors of $C$
stays in registers during the whole sum, so each loaded number is used several times:

```cpp
for (Size k = 0; k < steps; k++, left += a.step, right += b.step) {
    Vec numbers[V];
    for (int v = 0; v < V; v++) numbers[v] = load(right + v * LANES);
    for (int r = 0; r < R; r++) {
        Vec number = all(left[r * a.row]);
        for (int v = 0; v < V; v++) c[r][v] += number * numbers[v];
    }
}
```

The same loop, in `products.h`, computes weight gradients: they are $A^\top B$, and a
transposed matrix is one that is read with other strides. Weights are
[packed](call.py#Call.pack) in the order in which they are read. A bias, an activation
function, a dropout mask or a residual is applied to a result in its register.

**Threads** share what is independent, such as the sequences of a batch, from the first
step to the last, so that they synchronise only once. They are PyTorch's own OpenMP
threads: those keep spinning for some milliseconds after their work and would compete
with threads of our own for the cores.

**Building.** The best instructions depend on the machine, so a kernel is compiled **on
first use**. That takes some seconds: it includes no header of PyTorch, since it works
on pointers, and is called with `ctypes`. The library is kept in
`$XDG_CACHE_HOME/labml_nn` (`~/.cache/labml_nn` by default).

| Step | What could go wrong, and what happens |
|:--|:--|
| [name](#Extension.key) | source, compiler flags or CPU differ: another file |
| [compile](#Extension.compile) | no compiler, an error: `BuildError`, PyTorch runs |
| [store](#Extension.store) | two processes, a crash: complete files are renamed |
| [load](#Extension.load) | a damaged file: its hash differs, and it is compiled again |
"""

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

from labml_nn.saving import cache_folder

#: The folders of all kernels, and the headers that they share.
SHARED = Path(__file__).parent / "cpp"
COMPILERS = ("c++", "g++", "clang++")
TIMEOUT = 300.0  # seconds

#: Why a kernel in C++ does not run on a machine without it; a warning has said more.
NO_LIBRARY = "its C++ could not be compiled or loaded here"

# ## Compiler flags
#
# PyTorch knows the instruction set of the CPU. The flags are part of the file name, so
# a cache on a shared disk never gives a CPU instructions that it does not have.
# `-ffp-contract=fast` lets $a + b c$ be one instruction with one rounding. Nothing else
# is relaxed: infinities and NaN keep their meaning.
FLAGS = ("-O3", "-std=c++17", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread")
VECTORS = {
    "AVX512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "AVX2": ("-mavx2", "-mfma"),
}


def flags() -> tuple[str, ...]:
    """With the best instructions that this CPU supports."""
    return FLAGS + VECTORS.get(torch.backends.cpu.get_cpu_capability(), ())


class BuildError(Exception):
    """There is no library. The message is the reason."""


class Library:
    """
    ## A loaded library

    * `lanes` is the number of floats in a vector
    * `args_size` is the size of its structure in bytes, to compare with that in Python
    """

    def __init__(self, name: str, functions: tuple[str, ...], path: Path) -> None:
        """Raises `OSError` if `path` is not the kernel `name` with these functions."""
        library = ctypes.CDLL(str(path))
        try:
            self.lanes, self.args_size = library.lanes(), library.args_size()
            self._functions = {
                each: getattr(library, f"{name}_{each}") for each in functions
            }
        except AttributeError as error:
            raise OSError(f"{path} is not the kernel `{name}`: {error}") from error
        for function in self._functions.values():
            function.argtypes = [ctypes.c_void_p]
            function.restype = ctypes.c_char_p

    def run(self, function: str, args: ctypes.Structure) -> None:
        """
        Calls a function with its structure. Other Python threads continue. Raises
        `RuntimeError` with what is wrong with the sizes in the structure: then nothing
        was read and nothing was written.
        """
        message = self._functions[function](ctypes.byref(args))
        if message is not None:
            raise RuntimeError(
                f"{message.decode()}; the sizes do not belong together, please report "
                "it and use `labml_nn.kernels.disabled()` until it is mended"
            )


# A damaged library does not fail to load: it ends Python with a signal, at once or
# when a damaged page is first executed. So its hash is part of its name.
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:20]


class Extension:
    """
    ## A C++ extension

    The C++ of a kernel, and its library, which is compiled on first use. It is loaded
    once per process, and a problem is reported once.
    """

    def __init__(
        self, name: str, folder: Path, functions: str, what: str, instead: str
    ) -> None:
        """
        * `name` is the name of the C++ file in `folder`, without `.cpp`
        * `folder` contains it and its own headers; it can include those of `SHARED`
        * `functions` are called from Python. In C++ the function `forward` of the
          kernel `elman` is `elman_forward`; it takes a pointer to a structure, checks
          its sizes, and returns a message, or null after its work
        * `what` is what it computes, and `instead` what runs without it
        """
        self.name, self.folder, self.functions = name, folder, tuple(functions.split())
        self.what, self.instead = what, instead
        self.found: Library | BuildError | None = None

    def find(self) -> Library | None:
        """Returns the library, or `None` with a warning the first time."""
        if self.found is None:
            try:
                self.found = self.load()
            except BuildError as error:
                self.found = error
                warnings.warn(
                    f"the compiled {self.what} is not used: {error}. {self.instead} "
                    "runs, with the same results",
                    RuntimeWarning,
                    stacklevel=3,
                )
        return self.found if isinstance(self.found, Library) else None

    def key(self) -> str:
        """
        ### Cache key

        The kernel's name and a hash of the source, the flags and the platform: no file
        is ever out of date.
        """
        known = hashlib.sha256()
        for part in (sys.platform, platform.machine(), *flags()):
            known.update(part.encode() + b"\0")
        own = [*self.folder.glob("*.h"), *self.folder.glob("*.cpp")]
        for path in sorted(own) + sorted(SHARED.glob("*.h")):
            known.update(path.read_bytes() + b"\0")
        return f"{self.name}-{known.hexdigest()[:20]}"

    def compile(self, path: Path) -> None:
        """
        ### Compile

        Writes the library to `path`, with the compiler in the environment variable
        `CXX`, or the first of `c++`, `g++` and `clang++` that is installed. Raises
        `BuildError` if there is none or it fails.
        """
        named = os.environ.get("CXX", "").split()
        candidates = [named] if named else [[name] for name in COMPILERS]
        code = str(self.folder / f"{self.name}.cpp")
        arguments = [*flags(), f"-I{SHARED}", code, "-o", str(path)]
        for command in candidates:
            try:
                done = subprocess.run(
                    [*command, *arguments], capture_output=True, timeout=TIMEOUT
                )
            except FileNotFoundError:
                continue
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BuildError(f"`{command[0]}` did not run: {error}") from error
            if done.returncode == 0 and path.exists():
                return
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            errors = [line for line in lines if "error" in line] or lines
            message = errors[0].strip()[:200] if errors else "no message"
            raise BuildError(
                f"`{command[0]}` failed with status {done.returncode}: {message}"
            )
        raise BuildError(
            f"there is no C++ compiler ({', '.join(c[0] for c in candidates)}); "
            "install one, or set `CXX` to its name"
        )

    def store(self, folder: Path) -> Path:
        """
        ### Compile and store

        Compiles into a temporary directory inside `folder`, writes the file through to
        the disk, and renames it to its key and the hash of its content. Renaming is
        atomic: another process, also after a power failure, sees the complete library
        or none. Returns the path.
        """
        start, end = time.perf_counter(), " failed"
        message = f"labml_nn: compiling the kernel `{self.name}`, once ..."
        print(message, end="", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as temporary:
            made = Path(temporary) / f"{self.name}.so"
            try:
                self.compile(made)
                end = f" {time.perf_counter() - start:.1f} s"
            finally:
                print(end, file=sys.stderr, flush=True)
            with made.open("rb+") as file:
                os.fsync(file.fileno())
            path = folder / f"{self.key()}-{_digest(made)}.so"
            made.replace(path)
        return path

    def load(self) -> Library:
        """
        ### Load

        Loads the library from the cache, or compiles it first, also if the content of
        a file does not have the hash in its name. If nothing can be kept in the cache,
        the library is built for this process alone: once loaded, it does not need its
        file any more. Raises `BuildError` with the reason if there is no library.
        """
        try:
            folder = cache_folder()
            for path in folder.glob(f"{self.key()}-*.so"):
                if path.stem.endswith(f"-{_digest(path)}"):
                    return Library(self.name, self.functions, path)
                path.unlink(missing_ok=True)
            folder.mkdir(parents=True, exist_ok=True)
            return Library(self.name, self.functions, self.store(folder))
        except (OSError, RuntimeError) as error:
            try:
                with tempfile.TemporaryDirectory(prefix="labml_nn-") as temporary:
                    path = self.store(Path(temporary))
                    return Library(self.name, self.functions, path)
            except OSError as second:
                raise BuildError(f"{error}; {second}") from second
