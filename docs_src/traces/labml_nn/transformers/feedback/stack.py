"""A run of the container."""

import torch

from labml_nn.transformers.feedback.stack import Stack


def trace_stack(T, B, C):
    """One slot after the other."""
    stack = Stack(T)
    for n, slot in enumerate(torch.randn(T, B, C)):
        stack.append(n, slot)
    stack.get()
