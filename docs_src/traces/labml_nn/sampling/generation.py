"""Runs of a model that writes."""

import torch

from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel
from labml_nn.sampling.generation import generate


def trace_prompts(T, B, V, N):
    """Prompts of T tokens and more, continued by N tokens each."""
    config = ElmanConfig(n_vocab=V, d_model=8, d_hidden=8, n_layers=1, padding_token=0)
    model = ElmanLanguageModel(config)
    prompt = torch.randint(1, V, (T + 2, B))
    lengths = T + torch.arange(B) % 3
    generate(model, prompt, N, lengths=lengths, seed=1)
