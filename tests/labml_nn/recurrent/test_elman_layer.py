"""The Elman layer: one step by hand, its forms, padding, and what it refuses."""

import copy
import math
import pickle

import hypothesis.strategies as st
import pytest
import torch
from elman_tools import COMPILED, NONLINEARITIES, B, C, N, T, layer, random, some_mask
from hypothesis import given, settings

from labml_nn.recurrent.elman import ElmanCell, ElmanLayer

MODULE = "labml_nn.recurrent.elman.layer"
FEW = settings(deadline=None, max_examples=25)
MASKED = pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])


def by_hand(nonlinearity="tanh"):
    """Two units, one input: W = [1, -2], U = [[0.5, 1], [-1, 0]], b = [0.25, 0]."""
    built = ElmanLayer(1, 2, nonlinearity=nonlinearity)
    with torch.no_grad():
        built.cell.input.weight.copy_(torch.tensor([[1.0], [-2.0]]))
        built.cell.input.bias.copy_(torch.tensor([0.25, 0.0]))
        built.cell.recurrent.weight.copy_(torch.tensor([[0.5, 1.0], [-1.0, 0.0]]))
    return built


def outputs_and_gradients(module, x, h, mask, form):
    x, h = x.clone().requires_grad_(), h.clone().requires_grad_()
    arguments = (x, h) if form == "kernel" else (x, h, mask)
    states = getattr(module, form)(*arguments)
    loss = (states * random(*states.shape, seed=5)).sum()
    return [states, *torch.autograd.grad(loss, [x, h, *module.cell.parameters()])]


# What it computes.


def test_two_steps_by_hand():
    states, last = by_hand()(torch.tensor([3.0, 1.0]).view(2, 1, 1))
    first = [math.tanh(3 + 0.25), math.tanh(-6)]
    second = [
        math.tanh(1 + 0.25 + 0.5 * first[0] + first[1]),
        math.tanh(-2 - first[0]),
    ]
    torch.testing.assert_close(states, torch.tensor([[first], [second]]))
    assert torch.equal(last, states[-1])


def test_the_sigmoid_of_the_paper_by_hand():
    states, _ = by_hand("sigmoid")(torch.tensor([3.0]).view(1, 1, 1))
    expected = [[[1 / (1 + math.exp(-3.25)), 1 / (1 + math.exp(6))]]]
    torch.testing.assert_close(states, torch.tensor(expected))


def test_relu_by_hand():
    states, _ = by_hand("relu")(torch.tensor([3.0, -1.0]).view(2, 1, 1))
    assert states.tolist() == [[[3.25, 0.0]], [[0.875, 0.0]]]


def test_a_cell_is_one_step():
    module, x, h = layer(), random(B, C), random(B, N, seed=1)
    states, last = module(x[None], h)
    torch.testing.assert_close(module.cell(x, h), last)
    torch.testing.assert_close(states[0], last)


# The forms are one function.


@NONLINEARITIES
@MASKED
@pytest.mark.parametrize("bias", [True, False])
def test_unrolled_equals_the_loop(nonlinearity, masked, bias):
    module = layer(nonlinearity=nonlinearity, bias=bias)
    arguments = random(T, B, C), random(B, N, seed=1), some_mask() if masked else None
    torch.testing.assert_close(
        outputs_and_gradients(module, *arguments, "unrolled"),
        outputs_and_gradients(module, *arguments, "loop"),
        rtol=1e-10,
        atol=1e-12,
    )


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_kernel_equals_the_loop(nonlinearity, bias):
    module = layer(nonlinearity=nonlinearity, bias=bias)
    arguments = random(T, B, C), random(B, N, seed=1), None
    torch.testing.assert_close(
        outputs_and_gradients(module, *arguments, "kernel"),
        outputs_and_gradients(module, *arguments, "loop"),
        rtol=1e-10,
        atol=1e-12,
    )


@FEW
@given(
    steps=st.integers(1, 9),
    batch=st.integers(1, 4),
    units=st.integers(1, 6),
    nonlinearity=st.sampled_from(["tanh", "sigmoid", "relu"]),
    seed=st.integers(0, 999),
)
def test_both_forms_for_any_sizes_and_any_mask(steps, batch, units, nonlinearity, seed):
    module = layer(d_model=3, d_hidden=units, nonlinearity=nonlinearity)
    x, h = random(steps, batch, 3, seed=seed), random(batch, units, seed=seed + 1)
    mask = random(steps, batch, seed=seed + 2) > 0
    torch.testing.assert_close(
        outputs_and_gradients(module, x, h, mask, "unrolled"),
        outputs_and_gradients(module, x, h, mask, "loop"),
    )


def test_which_form_runs(monkeypatch):
    ran = []
    for form in ("loop", "unrolled"):
        original = getattr(ElmanLayer, form)
        monkeypatch.setattr(
            ElmanLayer,
            form,
            lambda self, *a, name=form, call=original: [ran.append(name), call(self, *a)][1],
        )

    class Other(ElmanCell):
        pass

    module, x = layer(), random(T, B, C)
    module(x)
    module.readable = True
    module(x)
    module.readable = False
    module.cell = Other(C, N).double()
    module(x)
    assert ran == ["unrolled", "loop", "loop"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_the_kernel_on_a_gpu(nonlinearity):
    module = layer(nonlinearity=nonlinearity).cuda()
    x, h = random(T, B, C).cuda(), random(B, N, seed=1).cuda()
    assert module._has_kernel(x)
    kernel, _ = module(x, h)
    torch.testing.assert_close(kernel, module.loop(x, h))
    parameters = list(module.cell.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(kernel.square().sum(), parameters),
        torch.autograd.grad(module.loop(x, h).square().sum(), parameters),
    )
    with torch.autocast("cuda", torch.bfloat16):
        states, _ = module.float()(x.float(), h.float())
    assert states.dtype == torch.bfloat16


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("bias", [True, False])
def test_one_call_on_a_gpu_whatever_lies_how(bias):
    """A text read from another axis, a state that is spread out, and gradients of both."""
    module = layer(bias=bias).cuda()
    x, h = random(B, T, C).cuda().transpose(0, 1), random(1, N, seed=1).cuda().expand(B, N)
    form = outputs_and_gradients(module, x, h, None, "torch_kernel")
    torch.testing.assert_close(form, outputs_and_gradients(module, x, h, None, "loop"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        module(x, h)
    assert "aten::_cudnn_rnn" in {event.name for event in seen.events()}
    mask = some_mask().cuda()
    torch.testing.assert_close(module(x, h, mask)[0], module.loop(x, h, mask))


# Where it begins.


def test_without_a_state_it_begins_at_h_0():
    module, x = layer(), random(T, B, C)
    begun = module(x, module.h_0.expand(B, -1))[0]
    torch.testing.assert_close(module(x)[0], begun)
    assert not torch.equal(module(x, torch.zeros(B, N).double())[0], begun)


def test_h_0_is_a_buffer_of_zeros_or_learned():
    fixed, learned = ElmanLayer(C, N), ElmanLayer(C, N, learn_h_0=True)
    for module in (fixed, learned):
        assert module.state_dict()["h_0"].tolist() == [0.0] * N
    assert "h_0" not in dict(fixed.named_parameters())
    learned(torch.randn(T, B, C))[0].sum().backward()
    assert learned.h_0.grad.abs().min() > 0


def test_u_begins_as_a_rotation_and_not_as_small_as_that_of_pytorch():
    """What the page says about both."""
    weight = ElmanLayer(C, 128).cell.recurrent.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(128), rtol=0, atol=1e-5)
    theirs = torch.nn.RNN(C, 256).weight_hh_l0
    radius = torch.linalg.eigvals(theirs).abs().max().item()
    assert abs(radius - 3**-0.5) < 0.06
    assert 0.002 < 3 ** (-0.5 * 10) < 0.006


# Going on from a state.


@FEW
@given(cuts=st.sets(st.integers(1, 8)), masked=st.booleans(), seed=st.integers(0, 999))
def test_any_cut_into_calls(cuts, masked, seed):
    module, x = layer(), random(9, B, C, seed=seed)
    mask = some_mask(9, seed=seed) if masked else torch.ones(9, B, dtype=torch.bool)
    whole, end = module(x, None, mask)
    state, outputs = None, []
    for piece, part in zip(
        torch.tensor_split(x, sorted(cuts)), torch.tensor_split(mask, sorted(cuts)), strict=True
    ):
        states, state = module(piece, state, part)
        outputs.append(states)
    torch.testing.assert_close(torch.cat(outputs), whole)
    torch.testing.assert_close(state, end)


def test_states_keep_their_gradients_until_they_are_cut():
    module, x = layer(), random(2 * T, B, C).requires_grad_()
    _, state = module(x[:T])
    loss = module(x[T:], state)[0].sum()
    (gradient,) = torch.autograd.grad(loss, x, retain_graph=True)
    whole = module(x)[0][T:].sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(whole, x)[0])
    assert gradient[:T].abs().max() > 0
    loss = module(x[T:], state.detach())[0].sum()
    assert torch.autograd.grad(loss, x)[0][:T].abs().max() == 0


# Padding.


@NONLINEARITIES
@pytest.mark.parametrize("readable", [False, True])
def test_padding_leaves_no_trace(nonlinearity, readable):
    """At the beginning, in the middle and at the end, in states, outputs and gradients."""
    module, tokens = layer(nonlinearity=nonlinearity), random(3, 1, C).requires_grad_()
    module.readable = readable
    expected, end = module(tokens)
    mask = torch.tensor([False, True, False, True, True, False, False])[:, None]
    padding = random(7, 1, C, seed=3) * 1e6
    x = padding.masked_scatter(mask[..., None].expand(-1, -1, C), tokens)
    states, last = module(x, None, mask)
    torch.testing.assert_close(states[mask[:, 0]], expected)
    torch.testing.assert_close(last, end)
    torch.testing.assert_close(states[0, 0], module.h_0)
    torch.testing.assert_close(states[2], states[1])
    weight = random(3, 1, N, seed=4)
    parameters = [tokens, *module.cell.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad((states[mask[:, 0]] * weight).sum(), parameters),
        torch.autograd.grad((expected * weight).sum(), parameters),
    )


def test_units_that_would_explode_at_padding_do_not():
    """A relu network that doubles at every step; 2^200 is beyond single precision."""
    module = layer(nonlinearity="relu").float()
    with torch.no_grad():
        module.cell.recurrent.weight.copy_(2 * torch.eye(N))
    x = torch.ones(200, 1, C)
    mask = torch.arange(200)[:, None] < 3
    states, _ = module(x, None, mask)
    states.sum().backward()
    assert states.isfinite().all()
    assert module.cell.recurrent.weight.grad.isfinite().all()


@MASKED
def test_the_future_has_no_influence(masked):
    module, x, mask = layer(), random(T, B, C), some_mask() if masked else None
    if masked:
        mask[-1] = True  # something of each future is read
    for t in range(1, T):
        changed = torch.cat([x[:t], random(T - t, B, C, seed=7)])
        before, after = module(x, None, mask)[0], module(changed, None, mask)[0]
        assert torch.equal(after[:t], before[:t])
        assert not torch.equal(after, before)


@MASKED
def test_sequences_of_a_batch_are_strangers(masked):
    module, x, h = layer(), random(T, 3, C), random(3, N, seed=1)
    mask = some_mask(T, 3) if masked else torch.ones(T, 3, dtype=torch.bool)
    order = torch.tensor([2, 0, 1])
    states, last = module(x, h, mask)
    shuffled = module(x[:, order], h[order], mask[:, order])
    torch.testing.assert_close(shuffled, (states[:, order], last[order]))
    alone = module(x[:, :1], h[:1], mask[:, :1])
    torch.testing.assert_close(alone, (states[:, :1], last[:1]))


# Gradients.


@NONLINEARITIES
@MASKED
def test_gradients_and_gradients_of_gradients(nonlinearity, masked):
    module = layer(nonlinearity=nonlinearity, learn_h_0=True, d_model=2, d_hidden=3)
    mask = some_mask(4) if masked else None
    x = random(4, B, 2).requires_grad_()
    names, values = zip(*module.named_parameters(), strict=True)

    def run(x, *values):
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, given, (x, None, mask))[0]

    assert torch.autograd.gradcheck(run, (x, *values))
    assert torch.autograd.gradgradcheck(run, (x, *values))


def test_transformations_of_functions():
    module, x = layer(), random(T, B, C)
    jacobian = torch.func.jacrev(lambda h: module(x, h)[1])(module.initial(B).detach())
    assert jacobian.shape == (B, N, B, N)
    many = random(4, T, B, C, seed=2)
    mapped = torch.func.vmap(lambda one: module(one)[0])(many)
    torch.testing.assert_close(mapped[3], module(many[3])[0])


# In use.


@pytest.mark.parametrize("train", [True, False])
def test_autocast(train):
    module = layer().float()
    x = random(T, B, C, dtype=torch.float32).requires_grad_(train)
    expected, _ = module(x)
    for readable in (False, True):
        module.readable = readable
        for mask in (None, torch.ones(T, B, dtype=torch.bool)):
            with torch.autocast("cpu", torch.bfloat16):
                first, state = module(x[:2], None, None if mask is None else mask[:2])
                second, _ = module(x[2:], state, None if mask is None else mask[2:])
            assert first.dtype == second.dtype == torch.bfloat16
            got = torch.cat([first, second]).float()
            torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1)
            if train:
                got.sum().backward()
                assert x.grad.isfinite().all()


def test_copies_and_pickles():
    module, x = layer(), random(T, B, C)
    expected, _ = module(x)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(copied(x)[0], expected)


@COMPILED
@MASKED
@NONLINEARITIES
def test_compiled_in_one_graph(unhooked, masked, nonlinearity):
    package = unhooked(MODULE)
    module, x = layer(package, nonlinearity=nonlinearity), random(T, B, C)
    mask = some_mask() if masked else None
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    got, expected = compiled(x, None, mask)[0], module(x, None, mask)[0]
    torch.testing.assert_close(got, expected)
    parameters, weight = list(module.cell.parameters()), random(T, B, N)
    torch.testing.assert_close(
        torch.autograd.grad((got * weight).sum(), parameters),
        torch.autograd.grad((expected * weight).sum(), parameters),
    )


@COMPILED
def test_a_compiler_sees_one_call_for_all_steps(unhooked):
    package = unhooked(MODULE)
    module, graphs = layer(package), []

    def look(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compile(module, fullgraph=True, backend=look)(random(100, B, C))
    calls = [node for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert len(calls) < 20
    assert any("elman_forward" in str(node.target) for node in calls)


# Errors.


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, N), ValueError, r"`d_model` \(0\) must be at least 1"),
        ((C, 0), ValueError, r"`d_hidden` \(0\) must be at least 1"),
        ((C, 2.5), TypeError, r"`d_hidden` \(2.5\) must be a whole number"),
    ],
)
def test_impossible_sizes(unhooked, arguments, error, message):
    for cls in ("ElmanLayer", "ElmanCell"):
        with pytest.raises(error, match=message):
            getattr(unhooked(MODULE), cls)(*arguments)


def test_an_unknown_nonlinearity():
    with pytest.raises(ValueError, match=r"no nonlinearity 'tan'; did you mean 'tanh'\?.*sigmoid"):
        ElmanLayer(C, N, nonlinearity="tan")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.zeros(T, C),), ValueError, r"`x` has shape \[5, 12\]; expected \[T, B, C\]"),
        ((torch.zeros(0, B, C),), ValueError, "the sequence is empty"),
        ((torch.zeros(T, B, C + 1),), ValueError, "d_model = 12"),
        ((torch.zeros(T, B, C).double(),), TypeError, "`x` has dtype torch.float64"),
        (
            (torch.zeros(T, B, C), torch.zeros(1, N)),
            ValueError,
            r"`state` has shape \[1, 7\]; expected \[B, N\] \(batch, units\), here \[2, 7\]: give",
        ),
        (
            (torch.zeros(T, B, C), torch.zeros(B, N).double()),
            TypeError,
            r"`state` has dtype torch.float64 but `x` has torch.float32; read the whole",
        ),
        (
            (torch.zeros(T, B, C), None, torch.ones(T, B)),
            TypeError,
            r"`mask` has dtype torch.float32; expected torch.bool.*tokens != padding_token",
        ),
        (
            (torch.zeros(T, B, C), None, torch.ones(T, 1, dtype=torch.bool)),
            ValueError,
            r"`mask` has shape \[5, 1\]; expected \[T, B\], here \[5, 2\]",
        ),
    ],
)
def test_inputs_that_cannot_be(unhooked, arguments, error, message):
    module = layer(unhooked(MODULE)).float()
    with pytest.raises(error, match=message):
        module(*arguments)
