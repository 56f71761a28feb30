"""Runs of rotary positions."""

import torch

from labml_nn.transformers.rotary import RotaryPositions, rotate


def trace_rotate(T, B, H, max_len, half):
    """Each text at positions of its own."""
    positions = torch.randint(max_len, (T, B))
    rotate(torch.randn(T, B, H, 2 * half), RotaryPositions(2 * half, max_len)(positions))
