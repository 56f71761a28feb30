"""Runs of attention over a memory, in both of its forms."""

import torch

from labml_nn.transformers.feedback.attention import FeedbackAttention


def trace_absorbed(S, B, H, K, C):
    """The memory stays as it is."""
    attention = FeedbackAttention(H, C, max_distance=S, store_attn=True)
    memory = torch.randn(S, B, C)
    mask = torch.ones(S, B, dtype=torch.bool)
    attention(query=torch.randn(B, C), key=memory, value=memory, mask=mask)


def trace_projected(S, B, H, K, C):
    """Keys and values come from elsewhere."""
    attention = FeedbackAttention(H, C, is_kv_precomputed=True, max_distance=S)
    rows = torch.randn(S, B, H, K)
    attention(query=torch.randn(B, C), key=rows, value=rows)
