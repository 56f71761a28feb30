"""Whether anything has changed since a build, by what the file system says of each file.

A file whose size, times and place on the disk are the same has the same content: every edit sets
the time at which the system last touched it, which no program can set back. A file that was touched
right before the build, or in it, could be edited again without that time moving on; then there is
nothing to remember, and the next build looks at contents, as it does after any doubt.
"""

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

#: Nanoseconds in which two edits may get the same time; the second is for disks that count seconds.
_TICK, _SECONDS = 20_000_000, 2_000_000_000
_SKIPPED = {"__pycache__", "node_modules"}
_SKIPPED_IF_HOLDING = {"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"}


class Traces:
    """What the file system says of some files, in one digest."""

    def __init__(self) -> None:
        self._hasher = hashlib.sha256()
        #: When the last of them was touched, as late as it may have been.
        self.newest = 0

    @property
    def digest(self) -> str:
        """Equal for files that are unchanged."""
        return self._hasher.hexdigest()

    def note(self, *texts: str) -> None:
        """What else decides whether anything has changed."""
        self._hasher.update("".join(f"{text}\n" for text in texts).encode(errors="surrogatepass"))

    def file(self, path: str | Path) -> None:
        """One file, and for a link what it leads to as well."""
        for follow in (False, True):
            try:
                found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - many files
            except (OSError, ValueError):
                self.note(f"{path} -")
                return
            told = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            self.note(f"{path} {told}")
            touched = found.st_ctime_ns
            self.newest = max(self.newest, touched + (_TICK if touched % 10**9 else _SECONDS))

    def folder(self, top: Path, without: Collection[Path] = ()) -> None:
        """A file, or all files in a folder but for hidden ones, environments and caches."""
        if not top.is_dir():
            self.file(top)
            return
        pending, known = [str(top)], {os.path.realpath(path) for path in without}
        while pending:
            folder = pending.pop()
            real = os.path.realpath(folder)
            if real in known:
                continue
            known.add(real)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                self.note(f"{folder} -")
                continue
            if folder != str(top) and any(entry.name in _SKIPPED_IF_HOLDING for entry in entries):
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _SKIPPED:
                    continue
                if entry.is_dir():
                    pending.append(entry.path)
                else:
                    self.file(entry.path)
