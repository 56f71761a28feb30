"""Runs of the tokenizer, of windows and pieces, and of pairs."""

import torch

from labml_nn.experiments.data import Examples, Replies, Vocabulary, Windows, pieces, reply_pieces


def trace_encode(T):
    """A text of T characters."""
    vocabulary = Vocabulary.from_text("ab")
    vocabulary.decode(vocabulary.encode("a" * T))


def trace_columns(S, T, B):
    """A batch of replies, and a part of it that is all of it."""
    batch = Examples.of(torch.ones(S, B).long(), torch.ones(T, B).long(), 0)
    batch.columns(0, B).to("cpu")


def trace_batch(T, B):
    """A batch of windows."""
    Windows(torch.arange(T * 20), batch_size=B, seq_len=T, seed=1).batch(0)


def trace_pieces(T, B):
    """A split of two batches, and no rest."""
    list(pieces(torch.arange(2 * B * T + 1), T, B))


def dialogue(S, B):
    """Lines of S characters, with one more than there are pairs."""
    return "\n".join(["x" * S] * (B + 1))


def trace_replies(S, B):
    """Pairs of equally long lines."""
    text = dialogue(S, B)
    Replies(text, Vocabulary.from_text(text), batch_size=B, seq_len=S, seed=1).batch(0)


def trace_reply_pieces(S, B):
    """All of them at once."""
    text = dialogue(S, B)
    list(reply_pieces(text, Vocabulary.from_text(text), seq_len=S, batch_size=B))
