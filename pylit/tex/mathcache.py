"""The cache of rendered formulas: one SQLite file, which several builds may use at the same time.

A cache is a convenience. When its file cannot be used, for whatever reason, the formulas are
rendered again, and nothing else happens.
"""

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: Caches of other versions are kept this long, for whoever goes back and forth between two.
KEPT = 30 * 24 * 3600.0
#: Results are written in groups, because each write waits for the disk.
GROUP = 200
SCHEMA = """
CREATE TABLE IF NOT EXISTS formulas (
    tex TEXT, display INTEGER, answer TEXT, PRIMARY KEY (tex, display)
) WITHOUT ROWID
"""


class MathCache:
    """Answers by formula, for one digest of versions; in memory when `folder` is None."""

    def __init__(self, folder: Path | None, version: str) -> None:
        self._lock = threading.Lock()
        self._new: dict[tuple[str, bool], str] = {}
        self._connection: sqlite3.Connection | None = None
        if folder is not None:
            path = folder / f"maths-{version[:16]}.sqlite"
            self._connection = connect(path)
            remove_old(folder, path)

    def load(self, formulas: Iterable[tuple[str, bool]]) -> dict[tuple[str, bool], dict[str, Any]]:
        """The answers that the cache holds for some formulas."""
        found: dict[tuple[str, bool], dict[str, Any]] = {}
        if self._connection is None:
            return found
        query = "SELECT answer FROM formulas WHERE tex = ? AND display = ?"
        with self._lock, contextlib.suppress(sqlite3.Error, ValueError):
            for formula in formulas:
                row = self._connection.execute(query, formula).fetchone()
                if row is not None:
                    found[formula] = json.loads(row[0])
        return found

    def store(self, formula: tuple[str, bool], answer: Mapping[str, Any]) -> None:
        """Keep an answer."""
        if self._connection is None:
            return
        with self._lock:
            self._new[formula] = json.dumps(answer, ensure_ascii=False)
            if len(self._new) >= GROUP:
                self._flush()

    def close(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            self._flush()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _flush(self) -> None:
        if self._connection is None or not self._new:
            return
        rows = [(tex, display, answer) for (tex, display), answer in self._new.items()]
        with contextlib.suppress(sqlite3.Error), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO formulas VALUES (?, ?, ?)", rows)
        self._new.clear()


def connect(path: Path) -> sqlite3.Connection | None:
    """Open a cache; one that is damaged is begun anew. None when there can be none."""
    for _ in range(2):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
        except (OSError, sqlite3.Error):
            return None
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(SCHEMA)
            connection.execute("SELECT answer FROM formulas LIMIT 1").fetchone()
            return connection
        except sqlite3.DatabaseError:
            connection.close()
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return None


def remove_old(folder: Path, current: Path) -> None:
    """Delete caches of versions that nobody has used for long."""
    with contextlib.suppress(OSError):
        current.touch()
        for path in folder.glob("maths-*.sqlite*"):
            if not path.name.startswith(current.name) and path.stat().st_mtime < time.time() - KEPT:
                path.unlink(missing_ok=True)
