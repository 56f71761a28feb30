"""Runs of Muon."""

import torch
import torch._dynamo  # optimizers import it when they are made, which would be part of the run
from torch import nn

from labml_nn.optimizers.muon import Muon, orthogonalise


def trace_step(n, I, J):  # noqa: E741
    """Several matrices of one shape."""
    matrices = [nn.Parameter(torch.randn(I, J)) for _ in range(n)]
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    Muon(matrices).step()


def trace_one(I, J):  # noqa: E741
    """A matrix alone."""
    orthogonalise(torch.randn(I, J))
