"""Runs of the autoregressive transformer."""

import torch

from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
    TokenAndPositionEmbedding,
)


def trace_model(T, S, B, L, H, D, C, F, V):
    """S tokens, and T more that continue them."""
    config = AutoregressiveConfig(
        n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=L, max_len=S + T, padding_token=0
    )
    model = AutoregressiveTransformer(config)
    _, state = model(torch.randint(1, V, (S, B)))
    model(torch.randint(1, V, (T, B)), state)


def trace_learned_positions(T, B, H, D, C, V, max_len):
    """Each sequence at positions of its own."""
    config = AutoregressiveConfig(
        n_vocab=V, d_model=C, heads=H, max_len=max_len, positions="learned"
    )
    positions = torch.randint(max_len, (T, B))
    TokenAndPositionEmbedding(config)(torch.randint(V, (T, B)), positions)
