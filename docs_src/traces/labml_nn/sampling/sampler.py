"""Runs of what all samplers share."""

import torch

from labml_nn.sampling.sampler import Chain, Greedy, Sampler, leave_only


def trace_samplers(B, V):
    """A fair draw, the most probable, and a chain."""
    logits = torch.randn(B, V)
    for sampler in (Sampler(), Greedy(), Chain(Greedy())):
        sampler(logits)
    Greedy().distribution(logits)


def trace_leaving(B, V, k):
    """All but k tokens are ruled out."""
    logits = torch.randn(B, V)
    leave_only(logits, torch.arange(k).expand(B, k) % V)
