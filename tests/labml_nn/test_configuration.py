"""Configurations: values that are checked when they are written down."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field

import pytest

from labml_nn.configuration import LanguageModelConfig

MODULE = "labml_nn.configuration"


@dataclass(frozen=True, kw_only=True)
class Wide(LanguageModelConfig):
    """One with more fields, of which one is computed."""

    d_model: int = 12
    double: int = field(init=False, default=0)
    names: tuple[str, ...] = field(default_factory=tuple)


def test_values_are_equal_frozen_and_can_be_copied():
    config = Wide.of({"n_vocab": 65, "d_model": 8})
    assert config == Wide(n_vocab=65, d_model=8)
    assert config == pickle.loads(pickle.dumps(config)) == copy.deepcopy(config)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.n_vocab = 3
    assert dataclasses.replace(config, d_model=4) == Wide(n_vocab=65, d_model=4)


def test_bounds_that_can_just_be():
    LanguageModelConfig(n_vocab=1, padding_token=0, label_smoothing=0.0)
    LanguageModelConfig(n_vocab=65, padding_token=64, label_smoothing=0.999)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_vocab": 65, "d_modle": 8}, "no field of Wide 'd_modle'; did you mean 'd_model'"),
        ({"n_vocab": 65, "zzz": 8}, "no field of Wide 'zzz'; known: n_vocab, padding_token"),
        ({"n_vocab": 65, "double": 8}, "no field of Wide 'double'"),
        ({"d_model": 8}, "Wide needs `n_vocab`, which has no default; known: n_vocab"),
    ],
)
def test_fields_that_are_not_there(values, message):
    with pytest.raises(ValueError, match=message):
        Wide.of(values)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"n_vocab": 0}, ValueError, r"`n_vocab` \(0\) must be at least 1"),
        ({"n_vocab": 6.5}, TypeError, r"`n_vocab` \(6.5\) must be a whole number"),
        ({"padding_token": 65}, ValueError, r"`padding_token` \(65\) .* = 64.*`n_vocab` to 66"),
        ({"padding_token": -1}, ValueError, r"`padding_token` \(-1\) .*`n_vocab` to 66"),
        ({"padding_token": "<pad>"}, TypeError, r"`padding_token` \('<pad>'\) must be a token"),
        ({"padding_token": True}, TypeError, "or None, not a bool"),
        ({"label_smoothing": 1.0}, ValueError, r"`label_smoothing` \(1.0\) must be at least 0"),
        ({"label_smoothing": -0.1}, ValueError, r"\(-0.1\).*0.1 is usual"),
        ({"label_smoothing": float("nan")}, ValueError, r"\(nan\)"),
        ({"label_smoothing": None}, TypeError, r"`label_smoothing` \(None\) must be a number"),
    ],
)
def test_values_that_cannot_be(unhooked, values, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).LanguageModelConfig(**({"n_vocab": 65} | values))
