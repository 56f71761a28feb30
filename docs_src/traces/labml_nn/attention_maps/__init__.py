"""Runs of the maps of a model."""

import torch

from labml_nn.attention_maps import attention_maps
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
)


def trace_maps(T, B, V, H, K, C):
    """A text, read by a language model of one layer."""
    config = AutoregressiveConfig(n_vocab=V, d_model=C, heads=H, n_layers=1)
    attention_maps(AutoregressiveTransformer(config), torch.randint(V, (T, B)))
