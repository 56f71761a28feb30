"""Runs of the feed-forward network."""

import torch
from torch import nn

from labml_nn.transformers.feed_forward import FeedForward


def trace_plain(T, B, C, F):
    """One map up, one down."""
    FeedForward(C, F)(torch.randn(T, B, C))


def trace_gated(T, B, C, F):
    """SwiGLU."""
    FeedForward(C, F, activation=nn.SiLU(), is_gated=True)(torch.randn(T, B, C))
