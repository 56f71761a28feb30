"""Runs of the generator."""

import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.sampling import generate


class Bigrams(LanguageModel[None]):
    """Logits are rows of a table."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)

    def forward(self, tokens, state=None):
        """Without a state, because it looks at one token only."""
        return self.table(tokens), None


def trace_generation(T, B, V, N):
    """Prompts of one length, and one that is shorter, which may end before its time."""
    model = Bigrams(LanguageModelConfig(n_vocab=V))
    prompt = torch.randint(V, (T, B))
    generate(model, prompt, N, stop=())
    lengths = torch.full((B,), T)
    lengths[0] = 1
    generate(model, prompt, N, lengths=lengths, stop=0)
