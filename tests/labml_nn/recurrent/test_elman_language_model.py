"""The Elman language model: its equations, the classic form, initialisation."""

import math

import pytest
import torch
from torch.nn import functional as F

from labml_nn import kernels
from labml_nn.recurrent.elman import ElmanConfig, ElmanLanguageModel

V, T, B, C, N, L = 11, 5, 2, 12, 7, 3


@pytest.fixture(autouse=True)
def reference():
    """The page itself; kernels are compared with it elsewhere."""
    torch.manual_seed(0)
    with kernels.disabled():
        yield


def build(**fields):
    """In evaluation mode, with random numbers wherever a new model has zeros."""
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L}
    model = ElmanLanguageModel.from_config(sizes | fields).eval()
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.add_(torch.randn_like(tensor) / 8)
    return model


def text(*shape):
    return torch.randint(1, V, shape)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("classic", [True, False])
def test_the_equations(tied, classic):
    model, tokens, state = build(tied=tied, tanh_projections=classic), text(T, B), None
    e = model.embedding.weight[tokens]
    x = F.linear(e, model.input_projection.weight)
    x = x if classic else math.sqrt(C) * x
    x = x + model.input_projection.bias
    h, last = model.elman(x.tanh() if classic else x)
    z = model.output_projection(h)
    matrix = model.embedding.weight if tied else model.output_weight
    expected = (z.tanh() if classic else z) @ matrix.T + model.output_bias
    logits, state = model(tokens)
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(state, last)


def test_where_each_dropout_is():
    model = build(embedding_dropout_prob=0.2, dropout_prob=0.3, output_dropout_prob=0.4)
    assert model.embedding_dropout.p == 0.2
    assert model.dropout.p == model.elman.dropout.p == 0.3
    assert model.output_dropout.p == 0.4


@pytest.mark.parametrize("field", ["embedding_dropout_prob", "dropout_prob", "output_dropout_prob"])
def test_each_dropout_is_in_training_only(field):
    model, tokens = build(**{"dropout_prob": 0.0, "n_layers": 1} | {field: 0.5}), text(T, B)
    torch.testing.assert_close(model(tokens)[0], model(tokens)[0])
    model.train()
    assert not torch.allclose(model(tokens)[0], model(tokens)[0])


def test_projections_are_left_out_between_equal_sizes():
    assert tuple(build().input_projection.weight.shape) == (N, C)
    assert tuple(build().output_projection.weight.shape) == (C, N)
    equal = build(d_model=N)
    assert not [*equal.input_projection.parameters(), *equal.output_projection.parameters()]
    assert equal(text(T, B))[0].shape == (T, B, V)
    assert len([*build(d_model=N, tanh_projections=True).input_projection.parameters()]) == 2


@pytest.mark.parametrize("tied", [True, False])
def test_the_size_of_embeddings_at_first(tied):
    model = ElmanLanguageModel(ElmanConfig(n_vocab=65, tied=tied))
    assert model.embedding.weight.std().item() == pytest.approx(128**-0.5, rel=0.05)


def test_without_a_padding_token_zero_is_a_token():
    model, tokens = build(), torch.zeros(2, B, dtype=torch.long)
    assert not torch.allclose(model(tokens[:1])[1], model(tokens)[1])
