"""Runs of what makes batches."""

import torch

from labml_nn.transformers.encoder_decoder.batches import collate, shift, to_front


def trace_collate(S, T, B):
    """Sources and replies, the longest of S and T tokens."""
    pairs = [([3] * (S - b % 2), [4] * (T - b % 2)) for b in range(B)]
    collate(pairs, 0, pad="first")


def trace_shift(T, B):
    """Padding carried to the end, then one later."""
    tokens = torch.randint(3, 9, (T, B))
    tokens[0, 0] = 0
    target, lengths = to_front(tokens, 0)
    shift(target, lengths, padding_token=0, start_token=1, end_token=2)
