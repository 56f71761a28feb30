"""Who listens to a training: the bar, files, curves, the record for labml."""

import io
import json
import sys
import threading

import pytest
from small_runs import task_for, training

from labml_nn.experiments.reporters import Line, LiveCurve, Progress, Reporter, curve_svg, lines_of


# The bar.
class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_that_fills():
    screen = Terminal()
    training(reporters=[Progress(screen)]).train()
    shown = screen.getvalue()
    assert "6/6" in shown and "100%" in shown and "tokens/s" in shown and "val " in shown
    assert "step 3: validation loss" in shown
    assert "step 6, a sample:\n    " in shown
    assert shown.endswith("\n")


def test_a_file_gets_lines(monkeypatch):
    monkeypatch.setattr("labml_nn.experiments.reporters.Progress.PAUSE", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    file = io.StringIO()
    training(reporters=[Progress(file)]).train()
    lines = file.getvalue().splitlines()
    assert "\r" not in file.getvalue()
    assert any(line.startswith(" 50%") and "3/6" in line for line in lines)


def test_a_terminal_of_another_time():
    class Old(Terminal):
        encoding = "ascii"

    screen = Old()
    progress = Progress(screen)
    training(reporters=[progress]).train()
    progress.begin(training())
    progress.warned("no space — sorry")
    progress.close()
    assert screen.getvalue().isascii() and "warning: no space ? sorry" in screen.getvalue()


# Samples.
def test_a_text_without_lines_has_a_prompt_too():
    from labml_nn.experiments.data import Corpus

    assert task_for(corpus=Corpus.of("a line", "to be or not to be " * 20)).sample_prompt == "t"


def test_samples_are_kept_in_a_file(tmp_path):
    trainer = training("elman", tmp_path)
    trainer.train()
    text = (tmp_path / "samples.txt").read_text()
    assert text.count("--- after") == 2
    for each in trainer.history.samples:
        assert f"--- after {each['step']} updates\n{each['text']}\n" in text


# Curves.
def test_a_curve_shows_its_lines():
    lines = [Line("first", [(0, 4.0), (10, 2.5)]), Line("", [(0, 3.0)], 1, True), Line("x", [])]
    drawn = curve_svg(lines, "a & b")
    assert drawn.startswith("<svg") and drawn.rstrip().endswith("</svg>")
    for part in ("a &amp; b", "first 2.500", "updates", "nats per character"):
        assert part in drawn
    assert drawn == curve_svg(lines, "a & b")  # the same bytes every time
    curve = {"train": [[1, 3.0, 0, 0, 9], [2, None, 0, 0, 18]], "validation": [[2, 2.5, 0, 0, 18]]}
    train, validation = lines_of(curve)
    assert train == Line("training", [(1, 3.0)], 0, True)
    assert validation == Line("validation", [(2, 2.5)])
    assert [line.name for line in lines_of(curve, "mine", 3)] == ["", "mine"]


def test_a_live_curve_of_two_trainings():
    shown = []
    curve = LiveCurve(seconds=0.0, show=shown.append)
    for name in ("one", "two"):
        training(reporters=[curve.named(name)]).train()
    assert len(shown) == 2 * (6 + 1) and "two: 6 updates in " in shown[-1]
    assert all(f">{name} " in shown[-1] for name in ("one", "two"))
    assert "two" not in shown[6] and "one: 5 of 6 updates, " in shown[4]


# labml.
def test_a_record_for_labml(tmp_path, monkeypatch, capsys):
    """Its files are below the folder, and nothing is anywhere else."""
    pytest.importorskip("labml")
    from labml_nn.experiments.reporters import LabmlRecord

    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("labml_app_url", "http://127.0.0.1:9/never/")
    training("elman", tmp_path / "run", reporters=[LabmlRecord(tmp_path / "run" / "labml")]).train()
    assert list(home.iterdir()) == []
    (log,) = (tmp_path / "run" / "labml").rglob("log.jsonl")
    values = {}
    for line in log.read_text().splitlines():
        for name, points in json.loads(line)["track"].items():
            values.setdefault(name, []).extend(step for step, _ in points)
    assert values["loss.train"] == [1, 2, 3, 4, 5, 6]
    assert values["loss.validation"] == [3, 6]
    (configs,) = (tmp_path / "run" / "labml").rglob("configs.yaml")
    assert "d_hidden" in configs.read_text()
    assert capsys.readouterr().out == ""


def test_what_labml_cannot_write_does_not_keep_a_program_from_ending(tmp_path, monkeypatch, capsys):
    """Its thread waits for a word, which labml says after the last line is written."""
    files = pytest.importorskip("labml.internal.tracker.writers.file")
    monkeypatch.setattr(files, "FREQUENCY", 0)  # the thread begins at once
    from labml_nn.experiments.reporters import LabmlRecord

    def threads():
        return [t for t in threading.enumerate() if isinstance(t, files.FileWriterThread)]

    class Refusing(Reporter):
        def end(self, result):
            (beside,) = (tmp_path / "labml").rglob("configs.yaml")
            beside.with_name("run_log.jsonl").mkdir()
            assert len(threads()) == 1

    record = LabmlRecord(tmp_path / "labml")
    assert training(reporters=[record, Refusing()]).train().stopped == "finished"
    assert threads() == []
    assert "labml: the record of this run is incomplete (IsADirectory" in capsys.readouterr().err


@pytest.mark.parametrize("installed", [True, False])
def test_without_labml_training_goes_on(installed, tmp_path, monkeypatch, capsys):
    from labml_nn.experiments import reporters as labml_record

    def fail(*args):
        raise (OSError("read-only") if installed else ModuleNotFoundError("labml"))

    monkeypatch.setattr(labml_record, "_start", fail)
    record = labml_record.LabmlRecord(tmp_path / "labml")
    assert training(reporters=[record]).train().stopped == "finished"
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "there is no record of this run (OSError" in said if installed else "pip install" in said
