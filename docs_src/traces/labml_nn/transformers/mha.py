"""Runs of multi-head attention: to itself, to another sequence, with a cache."""

import torch

from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask


def trace_self_attention(T, B, H, D, C):
    """With dropout and without, all positions and the earlier ones."""
    attention, x = MultiHeadAttention(H, C), torch.randn(T, B, C)
    attention(query=x, key=x, value=x)
    attention.eval()(query=x, key=x, value=x, mask=subsequent_mask(T))


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
