"""What goes wrong around a training: disks, reporters, texts, and numbers of other kinds."""

import errno
import json
import os
import signal
from unittest.mock import MagicMock, Mock

import numpy
import pytest
import torch
from small_runs import settings, training
from test_resume import Interrupts, check_equal

from labml_nn.experiments.data import Corpus
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training import keeping, labml_record, log, outcome
from labml_nn.experiments.training import trainer as trainer_module
from labml_nn.experiments.training.folder import load_run
from labml_nn.experiments.training.labml_record import LabmlRecord
from labml_nn.experiments.training.log import read_log
from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.task import TextTask
from labml_nn.experiments.training.update import NotFiniteError

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_result_that_was_not_written_is_not_forgotten(tmp_path, monkeypatch):
    """Whatever reporters behind it could write."""
    monkeypatch.setattr(outcome, "write_json", Mock(side_effect=FULL))
    trainer = training("elman", tmp_path, reporters=[Reporter()])
    with pytest.raises(RunError, match=r"the disk refused the result after 6 updates"):
        trainer.train()
    monkeypatch.undo()
    assert trainer.train().stopped == "finished"
    assert (tmp_path / "result.json").exists()


def judged(trainer, *losses):
    """The trainer finds these losses on new text."""
    trainer.validate = Mock(side_effect=losses)
    return trainer


def test_the_best_model_waits_for_the_disk(tmp_path, monkeypatch):
    """And is written as it was, although the training has gone on and become worse."""
    kept = {}

    class Keeps(Reporter):
        def validated(self, step, loss):
            kept[step] = [p.clone() for p in trainer.model.parameters()]

    trainer = training("elman", tmp_path, steps=8, evaluate_every=2, reporters=[Keeps()])
    save, refused = type(trainer.model).save, []

    def refuse(model, folder):
        if trainer.history.step in (4, 6):
            refused.append(trainer.history.step)
            raise FULL
        save(model, folder)

    monkeypatch.setattr(type(trainer.model), "save", refuse)
    result = judged(trainer, 3.0, 2.0, 2.5, 2.6).train()
    assert refused and result.best_validation_loss == 2.0
    for written, best in zip(load_run(tmp_path).model().parameters(), kept[4], strict=True):
        assert torch.equal(written, best)


def test_a_best_model_that_is_never_written_is_told(tmp_path, monkeypatch):
    trainer = training("elman", tmp_path)
    monkeypatch.setattr(type(trainer.model), "save", Mock(side_effect=FULL))
    with pytest.raises(RunError, match="the disk refused the best model after 6 updates"):
        judged(trainer, 3.0, 2.0).train()


def test_a_run_goes_on_although_the_log_cannot_be_cut(tmp_path, monkeypatch):
    training("elman", tmp_path, reporters=[Interrupts(4)]).train()
    second = training("elman", tmp_path)
    second.resume()
    monkeypatch.setattr(log, "replace", Mock(side_effect=FULL))
    assert second.train().stopped == "finished"
    assert [line["event"] for line in read_log(tmp_path / "log.jsonl")].count("begin") == 2


def test_numbers_that_are_none_are_noticed_by_whoever_interrupts():
    """A GPU tells late what it could not do; the last look is that of the checkpoint."""
    trainer = training("elman", steps=6, save_every=0, evaluate_every=0, sample_every=0)
    look, calls = trainer._update.look, []

    def late():
        calls.append(trainer.history.step)
        if trainer.history.step == 3:
            raise NotFiniteError(trainer.history.loss_count)
        return look()

    trainer._update.look = late
    trainer._is_stopped = lambda stop: trainer.history.step == 3
    trainer._report = lambda: None
    assert trainer.train().stopped == "not finite" and calls == [0, 3]


def test_nothing_is_counted_that_was_not_learned():
    """Before a model is judged, somebody looks whether all updates could be made."""
    trainer = training("elman")
    look = trainer._update.look

    def late():
        if trainer.history.step == 3:
            raise NotFiniteError(trainer.history.loss_count)
        return look()

    trainer._update.look = late
    trainer._report = lambda: None
    assert trainer.train().stopped == "not finite"
    assert trainer.history.validation == []


@pytest.mark.parametrize("where", ["begin", "validated", "end", "close"])
def test_all_reporters_are_closed(where):
    closed = []

    class Raises(Reporter):
        def close(self):
            closed.append(1)
            if where == "close":
                raise ZeroDivisionError

    class Closes(Reporter):
        def close(self):
            closed.append(2)

    raises = Raises()
    if where != "close":
        setattr(raises, where, Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        training("elman", reporters=[raises, Closes()]).train()
    assert closed == [1, 2]


def test_labml_may_fail_on_the_way(monkeypatch, tmp_path, capsys):
    tracker = Mock()
    tracker.save.side_effect = FULL
    monkeypatch.setattr(labml_record, "_start", lambda *given: (tracker, MagicMock()))
    result = training("elman", reporters=[LabmlRecord(tmp_path)]).train()
    assert result.stopped == "finished" and tracker.save.call_count == 1
    assert "labml keeps no more of this run" in capsys.readouterr().err


def test_a_text_that_cannot_judge_is_refused_before_the_training():
    corpus = Corpus.of("short", "abcdefghij")
    with pytest.raises(ValueError, match="the text to be judged by has 1 tokens; expected at"):
        TextTask(corpus, batch_size=2, seq_len=3, seed=1)


def test_numbers_of_numpy_are_numbers(tmp_path, unhooked):
    numbers = {"steps": numpy.int64(3), "seed": numpy.int32(7), "learning_rate": numpy.float64(0.5)}
    made = unhooked("labml_nn.experiments.training.config").TrainingConfig(**numbers)
    assert made.steps == 3 and made.learning_rate == 0.5
    assert json.loads(json.dumps(made.values())) == made.values()
    assert {type(getattr(made, name)) for name in numbers} == {int, float}
    assert type(settings(clip_norm=1.0).clip_norm) is float


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "songs"}, "the task 'songs' is none of text, replies"),
        ({"model": {"name": "elman"}}, "'model' says nothing of config"),
        ({"corpus": {"name": "x"}}, "'corpus' says nothing of sha256, path"),
    ],
)
def test_a_description_that_does_not_say_all(tmp_path, changes, message):
    training("elman", tmp_path).train()
    about = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**about, **changes}))
    with pytest.raises(RunError, match=message):
        load_run(tmp_path)


@pytest.mark.parametrize("where", ["validation_loss", "sample", "write_checkpoint", "save"])
def test_a_signal_in_the_middle_of_something_waits_for_its_end(where, tmp_path, monkeypatch):
    """The run that goes on is the one that nobody interrupted."""
    straight = training("elman", tmp_path / "straight")
    straight.train()
    trainer = training("elman", tmp_path / "run")
    place = {"write_checkpoint": keeping, "save": type(trainer.model)}.get(where, trainer_module)
    done, sent = getattr(place, where), []

    def interrupted(*given, **named):
        if trainer.history.step == 3 and not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
        return done(*given, **named)

    monkeypatch.setattr(place, where, interrupted)
    assert trainer.train().stopped == "interrupted" and trainer.history.step == 3
    second = training("elman", tmp_path / "run")
    second.resume()
    second.train()
    check_equal(second, straight)
    files = [tmp_path / each / "model" / "model.safetensors" for each in ("run", "straight")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("part", ["about", "model", "update", "history"])
def test_a_checkpoint_that_can_be_read_and_lacks_something(part, tmp_path):
    training("elman", tmp_path).train()
    path = tmp_path / "checkpoint.pt"
    state = torch.load(path, weights_only=True)
    torch.save({**state, part: {}}, path)
    with pytest.raises(RunError, match=r"checkpoint\.pt is damaged \(.*can start anew"):
        training("elman", tmp_path).resume()
