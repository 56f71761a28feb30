r"""
---
title: Attention in blocks, with dropout
summary: >
  Attention on a CPU without storing the attention weights: a block of queries at a
  time, and recomputation in the backward pass, with the same random numbers for
  dropout.
paper: https://arxiv.org/abs/2112.05682
---

PyTorch's [fused attention](attention.py) for CPUs has no dropout. With dropout, the
common case in training, it falls back to an implementation that stores every table of
$T \cdot S$ scores. For causal attention with 8 heads of 32 features and 512 positions
of 8 sequences, forward and backward pass take 503 ms and 272 MiB with it, and 188 ms
and 29 MiB in blocks, on one core of a CPU with AVX-512. Without dropout PyTorch's
kernel takes 113 ms, and is used.

Here is fused attention in PyTorch itself, with dropout. A **block** is about 64 queries
of some heads, together with all keys that they may attend to: few enough scores to stay
in the CPU's cache from the first operation to the last.

**Forward pass.** For each block,

\begin{align}
e &= \tfrac{1}{\sqrt{d_k}} \, Q K^\top &
\lambda_t &= \log \sum_s e^{e_{ts}} \\
A_{ts} &= e^{e_{ts} - \lambda_t} &
o &= \tfrac{1}{1 - p} \, (A \odot R) \, V
\end{align}

where $R$ is 0 for a weight that is dropped, with probability $p$, and 1 otherwise. Only
$o$ and $\lambda$ are stored: $d_v$ features and one number for each query.

**Backward pass.** The scores are recomputed by one product, and $e^{e - \lambda}$ are
the weights, without a maximum or a sum. $R$ is drawn again from a random number
generator with the same seed. Write $\bar{x}$ for the gradient of the loss with respect
to $x$, and $G = \frac{1}{1 - p} \, \bar{o}$. The chain rule, backwards through the
equations above, gives

\begin{align}
\bar{V} &= (A \odot R)^\top G &
\bar{A} &= (G V^\top) \odot R \\
\bar{e}_{ts} &= A_{ts} \, (\bar{A}_{ts} - \delta_t) &
\delta_t &= \sum_s A_{ts} \bar{A}_{ts} \\
\bar{Q} &= \tfrac{1}{\sqrt{d_k}} \, \bar{e} K &
\bar{K} &= \tfrac{1}{\sqrt{d_k}} \, \bar{e}^\top Q
\end{align}

The term $\delta_t$ of the softmax needs no sum over keys: $\bar{A}_{ts} = R_{ts} \, G_t
\cdot V_s$, so it is $G_t \cdot \sum_s A_{ts} R_{ts} V_s = (1 - p) \, G_t \cdot o_t =
\bar{o}_t \cdot o_t$.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $Q$, $K$ | `query`, `key` | `[B, H, T, D]`, `[B, H, S, D]` | queries and keys |
| $V$ | `value` | `[B, H, S, Dv]` | values |
| $e$ | `scores` | `[h, t, s]` | scores of a block: $h$ heads, $t$ queries, $s$ keys |
| $A$ | `weights` | `[h, t, s]` | attention weights of a block |
| $R$ | `kept` | `[h, t, s]` | which of them are not dropped |
| $\lambda$ | `log_sums` | `[B·H, T, 1]` | logarithms of the softmax denominators |
| $o$ | `output` | `[B·H, T, Dv]` | weighted averages |
| $G$ | `scaled` | `[B·H, T, Dv]` | gradient of the output, divided by $1 - p$ |
| $\delta$ | `delta` | `[B·H, T, 1]` | output times its gradient |
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Queries of a block, and about how many scores it may have: a megabyte of float32.
QUERIES, SCORES = 64, 2**18

#: Pairs of a query and a key below which storing the weights is faster.
FEW = 2**15


def is_for_blocks(query: Tensor, key: Tensor, dropout_prob: float) -> bool:
    """
    ## Supported arguments

    Dropout on a CPU, and enough pairs of positions to make up for a Python loop.
    """
    return (
        0 < dropout_prob < 1
        and query.shape[2] * key.shape[2] >= FEW
        and query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
    )


def attention_in_blocks(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B H S D"],
    value: Float[Tensor, "B H S Dv"],
    visible: Bool[Tensor, "#B #H #T S"] | None,
    dropout_prob: float,
    causal: bool,
    *,
    scale: float,
) -> Float[Tensor, "B H T Dv"]:
    r"""
    ## Attention, block by block

    Arguments and result are those of `scaled_dot_product_attention`. `visible` is
    `True` where a query may attend to a key; no query may be fully masked.
    """
    # Drawn from PyTorch's default generator, which `torch.manual_seed` controls.
    seed = int(torch.randint(2**62, ()))
    config = _Config(query.shape[1], causal, dropout_prob, seed)

    # The heads of all sequences along one axis, `[B·H, T, D]`, contiguous.
    flat = (x.flatten(0, 1).contiguous() for x in (query * scale, key, value))
    output: Tensor = _autograd_function(*flat, visible, config)
    return torch.unflatten(output, 0, query.shape[:2])


class _Config(NamedTuple):
    heads: int
    causal: bool
    dropout_prob: float
    seed: int


class _Block(NamedTuple):
    """Some heads, some queries, and the keys that these may attend to."""

    heads: slice
    queries: slice
    keys: slice
    visible: Bool[Tensor, "#h #t S"] | None


def _blocks(
    query: Tensor, key: Tensor, visible: Tensor | None, config: _Config
) -> Iterator[_Block]:
    # With a mask, which may differ between sequences, a block stays within one of them.
    group = config.heads if visible is not None else query.shape[0]
    scores_per_head = min(QUERIES, query.shape[1]) * key.shape[1]
    some = max(1, min(group, SCORES // scores_per_head))
    for sequence in range(query.shape[0] // group if group else 0):
        for first in range(0, group, some):
            heads = slice(first, min(first + some, group))
            rows = slice(sequence * group + heads.start, sequence * group + heads.stop)
            for begin in range(0, query.shape[1], QUERIES):
                queries = slice(begin, min(begin + QUERIES, query.shape[1]))
                keys = slice(0, queries.stop if config.causal else key.shape[1])
                part = visible
                if part is not None:
                    part = part[sequence if part.shape[0] > 1 else 0]
                    part = part[heads] if part.shape[0] > 1 else part
                    part = part[:, queries] if part.shape[1] > 1 else part
                yield _Block(rows, queries, keys, part)


def _scores(
    query: Tensor, key: Tensor, block: _Block, causal: bool
) -> Float[Tensor, "h t s"]:
    # Under a causal mask only keys at the positions of the block's queries are masked.
    heads, queries, keys, visible = block
    scores = torch.bmm(query[heads, queries], key[heads, keys].mT)
    if causal:
        size = queries.stop - queries.start
        scores[:, :, queries] += torch.full((size, size), -math.inf).triu(1).to(scores)
    elif visible is not None:
        scores.masked_fill_(~visible, -math.inf)
    return scores


def _draw(
    like: Tensor, config: _Config, generator: torch.Generator
) -> Bool[Tensor, "h t s"]:
    r"""
    ### Dropout mask

    Blocks come in the same order in the forward and the backward pass, and so do the
    random numbers: integers of 16 bits, drawn four at a time, so that $p$ has steps of
    $2^{-16}$. `bernoulli_` takes four times as long.
    """
    count = like.numel()
    four = torch.empty(-(-count // 4), dtype=torch.int64)
    four.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    numbers = four.view(torch.int16)[:count].view(like.shape)
    return numbers >= round(config.dropout_prob * 2**16) - 2**15


class _AttentionInBlocks(torch.autograd.Function):
    """## Forward and backward pass"""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor | None,
        config: _Config,
    ) -> Tensor:
        """
        ### Forward pass

        The heads of all sequences, `[B·H, T, D]`, with queries already scaled.
        """
        output = value.new_empty(*query.shape[:2], value.shape[2])
        log_sums = query.new_empty(*query.shape[:2], 1)
        generator = torch.Generator().manual_seed(config.seed)
        for block in _blocks(query, key, visible, config):
            at, keys = block[:2], (block.heads, block.keys)
            scores = _scores(query, key, block, config.causal)
            weights = torch.softmax(scores, -1)

            # The largest weight is $e^{e - \lambda}$ of the largest score, which gives
            # $\lambda$.
            log_sums[at] = scores.amax(-1, True) - weights.amax(-1, True).log_()
            weights.mul_(_draw(weights, config, generator))
            output[at] = torch.bmm(weights, value[keys])
        output /= 1 - config.dropout_prob
        ctx.save_for_backward(query, key, value, visible, output, log_sums)
        ctx.config = config
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """
        ### Backward pass

        The gradients of keys and values are sums over blocks.
        """
        query, key, value, visible, output, log_sums = ctx.saved_tensors
        config: _Config = ctx.config
        query_grad = torch.empty_like(query)
        key_grad, value_grad = torch.zeros_like(key), torch.zeros_like(value)
        delta = (output * gradient).sum(-1, keepdim=True)
        scaled = gradient / (1 - config.dropout_prob)
        generator = torch.Generator().manual_seed(config.seed)
        for block in _blocks(query, key, visible, config):
            at, keys = block[:2], (block.heads, block.keys)
            scores = _scores(query, key, block, config.causal)
            weights = scores.sub_(log_sums[at]).exp_()

            # $\bar{V}$ and $\bar{A}$, both with the dropped weights left out.
            kept = _draw(weights, config, generator)
            weights_grad = torch.bmm(scaled[at], value[keys].mT).mul_(kept)
            value_grad[keys].baddbmm_((weights * kept).mT, scaled[at])

            # $\bar{e}$, and through the product that made the scores.
            scores_grad = weights_grad.sub_(delta[at]).mul_(weights)
            query_grad[at] = torch.bmm(scores_grad, key[keys])
            key_grad[keys].baddbmm_(scores_grad.mT, query[at])
        return query_grad, key_grad, value_grad, None, None


_autograd_function: Any = _AttentionInBlocks.apply
