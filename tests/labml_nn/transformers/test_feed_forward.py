"""The feed-forward network: values, variants, names of parameters and errors."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU

MODULE = "labml_nn.transformers.feed_forward"
T, B, C, HIDDEN = 5, 2, 12, 28


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(T, B, C)


@pytest.mark.parametrize(("gated", "expected"), [(False, [4.0, 13.0]), (True, [22.0, 85.0])])
def test_by_hand(gated, expected):
    """Hidden features: 2 + 1, -5 + 1 -> 0, -3 + 1 -> 0; the gate of the first is 3 * 2 + 1."""
    ffn = FeedForward(2, 3, is_gated=gated).eval()
    weights = {"layer1": [[1, 0], [0, 1], [1, 1]], "layer2": [[1, 2, 3], [4, 5, 6]]}
    weights |= {"linear_v": [[3, 0], [1, 1], [1, 1]]} if gated else {}
    for name, values in weights.items():
        getattr(ffn, name).weight.data = torch.tensor(values, dtype=torch.float)
        nn.init.ones_(getattr(ffn, name).bias)
    torch.testing.assert_close(ffn(torch.tensor([2.0, -5.0])), torch.tensor(expected))


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        (None, F.relu),
        (nn.GELU(), lambda z: z * torch.special.ndtr(z)),
        (nn.SiLU(), lambda z: z * torch.sigmoid(z)),
        (SquaredReLU(), lambda z: z * z * (z > 0)),
        (F.gelu, F.gelu),
    ],
)
@pytest.mark.parametrize("gated", [True, False])
def test_variants_of_the_table(x, gated, activation, function):
    ffn = FeedForward(C, HIDDEN, 0.1, activation, gated, False, False, False).eval()
    hidden = function(x @ ffn.layer1.weight.T)
    if gated:
        hidden = hidden * (x @ ffn.linear_v.weight.T)
    torch.testing.assert_close(ffn(x), hidden @ ffn.layer2.weight.T)


def test_names_of_parameters_and_defaults():
    def names(**options):
        return set(FeedForward(C, HIDDEN, **options).state_dict())

    plain = {"layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias"}
    assert names() == plain
    assert names(is_gated=True) == plain | {"linear_v.weight", "linear_v.bias"}
    assert names(bias1=False) == plain - {"layer1.bias"}
    assert names(bias2=False) == plain - {"layer2.bias"}
    assert names(is_gated=True, bias_gate=False) == plain | {"linear_v.weight"}
    assert FeedForward(C, HIDDEN).dropout.p == 0.1
    assert FeedForward(C, HIDDEN).activation is not FeedForward(C, HIDDEN).activation


def test_dropout_is_on_the_hidden_features(x):
    ffn = FeedForward(C, HIDDEN, dropout=1.0)
    torch.testing.assert_close(ffn(x), ffn.layer2.bias.expand(T, B, C))
    assert not torch.allclose(ffn.eval()(x), ffn.layer2.bias.expand(T, B, C))


def test_copies_dtypes_and_devices(x):
    ffn = FeedForward(C, HIDDEN, 0.0, nn.SiLU(), is_gated=True)
    for twin in (copy.deepcopy(ffn), pickle.loads(pickle.dumps(ffn))):
        assert torch.equal(twin(x), ffn(x))
    torch.testing.assert_close(copy.deepcopy(ffn).double()(x.double()).float(), ffn(x))
    assert copy.deepcopy(ffn).to("meta")(x.to("meta")).is_meta
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ffn(x).dtype == torch.bfloat16


def test_compiles_whole(unhooked, x):
    made = unhooked(MODULE).FeedForward(C, HIDDEN, 0.0, nn.SiLU(), is_gated=True)
    compiled = torch.compile(made, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), made(x))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 28), ValueError, r"`d_model` \(0\) must be at least 1"),
        ((12, "28"), TypeError, r"`d_ff` \('28'\) must be a whole number, not a str"),
        ((12, 28, -0.1), ValueError, r"`dropout` \(-0\.1\) must be from 0 to 1"),
        ((12, 28, 0.1, "gelu"), TypeError, r"`activation` \('gelu'\) must be a function or"),
        ((12, 28, 0.1, nn.GELU), TypeError, r"`activation` .*GELU.*such as nn\.GELU\(\)"),
        ((12, 28, 0.1, None, 1), TypeError, r"`is_gated` \(1\) must be True or False"),
        ((12, 28, 0.1, None, True, "no"), TypeError, r"`bias1` \('no'\)"),
        ((12, 28, 0.1, None, True, True, "no"), TypeError, r"`bias2` \('no'\)"),
        ((12, 28, 0.1, None, True, True, True, "no"), TypeError, r"`bias_gate` \('no'\)"),
    ],
)
def test_impossible_arguments(unhooked, arguments, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).FeedForward(*arguments)
