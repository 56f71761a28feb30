"""Runs of the two recurrences."""

import torch

from labml_nn.recurrent.elman.bptt import recurrent_grad, run_backward, run_forward


def trace_forward_and_backward(T, B, N):
    """With padding."""
    inputs, h_0, recurrent = torch.randn(T, B, N), torch.randn(B, N), torch.randn(N, N)
    mask = (torch.arange(T)[:, None] < T - torch.arange(B) % T)[..., None]
    states = run_forward(inputs, h_0, recurrent, mask, "tanh")
    deltas, _ = run_backward(torch.randn(T, B, N), states, recurrent, mask, "tanh")
    recurrent_grad(deltas, states, h_0)
