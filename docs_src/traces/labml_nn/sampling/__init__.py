"""Runs of the samplers."""

import torch

from labml_nn.sampling import Nucleus, Temperature, TopK


def trace_samplers(B, V):
    """Each of them."""
    logits = torch.randn(B, V)
    for sampler in (Temperature(0.8), TopK(V), Nucleus(0.9)):
        sampler.distribution(logits)
