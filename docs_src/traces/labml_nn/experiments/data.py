"""Runs of the tokenizer, of windows and of pieces."""

import torch

from labml_nn.experiments.data import Examples, Vocabulary, Windows, pieces


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
