r"""
---
title: Stacks of modules
summary: Copies of a layer for a stack, as they are or each with parameters of its own.
---

A deep model is one layer, many times. These two functions make the many out of the one,
and differ in what the copies start from.

| Function | Copies start | Use it for |
|---|---|---|
| `clone_module_list` | identical, bit for bit | copies that must agree at first |
| `independent_copies` | each with its own random draw | the layers of a stack |
"""

import copy

from torch import nn

from labml_nn.checks import check_sizes


def clone_module_list(module: nn.Module, n: int) -> nn.ModuleList:
    """
    ## Identical copies

    `n` deep copies of `module`. No parameter is shared: training one copy leaves the
    others alone. The original is not among them.

    Raises `ValueError` or `TypeError` if `n` is not a positive whole number.
    """
    check_sizes(n=n)
    return nn.ModuleList(copy.deepcopy(module) for _ in range(n))


def independent_copies(module: nn.Module, n: int) -> nn.ModuleList:
    r"""
    ## Copies with parameters of their own

    Layers that start identical are a poor start for a stack: they compute the same
    function, and only their place in the stack tells their gradients apart. Here the
    first copy keeps the parameters of `module`, and the others draw new ones, as their
    parts do when they are built. To start layers in a way of your own, do it
    afterwards.

    Raises `ValueError` or `TypeError` if `n` is not a positive whole number.
    """
    copies = clone_module_list(module, n)
    for layer in list(copies)[1:]:
        layer.apply(_reset)
    return copies


def _reset(module: nn.Module) -> None:
    # PyTorch's modules know how they were initialised: `nn.Linear`, `nn.LayerNorm`,
    # `nn.Embedding` and the rest draw their parameters again in `reset_parameters`.
    # `nn.Module.apply` visits children before parents, so that a parent which starts
    # its children in a way of its own has the last word. A module that holds parameters
    # and lacks the method keeps the copies that it has.
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
