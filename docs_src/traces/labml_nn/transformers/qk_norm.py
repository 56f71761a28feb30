"""Runs of attention that compares directions."""

import torch

from labml_nn.transformers.qk_norm import QKNormAttention


def trace_attention(T, S, B, H, K, D, C):
    """T positions look at S others."""
    x, y = torch.randn(T, B, C), torch.randn(S, B, C)
    QKNormAttention(H, C, d_k=K, d_v=D)(query=x, key=y, value=y)
