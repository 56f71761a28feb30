"""Runs of the positional encodings."""

import torch

from labml_nn.transformers import positional_encoding as positions


def trace_table(T, C):
    """The sinusoids alone."""
    positions.get_positional_encoding(C, T)


def trace_modules(T, B, C, max_len):
    """Within the table, and past its end."""
    fixed = positions.PositionalEncoding(C, 0.1, max_len)
    fixed(torch.randn(T, B, C), offset=max_len)
    learned = positions.LearnedPositionalEncoding(C, 0.1, T + max_len)
    for module in (fixed, learned):
        module(torch.randn(T, B, C))
