"""Runs of the samplers."""

import torch

from labml_nn.sampling import Nucleus, Temperature, TopK


def trace_samplers(B, V):
    """One after the other."""
    for sampler in (Temperature(0.8), TopK(2), Nucleus(0.9)):
        sampler(torch.randn(B, V))
