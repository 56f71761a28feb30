"""The LSTM beside PyTorch's, its states, padding, and errors."""

import pytest
import torch
from torch import nn

from labml_nn.lstm import LSTM, LSTMCell, LSTMState

T, B, C, N, L = 7, 3, 5, 4, 2


def pair(dropout=0.0):
    """Ours and PyTorch's with the same weights, in double precision."""
    torch.manual_seed(0)
    theirs = nn.LSTM(C, N, L, dropout=dropout).double()
    ours = LSTM(C, N, L, dropout_prob=dropout).double()
    with torch.no_grad():
        for i, cell in enumerate(ours.cells):
            weights = [getattr(theirs, f"{name}_l{i}") for name in ("weight_ih", "weight_hh")]
            biases = [getattr(theirs, f"{name}_l{i}") for name in ("bias_ih", "bias_hh")]
            cell.input_lin.weight.copy_(weights[0])
            cell.hidden_lin.weight.copy_(weights[1])
            cell.hidden_lin.bias.copy_(sum(biases))
    return ours, theirs


def some(*sizes):
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize("with_state", [False, True])
def test_equals_pytorch(with_state):
    ours, theirs = pair()
    x = some(T, B, C)
    state = (some(L, B, N), some(L, B, N)) if with_state else None
    inputs = [x, *(state or ())]

    def run(module):
        output, (h, c) = module(x, state)
        weighted = sum((part * part.detach().sin()).sum() for part in (output, h, c))
        module.zero_grad()
        return (output, h, c, *torch.autograd.grad(weighted, inputs, retain_graph=True)), weighted

    (mine, loss), (expected, other) = run(ours), run(theirs)
    torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)
    loss.backward()
    other.backward()
    for i, cell in enumerate(ours.cells):
        for parameter, name in (
            (cell.input_lin.weight, "weight_ih"),
            (cell.hidden_lin.weight, "weight_hh"),
            (cell.hidden_lin.bias, "bias_hh"),
        ):
            torch.testing.assert_close(parameter.grad, getattr(theirs, f"{name}_l{i}").grad)


def test_one_step_is_the_cell_of_pytorch():
    ours, _ = pair()
    cell, theirs = ours.cells[0], nn.LSTMCell(C, N).double()
    with torch.no_grad():
        theirs.weight_ih.copy_(cell.input_lin.weight)
        theirs.weight_hh.copy_(cell.hidden_lin.weight)
        theirs.bias_hh.copy_(cell.hidden_lin.bias)
        theirs.bias_ih.zero_()
    x, h, c = some(B, C), some(B, N), some(B, N)
    torch.testing.assert_close(cell(x, h, c), theirs(x, (h, c)))


def test_chunks_give_what_the_whole_gives():
    lstm, x = LSTM(C, N, L).double(), some(T, B, C)
    whole, last = lstm(x)
    first, state = lstm(x[:3])
    second, end = lstm(x[3:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(tuple(end), tuple(last))
    assert isinstance(end, LSTMState) and end.batch_size == B
    assert not any(part.requires_grad for part in end.detach())


def test_padding_changes_no_state():
    lstm, x = LSTM(C, N, L).double(), some(T, B, C)
    mask = torch.ones(T, B, dtype=torch.bool)
    mask[4:, 1] = mask[:2, 2] = False
    output, (h, c) = lstm(x, None, mask)
    for column, steps in ((1, slice(0, 4)), (2, slice(2, T))):
        alone, (h_alone, c_alone) = lstm(x[steps, column : column + 1])
        torch.testing.assert_close(output[steps, column], alone[:, 0])
        torch.testing.assert_close(h[:, column], h_alone[:, 0])
        torch.testing.assert_close(c[:, column], c_alone[:, 0])


def test_forget_gates_begin_open():
    cell = LSTMCell(C, N)
    bias = cell.hidden_lin.bias.view(4, N)
    assert (bias[1] == 1).all() and (bias[[0, 2, 3]].abs() < 1).all()


def test_layer_norm_keeps_gates_where_they_are_when_inputs_grow():
    torch.manual_seed(0)
    normed, plain = (LSTM(C, N, 1, layer_norm=norm) for norm in (True, False))
    x, far = torch.randn(T, B, C), 1000.0
    saturated = plain(far * x)[1].c.abs()
    assert normed(far * x)[1].c.abs().max() < saturated.max()


def test_dropout_acts_between_layers_and_in_training_only():
    torch.manual_seed(0)
    lstm, x = LSTM(C, N, L, dropout_prob=0.5), torch.randn(T, B, C)
    assert not torch.equal(lstm(x)[0], lstm(x)[0])
    lstm.eval()
    assert torch.equal(lstm(x)[0], lstm(x)[0])
    single = LSTM(C, N, 1, dropout_prob=0.5)
    assert torch.equal(single(x)[0], single(x)[0])


@pytest.mark.parametrize(
    ("x", "state", "said"),
    [
        ((T, C), None, r"\[7, 5\]; expected \[T, B, C\].*x\[:, None\]"),
        ((0, B, C), None, "at least one step"),
        ((T, B, C), ((L, B, N), (L, 1, N)), r"\[2, 1, 4\]; expected \[2, 3, 4\]"),
        ((T, B, C), ((B, N), (B, N)), r"\[3, 4\]; expected \[2, 3, 4\]"),
    ],
)
def test_wrong_shapes_are_explained(unhooked, x, state, said):
    """Of the classes without shape checks of the test suite, as users import them."""
    state = state and tuple(torch.zeros(*sizes) for sizes in state)
    with pytest.raises(ValueError, match=said):
        unhooked("labml_nn.lstm").LSTM(C, N, L)(torch.zeros(*x), state)


def test_a_hidden_state_alone_is_no_state(unhooked):
    with pytest.raises(ValueError, match=r"`state` has shape \[3, 4\]"):
        unhooked("labml_nn.lstm").LSTM(C, N, L)(torch.zeros(T, B, C), torch.zeros(L, B, N))
