"""Runs of the maps of a model."""

import torch

from labml_nn.attention_maps import attention_maps, record_attention
from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from labml_nn.transformers.mha import MultiHeadAttention


def trace_maps(T, B, V, H, D, C):
    """A text, read by a language model of one layer."""
    config = AutoregressiveConfig(n_vocab=V, d_model=C, heads=H, n_layers=1)
    attention_maps(AutoregressiveTransformer(config), torch.randint(V, (T, B)))


def trace_recording(T, S, B, H, D, C):
    """The weights of one call."""
    attention, memory = MultiHeadAttention(H, C), torch.randn(S, B, C)
    with record_attention(attention):
        attention(query=torch.randn(T, B, C), key=memory, value=memory)
