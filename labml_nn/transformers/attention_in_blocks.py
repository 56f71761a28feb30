r"""
---
title: Attention in blocks
summary: >
  Scores are made a few queries at a time, used, and thrown away; the backward pass
  makes them again. With dropout, too: whoever knows the seed can drop the same weights
  once more.
paper: https://arxiv.org/abs/2205.14135
---

Attention has $T \cdot S$ scores in each head, and most of its time goes into carrying
them to memory and back: as scores, as weights, as weights of which some were dropped,
and all of that kept for the backward pass. [Fused kernels](scaled_dot_product.py) keep
none of it ([@dao2022flashattention]). But PyTorch's kernel for processors knows no
dropout. Asked for it, PyTorch takes the long way, with every table there is. Dropout of
a tenth, which attention has here by default, then makes it take four to seven times as
long ([below](#what-it-costs)).

So here is the idea of those kernels in PyTorch itself, with dropout. A **block** is
some 64 queries of some heads, with all the keys that they may see: few enough scores to
stay in the processor's cache from the first operation to the last.

**Forward.** For each block,

\begin{align}
E &= \tfrac{1}{\sqrt{d_k}} \, Q K^\top &
L_t &= \log \sum_s e^{E_{ts}} \\
A_{ts} &= e^{E_{ts} - L_t} &
O &= \tfrac{1}{1 - p} \, (A \odot R) \, V
\end{align}

where $R$ is 0 for a weight that is dropped, with probability $p$, and 1 for others. Of
all this only $O$ and $L$ are kept: one row and one number for each query.

**Backward.** $L$ is what makes it cheap to begin again. $E$ is one product, and
$e^{E - L}$ are the weights, with no sum and no largest score to look for. $R$ comes
from a generator of random numbers that starts from the same seed. Write $\bar{V}$ for
the gradient of $V$, and $G = \frac{1}{1 - p} \, \partial \ell / \partial O$. Then the
chain rule goes backwards through the lines above:

\begin{align}
\bar{V} &= (A \odot R)^\top G &
\bar{A} &= (G V^\top) \odot R \\
\bar{E}_{ts} &= A_{ts} \, (\bar{A}_{ts} - D_t) &
D_t &= \sum_s A_{ts} \bar{A}_{ts} \\
\bar{Q} &= \tfrac{1}{\sqrt{d_k}} \, \bar{E} K &
\bar{K} &= \tfrac{1}{\sqrt{d_k}} \, \bar{E}^\top Q
\end{align}

$D$ is the softmax's own: because the weights of a query sum to one, what all of them
would gain together, none of them gains. It needs no sum over keys: $A \odot \bar{A}$
summed over $s$ is the output times its gradient, $D_t = O_t \cdot \partial \ell /
\partial O_t$.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $Q$ | `query` | `[B, H, T, K]` | the queries |
| $K$ | `key` | `[B, H, S, K]` | the keys |
| $V$ | `value` | `[B, H, S, D]` | the values |
| $E$ | `scores` | `[h, t, s]` | of a block: $h$ heads, $t$ queries, the $s$ they see |
| $A$ | `weights` | `[h, t, s]` | its weights |
| $R$ | `kept` | `[h, t, s]` | which of them are not dropped |
| $L$ | `logsums` | `[B·H, T, 1]` | the logarithm of the sum under each softmax |
| $O$ | `output` | `[B·H, T, D]` | a mean of values for each query |
| $G$ | `scaled` | `[B·H, T, D]` | the gradient of the output, over $1 - p$ |
| $D$ | `shared` | `[B·H, T, 1]` | output times its gradient |
| $p$ | `dropout_prob` | | the probability to drop a weight |
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from labml_nn.checks import autocast_is_on

#: Queries of a block, and about how many scores it may have: a megabyte of float32.
QUERIES, SCORES = 64, 2**18

#: Pairs of a query and a key below which the long way is shorter.
FEW = 2**15


def attention_in_blocks(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S D"],
    visible: Bool[Tensor, "#B #H #T S"] | None = None,
    dropout_prob: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
) -> Float[Tensor, "B H T D"]:
    r"""
    ## Attention, a block at a time

    * `query`, `key` and `value` have shapes `[B, H, T, K]`, `[B, H, S, K]` and
      `[B, H, S, D]`, as PyTorch's kernels have it
    * `visible` is boolean, `[B|1, H|1, T|1, S]`, `True` where a query may see a key;
      each has to see one
    * `dropout_prob` is the probability of dropping a weight, below 1
    * `causal` hides what comes later, without a mask; $T = S$ then
    * `scale` is what scores are multiplied with, $1 / \sqrt{d_k}$ if not given

    Returns `[B, H, T, D]`. It checks nothing: `fused_attention` does that, and calls it
    where it `is_for_blocks`.
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale

    # The seed comes from PyTorch's own generator, so that `torch.manual_seed` decides
    # what is dropped here as well.
    seed = int(torch.randint(2**62, ())) if dropout_prob else 0
    plan = _Plan(query.shape[1], causal, dropout_prob, seed)

    # Heads of all texts in one row, `[B·H, T, K]`, each of them in one piece of memory.
    rows = (x.flatten(0, 1) for x in (query * scale, key, value))
    output: Tensor = _in_blocks(*(x.contiguous() for x in rows), visible, plan)
    return torch.unflatten(output, 0, query.shape[:2])


def is_for_blocks(query: Tensor, key: Tensor, dropout_prob: float) -> bool:
    """
    ## When it is faster

    On a processor, in full precision, with dropout, and with enough pairs to make up
    for calls to PyTorch. A graph that is compiled has means of its own.
    """
    return (
        0 < dropout_prob < 1
        and query.shape[2] * key.shape[2] >= FEW
        and query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.float64)
        and not autocast_is_on(query)
        and not torch.compiler.is_compiling()
    )


class _Plan(NamedTuple):
    heads: int
    causal: bool
    dropout_prob: float
    seed: int


class _Block(NamedTuple):
    """
    ### Where a block lies

    Among all heads of all texts; some of their queries; and the keys that these may
    see, all or those up to the last query.
    """

    heads: slice
    queries: slice
    keys: slice
    visible: Bool[Tensor, "#h #t S"] | None


def _blocks(
    query: Tensor, key: Tensor, visible: Tensor | None, plan: _Plan
) -> Iterator[_Block]:
    # Where a mask is not the same for all, a block stays within one text.
    each = plan.heads if visible is not None else query.shape[0]
    some = max(1, min(each, SCORES // (min(QUERIES, query.shape[1]) * key.shape[1])))
    for text in range(query.shape[0] // each):
        for first in range(0, each, some):
            heads = slice(first, min(first + some, each))
            here = slice(text * each + heads.start, text * each + heads.stop)
            for begin in range(0, query.shape[1], QUERIES):
                queries = slice(begin, min(begin + QUERIES, query.shape[1]))
                keys = slice(0, queries.stop if plan.causal else key.shape[1])
                part = visible
                if part is not None:
                    part = part[text if part.shape[0] > 1 else 0]
                    part = part[heads] if part.shape[0] > 1 else part
                    part = part[:, queries] if part.shape[1] > 1 else part
                yield _Block(here, queries, keys, part)


def _scores(
    query: Tensor, key: Tensor, block: _Block, causal: bool
) -> Float[Tensor, "h t s"]:
    r"""
    ### Its scores

    $-\infty$ where nothing may be seen. Under a causal mask that can only be where the
    block meets the diagonal, among the keys that stand where its queries stand.
    """
    heads, queries, keys, visible = block
    scores = torch.bmm(query[heads, queries], key[heads, keys].mT)
    if causal:
        size = queries.stop - queries.start
        scores[:, :, queries] += torch.full((size, size), -math.inf).triu(1).to(scores)
    elif visible is not None:
        scores.masked_fill_(~visible, -math.inf)
    return scores


def _draw(
    like: Tensor, plan: _Plan, generator: torch.Generator
) -> Bool[Tensor, "h t s"]:
    r"""
    ### What is kept

    Blocks come in the same order forward and backward, and so do random numbers. Here
    they are whole numbers of 16 bits, four of which are drawn at a time, compared with
    a limit: $p$ in steps of $2^{-16}$. PyTorch's `bernoulli_` has all digits of $p$ and
    takes four times as long, longer than everything else that is done to a weight.
    """
    count = like.numel()
    four = torch.empty(-(-count // 4), dtype=torch.int64)
    four.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    numbers = four.view(torch.int16)[:count].view(like.shape)
    return numbers >= round(plan.dropout_prob * 2**16) - 2**15


class _InBlocks(torch.autograd.Function):
    """## Both ways"""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, visible: Any, plan: _Plan
    ) -> Tensor:
        """
        ### Forward

        All heads of all texts: `[B·H, T, K]`, `[B·H, S, K]` and `[B·H, S, D]`; the
        queries have been scaled.
        """
        output = value.new_empty(*query.shape[:2], value.shape[2])
        logsums = query.new_empty(*query.shape[:2], 1)
        generator = torch.Generator().manual_seed(plan.seed)
        for block in _blocks(query, key, visible, plan):
            here, there = block[:2], (block.heads, block.keys)
            scores = _scores(query, key, block, plan.causal)
            weights = torch.softmax(scores, -1)

            # The largest weight is $e^{E - L}$ of the largest score, which tells $L$.
            logsums[here] = scores.amax(-1, True) - weights.amax(-1, True).log_()
            if plan.dropout_prob:
                weights.mul_(_draw(weights, plan, generator))
            output[here] = torch.bmm(weights, value[there])
        output /= 1 - plan.dropout_prob
        ctx.save_for_backward(query, key, value, visible, output, logsums)
        ctx.plan = plan
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        r"""
        ### Backward

        Keys and values are seen by many queries, and sum up what each block wants of
        them.
        """
        query, key, value, visible, output, logsums = ctx.saved_tensors
        plan: _Plan = ctx.plan
        of_query = torch.empty_like(query)
        of_key, of_value = torch.zeros_like(key), torch.zeros_like(value)
        shared = (output * gradient).sum(-1, keepdim=True)
        scaled = gradient / (1 - plan.dropout_prob)
        generator = torch.Generator().manual_seed(plan.seed)
        for block in _blocks(query, key, visible, plan):
            here, there = block[:2], (block.heads, block.keys)
            scores = _scores(query, key, block, plan.causal)
            weights = scores.sub_(logsums[here]).exp_()

            # $\bar{V}$ and $\bar{A}$ know which weights were dropped.
            of_weights, used = torch.bmm(scaled[here], value[there].mT), weights
            if plan.dropout_prob:
                kept = _draw(weights, plan, generator)
                of_weights.mul_(kept)
                used = weights * kept
            of_value[there].baddbmm_(used.mT, scaled[here])

            # $\bar{E}$, and on through the product that made the scores.
            of_scores = of_weights.sub_(shared[here]).mul_(weights)
            of_query[here] = torch.bmm(of_scores, key[there])
            of_key[there].baddbmm_(of_scores.mT, query[here])
        return of_query, of_key, of_value, None, None


_in_blocks: Any = _InBlocks.apply


# ## What it costs
#
# Forward and backward of causal attention alone, 8 heads of 32 features, float32, on
# one processor core (AVX-512): time of the processor, median of 5 in turn, and the
# most memory held at once. Dropout is 0.1, where there is any.
#
# | $B$, $T$ | PyTorch, no dropout | PyTorch | in blocks |
# |:--|--:|--:|--:|
# | 16, 128 | 18 ms, 10 MiB | 40 ms, 40 MiB | 37 ms, 17 MiB |
# | 8, 512 | 113 ms, 20 MiB | 503 ms, 272 MiB | 188 ms, 29 MiB |
# | 1, 2,048 | 146 ms, 11 MiB | 1,034 ms, 520 MiB | 318 ms, 17 MiB |
#
# Without dropout the kernel is the faster one, and stays in use: 113 ms against 122
# and 146 against 193 here.
#
# ## Exercises
#
# **1.** Why is $D_t = \sum_s A_{ts} \bar{A}_{ts}$ the output times its gradient, even
# where weights were dropped? Write both sides down, and compute them.
#
# <details><summary>Answer</summary>
#
# $\bar{A}_{ts} = R_{ts} \, G_t \cdot V_s$. Summed with $A_{ts}$ that is $G_t \cdot
# \sum_s A_{ts} R_{ts} V_s$. The sum is $(1 - p) \, O_t$, and $(1 - p) \, G_t$ is the
# gradient of $O_t$: what is dropped is missing on both sides.
#
# ```python
# import torch
#
# weights = torch.randn(5, 7).softmax(-1).requires_grad_()  # [T, S]
# value, kept = torch.randn(7, 4), torch.rand(5, 7) < 0.7
# output = (weights * kept / 0.7) @ value
# gradient = torch.randn(5, 4)
# (of_weights,) = torch.autograd.grad(output, weights, gradient)
# torch.testing.assert_close((weights * of_weights).sum(1), (output * gradient).sum(1))
# ```
#
# </details>
#
# **2.** How many numbers wait for the backward pass, here and in `matmul_attention`?
# PyTorch tells, if a hook asks.
#
# <details><summary>Answer</summary>
#
# Here there are five tensors, none of them longer than a row for each position. There,
# scores and weights.
#
# ```python
# import torch
# from labml_nn.transformers.attention_in_blocks import attention_in_blocks
# from labml_nn.transformers.scaled_dot_product import matmul_attention
#
# def largest(attend):
#     kept = []
#
#     def pack(x):
#         kept.append(x.numel())
#         return x
#
#     with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
#         attend(*torch.randn(3, 1, 2, 256, 8, requires_grad=True))
#     return max(kept)
#
# assert largest(lambda *x: attention_in_blocks(*x, dropout_prob=0.1)) == 2 * 256 * 8
# sequence_first = lambda *x: matmul_attention(*(y.permute(2, 0, 1, 3) for y in x))
# assert largest(sequence_first) == 2 * 256 * 256
# ```
#
# </details>
#
# **3.** With numbers of 16 bits, how far can $p$ be from what was asked for? And the
# mean of the output?
#
# <details><summary>Answer</summary>
#
# By half a step, $2^{-17}$. The mean is $(1 - p') / (1 - p)$ times what it should be:
# at $p = 0.1$ it is 0.00001 too small.
#
# ```python
# import math
#
# steps = round(0.1 * 2**16)
# assert abs(steps / 2**16 - 0.1) < 2**-17
# assert math.isclose((1 - steps / 2**16) / (1 - 0.1), 1, rel_tol=1e-5)
# ```
#
# </details>
