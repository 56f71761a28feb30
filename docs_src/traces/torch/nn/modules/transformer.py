"""Runs of PyTorch's encoder: both norms, the fast path, and padding that is left out."""

import warnings

import torch
from torch.nn import TransformerEncoder, TransformerEncoderLayer


def trace_layer(T, B, H, D, C, F):
    """Post-norm, then pre-norm, with padding."""
    padding = torch.zeros(B, T, dtype=torch.bool)
    for norm_first in (False, True):
        layer = TransformerEncoderLayer(C, H, F, batch_first=True, norm_first=norm_first)
        layer(torch.randn(B, T, C), torch.zeros(T, T, dtype=torch.bool), padding)


@torch.no_grad()
def trace_fast(T, B, H, D, C, F):
    """The fast path takes an even number of heads."""
    layer = TransformerEncoderLayer(2 * C, 2 * H, F, activation="gelu", batch_first=True).eval()
    layer(torch.randn(B, T, 2 * C))


def trace_encoder(T, B, H, D, C, F):
    """A stack with a norm at its end."""
    layer = TransformerEncoderLayer(C, H, F, batch_first=True)
    encoder = TransformerEncoder(layer, 2, torch.nn.LayerNorm(C), enable_nested_tensor=False)
    encoder(torch.randn(B, T, C), torch.zeros(T, T, dtype=torch.bool))


@torch.no_grad()
def trace_nested(T, B, H, D, C, F):
    """Sequences without their padding."""
    layer = TransformerEncoderLayer(2 * C, 2 * H, F, batch_first=True)
    padding = torch.arange(T).expand(B, T) >= T - 1
    with warnings.catch_warnings():  # Nested tensors are a prototype, PyTorch says.
        warnings.simplefilter("ignore")
        TransformerEncoder(layer, 2).eval()(torch.randn(B, T, 2 * C), src_key_padding_mask=padding)
