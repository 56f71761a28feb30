"""Experiments: presets that build and train, overrides."""

from types import SimpleNamespace

import pytest
import torch
from small_runs import CORPUS
from sweeps import in_turn

import labml_nn
from labml_nn.experiments import presets
from labml_nn.experiments.presets import PRESETS, default_preset, experiments
from labml_nn.experiments.trainer import Trainer
from labml_nn.recurrent.language_model import RecurrentLanguageModel
from labml_nn.registry import models

SMALL = {"d_model": 24, "heads": 2, "n_layers": 1}
QUICK = {"steps": 2, "batch_size": 2, "seq_len": 12, "sample_tokens": 2, "device": "cpu"}
SPECIAL = {"padding_token": 67, "start_token": 68, "end_token": 69}


def build(name, preset="tiny", **more):
    more["training"] = QUICK | more.pop("training", {})
    return experiments()[name].build(preset, corpus=CORPUS, **more)


@pytest.mark.parametrize(("name", "preset"), in_turn(experiments(), PRESETS))
def test_every_preset_builds_and_trains(name, preset):
    """With its own choices, and sizes that a test can afford; two updates."""
    experiment = experiments()[name]
    assert tuple(experiment.presets) == PRESETS
    config_class = labml_nn.models()[experiment.model].load_class().Config
    special = SPECIAL if experiment.task == "replies" else {}
    whole = config_class(n_vocab=70, **special, **experiment.preset(preset).model)
    sizes = {n: v for n, v in SMALL.items() if hasattr(whole, n)}
    model, task, config = build(name, preset, model=sizes, training={"precision": "float32"})
    assert config.optimizer == experiment.training(preset).optimizer
    assert config.warmup_steps == 2  # shortened with the run
    assert model.config.n_vocab == task.model_fields["n_vocab"]
    assert Trainer(model, task, config).train().stopped == "finished"


def test_the_context_is_as_long_as_the_sequences():
    for name, longer in (("autoregressive", 0), ("encoder_decoder", 1), ("feedback", 0)):
        assert build(name, model=SMALL).model.config.max_len == 12 + longer
    built = build("feedback", model={**SMALL, "max_len": 30})
    assert built.model.config.max_len == 30 and built.config.initial_seq_len == 12


def test_parameters_are_drawn_with_the_seed_and_nothing_else_is():
    def built(seed):
        model = build("elman", training={"seed": seed}).model
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, two, three = (built(seed) for seed in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, three)
    assert torch.equal(torch.get_rng_state(), state)


def test_overrides(monkeypatch):
    built = build("elman", model={"d_hidden": 7, "d_model": 6, "n_layers": 3})
    assert built.model.config.n_layers == 3 and built.config.steps == QUICK["steps"]
    with pytest.raises(ValueError, match=r"`n_vocab` \(5\) is determined by the text"):
        build("elman", model={"n_vocab": 5})
    with pytest.raises(ValueError, match="did you mean 'feedback'"):
        experiments()["fedback"]
    for gpu, preset in ((True, "colab"), (False, "tiny")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert default_preset() == preset


def test_each_model_by_name_can_be_trained():
    """One without presets of its own has those of a model with the same kind of state."""
    found = experiments()
    assert list(found) == list(models())
    assert found["gru"].presets == found["lstm"].presets
    build("gru", "tiny")


def test_of_another_models_presets_it_takes_the_fields_that_it_has(monkeypatch):
    entry = SimpleNamespace(load_class=lambda: RecurrentLanguageModel, summary="without heads")
    monkeypatch.setattr(presets, "models", lambda: {"plain": entry})
    found = presets.with_presets_of_another("plain")
    assert found.title == "Recurrent"
    for name, one in experiments()["linear_attention"].presets.items():
        assert found.presets[name].training == one.training
        fields = {field: value for field, value in one.model.items() if field != "heads"}
        assert found.presets[name].model == fields
