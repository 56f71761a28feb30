"""Runs of the stack."""

import torch

from labml_nn.transformers.feedback.stack import PersistentStack, Stack


def trace_growth(T, B, C):
    """Row by row, through a block that becomes full, and back through the graph."""
    rows = torch.randn(T, B, C, requires_grad=True)
    stack = PersistentStack.start(rows[0], capacity=2)
    for row in rows[1:]:
        stack = stack.append(row)
    stack.rows.sum().backward()
    stack.detach()


def trace_old_interface(T, B, C):
    """As version 0.5.1 had it."""
    stack = Stack(T)
    for n, row in enumerate(torch.randn(T, B, C)):
        stack.append(n, row)
    stack.get()
