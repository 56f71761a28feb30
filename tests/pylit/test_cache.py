"""What builds keep in the cache: values by kind and key, in a folder that two builds may share."""

import threading
import time
from pathlib import Path

import pytest

from pylit.cache import Cache, folder_lock


def test_a_value_comes_back_for_its_key_and_for_no_other(tmp_path: Path) -> None:
    Cache(tmp_path).store("page", "k1", list(range(50)))
    fresh = Cache(tmp_path)
    assert fresh.load("page", "k1") == list(range(50))
    assert fresh.load("page", "k2") is fresh.load("other", "k1") is None
    (entry,) = tmp_path.iterdir()
    data = entry.read_bytes()
    for damaged in (data[:-9], data[:-3] + b"?" + data[-2:], b"", b"something else"):
        entry.write_bytes(damaged)
        assert Cache(tmp_path).load("page", "k1") is None


def test_pruning_keeps_what_was_asked_for_and_what_is_the_users(tmp_path: Path) -> None:
    for kind in ("old", "kept"):
        Cache(tmp_path).store(kind, "k", 1)
    for name in ("post.md", "1" * 32):
        (tmp_path / name).write_text("years of work")
    cache = Cache(tmp_path)
    assert cache.get("page", "k", lambda: 2) == cache.get("page", "k", lambda: 3) == 2
    cache.load("kept", "k")
    cache.prune()
    assert {"post.md", "1" * 32} < {path.name for path in tmp_path.iterdir()}
    found = [Cache(tmp_path).load(kind, "k") for kind in ("page", "kept", "old")]
    assert found == [2, 1, None]


def test_of_two_builds_in_one_folder_one_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    order: list[int] = []

    def work() -> None:
        with folder_lock(tmp_path):
            order.append(2)

    with folder_lock(tmp_path):
        other = threading.Thread(target=work)
        other.start()
        while "Waiting for another build" not in capsys.readouterr().err:
            time.sleep(0.01)
        order.append(1)
    other.join()
    assert order == [1, 2]
