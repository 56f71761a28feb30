"""However a text is cut, padded and batched, each position says what the definition says."""

import pytest
import torch
from autoregressive_tools import (
    PAD,
    POSITIONS,
    B,
    T,
    V,
    W,
    begin,
    close,
    model,
    naive,
    text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

seeds = st.integers(0, 2**16)
kinds = st.sampled_from(POSITIONS)


@settings(deadline=None, max_examples=25)
@given(
    seed=seeds,
    positions=kinds,
    norm_first=st.booleans(),
    max_len=st.integers(1, 8),
    length=st.integers(1, 25),
    data=st.data(),
)
def test_any_cut_gives_the_logits_of_the_definition(
    seed, positions, norm_first, max_len, length, data
):
    made = model(seed, positions=positions, norm_first=norm_first, max_len=max_len)
    tokens = text(length)
    expected = naive(made, tokens)
    close(made(tokens)[0], expected)
    state, read = None, 0
    while read < length:
        n = data.draw(st.integers(1, length - read), label="tokens in this call")
        logits, state = made(tokens[read : read + n], state)
        close(logits, expected[read : read + n])
        read += n


def test_token_by_token_for_long():
    made = model(d_k=5, d_v=8)
    tokens, state = text(5 * W), None
    expected = made(tokens)[0]
    close(expected, naive(made, tokens))
    for t, token in enumerate(tokens.split(1)):
        logits, state = made(token, state)
        close(logits, expected[t : t + 1])
        assert len(state.tokens) == t - begin(t, W) + 1
        assert torch.equal(state.tokens, tokens[begin(t, W) : t + 1])


@settings(deadline=None, max_examples=20)
@given(
    seed=seeds,
    positions=kinds,
    lengths=st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
    left=st.booleans(),
    data=st.data(),
)
def test_padding_changes_nothing(seed, positions, lengths, left, data):
    """In front or behind, in any cut, for texts that fill their windows at different times."""
    made = model(seed, positions=positions, padding_token=PAD)
    texts = [text(n, 1) for n in lengths]
    longest = max(lengths) + 2
    tokens = torch.full((longest, len(texts)), PAD)
    places = [slice(longest - n, longest) if left else slice(0, n) for n in lengths]
    for b, (place, each) in enumerate(zip(places, texts, strict=True)):
        tokens[place, b] = each[:, 0]
    state, rows, rest = None, [], tokens
    while len(rest):
        n = data.draw(st.integers(1, len(rest)), label="tokens in this call")
        logits, state = made(rest[:n], state)
        assert logits.isfinite().all()
        rows.append(logits)
        rest = rest[n:]
    for b, (place, each) in enumerate(zip(places, texts, strict=True)):
        close(torch.cat(rows)[place, b : b + 1], naive(made, each))


def test_padding_is_never_read():
    made = model(padding_token=PAD, tied=False)
    tokens = text(W)
    tokens[:3, 1] = PAD
    made(tokens)[0][tokens != PAD].sum().backward()
    gradient = made.embedding.tokens.weight.grad
    assert not gradient[PAD].any()
    assert gradient[tokens[tokens != PAD]].abs().amax(1).min() > 0


@settings(deadline=None, max_examples=20)
@given(seed=seeds, t=st.integers(1, T - 1), positions=kinds, norm_first=st.booleans())
def test_no_position_sees_the_future(seed, t, positions, norm_first):
    made = model(seed, positions=positions, norm_first=norm_first)
    tokens = text()
    other = tokens.clone()
    other[t:] = (other[t:] + torch.randint(1, V, (T - t, B))) % V
    before, after = made(tokens)[0], made(other)[0]
    close(before[:t], after[:t])
    assert not torch.allclose(before[t], after[t], atol=1e-3)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, order=st.permutations(range(4)), padded=st.booleans())
def test_order_of_the_batch_does_not_matter(seed, order, padded):
    made = model(seed, padding_token=PAD if padded else None)
    tokens = text(batch=4)
    if padded:
        for b in range(4):
            tokens[: 2 * b, b] = PAD
    logits, state = made(tokens)
    moved, other = made(tokens[:, order])
    real = tokens[:, order] != PAD
    close(moved[real], logits[:, order][real])
    more = text(3, 4)
    close(made(more[:, order], other)[0], made(more, state)[0][:, order])


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_order_of_the_text_does_matter(positions):
    made = model(positions=positions)
    tokens = text(W)
    swapped = tokens[[1, 0, *range(2, W)]]
    assert not torch.allclose(made(tokens)[0][-1], made(swapped)[0][-1], atol=1e-3)


def test_a_state_is_a_value():
    made = model()
    _, state = made(text(5))
    before = [x.clone() for pair in state.layers for x in pair]
    more = text(6)
    once, twice = made(more, state)[0], made(more, state)[0]
    assert torch.equal(once, twice)
    assert all(
        torch.equal(a, b)
        for a, b in zip(before, (x for pair in state.layers for x in pair), strict=True)
    )


def test_a_state_has_no_gradients_and_outlives_training():
    made = model(dropout_prob=0.3).train()
    _, state = made(text(5))
    assert not any(x.requires_grad for pair in state.layers for x in pair)
    made.eval()
    assert torch.equal(made(text(1), state)[0].isfinite(), torch.ones(1, B, V).bool())


def test_gradients_flow_within_a_call_across_a_slide():
    """The second half of a long text is read with keys of the first half, in one graph."""
    made = model(positions="none")
    tokens = text(W + 1)
    logits, _ = made(tokens)
    weight = made.embedding.tokens.weight
    (whole,) = torch.autograd.grad(logits[-1].sum(), weight)
    (alone,) = torch.autograd.grad(made(tokens[begin(W, W) :])[0][-1].sum(), weight)
    close(whole, alone)
