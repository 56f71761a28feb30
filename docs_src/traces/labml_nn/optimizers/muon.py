"""Runs of Muon."""

import torch
import torch._dynamo  # optimizers import it when they are made, which would be part of the run
from torch import nn

from labml_nn.optimizers.muon import Muon


def trace_step(I, J):  # noqa: E741
    """One matrix."""
    matrix = nn.Parameter(torch.randn(I, J))
    matrix.grad = torch.randn_like(matrix)
    Muon([matrix]).step()
