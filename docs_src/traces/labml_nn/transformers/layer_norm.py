"""Runs of layer normalisation."""

import torch

from labml_nn.transformers.layer_norm import LayerNorm


def trace_rows(T, B, C):
    """Of the rows of a transformer."""
    LayerNorm(C)(torch.randn(T, B, C))
