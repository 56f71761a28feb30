"""Runs of a map, from all heads to one picture."""

import torch

from labml_nn.attention_maps.recording import record_attention
from labml_nn.transformers.mha import MultiHeadAttention


def trace_map(T, S, B, H, K, C):
    """One sequence, all heads together."""
    attention = MultiHeadAttention(H, C)
    memory = torch.randn(S, B, C)
    with record_attention(attention) as maps:
        attention(query=torch.randn(T, B, C), key=memory, value=memory)
    maps[0].pick(batch=0).mean("head")
