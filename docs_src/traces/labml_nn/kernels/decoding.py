"""A run of the static cache; what the compiled step makes cannot be seen from Python."""

import torch

from labml_nn.kernels.decoding import StaticCache


def trace_cache(S, T, B, H, D, Dv):
    """S positions are cached, and T more fit."""
    keys, values = torch.randn(S, B, H, D), torch.randn(S, B, H, Dv)
    cache = StaticCache(S + T, keys, values)
    cache.write(*cache.read(0, S))
