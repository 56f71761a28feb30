"""Runs of the samplers and of generation."""

import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.sampling import Chain, Greedy, Nucleus, Sampler, Temperature, TopK, generate


class Bigrams(LanguageModel[None]):
    """Logits are rows of a table."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)

    def forward(self, tokens, state=None):
        """No state: only one token is read."""
        return self.table(tokens), None


def trace_samplers(B, V):
    """Each sampler, called and as a distribution."""
    logits = torch.randn(B, V)
    for sampler in (Sampler(), Greedy(), Temperature(0.8), TopK(2), Nucleus(0.9), Chain(Greedy())):
        sampler(logits)
        sampler.distribution(logits)


def trace_generation(T, B, V, N):
    """Prompts of one length, and one that is shorter, which may end early."""
    model = Bigrams(LanguageModelConfig(n_vocab=V))
    prompt = torch.randint(V, (T, B))
    generate(model, prompt, N, stop=())
    lengths = torch.full((B,), T)
    lengths[0] = 1
    generate(model, prompt, N, lengths=lengths, stop=0)
