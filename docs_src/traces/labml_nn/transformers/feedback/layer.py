"""Runs of the layer, with a memory and without."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer


def trace_layer(S, B, H, K, C, F):
    """The first token has nothing to attend to."""
    layer = FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, max_distance=S),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )
    x, memory = torch.randn(B, C), torch.randn(S, B, C)
    layer(x=x, key=memory, value=memory, mask=torch.ones(S, B, dtype=torch.bool))
    layer(x=x, key=None, value=None)
