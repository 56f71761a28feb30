"""Elman networks against `torch.nn.RNN`, with its weights in ours and ours in it."""

import pytest
import torch
from torch import nn

from labml_nn.recurrent.elman import Elman, ElmanCell
from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn, to_torch_rnn

T, B, C, N, L = 6, 2, 5, 7, 3

precise = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)]
)
units = pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
biases = pytest.mark.parametrize("bias", [True, False])
layers = pytest.mark.parametrize("n_layers", [1, L])
forms = pytest.mark.parametrize("readable", [True, False], ids=["loop", "fast"])


def gradients_of_both(ours, theirs):
    """Pairs of gradients that must be the same; each bias of PyTorch has that of our one."""
    for number, layer in enumerate(ours.layers):
        cell = layer.cell
        yield cell.input.weight.grad, getattr(theirs, f"weight_ih_l{number}").grad
        yield cell.recurrent.weight.grad, getattr(theirs, f"weight_hh_l{number}").grad
        if cell.input.bias is not None:
            yield cell.input.bias.grad, getattr(theirs, f"bias_ih_l{number}").grad
            yield cell.input.bias.grad, getattr(theirs, f"bias_hh_l{number}").grad


def assert_same(ours, theirs, dtype, tolerance):
    """Outputs, last states, and the gradients of inputs, first states and all parameters."""
    generator = torch.Generator().manual_seed(0)
    n_layers = len(ours.layers)
    inputs = [
        torch.randn(shape, generator=generator, dtype=dtype)
        for shape in ((T, B, C), (n_layers, B, N))
    ]
    weights = [
        torch.randn(shape, generator=generator, dtype=dtype)
        for shape in ((T, B, N), (n_layers, B, N))
    ]
    results = []
    for network in (ours, theirs):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        outputs = network(*leaves)
        sum((o * w).sum() for o, w in zip(outputs, weights, strict=True)).backward()
        results.append([*outputs, *(leaf.grad for leaf in leaves)])
    pairs = [*zip(*results, strict=True), *gradients_of_both(ours, theirs)]
    assert len(pairs) == 4 + len(list(theirs.parameters()))
    for mine, other in pairs:
        assert mine.abs().max() > 0
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@precise
@units
@biases
@layers
@forms
def test_from_torch(dtype, tolerance, nonlinearity, bias, n_layers, readable):
    torch.manual_seed(0)
    theirs = nn.RNN(C, N, n_layers, nonlinearity=nonlinearity, bias=bias, dtype=dtype)
    ours = from_torch_rnn(theirs)
    for layer in ours.layers:
        layer.readable = readable
    assert_same(ours, theirs, dtype, tolerance)


@precise
@units
@biases
@layers
def test_to_torch(dtype, tolerance, nonlinearity, bias, n_layers):
    torch.manual_seed(0)
    ours = Elman(C, N, n_layers, nonlinearity=nonlinearity, bias=bias).to(dtype)
    assert_same(ours, to_torch_rnn(ours), dtype, tolerance)


def test_without_a_state_both_begin_at_zero():
    theirs = nn.RNN(C, N, L)
    x = torch.randn(T, B, C)
    torch.testing.assert_close(from_torch_rnn(theirs)(x), theirs(x))


def test_a_learned_beginning_goes_along():
    ours = Elman(C, N, L, learn_h_0=True)
    with torch.no_grad():
        for layer in ours.layers:
            nn.init.normal_(layer.h_0)
    x = torch.randn(T, B, C)
    torch.testing.assert_close(to_torch_rnn(ours)(x, ours.initial(B)), ours(x))


def test_there_and_back():
    theirs = nn.RNN(C, N, L, dropout=0.3, nonlinearity="relu", batch_first=True).double().eval()
    ours = from_torch_rnn(theirs)
    again = to_torch_rnn(ours)
    assert (ours.dropout.p, again.dropout) == (0.3, 0.3)
    assert not ours.training
    assert not again.training
    x = torch.randn(T, B, C).double()
    expected, _ = theirs(x.transpose(0, 1))
    torch.testing.assert_close(ours(x)[0], expected.transpose(0, 1))
    torch.testing.assert_close(again(x)[0], expected.transpose(0, 1))


def test_parameters_are_copies():
    theirs = nn.RNN(C, N)
    ours = from_torch_rnn(theirs)
    before = theirs.weight_ih_l0.detach().clone()
    with torch.no_grad():
        ours.layers[0].cell.input.weight.zero_()
    assert torch.equal(theirs.weight_ih_l0, before)
    again = to_torch_rnn(ours)
    with torch.no_grad():
        again.weight_hh_l0.zero_()
    assert ours.layers[0].cell.recurrent.weight.abs().max() > 0


def test_our_cell_is_the_cell_of_pytorch():
    theirs, ours = nn.RNNCell(C, N), ElmanCell(C, N)
    with torch.no_grad():
        ours.input.weight.copy_(theirs.weight_ih)
        ours.recurrent.weight.copy_(theirs.weight_hh)
        ours.input.bias.copy_(theirs.bias_ih + theirs.bias_hh)
    x, h = torch.randn(B, C), torch.randn(B, N)
    torch.testing.assert_close(ours(x, h), theirs(x, h), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 4, T])
def test_padding_is_a_packed_sequence(length):
    """PyTorch leaves padding out by sorting and packing; our mask gives the same."""
    theirs = nn.RNN(C, N, L)
    x, lengths = torch.randn(T, B, C), torch.tensor([T, length])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
    expected, end = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected)
    mask = torch.arange(T)[:, None] < lengths
    states, last = from_torch_rnn(theirs)(x, None, mask)
    torch.testing.assert_close(states * mask[..., None], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(last, end, rtol=1e-5, atol=1e-5)


def test_what_cannot_be_converted(unhooked):
    elman = unhooked("labml_nn.recurrent.elman")
    convert = unhooked("labml_nn.recurrent.elman.torch_rnn")
    with pytest.raises(TypeError, match=r"`rnn` is of type LSTM; expected torch\.nn\.RNN"):
        convert.from_torch_rnn(nn.LSTM(C, N))
    with pytest.raises(ValueError, match=r"bidirectional.*one for each \(exercise 3\)"):
        convert.from_torch_rnn(nn.RNN(C, N, bidirectional=True))
    with pytest.raises(ValueError, match=r"no 'sigmoid' units; known: tanh, relu.*exercises"):
        convert.to_torch_rnn(elman.Elman(C, N, nonlinearity="sigmoid"))
    network = elman.Elman(C, N)
    network.layers[0].cell = type("Other", (elman.ElmanCell,), {})(C, N)
    with pytest.raises(ValueError, match="a cell of `elman` was replaced"):
        convert.to_torch_rnn(network)
