"""Runs of the network."""

import torch

from labml_nn.lstm.gru import GRU


def trace_network(T, B, C, N, L):
    """Two chunks of a sequence, the second with padding."""
    network = GRU(C, N, n_layers=L)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = network(x)
    network(x, state.detach(), mask)
