"""The tokenizer, the corpus, batches of windows and of pairs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.experiments.data import (
    Corpus,
    Examples,
    ReplyTask,
    TextTask,
    Vocabulary,
    Words,
    pairs_of,
    truncate_reply,
    truncate_source,
)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_decoding_inverts_encoding(text):
    vocabulary = Vocabulary.from_text(text)
    tokens = vocabulary.encode(text)
    assert vocabulary.decode(tokens) == vocabulary.decode(tokens.tolist()) == text
    assert list(vocabulary) == sorted(set(text))
    assert tokens.dtype == torch.int64 and len(tokens) == len(text)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (
            lambda: Vocabulary("\nabc").encode("abcX\ud800"),
            "'X' is not in the vocabulary; use only",
        ),
        (lambda: Vocabulary("abc").decode([0, 3]), r"`tokens` \(0 to 3\) must be from 0 to 2"),
        (lambda: Vocabulary("abc").decode([-1]), r"`tokens` \(-1 to -1\) must be"),
        (lambda: Vocabulary(""), "at least one character, and each once"),
        (lambda: Words(("a", "b", "a")), "at least one word, and each once"),
        (lambda: Words.from_text("a", min_count=0), r"`min_count` \(0\) must be at least 1"),
        (lambda: Words.from_text("a", max_words=-1), r"`max_words` \(-1\) must be at least 1"),
        (lambda: Corpus.of("x", ""), "x is empty; expected a text"),
        (lambda: TextTask(Corpus.of("x", "abcdefghij")), "has 1 tokens; expected at least 2"),
        (lambda: windows(5, seq_len=5).batch(0), r"has 5 tokens, and `seq_len` \(5\) needs 6, one"),
        (lambda: pairs_of("one line"), "speeches or lines in this split; expected at least 2"),
        (lambda: pairs_of("ROMEO: alone\n\n"), "speeches or lines in this split; expected at"),
    ],
)
def test_what_is_refused(refused, message):
    with pytest.raises(ValueError, match=message):
        refused()


TREEBANK = " no it was n't black monday \n but while the u.s. stock <unk> N @,@ N \n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'Tis so, my lord: nay!\nI' the", "'Tis|so|,|my|lord|:|nay|!|\n|I'|the"),
        ("at 10:30 a.m. or so.\n\nNo?!", "at|10:30|a.m.|or|so|.|\n|\n|No|?|!"),
        (TREEBANK, TREEBANK.replace(" ", "|").strip("|")),
    ],
)
def test_words_and_marks_are_tokens(text, words):
    vocabulary = Words.from_text(text)
    assert Words.split(text) == words.split("|")
    assert len(vocabulary) == len({*words.split("|"), "<unk>"})
    assert vocabulary.decode(vocabulary.encode(text)) == text.replace(" \n ", "\n").replace(
        " \n", "\n"
    ).strip(" ")


def test_rare_words_are_unknown():
    text = "b b b a a <unk> c c c c d"
    assert Words.from_text(text).texts == ("<unk>", "c", "b", "a", "d")
    assert Words.from_text(text, min_count=2, max_words=3).texts == ("<unk>", "c", "b")
    vocabulary = Words.from_text(text, min_count=3)
    assert vocabulary.encode("a c e\nb").tolist() == [0, 1, 0, 0, 2]
    assert vocabulary.decode([1, 0]) == "c <unk>" and vocabulary != Vocabulary(vocabulary.texts)


def test_the_loss_of_characters_becomes_one_of_words():
    corpus = Corpus.of("hours", "x" * 90 + "hour, hour")
    assert TextTask(corpus).length_of_words == 10 / 3
    words = TextTask(corpus, vocabulary=Words.from_text("hour, hour"))
    assert words.length_of_words == 1 and words.model_fields == {"n_vocab": 3}


def test_the_last_tenth_is_held_out():
    corpus = Corpus.of("numbers", "0123456789" * 3 + "xy")
    assert corpus.train == corpus.text[:28] and corpus.validation == "89xy"


def split(text, train, validation):
    """A text with splits that are not a tenth and the rest."""
    return type("Split", (Corpus,), {"train": train, "validation": validation})("split", text, "")


def windows(length, held_out=2, **sizes):
    """A task whose training text has the tokens 0 to `length - 1`."""
    text = "".join(map(chr, range(300, 300 + max(length, held_out))))
    corpus = split(text, text[:length], text[:held_out])
    return TextTask(corpus, **{"batch_size": 1, "seq_len": 4, "seed": 1, **sizes})


def test_a_window_is_followed_by_its_targets():
    task = windows(50, batch_size=300)
    batch = task.batch(3)
    assert batch.tokens.shape == (4, 300) and batch.count == 1200
    assert torch.equal(batch.targets, batch.tokens + 1)
    assert torch.equal(batch.tokens - batch.tokens[0], torch.arange(4)[:, None].expand(4, 300))
    starts = set(batch.tokens[0].tolist())
    assert min(starts) == 0 and max(starts) == 45  # every start with a target is drawn
    assert task.batch(3, seq_len=2).tokens.shape == (2, 300)
    assert windows(6, seq_len=5).batch(0).tokens[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_batch_is_a_function_of_seed_and_step():
    def batch(seed, step):
        return windows(999, batch_size=8, seed=seed).batch(step).tokens

    assert torch.equal(batch(1, 5), batch(1, 5))
    assert not torch.equal(batch(1, 5), batch(1, 6))
    assert not torch.equal(batch(1, 1), batch(2, 0))


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 4))
def test_pieces_ask_for_every_token_but_the_first(length, seq_len, batch_size):
    batches = list(windows(9, length, seq_len=seq_len, batch_size=batch_size).validation())
    targets = torch.cat([batch.targets.t().flatten() for batch in batches])
    assert torch.equal(targets, torch.arange(1, length))
    assert sum(batch.count for batch in batches) == length - 1
    for batch in batches:
        assert torch.equal(batch.targets, batch.tokens + 1)
        assert batch.tokens.shape[0] <= seq_len and batch.tokens.shape[1] <= batch_size


def test_a_batch_is_cut_by_columns():
    targets = torch.tensor([[1, 1, 0], [1, 0, 0]])
    batch = Examples.of(torch.ones(4, 3).long(), targets, padding_token=0, ends=1)
    assert batch.count == 2 + 1 + 0 + 3
    assert [batch.columns(i, i + 1).count for i in range(3)] == [3, 2, 1]
    assert batch.columns(1, 3).tokens.shape == (4, 2) and batch.columns(1, 3).padding_token == 0
    assert batch.to("meta").tokens.device.type == "meta"


# Speeches and replies.
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


def made(text, **changes):
    chosen = {"batch_size": 3, "seq_len": 30, "seed": 1, **changes}
    return ReplyTask(split(text, text, text), **chosen)


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


def test_a_batch_holds_pairs_padded_last():
    replies = made(DIALOGUE, batch_size=4, seq_len=64)
    vocabulary = replies.vocabulary
    batch = replies.batch(0)
    expected = [(said, truncate_reply(reply, 64)) for said, reply in pairs_of(DIALOGUE)]
    assert batch.padding_token == len(vocabulary)
    assert batch.count == sum(len(reply) + 1 for _, reply in expected)
    for tokens in (batch.tokens, batch.targets):
        padding = tokens == len(vocabulary)
        assert padding.any() and not padding[0].any()
        assert (padding[1:] | ~padding[:-1]).all()  # never something behind nothing


def test_a_batch_of_pairs_is_a_function_of_its_number():
    first, second = (made(NUMBERS, batch_size=6, seed=2) for _ in range(2))
    straight = [first.batch(step) for step in range(15)]
    for step in (14, 3, 9, 0, 3):
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


def test_pairs_can_be_shorter_for_a_while():
    replies = made(DIALOGUE, seq_len=40)
    for said, reply in shown(replies.batch(0, 9), replies.vocabulary):
        assert len(said) <= 9 and len(reply) <= 9
    assert torch.equal(replies.batch(0, 40).tokens, replies.batch(0).tokens)


@given(st.integers(1, 60), st.integers(1, 9))
def test_pieces_hold_every_pair_once(seq_len, batch_size):
    task = made(DIALOGUE, seq_len=seq_len, batch_size=batch_size)
    vocabulary, batches = task.vocabulary, list(task.validation())
    seen = [pair for batch in batches for pair in shown(batch, vocabulary)]
    pairs = pairs_of(DIALOGUE)
    expected = [(truncate_source(a, seq_len), truncate_reply(b, seq_len)) for a, b in pairs]
    assert sorted(seen) == sorted(expected)
    assert all(batch.tokens.shape[1] <= batch_size for batch in batches)
