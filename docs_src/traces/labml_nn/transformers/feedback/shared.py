"""Runs of the transformer whose layers share keys and values."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.feedback.shared import FeedbackTransformerKV


def trace_shared(T, B, L, H, K, C, F):
    """A text."""
    layer = FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, is_kv_precomputed=True, max_distance=T),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )
    FeedbackTransformerKV(layer, L, d_model=C, heads=H)(torch.randn(T, B, C))
