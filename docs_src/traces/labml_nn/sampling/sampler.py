"""Runs of what all samplers share."""

import torch

from labml_nn.sampling import Chain, Greedy, Sampler


def trace_draws(B, V):
    """A fair draw, a greedy one, and the two in a row."""
    logits = torch.randn(B, V)
    for sampler in (Sampler(), Greedy(), Chain(Sampler(), Greedy())):
        sampler(logits)
