"""Linear attention: its three forms, its states, padding, and the average that it takes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from labml_nn.recurrent.linear_attention import (
    LinearAttention,
    LinearAttentionState,
    linear_attention_chunks,
    linear_attention_loop,
    linear_attention_table,
)

T, B, H, D, DV, W = 7, 2, 3, 4, 5, 4
C = H * D


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def some(*sizes, dtype=torch.double):
    return torch.randn(*sizes, dtype=dtype, requires_grad=True)


def inputs(length=T, batch=B, heads=H, d_k=D, d_v=DV, dtype=torch.double):
    """Queries, keys, values, and a memory that is not empty."""
    sizes = (length, batch, heads)
    shapes = (*sizes, d_k), (*sizes, d_k), (*sizes, d_v), (batch, heads, d_k, d_v)
    return [some(*shape, dtype=dtype) for shape in shapes]


def mixer(**options):
    return LinearAttention(C, H, **options).double()


def with_gradients(form, tensors, *more):
    """What a form returns, and the gradients of all that went in."""
    outputs = form(*tensors, *more)
    loss = sum((part * torch.arange(part.numel()).view_as(part).cos()).sum() for part in outputs)
    return (*outputs, *torch.autograd.grad(loss, tensors))


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(1, 40),
    chunk=st.integers(1, 50),
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    d_k=st.integers(1, 5),
    d_v=st.integers(1, 5),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_three_forms_are_equal(length, chunk, batch, heads, d_k, d_v, dtype):
    tensors = inputs(length, batch, heads, d_k, d_v, dtype)
    close = 1e-3 if dtype == torch.float32 else 1e-10
    expected = with_gradients(linear_attention_loop, tensors)
    for form, *more in ((linear_attention_table,), (linear_attention_chunks, chunk)):
        got = with_gradients(form, tensors, *more)
        torch.testing.assert_close(got, expected, rtol=close, atol=close)


@pytest.mark.parametrize(
    "form", [linear_attention_loop, linear_attention_table, linear_attention_chunks]
)
def test_gradients_of_each_form(form):
    assert torch.autograd.gradcheck(form, inputs(3, 1, 2, 2, 3))


def test_the_loop_is_the_sum_of_the_formula():
    q, k, v, memory = inputs()
    found, after = linear_attention_loop(q, k, v, memory)
    for t in range(T):
        so_far = memory + sum(torch.einsum("bhd,bhe->bhde", k[s], v[s]) for s in range(t + 1))
        torch.testing.assert_close(found[t], torch.einsum("bhd,bhde->bhe", q[t], so_far))
    torch.testing.assert_close(after, so_far)


def test_the_memory_that_is_kept_holds_no_others():
    _, memory = linear_attention_chunks(*(part.detach() for part in inputs(20)), 3)
    assert memory.untyped_storage().nbytes() == memory.numel() * memory.element_size()


@pytest.mark.parametrize("conv", [1, 4])
@settings(deadline=None, max_examples=20)
@given(cuts=st.sets(st.integers(1, 79)))
def test_chunks_of_a_text_give_what_the_whole_gives(conv, cuts):
    layer, x, state, parts = mixer(conv=conv), some(80, B, C), None, []
    whole, last = layer(x)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 80], strict=True):
        y, state = layer(x[start:end], state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts), whole)
    torch.testing.assert_close(tuple(state), tuple(last))
    assert isinstance(state, LinearAttentionState)
    assert state.memory.shape == (B, H, D, D + 1) and state.recent.shape == (conv - 1, B, 3 * C)


def test_a_state_is_not_changed():
    layer = mixer()
    _, state = layer(some(T, B, C))
    before = [part.clone() for part in state]
    for length in (1, 5):
        layer(some(length, B, C), state)
    torch.testing.assert_close(list(state), before, rtol=0, atol=0)


def test_padding_writes_nothing_and_is_not_remembered():
    layer, x, lengths = mixer(), some(T, 3, C), [T, 2, 0]
    _, state = layer(some(4, 3, C))
    mask = torch.arange(T)[:, None] < torch.tensor(lengths)
    y, after = layer(x, state, mask)
    for b, length in enumerate(lengths):
        one = LinearAttentionState(state.memory[b : b + 1], state.recent[:, b : b + 1])
        alone = (x[:0, b : b + 1], one) if length == 0 else layer(x[:length, b : b + 1], one)
        torch.testing.assert_close(y[:length, b : b + 1], alone[0])
        torch.testing.assert_close(after.memory[b : b + 1], alone[1].memory)
        torch.testing.assert_close(after.recent[:, b : b + 1], alone[1].recent)


def test_it_is_causal_attention_with_other_weights():
    """Each head takes an average of values; its weights are products of positive features."""
    layer, x = mixer(conv=1), some(T, B, C)
    parts = zip((layer.query, layer.key, layer.value), layer.conv.weight.view(3, C), strict=True)
    q, k, v = ((x @ part.weight.T * w).unflatten(-1, (H, D)) for part, w in parts)
    q, k = F.elu(q) + 1, F.elu(k) + 1
    scores = torch.einsum("tbhd,sbhd->tsbh", q, k) * torch.ones(T, T).tril()[..., None, None]
    weights = scores / scores.sum(1, keepdim=True)
    expected = torch.einsum("tsbh,sbhd->tbhd", weights, v).flatten(-2) @ layer.output.weight.T
    torch.testing.assert_close(layer(x)[0], expected, rtol=1e-5, atol=1e-5)


def test_no_weight_left_is_no_division_by_zero():
    layer = LinearAttention(C, H)
    with torch.no_grad():
        layer.query.weight.fill_(-100.0)
        layer.conv.weight.fill_(1.0)
    y, _ = layer(torch.ones(T, B, C))
    y.sum().backward()
    assert y.isfinite().all()
    assert all(part.grad.isfinite().all() for part in layer.parameters())


def test_outputs_depend_on_no_later_token():
    layer, x = mixer(), some(T, B, C)
    for t in range(T):
        (grad,) = torch.autograd.grad(layer(x)[0][t].sin().sum(), x)
        assert (grad[: t + 1] != 0).any(dim=-1).all() and (grad[t + 1 :] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_memory_of_half_precision_is_single(dtype):
    layer, x = LinearAttention(C, H).to(dtype), some(T, B, C, dtype=dtype)
    y, state = layer(x)
    assert y.dtype == dtype and state.memory.dtype == torch.float32
    again, _ = layer(x[:1], state)
    assert again.dtype == dtype
