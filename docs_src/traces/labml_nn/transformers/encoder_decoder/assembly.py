"""Runs of the parts of a model that replies."""

import torch

from labml_nn.transformers.encoder_decoder.assembly import PlacedTokens, assemble
from labml_nn.transformers.encoder_decoder.config import EncoderDecoderConfig


def trace_source(T, B, H, K, C, V):
    """Positions from 0 on."""
    embedding(H, C, V, T)(torch.randint(V, (T, B)))


def trace_reply(T, B, H, K, C, V):
    """A position for each token of each reply."""
    positions = torch.arange(T)[:, None].expand(T, B)
    embedding(H, C, V, T)(torch.randint(V, (T, B)), positions)


def trace_assemble(H, K, C, F, V):
    """One layer on each side."""
    assemble(EncoderDecoderConfig(n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=1))


def embedding(H, C, V, T):
    """Sinusoids, and V tokens."""
    return PlacedTokens(EncoderDecoderConfig(n_vocab=V, d_model=C, heads=H, max_len=T))
