"""Runs of the folding of parameters."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackTransformerKV
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.by_hand.weights import fold
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer


def trace_fold(S, L, H, K, C, F):
    """As many distances as there are rows."""
    layer = FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, is_kv_precomputed=True, max_distance=64),
        feed_forward=FeedForward(C, F),
        dropout_prob=0.1,
    )
    fold(FeedbackTransformerKV(layer, L, C, H), S, torch.float32)
