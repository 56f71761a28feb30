"""Pairs of sequences become batches: padding on either side, order, and the shift."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.encoder_decoder.batches import collate, shift, to_front

MODULE = "labml_nn.transformers.encoder_decoder.batches"
PAD, START, END = 0, 1, 2
PAIRS = [([3, 4, 5], [6]), ([7], [8, 9]), (torch.tensor([3, 5]), [])]

sequences = st.lists(st.integers(1, 9), min_size=1, max_size=6)
pairs = st.lists(st.tuples(sequences, sequences), min_size=1, max_size=4)


def columns(tokens):
    return tokens.T.tolist()


# By hand.


def test_padding_last():
    batch = collate(PAIRS, PAD)
    assert columns(batch.source) == [[3, 4, 5], [7, 0, 0], [3, 5, 0]]
    assert columns(batch.target) == [[6, 0], [8, 9], [0, 0]]
    assert batch.source_lengths.tolist() == [3, 1, 2]
    assert batch.target_lengths.tolist() == [1, 2, 0]
    assert batch.source_mask.shape == (1, 3, 3)
    assert batch.target_mask.shape == (1, 2, 3)
    assert columns(batch.source_mask[0].int()) == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert batch.source.dtype == batch.target.dtype == torch.long


def test_padding_first():
    batch = collate(PAIRS, PAD, pad="first")
    assert columns(batch.source) == [[3, 4, 5], [0, 0, 7], [0, 3, 5]]
    assert columns(batch.target) == [[0, 6], [8, 9], [0, 0]]
    assert batch.source_lengths.tolist() == [3, 1, 2]
    assert columns(batch.source_mask[0].int()) == [[1, 1, 1], [0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("pad", "expected"),
    [("last", [[5, 4, 3], [7, 0, 0], [5, 3, 0]]), ("first", [[5, 4, 3], [0, 0, 7], [0, 5, 3]])],
)
def test_reversing_turns_what_was_said_and_leaves_replies_and_padding(pad, expected):
    batch = collate(PAIRS, PAD, pad=pad, reverse_source=True)
    assert columns(batch.source) == expected
    assert torch.equal(batch.target, collate(PAIRS, PAD, pad=pad).target)


def test_another_padding_token_may_be_the_last_of_the_vocabulary():
    batch = collate([([0, 1], [0]), ([2], [1, 1])], 3)
    assert columns(batch.source) == [[0, 1], [2, 3]]
    assert columns(batch.source_mask[0].int()) == [[1, 1], [1, 0]]


def test_sizes_can_be_rounded_up():
    batch = collate(PAIRS, PAD, multiple_of=4, pad="first")
    assert batch.source.shape == (4, 3)
    assert batch.target.shape == (4, 3)
    assert columns(batch.source)[0] == [0, 3, 4, 5]
    assert collate(PAIRS, PAD, multiple_of=3).source.shape == (3, 3)


def test_replies_may_all_be_empty():
    batch = collate([([3], []), ([4], [])], PAD)
    assert columns(batch.target) == [[0], [0]]
    assert batch.target_lengths.tolist() == [0, 0]


def test_pairs_may_come_one_by_one_and_batches_move_as_a_whole():
    batch = collate((pair for pair in PAIRS), PAD)
    assert torch.equal(batch.source, collate(PAIRS, PAD).source)
    assert all(part.is_meta for part in batch.to("meta"))


# In front.


def test_to_the_front_by_hand():
    tokens = torch.tensor([[0, 3, 0], [0, 4, 0], [5, 0, 0], [6, 0, 0]])
    moved, lengths = to_front(tokens, PAD)
    assert columns(moved) == [[5, 6, 0, 0], [3, 4, 0, 0], [0, 0, 0, 0]]
    assert lengths.tolist() == [2, 2, 0]


@settings(deadline=None, max_examples=40)
@given(pairs=pairs, multiple=st.integers(1, 4))
def test_the_side_of_the_padding_is_undone(pairs, multiple):
    last, first = (collate(pairs, PAD, pad=pad, multiple_of=multiple) for pad in ("last", "first"))
    for tokens, there, lengths in (
        (first.source, last.source, last.source_lengths),
        (first.target, last.target, last.target_lengths),
    ):
        moved, counted = to_front(tokens, PAD)
        assert torch.equal(moved, there)
        assert torch.equal(counted, lengths)
        stays, _ = to_front(there, PAD)
        assert torch.equal(stays, there)


# Shifted.


def test_shift_by_hand():
    target, lengths = torch.tensor([[7, 8, 0], [9, 0, 0]]), torch.tensor([2, 1, 0])
    read, asked = shift(target, lengths, padding_token=PAD, start_token=START, end_token=END)
    assert columns(read) == [[1, 7, 9], [1, 8, 0], [1, 0, 0]]
    assert columns(asked) == [[7, 9, 2], [8, 2, 0], [2, 0, 0]]


@settings(deadline=None, max_examples=40)
@given(pairs=pairs)
def test_what_is_asked_at_a_position_is_read_at_the_next(pairs):
    batch = collate(pairs, PAD)
    read, asked = shift(
        batch.target, batch.target_lengths, padding_token=PAD, start_token=11, end_token=12
    )
    for b, (_, reply) in enumerate(pairs):
        n = len(reply)
        assert read[: n + 1, b].tolist() == [11, *reply]
        assert asked[: n + 1, b].tolist() == [*reply, 12]
        assert (asked[n + 1 :, b] == PAD).all()


def test_shift_keeps_the_type_of_tokens():
    target, lengths = torch.tensor([[7]], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
    for tokens in shift(target, lengths, padding_token=0, start_token=1, end_token=2):
        assert tokens.dtype == torch.int32


# Compilers.


def test_compiles_whole(unhooked):
    batches = unhooked(MODULE)

    def both(tokens):
        target, lengths = batches.to_front(tokens, PAD)
        return batches.shift(target, lengths, padding_token=0, start_token=1, end_token=2)

    tokens = collate(PAIRS, PAD, pad="first").source
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(compiled(tokens), both(tokens), strict=True):
        assert torch.equal(ours, theirs)


# What is refused.


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"pairs": []}, ValueError, "`pairs` is empty.*at least one pair"),
        ({"pairs": [([1], [2], [3])]}, ValueError, r"`pairs\[0\]` has 3 parts; expected two"),
        ({"pairs": [([1], [2]), ([], [2])]}, ValueError, r"`pairs\[1\]\[0\]` is empty"),
        (
            {"pairs": [([1], [2, 0])]},
            ValueError,
            r"`pairs\[0\]\[1\]` holds 0, the padding token, at position 1",
        ),
        ({"pairs": [([1.5], [2])]}, TypeError, r"`pairs\[0\]\[0\]` has dtype torch.float32"),
        ({"pairs": [(torch.ones(1, 1).long(), [2])]}, ValueError, r"\[1, 1\]; expected \[T\]"),
        ({"pad": "left"}, ValueError, r"`pad` \('left'\) must be \"last\" or \"first\""),
        ({"multiple_of": 0}, ValueError, r"`multiple_of` \(0\) must be at least 1"),
    ],
)
def test_what_collate_refuses(unhooked, change, error, message):
    call = {"pairs": PAIRS, "padding_token": PAD}
    with pytest.raises(error, match=message):
        unhooked(MODULE).collate(**{**call, **change})


@pytest.mark.parametrize("column", [[3, 0, 4], [0, 3, 0]])
def test_padding_stands_at_one_end_only(column):
    """`[0, 3, 0]` has both ends padded, and would be right after a turn: it is let through."""
    tokens = torch.tensor([[5, 6, 7], column]).T
    if column[0]:
        with pytest.raises(ValueError, match=r"`source` have the padding token.* in sequence 1"):
            to_front(tokens, PAD, name="source")
    else:
        assert columns(to_front(tokens, PAD)[0])[1] == [3, 0, 0]


def test_shift_refuses_lengths_that_cannot_be(unhooked):
    tokens = {"padding_token": PAD, "start_token": START, "end_token": END}
    target = torch.tensor([[3, 4], [5, 0]])
    with pytest.raises(ValueError, match=r"`lengths` are \[3, 1\]; expected 0 to 2"):
        unhooked(MODULE).shift(target, torch.tensor([3, 1]), **tokens)
