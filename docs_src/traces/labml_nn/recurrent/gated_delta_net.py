"""Runs of the rule and the layer."""

import torch
from torch.nn.functional import normalize

from labml_nn.recurrent.gated_delta_net import (
    GatedDeltaNet,
    ShortConvolution,
    gated_delta_rule_chunk,
    gated_delta_rule_chunks,
    gated_delta_rule_loop,
)


def trace_rule(T, B, H, D, Dv):
    """Both forms of the rule, and chunks of which the last is shorter."""
    q, k = (normalize(torch.randn(T, B, H, D), dim=-1) for _ in range(2))
    v, beta, log_alpha = torch.randn(T, B, H, Dv), torch.rand(T, B, H), -torch.rand(T, B, H)
    given = q, k, v, beta, log_alpha, torch.zeros(B, H, D, Dv)
    gated_delta_rule_loop(*given)
    gated_delta_rule_chunk(*given)
    gated_delta_rule_chunks(*given)


def trace_convolution(T, B, F):
    """With padding."""
    convolution = ShortConvolution(F)
    _, before = convolution(torch.randn(T, B, F))
    convolution(torch.randn(T, B, F), before, torch.arange(T)[:, None] < T - torch.arange(B) % T)


def trace_layer(T, B, C, H, D):
    """Two chunks of a sequence, the second with padding, and a token."""
    layer = GatedDeltaNet(C, H, allow_neg_eigval=True)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = layer(x)
    _, state = layer(x, state, mask)
    layer(x[:1], state)
