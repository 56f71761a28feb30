"""Runs of attention in its three forms."""

import torch

from labml_nn.transformers import scaled_dot_product as attention


def trace_forms(T, S, B, H, K, D):
    """With a mask that all heads share, and with one of their own."""
    query, key = torch.randn(T, B, H, K), torch.randn(S, B, H, K)
    value = torch.randn(S, B, H, D)
    shared = torch.ones(T, S, B, 1, dtype=torch.bool)
    attention.einsum_attention(query, key, value, shared)
    attention.matmul_attention(query, key, value, shared)
    attention.fused_attention(query, key, value, shared.expand(T, S, B, H))
