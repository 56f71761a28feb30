"""Runs of the modern components."""

import torch

from labml_nn.transformers.mha import KVCache
from labml_nn.transformers.modern import RMSNorm, RotaryQKNormAttention
from labml_nn.transformers.utils import subsequent_mask


def trace_attention(T, B, H, half, D, C):
    """A sequence and its continuation, with rotary positions and QK-norm."""
    x, cache = torch.randn(T, B, C), KVCache()
    attention = RotaryQKNormAttention(H, C, d_k=D)
    attention(query=x, key=x, value=x, mask=subsequent_mask(T), cache=cache)
    cache.positions = torch.arange(T)[:, None] + torch.arange(B)
    attention(query=x, key=x, value=x, cache=cache)


def trace_norm(T, B, C):
    """RMSNorm of the vectors of a transformer."""
    RMSNorm(C)(torch.randn(T, B, C))
