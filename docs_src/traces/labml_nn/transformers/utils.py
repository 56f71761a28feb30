"""Runs of the masks."""

import torch

from labml_nn.transformers import utils


def trace_masks(T, S, B):
    """Each kind of mask, and two of them together."""
    causal = utils.subsequent_mask(T)
    lengths = S - torch.arange(B) % S
    utils.padding_mask(lengths)
    padding = utils.padding_mask(lengths, T + S)
    utils.token_padding_mask(torch.zeros(S, B, dtype=torch.long), 0)
    utils.combine_masks(causal, None, padding[:, :T])
