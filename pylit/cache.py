"""A cache of values for later stages and later builds, on disk and in memory.

An entry has a name, and the key that its value was made from; a lookup with another key is a miss.
So is an entry that is damaged or was written by another version of Python: the cache may be
deleted, truncated or shared between builds at no cost but time. Entries are pickles, so the folder
is as trusted as the source code beside it. See decision 004.
"""

import fcntl
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")

_SUFFIX = ".pylit-cache"
#: No folder, and none can be made in it.
NOWHERE = Path(os.devnull)


class CacheError(Exception):
    """An entry that was stored in this build is missing."""


def digest(*parts: str | bytes) -> str:
    """A hash of several texts that keeps them apart: ``("ab", "c")`` is not ``("a", "bc")``."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(b"%d:" % len(data))
        hasher.update(data)
    return hasher.hexdigest()


class Cache:
    """A folder of entries, and those in memory.

    Args:
        folder: It is created with the first entry; with None, entries are in memory only.
        keep: Whether entries stay in memory too, for the next build of this process; those that
            cannot be written to the folder always do.
    """

    def __init__(self, folder: Path | None, *, keep: bool = True) -> None:
        self.folder = folder
        self._keep = keep or folder is None
        self._memory: dict[str, tuple[str, Any]] = {}
        self._used: set[str] = set()

    def load(self, name: str, key: str) -> Any | None:
        """The value stored under `name`, if it was made from `key`."""
        self._used.add(name)
        found = self._memory.get(name)
        if found is None and self.folder is not None:
            # A whole pickle of classes that have changed can raise anything.
            with suppress(Exception):
                data = (self.folder / _file(name)).read_bytes()
                body = data[hashlib.sha256().digest_size :]
                found = pickle.loads(body) if data == _entry(body) else None
            if found is not None and self._keep:
                self._memory[name] = found
        return found[1] if found is not None and found[0] == key else None

    def require(self, name: str, key: str) -> Any:
        """The value stored under `name` earlier in this build."""
        value = self.load(name, key)
        if value is None:
            raise CacheError(f"{self.folder} was emptied during the build")
        return value

    def store(self, name: str, key: str, value: Any) -> bool:
        """Store `value`; whether it could be written to the folder."""
        self._used.add(name)
        written = False
        if self.folder is not None:
            body = pickle.dumps((key, value), protocol=pickle.HIGHEST_PROTOCOL)
            with suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                # A partial entry, or one written by two builds at once, fails its checksum.
                (self.folder / _file(name)).write_bytes(_entry(body))
                written = True
        if self._keep or not written:
            self._memory[name] = (key, value)
        return written

    def get(self, name: str, key: str, make: Callable[[], Value]) -> Value:
        """The value stored under `name`, or a new one, which is stored."""
        value: Value | None = self.load(name, key)
        if value is None:
            value = make()
            self.store(name, key, value)
        return value

    def prune(self) -> None:
        """Delete the entries that were not used since the last call."""
        self._memory = {name: entry for name, entry in self._memory.items() if name in self._used}
        keep, self._used = {_file(name) for name in self._used}, set()
        for path in self.folder.glob(f"*{_SUFFIX}") if self.folder else ():
            if path.name not in keep:
                with suppress(OSError):
                    path.unlink()


def _file(name: str) -> str:
    return digest(name)[:32] + _SUFFIX


def _entry(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder: a second build in it waits until this one ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some network file systems have no locks.
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"Waiting for another build in {folder} …", file=sys.stderr)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def user_cache() -> Path:
    """The folder ``PYLIT_CACHE``, else ``pylit`` in the user's folder for caches.

    A user without a home folder, as in some containers, has none: it is below `NOWHERE`, where
    nothing can be written, and whoever tries says so and names ``PYLIT_CACHE``.
    """
    if named := os.environ.get("PYLIT_CACHE"):
        with suppress(RuntimeError):  # of a home folder that is not known
            return Path(named).expanduser().absolute()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared, "pylit").absolute()
    try:
        home = Path.home()
    except RuntimeError:
        return NOWHERE / "pylit"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "pylit"
