"""Runs of memory, of texts of one length and of several."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackTransformer
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer


def trace_padded(T, B, H, K, C, F):
    """Each text is one token longer than the one before, and the last fills its column."""
    layer = FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, max_distance=T),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )
    model = FeedbackTransformer(layer, 2)
    real = torch.arange(T + B)[:, None] < T + 1 + torch.arange(B)
    _, memory = model.scan(torch.randn(T + B, B, C), real=real)
    memory.detach().mask()
