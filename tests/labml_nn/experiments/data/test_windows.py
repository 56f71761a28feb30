"""Windows to train on, and pieces to be judged by."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labml_nn.experiments.data.windows import Windows, draws, pieces


@given(
    st.integers(2, 90), st.data(), st.integers(1, 7), st.integers(0, 2**40), st.integers(0, 10**9)
)
def test_targets_are_the_tokens_one_later(size, data, batch_size, seed, step):
    seq_len = data.draw(st.integers(1, size - 1))
    windows = Windows(torch.arange(size), batch_size=batch_size, seq_len=seq_len, seed=seed)
    batch = windows.batch(step)
    assert batch.tokens.shape == batch.targets.shape == (seq_len, batch_size)
    assert torch.equal(batch.targets, batch.tokens + 1)
    assert torch.equal(
        batch.tokens - batch.tokens[:1], torch.arange(seq_len)[:, None].expand_as(batch.tokens)
    )
    assert batch.count == seq_len * batch_size


@given(st.integers(0, 1000), st.permutations(range(6)))
def test_a_batch_is_a_function_of_its_number(seed, order):
    text = torch.arange(400)
    first = Windows(text, batch_size=5, seq_len=7, seed=seed)
    second = Windows(text, batch_size=5, seq_len=7, seed=seed)
    straight = [first.batch(step).tokens for step in range(6)]
    for step in order:
        assert torch.equal(second.batch(step).tokens, straight[step])


def test_steps_and_seeds_have_batches_of_their_own():
    text = torch.arange(100_000)
    starts = {
        (seed, step): tuple(
            Windows(text, batch_size=6, seq_len=3, seed=seed).batch(step).tokens[0].tolist()
        )
        for seed in range(4)
        for step in range(25)
    }
    assert len(set(starts.values())) == 100


def test_every_place_is_reached_and_none_beyond():
    """Ten tokens have seven windows of three with one to follow; all are about as frequent."""
    windows = Windows(torch.arange(10), batch_size=70, seq_len=3, seed=3)
    starts = torch.cat([windows.batch(step).tokens[0] for step in range(100)])
    counts = starts.bincount()
    assert len(counts) == 7
    assert (counts - 1000).abs().max() < 150


def test_the_longest_window_has_one_place():
    batch = Windows(torch.arange(9), batch_size=2, seq_len=8, seed=1).batch(0)
    assert batch.tokens[:, 0].tolist() == list(range(8))
    assert batch.targets[-1].tolist() == [8, 8]


def test_windows_can_be_shorter_for_a_while():
    windows = Windows(torch.arange(50), batch_size=3, seq_len=9, seed=1)
    assert windows.batch(4, 2).tokens.shape == (2, 3)
    assert torch.equal(windows.batch(4, 9).tokens, windows.batch(4).tokens)
    starts = torch.cat([windows.batch(step, 1).tokens[0] for step in range(300)])
    assert starts.max() == 48  # shorter windows begin later as well
    with pytest.raises(ValueError, match=r"`seq_len` \(10\) must be at most 9"):
        windows.batch(4, 10)
    with pytest.raises(ValueError, match=r"`seq_len` .* at least 1"):
        windows.batch(4, 0)


@pytest.mark.parametrize(
    ("size", "way_out"),
    [
        (8, "lower `seq_len` to 7 or less, or take a longer text"),
        (1, "one more to be asked for; take a longer text"),
        (0, "one more to be asked for; take a longer text"),
    ],
)
def test_a_text_shorter_than_a_window(size, way_out):
    with pytest.raises(ValueError, match=rf"has {size} tokens, and `seq_len` \(8\) needs 9.*"):
        Windows(torch.arange(size), batch_size=2, seq_len=8, seed=1)
    with pytest.raises(ValueError, match=way_out):
        Windows(torch.arange(size), batch_size=2, seq_len=8, seed=1)


def test_numbers_below_zero():
    with pytest.raises(ValueError, match=r"`seed` \(-1\) must be 0 or more"):
        draws(-1, 2)
    with pytest.raises(ValueError, match=r"`step` \(-3\) must be 0 or more"):
        draws(1, -3)
    with pytest.raises(ValueError, match="`batch_size`"):
        Windows(torch.arange(9), batch_size=0, seq_len=2, seed=1)


@given(st.integers(2, 80), st.integers(1, 90), st.integers(1, 6))
def test_pieces_ask_for_every_token_once(size, seq_len, batch_size):
    text = torch.arange(size)
    batches = list(pieces(text, seq_len, batch_size))
    targets = torch.cat([batch.targets.flatten() for batch in batches])
    assert targets.sort().values.tolist() == list(range(1, size))
    assert sum(batch.count for batch in batches) == size - 1
    for batch in batches:
        assert torch.equal(batch.targets, batch.tokens + 1)
        assert batch.tokens.shape[0] <= seq_len
        assert batch.tokens.shape[1] <= batch_size


def test_pieces_follow_each_other():
    batches = list(pieces(torch.arange(14), 3, 2))
    assert [batch.tokens.t().tolist() for batch in batches] == [
        [[0, 1, 2], [3, 4, 5]],
        [[6, 7, 8], [9, 10, 11]],
        [[12]],
    ]


@pytest.mark.parametrize("size", [0, 1])
def test_pieces_of_nothing(size):
    """At once, and not when somebody asks for the first batch."""
    with pytest.raises(ValueError, match=rf"has {size} tokens; expected at least 2"):
        pieces(torch.arange(size), 3, 2)
