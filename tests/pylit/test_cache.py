import threading
import time
from pathlib import Path

import pytest

from pylit.cache import Cache, alone


def test_a_value_comes_back_for_its_key_and_for_no_other(tmp_path: Path) -> None:
    Cache(tmp_path / "new").store("page", "k1", {"a": (1, 2)})
    fresh = Cache(tmp_path / "new")
    assert fresh.load("page", "k1") == {"a": (1, 2)}
    assert fresh.load("page", "k2") is None
    assert fresh.load("other", "k1") is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_damage_is_a_miss(tmp_path: Path, damage: str) -> None:
    Cache(tmp_path).store("page", "k", list(range(50)))
    (entry,) = tmp_path.iterdir()
    data = bytearray(entry.read_bytes())
    data[-3] ^= 1
    changed = {"cut": data[:-9], "flipped": data, "empty": b"", "foreign": b"something else"}
    entry.write_bytes(changed[damage])
    assert Cache(tmp_path).load("page", "k") is None


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "folder", keep=False)
    assert not cache.store("page", "k", 1)
    assert cache.load("page", "k") == 1
    cache.prune()
    cache.prune()
    assert cache.load("page", "k") is None


def test_pruning_keeps_what_was_asked_for(tmp_path: Path) -> None:
    Cache(tmp_path).store("old", "k", 1)
    Cache(tmp_path).store("kept", "k", 1)
    cache = Cache(tmp_path)
    assert cache.get("page", "k", lambda: 2) == cache.get("page", "k", lambda: 3) == 2
    half = tmp_path / ("0" * 32)
    half.write_bytes(b"pylit-ca")
    cache.load("kept", "k")
    cache.prune()
    assert len(list(tmp_path.iterdir())) == 2
    assert Cache(tmp_path).load("page", "k") == 2
    assert cache.load("old", "k") is None


def test_of_two_builds_in_one_folder_one_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[int] = []

    def work() -> None:
        with alone(tmp_path):
            order.append(2)

    with alone(tmp_path):
        other = threading.Thread(target=work)
        other.start()
        while "Waiting for another build" not in capsys.readouterr().err:
            time.sleep(0.01)
        order.append(1)
    other.join()
    assert order == [1, 2]


def test_files_that_are_no_entries_are_the_users_and_stay(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "blog")
    cache.store("page", "k", 1)
    theirs = [tmp_path / "blog" / name for name in ("post.md", "1" * 32)]
    for path in theirs:
        path.write_text("years of work")
    for _ in range(2):
        cache.prune()
    assert sorted((tmp_path / "blog").iterdir()) == sorted(theirs)
