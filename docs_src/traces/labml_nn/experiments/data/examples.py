"""Runs of batches."""

import torch

from labml_nn.experiments.data.examples import Examples


def trace_columns(S, T, B):
    """A batch of replies, and a part of it that is all of it."""
    batch = Examples.of(torch.ones(S, B).long(), torch.ones(T, B).long(), 0)
    batch.columns(0, B).to("cpu")
