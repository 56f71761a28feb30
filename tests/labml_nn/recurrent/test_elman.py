"""The Elman network: steps by hand, states, padding, gradients, layers; and `torch.nn.RNN`."""

import math

import pytest
import torch
from torch import nn

from labml_nn import kernels
from labml_nn.recurrent.elman import Elman, ElmanCell, ElmanLayer

# Pairwise distinct, so that a swapped axis fails.
T, B, C, N, L = 5, 2, 12, 7, 3
NONLINEARITIES = pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid", "relu"])


@pytest.fixture(autouse=True, params=["reference", "kernels"])
def form(request):
    """Every statement holds for the page itself and with kernels."""
    torch.manual_seed(0)
    if request.param == "kernels":
        yield
    else:
        with kernels.disabled():
            yield


def randomised(module):
    """In double precision, with numbers wherever a new module has zeros."""
    module.double()
    for tensor in [*module.parameters(), *module.buffers()]:
        tensor.data.add_(torch.randn_like(tensor) / 4)
    return module


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(nonlinearity="tanh"):
    """Two units, one input: W = [1, -2], U = [[0.5, 1], [-1, 0]], b = [0.25, 0]."""
    layer = ElmanLayer(1, 2, nonlinearity=nonlinearity)
    with torch.no_grad():
        layer.cell.input.weight.copy_(torch.tensor([[1.0], [-2.0]]))
        layer.cell.input.bias.copy_(torch.tensor([0.25, 0.0]))
        layer.cell.recurrent.weight.copy_(torch.tensor([[0.5, 1.0], [-1.0, 0.0]]))
    return layer


def test_two_steps_by_hand():
    states, last = by_hand()(torch.tensor([3.0, 1.0]).view(2, 1, 1))
    first = [math.tanh(3 + 0.25), math.tanh(-6)]
    second = [math.tanh(1 + 0.25 + 0.5 * first[0] + first[1]), math.tanh(-2 - first[0])]
    torch.testing.assert_close(states, torch.tensor([[first], [second]]))
    assert torch.equal(last, states[-1])


def test_sigmoid_and_relu_by_hand():
    states, _ = by_hand("sigmoid")(torch.tensor([3.0]).view(1, 1, 1))
    expected = [[[1 / (1 + math.exp(-3.25)), 1 / (1 + math.exp(6))]]]
    torch.testing.assert_close(states, torch.tensor(expected))
    states, _ = by_hand("relu")(torch.tensor([3.0, -1.0]).view(2, 1, 1))
    assert states.tolist() == [[[3.25, 0.0]], [[0.875, 0.0]]]


def test_initialisation():
    """U is orthogonal, h_0 is zero and no parameter unless it is learned."""
    layer = ElmanLayer(C, N)
    u = layer.cell.recurrent.weight
    torch.testing.assert_close(u @ u.T, torch.eye(N))
    assert set(dict(layer.named_parameters())) == {
        *("cell.input.weight", "cell.input.bias", "cell.recurrent.weight")
    }
    assert layer.h_0.tolist() == [0.0] * N
    assert "h_0" in layer.state_dict()
    assert not any("h_0" in name for name, _ in Elman(C, N, L).named_parameters())
    assert ElmanLayer(C, N, bias=False).cell.input.bias is None
    assert ElmanCell(C, N).input.bias is not None
    learned = Elman(C, N, L, learn_h_0=True)
    learned(torch.randn(T, B, C))[0].sum().backward()
    assert all(layer.h_0.grad.abs().max() > 0 for layer in learned.layers)


def test_layers_are_of_fitting_sizes_and_start_differently():
    network = Elman(C, N, L)
    assert [layer.cell.input.in_features for layer in network.layers] == [C, N, N]
    second, third = network.layers[1], network.layers[2]
    assert not torch.equal(second.cell.input.weight, third.cell.input.weight)
    assert not torch.equal(second.cell.recurrent.weight, third.cell.recurrent.weight)


def test_each_layer_reads_the_states_of_the_one_below():
    network, x = randomised(Elman(C, N, L)), random(T, B, C)
    mask = torch.rand(T, B) > 0.4
    state = random(L, B, N)
    states, last = network(x, state, mask)
    final = []
    for i, layer in enumerate(network.layers):
        x, end = layer(x, state[i], mask)
        final.append(end)
    torch.testing.assert_close(states, x)
    torch.testing.assert_close(last, torch.stack(final))


def test_without_a_state_it_starts_from_h_0():
    network, x = randomised(Elman(C, N, L)), random(T, B, C)
    assert network.initial(B).shape == (L, B, N)
    torch.testing.assert_close(network(x, network.initial(B)), network(x))
    assert torch.equal(network.initial(B)[1, 1], network.layers[1].h_0)


def test_a_sequence_in_chunks():
    network, x = randomised(Elman(C, N, L)), random(9, B, C)
    mask = torch.rand(9, B) > 0.3
    whole, end = network(x, None, mask)
    for cut in range(1, 9):
        first, state = network(x[:cut], None, mask[:cut])
        second, last = network(x[cut:], state, mask[cut:])
        torch.testing.assert_close(torch.cat([first, second]), whole)
        torch.testing.assert_close(last, end)


@NONLINEARITIES
def test_padding_leaves_no_trace(nonlinearity):
    """At the beginning, in the middle and at the end, in states, outputs and gradients."""
    layer = randomised(ElmanLayer(C, N, nonlinearity=nonlinearity))
    tokens = random(3, 1, C).requires_grad_()
    expected, end = layer(tokens)
    mask = torch.tensor([False, True, False, True, True, False, False])[:, None]
    x = (random(7, 1, C) * 1e6).masked_scatter(mask[..., None].expand(-1, -1, C), tokens)
    states, last = layer(x, None, mask)
    torch.testing.assert_close(states[mask[:, 0]], expected)
    torch.testing.assert_close(last, end)
    torch.testing.assert_close(states[0, 0], layer.h_0)
    torch.testing.assert_close(states[2], states[1])
    leaves = [tokens, *layer.cell.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(states[mask[:, 0]].square().sum(), leaves),
        torch.autograd.grad(expected.square().sum(), leaves),
    )


def test_gradients_reach_through_states_until_they_are_detached():
    network, x = randomised(Elman(C, N, L)), random(2 * T, B, C).requires_grad_()
    _, state = network(x[:T])
    (gradient,) = torch.autograd.grad(network(x[T:], state)[0].sum(), x, retain_graph=True)
    (expected,) = torch.autograd.grad(network(x)[0][T:].sum(), x)
    torch.testing.assert_close(gradient, expected)
    assert (gradient[:T].abs().amax(-1) > 0).all()
    (cut,) = torch.autograd.grad(network(x[T:], state.detach())[0].sum(), x)
    assert cut[:T].abs().max() == 0


@NONLINEARITIES
def test_gradients_of_gradients(nonlinearity):
    layer = randomised(ElmanLayer(2, 3, nonlinearity=nonlinearity, learn_h_0=True))
    mask = torch.tensor([[True, False], [True, True], [False, True], [True, True]])
    x = random(4, B, 2).requires_grad_()
    leaves = [x, *layer.parameters()]
    grads = torch.autograd.grad(layer(x, None, mask)[0].square().sum(), leaves, create_graph=True)
    again = torch.autograd.grad(sum(grad.square().sum() for grad in grads), leaves)
    with kernels.disabled():
        loss = layer(x, None, mask)[0].square().sum()
        expected = torch.autograd.grad(loss, leaves, create_graph=True)
        twice = torch.autograd.grad(sum(grad.square().sum() for grad in expected), leaves)
    torch.testing.assert_close((grads, again), (expected, twice))


def test_dropout_is_between_layers_and_in_training_only():
    network, x = randomised(Elman(C, N, L, dropout_prob=0.5)), random(T, B, C)
    states, last = network(x)
    other, last_again = network(x)
    assert torch.equal(last[0], last_again[0])
    assert not torch.equal(last[1], last_again[1])
    assert not torch.equal(states, other)
    assert (states != 0).all()
    network.eval()
    assert torch.equal(network(x)[0], network(x)[0])
    assert Elman(C, N).dropout.p == 0
    single = randomised(Elman(C, N, dropout_prob=0.5))
    assert torch.equal(single(x)[0], single(x)[0])


# In use.


@pytest.mark.parametrize("masked", [False, True])
def test_autocast(masked):
    network, x = Elman(C, N, L), torch.randn(T, B, C, requires_grad=True)
    mask = torch.rand(T, B) > 0.3 if masked else torch.ones(T, B, dtype=torch.bool)
    expected, _ = network(x, None, mask)
    with torch.autocast("cpu", torch.bfloat16):
        first, state = network(x[:2], None, mask[:2] if masked else None)
        second, _ = network(x[2:], state, mask[2:] if masked else None)
    assert first.dtype == second.dtype == torch.bfloat16
    got = torch.cat([first, second]).float()
    torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1)
    got.sum().backward()
    assert x.grad.isfinite().all()


# torch.nn.RNN.


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torch(nonlinearity, bias, dtype, tolerance):
    """Outputs, and gradients of inputs, first states and all parameters."""
    theirs = nn.RNN(C, N, L, nonlinearity=nonlinearity, bias=bias, dtype=dtype)
    ours = Elman(C, N, L, nonlinearity=nonlinearity, bias=bias).to(dtype)
    weights, pairs = theirs.state_dict(), []
    for i, layer in enumerate(ours.layers):
        cell = layer.cell
        cell.input.weight.data.copy_(weights[f"weight_ih_l{i}"])
        cell.recurrent.weight.data.copy_(weights[f"weight_hh_l{i}"])
        pairs.append((cell.input.weight, getattr(theirs, f"weight_ih_l{i}")))
        pairs.append((cell.recurrent.weight, getattr(theirs, f"weight_hh_l{i}")))
        if bias:
            cell.input.bias.data.copy_(weights[f"bias_ih_l{i}"] + weights[f"bias_hh_l{i}"])
            pairs.append((cell.input.bias, getattr(theirs, f"bias_ih_l{i}")))
    results = []
    for network in (ours, theirs):
        torch.manual_seed(1)
        x = torch.randn(T, B, C, dtype=dtype, requires_grad=True)
        h = torch.randn(L, B, N, dtype=dtype, requires_grad=True)
        states, last = network(x, h)
        (states.square().sum() + last.sum()).backward()
        results.append([states, last, x.grad, h.grad])
    results = [*zip(*results, strict=True), *((a.grad, b.grad) for a, b in pairs)]
    for mine, other in results:
        assert mine.abs().max() > 0
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


# Errors at the constructors.
