r"""
---
title: Stacks of modules
summary: Copies of a layer for a stack, identical or with parameters of their own.
---

A deep model repeats one layer. Two functions make the copies: `clone_module_list` of
version 0.5.1, whose copies start identical, and `independent_copies`, which the models
of this library use.
"""

import copy

from torch import nn

from labml_nn.checks import check_sizes


def clone_module_list(module: nn.Module, n: int) -> nn.ModuleList:
    """
    ## Identical copies

    `n` deep copies of `module`, which is not among them. They share no parameters.
    """
    check_sizes(n=n)
    return nn.ModuleList(copy.deepcopy(module) for _ in range(n))


def independent_copies(module: nn.Module, n: int) -> nn.ModuleList:
    r"""
    ## Copies with parameters of their own

    Identical layers are a poor initialisation of a stack, because they compute the same
    function. Here the first copy keeps the parameters of `module`, and the others draw
    new ones: PyTorch's modules initialise themselves in `reset_parameters`, and
    `nn.Module.apply` calls it for children before parents, so that a parent can
    initialise its children differently. Parameters of modules without this method stay
    copies.
    """
    copies = clone_module_list(module, n)
    for layer in list(copies)[1:]:
        layer.apply(_reset)
    return copies


def _reset(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
