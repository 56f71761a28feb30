"""Runs of the Feedback Transformer, with a window of S slots, full from the first step on."""

import torch

from labml_nn.transformers import feedback


def layer(H, C, F, *, shared=False):
    """The prototype of the layers."""
    return feedback.FeedbackTransformerLayer(
        d_model=C,
        attn=feedback.FeedbackAttention(H, C, is_kv_precomputed=shared, max_distance=64),
        feed_forward=feedback.FeedForward(C, F),
        dropout_prob=0.1,
    )


def trace_separate(T, B, S, L, H, D, C, F):
    """Each layer projects the memory vectors; of one sequence some tokens are padding."""
    model = feedback.FeedbackTransformer(layer(H, C, F), L, horizon=S)
    slots, present = torch.randn(S, B, C), torch.ones(S, B, dtype=torch.bool)
    memory = feedback.FeedbackMemory(slots, slots, present)
    mask = torch.arange(T)[:, None] < T - torch.arange(B) % 2
    _, memory = model.scan(torch.randn(T, B, C), memory, mask=mask)
    model.step(torch.randn(B, C), memory.detach())


def trace_shared(T, B, S, L, H, D, C, F):
    """Keys and values are projected once."""
    model = feedback.FeedbackTransformerKV(layer(H, C, F, shared=True), L, C, H, horizon=S)
    memory = feedback.FeedbackMemory(torch.randn(S, B, H, D), torch.randn(S, B, H, D))
    model.scan(torch.randn(T, B, C), memory)


def trace_first_token(B, L, H, D, C, F):
    """Without memory."""
    feedback.FeedbackTransformer(layer(H, C, F), L)(torch.randn(1, B, C))
