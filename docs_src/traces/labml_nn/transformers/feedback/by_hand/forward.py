"""Runs of the loop."""

import torch
from torch import nn

from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.forward import run_forward
from labml_nn.transformers.feedback.by_hand.weights import Weights


def weights(S, L, H, K, C, F):
    """Of a model that nobody built."""
    return Weights(
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


def trace_window(T, B, S, L, H, K, C, F):
    """A window that was full before the first step."""
    rows = torch.randn(S, B, H, K)
    form = Form(H, 1e-5, S, True, nn.ReLU(), False)
    run_forward(torch.randn(T, B, C), rows, rows, None, weights(S, L, H, K, C, F), form)
