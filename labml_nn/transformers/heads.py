r"""
---
title: Heads
summary: >
  How one vector becomes many small ones, a question or an answer for each head.
paper: https://arxiv.org/abs/1706.03762
---

A vector of a transformer says many things at once: what the word is, where it stands,
what the sentence is about. [Attention](scaled_dot_product.py) compares vectors as
wholes, with one number for each pair. So that several comparisons can go on side by
side, the vector is first mapped to $H$ small ones, one for each **head**, and each head
compares those of its own ([@vaswani2017attention, §3.2.2]).

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | vectors, one for each position |
| $W_h$ | rows of `linear.weight`, turned round | `[C, K]` | the map of head $h$ |
| $x W_h$ | `forward(x)[..., h, :]` | `[T, B, K]` | what head $h$ gets |
"""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as modules

from labml_nn.checks import check_features, check_sizes

#: Where PyTorch keeps hooks to all modules there are.
HOOKS_OF_ALL = (
    modules._global_forward_hooks,
    modules._global_forward_pre_hooks,
    modules._global_backward_hooks,
    modules._global_backward_pre_hooks,
)


class PrepareForMultiHeadAttention(nn.Module):
    r"""
    ## One map for all heads

    Every head has a matrix $W_h$ of its own, of shape $C \times d_k$. We never multiply
    with one of them. All $H$ stand side by side in one large matrix, and what comes out
    is cut into heads:

    $$x \, [W_1, W_2, \dots, W_H] = [x W_1, \; x W_2, \; \dots, \; x W_H]$$

    The arithmetic is the same, in one call instead of $H$.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool) -> None:
        """
        * `d_model` is the number of features that come in, $C$
        * `heads` and `d_k` are the number of heads and of features of each, $H$, $d_k$
        * `bias` is whether a learned vector is added
        """
        super().__init__()
        check_sizes(d_model=d_model, heads=heads, d_k=d_k)
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads = heads
        self.d_k = d_k

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes H K"]:
        """
        * `x` has shape `[T, B, C]`, or `[B, C]` in models that take one step at a time

        Returns `[T, B, H, K]`, or `[B, H, K]`: the last axis mapped and cut into heads.
        Raises `ValueError` if that axis is not `d_model` long, and `TypeError` for a
        dtype other than that of the parameters.
        """
        linear = self.linear
        check_features("x", x, linear.in_features, linear.weight)
        return self.cut(linear(x))

    def cut(self, mapped: Float[Tensor, "*axes HK"]) -> Float[Tensor, "*axes H K"]:
        """
        ### Cut into heads

        Takes `[T, B, H·K]`, what the map has made, and returns `[T, B, H, K]`. Whatever
        else is to be done to each head, a subclass does here.
        """
        return torch.unflatten(mapped, -1, (self.heads, self.d_k))


def map_together(
    x: Float[Tensor, "*axes C"], maps: Sequence[nn.Module], *, name: str = "x"
) -> list[Float[Tensor, "*axes H _"]]:
    r"""
    ## One product for several maps

    Where a sequence attends to itself, queries, keys and values are made of the same
    vectors. Three maps that stand side by side are one, as the heads of each were:

    $$x \, [W^Q, W^K, W^V] = [x W^Q, \; x W^K, \; x W^V]$$

    The parameters stay three, and a checkpoint knows them by their names. They are laid
    side by side for the call: $3 C^2$ numbers are copied, beside $3 C^2$
    multiplications for *every* row. In the backward pass the gradients of $x$ are
    summed within one product, where three would be made and added up. With fewer rows
    than features that is not worth the copy, and the products are three.

    * `x` are the vectors, `[T, B, C]`
    * `maps` are what makes heads of them; one alone will do
    * `name` is what errors call `x`

    Returns what each map makes of `x`, `[T, B, H, K]`. Raises what the maps raise.
    """
    linears = _in_full_view(maps)
    if linears is None:
        return [each(x) for each in maps]
    weights, biases = [], []
    for linear in linears:
        weights.append(linear.weight)
        biases.append(linear.bias)
    check_features(name, x, linears[0].in_features, weights[0])

    # Biases can be laid side by side if all maps have one, or none has. And a graph
    # that is compiled shall not depend on how many rows there are.
    parts: Sequence[Tensor]
    given: list[Tensor] = [bias for bias in biases if bias is not None]
    many = torch.compiler.is_compiling() or x.numel() > x.shape[-1] ** 2
    if many and len(maps) > 1 and len(given) in (0, len(maps)):
        mapped = F.linear(x, torch.cat(weights), torch.cat(given) if given else None)
        parts = torch.split(mapped, [len(weight) for weight in weights], -1)
    else:
        pairs = zip(weights, biases, strict=True)
        parts = [F.linear(x, weight, bias) for weight, bias in pairs]
    ours = cast(Sequence[PrepareForMultiHeadAttention], maps)
    return [each.cut(part) for each, part in zip(ours, parts, strict=True)]


# The linear layers of maps that can be left out, with only their parameters used. That
# is allowed if nobody misses the calls: those of the maps and of the linear layers in
# them, with what is hooked to them, or to all modules (as counters of operations are),
# or was put in their place (an adapter, a quantised layer). What a subclass does when
# it cuts is done nevertheless.
def _in_full_view(maps: Sequence[nn.Module]) -> list[nn.Linear] | None:
    if any(HOOKS_OF_ALL):
        return None
    linears = []
    for each in maps:
        if not as_written(each, PrepareForMultiHeadAttention, "forward"):
            return None
        linear = each.linear
        if type(linear) is not nn.Linear or _is_watched(each) or _is_watched(linear):
            return None
        linears.append(linear)
    return linears


def _is_watched(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
    )


def as_written(module: nn.Module, author: type[nn.Module], *methods: str) -> bool:
    """
    ### Is it still ours?

    Whether `methods` of a module are those of `author`, or somebody has put something
    else in their place, by a subclass or on the object.
    """
    return all(
        getattr(getattr(module, name), "__func__", None) is getattr(author, name)
        for name in methods
    )


# ## Exercises
#
# **1.** Take the large matrix apart and give each head its own.
#
# <details><summary>Answer</summary>
#
# `nn.Linear` computes $x W^\top$, so that the features of head $h$ are *rows* $hK$ to
# $(h + 1)K$ of its weight.
#
# ```python
# import torch
# from labml_nn.transformers.mha import PrepareForMultiHeadAttention
#
# prepare = PrepareForMultiHeadAttention(d_model=12, heads=3, d_k=4, bias=False)
# x = torch.randn(5, 2, 12)
# for h, weight in enumerate(prepare.linear.weight.split(4)):
#     torch.testing.assert_close(x @ weight.T, prepare(x)[..., h, :])
# ```
#
# </details>
#
# **2.** Somebody cuts `[T, B, C]` into `[T, B, K, H]`, the heads last, and then swaps
# the two axes. Does the model learn anything else?
#
# <details><summary>Answer</summary>
#
# No. It is the same map with its rows in another order, and training begins with random
# rows anyway. But a checkpoint means one of the two. Read the other way, all shapes
# fit, nothing fails, and every head gets a little of each. Put the rows in order first:
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.mha import PrepareForMultiHeadAttention
#
# prepare = PrepareForMultiHeadAttention(d_model=12, heads=3, d_k=4, bias=False)
# x = torch.randn(5, 2, 12)
# other = prepare.linear(x).unflatten(-1, (4, 3)).transpose(-1, -2)  # [T, B, H, K]
# assert not torch.allclose(prepare(x), other)
# rows = torch.arange(12).view(4, 3).T.flatten()
# prepare.linear.weight = nn.Parameter(prepare.linear.weight[rows])
# torch.testing.assert_close(prepare(x), other)
# ```
#
# </details>
#
# **3.** A model has written 9 tokens and [kept](keys_values.py) their keys and values.
# Let the tenth attend to all ten without projecting the nine again.
#
# <details><summary>Answer</summary>
#
# No mask is needed: what comes after the tenth is not there yet.
#
# ```python
# import torch
# from labml_nn.transformers.mha import KeysValues, MultiHeadAttention
# from labml_nn.transformers.utils import subsequent_mask
#
# attention = MultiHeadAttention(heads=4, d_model=64).eval()
# x = torch.randn(10, 2, 64)
# past = attention.project(key=x[:9], value=x[:9])
# new = attention.project(key=x[9:], value=x[9:])
# past = KeysValues(*map(torch.cat, zip(past, new)))
# tenth = attention.attend_to(query=x[9:], past=past)
#
# whole = attention(query=x, key=x, value=x, mask=subsequent_mask(10))
# torch.testing.assert_close(tenth, whole[9:])
# ```
#
# </details>
