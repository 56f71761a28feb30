"""The cache of formulas: kept, shared, and never in the way."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pylit.tex.mathcache import GROUP, KEPT, MathCache

FORMULA = (r"x_1 \in 日本", True)
ANSWER = {"html": "<i>é</i>", "css": ["1a{}", "2b{}"]}
VERSION = "0123456789abcdef and more"


def stored(folder: Path, version: str = VERSION) -> object:
    cache = MathCache(folder, version)
    try:
        return cache.load([FORMULA])
    finally:
        cache.close()


def store(folder: Path, version: str = VERSION) -> Path:
    cache = MathCache(folder, version)
    cache.store(FORMULA, ANSWER)
    cache.close()
    (path,) = folder.glob(f"maths-{version[:16]}.sqlite")
    return path


def test_what_is_stored_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    store(folder)
    assert stored(folder) == {FORMULA: ANSWER}


def test_only_the_very_same_formula_is_found(tmp_path: Path) -> None:
    store(tmp_path)
    cache = MathCache(tmp_path, VERSION)
    assert cache.load([(FORMULA[0], False), (FORMULA[0] + " ", True)]) == {}
    cache.close()


def test_another_version_starts_empty(tmp_path: Path) -> None:
    store(tmp_path)
    assert stored(tmp_path, "another version of it") == {}
    assert stored(tmp_path) == {FORMULA: ANSWER}


def test_without_a_folder_nothing_is_kept() -> None:
    cache = MathCache(None, VERSION)
    cache.store(FORMULA, ANSWER)
    assert cache.load([FORMULA]) == {}
    cache.close()


def test_results_are_written_in_groups_and_all_at_the_end(tmp_path: Path) -> None:
    cache = MathCache(tmp_path, VERSION)
    formulas = [(f"x_{i}", False) for i in range(GROUP + 1)]
    for formula in formulas:
        cache.store(formula, ANSWER)
    other = MathCache(tmp_path, VERSION)
    assert len(other.load(formulas)) == GROUP
    cache.close()
    assert len(other.load(formulas)) == GROUP + 1
    other.close()


@pytest.mark.parametrize("damage", [b"", b"not a database, but long enough to be read as one" * 50])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes) -> None:
    path = store(tmp_path)
    path.write_bytes(damage)
    assert stored(tmp_path) == {}
    store(tmp_path)
    assert stored(tmp_path) == {FORMULA: ANSWER}


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    cache = MathCache(tmp_path / "file", VERSION)
    cache.store(FORMULA, ANSWER)
    assert cache.load([FORMULA]) == {}
    cache.close()


def test_old_versions_go_and_recent_ones_stay(tmp_path: Path) -> None:
    old, recent = store(tmp_path, "old" * 10), store(tmp_path, "recent" * 10)
    past = time.time() - KEPT - 60
    os.utime(old, (past, past))
    current = store(tmp_path)
    os.utime(current, (past, past))
    store(tmp_path)
    assert (old.exists(), recent.exists(), current.exists()) == (False, True, True)


WRITER = """
import sys
from pathlib import Path
from pylit.tex.mathcache import MathCache
cache = MathCache(Path(sys.argv[1]), sys.argv[2])
for i in range(int(sys.argv[3]), int(sys.argv[4])):
    cache.store((f"x_{i}", False), {"html": f"<i>{i}</i>", "css": []})
cache.close()
"""


def test_two_builds_at_once(tmp_path: Path) -> None:
    spans = [(0, 900), (300, 1200)]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, VERSION, *map(str, span)])
        for span in spans
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    cache = MathCache(tmp_path, VERSION)
    found = cache.load((f"x_{i}", False) for i in range(1200))
    assert {tex: answer["html"] for (tex, _), answer in found.items()} == {
        f"x_{i}": f"<i>{i}</i>" for i in range(1200)
    }
    cache.close()
