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


def trace_untied(T, B, H, D, C, F, V):
    """Another matrix for the logits, and projections in each layer."""
    config = FeedbackConfig(
        n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=2, max_len=T, tied=False, shared_kv=False
    )
    FeedbackLanguageModel(config)(torch.randint(V, (T, B)))
