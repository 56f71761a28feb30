"""Runs of kept keys and values."""

import torch

from labml_nn.transformers.keys_values import join
from labml_nn.transformers.mha import KeysValues


def trace_join(T, S, B, H, K, D):
    """T new positions behind S old ones."""
    old, new = (KeysValues(torch.randn(n, B, H, K), torch.randn(n, B, H, D)) for n in (S, T))
    join(old, new)
