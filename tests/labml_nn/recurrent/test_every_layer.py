"""The interface of recurrent layers: one set of tests for all of them, `layer(x, state, mask)`."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import labml_nn
from labml_nn import kernels
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.delta_net import DeltaNet
from labml_nn.recurrent.elman import Elman
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.recurrent.linear_attention import LinearAttention
from labml_nn.recurrent.mamba2 import Mamba2

# Pairwise distinct, so that a swapped axis fails.
T, B, C, N, L, H, D, DV = 9, 4, 12, 7, 2, 3, 5, 8
#: Layers whose state is vectors, in which padding may stand anywhere.
VECTORS = {
    "elman": lambda **options: Elman(C, N, L, **options),
    "elman-sigmoid": lambda: Elman(C, N, L, nonlinearity="sigmoid", learn_h_0=True),
    "lstm": lambda **options: LSTM(C, N, L, **options),
    "lstm-normalised": lambda: LSTM(C, N, L, layer_norm=True),
    "gru": lambda **options: GRU(C, N, L, **options),
}
VECTORS |= {f"{which}-kernels": VECTORS[which] for which in ("elman", "lstm", "gru")}
#: Layers whose state is a matrix, and the last tokens of a convolution.
MATRICES = {
    "linear_attention": lambda: LinearAttention(C, H),
    "linear_attention-alone": lambda: LinearAttention(C, H, conv=1),
    "delta_net": lambda: DeltaNet(C, H, d_k=D, d_v=DV),
    "delta_net-alone": lambda: DeltaNet(C, H, d_k=D, d_v=DV, conv=1),
    "delta_net-gated": lambda: GatedDeltaNet(C, H, d_k=D, d_v=DV),
    "mamba2": lambda: Mamba2(C, H, D, DV),
    "mamba2-groups": lambda: Mamba2(C, H, D, DV, groups=H, conv=3, bias=True),
}
LAYERS = VECTORS | MATRICES
#: Longer than a chunk of the layers that compute in chunks.
LONG = dict.fromkeys(VECTORS, T) | dict.fromkeys(MATRICES, 70)
every = pytest.mark.parametrize("which", LAYERS)
vectors = pytest.mark.parametrize("which", VECTORS)
matrices = pytest.mark.parametrize("which", MATRICES)
plain = pytest.mark.parametrize("which", ["elman", "lstm", "gru", "elman-kernels"])
few = settings(max_examples=6)


@pytest.fixture(autouse=True)
def form(request):
    """Without kernels, but where the name says otherwise."""
    which = request.node.callspec.params["which"] if hasattr(request.node, "callspec") else ""
    with nullcontext() if which.endswith("-kernels") else kernels.disabled():
        yield


def make(which):
    """In double precision, with numbers wherever a new layer has zeros."""
    torch.manual_seed(0)
    layer = LAYERS[which]().double()
    for tensor in [*layer.parameters(), *layer.buffers()]:
        tensor.data.add_(torch.randn_like(tensor) / 4)
    return layer


def random(*shape):
    return torch.randn(*shape, dtype=torch.double)


def tensors_of(state):
    return [state] if isinstance(state, Tensor) else [*state]


def test_every_recurrent_model_has_its_layer_here():
    modules = {name: entry.class_name for name, entry in labml_nn.models().items()}
    recurrent = {name for name, module in modules.items() if ".transformers." not in module}
    assert recurrent == {which.partition("-")[0] for which in LAYERS}


# States.
@every
@few
@given(data=st.data())
def test_calls_continue_each_other(which, data):
    layer, length = make(which), LONG[which]
    cuts = data.draw(st.sets(st.integers(1, length - 1), max_size=5))
    x, mask = random(length, B, C), None
    if which in VECTORS:
        mask = torch.rand(length, B) > 0.3
    whole, end = layer(x, None, mask)
    state, parts = None, []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), length], strict=True):
        y, state = layer(x[first:last], state, None if mask is None else mask[first:last])
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts), whole)
    torch.testing.assert_close(tensors_of(state), tensors_of(end))
    assert type(state) is type(end)


@every
def test_a_state_is_as_large_after_a_long_text_and_holds_no_other_memory(which):
    layer, sizes = make(which), []
    for length in (1, LONG[which]):
        with torch.no_grad():
            _, state = layer(random(length, B, C))
        sizes.append([part.shape for part in tensors_of(state)])
        if which in MATRICES:
            for part in tensors_of(state):
                assert part.untyped_storage().nbytes() == part.numel() * part.element_size()
    assert sizes[0] == sizes[1]


@every
def test_gradients_reach_through_states_until_they_are_detached(which):
    layer, x = make(which), random(2 * T, B, C).requires_grad_()
    _, state = layer(x[:T])
    weights = random(*layer(x[T:])[0].shape)

    def gradient(y):
        return torch.autograd.grad((y * weights).sum(), x, retain_graph=True)[0]

    found = gradient(layer(x[T:], state)[0])
    torch.testing.assert_close(found, gradient(layer(x)[0][T:]))
    assert (found[:T].abs().amax(-1) > 0).all()
    parts = [part.detach() for part in tensors_of(state)]
    detached = parts[0] if isinstance(state, Tensor) else type(state)(*parts)
    assert not gradient(layer(x[T:], detached)[0])[:T].any()


# Padding.
@every
def test_padding_writes_nothing_and_is_not_remembered(which):
    """Each sequence of a batch is read as if it were alone; one of them has nothing to read."""
    layer, lengths = make(which), [T, 2, 0, 5]
    before, x, after = random(3, B, C), random(T, B, C), random(2, B, C)
    mask = torch.arange(T)[:, None] < torch.tensor(lengths)
    _, state = layer(before)
    y, state = layer(x, state, mask)
    more, _ = layer(after, state)
    for b, length in enumerate(lengths):
        one = slice(b, b + 1)
        text = torch.cat([before[:, one], x[:length, one], after[:, one]])
        alone, _ = layer(text)
        torch.testing.assert_close(y[:length, one], alone[3 : 3 + length])
        torch.testing.assert_close(more[:, one], alone[-2:])


@vectors
def test_padding_anywhere_leaves_no_trace(which):
    """Before, between and behind tokens, in outputs, states and gradients, whatever it holds."""
    layer, tokens = make(which), random(3, 1, C).requires_grad_()
    expected, end = layer(tokens)
    mask = torch.tensor([False, True, False, True, True, False, False])[:, None]
    x = (random(7, 1, C) * 1e6).masked_scatter(mask[..., None].expand(-1, -1, C), tokens)
    y, last = layer(x, None, mask)
    torch.testing.assert_close(y[mask[:, 0]], expected)
    torch.testing.assert_close(tensors_of(last), tensors_of(end))
    torch.testing.assert_close(y[2], y[1])  # it passes on
    leaves = [tokens, *layer.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(y[mask[:, 0]].square().sum(), leaves),
        torch.autograd.grad(expected.square().sum(), leaves),
    )


# Dropout and precision.
@plain
def test_dropout_acts_between_layers_and_in_training_only(which):
    layer, x = VECTORS[which](dropout_prob=0.5), torch.randn(T, B, C)
    (y, state), (other, again) = layer(x), layer(x)
    below, below_again = (tensors_of(one)[0] for one in (state, again))
    assert torch.equal(below[0], below_again[0]) and not torch.equal(below[1], below_again[1])
    assert not torch.equal(y, other) and (y != 0).all()
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


@matrices
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_a_memory_in_single(which, half):
    layer, x = make(which).to(half), torch.randn(T, B, C).to(half)
    y, state = layer(x)
    assert y.dtype == half and state[0].dtype == torch.float32
    again, _ = layer(x[:1], state)
    assert again.dtype == half and again.isfinite().all()
    torch.testing.assert_close(y.double(), layer.double()(x.double())[0], rtol=0.05, atol=0.05)


# Errors.
@pytest.mark.parametrize(
    ("x", "state", "said"),
    [
        ((T, C), None, r"\[9, 12\]; expected \[T, B, C\].*x\[:, None\]"),
        ((0, B, C), None, r"\[0, 4, 12\]; expected \[T, B, C\] with at least one step"),
        ((T, B, C), (B, N), r"\[4, 7\]; expected \[2, 4, 7\]"),
        ((T, B, C), (L + 1, B, N), r"\[3, 4, 7\]; expected \[2, 4, 7\]"),
        ((T, B, C), (L, 1, N), r"\[2, 1, 7\]; expected \[2, 4, 7\]"),
        ((T, B, C), (L, B, N + 1), r"\[2, 4, 8\]; expected \[2, 4, 7\]"),
    ],
)
@pytest.mark.parametrize(
    ("which", "module", "name"),
    [("elman", "recurrent.elman", "Elman"), ("lstm", "lstm", "LSTM"), ("gru", "lstm.gru", "GRU")],
)
def test_wrong_inputs_and_states_are_explained(unhooked, which, module, name, x, state, said):
    """By the classes without shape checks of the test suite, as users import them."""
    given_ = None if state is None else torch.zeros(state)
    if which == "lstm" and state is not None:
        given_ = (torch.zeros(L, B, N), given_)
    with pytest.raises(ValueError, match=said):
        getattr(unhooked(f"labml_nn.{module}"), name)(C, N, L)(torch.zeros(x), given_)
