"""Python source files under a folder, read as Python itself would read them.

A source is a package, a folder of modules, or one ``.py`` file. What is left out, and why:

- what is hidden (a name that begins with a dot), ``__pycache__``, ``node_modules``;
- virtual environments (a folder with ``pyvenv.cfg`` or ``conda-meta``) and caches (a folder with
  ``CACHEDIR.TAG``);
- installed metadata (``*.egg-info``, ``*.dist-info``), and ``build`` and ``dist`` beside a
  project's ``pyproject.toml``, ``setup.py`` or ``setup.cfg``, unless they are packages.

The folder that is asked for is never left out, whatever its name. Each folder is read once: behind
a symbolic link only if it is nowhere else in the source. A link that leads out of the source is not
followed: what lies there was not meant to be published.
"""

# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH208
# `os.path` answers False for what may not be looked at, where `pathlib` raises.

import difflib
import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import SourceFile
from pylit.source.decode import decode

_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_SKIPPED_NAMES = {"__pycache__", "__pypackages__", "node_modules"}
_SKIPPED_SUFFIXES = (".egg-info", ".dist-info", ".egg")
_SKIPPED_IF_HOLDING = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG")
_INSTALLED = ("site-packages", "dist-packages")
_IMPORT_ROOTS = ("src", *_INSTALLED)
_UNREADABLE = "make it readable, or remove it from the source"
_WHAT_TO_NAME = "name a package, a folder of modules or a `.py` file"

#: The folders that make a dotted name.
_Parts = tuple[str, ...]


def discover(root: Path, *, own: bool, report: Report) -> Iterator[SourceFile]:
    """The modules of the package, folder or file `root`, sorted by name, read one by one.

    Dotted names come from the packages around: ``torch/nn/modules`` gives
    ``torch.nn.modules.linear``. Missing or without Python, `root` is an error; other faults are
    errors in the site's `own` sources and warnings elsewhere.
    """
    # Not `resolve`: what a symbolic link is called is what its modules are called.
    top = Path(os.path.abspath(root))
    folder = top if os.path.isdir(top) else top.parent
    base = _import_root(folder)
    parts = folder.relative_to(base).parts
    known = len(report)
    if folder is top:
        found = _modules(top, base, own=own, report=report)
        missing = "it holds no Python"
        hint = f"{_WHAT_TO_NAME}; hidden folders, environments and build outputs are left out"
    else:
        found = [(top, parts)] if os.path.lexists(top) and top.suffix == ".py" else []
        missing, hint = _what_is_missing(top)
    names = Counter(_name(*each) for each in found)
    ordered = []
    for path, parts in found:
        inside, name = path.relative_to(base), _name(path, parts)
        if names[name] > 1:
            name = _name(path, inside.parent.parts)
        ordered.append((name, _text(inside.as_posix()), path))
    readable = False
    for name, display, path in sorted(ordered):
        source = read_source(path, name=name, display=display, own=own, report=report)
        if source is not None:
            readable = True
            yield source
    if not readable:
        code = "source-missing"
        if found or len(report) > known:
            code, missing, hint = "source-unreadable", "none of its Python can be read", _UNREADABLE
        _complain(report, _text(str(root)), code, missing, hint, own=True)


def read_source(
    path: Path, *, name: str, display: str, own: bool, report: Report
) -> SourceFile | None:
    """Read one file. One that cannot be read is None; one that is not text is read as if it were.

    The text has no byte order mark and its lines end with ``\\n``; the digest is of the bytes.
    """
    try:
        # To open a pipe would be to wait for its other end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        raw = path.read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        _complain(report, display, "source-unreadable", message, _UNREADABLE, own=own)
        return None
    text, fault = decode(raw)
    if fault is not None:
        lines = text.split("\n")
        report.add(
            Diagnostic(
                path=display,
                line=fault.line,
                column=fault.column,
                code="source-encoding",
                message=fault.message,
                hint="save the file as UTF-8",
                source_line=lines[min(fault.line, len(lines)) - 1][:200],
                severity=Severity.ERROR if own else Severity.WARNING,
            )
        )
    is_package = path.name == "__init__.py"
    return SourceFile(path, name, display, is_package, own, text, hashlib.sha256(raw).hexdigest())


def _modules(top: Path, base: Path, *, own: bool, report: Report) -> list[tuple[Path, _Parts]]:
    """The files below `top`, each with the folders that make its dotted name."""
    found: list[tuple[Path, _Parts]] = []
    inside = os.path.realpath(top)
    seen: set[str] = set()
    folders = [(top, top.relative_to(base).parts)]
    # Symbolic links wait until all real folders are known.
    links: list[tuple[Path, _Parts]] = []
    while folders or links:
        folder, parts = folders.pop() if folders else links.pop(0)
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            display = _text(folder.relative_to(base).as_posix())
            message = f"cannot be read: {error.strerror}"
            _complain(report, display, "source-unreadable", message, _UNREADABLE, own=own)
            continue
        for entry in entries:
            path = folder / entry.name
            is_folder = os.path.isdir(path)
            if _is_skipped(path) or not (is_folder or path.suffix == ".py"):
                continue
            link = entry.is_symlink()
            if link and not Path(os.path.realpath(path)).is_relative_to(inside):
                display = _text(path.relative_to(base).as_posix())
                message = "a symbolic link that leaves the source is not followed"
                hint = "copy what it leads to, or name that as a source of its own"
                _complain(report, display, "source-link", message, hint, own=False)
            elif is_folder:
                (links if link else folders).append((path, _inside(path, parts)))
            else:
                # What only looks like Python is kept too, for `read_source` to say so.
                found.append((path, parts))
    return found


def _name(path: Path, parts: _Parts) -> str:
    """The dotted name of a file in a package or folder of that name."""
    own = () if path.name == "__init__.py" and parts else (path.stem,)
    return _text(".".join((*parts, *own)))


def _import_root(folder: Path) -> Path:
    """The folder that `folder`'s modules would be imported from.

    Above the packages around it; a plain folder is one itself. Inside a package, or right inside
    ``site-packages``, a folder without ``__init__.py`` is a namespace package.
    """
    top = folder
    while _is_package(top.parent) and top.parent != top:
        top = top.parent
    inside = _is_package(top) or top.parent.name in _INSTALLED
    return top.parent if inside else top


def _inside(folder: Path, parts: _Parts) -> _Parts:
    """The dotted name of `folder`, whose parent's is `parts`.

    Names start anew at ``src``, at ``site-packages`` and at a project inside a project.
    """
    is_root = folder.name in _IMPORT_ROOTS or _holds(folder, _PROJECT_FILES)
    if is_root and not _is_package(folder) and not _is_package(folder.parent):
        return ()
    return (*parts, folder.name)


def _text(name: str) -> str:
    """A file's name as text: it may hold bytes that are not UTF-8, and no page could."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _holds(folder: Path, names: Iterable[str]) -> bool:
    return any(os.path.exists(folder / name) for name in names)


def _is_package(folder: Path) -> bool:
    return os.path.isfile(folder / "__init__.py")


def _is_skipped(path: Path) -> bool:
    """Whether a file or folder is left out; see above."""
    name = path.name
    if name.startswith(".") or name in _SKIPPED_NAMES or name.endswith(_SKIPPED_SUFFIXES):
        return True
    if _holds(path, _SKIPPED_IF_HOLDING):
        return True
    is_output = name in ("build", "dist") and _holds(path.parent, _PROJECT_FILES)
    return is_output and not _is_package(path)


def _what_is_missing(top: Path) -> tuple[str, str]:
    """Message and hint for a source that is neither a folder nor a Python file."""
    if os.path.lexists(top):
        return "it is not a Python file", _WHAT_TO_NAME
    beside = os.listdir(top.parent) if os.access(top.parent, os.R_OK | os.X_OK) else []
    near = difflib.get_close_matches(top.name, beside, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "paths count from where you are"
    return "it is not there", hint


def _complain(report: Report, path: str, code: str, message: str, hint: str, *, own: bool) -> None:
    """Report a fault of a file or folder as a whole."""
    severity = Severity.ERROR if own else Severity.WARNING
    report.add(Diagnostic(path, 0, 0, code, message, hint, severity=severity))
