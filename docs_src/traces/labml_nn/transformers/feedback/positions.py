"""Runs of relative positions."""

import torch

from labml_nn.transformers.feedback.positions import RelativePositions


def trace_distances(S, B, H, K, P):
    """Tables of P distances, for memories that are shorter and longer than that."""
    embeddings, bias = torch.randn(P, H, K), torch.randn(P, H)
    positions = RelativePositions.look_up(embeddings, bias, P + S)
    RelativePositions.look_up(embeddings, bias, P - 1)
    positions.last(S).scores(torch.randn(B, H, K))
