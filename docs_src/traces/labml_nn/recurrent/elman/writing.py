"""Runs of the writer."""

import torch

from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel


def trace_two_tokens(T, B, C, N, V, L):
    """After a text."""
    config = ElmanConfig(n_vocab=V, d_model=C, d_hidden=N, n_layers=L)
    model = ElmanLanguageModel(config).eval()
    _, state = model(torch.randint(V, (T, B)))
    write = model.decoding_step(state)
    write(torch.randint(V, (B,)))
    write(torch.randint(V, (B,)))
