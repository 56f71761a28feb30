"""Who listens to a training: the log, the bar, the samples, the record for labml."""

import errno
import io
import json
import sys
import threading
from pathlib import Path

import pytest
from small_runs import task_for, training

from labml_nn.experiments.reporters import Log, Progress, Reporter, read_log


def test_a_reporter_may_ignore_everything():
    assert training(reporters=[Reporter()]).train().stopped == "finished"


# The log.
def test_the_log_tells_everything(tmp_path):
    result = training("elman", tmp_path).train()
    lines = read_log(tmp_path / "log.jsonl")
    assert [line["event"] for line in lines] == [
        *("begin", "saved", "update", "update", "update", "validated", "sampled", "saved"),
        *("update", "update", "update", "validated", "sampled", "saved", "end"),
    ]
    update = lines[2]
    assert set(update) == {
        *("event", "time", "step", "loss", "learning_rate", "tokens_per_second"),
        *("gradient_norm", "tokens", "seconds", "process_seconds"),
    }
    assert update["tokens"] == 28 and isinstance(update["tokens"], int)
    assert lines[-1]["validation_loss"] == result.validation_loss
    assert lines[-1]["stopped"] == "finished"


def test_each_line_is_there_at_once(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    log.validated(3, 1.5)
    assert read_log(log.path)[0]["loss"] == 1.5
    log.warned("trouble")
    assert read_log(log.path)[1]["text"] == "trouble"


def test_lines_wait_for_a_disk_that_is_full(tmp_path, monkeypatch):
    log = Log(tmp_path / "log.jsonl")
    log.validated(1, 1.0)
    opened = Path.open

    def full(self, mode="r", *args, **kwargs):
        file = opened(self, mode, *args, **kwargs)
        if mode == "a":
            file.write('{"event": "half')
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    monkeypatch.setattr(Path, "open", full)
    log.validated(2, 2.0)
    assert [line["step"] for line in read_log(log.path)] == [1]
    assert log.path.read_text().count("half") == 0
    monkeypatch.undo()
    log.validated(3, 3.0)
    assert [line["step"] for line in read_log(log.path)] == [1, 2, 3]


def test_what_is_no_line_is_left_out(tmp_path):
    path = tmp_path / "log.jsonl"
    assert read_log(path) == []
    path.write_bytes(b'{"step": 1}\n[2]\n\xff\xfe\n{"step": 3}\n{"step": ')
    assert read_log(path) == [{"step": 1}, {"step": 3}]


# The bar.
class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_that_fills():
    screen = Terminal()
    training(reporters=[Progress(screen)]).train()
    shown = screen.getvalue()
    assert "6/6" in shown and "100%" in shown and "tokens/s" in shown and "val " in shown
    assert "step 3: validation loss" in shown and ", the best so far" in shown
    assert "step 6, a sample:\n    " in shown
    assert shown.endswith("\n")


def test_a_file_gets_lines(monkeypatch):
    monkeypatch.setattr("labml_nn.experiments.reporters.Progress.PAUSE", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    file = io.StringIO()
    training(reporters=[Progress(file, texts=False)]).train()
    lines = file.getvalue().splitlines()
    assert "\r" not in file.getvalue() and "a sample" not in file.getvalue()
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


def test_worse_is_not_called_the_best():
    screen = Terminal()
    progress = Progress(screen)
    progress.begin(training())
    for step, loss in ((1, 2.0), (2, 3.0), (3, 1.0)):
        progress.validated(step, loss)
    progress.close()
    assert screen.getvalue().count("the best so far") == 2


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
    assert "labml: the record of this run is incomplete: IsADirectory" in capsys.readouterr().err


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
    assert "there is no record of this run: OSError" in said if installed else "pip install" in said
