"""The compiled Elman layer: against the loop in double precision, and in all kinds of use."""

import copy
import ctypes
import pickle
import re
from pathlib import Path

import pytest
import torch
from elman_tools import NONLINEARITIES, B, C, L, N, T, network, random, some_mask
from torch import nn

from labml_nn.kernels.build import BuildError, load
from labml_nn.recurrent.elman import Elman, ElmanLayer, kernel
from labml_nn.recurrent.elman.kernel import run

MASKED = pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
FOLDER = Path(kernel.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def library():
    """The kernel itself, built once a machine; without a compiler there is nothing to test."""
    try:
        return load(kernel.SOURCE)
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(kernel.KERNEL, "told", set())


def pair(d_model=C, d_hidden=N, **options):
    """The same layer twice: compiled in float32, and the loop in float64."""
    torch.manual_seed(0)
    compiled = ElmanLayer(d_model, d_hidden, **options)
    nn.init.normal_(compiled.h_0)
    loop = copy.deepcopy(compiled).double()
    compiled.backend, loop.backend = "kernel", "loop"
    return compiled, loop


def everything(layer, x, h=None, mask=None):
    """States, and gradients of inputs, the first state and all parameters, in float64."""
    dtype = layer.cell.recurrent.weight.dtype
    leaves = [x.to(dtype).requires_grad_(), *layer.cell.parameters()]
    if h is not None:
        h = h.to(dtype).requires_grad_()
        leaves.append(h)
    states, last = layer(leaves[0], h, mask)
    weight = random(*states.shape, seed=5).to(dtype)
    loss = (states * weight).sum() + last.square().sum()
    return [part.detach().double() for part in (states, *torch.autograd.grad(loss, leaves))]


def assert_close(got, expected, tolerance=1e-5):
    for mine, right in zip(got, expected, strict=True):
        assert mine.shape == right.shape
        assert (mine - right).norm() <= tolerance * right.norm() + 1e-7


def assert_pair(layers, x, h=None, mask=None):
    assert_close(*(everything(layer, x, h, mask) for layer in layers))


# It is the loop.


@NONLINEARITIES
@MASKED
@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_loop(nonlinearity, masked, bias):
    layers = pair(nonlinearity=nonlinearity, bias=bias)
    mask = some_mask() if masked else None
    assert_pair(layers, random(T, B, C), random(B, N, seed=1), mask)


@MASKED
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 13])
@pytest.mark.parametrize("sizes", [(3, 40), (33, 65), (20, 48), (5, 16), (64, 32), (1, 1)])
def test_any_sizes(sizes, batch, masked):
    """Less than a vector, more than one, several, and all numbers of rows of a product."""
    mask = some_mask(9, batch) if masked else None
    assert_pair(pair(*sizes), random(9, batch, sizes[0]), random(batch, sizes[1], seed=1), mask)


@pytest.mark.parametrize("steps", [1, 2, 63, 64, 65, 131])
def test_any_length(steps):
    """Around the steps that are worked out together, and the rows that are gathered together."""
    assert_pair(pair(), random(steps, 1, C))
    assert_pair(pair(), random(steps, 4, C))


@MASKED
def test_any_number_of_threads(monkeypatch, masked):
    """Texts are shared among them, and columns of the weights' gradients, but no sum is."""
    monkeypatch.setattr(run, "WORTH", 1)
    layers, found = pair(20, 40), []
    x, mask = random(70, 5, 20), some_mask(70, 5) if masked else None
    for threads in (1, 2, 3, 6):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(everything(layers[0], x, None, mask))
    for other in found:
        assert_close(other, everything(layers[1], x, None, mask), 2e-6)


def test_several_layers():
    compiled = network().float()
    loop = copy.deepcopy(compiled).double()
    compiled.backend, loop.backend = "kernel", "loop"
    x, mask = random(T, B, C), some_mask()
    state = random(L, B, N, seed=2)
    got = compiled(x.float(), state.float(), mask)
    torch.testing.assert_close(got, loop(x, state, mask), check_dtype=False, rtol=0, atol=1e-5)


# Bends.


def bend(nonlinearity, z):
    """f of each number, by a layer that does nothing else."""
    layer = ElmanLayer(1, 1, nonlinearity=nonlinearity, bias=False)
    nn.init.ones_(layer.cell.input.weight)
    layer.backend = "kernel"
    with torch.no_grad():
        return layer(z.view(1, -1, 1))[0].flatten()


def test_tanh_to_the_last_digits():
    """The number in `bends.h`."""
    z = torch.cat([torch.linspace(-12, 12, 200_001), torch.logspace(-30, 1, 5_000)])
    got, expected = bend("tanh", z), z.double().tanh()
    assert ((got - expected).abs() <= 4e-7 * expected.abs()).all()
    assert (got.abs() <= 1).all()


def test_sigmoid_to_the_last_digits():
    z = torch.linspace(-80, 40, 100_001)
    torch.testing.assert_close(
        bend("sigmoid", z).double(), z.double().sigmoid(), rtol=1e-6, atol=1e-36
    )


@NONLINEARITIES
def test_ends_and_what_is_not_a_number(nonlinearity):
    """A run that has gone wrong must not look as if it had not."""
    z = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0])
    expected = getattr(torch, nonlinearity)(z)
    torch.testing.assert_close(bend(nonlinearity, z), expected, equal_nan=True, rtol=3e-7, atol=0)


def test_what_is_not_a_number_stays_with_its_text():
    layer, _ = pair()
    x = random(T, 3, C, dtype=torch.float32)
    x[2, 1] = float("nan")
    states, _ = layer(x)
    assert states[2:, 1].isnan().all()
    assert not states[:2].isnan().any()
    assert not states[:, [0, 2]].isnan().any()


# Gradients.


@pytest.mark.parametrize("wanted", ["x", "h", "input.weight", "input.bias", "recurrent.weight"])
def test_one_gradient_alone(wanted):
    found = []
    for layer in pair():
        dtype = layer.cell.recurrent.weight.dtype
        layer.requires_grad_(False)
        leaves = {"x": random(T, B, C).to(dtype), "h": random(B, N, seed=1).to(dtype)}
        leaves |= dict(layer.cell.named_parameters())
        leaves[wanted].requires_grad_()
        layer(leaves["x"], leaves["h"])[0].square().sum().backward()
        assert [name for name, leaf in leaves.items() if leaf.grad is not None] == [wanted]
        found.append([leaves[wanted].grad.double()])
    assert_close(*found)


def test_two_ways_there_before_one_back():
    found = []
    for layer in pair():
        dtype = layer.cell.recurrent.weight.dtype
        loss = sum(layer(random(T, B, C, seed=s).to(dtype))[0].square().sum() for s in (1, 2))
        found.append([g.double() for g in torch.autograd.grad(loss, layer.cell.parameters())])
    assert_close(*found)


def test_twice_back_from_one_way_there():
    layer, _ = pair()
    x = random(T, B, C, dtype=torch.float32).requires_grad_()
    loss = layer(x)[0].square().sum()
    first = torch.autograd.grad(loss, [x, *layer.cell.parameters()], retain_graph=True)
    assert_close(first, torch.autograd.grad(loss, [x, *layer.cell.parameters()]), 0)


@MASKED
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("hooked", [True, False])
def test_gradients_of_gradients(masked, bias, hooked):
    found, mask = [], some_mask() if masked else None
    for layer in pair(bias=bias):
        if hooked:
            layer.cell.input.register_forward_hook(lambda *_: None)
        dtype = layer.cell.recurrent.weight.dtype
        leaves = [random(T, B, C).to(dtype).requires_grad_(), *layer.cell.parameters()]
        loss = layer(leaves[0], None, mask)[0].square().sum()
        slopes = torch.autograd.grad(loss, leaves, create_graph=True)
        second = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), leaves)
        found.append([part.double() for part in (*slopes, *second)])
    assert_close(*found)


def test_a_state_that_was_changed_is_noticed():
    layer, _ = pair()
    states, _ = layer(random(T, B, C, dtype=torch.float32))
    states += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        states.sum().backward()


def test_saved_tensors_may_go_elsewhere_and_come_back():
    layer, _ = pair()
    expected = everything(layer, random(T, B, C))
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        got = everything(layer, random(T, B, C))
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


# In use.


def test_input_with_gaps_in_memory():
    layer, _ = pair()
    x = random(B, 2 * C, T, dtype=torch.float32)[:, ::2].permute(2, 0, 1)
    assert not x.is_contiguous()
    assert torch.equal(layer(x)[0], layer(x.contiguous())[0])


def test_the_same_with_and_without_gradients():
    layer, _ = pair()
    x = random(T, B, C, dtype=torch.float32)
    expected, _ = layer(x)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(layer(x)[0], expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(copied):
    layer, _ = pair()
    x = random(T, B, C, dtype=torch.float32)
    states, _ = layer(x)
    other = copied(layer)
    assert other.backend == "kernel"
    assert torch.equal(other(x)[0], states)


def test_a_layer_of_an_older_pickle_has_no_backend():
    layer = ElmanLayer(C, N)
    del vars(layer)["_backend"]
    assert layer.backend == "auto"


@MASKED
def test_half_precision_around_it(monkeypatch, masked):
    """The loop itself is in float32, and states go round as autocast has them."""
    calls = count_calls(monkeypatch)
    module = Elman(C, N, L)
    module.backend = "kernel"
    x, mask = random(T, B, C, dtype=torch.float32).requires_grad_(), some_mask() if masked else None
    expected, _ = module(x, None, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first, state = module(x[:2], None, None if mask is None else mask[:2])
        second, _ = module(x[2:], state, None if mask is None else mask[2:])
    assert len(calls) == 3 * L
    assert first.dtype == second.dtype == state.dtype == torch.bfloat16
    got = torch.cat([first, second]).float()
    torch.testing.assert_close(got, expected, rtol=0.05, atol=0.05)
    got.sum().backward()
    assert x.grad.dtype == torch.float32
    assert x.grad.isfinite().all()


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked(linear):
    linear.register_forward_hook(lambda module, inputs, output: 2 * output)
    return linear


def subclassed(linear):
    other = Doubled(linear.in_features, linear.out_features)
    other.load_state_dict(linear.state_dict())
    return other


@pytest.mark.parametrize("change", [hooked, subclassed])
def test_what_was_done_to_the_input_counts(monkeypatch, change):
    calls = count_calls(monkeypatch)
    layers = pair()
    for layer in layers:
        layer.cell.input = change(layer.cell.input).to(layer.cell.recurrent.weight.dtype)
    assert_pair(layers, random(T, B, C), random(B, N, seed=1))
    assert len(calls) == 1


# When it runs.


def count_calls(monkeypatch):
    calls, real = [], kernel.recur
    monkeypatch.setattr(kernel, "recur", lambda *args: [calls.append(args), real(*args)][1])
    return calls


def test_it_is_chosen_by_itself(monkeypatch):
    calls = count_calls(monkeypatch)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    layer = ElmanLayer(C, 4 * kernel.UNITS_FOR_A_TOKEN)
    layer(torch.randn(4, 1, C))
    assert len(calls) == 1
    layer(torch.randn(3, 1, C))  # too short to be worth it
    layer.backend = "unrolled"
    layer(torch.randn(4, 1, C))
    layer.readable = True
    layer(torch.randn(4, 1, C))
    assert len(calls) == 1
    layer.backend = "kernel"
    layer(torch.randn(3, 1, C))
    assert len(calls) == 2


def test_narrow_vectors_have_to_be_asked_for(monkeypatch):
    calls = count_calls(monkeypatch)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    layer = ElmanLayer(C, N)
    layer(torch.randn(T, B, C))
    assert not calls
    layer.backend = "kernel"
    layer(torch.randn(T, B, C))
    assert len(calls) == 1


def test_names_of_forms(unhooked):
    package = unhooked("labml_nn.recurrent.elman")
    module = package.Elman(C, N, L)
    assert module.backend == "auto"
    module.backend = "unrolled"
    assert [layer.backend for layer in module.layers] == ["unrolled"] * L
    with pytest.raises(ValueError, match=r"no backend 'kernal'; did you mean 'kernel'\?"):
        module.backend = "kernal"


@pytest.mark.parametrize("form", ["loop", "unrolled", "kernel", "torch"])
def test_every_form_by_name(form):
    layer, loop = pair()
    layer.backend = form
    assert_close(everything(layer, random(T, B, C)), everything(loop, random(T, B, C)))


def test_what_the_kernel_of_pytorch_does_not_know(unhooked):
    package = unhooked("labml_nn.recurrent.elman.layer")
    for nonlinearity, mask in (("sigmoid", None), ("tanh", some_mask())):
        layer = package.ElmanLayer(C, N, nonlinearity=nonlinearity)
        layer.backend = "torch"
        with pytest.raises(ValueError, match="knows tanh and relu and no mask"):
            layer(torch.zeros(T, B, C), None, mask)


def assert_unrolled_runs(layer, x, reason):
    """One line of warning, on the first of two readings, and the results of the unrolled form."""
    layer.backend = "unrolled"
    expected, _ = layer(x)
    layer.backend = "kernel"
    with pytest.warns(RuntimeWarning, match=reason) as told:
        assert torch.equal(layer(x)[0], expected)
        layer(x)[0].sum().backward()
    assert len(told) == 1
    assert "\n" not in str(told[0].message)


def test_double_precision_is_unrolled():
    layer, x = ElmanLayer(C, N).double(), random(T, B, C)
    layer(x)  # without a word, since nobody asked for the kernel
    assert_unrolled_runs(layer, x, "it computes in float32, and the layer in torch.float64")


def test_an_empty_batch_is_unrolled():
    assert_unrolled_runs(ElmanLayer(C, N), torch.zeros(T, 0, C), "nothing to read")


def test_it_is_switched_off_by_the_environment(monkeypatch):
    calls = count_calls(monkeypatch)
    monkeypatch.setenv("LABML_NN_KERNEL", "0")
    layer, x = ElmanLayer(C, N), torch.randn(T, B, C)
    layer(x)
    assert_unrolled_runs(layer, x, "LABML_NN_KERNEL")
    assert not calls


@pytest.mark.parametrize("compiler", ["/nowhere/c++", "false"])
def test_without_a_compiler(monkeypatch, tmp_path, compiler):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setattr(kernel.KERNEL, "found", None)
    assert_unrolled_runs(ElmanLayer(C, N), torch.randn(T, B, C), "compiled Elman layer is not used")


def test_both_languages_mean_the_same_structure(library):
    assert library.task_size == ctypes.sizeof(run.Task)
    header = (FOLDER / "task.h").read_text()
    body = re.sub(r"//.*", "", header[header.index("struct Task {") : header.index("Size at(")])
    declared = [
        name
        for line in body.removeprefix("struct Task {").split(";")
        for name in re.findall(r"\b([a-z_]+)\b(?=,|$)", line.strip())
    ]
    assert declared == [name for name, _ in run.Task._fields_]
