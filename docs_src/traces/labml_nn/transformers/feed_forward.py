"""Runs of the feed-forward network."""

import torch
from torch import nn

from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU


def trace_plain(T, B, C, F):
    """Without a gate."""
    FeedForward(C, F, activation=SquaredReLU())(torch.randn(T, B, C))


def trace_gated(T, B, C, F):
    """SwiGLU."""
    FeedForward(C, F, activation=nn.SiLU(), is_gated=True)(torch.randn(T, B, C))
