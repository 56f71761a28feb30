r"""
---
title: And back in one program
summary: >
  The walk back through a feedback transformer as one program of a GPU for each text:
  vectors only, and rows that ask who looked at them.
---

Of the way back little has to go [step by step](../../by_hand/backward.py). What was
known is had again for a span of steps in large products, and the gradients of weights
are large products of what the walk has noted down. What is left is the walk, and it is
as much a matter of one text as [the way there](forward.py) was. Its equations are those
of the walk by hand, with $N$ for the way through a norm:

\begin{align}
\delta_m &= N \left( W_{KV}^\top \, (\delta_{k_t}, \delta_{v_t}) \right) \\
\delta_p &= f'(p) \otimes W_2 \, \delta_{x^l} \\
\delta_z &= \delta_{x^l} + N(W_1^\top \delta_p) \\
\delta_o &= W_O^\top \, \delta_z \\
\delta_{A_j} &= a_j \left( \delta_o^\top v_j - \delta_o^\top o \right) \\
\delta_q &= \textstyle\sum_j \delta_{A_j} \, (k_j + E_{S - j}) \\
\delta_{x^{l-1}} &= \delta_z + N(W_Q^\top \delta_q) + w_{l-1} \, \delta_m
\end{align}

**Praise for all.** A softmax takes out what all rows are praised for alike. That is
$\sum_j a_j \delta_{a_j}$, for which one would have to go through all rows before the
first of them can be blamed. But $\delta_{a_j} = \delta_o^\top v_j$, and so the sum is
$\delta_o^\top \sum_j a_j v_j = \delta_o^\top o$, which is known already. One turn is
enough ([@dao2022flashattention, appendix B.2]).

**A row asks.** By hand, each step tells the rows that it looked at what it has to say
of them. Here it is the other way round. When the walk comes to step $j$, all who looked
at its row have written down their blame of it, and it adds up:

$$\delta_{k_j} = \sum_{t > j} \sum_{l} \delta_{A_{tj}}^l \, q_t^l, \qquad
\delta_{v_j} = \sum_{t > j} \sum_{l} a_{tj}^l \, \delta_{o_t}^l$$

What was written once is read later, and never changed. So one barrier a step is enough
here too. The sum is over the later steps of the span; what spans that come after it
have to say of its rows is one product for each, and has been added before.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\delta_{x^l}$, $\delta_z$ | `blame` | `[C']` | on its way down the layers |
| $\delta_m$ | `vector` | `[C']` | blame of the memory vector |
| $\delta_o$ | `found` | `[H', K']` | blame of what a group of heads found |
| $\delta_A$ | `score` | `[S', H']` | blame of scores |
| $\delta_q$ | `asked` | `[H', K']` | blame of queries |
"""

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl

from labml_nn.transformers.feedback.gpu.kernel.blocks import columns_of, product


class Facts(NamedTuple):
    r"""
    ## What was known

    Of a span of $n$ steps, as it is [had again](../../by_hand/again.py), and from
    outside:

    * `x`, `z` are $\hat{x}$ and $\hat{z}$, `[L, n, B, C]`; `x_rstd`, `z_rstd` are their
      $1 / \sigma$
    * `slopes` is $f'$, `[L, n, B, 1 or 2, F]`
    * `query` is $q$, `[H·B, n·L, K]`
    * `attn`, `kept` are $a$ before and after dropout, `[H·B, n·L, S]`
    * `found` is $o$, `[L, n, B, C]`
    * `vector` is $\hat{m}_t$, `[n, B, C]`, and `vector_rstd` its $1 / \sigma$
    * `key`, `value` are all rows, `[H·B, S, K]`
    * `gradients` is what the loss has to say of the last layer, `[T, B, C]`
    """

    x: Any
    x_rstd: Any
    z: Any
    z_rstd: Any
    slopes: Any
    query: Any
    attn: Any
    kept: Any
    found: Any
    vector: Any
    vector_rstd: Any
    key: Any
    value: Any
    gradients: Any


@triton.jit
@no_type_check
def through_norm(blame, x, rstd, place, plan):
    r"""
    ## Through a norm

    $$N(\delta_{\hat{x}}) = \frac{1}{\sigma} \left( \delta_{\hat{x}}
        - \operatorname{mean}(\delta_{\hat{x}})
        - \hat{x} \operatorname{mean}(\delta_{\hat{x}} \otimes \hat{x}) \right)$$

    * `x`, `rstd` are where all $\hat{x}$ and $1 / \sigma$ lie, and `place` says which
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    x = tl.load(x + place * plan.width + feature, mask=is_real, other=0.0)
    blame -= tl.sum(blame) / plan.width + x * (tl.sum(blame * x) / plan.width)
    return tl.where(is_real, blame * tl.load(rstd + place), 0.0)


@triton.jit
@no_type_check
def note(blame, mask, notes, place, plan):
    r"""
    ## What dropout let through

    Noted down.
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    if mask is not None:
        places = mask + place * plan.width + feature
        blame *= tl.load(places, mask=is_real, other=0.0)
    tl.store(notes + place * plan.width + feature, blame, mask=is_real)
    return blame


@triton.jit
@no_type_check
def gather(blames, vectors, line, apart, old, head, step, span, plan):
    r"""
    ## A row asks

    * `blames` are weights of rows, $\delta_A$ or $a$, `[H·B, n·L, S]`, and `vectors`
      are what they weigh, $q$ or $\delta_o$
    * `line` is where the vectors of this text begin, for each of the heads `head`, and
      `apart` how far one is from the next
    * `old` is what later spans have said, `[H·B, S, K]`

    Returns $\delta_k$ or $\delta_v$ of the row that `step` wrote, `[H', K']`.
    """
    feature = tl.arange(0, plan.head_wide)
    is_real = (head < plan.heads)[:, None] & (feature < plan.head)[None, :]
    pair = (head * tl.num_programs(0) + tl.program_id(0)).to(tl.int64)
    row = span.before + span.start + step
    old += ((pair * span.room + row) * plan.head)[:, None] + feature[None, :]
    total = tl.load(old, mask=is_real, other=0.0)
    end = span.steps * plan.layers
    for block in range((step + 1) * plan.layers, end, plan.rows):
        by = block + tl.arange(0, plan.rows)
        is_pair = (by < end)[:, None] & (head < plan.heads)[None, :]
        places = ((pair * end)[None, :] + by[:, None]) * span.seen + row - span.low
        blame = tl.load(blames + places, mask=is_pair, other=0.0)
        places = (line[None, :] + by[:, None] * apart)[:, :, None]
        mask = is_pair[:, :, None] & is_real[None, :, :]
        vector = tl.load(
            vectors + places + feature[None, None, :], mask=mask, other=0.0
        )
        total += tl.sum(blame[:, :, None] * vector, 0)
    return total


@triton.jit
@no_type_check
def forget(step, facts, notes, of_keys, of_values, weights, span, plan):
    r"""
    ## The row that a step wrote

    Returns $\delta_m$, `[C']`. Heads come in groups, as on the way there, and of each
    group the share of $W_{KV}^\top (\delta_k, \delta_v)$ is added at once.
    """
    text, texts = tl.program_id(0), tl.num_programs(0)
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    here = step * texts + text
    vector = tl.zeros([plan.wide], facts.x.dtype.element_ty)
    apart = plan.heads * texts * plan.head
    for first in range(0, plan.heads, plan.group):
        head = first + tl.arange(0, plan.group)
        pair = (head * texts + text).to(tl.int64)
        line = pair * span.steps * plan.layers * plan.head
        key = gather(
            notes.scores, facts.query, line, plan.head, of_keys, head, step, span, plan
        )
        line = pair * plan.head
        value = gather(
            facts.kept, notes.found, line, apart, of_values, head, step, span, plan
        )

        # The row, noted down, and its share of the sum.
        column, is_column = columns_of(first, plan)
        key = tl.reshape(key, [plan.group * plan.head_wide])
        value = tl.reshape(value, [plan.group * plan.head_wide])
        row = notes.row + here * 2 * plan.width
        tl.store(row + column, key, mask=is_column)
        tl.store(row + plan.width + column, value, mask=is_column)
        matrix = weights.memory
        vector += product(key, column, is_column, matrix, feature, is_real, plan.width)
        matrix += plan.width * plan.width
        vector += product(
            value, column, is_column, matrix, feature, is_real, plan.width
        )
    if plan.norm_memory:
        vector = through_norm(vector, facts.vector, facts.vector_rstd, here, plan)
    tl.store(notes.vector + here * plan.width + feature, vector, mask=is_real)
    return vector


@triton.jit
@no_type_check
def conclude(blame, place, layer, facts, notes, masks, weights, plan):
    r"""
    ## Back through the network

    * `blame` is $\delta_{x^l}$, `[C']`
    * `place` is that of layer, step and text among all of a span

    Returns $\delta_z$.
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    concluded = note(blame, masks.concluded, notes.concluded, place, plan)
    through = tl.zeros_like(blame)
    down = weights.down + layer * plan.width * plan.hidden
    up = weights.up + layer * plan.width * plan.hidden * (1 + plan.is_gated)
    here = place * plan.hidden * (1 + plan.is_gated)
    for first in tl.range(0, plan.hidden, plan.columns, num_stages=2):
        column = first + tl.arange(0, plan.columns)
        is_column = column < plan.hidden
        hidden = product(
            concluded, feature, is_real, down, column, is_column, plan.hidden
        )
        slope = tl.load(facts.slopes + here + column, mask=is_column, other=0.0)
        tl.store(notes.up + here + column, hidden * slope, mask=is_column)
        through += product(
            hidden * slope, column, is_column, up, feature, is_real, plan.width
        )
        if plan.is_gated:
            other = column + plan.hidden
            slope = tl.load(facts.slopes + here + other, mask=is_column, other=0.0)
            tl.store(notes.up + here + other, hidden * slope, mask=is_column)
            through += product(
                hidden * slope, other, is_column, up, feature, is_real, plan.width
            )
    return blame + through_norm(through, facts.z, facts.z_rstd, place, plan)


@triton.jit
@no_type_check
def ask(found, praise, first, step, layer, facts, notes, masks, weights, span, plan):
    r"""
    ## Back through the weights

    * `found` is $\delta_o$ of a group of heads, `[H', K']`, and `first` the first head
    * `praise` is $\delta_o^\top o$ of each, `[H']`

    Returns $\delta_q$, and notes down $\delta_o$ and $\delta_A$.
    """
    text, texts = tl.program_id(0), tl.num_programs(0)
    head = first + tl.arange(0, plan.group)
    feature = tl.arange(0, plan.head_wide)
    is_real = (head < plan.heads)[:, None] & (feature < plan.head)[None, :]
    pair = (head * texts + text).to(tl.int64)
    note = (step * plan.layers + layer) * plan.heads * texts + pair
    note = notes.found + (note * plan.head)[:, None] + feature[None, :]
    tl.store(note, found, mask=is_real)

    # Row by row.
    end = span.before + span.start + step
    line = (pair * span.steps + step) * plan.layers + layer
    line = line * span.seen - span.low
    distance = weights.distance + layer * span.longest * plan.width
    column = (head * plan.head)[:, None] + feature[None, :]
    asked = tl.zeros_like(found)
    for block in range(span.low, end, plan.rows):
        row = block + tl.arange(0, plan.rows)
        is_pair = (row < end)[:, None] & (head < plan.heads)[None, :]
        mask = is_pair[:, :, None] & is_real[None, :, :]
        places = (pair * span.room)[None, :] + row[:, None]
        places = (places * plan.head)[:, :, None] + feature[None, None, :]
        value = tl.load(facts.value + places, mask=mask, other=0.0)
        key = tl.load(facts.key + places, mask=mask, other=0.0)

        # The oldest rows of a span may be too old for this step. There is no distance
        # for them, and no weight.
        near = span.longest - end + row
        mask &= (near >= 0)[:, None, None]
        places = (near * plan.width)[:, None, None] + column[None, :, :]
        key += tl.load(distance + places, mask=mask, other=0.0)

        # A weight that was dropped did not take part.
        places = line[None, :] + row[:, None]
        score = tl.sum(found[None, :, :] * value, 2)
        if masks.attention is not None:
            score *= tl.load(masks.attention + places, mask=is_pair, other=0.0)
        attn = tl.load(facts.attn + places, mask=is_pair, other=0.0)
        score = attn * (score - praise[None, :])
        tl.store(notes.scores + places, score, mask=is_pair)
        asked += tl.sum(score[:, :, None] * key, 0)
    return asked


@triton.jit
@no_type_check
def attend(blame, place, step, layer, facts, notes, masks, weights, span, plan):
    r"""
    ## Back through attention

    * `blame` is $\delta_z$, `[C']`

    Returns $\delta_z + N(W_Q^\top \delta_q)$.
    """
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    attended = note(blame, masks.attended, notes.attended, place, plan)
    through = tl.zeros_like(blame)
    square = layer * plan.width * plan.width
    here = place * plan.width
    for first in range(0, plan.heads, plan.group):
        column, is_column = columns_of(first, plan)
        matrix = weights.output + square
        found = product(
            attended, feature, is_real, matrix, column, is_column, plan.width
        )
        praise = tl.load(facts.found + here + column, mask=is_column, other=0.0)
        praise = tl.reshape(found * praise, [plan.group, plan.head_wide])
        found = tl.reshape(found, [plan.group, plan.head_wide])
        asked = ask(
            *(found, tl.sum(praise, 1), first, step, layer),
            *(facts, notes, masks, weights, span, plan),
        )
        asked = tl.reshape(asked, [plan.group * plan.head_wide])
        tl.store(notes.query + here + column, asked, mask=is_column)
        matrix = weights.query + square
        through += product(
            asked, column, is_column, matrix, feature, is_real, plan.width
        )
    return blame + through_norm(through, facts.x, facts.x_rstd, place, plan)


@triton.jit
@no_type_check
def walk_back(facts, notes, totals, masks, weights, span, plan):
    r"""
    ## The program

    One for each text, from the last step of a span to its first. `totals` has the
    gradients of the text, and what later spans have said of rows.
    """
    text, texts = tl.program_id(0), tl.num_programs(0)
    feature = tl.arange(0, plan.wide)
    is_real = feature < plan.width
    for back in range(span.steps):
        step = span.steps - 1 - back
        vector = forget(
            step, facts, notes, totals.key, totals.value, weights, span, plan
        )
        t = (span.start + step).to(tl.int64)
        places = (t * texts + text) * plan.width + feature
        blame = tl.load(facts.gradients + places, mask=is_real, other=0.0)
        blame += tl.load(weights.shares + plan.layers) * vector
        for above in range(plan.layers):
            layer = plan.layers - 1 - above
            place = ((layer * span.steps + step) * texts + text).to(tl.int64)
            blame = conclude(blame, place, layer, facts, notes, masks, weights, plan)
            blame = attend(
                blame, place, step, layer, facts, notes, masks, weights, span, plan
            )
            blame += tl.load(weights.shares + layer) * vector
        tl.store(totals.x_seq + places, blame, mask=is_real)

        # The step before this one will ask what has been noted down.
        tl.debug_barrier()
