"""The output folder: the only place that a build changes.

A manifest in the folder names the files that builds wrote there, and nothing else is ever replaced
or deleted. Files are written aside first and then renamed, one quick call each, so a build that is
killed leaves the old site or, for a few milliseconds' worth of renames, whole files of both; the
manifest is widened before the first rename, so that the next build knows all of them as its own.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

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


def publish(out: Path, files: Mapping[str, bytes], report: Report) -> Written:
    """Make the folder hold `files`; what differs is written, what is gone is deleted.

    On any fault nothing is renamed: the site that stands stays.
    """
    result = Written()
    check_output(out, report)
    if report.failed:
        return result
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _alone(out):
            # What a build left behind that was killed while it wrote.
            shutil.rmtree(out / _STAGING, ignore_errors=True)
            (out / _NEW_MANIFEST).unlink(missing_ok=True)
            _publish(out, files, report, result)
    except OSError as error:
        report.add(_unwritable(out, error))
    return result


def _publish(out: Path, files: Mapping[str, bytes], report: Report, result: Written) -> None:
    known = _read_manifest(out)
    if not _check_collisions(out, files, known, report):
        return
    fresh = {path: [sha256(data).hexdigest()] for path, data in files.items()}
    changed = [path for path, data in files.items() if _content(out / path) != data]
    stale = sorted(known.keys() - files.keys())
    if changed or stale or fresh != known:
        try:
            _stage(out, files, changed)
            _write_manifest(out, _union(known, fresh))
            for number, path in enumerate(changed):
                (out / path).parent.mkdir(parents=True, exist_ok=True)
                (out / _STAGING / str(number)).replace(out / path)
                result.written.append(path)
        finally:
            shutil.rmtree(out / _STAGING, ignore_errors=True)
        for path in stale:
            _delete(out, path, known[path], report, result)
        _write_manifest(out, fresh)


def _stage(out: Path, files: Mapping[str, bytes], changed: list[str]) -> None:
    """Write new contents beside their places; a full disk shows here, before anything moved."""
    staging = out / _STAGING
    staging.mkdir()
    for number, path in enumerate(changed):
        (staging / str(number)).write_bytes(files[path])


def _check_collisions(
    out: Path, files: Mapping[str, bytes], known: Mapping[str, list[str]], report: Report
) -> bool:
    """Whether every file has a free place, or one that a build filled before."""
    foreign: set[Path] = set()
    checked: set[Path] = set()
    for name, data in files.items():
        path = out / name
        # A file that is already what it should be takes no harm, whoever wrote it.
        unknown = name not in known and os.path.lexists(path)
        if path.is_dir() or (unknown and _content(path) != data):
            foreign.add(path)
        for folder in path.relative_to(out).parents:
            place = out / folder
            if place in checked or place == out:
                continue
            checked.add(place)
            # A link to a folder would lead our files out of the output folder.
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                foreign.add(place)
    if foreign:
        first, *others = sorted(foreign)
        more = f", as are {len(others)} other files" if others else ""
        hint = "move what is in the way, empty the folder, or choose another one with --out"
        report.add(_fault(first, f"is in the way of a page, and no build wrote it{more}", hint))
    return not foreign


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


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep a second build of the same folder waiting until this one has written."""
    try:
        import fcntl
    except ImportError:  # Windows has no locks on folders; there, builds are not run side by side.
        yield
        return
    handle = os.open(out, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some network file systems know no locks.
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unwritable(out: Path, error: OSError) -> Diagnostic:
    place = Path(os.fsdecode(error.filename)) if error.filename else out
    reason = error.strerror or str(error)
    hint = "make it writable, or choose another folder with --out"
    return _fault(place, f"cannot be written: {reason}", hint)


def _fault(path: Path, message: str, hint: str, severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic(str(path), 0, 0, "output", message, hint, severity=severity)
