"""The feed-forward network: values computed by hand, its variants, and what is refused."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers.feed_forward import FeedForward

T, B, C, HIDDEN = 5, 2, 12, 28


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(T, B, C)


def set_weights(ffn, **weights):
    for name, values in weights.items():
        layer = getattr(ffn, name)
        layer.weight.data = torch.tensor(values, dtype=torch.float)
        nn.init.ones_(layer.bias)


def test_plain_by_hand():
    ffn = FeedForward(2, 3).eval()
    set_weights(ffn, layer1=[[1, 0], [0, 1], [1, 1]], layer2=[[1, 2, 3], [4, 5, 6]])
    # Hidden: 2+1, -5+1 -> 0, -3+1 -> 0. Result: 3*1+1, 3*4+1.
    result = ffn(torch.tensor([[[2.0, -5.0]]]))
    torch.testing.assert_close(result, torch.tensor([[[4.0, 13.0]]]))


def test_gated_by_hand():
    ffn = FeedForward(2, 3, is_gated=True).eval()
    set_weights(ffn, layer1=[[1, 0], [0, 1], [1, 1]], layer2=[[1, 2, 3], [4, 5, 6]])
    set_weights(ffn, linear_v=[[3, 0], [1, 1], [1, 1]])
    # The only hidden feature left, 3, is multiplied by 3*2 + 1 = 7.
    result = ffn(torch.tensor([[[2.0, -5.0]]]))
    torch.testing.assert_close(result, torch.tensor([[[22.0, 85.0]]]))


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        (nn.Sigmoid(), torch.sigmoid),
        (nn.Identity(), lambda z: z),
        (nn.ReLU(), F.relu),
        (nn.GELU(), lambda z: z * torch.special.ndtr(z)),
        (nn.SiLU(), lambda z: z * torch.sigmoid(z)),
        (F.gelu, F.gelu),
    ],
    ids=["GLU", "Bilinear", "ReGLU", "GEGLU", "SwiGLU", "a function"],
)
def test_variants_of_the_table(x, activation, function):
    """Shazeer 2020, eq. 6, without biases."""
    ffn = FeedForward(C, HIDDEN, 0.1, activation, True, False, False, False).eval()
    w, v, w2 = ffn.layer1.weight.T, ffn.linear_v.weight.T, ffn.layer2.weight.T
    torch.testing.assert_close(ffn(x), (function(x @ w) * (x @ v)) @ w2)


def test_gelu_without_a_gate(x):
    ffn = FeedForward(C, HIDDEN, activation=nn.GELU()).eval()
    hidden = ffn.layer1(x)
    torch.testing.assert_close(ffn(x), ffn.layer2(hidden * torch.special.ndtr(hidden)))


def test_names_of_parameters():
    def names(**arguments):
        return set(FeedForward(C, HIDDEN, **arguments).state_dict())

    plain = {"layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias"}
    assert names() == plain
    assert names(is_gated=True) == plain | {"linear_v.weight", "linear_v.bias"}
    assert names(bias1=False) == plain - {"layer1.bias"}
    assert names(bias2=False) == plain - {"layer2.bias"}
    assert names(is_gated=True, bias_gate=False) == plain | {"linear_v.weight"}


def test_each_network_has_an_activation_of_its_own():
    assert FeedForward(C, HIDDEN).activation is not FeedForward(C, HIDDEN).activation


def test_dropout_is_on_the_hidden_features(x):
    ffn = FeedForward(C, HIDDEN, dropout=1.0).train()
    torch.testing.assert_close(ffn(x), ffn.layer2.bias.expand(T, B, C))


def test_positions_do_not_see_each_other(x):
    ffn = FeedForward(C, HIDDEN, is_gated=True).eval()
    changed = x.clone()
    changed[3, 1] += 1
    different = (ffn(changed) != ffn(x)).any(dim=-1)
    assert different.nonzero().tolist() == [[3, 1]]
    torch.testing.assert_close(ffn(x[0, 0]), ffn(x)[0, 0])


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    ffn = FeedForward(3, 4, 0.0, nn.SiLU(), is_gated=True).double()
    x = torch.randn(2, 1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ffn, x)


def test_copies_and_types(x):
    ffn = FeedForward(C, HIDDEN, activation=nn.SiLU(), is_gated=True).eval()
    for twin in (copy.deepcopy(ffn), pickle.loads(pickle.dumps(ffn))):
        torch.testing.assert_close(twin(x), ffn(x), rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(ffn).double()(x.double()).float(), ffn(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = ffn(x)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), ffn(x), rtol=0.05, atol=0.02)


def test_compiles_into_one_graph(unhooked, x):
    ffn = unhooked("labml_nn.transformers.feed_forward").FeedForward(
        C, HIDDEN, 0.0, nn.SiLU(), is_gated=True
    )
    compiled = torch.compile(ffn, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), ffn(x))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 28), ValueError, r"`d_model` \(0\) must be at least 1"),
        ((12, "28"), TypeError, r"`d_ff` \('28'\) must be a whole number, not a str"),
        ((12, 28, -0.1), ValueError, r"`dropout` \(-0\.1\) must be from 0 to 1"),
        ((12, 28, 0.1, "gelu"), TypeError, r"`activation` \('gelu'\) must be a module or a func"),
        ((12, 28, 0.1, nn.GELU), TypeError, r"`activation` is the class GELU; .* such as GELU\(\)"),
    ],
)
def test_impossible_networks(unhooked, arguments, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn.transformers.feed_forward").FeedForward(*arguments)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: x[..., :10], ValueError, r"`x` has shape \[5, 2, 10\]; .* d_model = 12"),
        (lambda x: x.sum(), ValueError, r"`x` has shape \[\]; .* d_model = 12"),
        (lambda x: x.int(), TypeError, r"`x` has dtype torch\.int32; .* embed tokens first"),
        (lambda x: x.double(), TypeError, r"torch\.float64 but the parameters have torch\.float32"),
    ],
)
def test_inputs_that_do_not_fit(unhooked, x, change, error, message):
    ffn = unhooked("labml_nn.transformers.feed_forward").FeedForward(C, HIDDEN)
    with pytest.raises(error, match=message):
        ffn(change(x))
