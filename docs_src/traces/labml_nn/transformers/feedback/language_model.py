"""Runs of the language model."""

import torch

from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel


def trace_model(T, B, H, D, C, F, V):
    """A loss, and one more token."""
    config = FeedbackConfig(
        n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=2, max_len=T, padding_token=0
    )
    model = FeedbackLanguageModel(config)
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens)
    model(tokens[:1], state)
