"""Runs of multi-head attention."""

import torch

from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.utils import padding_mask


def trace_cross_attention(T, S, B, H, D, Dv, C):
    """To another sequence, with padding."""
    attention = MultiHeadAttention(H, C, d_k=D, d_v=Dv)
    query, memory = torch.randn(T, B, C), torch.randn(S, B, C)
    mask = padding_mask(torch.arange(B) % S, S)
    attention(query=query, key=memory, value=memory, mask=mask)


def trace_generation(T, B, H, D, Dv, C):
    """Two parts of a sequence, with a cache."""
    attention, cache = MultiHeadAttention(H, C, d_k=D, d_v=Dv), KVCache()
    for _ in range(2):
        x = torch.randn(T, B, C)
        attention(query=x, key=x, value=x, cache=cache)
