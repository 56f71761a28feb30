"""Elman layers on top of each other."""

import copy
import pickle

import pytest
import torch
from elman_tools import COMPILED, B, C, L, N, T, network, random, some_mask

from labml_nn.recurrent.elman import Elman

MODULE = "labml_nn.recurrent.elman"
MASKED = pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])


@MASKED
def test_each_layer_reads_the_states_of_the_one_below(masked):
    module, x, mask = network(), random(T, B, C), some_mask() if masked else None
    states, last = module(x, None, mask)
    ends, expected = [], x
    for layer in module.layers:
        expected, end = layer(expected, None, mask)
        ends.append(end)
    torch.testing.assert_close(states, expected)
    torch.testing.assert_close(last, torch.stack(ends))
    assert last.shape == (L, B, N)


def test_layers_are_of_fitting_widths_and_begin_differently():
    module = Elman(C, N, L)
    assert [layer.cell.input.in_features for layer in module.layers] == [C, N, N]
    second, third = module.layers[1], module.layers[2]
    assert not torch.equal(second.cell.input.weight, third.cell.input.weight)
    assert not torch.equal(second.cell.recurrent.weight, third.cell.recurrent.weight)


def test_the_state_before_the_first_step():
    module, x = network(), random(T, B, C)
    assert module.initial(B).shape == (L, B, N)
    torch.testing.assert_close(module(x, module.initial(B)), module(x))
    assert torch.equal(module.initial(B)[1, 1], module.layers[1].h_0)


@MASKED
def test_a_sequence_in_pieces(masked):
    module, x = network(), random(9, B, C)
    mask = some_mask(9) if masked else torch.ones(9, B, dtype=torch.bool)
    whole, end = module(x, None, mask)
    for cut in range(1, 9):
        first, state = module(x[:cut], None, mask[:cut])
        second, last = module(x[cut:], state, mask[cut:])
        torch.testing.assert_close(torch.cat([first, second]), whole)
        torch.testing.assert_close(last, end)


def test_gradients_go_back_through_states_and_layers():
    module, x = network(), random(T, B, C).requires_grad_()
    _, state = module(x)
    module(random(1, B, C), state)[0].sum().backward()
    assert (x.grad.abs().amax(-1) > 0).all()


def test_padding_below_padding_above():
    module, tokens = network(), random(3, 1, C)
    expected, end = module(tokens)
    for first in range(4):
        mask = torch.zeros(6, 1, dtype=torch.bool)
        mask[first : first + 3] = True
        x = torch.full((6, 1, C), 1e3, dtype=torch.float64)
        x[first : first + 3] = tokens
        states, last = module(x, None, mask)
        torch.testing.assert_close(states[first : first + 3], expected)
        torch.testing.assert_close(last, end)


def test_dropout_between_layers_in_training_only():
    module, x = network(dropout_prob=0.5), random(T, B, C)
    torch.manual_seed(0)
    states, last = module(x)
    again, last_again = module(x)
    # Nothing is dropped below the lowest layer, nor after the highest.
    assert torch.equal(last[0], last_again[0])
    assert not torch.equal(last[1], last_again[1])
    assert not torch.equal(states, again)
    assert (states != 0).all()
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])
    without = network()
    torch.testing.assert_close(module(x)[0], without(x)[0])
    alone = network(n_layers=1, dropout_prob=0.5)
    assert torch.equal(alone(x)[0], alone(x)[0])


def test_what_dropout_would_do_to_a_memory():
    """The number in the note."""
    assert 0.9**44 < 0.01 < 0.9**43


def test_h_0_is_learned_in_every_layer():
    module = Elman(C, N, L, learn_h_0=True)
    module(torch.randn(T, B, C))[0].sum().backward()
    for layer in module.layers:
        assert layer.h_0.grad.abs().max() > 0


def test_copies_pickles_and_devices_without_numbers():
    module, x = network(), random(T, B, C)
    expected, _ = module(x)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(copied(x)[0], expected)
    with torch.device("meta"):
        shadow = Elman(C, N, L)
        states, last = shadow(torch.empty(T, B, C))
    assert states.is_meta
    assert (states.shape, last.shape) == ((T, B, N), (L, B, N))


def test_inference_mode_and_on():
    module, x = network(), random(T, B, C)
    with torch.inference_mode():
        _, state = module(x[:3])
    with torch.no_grad():
        torch.testing.assert_close(module(x[3:], state)[0], module(x)[0][3:])


@COMPILED
@MASKED
def test_compiled_in_one_graph(unhooked, masked):
    module, x = network(unhooked(MODULE)), random(T, B, C)
    mask = some_mask() if masked else None
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    got, expected = compiled(x, module.initial(B), mask), module(x, None, mask)
    torch.testing.assert_close(got, expected)
    parameters = list(module.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(got[0].square().sum(), parameters),
        torch.autograd.grad(expected[0].square().sum(), parameters),
    )


@COMPILED
def test_exported_for_any_length(unhooked):
    module = network(unhooked(MODULE))
    x, state = random(T, B, C), random(L, B, N, seed=1)
    steps = torch.export.Dim("steps", min=2)
    exported = torch.export.export(module, (x, state), dynamic_shapes=({0: steps}, None))
    for length in (T, 9):
        x = random(length, B, C, seed=2)
        torch.testing.assert_close(exported.module()(x, state), module(x, state))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((C, N, 0), ValueError, r"`n_layers` \(0\) must be at least 1"),
        ((0, N, 1), ValueError, r"`d_model` \(0\) must be at least 1"),
        ((C, N, 1, 1.5), ValueError, r"`dropout_prob` \(1.5\) must be from 0 to 1"),
    ],
)
def test_impossible_networks(arguments, error, message):
    with pytest.raises(error, match=message):
        Elman(*arguments)


def test_states_of_others(unhooked):
    module = network(unhooked(MODULE)).float()
    x = torch.zeros(T, B, C)
    expected = r"expected \[L, B, N\] \(layers, batch, units\), here \[3, 2, 7\]: give a state back"
    for shape in ((L, 1, N), (L - 1, B, N), (B, N)):
        with pytest.raises(ValueError, match=expected):
            module(x, torch.zeros(shape))
    with pytest.raises(TypeError, match=r"`state` has dtype torch.float64"):
        module(x, torch.zeros(L, B, N).double())
    with pytest.raises(ValueError, match=r"`x` has shape \[5, 2\]"):
        module(x[..., 0])
