"""Elman network, LSTM and GRU equal those of PyTorch: outputs, states, gradients of everything.

Kernels are compared with the reference in `test_kernels.py`.
"""

import pytest
import torch
from torch import nn

from labml_nn import kernels
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.elman import Elman

T, B, C, N, L = 7, 3, 5, 4, 2
#: Our parameter, and those of PyTorch whose sum it is.
OF_ELMAN = {
    "layers.{}.cell.input.weight": ["weight_ih"],
    "layers.{}.cell.recurrent.weight": ["weight_hh"],
    "layers.{}.cell.input.bias": ["bias_ih", "bias_hh"],
}
OF_LSTM = {
    "cells.{}.input_lin.weight": ["weight_ih"],
    "cells.{}.hidden_lin.weight": ["weight_hh"],
    "cells.{}.hidden_lin.bias": ["bias_ih", "bias_hh"],
}
OF_GRU = {
    "cells.{}.input_lin.weight": ["weight_ih"],
    "cells.{}.hidden_lin.weight": ["weight_hh"],
    "cells.{}.input_lin.bias": ["bias_ih"],
    "cells.{}.hidden_lin.bias": ["bias_hh"],
}
NETWORKS = {
    "tanh": (Elman, nn.RNN, OF_ELMAN, {"nonlinearity": "tanh"}),
    "relu": (Elman, nn.RNN, OF_ELMAN, {"nonlinearity": "relu"}),
    "no bias": (Elman, nn.RNN, OF_ELMAN, {"bias": False}),
    "lstm": (LSTM, nn.LSTM, OF_LSTM, {}),
    "gru": (GRU, nn.GRU, OF_GRU, {}),
}


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", NETWORKS)
@kernels.disabled()
def test_equals_pytorch(name, dtype, tolerance, with_state):
    torch.manual_seed(0)
    our_kind, their_kind, names, options = NETWORKS[name]
    ours, theirs = (kind(C, N, L, **options).to(dtype) for kind in (our_kind, their_kind))
    pairs = []
    for i in range(L):
        for mine, summed in names.items():
            others = [getattr(theirs, f"{other}_l{i}", None) for other in summed]
            if all(other is not None for other in others):
                pairs.append((ours.get_parameter(mine.format(i)), others))
    with torch.no_grad():
        for parameter, others in pairs:
            parameter.copy_(sum(others))
    assert len(pairs) == len([*ours.parameters()])

    x = torch.randn(T, B, C, dtype=dtype, requires_grad=True)
    parts = [torch.randn(L, B, N, dtype=dtype, requires_grad=True) for _ in range(2)]
    parts = parts[: (2 if name == "lstm" else 1) if with_state else 0]
    state = None if not parts else tuple(parts) if name == "lstm" else parts[0]
    inputs, results = [x, *parts], []
    for network in (ours, theirs):
        y, last = network(x, state)
        found = [y, *(last if name == "lstm" else [last])]
        loss = sum((part * part.detach().sin()).sum() for part in found)
        gradients = torch.autograd.grad(loss, inputs, retain_graph=True)
        loss.backward(inputs=[*network.parameters()])
        results.append([*found, *gradients])
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)
    for parameter, others in pairs:
        assert parameter.grad.any()
        torch.testing.assert_close(parameter.grad, others[-1].grad, rtol=tolerance, atol=tolerance)
