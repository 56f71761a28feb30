"""The cache of formulas: kept, shared, and never in the way."""

import subprocess
import sys
from pathlib import Path

import pytest

from pylit.tex.mathcache import MathCache

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


def test_another_version_starts_empty(tmp_path: Path) -> None:
    store(tmp_path)
    assert stored(tmp_path, "another version of it") == {}
    assert stored(tmp_path) == {FORMULA: ANSWER}


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
