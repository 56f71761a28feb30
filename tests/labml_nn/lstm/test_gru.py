"""The GRU beside PyTorch's, its chunks, padding and errors."""

import pytest
import torch
from torch import nn

from labml_nn.lstm.gru import GRU, GRUCell

T, B, C, N, L = 7, 3, 5, 4, 2
PARAMETERS = {
    "input_lin.weight": "weight_ih",
    "hidden_lin.weight": "weight_hh",
    "input_lin.bias": "bias_ih",
    "hidden_lin.bias": "bias_hh",
}


def pair():
    """Ours and PyTorch's with the same weights, in double precision."""
    torch.manual_seed(0)
    theirs, ours = nn.GRU(C, N, L).double(), GRU(C, N, L).double()
    with torch.no_grad():
        for i, cell in enumerate(ours.cells):
            for mine, name in PARAMETERS.items():
                cell.get_parameter(mine).copy_(getattr(theirs, f"{name}_l{i}"))
    return ours, theirs


def some(*sizes):
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize("with_state", [False, True])
def test_equals_pytorch(with_state):
    ours, theirs = pair()
    x, state = some(T, B, C), some(L, B, N) if with_state else None
    inputs = [x] if state is None else [x, state]

    def run(module):
        output, last = module(x, state)
        loss = (output * output.detach().sin()).sum() + (last * last.detach().cos()).sum()
        return output, last, *torch.autograd.grad(loss, [*inputs, *module.parameters()])

    found, expected = run(ours), run(theirs)
    torch.testing.assert_close(found[: 2 + len(inputs)], expected[: 2 + len(inputs)])
    gradients = dict(zip(dict(ours.named_parameters()), found[2 + len(inputs) :], strict=True))
    wanted = dict(zip(dict(theirs.named_parameters()), expected[2 + len(inputs) :], strict=True))
    for i in range(L):
        for mine, name in PARAMETERS.items():
            torch.testing.assert_close(gradients[f"cells.{i}.{mine}"], wanted[f"{name}_l{i}"])


def test_one_step_is_the_cell_of_pytorch():
    ours, _ = pair()
    cell, theirs = ours.cells[0], nn.GRUCell(C, N).double()
    with torch.no_grad():
        for mine, name in PARAMETERS.items():
            getattr(theirs, name).copy_(cell.get_parameter(mine))
    x, h = some(B, C), some(B, N)
    torch.testing.assert_close(cell(x, h), theirs(x, h))


def test_chunks_give_what_the_whole_gives():
    gru, x = GRU(C, N, L).double(), some(T, B, C)
    whole, last = gru(x)
    first, state = gru(x[:3])
    second, end = gru(x[3:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(end, last)


def test_padding_changes_no_state():
    gru, x = GRU(C, N, L).double(), some(T, B, C)
    mask = torch.ones(T, B, dtype=torch.bool)
    mask[4:, 1] = mask[:2, 2] = False
    output, last = gru(x, None, mask)
    for column, steps in ((1, slice(0, 4)), (2, slice(2, T))):
        alone, state = gru(x[steps, column : column + 1])
        torch.testing.assert_close(output[steps, column], alone[:, 0])
        torch.testing.assert_close(last[:, column], state[:, 0])


def test_update_gates_begin_open():
    bias = GRUCell(C, N).hidden_lin.bias.view(3, N)
    assert (bias[1] == 1).all() and (bias[[0, 2]].abs() < 1).all()


def test_a_state_lies_between_the_old_one_and_the_candidate():
    gru = GRU(C, N, L).double()
    with torch.no_grad():
        states, _ = gru(1000 * some(50, B, C))
    assert states.abs().max() <= 1


def test_dropout_acts_between_layers_and_in_training_only():
    torch.manual_seed(0)
    gru, x = GRU(C, N, L, dropout_prob=0.5), torch.randn(T, B, C)
    assert not torch.equal(gru(x)[0], gru(x)[0])
    gru.eval()
    assert torch.equal(gru(x)[0], gru(x)[0])
    single = GRU(C, N, 1, dropout_prob=0.5)
    assert torch.equal(single(x)[0], single(x)[0])


@pytest.mark.parametrize(
    ("x", "state", "said"),
    [
        ((T, C), None, r"\[7, 5\]; expected \[T, B, C\].*x\[:, None\]"),
        ((T, B, C), (L, 1, N), r"\[2, 1, 4\]; expected \[2, 3, 4\]"),
        ((T, B, C), (B, N), r"\[3, 4\]; expected \[2, 3, 4\]"),
    ],
)
def test_wrong_shapes_are_explained(unhooked, x, state, said):
    """Of the classes without shape checks of the test suite, as users import them."""
    state = state and torch.zeros(*state)
    with pytest.raises(ValueError, match=said):
        unhooked("labml_nn.lstm.gru").GRU(C, N, L)(torch.zeros(*x), state)
