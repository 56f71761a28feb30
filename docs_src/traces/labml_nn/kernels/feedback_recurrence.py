"""Runs of what both kernels share, with the passes by hand and a window that is full."""

import torch

from labml_nn.kernels.feedback_by_hand import BY_HAND
from labml_nn.kernels.feedback_recurrence import read_with, supported_config
from labml_nn.transformers import feedback


def build(H, C, F, L, S):
    """A model in training, so that masks are drawn."""
    layer = feedback.FeedbackTransformerLayer(
        d_model=C,
        attn=feedback.FeedbackAttention(H, C, is_kv_precomputed=True, max_distance=64),
        feed_forward=feedback.FeedForward(C, F),
        dropout_prob=0.1,
    )
    return feedback.FeedbackTransformerKV(layer, L, C, H, horizon=S)


def trace_read(T, B, S, H, D, C, F, L):
    """Without padding, and with padding after the last token of some sequences."""
    model, x_seq = build(H, C, F, L, S), torch.randn(T, B, C)
    memory = feedback.FeedbackMemory(torch.randn(S, B, H, D), torch.randn(S, B, H, D))
    config = supported_config(model, x_seq, memory)
    for mask in (None, torch.arange(T)[:, None] < T - torch.arange(B) % 2):
        top, _ = read_with(BY_HAND, model, config, x_seq, memory, mask)
        _ = model.layers[0].attn.attn
        top.sum().backward()


def trace_second_derivative(T, B, S, H, D, C, F, L):
    """The recurrence without operations in place."""
    model, x_seq = build(H, C, F, L, S), torch.randn(T, B, C, requires_grad=True)
    memory = feedback.FeedbackMemory(torch.randn(S, B, H, D), torch.randn(S, B, H, D))
    config = supported_config(model, x_seq, memory)
    top, _ = read_with(BY_HAND, model, config, x_seq, memory, None)
    torch.autograd.grad(top.square().sum(), x_seq, create_graph=True)
