"""Runs of the autoregressive transformer."""

import torch

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer


def trace_model(T, S, B, L, H, K, C, F, V):
    """S tokens, and T more that go on where they end."""
    config = AutoregressiveConfig(
        n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=L, max_len=S + T, padding_token=0
    )
    model = AutoregressiveTransformer(config)
    _, state = model(torch.randint(1, V, (S, B)))
    model(torch.randint(1, V, (T, B)), state)
