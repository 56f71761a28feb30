"""Runs of the language model."""

import torch

from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel


def trace_model(T, B, C, N, V, L):
    """A loss, and one piece more."""
    config = ElmanConfig(n_vocab=V, d_model=C, d_hidden=N, n_layers=L, padding_token=0)
    model = ElmanLanguageModel(config)
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens, state)
