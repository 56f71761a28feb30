"""Runs of the recorder."""

import torch

from labml_nn.attention_maps.recording import record_attention
from labml_nn.transformers.mha import MultiHeadAttention


def trace_recording(T, S, B, H, K, C):
    """The weights of one call."""
    attention = MultiHeadAttention(H, C)
    memory = torch.randn(S, B, C)
    with record_attention(attention):
        attention(query=torch.randn(T, B, C), key=memory, value=memory)
