"""The output folder: the only place that a build changes.

A manifest in the folder names the files that builds wrote there, and nothing else is ever replaced
or deleted. Files are written aside as they are made, and renamed when all are there, one quick call
each, so a build that is killed leaves the old site or, for a few milliseconds' worth of renames,
whole files of both; the manifest is widened before the first rename, so that the next build knows
all of them as its own.
"""

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pylit.cache import alone
from pylit.diagnostics import Diagnostic, Report, Severity

MANIFEST = ".pylit-manifest.json"
_STAGING = ".pylit-staging"
_NEW_MANIFEST = MANIFEST + ".new"
#: What a first build that was killed early leaves behind, before there is a manifest.
_BEGUN = {_STAGING, _NEW_MANIFEST}


@dataclass(slots=True)
class Written:
    """What a build changed in the output folder."""

    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def check_output(out: Path, report: Report) -> None:
    """Refuse a folder that is not ours, before any work is done for it."""
    try:
        if out.exists() and not out.is_dir():
            report.add(_fault(out, "is not a folder", "choose another with --out"))
        elif out.is_dir() and not (out / MANIFEST).is_file() and _holds_others(out):
            hint = "choose another folder with --out, or empty this one yourself"
            report.add(_fault(out, "is not empty, and its files were not written by a build", hint))
    except OSError as error:
        report.add(_unwritable(out, error))


def _holds_others(out: Path) -> bool:
    return any(entry.name not in _BEGUN for entry in out.iterdir())


def standing(out: Path) -> str:
    """Differs when any of our files was touched since: a digest of what the file system says."""
    hasher = sha256()
    for path, digests in _read_manifest(out).items():
        told = _told(out / path)
        if not told:
            return ""
        hasher.update(f"{path} {digests} {told}\n".encode(errors="surrogatepass"))
    return hasher.hexdigest()


def _told(path: Path) -> tuple[int, ...]:
    """What the file system says of a file: other numbers when it was touched; none without one."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


#: Files that were read in this process: what the file system said of each, and its digest.
_read: dict[Path, tuple[tuple[int, ...], str]] = {}


class Output(Mapping[str, bytes]):
    """The files of a site, by path, while a build makes them.

    Each is staged as soon as it is made, so that only digests stay in memory; `publish` moves all
    of them to their places. A fault before that leaves the site that stands, and so does the end of
    the ``with`` statement. A second build of the same folder waits until then.

    Args:
        out: The folder.
        report: Where faults go.
        check: Whether to write nothing.
    """

    def __init__(self, out: Path, report: Report, *, check: bool = False) -> None:
        self._out, self._report, self._check = out, report, check
        self._digests: dict[str, str] = {}
        #: Files that differ from what stands in their places, and the numbers of staged ones.
        self._staged: dict[str, int] = {}
        self._count = 0
        self._end = ExitStack()
        self._result = Written()

    def __enter__(self) -> "Output":
        if self._check:
            return self
        check_output(self._out, self._report)
        if self._report.failed:
            return self
        try:
            self._end.callback(_remove_empty, None if self._out.exists() else self._out)
            self._out.mkdir(parents=True, exist_ok=True)
            self._end.enter_context(alone(self._out))
            self._end.callback(shutil.rmtree, self._staging, ignore_errors=True)
            # What a build left behind that was killed.
            shutil.rmtree(self._staging, ignore_errors=True)
            (self._out / _NEW_MANIFEST).unlink(missing_ok=True)
            self._staging.mkdir(parents=True)
        except OSError as error:
            self._report.add(_unwritable(self._out, error))
        except BaseException:  # After Ctrl-C nobody calls `__exit__`.
            self._end.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def add(self, path: str, data: bytes) -> None:
        """Make `data` the content of a file, instead of what was added under its path before."""
        digest = self._digests[path] = sha256(data).hexdigest()
        place = self._out / path
        told = _told(place)
        if self._check or _read.get(place) == (told, digest) or _content(place) == data:
            self._staged.pop(path, None)
            if not self._check:
                _read[place] = told, digest
            return
        self._count += 1
        number = self._staged.setdefault(path, self._count)
        try:
            (self._staging / str(number)).write_bytes(data)
        except OSError as error:  # A full disk shows here, before anything moved.
            self._report.add(_unwritable(self._out, error))

    def update(self, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> None:
        """Add several."""
        for path, data in files.items() if isinstance(files, Mapping) else files:
            self.add(path, data)

    def __getitem__(self, path: str) -> bytes:
        """The content of a file that was added."""
        number = self._staged.get(path)
        place = self._out / path if number is None else self._staging / str(number)
        return place.read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def publish(self, keep: tuple[str, ...] = ()) -> Written:
        """Make the folder hold these files; what differs is replaced, what is gone is deleted.

        On any fault nothing is renamed: the site that stands stays. Files of ours whose paths begin
        as one of `keep` are not gone yet. Afterwards all files can be added and published again:
        the result is of all that was.
        """
        result = self._result
        known = _read_manifest(self._out)
        if self._check or self._report.failed or not self._check_collisions(known):
            return result
        try:
            self._move(known, keep, result)
            self._digests, self._staged = {}, {}
        except OSError as error:
            self._report.add(_unwritable(self._out, error))
        return result

    def _move(self, known: Mapping[str, list[str]], keep: tuple[str, ...], result: Written) -> None:
        fresh = {path: digests for path, digests in known.items() if path.startswith(keep)}
        fresh |= {path: [digest] for path, digest in self._digests.items()}
        stale = sorted(known.keys() - fresh.keys())
        if not (self._staged or stale or fresh != known):
            return
        _write_manifest(self._out, _union(known, fresh))
        for path, number in self._staged.items():
            (self._out / path).parent.mkdir(parents=True, exist_ok=True)
            (self._staging / str(number)).replace(self._out / path)
            result.written.append(path)
        for path in stale:
            _delete(self._out, path, known[path], self._report, result)
        _write_manifest(self._out, fresh)

    @property
    def _staging(self) -> Path:
        return self._out / _STAGING

    def _check_collisions(self, known: Collection[str]) -> bool:
        """Whether every file has a free place, or one that a build filled before."""
        foreign: set[Path] = set()
        checked: set[Path] = {self._out}
        for name in self._digests:
            path = self._out / name
            # A file that is already what it should be takes no harm, whoever wrote it.
            unknown = name not in known and name in self._staged and os.path.lexists(path)
            if path.is_dir() or unknown:
                foreign.add(path)
            for place in (self._out / folder for folder in PurePosixPath(name).parents):
                if place in checked:
                    continue
                checked.add(place)
                # A link to a folder would lead our files out of the output folder.
                if place.is_symlink() or (place.exists() and not place.is_dir()):
                    foreign.add(place)
        if foreign:
            first, *others = sorted(foreign)
            more = f", as are {len(others)} other files" if others else ""
            hint = "move what is in the way, empty the folder, or choose another one with --out"
            message = f"is in the way of a page, and no build wrote it{more}"
            self._report.add(_fault(first, message, hint))
        return not foreign


def _remove_empty(folder: Path | None) -> None:
    """Remove the folder of a first build that failed."""
    if folder is not None:
        with suppress(OSError):
            folder.rmdir()


def _delete(out: Path, name: str, digests: list[str], report: Report, result: Written) -> None:
    """Remove a page that is no more, unless somebody changed it since a build wrote it."""
    path = out / name
    content = _content(path)
    if content is None:
        return
    if sha256(content).hexdigest() not in digests:
        message = "belongs to no page any more, but was edited by hand, so it stays"
        diagnostic = _fault(path, message, "delete it yourself", Severity.WARNING)
        report.add(diagnostic)
        return
    path.unlink()
    result.deleted.append(name)
    for folder in PurePosixPath(name).parents:
        if folder == PurePosixPath("."):
            break
        try:
            (out / folder).rmdir()
        except OSError:  # It holds other files.
            break


def _content(path: Path) -> bytes | None:
    if path.is_symlink():
        return None
    try:
        return path.read_bytes()
    except OSError:
        return None


def _read_manifest(out: Path) -> dict[str, list[str]]:
    """Path -> digests of what builds wrote there; empty when there is none or it is damaged."""
    try:
        files = json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {
            str(path): [str(d) for d in digests]
            for path, digests in files.items()
            if _is_inside(out, PurePosixPath(path))
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_inside(out: Path, path: PurePosixPath) -> bool:
    """Whether a path of the manifest, which anyone may have edited, stays in the folder."""
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


def _union(old: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {
        path: sorted({*old.get(path, ()), *new.get(path, ())}) for path in old.keys() | new.keys()
    }


def _unwritable(out: Path, error: OSError) -> Diagnostic:
    place = Path(os.fsdecode(error.filename)) if error.filename else out
    reason = error.strerror or str(error)
    hint = "make it writable, or choose another folder with --out"
    return _fault(place, f"cannot be written: {reason}", hint)


def _fault(path: Path, message: str, hint: str, severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic(str(path), 0, 0, "output", message, hint, severity=severity)
