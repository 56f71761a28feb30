"""Packages of others, beside ours in one process."""

import re
import sys

import pytest

from benchmarks import peers as room
from benchmarks.peers import PEERS, MissingPeer, install, peer, peer_folder, published


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "FOLDER", tmp_path)
    monkeypatch.setattr(room, "PEERS", {"a_peer_of_tests": ("a-peer==1.0", "its-need==2.0")})
    yield tmp_path
    sys.modules.pop("a_peer_of_tests", None)


def stand_in(tmp_path, program):
    """What is called instead of pip: a program that gets its arguments."""
    path = tmp_path / "pip.py"
    path.write_text(program, encoding="utf-8")
    return [sys.executable, str(path)]


WRITES = """
import pathlib, sys
at = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
at.mkdir(parents=True)
(at / "a_peer_of_tests.py").write_text(f"ASKED = {sys.argv[-2:]!r}")
assert "--no-deps" in sys.argv
"""


def test_every_requirement_is_pinned():
    for name, requirements in PEERS.items():
        for requirement in requirements:
            assert re.fullmatch(r"[\w.-]+==[\d.]+", requirement), (name, requirement)
            assert not requirement.startswith("torch")


def test_installed_once_and_imported(folder, tmp_path):
    assert install("a_peer_of_tests", stand_in(tmp_path, WRITES)) == ""
    path = list(sys.path)
    assert peer("a_peer_of_tests").ASKED == ["a-peer==1.0", "its-need==2.0"]
    assert sys.path == path
    # It is there: nothing is called.
    assert install("a_peer_of_tests", ["no such program"]) == ""


def test_what_hinders_is_said(folder, tmp_path):
    fails = 'import sys; sys.exit("Looking\\nERROR: No network")'
    assert install("a_peer_of_tests", stand_in(tmp_path, fails)) == "No network"
    assert install("a_peer_of_tests", stand_in(tmp_path, "exit(3)")) == "pip ended with 3"
    assert "no such program" in install("a_peer_of_tests", ["no such program"])
    with pytest.raises(MissingPeer, match="a_peer_of_tests is not installed; `make bench`"):
        peer("a_peer_of_tests")


def test_a_line_and_no_traceback(folder, monkeypatch, capsys):
    monkeypatch.setattr(room, "install", lambda name: "No network")
    monkeypatch.setattr(sys, "argv", ["peers"])
    room.main()
    assert capsys.readouterr().out == (
        "a_peer_of_tests cannot be installed, its rows will be missing: No network\n"
    )


def test_another_version_is_installed_anew(folder, tmp_path, monkeypatch):
    assert install("a_peer_of_tests", stand_in(tmp_path, WRITES)) == ""
    assert peer_folder("a_peer_of_tests") == tmp_path / "a_peer_of_tests"
    monkeypatch.setattr(room, "PEERS", {"a_peer_of_tests": ("a-peer==1.1",)})
    with pytest.raises(MissingPeer):
        peer_folder("a_peer_of_tests")


def test_no_such_peer():
    with pytest.raises(ValueError, match="'jax' is no peer; there are feedback_transformer"):
        peer("jax")


def test_published_and_ours_side_by_side():
    from labml_nn.transformers import feed_forward as ours

    theirs = published("labml_nn.transformers.feed_forward")
    assert ".cache" in str(theirs.__file__)
    assert sys.modules["labml_nn.transformers.feed_forward"] is ours
    # What it shares with another of its modules, it still shares.
    feedback = published("labml_nn.transformers.feedback")
    assert feedback.FeedForward is theirs.FeedForward


def test_published_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "PUBLISHED", tmp_path)
    with pytest.raises(MissingPeer, match=r"labml-nn 0\.5\.1 is not installed"):
        published("labml_nn.transformers.mha")
