"""Runs of a sliding window: before it is full, and with padding."""

import torch

from labml_nn.transformers.sliding_window import run_in_window


def trace_reading(T, S, B, C):
    """T tokens continue after S."""
    window = None
    for length in (S, T):
        tokens = torch.randint(1, 9, (length, B))
        _, window = run_in_window(
            zeros(C), tokens, window, n_layers=1, max_len=S + T, padding_token=0
        )


def zeros(C):
    """A model of one layer whose features are zeros."""

    def run(tokens, positions, real, caches):
        new = torch.zeros(*tokens.shape, 1, C)
        caches[0].append(new, new)
        return new[:, :, 0]

    return run
