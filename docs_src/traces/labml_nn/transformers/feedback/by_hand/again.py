"""Runs of a span, once more."""

import torch
from torch import nn

from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.forward import run_forward
from labml_nn.transformers.feedback.by_hand.products import run_backward
from labml_nn.transformers.feedback.by_hand.weights import Weights


def trace_window(T, B, S, L, H, K, C, F):
    """A window that was full before the first step, in one span."""
    weights = Weights(
        torch.randn(L, C, C),
        torch.randn(L, C),
        torch.randn(L, H, S, K),
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
    rows = torch.randn(S, B, H, K)
    form = Form(H, 1e-5, S, True, nn.ReLU(), False)
    with torch.no_grad():
        read = run_forward(torch.randn(T, B, C), rows, rows, None, weights, form)
        of_rows = torch.randn(T, B, H, K)
        run_backward(torch.randn(T, B, C), of_rows, of_rows, read, S, None, weights, form)
