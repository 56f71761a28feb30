r"""
---
title: The parameters of a feedback transformer, folded
summary: >
  All layers side by side, and everything that can be worked out before the first token
  worked out: gains of norms, scales of scores, what all queries have in common.
---

A step of a [feedback transformer](../index.html) is many small things done to a few
vectors, and it is done $T$ times. Whatever is the same at each step is better done
once. Three small identities, each of which takes an operation out of the loop:

**A gain and a bias belong to the map behind them.** With $\hat{x}$ for a vector of mean
0 and variance 1,

$$W (g \otimes \hat{x} + b) = (W \operatorname{diag}(g)) \, \hat{x} + W b$$

**A scale too.** Scores are divided by $\sqrt{K}$. Divide the query instead: it has $K$
numbers per head, and the scores $S$.

**What every query asks for** is added once. Scores have four terms
([attention](../attention.py)); with $q' = (q + u) / \sqrt{K}$ they have three, and
distances are scored by the same vector as rows are:

$$\frac{(q + u)^\top k_j + q^\top E_d + b_d}{\sqrt{K}}
    = q'^\top k_j + q'^\top E_d + b'_d$$

The vector $u$ is now in front of $E_d$ as well, where it does not belong, and the bias
of a distance makes up for that: $b'_d = (b_d - u^\top E_d) / \sqrt{K}$.

All of it is ordinary PyTorch, so autograd takes the gradients of the folded parameters
back to $g$, $b$, $u$ and the others. What is [done by hand](index.html) never
hears of them.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W_Q$, $u$ | `query`, `query_bias` | `[L, C, C]`, `[L, C]` | to queries |
| $E_d$ | `distance` | `[L, H, S, K]` | distances $S, \dots, 1$, for a query |
| $b'_d$ | `distance_bias` | `[L, H, S]` | and for all queries |
| $W_O$, $b_O$ | `output`, `output_bias` | `[L, C, C]`, `[L, C]` | out of the heads |
| $W_1$, $b_1$ | `up`, `up_bias` | `[L, F, C]`, `[L, F]` | to hidden features |
| $W_2$, $b_2$ | `down`, `down_bias` | `[L, F, C]`, `[L, C]` | and back |
| $w$ | `shares` | `[L + 1]` | shares of the layers in memory |
| $W_K$, $W_V$ | `memory`, `memory_bias` | `[2·C, C]`, `[2·C]` | to keys and values |
"""

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer

if TYPE_CHECKING:
    from labml_nn.transformers.feedback.shared import FeedbackTransformerKV


class Weights(NamedTuple):
    r"""
    ## What the loop multiplies with

    Stacked, layer upon layer, because the gradients of all layers are one product in
    the end. `up` has $2F$ rows where the network is gated.
    """

    query: Tensor
    query_bias: Tensor
    distance: Tensor
    distance_bias: Tensor
    output: Tensor
    output_bias: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor
    shares: Tensor
    memory: Tensor
    memory_bias: Tensor


def fold(model: "FeedbackTransformerKV", length: int, dtype: torch.dtype) -> Weights:
    r"""
    ## Fold

    * `model` is what the parameters are of
    * `length` is how many distances will be needed
    * `dtype` is the type to compute in

    Returns the folded parameters, with their history.
    """
    layers = [cast(FeedbackTransformerLayer, layer) for layer in model.layers]
    query, query_bias = _stack(
        [_behind(layer.norm_self_attn, layer.attn.query.linear) for layer in layers]
    )
    asked = torch.stack([layer.attn.query_pos_bias for layer in layers])
    positions = [layer.attn.relative_positions(length) for layer in layers]
    embeddings, bias = _stack([(p.embeddings, p.bias) for p in positions])
    by_all = (embeddings * asked.unsqueeze(1)).sum(-1)
    scale = layers[0].attn.scale

    up, up_bias = _stack([_up(layer) for layer in layers])
    output, output_bias = _stack([_plain(layer.attn.output) for layer in layers])
    down, down_bias = _stack([_plain(layer.feed_forward.layer2) for layer in layers])
    memory, memory_bias = _memory(model)

    # $W_2$ is turned by its strides alone. Written down in that order, it took PyTorch
    # as long as all the rest of this function.
    folded = Weights(
        query=query * scale,
        query_bias=(query_bias + asked.flatten(1)) * scale,
        distance=embeddings.transpose(1, 2),
        distance_bias=((bias - by_all) * scale).transpose(1, 2),
        output=output,
        output_bias=output_bias,
        up=up,
        up_bias=up_bias,
        down=down.transpose(1, 2),
        down_bias=down_bias,
        shares=model.weights.softmax(0),
        memory=memory,
        memory_bias=memory_bias,
    )
    return Weights(*(tensor.to(dtype) for tensor in folded))


def _stack(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    first, second = zip(*pairs, strict=True)
    return torch.stack(first), torch.stack(second)


def _plain(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    weight, bias = linear.weight, linear.bias
    return weight, weight.new_zeros(len(weight)) if bias is None else bias


# The first identity.
def _behind(norm: nn.LayerNorm, *linears: nn.Linear) -> tuple[Tensor, Tensor]:
    weights, biases = zip(*(_plain(linear) for linear in linears), strict=True)
    weight, bias = _joined(weights), _joined(biases)
    return weight * norm.weight, bias + weight @ norm.bias


# What is alone is not copied.
def _joined(tensors: tuple[Tensor, ...]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


# With a gate, both maps of the network in one.
def _up(layer: FeedbackTransformerLayer) -> tuple[Tensor, Tensor]:
    network = layer.feed_forward
    if network.is_gated:
        return _behind(layer.norm_ff, network.layer1, network.linear_v)
    return _behind(layer.norm_ff, network.layer1)


# Keys and values in one map too.
def _memory(model: "FeedbackTransformerKV") -> tuple[Tensor, Tensor]:
    linears = (model.key.linear, model.value.linear)
    if isinstance(model.norm_memory, nn.LayerNorm):
        return _behind(model.norm_memory, *linears)
    weight = torch.cat([linear.weight for linear in linears])
    return weight, weight.new_zeros(len(weight))
