"""What is the LSTM's own; what it shares with others is tested for all recurrent layers."""

import pytest
import torch

from labml_nn.lstm import LSTM, LSTMCell

T, B, C, N, L = 7, 3, 5, 4, 2


def test_forget_gates_begin_open():
    bias = LSTMCell(C, N).hidden_lin.bias.view(4, N)
    assert (bias[1] == 1).all() and (bias[[0, 2, 3]].abs() < 1).all()


def test_layer_norm_keeps_gates_where_they_are_when_inputs_grow():
    torch.manual_seed(0)
    normed, plain = (LSTM(C, N, 1, layer_norm=norm) for norm in (True, False))
    x, far = torch.randn(T, B, C), 1000.0
    saturated = plain(far * x)[1].c.abs()
    assert normed(far * x)[1].c.abs().max() < saturated.max()


def test_a_state_knows_its_batch_and_can_be_detached():
    _, state = LSTM(C, N, L)(torch.randn(T, B, C))
    assert state.batch_size == B
    assert not any(part.requires_grad for part in state.detach())


def test_a_hidden_state_alone_is_no_state(unhooked):
    with pytest.raises(ValueError, match=r"`state` has shape \[3, 4\]"):
        unhooked("labml_nn.lstm").LSTM(C, N, L)(torch.zeros(T, B, C), torch.zeros(L, B, N))
