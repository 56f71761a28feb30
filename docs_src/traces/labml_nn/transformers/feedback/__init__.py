"""Runs of the feedback transformer."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackTransformer
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer


def trace_scan(T, B, L, H, K, C, F):
    """A text, and then one token more."""
    layer = FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, max_distance=T),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )
    model = FeedbackTransformer(layer, L)
    model(torch.randn(T, B, C))
