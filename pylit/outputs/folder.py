"""The output folder: the only place that a build changes.

A manifest in the folder names the files that builds wrote there, and no other file is replaced or
deleted. Files are written to a staging folder as they are made, and renamed when all are there. A
build that is killed leaves the old site or, during the renames, whole files of both. The manifest
is extended before the first rename, so that the next build recognizes all of them.
See decision 009.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pylit.cache import folder_lock
from pylit.diagnostics import Diagnostic, Report, Severity

MANIFEST = ".pylit-manifest.json"
_STAGING = ".pylit-staging"
_NEW_MANIFEST = MANIFEST + ".new"


@dataclass(slots=True)
class Written:
    """What a build changed in the output folder."""

    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def output_state(out: Path) -> str:
    """A digest of the status of all files in the manifest; empty if one is missing."""
    hasher = sha256()
    for path, digests in _read_manifest(out).items():
        status = _status(out / path)
        if not status:
            return ""
        hasher.update(f"{path} {digests} {status}\n".encode(errors="surrogatepass"))
    return hasher.hexdigest()


def _status(path: Path) -> tuple[int, ...]:
    """Numbers that change with a file; none if there is no file."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(path: Path) -> str:
    """The digest of a file; empty for a link, a folder, and what cannot be read."""
    return _digest_of(path, _status(path))


@lru_cache(maxsize=50_000)
def _digest_of(path: Path, _status: tuple[int, ...]) -> str:
    try:
        return "" if path.is_symlink() else sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


class Output(Mapping[str, bytes]):
    """The files of a site, by path, while a build makes them.

    Each is staged as soon as it is made, so that only digests stay in memory; `publish` moves all
    of them to their places. An error before that leaves the old site. A second build of the same
    folder waits until the end of the ``with`` statement.

    Args:
        out: The folder.
        report: Where errors go.
        check: Whether to write nothing.
    """

    def __init__(self, out: Path, report: Report, *, check: bool = False) -> None:
        self._out, self._report, self._check = out, report, check
        self._staging = out / _STAGING
        self._digests: dict[str, str] = {}
        #: Files that differ from those in their places.
        self._staged: set[str] = set()
        #: The files of earlier builds, with their digests.
        self.known: Mapping[str, list[str]] = {}
        self._end = ExitStack()

    def __enter__(self) -> "Output":
        if self._check:
            return self
        try:
            with ExitStack() as end:
                if not self._out.exists():
                    end.callback(_remove_empty, [self._out])
                self._out.mkdir(parents=True, exist_ok=True)
                end.enter_context(folder_lock(self._out))
                self.known = _read_manifest(self._out)
                # A first build that was killed leaves the last two.
                ours = {MANIFEST, _STAGING, _NEW_MANIFEST}
                names = {path.name for path in self._out.iterdir()}
                if MANIFEST not in names and names - ours:
                    hint = "choose another folder with --out, or empty this one yourself"
                    message = "is not empty, and its files were not written by a build"
                    self._report.add(_fault(self._out, message, hint))
                    return self
                end.callback(shutil.rmtree, self._staging, ignore_errors=True)
                shutil.rmtree(self._staging, ignore_errors=True)
                (self._out / _NEW_MANIFEST).unlink(missing_ok=True)
                self._staging.mkdir()
                self._end = end.pop_all()
        except OSError as error:
            self._report.add(_unwritable(self._out, error))
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def add(self, path: str, data: bytes) -> None:
        """Make `data` the content of a file, instead of what was added under its path before."""
        digest = self._digests[path] = sha256(data).hexdigest()
        if self._check or _digest(self._out / path) == digest:
            self._staged.discard(path)
            return
        self._staged.add(path)
        try:
            self._staged_path(path).write_bytes(data)
        except OSError as error:  # A full disk is noticed here, before any file is replaced.
            self._report.add(_unwritable(self._out, error))

    def _staged_path(self, path: str) -> Path:
        return self._staging / sha256(os.fsencode(path)).hexdigest()

    def update(self, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> None:
        """Add several."""
        for path, data in files.items() if isinstance(files, Mapping) else files:
            self.add(path, data)

    def __getitem__(self, path: str) -> bytes:
        """The content of a file that was added."""
        place = self._staged_path(path) if path in self._staged else self._out / path
        return place.read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def publish(self, *, keep: bool = False) -> Written:
        """Make the folder hold these files: replace those that differ, and delete all others, or
        keep them. After any error nothing is renamed.
        """
        known, result = self.known, Written()
        if self._check or self._report.failed or self._blocked(known):
            return result
        files = dict(known) if keep else {}
        files |= {path: [digest] for path, digest in self._digests.items()}
        try:
            if self._staged or files != known:
                self._move(known, files, result)
        except OSError as error:
            self._report.add(_unwritable(self._out, error))
        return result

    def _move(
        self, known: Mapping[str, list[str]], files: Mapping[str, list[str]], result: Written
    ) -> None:
        both = {
            path: sorted({*known.get(path, ()), *files.get(path, ())})
            for path in known.keys() | files.keys()
        }
        _write_manifest(self._out, both)
        for path in sorted(self._staged):
            (self._out / path).parent.mkdir(parents=True, exist_ok=True)
            self._staged_path(path).replace(self._out / path)
            result.written.append(path)
        for name in sorted(known.keys() - files.keys()):
            place = self._out / name
            digest = _digest(place)
            if digest in known[name]:
                place.unlink()
                result.deleted.append(name)
                _remove_empty(self._out / folder for folder in PurePosixPath(name).parents[:-1])
            elif digest:
                message = "belongs to no page any more, but was edited by hand, so it stays"
                warning = _fault(place, message, "delete it yourself", Severity.WARNING)
                self._report.add(warning)
        _write_manifest(self._out, files)

    def _blocked(self, known: Mapping[str, list[str]]) -> bool:
        """Report files of the user's in the places of pages, and whether there are any."""
        names = {name.rpartition("/")[0] for name in self._digests}
        folders = {self._out / f for name in names for f in PurePosixPath(name, "x").parents[:-1]}
        # A link to a folder would lead our files out of the output folder.
        foreign = {f for f in folders if f.is_symlink() or (f.exists() and not f.is_dir())}
        # An identical file is not staged, and is accepted.
        new = {self._out / name for name in self._staged - known.keys()}
        foreign |= {path for path in new if os.path.lexists(path)}
        foreign |= {path for name in self._staged if (path := self._out / name).is_dir()}
        if foreign:
            first, *others = sorted(foreign)
            more = f", as are {len(others)} other files" if others else ""
            hint = "move what is in the way, empty the folder, or choose another one with --out"
            message = f"is in the way of a page, and no build wrote it{more}"
            self._report.add(_fault(first, message, hint))
        return bool(foreign)


def _remove_empty(folders: Iterable[Path]) -> None:
    with suppress(OSError):  # One that holds files is not removed.
        for folder in folders:
            folder.rmdir()


def _read_manifest(out: Path) -> dict[str, list[str]]:
    """Path -> digests of what builds wrote there; empty when there is none or it is damaged."""
    try:
        files = json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"]
        inside = cache(partial(_is_inside, out))
        return {
            path: [str(d) for d in digests]
            for path, digests in files.items()
            for folder, slash, name in [path.rpartition("/")]
            if inside(folder + slash) and name != ".."
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_inside(out: Path, folder: str) -> bool:
    """Whether a folder of the manifest, which anyone may have edited, is in the output folder."""
    path = PurePosixPath(folder, "x")
    if path.is_absolute() or ".." in path.parts:
        return False
    return not any((out / folder).is_symlink() for folder in path.parents[:-1])


def _write_manifest(out: Path, files: Mapping[str, list[str]]) -> None:
    temporary = out / _NEW_MANIFEST
    text = json.dumps({"files": dict(sorted(files.items()))}, indent=0)
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text + "\n")
        # After a power cut it must not be empty: the next build would not know its own files.
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(out / MANIFEST)


def _unwritable(out: Path, error: OSError) -> Diagnostic:
    place = Path(os.fsdecode(error.filename)) if error.filename else out
    reason = error.strerror or str(error)
    hint = "make it writable, or choose another folder with --out"
    return _fault(place, f"cannot be written: {reason}", hint)


def _fault(path: Path, message: str, hint: str, severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic(str(path), 0, 0, "output", message, hint, severity=severity)
