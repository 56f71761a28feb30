"""The flags that all benchmarks have."""

import pytest
import torch

from benchmarks.command import options


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_threads_are_set():
    chosen = options("About.", ["--threads", "3", "--rounds", "5"])
    assert (chosen.threads, chosen.rounds, torch.get_num_threads()) == (3, 5, 3)
    assert not chosen.no_record


def test_what_is_quick_is_not_recorded():
    chosen = options("About.", ["--quick"])
    assert (chosen.rounds, chosen.no_record) == (2, True)
    assert options("About.", ["--quick", "--rounds", "3"]).rounds == 3


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_no_number(value, capsys):
    with pytest.raises(SystemExit):
        options("About.", ["--threads", value])
    assert f"'{value}' is not a number from 1 on" in capsys.readouterr().err


def test_help_begins_as_the_docstring(capsys):
    with pytest.raises(SystemExit):
        options("What it costs.\n\nMore.", ["--help"])
    told = capsys.readouterr().out
    assert "What it costs." in told
    assert "More." not in told
