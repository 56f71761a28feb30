"""Runs of RMS normalisation, as it is read and by hand."""

import torch

from labml_nn.transformers.rms_norm import RMSNorm


def trace_rows(T, B, C):
    """Of the rows of a transformer, and back."""
    norm, x = RMSNorm(C), torch.randn(T, B, C, requires_grad=True)
    norm.read(x)
    norm(x).sum().backward()
