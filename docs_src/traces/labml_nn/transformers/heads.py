"""Runs of the map into heads."""

import torch

from labml_nn.transformers.heads import PrepareForMultiHeadAttention


def trace_map(T, B, H, K, C):
    """Of sequences."""
    PrepareForMultiHeadAttention(C, H, K, bias=True)(torch.randn(T, B, C))
