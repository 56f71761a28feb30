"""The compiled feedback transformer beside the plain one."""

import copy

import torch
from feedback_tools import build, tokens


def pair(**options):
    """The same model twice: compiled in float32, and plain in float64."""
    compiled = build(True, **options)
    # Far from the kinks of the ReLU, where rounding decides about a slope.
    for layer in compiled.layers:
        torch.nn.init.uniform_(layer.feed_forward.layer1.bias, 2, 3)
    plain = copy.deepcopy(compiled).double()
    compiled.backend, plain.backend = "kernel", "plain"
    return compiled, plain


def everything(model, x, read=None):
    """Outputs, memory, and gradients of the input and of all parameters, in float64."""
    x = x.to(next(model.parameters()).dtype).requires_grad_()
    y, memory = (read or type(model).scan)(model, x)
    outputs = (y, memory.keys.rows, memory.values.rows)
    total = sum((part * tokens(*part.shape, seed=i)).sum() for i, part in enumerate(outputs))
    found = torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True)
    return [None if part is None else part.double() for part in (*outputs, *found)]


def assert_close(got, expected, tolerance=1e-5):
    for mine, right in zip(got, expected, strict=True):
        if right is None:
            assert mine is None
        else:
            assert (mine - right).norm() <= tolerance * right.norm() + 1e-7


def assert_pair(models, x, read=None, tolerance=1e-5):
    compiled, plain = models
    assert_close(everything(compiled, x, read), everything(plain, x, read), tolerance)
