"""Runs of rotary positions."""

import torch

from labml_nn.transformers.rotary import RotaryPositions, rotate


def trace_rotate(T, B, H, max_len, half, K):
    """Each text at positions of its own."""
    positions = torch.randint(max_len, (T, B))
    rotate(torch.randn(T, B, H, K), RotaryPositions(K, max_len)(positions))
