"""Runs of the feedback transformer."""

import torch

from labml_nn.transformers import feedback


def layer(H, C, F, *, shared=False):
    """The prototype of the layers."""
    return feedback.FeedbackTransformerLayer(
        d_model=C,
        attn=feedback.FeedbackAttention(H, C, is_kv_precomputed=shared, max_distance=64),
        feed_forward=feedback.FeedForward(C, F),
        dropout_prob=0.1,
    )


def trace_separate(T, B, L, H, D, C, F):
    """Each layer projects the memory vectors."""
    feedback.FeedbackTransformer(layer(H, C, F), L)(torch.randn(T, B, C))


def trace_shared(T, B, L, H, D, C, F):
    """Keys and values are projected once."""
    model = feedback.FeedbackTransformerKV(layer(H, C, F, shared=True), L, d_model=C, heads=H)
    model(torch.randn(T, B, C))


def trace_padding(T, B, L, H, D, C, F):
    """Sequences of different lengths, then one more token of each."""
    model = feedback.FeedbackTransformer(layer(H, C, F), L, horizon=T)
    mask = torch.arange(T)[:, None] < T - torch.arange(B) % 2
    _, memory = model.scan(torch.randn(T, B, C), mask=mask)
    model.step(torch.randn(B, C), memory.detach())


def trace_stack(T, B, C):
    """The container of version 0.5.1."""
    stack = feedback.Stack(T)
    for n, slot in enumerate(torch.randn(T, B, C)):
        stack.append(n, slot)
    stack.get()
