"""Runs of the two loops."""

import torch

from labml_nn.recurrent.elman.bptt import _differentiate, run_backward, run_forward, unroll


def trace_there_and_back(T, B, N):
    """Forward and backward, with padding; the backward pass in sight of the tracer."""
    z, h_0, weight = torch.randn(T, B, N), torch.randn(B, N), torch.randn(N, N)
    mask = torch.arange(T)[:, None] < T - torch.arange(B) % T
    states = run_forward(z, h_0, weight, mask[..., None], "tanh")
    run_backward(torch.randn(T, B, N), states, weight, mask[..., None], "tanh")
    unroll(z, h_0, weight, mask)

    class Kept:
        saved_tensors = (states, h_0, weight, mask[..., None])
        nonlinearity = "tanh"

    _differentiate(Kept(), torch.randn(T, B, N), run_backward)
