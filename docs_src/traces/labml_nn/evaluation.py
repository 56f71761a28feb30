"""Runs of the ends of texts."""

import torch

from labml_nn.evaluation import at_ends, ends_of


def trace_ends(T, B, V):
    """Texts of different lengths, filled up with token 0."""
    lengths = T - torch.arange(B) % T
    tokens = torch.where(torch.arange(T)[:, None] < lengths, 1, 0)
    at_ends(torch.randn(T, B, V), ends_of(tokens, 0))
