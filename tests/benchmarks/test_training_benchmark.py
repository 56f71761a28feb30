"""What parts of the training preset are worth, on a text of a few words and for a few updates."""

import json
from dataclasses import asdict

import pytest
import torch

from benchmarks import training as room
from benchmarks.training import (
    RECIPES,
    SIZES,
    OurTraining,
    Peer,
    PeerTraining,
    Recipe,
    read,
    table,
    train,
    write,
)
from labml_nn.experiments.data import read_corpus

SMALL = Recipe(
    {"d_model": 12, "heads": 3, "n_layers": 1, "d_ff": 20}, {"batch_size": 2, "seq_len": 5}
)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("To be, or not to be, that is the question.\n" * 40, encoding="utf-8")
    return read_corpus(path)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setitem(SIZES, "width", 12)
    monkeypatch.setitem(SIZES, "heads", 3)
    monkeypatch.setitem(SIZES, "layers", 2)


def run(recipe, seed, loss, share=1.0):
    return {
        "recipe": recipe,
        "seed": seed,
        "steps": 10,
        "validation_loss": loss,
        "peer_times": share,
    }


def test_the_peer_does_not_see_what_comes():
    torch.manual_seed(0)
    model = Peer(n_vocab=7)
    tokens = torch.randint(7, (2, 5))
    before = model(tokens)
    tokens[:, 3] = (tokens[:, 3] + 1) % 7
    after = model(tokens)
    assert before.shape == (2, 5, 7)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3])


def test_the_peer_learns(corpus):
    training = PeerTraining(corpus, seed=1, steps=30)
    before = training.validate()
    for step in range(30):
        training.update(step)
    assert training.validate() < before


def test_ours_is_the_preset_but_for_what_was_changed(corpus):
    training = OurTraining(corpus, 1, SMALL, steps=3)
    assert (training.config.optimizer, training.config.seq_len) == ("muon", 5)
    before = [p.detach().clone() for p in training.model.parameters()]
    training.update(0)
    training.update(1)
    assert any(
        not torch.equal(p, q) for p, q in zip(training.model.parameters(), before, strict=True)
    )
    training.validate()
    assert training.model.training


@pytest.mark.parametrize("name", ["nanoGPT", "every part"])
def test_what_is_told_of_a_run(name, corpus, monkeypatch, capsys):
    monkeypatch.setitem(RECIPES, "every part", SMALL)
    monkeypatch.setattr(room, "updates_in", lambda corpus, recipe: 4)
    monkeypatch.setattr(
        room, "PEER", room.TrainingConfig.of({**room.PEER.values(), "steps": 4, "warmup_steps": 1})
    )
    told = train(name, corpus, seed=2, every=2, looks=2)
    assert (told["recipe"], told["seed"], told["steps"]) == (name, 2, 4)
    assert [mark[0] for mark in told["curve"]] == [2, 4]
    assert told["validation_loss"] == told["curve"][-1][1] > 0
    assert told["peer_times"] > 0
    assert json.loads(json.dumps(told)) == told
    assert f"{name}, seed 2: 4/4" in capsys.readouterr().out


def test_runs_are_kept_and_read(tmp_path):
    path = tmp_path / "results" / "ablation.json"
    assert read(path) == []
    write(path, [run("GELU", 1, 1.5)])
    assert [kept["validation_loss"] for kept in read(path)] == [1.5]


def test_means_over_seeds():
    of_preset = [run("the preset", 1, 1.5), run("the preset", 2, 1.7)]
    lines = table([*of_preset, run("GELU", 1, 1.6, 0.9)]).splitlines()
    assert lines[2:] == [
        "| the preset | 2 | 10 | 1.00 | 1.600 | 0.200 |",
        "| GELU | 1 | 10 | 0.90 | 1.600 |  |",
    ]


def test_the_preset_is_every_part_but_those_that_did_not_earn_their_place(corpus):
    small = {"d_model": 12, "heads": 3, "n_layers": 1}
    configs = []
    for name in ("every part", "the preset"):
        recipe = RECIPES[name]
        assert recipe is not None
        model = OurTraining(corpus, 1, Recipe({**recipe.model, **small}), steps=2).model
        configs.append(asdict(model.config))
    differs = {key for key in configs[0] if configs[0][key] != configs[1][key]}
    assert differs == {"norm", "activation", "zero_init"}
