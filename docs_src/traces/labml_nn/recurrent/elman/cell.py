"""Runs of the cell."""

import torch

from labml_nn.recurrent.elman.cell import ElmanCell


def trace_one_step(B, C, N):
    """Of a batch."""
    ElmanCell(C, N)(torch.randn(B, C), torch.randn(B, N))
