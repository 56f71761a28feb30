"""Runs of a window: before it is full, and with padding that makes its texts slide apart."""

import torch

from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.window import read_by_halves


def trace_reading(T, S, B, C):
    """T tokens go on after S."""
    window = None
    for length in (S, T):
        tokens = torch.randint(1, 9, (length, B))
        _, window = read_by_halves(tokens, window, reader(C), max_len=S + T, padding_token=0)


def reader(C):
    """A model of one layer that makes rows of zeros."""

    def read(tokens, positions, mask, past):
        new = torch.zeros(*tokens.shape, 1, C)
        kept = new if past is None else torch.cat([past[0].keys, new])
        return torch.zeros(*tokens.shape, C), (KeysValues(kept, kept),)

    return read
