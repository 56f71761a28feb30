"""Runs of the sequence-to-sequence language model."""

import torch

from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
    collate,
    shift,
    to_front,
)


def model(T, S, H, C, F, V, L, **fields):
    """A model whose context is longer than what it is given."""
    config = EncoderDecoderConfig(
        n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=L, max_len=S + T, **fields
    )
    return EncoderDecoderLanguageModel(config)


def trace_loss(T, S, B, H, D, C, F, V, L):
    """One loss."""
    made = model(T, S, H, C, F, V, L)
    made.loss(torch.randint(3, V, (S, B)), torch.randint(3, V, (T, B)))


def trace_generation(T, S, B, H, D, C, F, V, L):
    """A target of T tokens, after its source; learned positions."""
    made = model(T, S, H, C, F, V, L, positions="learned")
    state, start, _ = made.prepare_prompt(torch.randint(3, V, (S, B)))
    tokens = torch.cat([start, torch.randint(3, V, (T - 1, B))])
    made(tokens, state)


def trace_batches(S, T, B):
    """Pairs, the longest of S and T tokens, turned so that padding is first."""
    pairs = [([3] * (S - b % 2), [4] * (T - b % 2)) for b in range(B)]
    batch = collate(pairs, 0)
    target = to_front(batch.target.flip(0), 0)
    shift(target, padding_token=0, start_token=1, end_token=2)
