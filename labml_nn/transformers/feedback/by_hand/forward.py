r"""
---
title: A feedback transformer, step by step
summary: >
  The loop of a feedback transformer with nothing in it that could be done before or
  after it, written into memory that was set aside.
---

This is [`FeedbackTransformerKV`](../shared.py) once more, the same equations with
[folded](weights.py) parameters. With $\hat{x}$ for $x$ normalised, a layer at step $t$
is

\begin{align}
q &= W_Q \, \hat{x}^{l-1} + u \\
a &= \operatorname{softmax}_j \left( q^\top k_j + q^\top E_d + b'_d \right) \\
o &= \textstyle\sum_j a_j v_j \\
z &= x^{l-1} + W_O \, o + b_O \\
h &= f(W_1 \hat{z} + b_1) \\
x^l &= z + W_2^\top h + b_2
\end{align}

and what it leaves behind is

$$m_t = \sum_l w_l \, x_t^l, \qquad
(k_t, v_t) = W_{KV} \, \hat{m}_t$$

Nothing here is for autograd. What [the way back](backward.py) needs can be had again
from two things, which the loop writes down anyway: the outputs of all layers, and the
keys and values.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^l$ | `outputs` | `[T, L + 1, B, C]` | all layers, embeddings first |
| $k_j$, $v_j$ | `keys`, `values` | `[H·B, S, K]` | memory of each head and text |
| $q$ | `query` | `[H, B, K]` | what each head looks for |
| $a$ | `attn` | `[H·B, 1, S]` | attention weights |
| $o$ | `desk.maps` | `[B, C]` | what the heads found, side by side |
| $h$ | `hidden` | `[B, F]` | hidden features |
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from labml_nn.transformers.feedback.by_hand.desk import Desk
from labml_nn.transformers.feedback.by_hand.form import Form, Masks, Span, draw, spans
from labml_nn.transformers.feedback.by_hand.weights import Weights


class Read(NamedTuple):
    r"""
    ## What was read

    * `outputs` is $x_t^l$ for all steps and layers, `[T, L + 1, B, C]`
    * `keys`, `values` are all rows, those of before too, `[H·B, before + T, K]`
    """

    outputs: Tensor
    keys: Tensor
    values: Tensor


def to_heads(maps: Tensor, heads: int) -> Tensor:
    r"""
    ## Heads first

    Attention works on each head of each text alone. Vectors of `[B, C]` would have to
    be cut into heads, `[H, B, K]`, and moved, so that head and text together are one
    axis. A product need not be moved afterwards if each head has a matrix of its own:
    $H$ small products write what a large one would, and each writes in its place. So
    the map to keys and values is cut, once, and not the vectors, at every step. (For
    queries one large product and a copy on a [desk](desk.py) are quicker.)

    * `maps` makes keys and values, `[2·C, C]`
    * `heads` is how many heads these are, $2 H$

    Returns the same map as products want it, `[2·H, C, K]`.
    """
    return torch.unflatten(maps, -2, (heads, -1)).transpose(-2, -1)


def bend(form: Form, up: Tensor) -> Tensor:
    r"""
    ## Hidden features

    $f(z)$, or $f(z) \otimes z'$ with a gate, which comes as a second half. What comes
    in may be written over.
    """
    if type(form.activation) is nn.ReLU and not form.is_gated:
        return up.relu_()
    if not form.is_gated:
        return form.activation(up)
    feature, gate = up.chunk(2, -1)
    return form.activation(feature) * gate


def normalise(x: Tensor, form: Form) -> Tensor:
    r"""
    $\hat{x}$: mean 0, variance 1.
    """
    return torch.native_layer_norm(x, x.shape[-1:], None, None, form.eps)[0]


def begin(x_seq: Tensor, keys: Tensor, values: Tensor, weights: Weights) -> Read:
    r"""
    ## Set space aside

    Room for all that will be written, with what is known already in its place: the
    embeddings, and the rows of before.

    A score is a sum over the $K$ features of a key, and what is found is a sum over
    time. A product is at its best where the numbers of a sum lie in different lines
    and results side by side. So values have features along their lines, and keys have
    time: `keys` is the view `[H·B, S, K]` of a tensor that lies there as `[H·B, K, S]`.

    * `x_seq` is the text, embedded, `[T, B, C]`
    * `keys`, `values` are the rows of before, `[S, B, H, K]`
    """
    length, batch, width = x_seq.shape
    before, _, heads, d_k = keys.shape
    outputs = x_seq.new_empty(length, len(weights.query) + 1, batch, width)
    outputs[:, 0] = x_seq

    shape = (heads * batch, before + length, d_k)
    read = Read(
        outputs,
        x_seq.new_empty(shape[0], d_k, shape[1]).transpose(1, 2),
        x_seq.new_empty(shape),
    )
    for rows, old in ((read.keys, keys), (read.values, values)):
        rows[:, :before] = old.permute(2, 1, 0, 3).flatten(0, 1)
    return read


class Layer(NamedTuple):
    r"""
    ## The maps of one layer

    As products want them: a map of vectors that are rows is `x @ weight.T`.
    """

    query: Tensor
    query_bias: Tensor
    output: Tensor
    output_bias: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor


def unstack(weights: Weights) -> list[Layer]:
    r"""
    One `Layer` for each layer.
    """
    stacked = (
        weights.query.transpose(1, 2),
        weights.query_bias,
        weights.output.transpose(1, 2),
        weights.output_bias,
        weights.up.transpose(1, 2),
        weights.up_bias,
        weights.down,
        weights.down_bias,
    )
    parts = zip(*(tensor.unbind() for tensor in stacked), strict=True)
    return [Layer(*part) for part in parts]


class Seen(NamedTuple):
    r"""
    ## What a step sees

    The same for all of its layers, but for the distances, which each layer judges for
    itself.

    * `keys`, `values` are its $S$ rows, `[H·B, K, S]` and `[H·B, S, K]`
    * `distance`, `distance_bias` are $E$, `[H, K, S]`, and $b'$, `[H, 1, S]`, of each
      layer
    * `blank` is `True` for rows that are none of a text's own, `[B, ≤ S]`: the oldest
    """

    keys: Tensor
    values: Tensor
    distance: tuple[Tensor, ...]
    distance_bias: tuple[Tensor, ...]
    blank: Tensor | None


def look(
    t: int, read: Read, weights: Weights, blank: Tensor | None, span: Span, form: Form
) -> Seen:
    r"""
    ### The window of step $t$

    Rows $S_t - \tau, \dots, S_t - 1$. All are views.

    * `blank` is that of all rows of before, `[before, B]`
    """
    end = span.before + t
    first = 0 if form.horizon is None else max(0, end - form.horizon)
    near = weights.distance.shape[2] - (end - first)
    return Seen(
        read.keys[:, first:end].transpose(1, 2),
        read.values[:, first:end],
        weights.distance[:, :, near:].transpose(2, 3).unbind(),
        weights.distance_bias[:, :, None, near:].unbind(),
        blank[first:].T if blank is not None and first < span.before else None,
    )


def attend(
    x: Tensor,
    number: int,
    layer: Layer,
    seen: Seen,
    desk: Desk,
    form: Form,
    kept: Tensor | None = None,
) -> Tensor:
    r"""
    ## What attention adds

    * `x` is $x^{l-1}$, `[B, C]`
    * `number` is that of the layer, $l - 1$
    * `desk` is what it writes on
    * `kept` is what dropout leaves of the weights, `[H·B, 1, S]`

    Returns $W_O o + b_O$, `[B, C]`.
    """
    torch.addmm(layer.query_bias, normalise(x, form), layer.query, out=desk.maps)
    query = desk.by_head()

    # Distances are scored for all texts of a batch together, one product per head. To
    # that, rows add their scores, for each text alone.
    scores = torch.baddbmm(seen.distance_bias[number], query, seen.distance[number])
    scores = scores.view(len(seen.keys), 1, -1).baddbmm_(desk.rows, seen.keys)
    if seen.blank is not None:
        oldest = scores.view(form.heads, len(x), -1)[..., : seen.blank.shape[1]]
        oldest.masked_fill_(seen.blank, -math.inf)

    attn = scores.softmax(-1)
    if kept is not None:
        attn.mul_(kept)
    torch.bmm(attn, seen.values, out=desk.rows)
    return torch.addmm(layer.output_bias, desk.side_by_side(), layer.output)


def conclude(z: Tensor, layer: Layer, form: Form, kept: Tensor | None = None) -> Tensor:
    r"""
    ## What the network adds

    * `z` is what attention left, `[B, C]`
    * `kept` is what dropout leaves of the hidden features, `[B, F]`

    Returns $W_2^\top h + b_2$, `[B, C]`.
    """
    up = torch.addmm(layer.up_bias, normalise(z, form), layer.up)
    hidden = bend(form, up)
    if kept is not None:
        hidden = hidden * kept
    return torch.addmm(layer.down_bias, hidden, layer.down)


class Memory(NamedTuple):
    r"""
    ## The map to keys and values

    As products want it: $2 H$ heads, of which the first $H$ make keys.

    * `maps` is $W_{KV}$, `[2·H, C, K]`
    * `bias` is its bias, `[2·H, 1, K]`
    """

    maps: Tensor
    bias: Tensor

    @staticmethod
    def of(weights: Weights, heads: int) -> "Memory":
        """Views of the parameters."""
        bias = torch.unflatten(weights.memory_bias, 0, (2 * heads, 1, -1))
        return Memory(to_heads(weights.memory, 2 * heads), bias)


def mix(outputs: Tensor, shares: Tensor, memory: Memory, form: Form) -> Tensor:
    r"""
    ## What a step leaves behind

    $m_t$ is one product: shares, times the outputs of all layers laid out flat.

    * `outputs` are those of all layers, `[L + 1, B, C]`

    Returns its key and its value, `[2·H, B, K]`.
    """
    vector = torch.mv(outputs.flatten(1).T, shares).view_as(outputs[0])
    if form.norm_memory:
        vector = normalise(vector, form)
    alike = vector.expand(len(memory.maps), -1, -1)
    return torch.baddbmm(memory.bias, alike, memory.maps)


def run_forward(
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
) -> Read:
    r"""
    ## The loop

    * `x_seq` is the text, embedded, `[T, B, C]`
    * `keys`, `values` are the rows of before, at least one, `[S, B, H, K]`
    * `blank` is `True` for those that are none of a text's own, `[S, B]`; `None` if all
      are. Each text has one
    * `weights`, `form` are those of the model

    Returns the outputs of all layers, and all rows.
    """
    read = begin(x_seq, keys, values, weights)
    layers, memory = unstack(weights), Memory.of(weights, form.heads)
    length, batch, before = *x_seq.shape[:2], len(keys)
    desk = Desk.of(x_seq, batch, form.heads, keys.shape[-1])
    new_rows = [rows[:, before:].unbind(1) for rows in (read.keys, read.values)]
    for span in spans(length, before, form.horizon):
        masks = draw(form, span, x_seq, len(layers), batch, weights.down.shape[1])
        for t in range(span.start, span.stop):
            seen, outputs = look(t, read, weights, blank, span, form), read.outputs[t]
            x, *above = outputs.unbind()
            for number, (layer, out) in enumerate(zip(layers, above, strict=True)):
                kept = masks
                if form.dropout is not None:
                    kept = masks_at(masks, span, t, number, len(layers), seen)
                added = attend(x, number, layer, seen, desk, form, kept.attention)
                z = times(added, kept.attended).add_(x)
                added = conclude(z, layer, form, kept.hidden)
                x = torch.add(z, times(added, kept.concluded), out=out)
            row = mix(outputs, weights.shares, memory, form)
            for rows, part in zip(new_rows, row.chunk(2), strict=True):
                rows[t].copy_(part.view(rows[t].shape))
    return read


def results_of(read: Read, before: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""
    ## What others see of it

    * `before` is how many rows are not new
    * `heads` is $H$

    Returns the outputs of the last layer, `[T, B, C]`, and the new keys and values,
    `[T, B, H, K]`. They are copies: whoever changes an output in place must not change
    what the way back will read.
    """

    def new(rows: Tensor) -> Tensor:
        rows = torch.unflatten(rows[:, before:], 0, (heads, -1))
        return rows.permute(2, 1, 0, 3).clone()

    return read.outputs[:, -1].clone(), new(read.keys), new(read.values)


def times(x: Tensor, kept: Tensor | None) -> Tensor:
    r"""
    ## Dropout

    What is left of `x`.
    """
    return x if kept is None else x.mul_(kept)


def masks_at(
    masks: Masks, span: Span, t: int, number: int, n_layers: int, seen: Seen
) -> Masks:
    r"""
    The masks of one layer at one step: `[H·B, 1, S]` for the rows that the step sees,
    of those that the span does, and `[B, C]` or `[B, F]`.
    """
    step, attention = t - span.start, masks.attention
    if attention is not None:
        end = span.old + step
        attention = attention[:, step * n_layers + number, None]
        attention = attention[..., end - seen.values.shape[1] : end]
    others = (None if mask is None else mask[number, step] for mask in masks[1:])
    return Masks(attention, *others)
