"""Texts of different lengths in one batch: each reads as it would alone."""

import copy
import pickle

import pytest
import torch
from feedback_tools import BOTH, B, C, build, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.feedback.memory import FeedbackMemory, align, scan_real
from labml_nn.transformers.feedback.stack import PersistentStack

T, N = 7, 3  # steps and texts
HORIZONS = pytest.mark.parametrize("horizon", [None, 3])
REAL = st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=T, max_size=T)


def alone(model, x, real):
    """Outputs of each text without its padding, put back where its tokens stood."""
    y = torch.zeros_like(x)
    for b in range(x.shape[1]):
        if real[:, b].any():
            y[real[:, b], b] = model(x[real[:, b], b : b + 1])[:, 0]
    return y


@BOTH
@HORIZONS
@settings(deadline=None, max_examples=15)
@given(real=REAL)
def test_a_batch_reads_as_each_text_alone(shared, horizon, real):
    model, x, real = build(shared, horizon=horizon), tokens(T, N, C), torch.tensor(real)
    y, _ = model.scan(x, real=real)
    torch.testing.assert_close(y, alone(model, x, real), rtol=1e-5, atol=1e-5)


@BOTH
@HORIZONS
@settings(deadline=None, max_examples=15)
@given(real=REAL, cuts=st.sets(st.integers(1, T - 1)))
def test_it_does_not_matter_how_padded_texts_are_cut(shared, horizon, real, cuts):
    """Memories of different lengths go on, with padding and without."""
    model, x, real = build(shared, horizon=horizon), tokens(T, N, C), torch.tensor(real)
    expected, memory, outputs = alone(model, x, real), None, []
    cuts = sorted(cuts)
    pieces = zip(torch.tensor_split(x, cuts), torch.tensor_split(real, cuts), strict=True)
    for piece, its_real in pieces:
        everything = bool(its_real.all())
        y, memory = model.scan(piece, memory, real=None if everything else its_real)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs), expected, rtol=1e-5, atol=1e-5)


@BOTH
@HORIZONS
def test_padding_holds_anything(shared, horizon):
    """What stands in the padding's place changes no output and no row of memory."""
    model, x = build(shared, horizon=horizon), tokens(T, N, C)
    real = torch.arange(T)[:, None] >= torch.tensor([0, 2, 5])
    other = torch.where(real[..., None], x, 100 * tokens(T, N, C, seed=9))
    for (y, memory), (z, its) in [(model.scan(x, real=real), model.scan(other, real=real))]:
        assert torch.equal(y, z)
        assert torch.equal(memory.keys.rows, its.keys.rows)
        assert torch.equal(memory.values.rows, its.values.rows)


@BOTH
def test_gradients_are_those_of_each_text_alone(shared):
    model, x = build(shared, horizon=3), tokens(T, N, C).requires_grad_()
    real = torch.arange(T)[:, None] < torch.tensor([7, 2, 4])
    weight = tokens(T, N, C, seed=4)
    wanted = [x, *model.parameters()]
    got = torch.autograd.grad((model.scan(x, real=real)[0] * weight).sum(), wanted)
    expected = torch.autograd.grad((alone(model, x, real) * weight).sum(), wanted)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert got[0][~real].count_nonzero() == 0


@BOTH
def test_gradients_flow_through_memories_side_by_side(shared):
    model, x = build(shared), tokens(T, N, C).requires_grad_()
    real = torch.arange(T - 2)[:, None] < torch.tensor([5, 0, 4])
    y, memory = model.scan(x[:-2], real=real)
    after, _ = model.scan(x[-2:], memory)
    whole = torch.cat([real, torch.ones(2, N, dtype=torch.bool)])
    expected = alone(model, x, whole)
    torch.testing.assert_close(torch.cat([y, after]), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        torch.autograd.grad(after.square().sum(), x)[0],
        torch.autograd.grad(expected[-2:].square().sum(), x)[0],
        rtol=1e-4,
        atol=1e-5,
    )


@BOTH
def test_nothing_but_padding(shared):
    model, x = build(shared), tokens(T, N, C)
    nothing = torch.zeros(T, N, dtype=torch.bool)
    y, memory = model.scan(x, real=nothing)
    assert y.count_nonzero() == 0
    assert len(memory) == 0
    z, memory = model.scan(x, memory)
    torch.testing.assert_close(z, model(x))
    _, same = model.scan(x, memory, real=nothing)
    assert torch.equal(same.keys.rows, memory.keys.rows)


@BOTH
def test_equal_lengths_need_no_mask(shared):
    model, x = build(shared), tokens(T, B, C)
    real = torch.ones(T, B, dtype=torch.bool)
    real[0, 0] = real[3, 1] = False
    _, memory = model.scan(x, real=real)
    assert memory.lengths is None
    assert len(memory) == T - 1


@BOTH
def test_a_ragged_memory_is_still_a_value(shared):
    model, x = build(shared, horizon=3), tokens(T, N, C)
    real = torch.arange(5)[:, None] < torch.tensor([5, 2, 0])
    _, memory = model.scan(x[:5], real=real)
    memory = memory.detach()
    assert memory.lengths.tolist() == [3, 2, 0]
    expected = model.step(x[5], memory)[0]
    for copied in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory)), memory):
        assert torch.equal(model.step(x[5], copied)[0], expected)


@BOTH
def test_autocast_and_double(shared):
    model, x = build(shared), tokens(T, N, C)
    real = torch.arange(T)[:, None] >= torch.tensor([0, 2, 7])
    expected = alone(model, x, real)
    with torch.autocast("cpu", torch.bfloat16):
        _, memory = model.scan(x[:3], real=real[:3])
        y, _ = model.scan(x[3:], memory, real=real[3:])
    torch.testing.assert_close(y.float(), expected[3:], rtol=0.1, atol=0.1)
    y, _ = model.double().scan(x.double(), real=real)
    torch.testing.assert_close(y, alone(model, x.double(), real), rtol=1e-10, atol=1e-10)


def test_readable_attention_takes_the_mask_too():
    """Own scores make attention take the readable form."""
    model, x = build(False), tokens(T, N, C)
    real = torch.arange(T)[:, None] >= torch.tensor([0, 2, 5])
    memory = model.scan(x[:5], real=real[:5])[1]
    expected, _ = model.scan(x[5:], memory)
    for layer in model.layers:
        attn = layer.attn
        attn.get_scores = lambda query, key, attn=attn: type(attn).get_scores(attn, query, key)
    got, _ = model.scan(x[5:], memory)
    torch.testing.assert_close(got, expected)


def test_hidden_rows_have_no_weight_and_the_others_sum_to_one():
    model = build(True, store_attn=True)
    attn = model.layers[0].attn
    key = tokens(4, N, 3, 4)
    mask = torch.arange(4)[:, None] >= torch.tensor([0, 3, 4])
    attn(query=tokens(N, C), key=key, value=key, mask=mask)
    assert attn.attn[~mask].count_nonzero() == 0
    torch.testing.assert_close(attn.attn.sum(0), torch.tensor([1.0, 1, 0])[:, None].expand(N, 3))


def test_aligned_by_hand():
    def memory(*numbers, lengths=None):
        rows = torch.tensor(numbers)[:, None, None].expand(-1, 2, 1).contiguous()
        stack = PersistentStack.of(rows)
        return FeedbackMemory(stack, stack, 1, lengths)

    aligned = align([memory(1.0), memory(1.0, 2.0, 3.0)])
    assert aligned.keys.rows[..., 0].T.tolist() == [[0, 0, 1], [1, 2, 3]]
    assert aligned.values is aligned.keys
    assert aligned.mask().T.tolist() == [[False, False, True], [True, True, True]]
    # Rows that belong to no text any more are let go.
    shorter = memory(1.0, 2.0, 3.0, lengths=torch.tensor([1, 2]))
    assert len(align([shorter, shorter])) == 2


def test_errors(unhooked):
    package = unhooked("labml_nn.transformers.feedback")
    model, x = build(True, package=package), tokens(T, N, C)
    for real in (torch.ones(N, T, dtype=torch.bool), torch.ones(T, N)):
        with pytest.raises(
            ValueError, match=r"`real` is .*expected \[T, B\] = \[7, 3\] of torch.b"
        ):
            model.scan(x, real=real)
    rows = tokens(4, N, 3, 4)
    with pytest.raises(ValueError, match=r"`mask` is \[3, 4\] of .*S = 4, B = 3"):
        model.layers[0].attn(
            query=x[0], key=rows, value=rows, mask=torch.ones(N, 4, dtype=torch.bool)
        )


def test_scan_real_reads_no_step_too_many():
    seen = []

    def scan(x_seq, memory):
        seen.append(len(x_seq))
        for row in x_seq:
            memory = memory.push(row)
        return x_seq, memory

    real = torch.arange(T)[:, None] < torch.tensor([2, 5, 5])
    memory = FeedbackMemory.empty(torch.zeros(()), (N, C), 1)
    scan_real(scan, tokens(T, N, C), real, memory)
    assert seen == [2, 3]
