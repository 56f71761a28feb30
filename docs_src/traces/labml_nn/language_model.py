"""Runs of what all language models share, in an Elman network."""

import torch

from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel


def trace_doors(T, B, C, N, V):
    """A loss, and what may come next."""
    config = ElmanConfig(n_vocab=V, d_model=C, d_hidden=N, n_layers=1, padding_token=0)
    model = ElmanLanguageModel(config)
    tokens = torch.randint(1, V, (T, B))
    model.loss(tokens, tokens)
    model.predict(tokens)
    model.prepare_prompt(tokens, torch.full((B,), T))
