"""One command: which it is, how it ends, and where its errors are seen."""

import subprocess
import sys

import pytest

from labml_nn.experiments import command_line
from labml_nn.experiments.command_line import COMMANDS, main


@pytest.fixture
def fails(monkeypatch):
    """Make every command raise an error."""

    def with_error(error):
        def run(words):
            raise error

        monkeypatch.setattr(command_line, "run", run)

    return with_error


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_overview_names_every_command(capsys, words):
    assert main(words) == 0
    shown = capsys.readouterr().out
    for command, about in COMMANDS.items():
        assert f"  {command}" in shown and about in shown


def test_list_shows_every_experiment(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in ("autoregressive", "encoder_decoder", "feedback", "elman", "mha"):
        assert f"\n{name} " in f"\n{shown}"
    assert "variants:" in shown


def test_an_unknown_command_gets_the_nearest(capsys):
    assert main(["trian"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: there is no command 'trian'; did you mean 'train'?")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "list"])
def test_each_command_has_help(capsys, command):
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m labml_nn " + command)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("labml-nn 1")


def test_an_error_is_a_sentence_and_no_traceback(capsys, fails):
    fails(ValueError("`steps` (0) must be at least 1"))
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "error: `steps` (0) must be at least 1\n"


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_debug_shows_the_traceback(capsys, monkeypatch, fails, by):
    fails(ValueError("`steps` (0) must be at least 1"))
    if by == "environment":
        monkeypatch.setenv("LABML_NN_DEBUG", "1")
    assert main(["train", "--debug"] if by == "flag" else ["train"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last)")
    assert shown.endswith("error: `steps` (0) must be at least 1\n")


def test_debug_is_no_word_of_a_command(monkeypatch):
    seen = []
    monkeypatch.setattr(command_line, "run", lambda words: seen.append(words) or 0)
    assert main(["--debug", "train", "--debug", "elman"]) == 0
    assert seen == [["train", "elman"]]


def test_ctrl_c_is_no_error(capsys, fails):
    fails(KeyboardInterrupt())
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("rank", "error", "shown"),
    [
        (0, ValueError("no"), "process 0: error: no\n"),
        (1, ValueError("no"), ""),
        (1, KeyboardInterrupt(), ""),
        (1, OSError(28, "No space left on device"), "process 1: error: the disk is full"),
    ],
)
def test_of_many_processes_one_speaks_for_all(capsys, monkeypatch, fails, rank, error, shown):
    """What all of them see is said once; what happens to one, it says."""
    variables = {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    variables |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    fails(error)
    assert main(["train"]) > 0
    said = capsys.readouterr().err
    assert said.startswith(shown) and bool(said) == bool(shown)


def test_a_reader_who_leaves_is_no_error():
    """As `| head` does: no traceback, also not from the buffers emptied at the end."""
    code = (
        "import sys; from labml_nn.experiments import command_line as c\n"
        "def run(words):\n"
        "    print('x' * 100_000)\n"
        "    sys.stdout.flush()\n"
        "    return 0\n"
        "c.run = run; sys.exit(c.main([]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.read(1)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 0
