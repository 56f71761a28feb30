"""The loop as a whole: what it learns, leaves behind, and survives."""

import errno
import gc
import json
import signal
import threading

import pytest
import torch
from small_runs import MODELS, model_for, settings, task_for, training
from test_resume import Interrupts

import labml_nn
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training import keeping
from labml_nn.experiments.training import trainer as trainer_module
from labml_nn.experiments.training.folder import load_run
from labml_nn.experiments.training.reporters import Reporter


class Heard(Reporter):
    """Writes down what it is told."""

    def __init__(self):
        self.events = []

    def begin(self, trainer):
        self.events.append(("begin", trainer.history.step))

    def update(self, step, loss, learning_rate, tokens_per_second, **more):
        self.events.append(("update", step))
        self.last = {"loss": loss, "rate": learning_rate, "speed": tokens_per_second, **more}

    def validated(self, step, loss):
        self.events.append(("validated", step))

    def sampled(self, step, text):
        self.events.append(("sampled", step))
        self.text = text

    def saved(self, step):
        self.events.append(("saved", step))

    def warned(self, text):
        self.events.append(("warned", text))

    def end(self, result):
        self.events.append(("end", result.step))

    def close(self):
        self.events.append(("close",))


@pytest.mark.parametrize("name", MODELS)
def test_models_learn(name):
    trainer = training(
        name, steps=40, learning_rate=0.02, evaluate_every=0, sample_every=0, seq_len=9
    )
    before = trainer.validate()
    result = trainer.train()
    assert result.stopped == "finished" and result.step == 40
    assert result.validation_loss < before - 0.25
    assert result.best_validation_loss == result.validation_loss
    assert result.validation_loss == pytest.approx(trainer.validate(), rel=1e-9)
    assert result.seconds > 0 and result.process_seconds > 0
    assert result.tokens == sum(trainer.task.batch(step).count for step in range(40))


def test_what_is_told_and_when(tmp_path):
    heard = Heard()
    training("elman", tmp_path / "run", reporters=[heard]).train()
    assert heard.events == [
        ("begin", 0),
        ("saved", 0),
        *(("update", step) for step in (1, 2, 3)),
        *((event, 3) for event in ("validated", "sampled", "saved")),
        *(("update", step) for step in (4, 5, 6)),
        *((event, 6) for event in ("validated", "sampled", "saved", "end")),
        ("close",),
    ]
    assert heard.last["tokens"] == 6 * 4 * 7
    assert heard.last["rate"] == pytest.approx(0.001)
    assert heard.last["speed"] > 0 and heard.last["gradient_norm"] > 0
    assert heard.text.startswith("\n") and len(heard.text) == 6


def test_zero_means_only_at_the_end():
    heard = Heard()
    training(reporters=[heard], evaluate_every=0, sample_every=0, save_every=0).train()
    assert [event for event in heard.events if event[0] in ("validated", "sampled")] == [
        ("validated", 6),
        ("sampled", 6),
    ]


def test_long_runs_are_told_in_a_number_of_points(monkeypatch):
    monkeypatch.setattr(trainer_module, "POINTS", 5)
    trainer = training(steps=11, evaluate_every=0, sample_every=0)
    trainer.train()
    assert [point[0] for point in trainer.history.train] == [3, 6, 9, 11]


def test_the_folder_of_a_run(tmp_path):
    folder = tmp_path / "some" / "run"
    about = {"experiment": "elman", "variant": None, "preset": "tiny"}
    trainer = training("elman", folder, about=about)
    result = trainer.train()
    assert sorted(path.name for path in folder.iterdir()) == [
        *("checkpoint.pt", "curve.svg", "log.jsonl", "model", "result.json"),
        *("run.json", "samples.txt", "vocabulary.json"),
    ]
    values = json.loads((folder / "result.json").read_text())
    assert set(values) == {"run", "parameters", "result", "curve", "samples", "finished"}
    assert values["run"] == json.loads((folder / "run.json").read_text())
    assert values["parameters"] == sum(p.numel() for p in trainer.model.parameters())
    assert values["result"]["validation_loss"] == pytest.approx(result.validation_loss, rel=1e-6)
    assert [point[0] for point in values["curve"]["validation"]] == [3, 6]
    assert [len(point) for point in values["curve"]["train"]] == [5] * 6
    assert [each["step"] for each in values["samples"]] == [3, 6]
    assert (folder / "curve.svg").read_text().startswith("<svg")
    run = load_run(folder)
    assert run.experiment == "elman" and run.preset == "tiny" and run.variant is None
    assert run.training == trainer.config and run.vocabulary == trainer.task.vocabulary


def test_the_best_model_is_kept_not_the_last(tmp_path):
    trainer = training("elman", tmp_path, steps=3, evaluate_every=1)
    losses, kept = iter([2.0, 1.0, 3.0]), []

    def validate():
        kept.append(trainer.model.output_bias.detach().clone())
        return next(losses)

    trainer.validate = validate
    result = trainer.train()
    assert (result.validation_loss, result.best_validation_loss) == (3.0, 1.0)
    saved = labml_nn.load(tmp_path / "model")
    assert torch.equal(saved.output_bias, kept[1])
    assert not torch.equal(saved.output_bias, kept[2])


def test_looking_and_writing_change_nothing():
    plain = training("autoregressive", evaluate_every=0, sample_every=0)
    curious = training("autoregressive", evaluate_every=1, sample_every=1)
    plain.train()
    curious.train()
    for one, other in zip(plain.model.parameters(), curious.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_random_numbers_of_others_are_left_alone():
    torch.manual_seed(11)
    state = torch.get_rng_state()
    training("autoregressive").train()
    assert torch.equal(torch.get_rng_state(), state)


def test_memory_does_not_grow():
    """As many tensors after many updates as after few."""

    class Counts(Reporter):
        def __init__(self):
            self.counts = {}

        def update(self, step, loss, learning_rate, tokens_per_second, **more):
            if step in (10, 20, 40):
                gc.collect()
                self.counts[step] = sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects())

    counts = Counts()
    training(
        "autoregressive", steps=40, evaluate_every=5, sample_every=7, reporters=[counts]
    ).train()
    assert counts.counts[10] == counts.counts[20] == counts.counts[40]


def test_growing_lengths_are_asked_for():
    trainer = training("feedback", seq_len=7, initial_seq_len=3, grow_steps=4)
    asked, batch = [], trainer.task.batch

    def notice(step, seq_len=None):
        asked.append(seq_len)
        return batch(step, seq_len)

    trainer.task.batch = notice
    trainer.train()
    assert asked == [3, 4, 5, 6, 7, 7]


# Interruptions.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(number, tmp_path):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    heard = Heard()
    result = training("elman", tmp_path, reporters=[Interrupts(2, number), heard]).train()
    assert result.stopped == "interrupted" and result.step == 2
    assert result.validation_loss is None and result.train_loss > 0
    assert heard.events[-3:] == [("saved", 2), ("end", 2), ("close",)]
    assert load_run(tmp_path).model().name == "elman"  # there is something to use
    assert json.loads((tmp_path / "result.json").read_text())["result"]["stopped"] == "interrupted"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_one_ends_it_at_once(tmp_path):
    heard = Heard()
    with pytest.raises(KeyboardInterrupt):
        training("elman", tmp_path, reporters=[heard, Interrupts(2, times=2)]).train()
    assert heard.events[-2:] == [("update", 2), ("close",)]
    again = training("elman", tmp_path)
    again.resume()
    assert again.history.step == 0


def test_a_signal_after_the_last_update_is_too_late():
    assert training(reporters=[Interrupts(6)]).train().stopped == "finished"


def test_other_threads_train_without_signals():
    results = []
    thread = threading.Thread(target=lambda: results.append(training().train()))
    thread.start()
    thread.join()
    assert results[0].stopped == "finished"


# What goes wrong.
def broken_at(trainer, step):
    """The gradient of one parameter is no number from a step on."""

    def hook(gradient):
        return gradient * (torch.nan if trainer.history.step >= step else 1)

    trainer.model.output_bias.register_hook(hook)
    return trainer


def test_numbers_that_are_none_end_it(tmp_path):
    heard = Heard()
    trainer = broken_at(
        training("elman", tmp_path, reporters=[heard], clip_norm=0.0, precision="bfloat16"), 4
    )
    result = trainer.train()
    assert result.stopped == "not finite" and result.step == 4
    assert trainer.trouble == (
        "the loss or the gradient was no finite number after 4 updates, at a learning rate of "
        "0.00232; the model is as it was before. The checkpoint of step 3 is in order. Try a "
        "lower `learning_rate` than 0.01, or `clip_norm` 1.0 instead of 0, or `precision` float32"
    )
    assert ("warned", trainer.trouble) in heard.events
    assert all(p.isfinite().all() for p in trainer.model.parameters())
    again = training("elman", tmp_path, clip_norm=0.0, precision="bfloat16")
    again.resume()
    assert again.history.step == 3
    assert again.train().stopped == "finished"


def test_a_loss_on_new_text_that_is_none_ends_it(tmp_path):
    trainer = training("elman", tmp_path)
    trainer.validate = lambda: float("inf")
    result = trainer.train()
    assert result.stopped == "not finite" and result.step == 3
    assert "the loss on new text was no finite number after 3 updates" in trainer.trouble
    assert result.best_validation_loss is None


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] . DefaultCPUAllocator: can't allocate memory: you tried"),
        MemoryError(),
    ],
    ids=["gpu", "cpu", "python"],
)
def test_memory_that_is_full(error, tmp_path):
    trainer = training("elman", tmp_path, batch_size=6)

    def loss(tokens, targets):
        raise error

    trainer.model.loss = loss
    with pytest.raises(RunError) as caught:
        trainer.train()
    text = str(caught.value)
    assert "`accumulate` 2 instead of 1" in text
    assert "lower `batch_size` (6)" in text and "lower `seq_len` (7)" in text
    assert "`precision` bfloat16" in text
    assert (tmp_path / "checkpoint.pt").exists()


def test_other_errors_pass():
    trainer = training("elman")
    trainer.model.loss = lambda tokens, targets: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer.train()


def full_from(monkeypatch, step, until=10**9):
    """The disk refuses checkpoints of some steps."""
    write = keeping.write_checkpoint

    def refuse(path, state):
        if step <= state["history"]["step"] < until:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, state)

    monkeypatch.setattr(keeping, "write_checkpoint", refuse)


def test_a_disk_that_was_full_for_a_while(tmp_path, monkeypatch):
    full_from(monkeypatch, 3, until=4)
    heard = Heard()
    result = training("elman", tmp_path, reporters=[heard]).train()
    assert result.stopped == "finished"
    assert [event for event in heard.events if event[0] == "warned"] == [
        (
            "warned",
            "the disk refused the checkpoint after 3 updates (No space left on device); the "
            "checkpoint of step 0 is in order",
        )
    ]
    again = training("elman", tmp_path)
    again.resume()
    assert again.history.step == 6


def test_a_disk_that_is_full_in_the_end(tmp_path, monkeypatch):
    full_from(monkeypatch, 4)
    with pytest.raises(RunError, match=r"checkpoint after 6 .*step 3 is in order\. Free some"):
        training("elman", tmp_path).train()
    monkeypatch.undo()
    again = training("elman", tmp_path)
    again.resume()
    assert again.history.step == 3
    assert again.train().stopped == "finished"


def test_a_run_is_not_overwritten(tmp_path):
    training("elman", tmp_path / "run").train()
    before = (tmp_path / "run" / "run.json").read_text()
    with pytest.raises(RunError, match=r"there is a run in .*run already; go on .*--resume"):
        training("elman", tmp_path / "run").train()
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_a_device_that_is_not_there(unhooked):
    devices = unhooked("labml_nn.experiments.training.devices")
    with pytest.raises(ValueError, match=r"there is no device 'cuda:7' here.*has cpu"):
        devices.pick_device("cuda:7")
    if not torch.backends.mps.is_available():
        with pytest.raises(ValueError, match=r"there is no device 'mps' here; this machine"):
            devices.pick_device("mps")


def test_a_batch_that_cannot_be_shared():
    from labml_nn.experiments.distributed import World

    task = task_for("elman", settings(batch_size=4))
    with pytest.raises(ValueError, match=r"`batch_size` \(4\) must be divisible by 3"):
        trainer_module.Trainer(model_for("elman", task), task, settings(), world=World(0, 3))
