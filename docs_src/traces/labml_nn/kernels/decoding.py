"""A run of the static cache; what the compiled step makes cannot be seen from Python."""

import torch

from labml_nn.kernels.decoding import StaticCache
from labml_nn.transformers.sliding_window import SlidingWindow


def trace_cache(S, T, B, H, D, Dv):
    """S tokens are cached, and T more fit."""
    pair = torch.randn(S, B, H, D), torch.randn(S, B, H, Dv)
    tokens = torch.zeros(S, B, dtype=torch.long)
    window = SlidingWindow(tokens, torch.ones_like(tokens, dtype=torch.bool), (pair,))
    cache = StaticCache(window, S + T)
    cache.load(cache.window())
