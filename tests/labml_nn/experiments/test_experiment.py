"""Experiments: what they are made of, what they build, and what they refuse."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

from labml_nn.experiments.data import Corpus
from labml_nn.experiments.experiment import (
    PRESETS,
    Experiment,
    Preset,
    Setup,
    default_preset,
    experiments,
)
from labml_nn.experiments.training.trainer import Trainer
from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
from labml_nn.registry import load, models

NAMES = ["autoregressive", "encoder_decoder", "feedback", "elman", "mha", "positional_encoding"]
ABLATIONS = ["mha", "positional_encoding"]
SPEECH = "First:\nTo be, or not to be?\n\nSecond:\nThat is the question, my lord.\n\n"

#: So small that a test may train it, whatever the preset says.
SMALL = {"steps": 2, "batch_size": 3, "seq_len": 16, "sample_tokens": 5, "warmup_steps": 1}


@pytest.fixture(scope="module")
def corpus():
    return Corpus.of("speeches", SPEECH * 40)


def small(experiment):
    """Fields that make its model small."""
    sizes = {"n_layers": 1, "d_model": 16}
    return sizes | ({"d_hidden": 20} if experiment.model == "elman" else {})


def test_the_six_experiments_by_name_and_in_order():
    assert experiments().names == NAMES
    assert [experiment.name for experiment in experiments()] == NAMES
    assert len(experiments()) == 6
    assert experiments()[2] is experiments()["feedback"]
    assert [one.name for one in experiments()[4:]] == ABLATIONS
    assert "elman" in experiments()
    assert experiments()["elman"] in experiments()
    assert "lstm" not in experiments()


def test_the_table_prints_a_line_for_each_and_its_variants():
    lines = repr(experiments()).splitlines()
    assert len(lines) == len(NAMES) + len(ABLATIONS)
    assert lines[0].split()[0] == "autoregressive"
    assert any("variants: heads-1, heads-2, heads-4, heads-8" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_name_that_is_not_there(unhooked):
    module = unhooked("labml_nn.experiments.experiment")
    with pytest.raises(ValueError, match="no experiment 'fedback'; did you mean 'feedback'"):
        module.experiments()["fedback"]
    elman = module.experiments()["elman"]
    with pytest.raises(ValueError, match="no preset of elman 'cpuu'; did you mean 'cpu'"):
        elman.preset("cpuu")
    with pytest.raises(ValueError, match=r"no variant 'heads-1': elman has none"):
        elman.model_fields("tiny", "heads-1")
    with pytest.raises(ValueError, match="no variant of mha 'heads-3'; did you mean 'heads-"):
        module.experiments()["mha"].model_fields("tiny", "heads-3")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_model(name, preset):
    """Of shapes without numbers, so that large ones cost nothing."""
    experiment = experiments()[name]
    config = experiment.training(preset)
    assert config.warmup_steps < config.steps
    assert experiment.presets[preset].about
    special = {"padding_token": 9, "start_token": 10, "end_token": 11}
    tokens = {"n_vocab": 12} | (special if experiment.task == "replies" else {})
    cls = models()[experiment.model].load_class()
    for variant in experiment.variants or [None]:
        with torch.device("meta"):
            model = cls.from_config(experiment.model_fields(preset, variant) | tokens)
        assert sum(p.numel() for p in model.parameters()) > 10_000


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_builds_and_trains(name, corpus):
    experiment = experiments()[name]
    setup = experiment.build("tiny", corpus=corpus, model=small(experiment), training=SMALL)
    model, task, config = setup
    assert isinstance(setup, Setup)
    assert model.name == experiment.model
    assert (config.steps, config.batch_size, config.seq_len) == (2, 3, 16)
    assert model.config.n_vocab == len(corpus.vocabulary) + 3 * (experiment.task == "replies")
    result = Trainer(model, task, config).train()
    assert result.step == 2
    assert 0 < result.validation_loss < 10


@pytest.mark.parametrize("name", ABLATIONS)
def test_variants_differ_in_what_they_are_named_after_and_in_nothing_else(name):
    experiment = experiments()[name]
    for preset in PRESETS:
        plain = experiment.model_fields(preset)
        for variant, fields in experiment.variants.items():
            changed = experiment.model_fields(preset, variant)
            assert changed == plain | fields
            assert len(fields) == 1
            assert str(*fields.values()) in variant


def test_later_words_count_more(corpus):
    """The preset, then the variant, then what the user says."""
    mha = experiments()["mha"]
    assert mha.model_fields("tiny")["d_model"] == 64
    fields = mha.model_fields("tiny", "heads-2", {"d_model": 32})
    assert (fields["heads"], fields["d_model"]) == (2, 32)
    assert mha.model_fields("tiny", "heads-2", {"heads": 2})["heads"] == 2
    assert mha.training("tiny", {"steps": 7}).steps == 7
    assert mha.model_fields("tiny")["d_model"] == 64  # nothing is kept


def test_a_user_and_a_variant_must_not_disagree(unhooked):
    mha = unhooked("labml_nn.experiments.experiment").experiments()["mha"]
    with pytest.raises(ValueError, match=r"`heads` \(4\) is 1 in the variant heads-1; leave one"):
        mha.model_fields("tiny", "heads-1", {"heads": 4})


def test_fields_that_are_not_there_or_cannot_be(unhooked, corpus):
    module = unhooked("labml_nn.experiments.experiment")
    text = unhooked("labml_nn.experiments.data").Corpus.of("speeches", SPEECH * 40)
    elman = module.experiments()["elman"]
    with pytest.raises(ValueError, match="'d_hiden'; did you mean 'd_hidden'"):
        elman.build("tiny", corpus=text, model={"d_hiden": 5})
    with pytest.raises(ValueError, match="'step'; did you mean 'steps'"):
        elman.build("tiny", corpus=text, training={"step": 5})
    with pytest.raises(ValueError, match=r"`n_layers` \(0\) must be at least 1"):
        elman.build("tiny", corpus=text, model={"n_layers": 0})


def test_the_text_decides_how_many_tokens_there_are(unhooked):
    module = unhooked("labml_nn.experiments.experiment")
    text = unhooked("labml_nn.experiments.data").Corpus.of("speeches", SPEECH * 40)
    elman = module.experiments()["elman"]
    size = len(text.vocabulary)
    with pytest.raises(ValueError, match=rf"`n_vocab` \(7\) is decided by the text.*{size}"):
        elman.build("tiny", corpus=text, model={"n_vocab": 7})
    assert elman.build("tiny", corpus=text, model={"n_vocab": size}).model.config.n_vocab == size


@pytest.mark.parametrize(
    ("name", "expected"), [("autoregressive", 16), ("feedback", 16), ("encoder_decoder", 17)]
)
def test_a_model_looks_back_as_far_as_it_is_trained(name, expected, corpus):
    """A reply begins with one token more. Who gives a length gets it."""
    experiment = experiments()[name]
    fields = small(experiment)
    built = experiment.build("tiny", corpus=corpus, model=fields, training=SMALL)
    assert built.model.config.max_len == expected
    given = experiment.build("tiny", corpus=corpus, model=fields | {"max_len": 9}, training=SMALL)
    assert given.model.config.max_len == 9


def test_the_seed_decides_the_parameters_and_disturbs_nobody(corpus):
    elman = experiments()["elman"]

    def built(seed):
        return elman.build(
            "tiny", corpus=corpus, model=small(elman), training=SMALL | {"seed": seed}
        ).model.state_dict()

    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = built(1)
    assert torch.equal(torch.rand(3), expected)
    again, other = built(1), built(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_class_of_ones_own(corpus):
    class Shy(ElmanLanguageModel):
        pass

    elman = experiments()["elman"]
    built = elman.build("tiny", corpus=corpus, model=small(elman), training=SMALL, model_class=Shy)
    assert type(built.model) is Shy


def test_without_a_gpu_the_default_is_tiny(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert default_preset() == "tiny"
    elman = experiments()["elman"]
    assert elman.preset() is elman.presets["tiny"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert default_preset() == "colab"
    assert elman.training() == elman.training("colab")


def test_an_experiment_has_four_presets_a_known_model_and_a_known_task(unhooked):
    module = unhooked("labml_nn.experiments.experiment")
    elman = module.experiments()["elman"]
    with pytest.raises(ValueError, match="has the presets tiny; expected tiny, cpu, colab, gpu"):
        dataclasses.replace(elman, presets={"tiny": elman.presets["tiny"]})
    with pytest.raises(ValueError, match="no model 'elmann'; did you mean 'elman'"):
        dataclasses.replace(elman, model="elmann")
    with pytest.raises(ValueError, match="no task 'texts'; did you mean 'text'"):
        dataclasses.replace(elman, task="texts")


FITTING = {"n_layers": 1, "d_model": 16}


def start(module, text, folder):
    training = SMALL | {"start_from": str(folder)}
    feedback = module.experiments()["feedback"]
    return feedback.build("tiny", corpus=text, model=FITTING, training=training).model


@pytest.fixture
def ordinary(corpus, tmp_path):
    """The folder of a run, as an ordinary training leaves it."""
    model, task, config = experiments()["autoregressive"].build(
        "tiny", corpus=corpus, model=FITTING, training=SMALL
    )
    Trainer(model, task, config, tmp_path / "first").train()
    return tmp_path / "first"


@pytest.mark.parametrize("inside", ["", "model"], ids=["of a run", "of a model"])
def test_a_feedback_model_starts_from_an_ordinary_one(ordinary, corpus, inside):
    """From the folder of a run, or of a model alone."""
    trained = load(ordinary / "model")
    module = sys.modules["labml_nn.experiments.experiment"]
    model = start(module, corpus, ordinary / inside)
    assert torch.equal(model.embed.weight, trained.embedding.tokens.weight)
    plain = experiments()["feedback"].build("tiny", corpus=corpus, model=FITTING, training=SMALL)
    assert not torch.equal(model.embed.weight, plain.model.embed.weight)


def test_a_model_of_other_characters_is_refused(ordinary, unhooked):
    """As many of them, so that every shape fits and only their meaning differs."""
    module = unhooked("labml_nn.experiments.experiment")
    other = unhooked("labml_nn.experiments.data").Corpus.of(
        "capitals", (SPEECH * 40).replace("h", "H")
    )
    with pytest.raises(ValueError, match=r"was trained on speeches, with the .* this text, capit"):
        start(module, other, ordinary)


def test_a_model_that_does_not_fit_or_is_not_there_is_refused(unhooked, tmp_path):
    module = unhooked("labml_nn.experiments.experiment")
    text = unhooked("labml_nn.experiments.data").Corpus.of("speeches", SPEECH * 40)
    create = unhooked("labml_nn").create
    create("autoregressive", n_vocab=len(text.vocabulary), n_layers=2).save(tmp_path / "deep")
    with pytest.raises(ValueError, match="`n_layers` is 2 there and 1 here"):
        start(module, text, tmp_path / "deep")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        start(module, text, tmp_path / "nowhere")


def test_other_experiments_start_from_nothing(unhooked):
    module = unhooked("labml_nn.experiments.experiment")
    text = unhooked("labml_nn.experiments.data").Corpus.of("speeches", SPEECH * 40)
    with pytest.raises(ValueError, match=r"not for the experiment 'elman'.* It is for: feedback"):
        module.experiments()["elman"].build(
            "tiny", corpus=text, training=SMALL | {"start_from": "runs/first"}
        )


def test_texts_that_grow_begin_no_longer_than_they_may_become():
    feedback = experiments()["feedback"]
    begin = feedback.presets["tiny"].training["initial_seq_len"]
    assert feedback.training("tiny", {"seq_len": 5}).initial_seq_len == 5
    assert feedback.training("tiny", {"seq_len": 99}).initial_seq_len == begin
    assert feedback.training("tiny", {"seq_len": 9, "initial_seq_len": 3}).initial_seq_len == 3
    assert feedback.training("tiny").initial_seq_len == begin


def test_experiments_are_values():
    """Nobody changes the numbers of another run by accident."""
    experiment = experiments()["elman"]
    assert isinstance(experiment, Experiment)
    assert isinstance(experiment.presets["tiny"], Preset)
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.name = "other"
    with pytest.raises(TypeError):
        experiment.variants["new"] = {}


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_where_they_say(name):
    page = experiments()[name].page.replace(".html", ".py")
    assert (Path(__file__).parents[3] / page).exists()
    assert experiments()[name].notebook == f"notebooks/{name}.ipynb"


def test_names_of_the_room_come_when_they_are_asked_for():
    import labml_nn.experiments as room

    for name in room.__all__:
        assert getattr(room, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Trayner'"):
        room.Trayner  # noqa: B018
