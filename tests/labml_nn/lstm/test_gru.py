"""What is the GRU's own; what it shares with others is tested for all recurrent layers."""

import torch

from labml_nn.lstm.gru import GRU, GRUCell

B, C, N, L = 3, 5, 4, 2


def test_update_gates_begin_open():
    bias = GRUCell(C, N).hidden_lin.bias.view(3, N)
    assert (bias[1] == 1).all() and (bias[[0, 2]].abs() < 1).all()


def test_a_state_lies_between_the_old_one_and_the_candidate():
    with torch.no_grad():
        states, _ = GRU(C, N, L)(1000 * torch.randn(50, B, C))
    assert states.abs().max() <= 1
