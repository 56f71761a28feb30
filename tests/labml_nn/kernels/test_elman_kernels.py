"""The Elman kernels: what only they have. `test_kernels.py` compares them with the reference."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from labml_nn import kernels
from labml_nn.kernels import elman
from labml_nn.recurrent.elman import ElmanLanguageModel, ElmanLayer

T, B, C, N, L, V = 5, 2, 12, 7, 3, 11


@pytest.fixture(autouse=True)
def any_vectors(monkeypatch):
    """Without a compiler there is nothing to test."""
    if elman.EXTENSION.find() is None:
        pytest.skip("no C++ compiler")
    torch.manual_seed(0)
    monkeypatch.setattr(elman, "VECTORS", (torch.backends.cpu.get_cpu_capability(),))


@pytest.fixture
def calls(monkeypatch):
    """For each run of a kernel of the layer, whether it was compiled."""
    calls, real = [], elman.recur

    def recur(library, *args):
        calls.append(library is not None)
        return real(library, *args)

    monkeypatch.setattr(elman, "recur", recur)
    return calls


def everything(layer, x, h, mask):
    """States, and gradients of inputs, the first state and all parameters, in float64."""
    dtype = layer.cell.recurrent.weight.dtype
    leaves = [t.to(dtype).requires_grad_() for t in (x, h)]
    states, last = layer(*leaves, mask)
    loss = (states * torch.linspace(-1, 1, states.numel(), dtype=dtype).view_as(states)).sum()
    grads = torch.autograd.grad(loss + last.square().sum(), [*leaves, *layer.cell.parameters()])
    return [part.detach().double() for part in (states, *grads)]


def assert_reference(layer, x, h, mask=None):
    """The compiled layer in float32 against the reference in float64."""
    got = everything(layer, x, h, mask)
    with kernels.disabled():
        expected = everything(copy.deepcopy(layer).double(), x, h, mask)
    for mine, right in zip(got, expected, strict=True):
        assert (mine - right).norm() <= 5e-5 * right.norm() + 1e-7


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 13])
@pytest.mark.parametrize(
    "sizes", [(9, 3, 40), (9, 33, 65), (4, 20, 48), (131, 5, 16), (65, 64, 32), (9, 1, 1)]
)
def test_any_sizes(calls, sizes, batch):
    """Of vectors, of rows of a product, and of the steps that are computed together."""
    steps, width, units = sizes
    layer, x = ElmanLayer(width, units), torch.randn(steps, batch, width)
    for mask in (None, torch.rand(steps, batch) > 0.3):
        assert_reference(layer, x, torch.randn(batch, units), mask)
    assert calls == [True, True]


def test_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(elman, "MIN_WORK", 1)
    layer, mask = ElmanLayer(20, 40), torch.rand(70, 5) > 0.3
    x, h = torch.randn(70, 5, 20), torch.randn(5, 40)
    for threads in (1, 2, 3, 6):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert_reference(layer, x, h, mask)


def test_states_may_be_changed_in_place_and_moved():
    layer, x = ElmanLayer(C, N), torch.randn(T, B, C)
    found = []
    for context in (nullcontext(), kernels.disabled()):
        with context:
            states, last = layer(x)
        states.mul_(2)
        found.append([last, *torch.autograd.grad(states.sum(), list(layer.parameters()))])
    torch.testing.assert_close(*found)
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        assert_reference(layer, x, torch.zeros(B, N))
    gaps = torch.randn(B, 2 * C, T)[:, ::2].permute(2, 0, 1)
    assert torch.equal(layer(gaps)[0], layer(gaps.contiguous())[0])


def test_second_derivatives():
    layer, x = ElmanLayer(C, N), torch.randn(T, B, C, requires_grad=True)
    mask, found = torch.rand(T, B) > 0.3, []
    for context in (nullcontext(), kernels.disabled()):
        with context:
            states, _ = layer(x, None, mask)
        (grad,) = torch.autograd.grad(states.sin().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.sin().sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("nonlinearity", "z", "rtol", "atol"),
    [
        ("tanh", torch.linspace(-12, 12, 200_001), 4e-7, 0.0),
        ("tanh", torch.logspace(-30, 1, 5_000), 4e-7, 0.0),
        ("sigmoid", torch.linspace(-80, 40, 100_001), 1e-6, 1e-36),
    ],
)
def test_activations_to_the_last_digits(calls, nonlinearity, z, rtol, atol):
    """Those in `activations.h`, by a layer that does nothing else."""
    layer = ElmanLayer(1, 1, nonlinearity=nonlinearity, bias=False)
    nn.init.ones_(layer.cell.input.weight)
    with torch.no_grad():
        got = layer(z.view(1, -1, 1))[0].flatten()
    expected = getattr(z.double(), nonlinearity)()
    torch.testing.assert_close(got.double(), expected, rtol=rtol, atol=atol)
    assert (got.abs() <= 1).all() and calls == [True]


# Which kernel runs.
def test_when_the_compiled_layer_runs(calls, monkeypatch):
    layer = ElmanLayer(C, 4 * elman.UNITS_PER_TOKEN)
    layer(torch.randn(4, 1, C))
    layer(torch.randn(3, 1, C))  # too little work
    layer.double()(torch.randn(4, 1, C).double())
    layer.float()(torch.randn(4, 0, C))
    monkeypatch.setattr(elman, "VECTORS", ())
    layer(torch.randn(4, 1, C))
    layer(torch.randn(2, 1, C))  # the reference
    assert calls == [True, False, False, False, False]


def test_wrong_shapes_go_to_the_reference():
    """A state of one sequence, and tensors that C++ must not read beyond their end."""
    layer, x = ElmanLayer(C, N), torch.randn(T, B, C)
    for state in (torch.zeros(1, N), torch.zeros(B, N + 1)):
        assert elman.arguments_of(layer, x, state, None) is None
    for mask in (torch.ones(T, 1, dtype=torch.bool), torch.ones(T, B)):
        assert elman.arguments_of(layer, x, None, mask) is None
    assert elman.arguments_of(layer, x[..., 1:], None, None) is None
    assert elman.arguments_of(layer, x, None, None) is not None
    layer.cell.recurrent = nn.Linear(N, N + 1, bias=False)
    assert elman.arguments_of(layer, x, torch.zeros(B, N + 1), None) is None


@pytest.mark.parametrize(("nonlinearity", "bias"), [("tanh", True), ("relu", False)])
def test_the_computation_for_cuda_on_the_cpu(nonlinearity, bias):
    layer = ElmanLayer(C, N, nonlinearity=nonlinearity, bias=bias)
    x, h = torch.randn(T, B, C), torch.randn(B, N)
    got = elman.torch_rnn(elman.arguments_of(layer, x, h, None), nonlinearity)
    with kernels.disabled():
        expected, _ = layer(x, h)
    weights = list(layer.cell.parameters())
    grads = [torch.autograd.grad(each.square().sum(), weights) for each in (got, expected)]
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert elman.autocast_dtype(x) == torch.bfloat16
    assert elman.autocast_dtype(x) is None


def test_without_a_compiler(monkeypatch, tmp_path):
    """One line of warning, and the kernel in PyTorch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setattr(elman.EXTENSION, "found", None)
    layer, x = ElmanLayer(C, N), torch.randn(T, B, C)
    with kernels.disabled():
        expected, _ = layer(x)
    with pytest.warns(RuntimeWarning, match="compiled Elman layer is not used") as warned:
        torch.testing.assert_close(layer(x)[0], expected)
        layer(x)
    assert len(warned) == 1 and "\n" not in str(warned[0].message)


# Decoding.
def build(**fields):
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L}
    model = ElmanLanguageModel.from_config(sizes | fields).eval()
    for tensor in [*model.parameters(), *model.buffers()]:
        tensor.data.add_(torch.randn_like(tensor) / 8)
    return model


FIELDS = [
    *({}, {"n_layers": 1, "d_hidden": 40}, {"padding_token": 3}, {"d_hidden": 33}),
    *({"tied": False}, {"d_model": N}, {"learn_h_0": True}, {"dropout_prob": 0.5}),
    *({"nonlinearity": "sigmoid"}, {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_decoding_is_forward(fields):
    model = build(**fields)
    for batch in (1, 2, 3, 5):
        _, state = model(torch.randint(V, (T, batch)))
        step = model.decoding_step(state)
        assert isinstance(step, elman.ElmanStep)
        for tokens in torch.randint(V, (6, batch)):
            expected, state = model(tokens[None], state)
            torch.testing.assert_close(step(tokens), expected[-1].detach(), rtol=1e-4, atol=1e-5)


def test_a_step_owns_its_parameters_and_its_state():
    model = build()
    _, state = model(torch.randint(V, (T, B)))
    step, other = model.decoding_step(state), copy.deepcopy(model).decoding_step(state)
    for tensor in [*model.parameters(), state]:
        tensor.data.zero_()
    for tokens in torch.randint(V, (6, B)):
        logits = step(tokens)
        assert torch.equal(logits, other(tokens))
        logits.zero_()
