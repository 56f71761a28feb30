"""Runs of a model that replies."""

import torch

from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
)


def trace_model(T, S, B, L, H, K, C, F, V):
    """A loss, and a reply of T tokens."""
    config = EncoderDecoderConfig(n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=L, max_len=S + T)
    model = EncoderDecoderLanguageModel(config)
    source, target = torch.randint(3, V, (S, B)), torch.randint(3, V, (T, B))
    model.loss(source, target)
    target[0] = config.start_token
    state, _, _ = model.prepare_prompt(source)
    model(target, state)
