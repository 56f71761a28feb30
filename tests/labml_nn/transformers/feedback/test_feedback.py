"""The feedback transformers: values by hand, a plain loop, memory, padding, PyTorch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labml_nn import kernels
from labml_nn.transformers import feedback

T, B, C, H, D, F, L, S = 5, 2, 12, 3, 4, 28, 2, 7
KINDS = pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])


@pytest.fixture(autouse=True)
def _reference():
    """The lesson itself; kernels have tests of their own, against it."""
    with kernels.disabled():
        yield


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def randomised(module):
    """Parameters that start equal or zero would hide most mistakes."""
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.add_(numbers(*parameter.shape, seed=seed) / 4)
    return module


def build_layer(shared=False, dropout=0.0, **parts):
    return feedback.FeedbackTransformerLayer(
        **{
            "d_model": C,
            "attn": feedback.FeedbackAttention(H, C, dropout, is_kv_precomputed=shared),
            "feed_forward": feedback.FeedForward(C, F, dropout),
            "dropout_prob": dropout,
        }
        | parts
    )


def build(shared, **memory):
    layer = build_layer(shared)
    if shared:
        return randomised(feedback.FeedbackTransformerKV(layer, L, C, H, **memory))
    return randomised(feedback.FeedbackTransformer(layer, L, **memory))


def gradients(output, inputs):
    """Of a fixed, lopsided sum."""
    total = (output * numbers(*output.shape, seed=9).to(output)).sum()
    return torch.autograd.grad(total, list(inputs), retain_graph=True)


# Attention.
def test_attention_equals_torch():
    """`nn.MultiheadAttention`, with a query bias for term C and a float mask for B and D."""
    attention = randomised(feedback.FeedbackAttention(H, C, 0.0, max_distance=9))
    query, memory = numbers(B, C), numbers(S, B, C, seed=1)
    theirs = nn.MultiheadAttention(C, H, dropout=0.0)
    q, k, v = attention.query.linear, attention.key.linear, attention.value.linear
    heads = attention.query(query)
    mask = torch.einsum("bhd,shd->bhs", heads, attention.key_pos_embeddings[-S:])
    mask = (mask + attention.key_pos_bias[-S:].T) / math.sqrt(D)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([q.weight, k.weight, v.weight]))
        bias = [attention.query_pos_bias.flatten(), torch.randn(C), v.bias]
        theirs.in_proj_bias.copy_(torch.cat(bias))
        theirs.out_proj.load_state_dict(attention.output.state_dict())
    mask = mask.detach().reshape(B * H, 1, S)
    expected, weights = theirs(
        query[None], memory, memory, attn_mask=mask, average_attn_weights=False
    )
    torch.testing.assert_close(attention(query=query, key=memory, value=memory), expected[0])
    torch.testing.assert_close(attention.attn, weights.permute(3, 0, 1, 2).squeeze(-1))
    assert not attention.attn.requires_grad


def test_slots_beyond_the_table_share_its_first_row():
    attention = randomised(feedback.FeedbackAttention(H, C, is_kv_precomputed=True, max_distance=3))
    query, key = numbers(B, H, D), numbers(1, B, H, D).expand(S, -1, -1, -1)
    scores = attention.get_scores(query, key)
    far, near = scores[: S - 2], scores[S - 3 :]
    torch.testing.assert_close(far, far[:1].expand_as(far))
    torch.testing.assert_close(near, attention.get_scores(query, key[:3]))
    assert not torch.allclose(near[0], near[1])


def test_masked_slots_are_as_if_they_were_not_there():
    attention = randomised(feedback.FeedbackAttention(H, C, 0.0))
    query, memory = numbers(3, C).requires_grad_(), numbers(S, 3, C, seed=1).requires_grad_()
    mask = torch.ones(S, 3, dtype=torch.bool)
    mask[:4, 1], mask[:, 2] = False, False
    got = attention(query=query, key=memory, value=memory, mask=mask)
    alone = attention(query=query[1:2], key=memory[4:, 1:2], value=memory[4:, 1:2])
    torch.testing.assert_close(got[1:2], alone)
    torch.testing.assert_close(got[2], attention.output.bias)
    found = gradients(got, [query, memory, attention.key_pos_bias])
    assert all(torch.isfinite(gradient).all() for gradient in found)
    assert found[1][:4, 1].count_nonzero() == 0


def test_weights_are_dropped_and_the_others_scaled():
    attention = feedback.FeedbackAttention(H, C, 0.5, is_kv_precomputed=True)
    nn.init.eye_(attention.output.weight), nn.init.zeros_(attention.output.bias)
    ones = torch.ones(4, 200, H, D)
    got = attention(query=numbers(200, C), key=ones, value=ones)
    # Four equal weights of 1/4: what is left is a multiple of 1/4 * 2.
    assert set(got.unique().tolist()) == {0.0, 0.5, 1.0, 1.5, 2.0}
    assert got.mean().item() == pytest.approx(1.0, abs=0.1)
    assert (attention.eval()(query=numbers(200, C), key=ones, value=ones) == 1).all()


# Layer.
def test_layer_equations():
    layer = randomised(build_layer())
    x, memory = numbers(B, C), numbers(S, B, C, seed=1)
    z = x + layer.attn(query=layer.norm_self_attn(x), key=memory, value=memory)
    expected = z + layer.feed_forward(layer.norm_ff(z))
    torch.testing.assert_close(layer(x=x, key=memory, value=memory), expected)
    first = x + layer.feed_forward(layer.norm_ff(x))
    torch.testing.assert_close(layer(x=x, key=None, value=None), first)
    mask = torch.tensor([True, False]).expand(S, -1)
    got = layer(x=x, key=memory, value=memory, mask=mask)
    torch.testing.assert_close(got, torch.stack([expected[0], first[1]]))


def test_layer_dropout_is_on_both_branches():
    layer, memory = build_layer(dropout=1.0), numbers(S, B, C)
    x = numbers(B, C)
    assert torch.equal(layer(x=x, key=memory, value=memory), x)
    layer.feed_forward.dropout.p = layer.attn.dropout.p = 0.0
    assert torch.equal(layer(x=x, key=memory, value=memory), x)
    assert not torch.equal(layer.eval()(x=x, key=memory, value=memory), x)


# The recurrence.
def loop(model, x_seq, horizon=1000):
    """The equations with lists."""
    keys, values, top = [], [], []
    for x in x_seq:
        key = torch.stack(keys[-horizon:]) if keys else None
        value = torch.stack(values[-horizon:]) if keys else None
        outputs = [x]
        for layer in model.layers:
            outputs.append(layer(x=outputs[-1], key=key, value=value))
        shares = torch.softmax(model.weights, 0)
        vector = sum(share * output for share, output in zip(shares, outputs, strict=True))
        vector = model.norm_memory(vector)
        shared = isinstance(model, feedback.FeedbackTransformerKV)
        keys.append(model.key(vector) if shared else vector)
        values.append(model.value(vector) if shared else vector)
        top.append(outputs[-1])
    return model.norm(torch.stack(top))


@KINDS
@pytest.mark.parametrize(("horizon", "norm_memory"), [(None, False), (3, True), (1, False)])
def test_model_equals_the_loop(shared, horizon, norm_memory):
    model = build(shared, horizon=horizon, norm_memory=norm_memory)
    x = numbers(T, B, C).requires_grad_()
    got, expected = model(x), loop(model, x, horizon or 1000)
    torch.testing.assert_close(got, expected)
    inputs = [x, *model.parameters()]
    torch.testing.assert_close(gradients(got, inputs), gradients(expected, inputs))
    changed = build(shared, horizon=2, norm_memory=not norm_memory)
    assert not torch.allclose(changed(x), got)


def test_a_new_model_weighs_all_layers_alike():
    model = feedback.FeedbackTransformer(build_layer(), L)
    assert torch.equal(model.softmax(model.weights), torch.full((L + 1,), 1 / (L + 1)))
    first, second = model.layers
    assert not torch.equal(first.attn.query.linear.weight, second.attn.query.linear.weight)
    for name in ("key_pos_embeddings", "key_pos_bias", "query_pos_bias"):
        assert getattr(first.attn, name).count_nonzero() == 0


@KINDS
def test_steps_equal_the_whole(shared):
    model, x, memory = build(shared, horizon=3), numbers(T, B, C), None
    whole, end = model.scan(x)
    for t in range(T):
        y, memory = model.step(x[t], memory)
        assert len(memory) == min(t + 1, 3)
        torch.testing.assert_close(y, whole[t])
    torch.testing.assert_close(memory.keys, end.keys)
    torch.testing.assert_close(memory.values, end.values)


@KINDS
def test_a_memory_is_a_value(shared):
    """Two continuations from one point, gradients across calls, and a detached one without."""
    model, x = build(shared), numbers(S, B, C).requires_grad_()
    _, memory = model.scan(x[:3])
    before = memory.keys.clone()
    for last in ([3, 4], [5, 6]):
        y, longer = model.scan(x[last], memory)
        expected = model(x[[0, 1, 2, *last]])[3:]
        torch.testing.assert_close(y, expected)
        inputs = [x, *model.parameters()]
        torch.testing.assert_close(
            gradients(y, inputs), gradients(expected, inputs), rtol=1e-4, atol=1e-5
        )
        assert (len(longer), len(memory)) == (5, 3)
    assert torch.equal(memory.keys, before)
    y, _ = model.scan(x[3:], memory.detach())
    torch.testing.assert_close(y, model.scan(x[3:], memory)[0])
    (gradient,) = gradients(y, [x])
    assert not gradient[:3].any() and gradient[3:].any()


# Padding.
@KINDS
@pytest.mark.parametrize("horizon", [None, 3])
@settings(deadline=None, max_examples=5)
@given(
    tokens=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=S, max_size=S),
    cut=st.integers(1, S - 1),
)
def test_padding_anywhere_and_any_cut(shared, horizon, tokens, cut):
    model, x, mask = build(shared, horizon=horizon), numbers(S, 3, C), torch.tensor(tokens)
    first, memory = model.scan(x[:cut], mask=mask[:cut])
    rest, memory = model.scan(x[cut:], memory, mask=mask[cut:])
    y = torch.cat([first, rest])
    assert y[~mask].count_nonzero() == 0
    end, expected_end = model.scan(x[:1], memory)[0], []
    for b in range(3):
        alone, own = model.scan(x[mask[:, b], b : b + 1]) if mask[:, b].any() else (y[:0], None)
        torch.testing.assert_close(y[mask[:, b], b : b + 1], alone[:, :1], rtol=1e-4, atol=1e-5)
        expected_end.append(model.scan(x[:1, b : b + 1], own)[0])
    torch.testing.assert_close(end, torch.cat(expected_end, dim=1), rtol=1e-4, atol=1e-5)


def test_padding_has_no_gradient():
    model, x = build(True), numbers(T, B, C).requires_grad_()
    mask = torch.ones(T, B, dtype=torch.bool)
    mask[2, 0] = mask[0, 1] = False
    y, memory = model.scan(x, mask=mask)
    (gradient,) = gradients(y, [x])
    assert torch.equal(gradient.abs().sum(-1) > 0, mask)
    assert memory.mask.sum(0).tolist() == [4, 4]
    assert memory.keys[0].count_nonzero() == 0
    assert memory.detach().mask is memory.mask


# Errors.
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_layer(d_model=24), "`attn` has width 12"),
        (
            lambda: build_layer(feed_forward=feedback.FeedForward(24, F)),
            "`feed_forward` has width 24",
        ),
        (lambda: feedback.FeedbackTransformer(build_layer(True), 2), "is_kv_precomputed=True"),
        (lambda: feedback.FeedbackTransformerKV(build_layer(), 2, C, H), "is_kv_precomputed=False"),
        (
            lambda: feedback.FeedbackTransformerKV(build_layer(True), 2, 24, H),
            "`layer` has width 12",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
