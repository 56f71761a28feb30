"""Runs of the exchange of weights."""

from torch import nn

from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn, to_torch_rnn


def trace_exchange(C, N):
    """There and back again."""
    to_torch_rnn(from_torch_rnn(nn.RNN(C, N)))
