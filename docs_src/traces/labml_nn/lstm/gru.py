"""Runs of the network and the language model."""

import torch

from labml_nn.lstm.gru import GRU, GRUConfig, GRULanguageModel


def trace_network(T, B, C, N, L):
    """Two chunks of a sequence, the second with padding."""
    network = GRU(C, N, n_layers=L)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = network(x)
    network(x, state.detach(), mask)


def trace_model(T, B, C, N, V, L):
    """A loss, and the next chunk."""
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L, "padding_token": 0}
    model = GRULanguageModel(GRUConfig(**sizes))
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens, state)
