"""Runs of attention in blocks."""

import torch

from labml_nn.transformers.attention_in_blocks import attention_in_blocks


def trace_mask(T, S, B, H, K, D):
    """Forward and backward, with a mask for each text and with dropout."""
    query, key = torch.randn(B, H, T, K, requires_grad=True), torch.randn(B, H, S, K)
    value = torch.randn(B, H, S, D, requires_grad=True)
    visible = torch.ones(B, 1, T, S, dtype=torch.bool)
    attention_in_blocks(query, key, value, visible, 0.5).sum().backward()
