"""Runs of the positional encodings."""

import torch

from labml_nn.transformers import positional_encoding as positions


def trace_table(T, H, D, C):
    """The sinusoids alone."""
    positions.get_positional_encoding(C, T)


def trace_fixed(T, B, H, D, C, max_len):
    """Within the table, and past its end."""
    fixed = positions.PositionalEncoding(C, 0.1, max_len)
    for offset in (0, max_len):
        fixed(torch.randn(T, B, C), offset=offset)


def trace_learned(B, C, max_len):
    """A sequence as long as the table."""
    positions.LearnedPositionalEncoding(C, 0.1, max_len)(torch.randn(max_len, B, C))
