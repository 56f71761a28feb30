"""Runs of the interface, with a table of logits in place of a network."""

import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig


class Bigrams(LanguageModel[None]):
    """Logits are rows of a table."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)

    def forward(self, tokens, state=None):
        """No state: only one token is read."""
        return self.table(tokens), None


def trace_interface(T, B, V):
    """Loss, probabilities, prompts of different lengths, and a step of decoding."""
    model = Bigrams(LanguageModelConfig(n_vocab=V, padding_token=0))
    tokens = torch.randint(1, V, (T, B))
    model.loss(tokens, tokens)
    model.pred(tokens)
    lengths = T - torch.arange(B) % T
    padded = torch.where(torch.arange(T)[:, None] < lengths, tokens, 0)
    model.predict(padded)
    model.prepare_prompt(tokens, lengths)
    model.decoding_step(None)(tokens[0])
