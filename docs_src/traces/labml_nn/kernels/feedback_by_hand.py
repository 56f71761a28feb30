"""Runs of the kernel by hand: forward and backward pass of a full window, in one chunk."""

import torch

from labml_nn.kernels.feedback_by_hand import run_backward, run_forward
from labml_nn.kernels.feedback_recurrence import Config, Params


def trace_window(T, B, S, H, D, C, F, *, L):
    """The window was full before the first step. A tuple of five layers or more is cut alike."""
    params = Params(
        torch.randn(L, C, C),
        torch.randn(L, C),
        torch.randn(L, H, S, D),
        torch.randn(L, H, S),
        torch.randn(L, C, C),
        torch.randn(L, C),
        torch.randn(L, F, C),
        torch.randn(L, F),
        torch.randn(L, F, C),
        torch.randn(L, C),
        torch.rand(L + 1),
        torch.randn(2 * C, C),
        torch.randn(2 * C),
    )
    slots = torch.randn(S, B, H, D)
    config = Config(H, 1e-5, S, True)
    with torch.no_grad():
        x_seq, grads = torch.randn(T, B, C), torch.randn(T, B, H, D)
        stored, _ = run_forward(x_seq, slots, slots, params, config, store=True)
        run_backward(torch.randn(T, B, C), grads, grads, stored, S, params, config)
