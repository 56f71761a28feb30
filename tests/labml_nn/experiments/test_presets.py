"""Experiments: presets that build and train, variants, overrides."""

import pytest
import torch
from small_runs import CORPUS

import labml_nn
from labml_nn.experiments.presets import PRESETS, default_preset, experiments
from labml_nn.experiments.trainer import Trainer

SMALL = {"d_model": 24, "heads": 2, "n_layers": 1}
QUICK = {"steps": 2, "batch_size": 2, "seq_len": 12, "sample_tokens": 2, "device": "cpu"}


def sizes_of(experiment):
    sizes = dict(SMALL)
    if experiment.model == "elman":
        sizes = {"d_model": 24, "d_hidden": 10, "n_layers": 1}
    return {name: value for name, value in sizes.items() if name not in varied(experiment)}


def varied(experiment):
    return {name for changed in experiment.variants.values() for name in changed}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", experiments())
def test_every_preset_builds_and_trains(name, preset):
    """With its own choices, and sizes that a test can afford; two updates."""
    experiment = experiments()[name]
    assert tuple(experiment.presets) == PRESETS and experiment.preset(preset).about
    full = experiment.model_fields(preset)
    config_class = labml_nn.models()[experiment.model].load_class().Config
    config_class(n_vocab=70, **special(experiment), **full)  # the whole model is possible
    training = {**QUICK, "precision": "float32"}
    variant = next(iter(experiment.variants), None)
    model, task, config = experiment.build(
        preset, corpus=CORPUS, variant=variant, model=sizes_of(experiment), training=training
    )
    assert config.optimizer == experiment.training(preset).optimizer
    assert config.warmup_steps == 2  # shortened with the run
    assert model.config.n_vocab == task.model_fields["n_vocab"]
    assert Trainer(model, task, config).train().stopped == "finished"


def special(experiment):
    if experiment.task == "text":
        return {}
    return {"padding_token": 67, "start_token": 68, "end_token": 69}


def test_the_context_is_as_long_as_the_sequences():
    for name, longer in (("autoregressive", 0), ("encoder_decoder", 1), ("feedback", 0)):
        built = experiments()[name].build("tiny", corpus=CORPUS, model=SMALL, training=QUICK)
        assert built.model.config.max_len == 12 + longer
    built = experiments()["feedback"].build(
        "tiny", corpus=CORPUS, model={**SMALL, "max_len": 30}, training=QUICK
    )
    assert built.model.config.max_len == 30 and built.config.initial_seq_len == 12


def test_parameters_are_drawn_with_the_seed_and_nothing_else_is():
    def built(seed):
        training = {**QUICK, "seed": seed}
        model = experiments()["elman"].build("tiny", corpus=CORPUS, training=training).model
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, two, three = (built(seed) for seed in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, three)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_class_of_your_own():
    elman = experiments()["elman"]
    usual = labml_nn.models()["elman"].load_class()
    mine = type("Mine", (usual,), {})
    built = elman.build("tiny", corpus=CORPUS, training=QUICK, model_class=mine)
    assert type(built.model) is mine


def test_variants_and_overrides():
    mha = experiments()["mha"]
    assert [mha.model_fields("tiny", v)["heads"] for v in mha.variants] == [1, 2, 4, 8]
    assert mha.model_fields("tiny", "heads-2", {"heads": 2, "d_model": 9})["d_model"] == 9
    with pytest.raises(ValueError, match=r"`heads` \(3\) is determined by the variant heads-2"):
        mha.model_fields("tiny", "heads-2", {"heads": 3})
    with pytest.raises(ValueError, match="there is no variant of mha 'heads-3'; did you mean"):
        mha.model_fields("tiny", "heads-3")
    with pytest.raises(ValueError, match="there is no variant of elman 'x'"):
        experiments()["elman"].model_fields("tiny", "x")
    with pytest.raises(ValueError, match=r"`n_vocab` \(5\) is determined by the text"):
        mha.build("tiny", corpus=CORPUS, model={"n_vocab": 5})
    with pytest.raises(ValueError, match="there is no preset of mha 'tinny'"):
        mha.preset("tinny")
    with pytest.raises(ValueError, match=r"`warmup_steps` \(9\) must be at most `steps` \(5\)"):
        mha.training("tiny", {"steps": 5, "warmup_steps": 9})
    assert mha.training("tiny", {"steps": 5}).warmup_steps == 5


def test_the_table(monkeypatch):
    table = experiments()
    assert len(table) == 6 and "mha" in table and "x" not in table
    assert len(str(table).splitlines()) == 8
    with pytest.raises(ValueError, match="did you mean 'feedback'"):
        table["fedback"]
    for gpu, preset in ((True, "colab"), (False, "tiny")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert default_preset() == preset


def test_dropout_of_everything_is_refused():
    with pytest.raises(ValueError, match=r"`dropout_prob` \(1.0\) must be below 1"):
        experiments()["elman"].build("tiny", corpus=CORPUS, model={"dropout_prob": 1.0})
