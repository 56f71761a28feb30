"""Python source files under a folder, read as Python itself would read them.

A source is a package, a folder of modules, or one ``.py`` file. What is left out, and why:

- what is hidden (a name that begins with a dot), ``__pycache__``, ``node_modules``;
- virtual environments (a folder with ``pyvenv.cfg`` or ``conda-meta``) and caches (a folder with
  ``CACHEDIR.TAG``);
- installed metadata (``*.egg-info``, ``*.dist-info``), and ``build`` and ``dist`` beside a
  project's ``pyproject.toml``, ``setup.py`` or ``setup.cfg``, unless they are packages.

The folder that is asked for is never left out, whatever its name. Symbolic links to folders are not
followed: what lies inside the source is there already, and what lies outside, a file too, was not
meant to be published.
"""

# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH114
# `os.path` answers False for what may not be looked at, where `pathlib` raises.

import codecs
import errno
import hashlib
import io
import os
import stat
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import SourceFile

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
    known = len(report)
    found: list[tuple[Path, _Parts]] = []
    if folder is top:
        found = _modules(top, base, own=own, report=report)
    elif os.path.lexists(top) and top.suffix == ".py":
        found = [(top, folder.relative_to(base).parts)]
    names = Counter(_name(*each) for each in found)
    ordered = []
    for path, parts in found:
        inside, name = path.relative_to(base), _name(path, parts)
        # Two roots may have modules of one name.
        name = name if names[name] == 1 else _name(path, inside.parent.parts)
        ordered.append((name, _text(inside.as_posix()), path))
    readable = False
    for name, display, path in sorted(ordered):
        source = read_source(path, name=name, display=display, own=own, report=report)
        if source is not None:
            readable = True
            yield source
    if not readable:
        fault = "source-missing", "it holds no Python", _WHAT_TO_NAME
        if found or len(report) > known:
            fault = "source-unreadable", "none of its Python can be read", _UNREADABLE
        elif not os.path.lexists(top):
            fault = "source-missing", "it is not there", "paths count from where you are"
        _complain(report, _text(str(root)), *fault, own=True)


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
        severity = Severity.ERROR if own else Severity.WARNING
        line, column, message = fault
        shown = "".join(text.split("\n")[line - 1 : line])[:200]
        what = "source-encoding", message, "save the file as UTF-8"
        report.add(Diagnostic(display, line, column, *what, shown, severity=severity))
    is_package = path.name == "__init__.py"
    return SourceFile(path, name, display, is_package, own, text, hashlib.sha256(raw).hexdigest())


def decode(raw: bytes) -> tuple[str, tuple[int, int, str] | None]:
    """The text of a file, and its first fault: line, column and what it is.

    Of a file that is not in its encoding, what is valid UTF-8 is read as that, and every other byte
    becomes ``\\xe9``, as Python would write it.
    """
    encoding = "utf-8"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
        # Encodings such as `unicode_escape` can make what is no text at all.
        text.encode("utf-8")
        return _unix(text), None
    except UnicodeDecodeError as error:
        before = _unix(raw[: error.start].decode(encoding, "replace"))
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"byte 0x{raw[error.start]:02X} is not {encoding.upper()}"
        fault = line, column, message
    except (SyntaxError, ValueError) as error:
        fault = 1, 1, f"Python cannot read it: {error}"
    return _unix(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace")), fault


def _unix(text: str) -> str:
    """`text` with every line ended by ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _modules(top: Path, base: Path, *, own: bool, report: Report) -> list[tuple[Path, _Parts]]:
    """The files below `top`, each with the folders that make its dotted name."""
    inside = os.path.realpath(top)
    found: list[tuple[Path, _Parts]] = []
    parts_of = {top: top.relative_to(base).parts}

    def shown(path: Path) -> str:
        return _text(path.relative_to(base).as_posix())

    def unreadable(error: OSError) -> None:
        message = f"cannot be read: {error.strerror}"
        display = shown(Path(error.filename))
        _complain(report, display, "source-unreadable", message, _UNREADABLE, own=own)

    for name, folders, files in os.walk(top, onerror=unreadable):
        folder = Path(name)
        for path in sorted(folder / each for each in (*folders, *files)):
            is_folder = path.name in folders
            if _is_skipped(path) or not (is_folder or path.suffix == ".py"):
                continue
            if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(inside):
                message = "a symbolic link that leaves the source is not followed"
                hint = "copy what it leads to, or name that as a source of its own"
                _complain(report, shown(path), "source-link", message, hint, own=False)
            elif is_folder:
                parts_of[path] = _inside(path, parts_of[folder])
            else:
                # What only looks like Python is kept too, for `read_source` to say so.
                found.append((path, parts_of[folder]))
        folders[:] = sorted(each for each in folders if folder / each in parts_of)
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
    return top.parent if _is_package(top) or top.parent.name in _INSTALLED else top


def _inside(folder: Path, parts: _Parts) -> _Parts:
    """The dotted name of `folder`, whose parent's is `parts`.

    Names start anew at ``src``, at ``site-packages`` and at a project inside a project.
    """
    is_root = folder.name in ("src", *_INSTALLED) or _holds(folder, _PROJECT_FILES)
    anew = is_root and not _is_package(folder) and not _is_package(folder.parent)
    return () if anew else (*parts, folder.name)


def _is_skipped(path: Path) -> bool:
    """Whether a file or folder is left out; see above."""
    name = path.name
    if name.startswith(".") or name in _SKIPPED_NAMES or name.endswith(_SKIPPED_SUFFIXES):
        return True
    is_output = name in ("build", "dist") and _holds(path.parent, _PROJECT_FILES)
    return _holds(path, _SKIPPED_IF_HOLDING) or (is_output and not _is_package(path))


def _holds(folder: Path, names: Iterable[str]) -> bool:
    return any(os.path.exists(folder / name) for name in names)


def _is_package(folder: Path) -> bool:
    return os.path.isfile(folder / "__init__.py")


def _text(name: str) -> str:
    """A file's name as text: it may hold bytes that are not UTF-8, and no page could."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _complain(report: Report, path: str, code: str, message: str, hint: str, *, own: bool) -> None:
    """Report a fault of a file or folder as a whole."""
    severity = Severity.ERROR if own else Severity.WARNING
    report.add(Diagnostic(path, 0, 0, code, message, hint, severity=severity))
