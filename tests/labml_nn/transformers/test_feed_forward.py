"""The feed-forward network: values, variants, names of parameters and errors."""

import pytest
import torch
from lesson_pages import Page, numbers
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers import feed_forward
from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU

T, B, C, HIDDEN = 5, 2, 12, 28


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(T, B, C)


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
    ffn = FeedForward(C, HIDDEN, 0.1, activation, gated).eval()
    hidden = function(ffn.layer1(x))
    if gated:
        hidden = hidden * ffn.linear_v(x)
    torch.testing.assert_close(ffn(x), ffn.layer2(hidden))


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


def test_the_worked_example_of_the_page():
    rows = Page(feed_forward).rows("pattern | weights")
    weights, biases, values = (torch.tensor([numbers(row[i]) for row in rows]) for i in (1, 2, 3))
    network = FeedForward(4, 2, dropout=0.0, bias2=False)
    with torch.no_grad():
        network.layer1.weight.copy_(weights)
        network.layer1.bias.copy_(biases[:, 0])
        network.layer2.weight.copy_(values.T)
        dog = torch.tensor([1.0, 0, 1, 0])
        assert network.layer1(dog).tolist() == [1, 0]
        assert (dog + network(dog)).tolist() == [1, 0, 1, 1]
        # A noun without an article, and neither a noun nor a verb.
        assert network.layer1(torch.tensor([1.0, 0, 0, 0])).tolist() == [0, -1]
        assert network.layer1(torch.zeros(4)).tolist() == [-1, -1]
