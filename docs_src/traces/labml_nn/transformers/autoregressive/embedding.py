"""Runs of the embedding, with learned positions and with sinusoids."""

import torch

from labml_nn.transformers.autoregressive import AutoregressiveConfig, PlacedEmbedding


def trace_embedding(T, B, H, K, C, V, max_len):
    """Each sequence at positions of its own."""
    for positions in ("learned", "sinusoidal"):
        config = AutoregressiveConfig(
            n_vocab=V, d_model=C, heads=H, max_len=max_len, positions=positions
        )
        places = torch.randint(max_len, (T, B))
        PlacedEmbedding(config)(torch.randint(V, (T, B)), places)
