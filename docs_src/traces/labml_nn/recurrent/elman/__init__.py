"""Runs of the cell, the layer, the network and the language model."""

import torch

from labml_nn.recurrent.elman import Elman, ElmanConfig, ElmanLanguageModel, ElmanLayer


def trace_layer(T, B, C, N):
    """With padding."""
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    ElmanLayer(C, N)(x, None, mask)


def trace_network(T, B, C, N, L):
    """Two chunks of a sequence."""
    network = Elman(C, N, n_layers=L)
    x = torch.randn(T, B, C)
    _, state = network(x)
    network(x, state)
    network.initial(B)


def trace_model(T, B, C, N, V, L):
    """A loss, and the next chunk; with the options that are off by default, too."""
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L, "padding_token": 0}
    for options in ({}, {"tied": False, "learn_h_0": True}):
        model = ElmanLanguageModel(ElmanConfig(**sizes, **options))
        tokens = torch.randint(V, (T, B))
        _, state = model(tokens)
        model.loss(tokens, tokens, state)
