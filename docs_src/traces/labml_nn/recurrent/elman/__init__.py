"""Runs of the network."""

import torch

from labml_nn.recurrent.elman import Elman


def trace_network(T, B, C, N, L):
    """Two pieces of a text, some of it padding."""
    network = Elman(C, N, n_layers=L)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = network(x, None, mask)
    network(x, state)
    network.initial(B)
