"""Runs of the tokenizer, of windows and pieces, and of pairs."""

import torch

from labml_nn.experiments.data import Corpus, Examples, ReplyTask, TextTask, Vocabulary, Words


class Whole(Corpus):
    """A text of which both splits are the whole."""

    train = validation = property(lambda self: self.text)


def trace_encode(T):
    """A text of T characters."""
    vocabulary = Vocabulary.from_text("ab")
    vocabulary.decode(vocabulary.encode("a" * T))


def trace_words(T):
    """Words and back."""
    words = Words.from_text("a b " * T)
    words.decode(words.encode("a " * T))


def trace_columns(S, T, B):
    """A batch of replies, and a part of it that is all of it."""
    batch = Examples.of(torch.ones(S, B).long(), torch.ones(T, B).long(), 0)
    batch.columns(0, B).to("cpu")


def trace_batch(T, B):
    """A batch of windows."""
    TextTask(Corpus.of("letters", "ab" * (T * 20)), batch_size=B, seq_len=T).batch(0)


def trace_pieces(T, B):
    """A split of two batches, and no rest."""
    text = "a" * (10 * (2 * B * T + 1))
    list(TextTask(Corpus.of("letters", text), batch_size=B, seq_len=T).validation())


def replies(S, B):
    """Equally long lines, of which each split has one more than a batch has pairs."""
    text = "\n".join(["x" * S] * (B + 1))
    return ReplyTask(Whole.of("lines", text), batch_size=B, seq_len=S)


def trace_replies(S, B):
    """Pairs of equally long lines."""
    replies(S, B).batch(0)


def trace_reply_pieces(S, B):
    """All of them at once."""
    list(replies(S, B).validation())
