"""Python source files under a folder, read as Python itself would read them.

A source is a package, a folder of modules, or one ``.py`` file. What is hidden is left out, and
what tools made: environments, caches, installed metadata, and ``build`` and ``dist`` beside a
project's files, unless they are packages; the folder that is asked for never is. Symbolic links to
folders are not followed: what lies inside the source is there already, and what lies outside, a
file too, was not meant to be published.
"""

import codecs
import errno
import hashlib
import io
import os
import stat
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
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
    # Not `resolve`: what a symbolic link is called is what its modules are called.
    top = Path(os.path.abspath(root))
    home = top if os.path.isdir(top) else top.parent
    base = _import_root(home)

    @cache
    def parts(folder: Path) -> tuple[str, ...]:
        """The dotted name of a folder; it starts anew at ``src`` and where a project begins."""
        if folder == home:
            return folder.relative_to(base).parts
        is_root = folder.name in ("src", *_INSTALLED) or _holds(folder, _PROJECT_FILES)
        anew = is_root and not _is_package(folder) and not _is_package(folder.parent)
        return () if anew else (*parts(folder.parent), folder.name)

    known = len(report)
    found = [top] if os.path.lexists(top) and top.suffix == ".py" else []
    if home is top:
        found = list(_files(top, base, own=own, report=report))
    short = {path: _name(path, parts(path.parent)) for path in found}
    times = Counter(short.values())
    readable = False
    # Two roots may have modules of one name.
    names = {
        path: name if times[name] == 1 else _name(path, path.parent.relative_to(base).parts)
        for path, name in short.items()
    }
    for path in sorted(found, key=lambda path: (names[path], path)):
        display = _text(path.relative_to(base))
        source = read_source(path, name=names[path], display=display, own=own, report=report)
        if source is not None:
            readable = True
            yield source
    if not readable:
        told = "source-missing", "it holds no Python", _WHAT_TO_NAME
        if found or len(report) > known:
            told = "source-unreadable", "none of its Python can be read", _UNREADABLE
        elif not os.path.lexists(top):
            told = "source-missing", "it is not there", "paths count from where you are"
        report.fault(True, (_text(root), 0, 0), *told)


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
        report.fault(own, (display, 0, 0), "source-unreadable", message, _UNREADABLE)
        return None
    text, fault = decode(raw)
    if fault:
        line, column, message = fault
        shown = text.split("\n")[line - 1][:200]
        told = "source-encoding", message, "save the file as UTF-8", shown
        report.fault(own, (display, line, column), *told)
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


def _files(top: Path, base: Path, *, own: bool, report: Report) -> Iterator[Path]:
    """The Python files below `top`; also what only looks like one, for `read_source` to say so."""

    def unreadable(error: OSError) -> None:
        place = _text(Path(error.filename).relative_to(base)), 0, 0
        message = f"cannot be read: {error.strerror}"
        report.fault(own, place, "source-unreadable", message, _UNREADABLE)

    inside = os.path.realpath(top)
    for name, folders, files in os.walk(top, onerror=unreadable):
        paths = [Path(name, each) for each in (*folders, *files)]
        kept = []
        for path in sorted(each for each in paths if not _is_skipped(each)):
            is_folder = path.name in folders
            if not is_folder and path.suffix != ".py":
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


def _name(path: Path, parts: tuple[str, ...]) -> str:
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


def _text(name: str | Path) -> str:
    """A file's name as text: it may hold bytes that are not UTF-8, and no page could."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
