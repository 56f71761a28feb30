"""Runs of the feedback transformer."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackTransformer
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer


def model(L, H, C, F, horizon=None):
    """Layers around a memory of `horizon` rows, or of all."""
    layer = FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, max_distance=64),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )
    return FeedbackTransformer(layer, L, horizon=horizon)


def trace_scan(T, B, L, H, K, C, F):
    """A text."""
    model(L, H, C, F)(torch.randn(T, B, C))


def trace_padding(T, B, L, H, K, C, F):
    """Texts of different lengths, read as a window."""
    real = torch.arange(T)[:, None] < T - torch.arange(B) % 2
    model(L, H, C, F, horizon=T).scan(torch.randn(T, B, C), real=real)


def trace_step(T, B, L, H, K, C, F):
    """A token of each text."""
    model(L, H, C, F).step(torch.randn(B, C))
