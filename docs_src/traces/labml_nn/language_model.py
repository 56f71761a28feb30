"""Runs of the doors, with the smallest model that has them."""

import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig


class Bigrams(LanguageModel[None]):
    """Logits are rows of a table."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)

    def forward(self, tokens, state=None):
        """Without a state, because it looks at one token only."""
        return self.table(tokens), None


def trace_doors(T, B, V):
    """A loss with padding and without, a prediction, and a beginning."""
    tokens = torch.randint(V, (T, B))
    for padding in (0, None):
        model = Bigrams(LanguageModelConfig(n_vocab=V, padding_token=padding))
        model.loss(tokens, tokens)
        model.predict(tokens)
        model.begin(tokens, torch.full((B,), T))
