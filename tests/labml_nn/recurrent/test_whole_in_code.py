"""The whole in code of a page computes what its module computes, in any sizes, loops and chunks."""

import pytest
import torch
from lesson_pages import Page

from labml_nn import lstm
from labml_nn.lstm import LSTM, gru
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent import delta_net, elman, gated_delta_net, linear_attention, mamba2
from labml_nn.recurrent.delta_net import DeltaNet
from labml_nn.recurrent.elman import ElmanLayer
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.recurrent.linear_attention import LinearAttention
from labml_nn.recurrent.mamba2 import Mamba2

CELL = {"cells.0.input_lin": "W", "cells.0.hidden_lin": "U"}
#: Page, class of the whole in code, sizes, module, and what its parameters are called on the page.
LAYERS = {
    "gru": (gru, "GRU", (5, 6), lambda C, N: GRU(C, N, 1), CELL),
    "lstm": (lstm, "LSTM", (5, 6), lambda C, N: LSTM(C, N, 1), CELL),
    "linear_attention": (linear_attention, "Layer", (12, 3), LinearAttention, {}),
    "delta_net": (delta_net, "DeltaNet", (12, 3), DeltaNet, {}),
    "gated": (gated_delta_net, "GatedDeltaNet", (12, 3), GatedDeltaNet, {"dt_bias": "alpha.bias"}),
    "mamba2": (mamba2, "Mamba2", (12, 4, 7, 6), Mamba2, {}),
}


def weights_of(module, names):
    """The parameters of a module by the names of the page, with one matrix for q, k and v."""
    found = module.state_dict()
    if "query.weight" in found:
        parts = [found.pop(f"{name}.weight") for name in ("query", "key", "value")]
        found["qkv.weight"] = torch.cat(parts)
    for own, told in names.items():
        found = {name.replace(own, told): weight for name, weight in found.items()}
    return found


@pytest.mark.parametrize("length", [1, 70])
@pytest.mark.parametrize("which", LAYERS)
@torch.no_grad()
def test_the_whole_in_code_is_the_layer(which, length):
    torch.manual_seed(0)
    page, name, sizes, make, names = LAYERS[which]
    module, own = make(*sizes), Page(page).made[name](*sizes)
    own.load_state_dict(weights_of(module, names))
    x, state = torch.randn(length, 2, sizes[0]), torch.rand(2, 2, sizes[1]) - 0.5
    if which == "gru":
        y, last = module(x, state[:1])
        found, expected = own(x, state[0]), (y, last[0])
    elif which == "lstm":
        y, last = module(x, (state[:1], state[1:]))
        found, expected = own(x, *state), (y, *(part[0] for part in last))
    elif which == "linear_attention":
        found, expected = own(x), module(x)[0]
    else:
        found, expected = own(x[:, 0]), module(x[:, :1])[0][:, 0]
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def test_the_network_of_elmans_page_is_the_layer():
    V, C, N = 11, 5, 6
    network, layer = Page(elman).made["RNN"](V, C, N), ElmanLayer(C, N)
    layer.cell.input.load_state_dict(network.W.state_dict())
    layer.cell.recurrent.load_state_dict(network.U.state_dict())
    tokens, h = torch.randint(V, (7, 3)), torch.rand(3, N) - 0.5
    states, last = layer(network.embedding(tokens), h)
    torch.testing.assert_close(network(tokens, h), (network.R(states), last), atol=1e-6, rtol=0)
