"""Speeches become pairs, and pairs become batches."""

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.experiments.data import Vocabulary
from labml_nn.experiments.replies import (
    Replies,
    pairs_of,
    reply_pieces,
    truncate_reply,
    truncate_source,
)

DIALOGUE = """\
BENVOLIO:
Good-morrow, cousin.

ROMEO:
Is the day so young?

BENVOLIO:
But new struck nine.

HASTINGS:

ROMEO:
Ay me! sad hours seem long.
Was that my father that went hence so fast?
"""
NUMBERS = "\n".join(str(7**n) for n in range(41))


def made(text, **settings):
    chosen = {"batch_size": 3, "seq_len": 30, "seed": 1, **settings}
    return Replies(text, Vocabulary.from_text(text), **chosen)


def column(tokens, vocabulary):
    return vocabulary.decode(tokens[tokens != len(vocabulary)])


def shown(batch, vocabulary):
    """Pairs of a batch, as text."""
    sides = zip(batch.tokens.t(), batch.targets.t(), strict=True)
    return [(column(said, vocabulary), column(reply, vocabulary)) for said, reply in sides]


def test_each_speech_is_answered_by_the_next():
    pairs = pairs_of(DIALOGUE)
    assert len(pairs) == 4
    assert pairs[0] == ("BENVOLIO:\nGood-morrow, cousin.", "ROMEO:\nIs the day so young?")
    assert pairs[2][1] == pairs[3][0] == "HASTINGS:"


def test_in_other_texts_each_line_is_answered_by_the_next():
    assert pairs_of("one\n\ntwo\n  \nthree\n") == [("one", "two"), ("two", "three")]
    half = "ROMEO:\nAy me!\n\nnothing\n"  # half of two are not most
    assert pairs_of(half)[0] == ("ROMEO:", "Ay me!")


def test_a_text_of_lines_is_said_to_be_one(caplog):
    with caplog.at_level(logging.WARNING):
        made(DIALOGUE)
        assert not caplog.messages
        made(NUMBERS)
    (message,) = caplog.messages
    assert message.startswith("The text has no speeches") and "line before it" in message


@pytest.mark.parametrize("text", ["", "\n \n", "one line", "ROMEO: alone\n\n"])
def test_nobody_replies(text):
    with pytest.raises(ValueError, match="speeches or lines in this split; expected at least 2"):
        pairs_of(text)


def test_a_long_reply_is_cut_after_a_line():
    speech = "ROMEO:\nAy me!\nsad hours"
    assert truncate_reply(speech, 23) == truncate_reply(speech, 99) == speech
    for longest in range(13, 23):
        assert truncate_reply(speech, longest) == "ROMEO:\nAy me!"
    assert truncate_reply(speech, 12) == truncate_reply(speech, 6) == "ROMEO:"
    assert truncate_reply(speech, 4) == "ROME"


def test_of_a_long_saying_the_name_and_the_end_stay():
    speech = "ROMEO:\nAy me!\nsad\nhours"
    assert truncate_source(speech, 23) == truncate_source(speech, 99) == speech
    assert truncate_source(speech, 22) == truncate_source(speech, 16) == "ROMEO:\nsad\nhours"
    assert truncate_source(speech, 15) == truncate_source(speech, 12) == "ROMEO:\nhours"
    assert truncate_source(speech, 11) == "e!\nsad\nhours"[-11:]
    assert truncate_source("a line without end", 3) == "end"


@given(st.text("ab:\n", max_size=40), st.integers(1, 45))
def test_cuts_are_short_enough_and_parts(speech, longest):
    begun, ended = truncate_reply(speech, longest), truncate_source(speech, longest)
    assert max(len(begun), len(ended)) <= longest
    assert speech.startswith(begun)
    assert speech.endswith(ended.split("\n", 1)[-1])
    if speech and not speech.startswith("\n"):
        assert begun and ended


def test_a_batch_holds_pairs_padded_last():
    replies = made(DIALOGUE, batch_size=4, seq_len=64)
    vocabulary = replies.vocabulary
    batch = replies.batch(0)
    expected = [(said, truncate_reply(reply, 64)) for said, reply in pairs_of(DIALOGUE)]
    assert sorted(shown(batch, vocabulary)) == sorted(expected)
    assert batch.padding_token == len(vocabulary)
    assert batch.count == sum(len(reply) + 1 for _, reply in expected)
    for tokens in (batch.tokens, batch.targets):
        padding = tokens == len(vocabulary)
        assert padding.any() and not padding[0].any()
        assert (padding[1:] | ~padding[:-1]).all()  # never something behind nothing


@settings(max_examples=20)
@given(st.integers(0, 999), st.permutations(range(15)))
def test_a_batch_of_pairs_is_a_function_of_its_number(seed, order):
    sizes = {"batch_size": 6, "seed": seed}
    first, second = made(NUMBERS, **sizes), made(NUMBERS, **sizes)
    straight = [first.batch(step) for step in range(15)]
    for step in order:
        again = second.batch(step)
        assert torch.equal(again.tokens, straight[step].tokens)
        assert torch.equal(again.targets, straight[step].targets)


@settings(max_examples=25)
@given(st.integers(0, 99), st.integers(1, 13), st.integers(0, 2))
def test_in_an_epoch_no_pair_comes_twice(seed, batch_size, epoch):
    replies = made(NUMBERS, seed=seed, batch_size=batch_size, seq_len=40)
    steps = 40 // batch_size
    seen = [
        pair
        for step in range(epoch * steps, epoch * steps + steps)
        for pair in shown(replies.batch(step), replies.vocabulary)
    ]
    assert len(seen) == len(set(seen)) == steps * batch_size


def test_epochs_and_seeds_differ():
    replies, other = made(NUMBERS), made(NUMBERS, seed=2)
    first, next_epoch = replies.batch(0), replies.batch(13)
    assert first.targets.tolist() != next_epoch.targets.tolist()
    assert first.targets.tolist() != other.batch(0).targets.tolist()


def test_neighbours_have_similar_lengths():
    """A batch is hardly longer than its pairs are; at random it would be nearly twice as long."""
    text = "\n".join("x" * (1 + 37 * n % 101) for n in range(1001))
    replies = made(text, batch_size=10, seq_len=101)
    needed = taken = 0
    for step in range(100):
        batch = replies.batch(step)
        needed += sum(max(map(len, pair)) for pair in shown(batch, replies.vocabulary))
        taken += 10 * max(len(batch.tokens), len(batch.targets))
    assert 0.9 < needed / taken < 1


def test_few_pairs_come_more_than_once():
    replies = made(DIALOGUE, batch_size=11)
    for step in range(3):
        pairs = shown(replies.batch(step), replies.vocabulary)
        assert len(pairs) == 11
        assert len(set(pairs)) == 4


def test_pairs_can_be_shorter_for_a_while():
    replies = made(DIALOGUE, seq_len=40)
    for said, reply in shown(replies.batch(0, 9), replies.vocabulary):
        assert len(said) <= 9 and len(reply) <= 9
    assert torch.equal(replies.batch(0, 40).tokens, replies.batch(0).tokens)
    with pytest.raises(ValueError, match=r"`seq_len` \(41\) must be at most 40"):
        replies.batch(0, 41)


def test_sizes_below_one():
    with pytest.raises(ValueError, match="`batch_size`"):
        made(DIALOGUE, batch_size=0)
    with pytest.raises(ValueError, match="`seq_len`"):
        reply_pieces(DIALOGUE, Vocabulary.from_text(DIALOGUE), seq_len=0, batch_size=2)
    with pytest.raises(ValueError, match=r"`step` \(-1\) must be at least 0"):
        made(NUMBERS).batch(-1)


@given(st.integers(1, 60), st.integers(1, 9))
def test_pieces_hold_every_pair_once(seq_len, batch_size):
    vocabulary = Vocabulary.from_text(DIALOGUE)
    batches = list(reply_pieces(DIALOGUE, vocabulary, seq_len=seq_len, batch_size=batch_size))
    seen = [pair for batch in batches for pair in shown(batch, vocabulary)]
    expected = [
        (truncate_source(a, seq_len), truncate_reply(b, seq_len)) for a, b in pairs_of(DIALOGUE)
    ]
    assert sorted(seen) == sorted(expected)
    assert sum(batch.count for batch in batches) == sum(len(b) + 1 for _, b in expected)
    assert all(batch.tokens.shape[1] <= batch_size for batch in batches)


def test_pieces_of_nobody():
    """At once, and not when somebody asks for the first batch."""
    with pytest.raises(ValueError, match="expected at least 2"):
        reply_pieces("alone", Vocabulary("alone"), seq_len=3, batch_size=2)
