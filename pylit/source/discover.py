"""Python source files under a folder, read as Python itself would read them.

A source is a package, a folder of modules, or one file. A stub, ``.pyi``, stands for a module that
is not written in Python. Left out are hidden files and the output of tools: environments, caches,
installed metadata, and ``build`` and ``dist`` beside a project's files, unless they are packages;
and of a project its tests, documentation and set-up. The source folder itself never is. Symbolic
links to folders are not followed: a folder inside the source is found anyway, and what is outside,
a file too, was not meant to be published.
"""

import codecs
import hashlib
import io
import os
import re
import stat
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from pylit.diagnostics import Report
from pylit.model import SourceFile

# ruff: noqa: PTH100, PTH110, PTH112, PTH114
# `os.path` answers False for what may not be looked at, where `pathlib` raises.


_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_SKIPPED = re.compile(r"\..*|__py(?:cache|packages)__|node_modules|.*\.(?:egg|(?:egg|dist)-info)")
_SKIPPED_IF_HOLDING = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG")
_INSTALLED = ("site-packages", "dist-packages")
_PYTHON = (".py", ".pyi")
#: Left out when a source is a project, with its ``pyproject.toml`` or ``setup.py``.
NOT_OF_A_PACKAGE = ("test", "tests", "doc", "docs", "setup.py", "conftest.py", "noxfile.py")

_UNREADABLE = "make it readable, or remove it from the source"
_WHAT_TO_NAME = (
    "name a package, a folder of modules or a `.py` file; hidden folders, environments and build"
    " outputs are left out"
)


def discover(
    root: Path, *, own: bool, report: Report, exclude: Sequence[str] = ()
) -> Iterator[SourceFile]:
    """The modules of the package, folder or file `root`, sorted by name, read one by one.

    Files and folders whose name matches a pattern in `exclude` are left out; a pattern with ``/``
    matches the path from the outermost package. Dotted names are those of imports:
    ``torch/nn/modules`` gives ``torch.nn.modules.linear``, and ``project/src/pkg`` gives ``pkg``.
    Missing or without Python, `root` is an error; other faults are errors in the site's `own`
    sources and warnings elsewhere.
    """
    # Not `resolve`: modules are called what a symbolic link to them is called.
    top = Path(os.path.abspath(root))
    is_folder = os.path.isdir(top)
    base = top if is_folder else top.parent
    while _is_package(base.parent) and base.parent != base:
        base = base.parent
    if _is_package(base):
        base = base.parent
    base = _import_root(base)
    faults = len(report)
    paths = [top] if os.path.lexists(top) and top.suffix in _PYTHON else []
    if is_folder:
        if base == top and _holds(top, _PROJECT_FILES):
            exclude = (*exclude, *NOT_OF_A_PACKAGE)
        paths = [*_files(top, base, own=own, report=report, exclude=exclude)]
        written = {path for path in paths if path.suffix == ".py"}
        paths = [
            path for path in paths if path in written or path.with_suffix(".py") not in written
        ]
    readable = False
    for name, path in sorted((name, path) for path, name in _names(paths, base).items()):
        display = _text(path.relative_to(base))
        source = read_source(path, name=name, display=display, own=own, report=report)
        if source is not None:
            readable = True
            yield source
    if not readable:
        fault = "source-missing", "it holds no Python", _WHAT_TO_NAME
        if paths or len(report) > faults:
            fault = "source-unreadable", "none of its Python can be read", _UNREADABLE
        elif not os.path.lexists(top):
            fault = "source-missing", "it is not there", "paths count from where you are"
        report.fault(True, (_text(root), 0, 0), *fault)


def read_source(
    path: Path, *, name: str, display: str, own: bool, report: Report
) -> SourceFile | None:
    """One file, with its text as `decode` gives it; None, with a report, if it cannot be read."""
    raw = read_bytes(path, display, own=own, report=report)
    if raw is None:
        return None
    text, fault = decode(raw, declared=path.suffix in _PYTHON)
    if fault:
        line, column, message = fault
        shown = text.split("\n")[line - 1][:200]
        hint = "save the file as UTF-8"
        report.fault(own, (display, line, column), "source-encoding", message, hint, shown)
    is_package = path.stem == "__init__"
    return SourceFile(path, name, display, is_package, own, text, hashlib.sha256(raw).hexdigest())


def read_bytes(path: Path, display: str, *, own: bool, report: Report) -> bytes | None:
    """The content of a regular file; None, with a report, if it cannot be read."""
    try:
        # To open a pipe would be to wait for its other end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(0, "not a regular file")
        return path.read_bytes()
    except OSError as error:
        _unreadable(display, error, own=own, report=report)
        return None


def _unreadable(display: str, error: OSError, *, own: bool, report: Report) -> None:
    message = f"cannot be read: {error.strerror or error}"
    report.fault(own, (display, 0, 0), "source-unreadable", message, _UNREADABLE)


def decode(raw: bytes, *, declared: bool = True) -> tuple[str, tuple[int, int, str] | None]:
    """The text of a file, its lines ended by ``\\n``; and its first fault: line, column, message.

    The encoding is UTF-8, or what a Python file declares; a byte order mark is removed. In a file
    that is not in its encoding, valid UTF-8 is decoded, and every other byte becomes ``\\xe9``, as
    Python would write it.
    """
    encoding = "utf-8-sig"
    try:
        if declared:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
        # Encodings such as `unicode_escape` can give surrogates, which no file can hold.
        text.encode("utf-8")
        return _unix(text), None
    except UnicodeDecodeError as error:
        before = _unix(raw[: error.start].decode(encoding, "replace"))
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"byte 0x{raw[error.start]:02X} is not {encoding.removesuffix('-sig').upper()}"
        fault = line, column, message
    except (SyntaxError, ValueError, LookupError) as error:
        # `# coding: hex` names an encoding of bytes, not of text.
        fault = 1, 1, f"Python cannot read it: {error}"
    return _unix(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace")), fault


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def leaves(path: Path, folder: str, display: str, *, own: bool, report: Report) -> bool:
    """Whether `path` is a symbolic link out of `folder`, a real path; then it is reported."""
    if not os.path.islink(path) or Path(os.path.realpath(path)).is_relative_to(folder):
        return False
    message = "a symbolic link that leaves the source is not followed"
    hint = "copy its target, or name that as a source of its own"
    report.fault(own, (display, 0, 0), "source-link", message, hint)
    return True


def _import_root(base: Path) -> Path:
    """Where imports of what is in `base` begin: outside of the namespace packages, which have no
    ``__init__.py``, in ``site-packages``, in the ``src`` of a project, or beside its files.
    """
    holds_packages = any(base.glob("*/__init__.py"))
    for folder in (base, *base.parents):
        if folder.name in _INSTALLED:
            return folder
        if _holds(folder, _PROJECT_FILES):
            src = folder / "src"
            if base.is_relative_to(src):
                return src
            return folder if base.parent == folder and holds_packages else base
    return base


def _files(
    top: Path, base: Path, *, own: bool, report: Report, exclude: Sequence[str]
) -> Iterator[Path]:
    """The files below `top` with the suffix of Python, regular files or not."""

    def unreadable(error: OSError) -> None:
        _unreadable(_text(Path(error.filename).relative_to(base)), error, own=own, report=report)

    inside = os.path.realpath(top)
    for name, folders, files in os.walk(top, onerror=unreadable):
        followed = []
        for path in sorted(Path(name, each) for each in (*folders, *files)):
            is_folder = path.name in folders
            if _is_skipped(path) or not (is_folder or path.suffix in _PYTHON):
                continue
            display = _text(path.relative_to(base))
            if any(fnmatchcase(display if "/" in each else path.name, each) for each in exclude):
                continue
            if leaves(path, inside, display, own=False, report=report):
                continue
            if is_folder:
                followed.append(path.name)
            else:
                yield path
        folders[:] = followed


def _names(paths: Iterable[Path], base: Path) -> dict[Path, str]:
    """The dotted names of files: as they are imported, or, if two files share that, from `base`."""

    @cache
    def is_root(folder: Path) -> bool:
        named = folder.name in ("src", *_INSTALLED) or _holds(folder, _PROJECT_FILES)
        return folder == base or (named and not any(map(_is_package, (folder, folder.parent))))

    def name(path: Path, root: Path) -> str:
        *folders, _ = path.relative_to(root).parts
        own = [] if path.stem == "__init__" and folders else [path.stem]
        return _text(".".join([*folders, *own]))

    names = {path: name(path, next(filter(is_root, path.parents))) for path in paths}
    times = Counter(names.values())
    return {path: each if times[each] == 1 else name(path, base) for path, each in names.items()}


def _is_skipped(path: Path) -> bool:
    is_output = path.name in ("build", "dist") and _holds(path.parent, _PROJECT_FILES)
    made = _holds(path, _SKIPPED_IF_HOLDING) or (is_output and not _is_package(path))
    return made or bool(_SKIPPED.fullmatch(path.name))


def _holds(folder: Path, names: Iterable[str]) -> bool:
    return any(os.path.exists(folder / name) for name in names)


def _is_package(folder: Path) -> bool:
    return _holds(folder, ("__init__.py", "__init__.pyi"))


def _text(name: str | Path) -> str:
    """A file's name as text: bytes that are not UTF-8, which no page can hold, are replaced."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
