"""Runs of the loss."""

import torch

from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss


def trace_loss(T, B, V):
    """With padding and without, and the table of targets."""
    predicted, target = torch.randn(T, B, V).log_softmax(-1), torch.randint(V, (T, B))
    for padding in (None, 0):
        loss = LabelSmoothingLoss(V, padding, smoothing=0.1)
        loss(predicted, target)
    assert loss.true_dist is not None
