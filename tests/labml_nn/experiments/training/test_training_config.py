"""What a configuration of a training accepts, and what it says to the rest."""

import re
from dataclasses import fields

import pytest

from labml_nn.experiments.training.config import TrainingConfig


@pytest.fixture
def config(unhooked):
    return unhooked("labml_nn.experiments.training.config").TrainingConfig


def test_defaults_can_be():
    config = TrainingConfig()
    assert TrainingConfig.of(config.values()) == config


def test_every_field_is_explained_once():
    text = TrainingConfig.__doc__
    for field in fields(TrainingConfig):
        assert len(re.findall(rf"(?m)^\s*\* `{field.name}` is ", text)) == 1, field.name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, r"`steps` \(0\) must be at least 1"),
        ({"seq_len": -3}, r"`seq_len` \(-3\) must be at least 1"),
        ({"warmup_steps": -1}, r"`warmup_steps` \(-1\) must be at least 0"),
        ({"seed": -1}, r"`seed` \(-1\) must be at least 0"),
        (
            {"batch_size": 10, "accumulate": 4},
            r"`batch_size` \(10\) must be divisible by `accumulate` \(4\); try batch_size=8 or 12",
        ),
        ({"batch_size": 2, "accumulate": 4}, r"by `accumulate` \(4\); try accumulate=1"),
        ({"learning_rate": 0.0}, r"`learning_rate` \(0.0\) must be above 0"),
        ({"learning_rate": float("inf")}, r"`learning_rate` \(inf\) must be above 0 and finite"),
        ({"muon_learning_rate": -1.0}, r"`muon_learning_rate` \(-1.0\)"),
        ({"weight_decay": -0.1}, r"`weight_decay` \(-0.1\) must be at least 0 .* switches it off"),
        ({"clip_norm": float("nan")}, r"`clip_norm` \(nan\) must be at least 0"),
        ({"final_learning_rate": 1.5}, r"`final_learning_rate` \(1.5\) is a share"),
        ({"beta2": 1.0}, r"`beta2` \(1.0\) must be at least 0 and less than 1"),
        ({"optimizer": "moun"}, r"no optimizer 'moun'; did you mean 'muon'\?"),
        ({"precision": "float61"}, r"no precision 'float61'; did you mean 'float16'\?"),
        ({"compile": "maybe"}, r"no way to compile 'maybe'; known: auto, yes, no"),
        ({"device": "gpu"}, r"`device` \('gpu'\) is not known; expected auto, cpu, cuda"),
        ({"grow_steps": 5}, r"`grow_steps` \(5\) needs `initial_seq_len`"),
        ({"initial_seq_len": 8}, r"`initial_seq_len` \(8\) needs `grow_steps`"),
        (
            {"initial_seq_len": 99, "grow_steps": 5},
            r"`initial_seq_len` \(99\) must be at most `seq_len` \(64\)",
        ),
    ],
)
def test_what_cannot_be_is_refused(config, values, message):
    with pytest.raises(ValueError, match=message):
        config(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 1.5}, r"`steps` \(1.5\) must be a whole number"),
        ({"seed": "7"}, r"`seed` \('7'\) must be a whole number, not a str"),
        ({"seed": True}, r"`seed` \(True\) must be a whole number, not a bool"),
        ({"beta1": "0.9"}, r"`beta1` \('0.9'\) must be a number, not a str"),
    ],
)
def test_other_kinds_are_refused(config, values, message):
    with pytest.raises(TypeError, match=message):
        config(**values)


def test_a_misspelt_field_is_recognised(config):
    with pytest.raises(ValueError, match=r"'learning_rat'; did you mean 'learning_rate'\?"):
        config.of({"learning_rat": 0.1})
