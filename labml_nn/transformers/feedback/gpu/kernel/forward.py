r"""
---
title: A text in one program
summary: >
  The recurrence of a feedback transformer as one program of a GPU for each text, which
  goes through all steps and layers and asks nobody.
---

The same equations as [by hand](../../by_hand/forward.py), once more:

\begin{align}
q &= W_Q \, \hat{x}^{l-1} + u \\
a &= \operatorname{softmax}_j \left( q^\top (k_j + E_{S-j}) + b'_{S-j} \right) \\
z &= x^{l-1} + W_O \, \textstyle\sum_j a_j v_j + b_O \\
x^l &= z + W_2^\top f(W_1 \hat{z} + b_1) + b_2 \\
(k_t, v_t) &= W_{KV} \, \hat{m}_t, \qquad m_t = \textstyle\sum_l w_l \, x_t^l
\end{align}

A text has nothing to do with the others of its batch. So each is given to a program of
its own, and the program runs from the first step to the last. It is written as one
would write it for a single text: $x$ is a vector, and every product is one of a vector
and a matrix.

**What is handed on stays in hand.** The vector $x$ never leaves the registers between
the first layer and the last. A product needs *all* of $x$ and makes *some* numbers, and
the next product needs all of those. It looks as if they had to be put down somewhere
and fetched again. But a sum may be taken in any order. Make some hidden features, and
at once add what *they* contribute to the result:

$$W_2^\top h = \sum_{\text{pieces } P} \; \sum_{i \in P} h_i \, (W_2)_i$$

The same goes for heads: a group of them finds something, and its share of $W_O \, o$ is
added up.

**One barrier a step.** Only the row that a step leaves behind goes through memory. The
threads that read it in the next step are not those that wrote it, so all wait until it
is written. That is `tl.debug_barrier()`, at the end of a step, and it concerns the
threads of one program alone. Nothing else that a program reads has been written by it,
and no row is written twice.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^l$ | `outputs` | `[T, L + 1, B, C]` | all layers, embeddings first |
| $(k_j, v_j)$ | `memory` | `[B, S, 2·C]` | rows of each text |
| $q$ | `query` | `[H', K']` | of a group of heads |
| $a$ | `share` | `[S', H']` | weights of some rows, not yet divided |
| $m_t$ | `vector` | `[C']` | grows from layer to layer |

Matrices come the other way round than [folded](../../by_hand/weights.py), with what
goes in as their rows: $W_Q^\top$, $W_O^\top$, $W_1^\top$, $W_{KV}^\top$, and $W_2$ as
it is. Distances come as `[L, S, C]`.
"""

from typing import no_type_check

import triton
import triton.language as tl

from labml_nn.transformers.feedback.gpu.kernel.blocks import (
    LOWEST,
    bend,
    columns_of,
    normalise,
    product,
)


@triton.jit
@no_type_check
def scores_of(query, head, layer, row, end, memory, weights, masks, span, plan):
    r"""
    ## Scores

    $$A_j = q^\top (k_j + E_{S - j}) + b'_{S - j}$$

    * `query` is that of a group of heads, `[H', K']`, and `head` are their numbers
    * `row` are some rows, of those before row `end`
    * `memory` is where the rows of this text begin

    Returns scores, `[S', H']`. A row that is not there, or is none of the text's own,
    has one that leaves it no weight.
    """
    feature = tl.arange(0, plan.head_wide)
    is_real = (head < plan.heads)[:, None] & (feature < plan.head)[None, :]
    column = (head * plan.head)[:, None] + feature[None, :]
    is_seen = row < end
    mask = is_seen[:, None, None] & is_real[None, :, :]
    places = memory + (row * 2 * plan.width)[:, None, None] + column[None, :, :]
    key = tl.load(places, mask=mask, other=0.0)

    # The last row is at distance 1, and that is at the end of the table.
    near = (layer + 1) * span.longest - end + row
    places = (near * plan.width)[:, None, None] + column[None, :, :]
    key += tl.load(weights.distance + places, mask=mask, other=0.0)
    places = (near * plan.heads)[:, None] + head[None, :]
    mask = is_seen[:, None] & (head < plan.heads)[None, :]
    score = tl.load(weights.distance_bias + places, mask=mask, other=0.0)
    score += tl.sum(key * query[None, :, :], 2)
    if masks.blank is not None:
        places = masks.blank + row * tl.num_programs(0) + tl.program_id(0)
        is_seen &= tl.load(places, mask=row < span.before, other=0) == 0
    return tl.where(is_seen[:, None], score, float("-inf"))


@triton.jit
@no_type_check
def look(query, head, layer, t, memory, weights, masks, span, plan):
    r"""
    ## Look back

    The weights of a softmax have to be divided by their sum, which is known when the
    last row has been seen. Rows come in blocks, so we go on as one does with a mean:
    what was found so far is kept undivided, and relative to the highest score so far,
    $h$. When a block has a higher one, $h'$, all of it shrinks:

    $$o' = e^{h - h'} o + \sum_j e^{A_j - h'} v_j, \qquad
    s' = e^{h - h'} s + \sum_j e^{A_j - h'}$$

    In the end $o / s$ is what was found ([@milakov2018online]). Returns it,
    `[H', K']`.
    """
    text, texts = tl.program_id(0), tl.num_programs(0)
    end, first = span.before + t, 0
    if plan.horizon is not None:
        first = tl.maximum(0, end - plan.horizon)
    feature = tl.arange(0, plan.head_wide)
    is_real = (head < plan.heads)[:, None] & (feature < plan.head)[None, :]
    values = memory + plan.width + (head * plan.head)[:, None] + feature[None, :]

    highest = tl.full([plan.group], LOWEST, query.dtype)
    total = tl.zeros([plan.group], query.dtype)
    found = tl.zeros([plan.group, plan.head_wide], query.dtype)
    for block in range(first, end, plan.rows):
        row = block + tl.arange(0, plan.rows)
        score = scores_of(
            query, head, layer, row, end, memory, weights, masks, span, plan
        )
        higher = tl.maximum(highest, tl.max(score, 0))
        shrink = tl.exp(highest - higher)
        share = tl.exp(score - higher[None, :])
        total = total * shrink + tl.sum(share, 0)
        highest = higher

        # What is dropped is found no more, but the others get none of its weight.
        if masks.attention is not None:
            line = (head * texts + text).to(tl.int64) * span.steps + t - span.start
            line = (line * plan.layers + layer) * span.seen - span.low
            mask = (row < end)[:, None] & (head < plan.heads)[None, :]
            places = masks.attention + line[None, :] + row[:, None]
            share *= tl.load(places, mask=mask, other=0.0)

        #
        mask = (row < end)[:, None, None] & is_real[None, :, :]
        places = values[None, :, :] + (row * 2 * plan.width)[:, None, None]
        value = tl.load(places, mask=mask, other=0.0)
        found = found * shrink[:, None] + tl.sum(share[:, :, None] * value, 0)
    return found / total[:, None]


@triton.jit
@no_type_check
def attend(x, layer, t, memory, weights, masks, span, plan):
    r"""
    ## What attention adds

    * `x` is $x^{l-1}$, `[C']`

    Returns $W_O o + b_O$, `[C']`. Heads come in groups: their queries are one product,
    and what they found is one more, without ever leaving the program.
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    ready = normalise(x, is_real, plan.width, plan.eps)
    square = layer * plan.width * plan.width
    bias = weights.query_bias + layer * plan.width
    added = tl.load(
        weights.output_bias + layer * plan.width + feature, mask=is_real, other=0.0
    )
    for first in range(0, plan.heads, plan.group):
        column, is_column = columns_of(first, plan)
        query = tl.load(bias + column, mask=is_column, other=0.0)
        matrix = weights.query + square
        query += product(ready, feature, is_real, matrix, column, is_column, plan.width)
        query = tl.reshape(query, [plan.group, plan.head_wide])

        head = first + tl.arange(0, plan.group)
        found = look(query, head, layer, t, memory, weights, masks, span, plan)
        found = tl.reshape(found, [plan.group * plan.head_wide])
        matrix = weights.output + square
        added += product(found, column, is_column, matrix, feature, is_real, plan.width)
    return added


@triton.jit
@no_type_check
def place_of(layer, t, span):
    r"""
    Which of the `[L, n, B]` of a span it is. There may be more numbers in what is
    dropped than 32 bits can count.
    """
    place = (layer * span.steps + t - span.start) * tl.num_programs(0)
    return (place + tl.program_id(0)).to(tl.int64)


@triton.jit
@no_type_check
def conclude(z, layer, t, weights, masks, span, plan):
    r"""
    ## What the network adds

    * `z` is what attention left, `[C']`

    Returns $W_2^\top h + b_2$, `[C']`. Of the $F$ hidden features there are never more
    than a few at a time. With `num_stages=2` the next piece of both matrices is on its
    way while this one is multiplied.
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    ready = normalise(z, is_real, plan.width, plan.eps)
    added = tl.load(
        weights.down_bias + layer * plan.width + feature, mask=is_real, other=0.0
    )
    wide = plan.hidden * (1 + plan.is_gated)
    matrix = weights.up + layer * plan.width * wide
    back = weights.down + layer * plan.hidden * plan.width
    bias = weights.up_bias + layer * wide
    for first in tl.range(0, plan.hidden, plan.columns, num_stages=2):
        column = first + tl.arange(0, plan.columns)
        is_column = column < plan.hidden
        hidden = product(ready, feature, is_real, matrix, column, is_column, wide)
        hidden += tl.load(bias + column, mask=is_column, other=0.0)
        hidden = bend(hidden, plan.activation)
        if plan.is_gated:
            other = column + plan.hidden
            gate = product(ready, feature, is_real, matrix, other, is_column, wide)
            gate += tl.load(bias + other, mask=is_column, other=0.0)
            hidden *= gate
        if masks.hidden is not None:
            place = place_of(layer, t, span)
            places = masks.hidden + place * plan.hidden + column
            hidden *= tl.load(places, mask=is_column, other=0.0)
        added += product(hidden, column, is_column, back, feature, is_real, plan.width)
    return added


@triton.jit
@no_type_check
def remember(vector, row, weights, plan):
    r"""
    ## What a step leaves behind

    * `vector` is $m_t$, `[C']`
    * `row` is where its key and its value go
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    if plan.norm_memory:
        vector = normalise(vector, is_real, plan.width, plan.eps)
    for first in tl.range(0, 2 * plan.width, plan.columns, num_stages=2):
        column = first + tl.arange(0, plan.columns)
        is_column = column < 2 * plan.width
        part = tl.load(weights.memory_bias + column, mask=is_column, other=0.0)
        part += product(
            vector, feature, is_real, weights.memory, column, is_column, 2 * plan.width
        )
        tl.store(row + column, part, mask=is_column)


@triton.jit
@no_type_check
def keep(added, mask, layer, t, span, plan):
    r"""
    What dropout leaves of what a branch adds.
    """
    if mask is not None:
        feature = tl.arange(0, plan.wide)
        places = mask + place_of(layer, t, span) * plan.width + feature
        added *= tl.load(places, mask=feature < plan.width, other=0.0)
    return added


@triton.jit
@no_type_check
def read_on(outputs, memory, weights, masks, span, plan):
    r"""
    ## The program

    One for each text, and this is all of it. `span` says which steps there are;
    `masks` holds the dropout of these steps, and `None` where nothing is dropped.
    """
    text, texts = tl.program_id(0), tl.num_programs(0)
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    memory += text.to(tl.int64) * span.room * 2 * plan.width
    for t in range(span.start, span.stop):
        here = (tl.cast(t, tl.int64) * (plan.layers + 1) * texts + text) * plan.width
        places = outputs + here + feature
        x = tl.load(places, mask=is_real, other=0.0)
        vector = tl.load(weights.shares) * x
        for layer in range(plan.layers):
            added = attend(x, layer, t, memory, weights, masks, span, plan)
            z = x + keep(added, masks.attended, layer, t, span, plan)
            added = conclude(z, layer, t, weights, masks, span, plan)
            x = z + keep(added, masks.concluded, layer, t, span, plan)
            places += texts * plan.width
            tl.store(places, x, mask=is_real)
            vector += tl.load(weights.shares + layer + 1) * x

        # The next step will look at this row.
        row = memory + (span.before + t) * 2 * plan.width
        remember(vector, row, weights, plan)
        tl.debug_barrier()
