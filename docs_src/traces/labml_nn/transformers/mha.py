"""Runs of multi-head attention."""

import torch

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import padding_mask


def trace_readable(T, S, B, H, K, D, C):
    """Keeps its weights, which only the readable form has."""
    attention = MultiHeadAttention(H, C, d_k=K, d_v=D, store_attn=True)
    attend(attention, T, S, B, C)


def trace_fast(T, S, B, H, K, D, C):
    """The form that a model takes by itself."""
    attend(MultiHeadAttention(H, C, d_k=K, d_v=D), T, S, B, C)


def attend(attention, T, S, B, C):
    """To another sequence, some texts of which are padded."""
    query, memory = torch.randn(T, B, C), torch.randn(S, B, C)
    mask = padding_mask(torch.arange(B) % S, S)
    attention(query=query, key=memory, value=memory, mask=mask)
