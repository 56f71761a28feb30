"""Runs of windows and pieces."""

import torch

from labml_nn.experiments.data.windows import Windows, pieces


def trace_batch(T, B):
    """A batch of windows, and the pieces of a split."""
    windows = Windows(torch.arange(T * 20), batch_size=B, seq_len=T, seed=1)
    windows.batch(0)


def trace_pieces(T, B):
    """A split of two batches, and no rest."""
    list(pieces(torch.arange(2 * B * T + 1), T, B))
