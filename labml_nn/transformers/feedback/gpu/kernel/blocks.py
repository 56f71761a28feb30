r"""
---
title: Programs and blocks
summary: >
  What the programs of a feedback transformer on a GPU are made of: a product of a
  vector and a piece of a matrix, a norm, a nonlinearity, and sizes that are powers of
  two.
---

[Triton](https://triton-lang.org) compiles functions that look like Python for a GPU.
Four things have to be known to read them.

**A program works on blocks.** `tl.arange(0, 128)` is a block of 128 numbers, and
`a + b` of two such blocks is 128 sums. Which of the threads of a program makes which of
them is the compiler's affair. To us a program is one worker with wide hands.

**Memory is addresses.** A tensor arrives as the address of its first number. What lies
at `places`, a block of addresses, comes with `tl.load(places)`, and `tl.store` is the
way back. There are no shapes: row $i$, column $j$ of a matrix with $C$ columns is at
`matrix + i * C + j`.

**Sizes of blocks are powers of two.** $C = 12$ features lie in a block of 16, and a
*mask* says which of the 16 are meant. The others are read as zeros, which change no
sum.

**Some values are known when it is compiled.** A size, or which nonlinearity there is: a
branch on those is decided by the compiler, and the program that runs has no trace of
it. Here they are gathered in a [`Plan`](#Plan).

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $C$, $F$ | `width`, `hidden` | | features, and hidden features |
| $H$, $K$ | `heads`, `head` | | heads, and features of one |
| $C'$, $K'$ | `wide`, `head_wide` | | the next powers of two |
"""

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from labml_nn.transformers.feedback.by_hand.form import Form

#: How many numbers of a matrix a program has in hand at once. A few such blocks, of 256
#: threads, fit into their registers.
BLOCK = 8192

#: How many rows of memory it looks at together, at most.
ROWS = 128

#: As low as no score is. (An infinity less an infinity would be no number.)
LOWEST = tl.constexpr(-1e30)


class Plan(NamedTuple):
    r"""
    ## Known when it is compiled

    Sizes as above, and what of them is done at a time:

    * `group` is how many heads, `rows` how many rows of memory
    * `columns` is how many columns of a matrix with $C$ rows

    The others are those of [`Form`](../../by_hand/form.py).
    """

    layers: Any
    width: Any
    hidden: Any
    heads: Any
    head: Any
    wide: Any
    head_wide: Any
    group: Any
    rows: Any
    columns: Any
    eps: Any
    horizon: Any
    norm_memory: Any
    activation: Any
    is_gated: Any


def plan_of(
    form: Form, layers: int, width: int, hidden: int, activation: str | None
) -> Plan:
    r"""
    ### Cut it to size

    * `form` is that of the model
    * `layers`, `width`, `hidden` are $L$, $C$ and $F$
    * `activation` is the [name](index.html#NAMES) of $f$

    All heads at once are best: their products are one. Of wide vectors a block has room
    for a few heads only. And with a gate there are three matrices on their way in the
    place of two, so there are fewer columns of each.
    """
    head = width // form.heads
    wide, head_wide = (triton.next_power_of_2(size) for size in (width, head))
    heads = triton.next_power_of_2(form.heads)
    group = min(heads, max(1, BLOCK // (wide * head_wide)))
    rows = min(ROWS, max(1, BLOCK // (group * head_wide)))
    known = (
        *(layers, width, hidden, form.heads, head, wide, head_wide, group, rows),
        min(triton.next_power_of_2(hidden), max(1, BLOCK // wide >> form.is_gated)),
        *(form.eps, form.horizon, form.norm_memory, activation, form.is_gated),
    )
    return Plan(*(None if value is None else tl.constexpr(value) for value in known))


@triton.jit
@no_type_check
def mark(numbers):
    r"""
    ## The smallest program

    As many as there are texts are launched, and each writes its own number. Whoever can
    run it can run the others.
    """
    text = tl.program_id(0)
    tl.store(numbers + text, text)


@triton.jit
@no_type_check
def product(x, row, is_row, matrix, column, is_column, stride):
    r"""
    ## A vector and a piece of a matrix

    $$y_j = \sum_i x_i A_{ij}$$

    * `x` is the block of all $x_i$
    * `row`, `column` are the $i$ and $j$ of the piece, and `is_row`, `is_column` say
      which of them there are
    * `matrix` is the address of $A$, and `stride` how far apart its rows are

    The matrix lies in memory so that results are side by side. Then neighbours read
    neighbouring numbers, and a thread adds up its own column first, in a register,
    before threads have to talk to one another.
    """
    places = matrix + row[:, None] * stride + column[None, :]
    piece = tl.load(places, mask=is_row[:, None] & is_column[None, :], other=0.0)
    return tl.sum(x[:, None] * piece, 0)


@triton.jit
@no_type_check
def columns_of(first, plan):
    r"""
    ## Heads side by side

    A group of heads is a block of `group` times $K'$ places, and place $i$ is feature
    $i \bmod K'$ of its head. Among all features of all heads, where no head has been
    filled up, that is another number.

    * `first` is the first head of the group

    Returns these numbers, and whether there is such a feature.
    """
    place = tl.arange(0, plan.group * plan.head_wide)
    head = first + place // plan.head_wide
    feature = place % plan.head_wide
    is_column = (head < plan.heads) & (feature < plan.head)
    return head * plan.head + feature, is_column


@triton.jit
@no_type_check
def normalise(x, is_real, width, eps):
    r"""
    ## A norm

    $\hat{x}$: mean 0, variance 1. The features that fill the block up are zero before
    and after.
    """
    away = tl.where(is_real, x - tl.sum(x) / width, 0.0)
    return away / tl.sqrt(tl.sum(away * away) / width + eps)


@triton.jit
@no_type_check
def bend(x, activation):
    r"""
    ## A nonlinearity

    Chosen when it is compiled.
    """
    if activation == "relu":
        x = tl.maximum(x, 0.0)
    elif activation == "gelu":
        x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif activation == "silu":
        x = x * tl.sigmoid(x)
    elif activation == "sigmoid":
        x = tl.sigmoid(x)
    return x
