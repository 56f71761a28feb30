"""The feedback transformers: against a plain loop, step by step, and what they may see."""

import torch
from feedback_tools import BOTH, B, C, T, build, gradients, plain, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.feedback import (
    FeedbackMemory,
)


@BOTH
def test_equals_the_plain_loop(shared):
    model, x = build(shared), tokens().requires_grad_()
    got, expected = model(x), plain(model, x)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(gradients(model, got), gradients(model, expected))
    for_x = [torch.autograd.grad(y.square().sum(), x)[0] for y in (model(x), plain(model, x))]
    torch.testing.assert_close(*for_x)


@BOTH
def test_normalised_memory_equals_the_plain_loop(shared):
    model, x = build(shared, norm_memory=True), tokens()
    got, expected = model(x), plain(model, x)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(gradients(model, got), gradients(model, expected))
    assert not torch.equal(build(shared)(x), got)


def test_normalised_memory_does_not_grow():
    """Values twice as large as the rows they come from: unnormalised, each step doubles them."""
    sizes = []
    for norm_memory in (False, True):
        model = build(True, norm_memory=norm_memory)
        with torch.no_grad():
            for layer in model.layers:
                layer.attn.output.weight.copy_(4 * torch.eye(C))
            model.value.linear.weight.copy_(torch.eye(C))
            _, memory = model.scan(tokens(40, B, C))
        sizes.append(memory.values.rows.norm(dim=-1)[-1].max())
    assert sizes[0] > 1e6
    assert sizes[1] < 10


def test_memory_by_hand():
    """Layers that add 1 and 2 to every feature, and shares of 1/2, 1/4 and 1/4."""
    model = build(False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for number, layer in enumerate(model.layers, start=1):
            layer.feed_forward.layer2.bias.fill_(number)
        model.weights.copy_(torch.tensor([0.5, 0.25, 0.25]).log())
    x = torch.full((1, B, C), 10.0)
    _, memory = model.scan(x)
    # 1/2 of 10 + 1/4 of 11 + 1/4 of 13
    torch.testing.assert_close(memory.keys.rows, torch.full((1, B, C), 11.0))
    assert memory.values is memory.keys


@BOTH
def test_steps_equal_the_whole(shared):
    model, x, memory = build(shared), tokens(), None
    whole, whole_memory = model.scan(x)
    for t in range(T):
        y, memory = model.step(x[t], memory)
        assert isinstance(memory, FeedbackMemory)
        assert len(memory) == t + 1
        torch.testing.assert_close(y, whole[t])
    torch.testing.assert_close(memory.keys.rows, whole_memory.keys.rows)
    torch.testing.assert_close(memory.values.rows, whole_memory.values.rows)


@BOTH
@settings(deadline=None, max_examples=10)
@given(cuts=st.sets(st.integers(1, T - 1)))
def test_pieces_of_any_length_equal_the_whole(shared, cuts):
    """Gradients too: they flow from one piece into the one before, through the memory."""
    model, x, memory, outputs = build(shared), tokens(), None, []
    for piece in torch.tensor_split(x, sorted(cuts)):
        y, memory = model.scan(piece, memory)
        outputs.append(y)
    whole = model(x)
    torch.testing.assert_close(torch.cat(outputs), whole)
    torch.testing.assert_close(
        gradients(model, torch.cat(outputs)), gradients(model, whole), rtol=1e-4, atol=1e-5
    )


@BOTH
def test_an_older_memory_stays_good(shared):
    """Two continuations from one point, as a beam search has them."""
    model, x = build(shared), tokens(7, B, C)
    _, memory = model.scan(x[:3])
    for last in ([3, 4], [5, 6]):
        y, longer = model.scan(x[last], memory)
        torch.testing.assert_close(y, model(x[[0, 1, 2, *last]])[3:])
        assert (len(longer), len(memory)) == (5, 3)


@BOTH
def test_detached_memory_cuts_gradients_only(shared):
    model, x = build(shared), tokens().requires_grad_()
    _, memory = model.scan(x[:3])
    y, _ = model.scan(x[3:], memory.detach())
    torch.testing.assert_close(y, model(x)[3:])
    gradient = torch.autograd.grad(y.square().sum(), x)[0]
    assert gradient[:3].count_nonzero() == 0
    assert gradient[3:].count_nonzero() > 0


@BOTH
@settings(deadline=None, max_examples=10)
@given(position=st.integers(0, T - 1), seed=st.integers(0, 99))
def test_no_output_sees_the_future_and_the_last_sees_everything(shared, position, seed):
    model, x = build(shared), tokens(seed=seed)
    changed = x.clone()
    changed[position] += 1 + tokens(B, C, seed=seed + 1)
    before, after = model(x), model(changed)
    torch.testing.assert_close(before[:position], after[:position])
    assert (before[position:] - after[position:]).abs().amax((1, 2)).min() > 1e-6


@BOTH
def test_sequences_of_a_batch_do_not_mix(shared):
    model, x = build(shared), tokens(T, 3, C)
    torch.testing.assert_close(model(x[:, [2, 0, 1]]), model(x)[:, [2, 0, 1]])
    torch.testing.assert_close(model(x[:, 1:2]), model(x)[:, 1:2])


def test_low_layers_read_high_ones():
    """What the model is for: with all shares on the top layer, layer 1 reads the top, a step later.

    In an ordinary decoder a top layer has no influence on anything but its own output.
    """
    model, x = build(False), tokens()
    with torch.no_grad():
        model.weights.copy_(torch.tensor([-50.0, -50.0, 50.0]))
    seen = []
    model.layers[0].register_forward_hook(lambda *call: seen.append(call[-1]))
    top = model.layers[-1].feed_forward.layer2.bias
    model(x)
    effects = [
        torch.autograd.grad(y.sum(), top, allow_unused=True, retain_graph=True)[0] for y in seen
    ]
    assert effects[0] is None
    assert all(effect.count_nonzero() for effect in effects[1:])


@BOTH
def test_gradients_numerically(shared):
    model = build(shared, n_layers=2, d_model=2, heads=1, max_distance=2).double()
    x = tokens(4, 1, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(model, (x,))
    names = [name for name, _ in model.named_parameters() if "feed_forward" not in name]

    def call(*chosen):
        named = dict(zip(names, chosen, strict=True))
        return torch.func.functional_call(model, named, (x.detach(),))

    assert torch.autograd.gradcheck(call, tuple(model.get_parameter(name) for name in names))
