"""Python source files under a folder, read as Python itself would read them.

A source is a package, a folder of modules, or one ``.py`` file. What is left out, and why:

- what is hidden (a name that begins with a dot), ``__pycache__``, ``node_modules``;
- virtual environments (a folder with ``pyvenv.cfg`` or ``conda-meta``) and caches (a folder with
  ``CACHEDIR.TAG``);
- installed metadata (``*.egg-info``, ``*.dist-info``), and ``build`` and ``dist`` beside a
  project's ``pyproject.toml``, ``setup.py`` or ``setup.cfg``, unless they are packages.

The folder that is asked for is never left out, whatever its name. A symbolic link to a folder is
followed once: its files are shown under the folder's own path where that is in the source too. One
that leads out of the folder is not followed: what lies there was not meant to be published.
"""

# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH208
# `os.path` answers False for what may not be looked at, where `pathlib` raises.

import difflib
import errno
import hashlib
import os
from collections import Counter, deque
from dataclasses import dataclass, field
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


def discover(root: Path, *, own: bool, report: Report) -> tuple[SourceFile, ...]:
    """The modules of the package, folder or file `root`, sorted by name.

    Dotted names come from the packages around: ``torch/nn/modules`` gives
    ``torch.nn.modules.linear``. Missing or without Python, `root` is an error; other faults are
    errors in the site's `own` sources and warnings elsewhere.
    """
    # Not `resolve`: what a symbolic link is called is what its modules are called.
    top = Path(os.path.abspath(root))
    real = Path(os.path.realpath(top))
    folder, inside = (top, real) if os.path.isdir(top) else (top.parent, real.parent)
    walk = _Walk(_import_root(folder), inside, own, report)
    if os.path.isdir(top):
        walk.folder(top, top.relative_to(walk.base).parts)
        walk.follow_links()
    elif os.path.lexists(top) and top.suffix == ".py":
        walk.file(top, top.parent.relative_to(walk.base).parts)
    else:
        _complain(report, _text(str(root)), "source-missing", *_what_is_missing(top))
        return ()
    sources = walk.read()
    if not sources and walk.faulty:
        message = "none of its Python can be read"
        _complain(report, _text(str(root)), "source-unreadable", message, _UNREADABLE)
    elif not sources:
        hint = f"{_WHAT_TO_NAME}; hidden folders, environments and build outputs are left out"
        _complain(report, _text(str(root)), "source-missing", "it holds no Python", hint)
    return sources


def read_source(
    path: Path, *, name: str, display: str, own: bool, report: Report
) -> SourceFile | None:
    """Read one file. One that cannot be read is None; one that is not text is read as if it were.

    The text has no byte order mark and its lines end with ``\\n``; the digest is of the bytes.
    """
    try:
        if not path.is_file():
            path.stat()
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
                hint=fault.hint,
                source_line=lines[min(fault.line, len(lines)) - 1][:200],
                severity=_severity(own),
            )
        )
    is_package = path.name == "__init__.py"
    return SourceFile(path, name, display, is_package, own, text, hashlib.sha256(raw).hexdigest())


@dataclass(frozen=True, slots=True)
class _Found:
    """A file that is a module, by the folders that make its dotted name and its own name."""

    path: Path
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Dotted name."""
        own = () if self.path.name == "__init__.py" and self.parts else (self.path.stem,)
        return _text(".".join((*self.parts, *own)))


@dataclass(slots=True)
class _Walk:
    """One search for modules."""

    #: The folder that paths are shown from.
    base: Path
    #: The folder that symbolic links must not leave, itself without any.
    inside: Path
    own: bool
    report: Report
    found: list[_Found] = field(default_factory=list)
    faulty: bool = False
    #: Real paths of the folders that were looked into.
    seen: set[str] = field(default_factory=set)
    #: Symbolic links to folders, which wait until all real folders are known.
    links: deque[tuple[Path, tuple[str, ...]]] = field(default_factory=deque)

    def folder(self, top: Path, parts: tuple[str, ...]) -> None:
        """Find the modules below `top`, whose own dotted name is `parts`."""
        pending = [(top, parts)]
        while pending:
            folder, parts = pending.pop()
            self.seen.add(os.path.realpath(folder))
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                self.complain(folder, "source-unreadable", f"cannot be read: {error.strerror}")
                continue
            for entry in entries:
                path = folder / entry.name
                if not os.path.isdir(path):
                    self.file(path, parts)
                elif not _is_skipped(path):
                    waiting = self.links if entry.is_symlink() else pending
                    waiting.append((path, _inside(path, parts)))

    def file(self, path: Path, parts: tuple[str, ...]) -> None:
        """Keep a Python file. What only looks like one is kept too, for `read_source` to say so."""
        if path.name.startswith("."):
            return
        try:
            path.stat()
        except OSError as error:
            # Python 3.11 has no other way to tell a link to itself from one to nowhere.
            if error.errno == errno.ELOOP:
                self.complain(path, "source-loop", "a symbolic link that leads to itself")
                return
        if path.suffix == ".py" and not self.leaves(path):
            self.found.append(_Found(path, parts))

    def follow_links(self) -> None:
        """Find the modules behind symbolic links to folders, each folder once."""
        while self.links:
            path, parts = self.links.popleft()
            target = os.path.realpath(path)
            around = {*path.parents, *Path(os.path.realpath(path.parent), "_").parents}
            if target in map(os.path.realpath, around):
                message = f"a symbolic link to {path.readlink()}, which contains it"
                self.complain(path, "source-loop", message)
            elif target not in self.seen and not self.leaves(path):
                self.folder(path, parts)

    def leaves(self, path: Path) -> bool:
        """Whether a file or folder is a symbolic link out of the source; says so if it is."""
        if not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(self.inside):
            return False
        message = "a symbolic link that leaves the source is not followed"
        hint = "copy what it leads to, or name that as a source of its own"
        display = self.display(path)
        _complain(self.report, display, "source-link", message, hint, own=False)
        return True

    def read(self) -> tuple[SourceFile, ...]:
        """Read what was found. Modules of one name are told apart by their folders."""
        names = Counter(found.name for found in self.found)
        sources: list[SourceFile] = []
        for found in self.found:
            name, display = found.name, self.display(found.path)
            if names[name] > 1:
                name = _Found(found.path, Path(display).parent.parts).name
            source = read_source(
                found.path, name=name, display=display, own=self.own, report=self.report
            )
            if source is not None:
                sources.append(source)
            self.faulty = self.faulty or source is None
        return tuple(sorted(sources, key=lambda source: (source.name, source.display)))

    def display(self, path: Path) -> str:
        """A path as readers see it."""
        return _text(path.relative_to(self.base).as_posix())

    def complain(self, path: Path, code: str, message: str) -> None:
        """Report a fault of a file or folder."""
        self.faulty = True
        hint = "remove the link" if code == "source-loop" else _UNREADABLE
        _complain(self.report, self.display(path), code, message, hint, own=self.own)


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


def _inside(folder: Path, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The dotted name of `folder`, whose parent's is `parts`.

    Names start anew at ``src``, at ``site-packages`` and at a project inside a project.
    """
    is_root = folder.name in _IMPORT_ROOTS or any(
        os.path.isfile(folder / name) for name in _PROJECT_FILES
    )
    if is_root and not _is_package(folder) and not _is_package(folder.parent):
        return ()
    return (*parts, folder.name)


def _text(name: str) -> str:
    """A file's name as text: it may hold bytes that are not UTF-8, and no page could."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_package(folder: Path) -> bool:
    return os.path.isfile(folder / "__init__.py")


def _is_skipped(folder: Path) -> bool:
    """Whether a folder is left out; see above."""
    name = folder.name
    if name.startswith(".") or name in _SKIPPED_NAMES or name.endswith(_SKIPPED_SUFFIXES):
        return True
    if any(os.path.exists(folder / mark) for mark in _SKIPPED_IF_HOLDING):
        return True
    return (
        name in ("build", "dist")
        and not _is_package(folder)
        and any(os.path.isfile(folder.parent / file) for file in _PROJECT_FILES)
    )


def _what_is_missing(top: Path) -> tuple[str, str]:
    """Message and hint for a source that is neither a folder nor a Python file."""
    if os.path.lexists(top):
        return "it is not a Python file", _WHAT_TO_NAME
    if not os.path.isdir(top.parent):
        return "it is not there, and neither is its folder", "paths count from where you are"
    try:
        near = difflib.get_close_matches(top.name, os.listdir(top.parent), n=1)
    except OSError:
        near = []
    hint = f"did you mean `{near[0]}`?" if near else "paths count from where you are"
    return "it is not there", hint


def _severity(own: bool) -> Severity:
    return Severity.ERROR if own else Severity.WARNING


def _complain(
    report: Report, path: str, code: str, message: str, hint: str, *, own: bool = True
) -> None:
    """Report a fault of a file or folder as a whole."""
    report.add(Diagnostic(path, 0, 0, code, message, hint, severity=_severity(own)))
