"""A training that was interrupted is, bit for bit, the one that was not."""

import json
import random
import time

import pytest
import torch
from processes import codes, start
from small_runs import CORPUS, MODELS, Interrupts, resumed, training
from sweeps import swept

from labml_nn.experiments import trainer as trainer_module
from labml_nn.experiments.checkpoint import RunError, load_run
from labml_nn.experiments.data import Words
from labml_nn.experiments.reporters import Reporter


def same(one, other):
    """Whether two values are equal to the last bit, whatever they are made of."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def losses(history):
    """A history without its times, which differ."""
    return [
        [(point[0], point[1], point[4]) for point in curve]
        for curve in (history.train, history.validation)
    ]


def check_equal(one, other):
    assert one.history.step == other.history.step
    assert same(one.model.state_dict(), other.model.state_dict())
    assert same(one.update.state(), other.update.state())
    assert losses(one.history) == losses(other.history)
    assert one.history.samples == other.history.samples
    assert one.history.tokens == other.history.tokens


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", MODELS)
def test_the_run_that_goes_on_is_the_same(name, tmp_path):
    """With dropout, and interrupted where nothing else happens."""
    straight = training(name, tmp_path / "straight")
    straight.train()
    first = training(name, tmp_path / "run", reporters=[Interrupts(4)])
    assert first.train().stopped == "interrupted"
    assert first.history.step == 4
    second = resumed(name, tmp_path / "run")
    assert second.history.step == 4
    assert second.train().stopped == "finished"
    check_equal(second, straight)
    for file in ("model/model.safetensors", "samples.txt"):
        both = [(tmp_path / each / file).read_bytes() for each in ("run", "straight")]
        assert both[0] == both[1]


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "muon"},
        {"initial_seq_len": 3, "grow_steps": 5},
        {"precision": "float16"},
        {"accumulate": 2, "vocabulary": Words.from_text(CORPUS.train, min_count=3)},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_in_every_kind_of_training(changes, tmp_path):
    straight = training("autoregressive", tmp_path / "straight", **changes)
    straight.train()
    training("autoregressive", tmp_path / "run", reporters=[Interrupts(2)], **changes).train()
    second = resumed("autoregressive", tmp_path / "run", **changes)
    second.train()
    check_equal(second, straight)
    run = load_run(tmp_path / "run")
    assert run.vocabulary == run.wording.vocabulary == second.task.vocabulary


def test_between_two_points_of_the_curve(tmp_path, monkeypatch):
    """A mean that was half collected is collected to its end."""
    monkeypatch.setattr(trainer_module, "POINTS", 3)
    changes = {"steps": 12, "evaluate_every": 0, "sample_every": 0, "save_every": 6}
    straight = training("elman", tmp_path / "straight", **changes)
    straight.train()
    assert [point[0] for point in straight.history.train] == [4, 8, 12]

    class Dies(Reporter):
        def saved(self, step):
            if step == 6:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        training("elman", tmp_path / "run", reporters=[Dies()], **changes).train()
    second = resumed("elman", tmp_path / "run", **changes)
    assert second.history.step == 6 and second.history.loss_count == 2
    second.train()
    check_equal(second, straight)


def test_in_one_process():
    """A notebook that was stopped runs its cell again."""
    straight = training("elman")
    straight.train()
    trainer = training("elman", reporters=[Interrupts(3)])
    assert trainer.train().stopped == "interrupted"
    assert trainer.train().stopped == "finished"
    check_equal(trainer, straight)


def test_other_numbers_are_refused(tmp_path):
    training("elman", tmp_path).train()
    with pytest.raises(RunError, match=r"learning_rate: 0\.01 there and 0\.02 here"):
        resumed("elman", tmp_path, learning_rate=0.02)
    with pytest.raises(RunError, match="model: 'elman' there and 'autoregressive' here"):
        resumed("autoregressive", tmp_path)
    resumed("elman", tmp_path, save_every=2, evaluate_every=0)


def test_files_that_are_missing_or_damaged(tmp_path):
    def refused(match):
        with pytest.raises(RunError, match=match):
            resumed("elman", tmp_path)

    path, about_path = tmp_path / "checkpoint.pt", tmp_path / "run.json"
    training("elman", tmp_path).train()
    state = torch.load(path, weights_only=True)
    for part in ("about", "model", "update", "history"):
        for damaged in ({**state, part: {}}, {k: v for k, v in state.items() if k != part}):
            torch.save(damaged, path)
            refused(r"checkpoint\.pt is damaged \(")
    torch.save({**state, "format": 9}, path)
    refused("has format 9, and this version of labml-nn reads 1")
    path.write_bytes(b"PK nonsense")
    refused(r"is damaged \((?!.*weights_only)")
    path.unlink()
    refused("to continue from")
    about = json.loads(about_path.read_text())
    lacking = [{"task": "songs"}, {"model": {"name": "elman"}}, {"corpus": {"name": "x"}}]
    texts = [json.dumps({**about, **changes}) for changes in [*lacking, {"training": 1}]]
    for text in (*texts, "{half", "[]"):
        about_path.write_text(text)
        with pytest.raises(RunError, match=r"run\.json is damaged"):
            load_run(tmp_path)


@pytest.mark.parametrize("name", swept(["feedback", "elman", "encoder_decoder"], "elman"))
def test_kill_at_random_moments(name, tmp_path):
    """`kill -9` wherever it happens; the run that is resumed ends bit for bit as the other."""
    assert codes(start("train_or_resume", name, tmp_path / "straight")) == [0]
    draw, kills = random.Random(name), 0
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    for _ in range(60):
        child = start("train_or_resume", name, tmp_path / "run")
        wanted, seen = draw.randrange(1, 4), set()
        while child.is_alive() and (len(seen) <= wanted or kills == 2):
            time.sleep(0.002)
            if checkpoint.exists():
                seen.add(checkpoint.stat().st_mtime_ns)
        if child.is_alive():
            time.sleep(draw.random() / 50)
            child.kill()
            kills += 1
        if codes(child) == [0]:
            break
    assert kills > 0
    ends = [torch.load(tmp_path / each / "checkpoint.pt") for each in ("straight", "run")]
    for part in ("model", "update"):
        assert same(ends[0][part], ends[1][part])
