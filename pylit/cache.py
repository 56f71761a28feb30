"""Values that a later stage or a later build can use again, on disk and in memory.

An entry is kept under a name and carries the key that it was made from; a lookup with another key
finds nothing. An entry that is damaged, or was written by another version of Python, is a miss:
the cache may be deleted, cut short or shared between builds without one noticing more than a delay.
Entries are pickles, so the folder is as trusted as the source code beside it.
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

_MAGIC = b"pylit-cache-1\n"


def digest(*parts: str | bytes) -> str:
    """A hash of several texts that keeps them apart: ``("ab", "c")`` is not ``("a", "bc")``."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(b"%d:" % len(data))
        hasher.update(data)
    return hasher.hexdigest()


class Cache:
    """A folder of entries, and what this process has already read of it.

    Args:
        folder: It is made when something is stored; with None, entries live in memory only.
        keep: Whether entries stay in memory too, for the next build of this process. What cannot
            be written to the folder stays there in any case.
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
            # Damage is a miss; and a whole pickle of classes that have changed can raise anything.
            with suppress(Exception):
                data = (self.folder / _file(name)).read_bytes()
                body = data[len(_MAGIC) + hashlib.sha256().digest_size :]
                found = pickle.loads(body) if data == _entry(body) else None
            if found is not None and self._keep:
                self._memory[name] = found
        return found[1] if found is not None and found[0] == key else None

    def store(self, name: str, key: str, value: Any) -> bool:
        """Keep `value`; whether it could be written to the folder."""
        self._used.add(name)
        written = False
        if self.folder is not None:
            body = pickle.dumps((key, value), protocol=pickle.HIGHEST_PROTOCOL)
            with suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                # In place: who reads half of it, or what two wrote at once, sees another digest.
                (self.folder / _file(name)).write_bytes(_entry(body))
                written = True
        if self._keep or not written:
            self._memory[name] = (key, value)
        return written

    def get(self, name: str, key: str, make: Callable[[], Value]) -> Value:
        """The value stored under `name`, or a new one that is stored."""
        value: Value | None = self.load(name, key)
        if value is None:
            value = make()
            self.store(name, key, value)
        return value

    def prune(self) -> None:
        """Forget the entries that nobody has asked for since the last time."""
        self._memory = {name: entry for name, entry in self._memory.items() if name in self._used}
        keep, self._used = {_file(name) for name in self._used}, set()
        for path in self.folder.iterdir() if self.folder and self.folder.is_dir() else ():
            # An entry is known by how it begins: all else here is the user's.
            if path.name not in keep and path.is_file():
                with suppress(OSError), path.open("rb") as file:
                    if file.read(len(_MAGIC)) == _MAGIC:
                        path.unlink()


def _file(name: str) -> str:
    return digest(name)[:32]


def _entry(body: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(body).digest() + body


#: Locked folders. A process that is forked off must not hold a lock longer than this one lives.
_held: set[int] = set()
os.register_at_fork(after_in_child=lambda: list(map(os.close, _held)))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a second build that works in the same folder waiting until this one is done."""
    handle = os.open(folder, os.O_RDONLY)
    _held.add(handle)
    try:
        with suppress(OSError):  # Some network file systems know no locks.
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"Waiting for another build that works in {folder} …", file=sys.stderr)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        _held.discard(handle)
        os.close(handle)
