"""Runs of the lean step."""

import torch

from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel


def trace_step(T, B, H, K, C, F, V):
    """A text, and one token more."""
    config = FeedbackConfig(n_vocab=V, d_model=C, heads=H, d_ff=F, n_layers=2, max_len=T + 3)
    model = FeedbackLanguageModel(config).eval()
    model.transformer.backend = "by_hand"
    with torch.no_grad():
        _, state = model(torch.randint(V, (T, B)))
        model.decoding_step(state)(torch.randint(V, (B,)))
