"""Python source files under a folder, read as Python itself would read them.

A source is a package, a folder of modules, or one ``.py`` file. Left out are hidden files and the
output of tools: environments, caches, installed metadata, and ``build`` and ``dist`` beside a
project's files, unless they are packages; the source folder itself never is. Symbolic links to
folders are not followed: a folder inside the source is found anyway, and what lies outside, a file
too, was not meant to be published.
"""

import codecs
import hashlib
import io
import os
import stat
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from pylit.diagnostics import Report
from pylit.model import SourceFile

# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH114
# `os.path` answers False for what may not be looked at, where `pathlib` raises.


_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_SKIPPED_NAMES = ("__pycache__", "__pypackages__", "node_modules")
_SKIPPED_SUFFIXES = (".egg-info", ".dist-info", ".egg")
_SKIPPED_IF_HOLDING = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG")
_INSTALLED = ("site-packages", "dist-packages")

_UNREADABLE = "make it readable, or remove it from the source"
_WHAT_TO_NAME = (
    "name a package, a folder of modules or a `.py` file; hidden folders, environments and build"
    " outputs are left out"
)


def discover(root: Path, *, own: bool, report: Report) -> Iterator[SourceFile]:
    """The modules of the package, folder or file `root`, sorted by name, read one by one.

    Dotted names come from the packages around: ``torch/nn/modules`` gives
    ``torch.nn.modules.linear``. Missing or without Python, `root` is an error; other faults are
    errors in the site's `own` sources and warnings elsewhere.
    """
    # Not `resolve`: modules are called what a symbolic link to them is called.
    top = Path(os.path.abspath(root))
    is_folder = os.path.isdir(top)
    base = _import_root(top if is_folder else top.parent)
    faults = len(report)
    paths = [top] if os.path.lexists(top) and top.suffix == ".py" else []
    if is_folder:
        paths = list(_files(top, base, own=own, report=report))
    readable = False
    for name, path in sorted((_name(path, base), path) for path in paths):
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
    text, fault = decode(raw, declared=path.suffix == ".py")
    if fault:
        line, column, message = fault
        shown = text.split("\n")[line - 1][:200]
        hint = "save the file as UTF-8"
        report.fault(own, (display, line, column), "source-encoding", message, hint, shown)
    is_package = path.name == "__init__.py"
    return SourceFile(path, name, display, is_package, own, text, hashlib.sha256(raw).hexdigest())


def read_bytes(path: Path, display: str, *, own: bool, report: Report) -> bytes | None:
    """The content of a regular file; None, with a report, if it cannot be read."""
    try:
        # To open a pipe would be to wait for its other end.
        if stat.S_ISREG(path.stat().st_mode):
            return path.read_bytes()
        reason = "not a regular file"
    except OSError as error:
        reason = error.strerror or str(error)
    _unreadable(display, reason, own=own, report=report)
    return None


def _unreadable(display: str, reason: str, *, own: bool, report: Report) -> None:
    message = f"cannot be read: {reason}"
    report.fault(own, (display, 0, 0), "source-unreadable", message, _UNREADABLE)


def decode(raw: bytes, *, declared: bool = True) -> tuple[str, tuple[int, int, str] | None]:
    """The text of a file, its lines ended by ``\\n``; and its first fault: line, column, message.

    The encoding is UTF-8, or what a Python file declares; a byte order mark is removed. In a file
    that is not in its encoding, what is valid UTF-8 is read as that, and every other byte becomes
    ``\\xe9``, as Python would write it.
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
    except (SyntaxError, ValueError) as error:
        fault = 1, 1, f"Python cannot read it: {error}"
    return _unix(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace")), fault


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _files(top: Path, base: Path, *, own: bool, report: Report) -> Iterator[Path]:
    """What is named like a Python file below `top`; `read_source` reports what is none."""

    def unreadable(error: OSError) -> None:
        display = _text(Path(error.filename).relative_to(base))
        _unreadable(display, error.strerror or str(error), own=own, report=report)

    inside = os.path.realpath(top)
    for name, folders, files in os.walk(top, onerror=unreadable):
        kept = []
        for path in sorted(Path(name, each) for each in (*folders, *files)):
            is_folder = path.name in folders
            if _is_skipped(path) or not (is_folder or path.suffix == ".py"):
                continue
            if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(inside):
                message = "a symbolic link that leaves the source is not followed"
                hint = "copy what it leads to, or name that as a source of its own"
                place = _text(path.relative_to(base)), 0, 0
                report.fault(False, place, "source-link", message, hint)
            elif is_folder:
                kept.append(path.name)
            else:
                yield path
        folders[:] = kept


def _name(path: Path, base: Path) -> str:
    """The dotted name of a module, which begins below a project's ``src``."""
    *folders, _ = path.relative_to(base).parts
    if folders[:1] == ["src"] and not _is_package(base / "src"):
        folders = folders[1:]
    own = [] if path.name == "__init__.py" and folders else [path.stem]
    return _text(".".join([*folders, *own]))


def _import_root(folder: Path) -> Path:
    """The folder that `folder`'s modules would be imported from.

    Above the packages around it; a plain folder is one itself. Inside a package, or right inside
    ``site-packages``, a folder without ``__init__.py`` is a namespace package.
    """
    top = folder
    while _is_package(top.parent) and top.parent != top:
        top = top.parent
    return top.parent if _is_package(top) or top.parent.name in _INSTALLED else top


def _is_skipped(path: Path) -> bool:
    name = path.name
    if name.startswith(".") or name in _SKIPPED_NAMES or name.endswith(_SKIPPED_SUFFIXES):
        return True
    is_output = name in ("build", "dist") and _holds(path.parent, _PROJECT_FILES)
    return _holds(path, _SKIPPED_IF_HOLDING) or (is_output and not _is_package(path))


def _holds(folder: Path, names: Iterable[str]) -> bool:
    return any(os.path.exists(folder / name) for name in names)


def _is_package(folder: Path) -> bool:
    return os.path.isfile(folder / "__init__.py")


def _text(name: str | Path) -> str:
    """A file's name as text: it may hold bytes that are not UTF-8, and no page could."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
