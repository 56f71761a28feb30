r"""
---
title: A feedback transformer, backwards
summary: >
  The gradients of a feedback transformer, equation by equation: what must go step by
  step, what may wait for the end of a span, and what is one product for all.
---

[The overview](index.html) asks what has to wait for what. Here are the equations. They
read the loop of [the way there](forward.py) from its last line to its first, and
$\delta_y$ is $\partial \ell / \partial y$, the blame of $y$. A hat is a normalised
vector, and $N$ takes blame [through the norm](#normalise_backward). At step $t$:

**The row**, of which all later steps have had their say:

$$\delta_m = N \left( W_{KV}^\top \, (\delta_{k_t}, \delta_{v_t}) \right)$$

**The layers**, from the last to the first. Blame of the output of the last layer begins
with $g_t$, what the loss has to say of it, and at every layer memory adds its share:

\begin{align}
\delta_{x^L} &= g_t + w_L \, \delta_m \\
\delta_p &= f'(p) \otimes W_2 \, \delta_{x^l} \\
\delta_z &= \delta_{x^l} + N(W_1^\top \delta_p) \\
\delta_o &= W_O^\top \, \delta_z \\
\delta_{a_j} &= \delta_o^\top v_j \\
\delta_{A_j} &= a_j \left( \delta_{a_j} - \textstyle\sum_i a_i \delta_{a_i} \right) \\
\delta_q &= \textstyle\sum_j \delta_{A_j} \, (k_j + E_{S - j}) \\
\delta_{x^{l-1}} &= \delta_z + N(W_Q^\top \delta_q) + w_{l-1} \, \delta_m
\end{align}

Here $p = W_1 \hat{z} + b_1$ is what enters $f$. The sum in $\delta_{A_j}$ is that of
the softmax: weights sum to one, so what all rows are praised for alike is praise for
none.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\delta_{x^l}$, $\delta_z$ | `blame` | `[B, C]` | on its way down the layers |
| $\delta_m$ | `vector` | `[B, C]` | blame of the memory vector |
| $\delta_k$, $\delta_v$ | `total.keys`, `total.values` | `[H·B, S, K]` | of all rows |
| $\delta_o$ | `desk.maps` | `[B, C]` | blame of what the heads found |
| $\delta_A$ | `scores` | `[H·B, 1, S]` | blame of scores |
| $\delta_q$ | `desk.heads` | `[H, B, K]` | blame of queries |
| $g_t$ | `gradients` | `[T, B, C]` | from outside, for the last layer |
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from labml_nn.transformers.feedback.by_hand.again import Known, Norm, distances
from labml_nn.transformers.feedback.by_hand.desk import Desk
from labml_nn.transformers.feedback.by_hand.form import Form, Span
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.notes import Notes, Place
from labml_nn.transformers.feedback.by_hand.weights import Weights

through_relu = torch.ops.aten.threshold_backward.grad_input


def normalise_backward(blame: Tensor, x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    r"""
    ## Through a norm

    With $\hat{x} = (x - \mu) / \sigma$,

    $$N(\delta_{\hat{x}}) = \frac{1}{\sigma} \left( \delta_{\hat{x}}
        - \operatorname{mean}(\delta_{\hat{x}})
        - \hat{x} \operatorname{mean}(\delta_{\hat{x}} \otimes \hat{x}) \right)$$

    To add the same to all features of $x$, or to make $x$ longer, changes nothing
    behind the norm. So nothing in front of it can be blamed for that: the two means
    take it out.
    """
    only_x = [True, False, False]
    parts = torch.ops.aten.native_layer_norm_backward(
        blame, x, x.shape[-1:], mean, rstd, None, None, only_x
    )
    through: Tensor = parts[0]
    return through


def bend_backward(hidden: Tensor, at: Place) -> Tensor:
    r"""
    ## Back through $f$

    * `hidden` is $\delta_h$, `[B, F]`

    Returns $\delta_p = f'(p) \otimes \delta_h$, `[B, F]` or `[B, 2·F]`, noted down. Of
    the ReLU, $h$ itself says where its slope is 0.
    """
    if at.slopes is None:
        through_relu(hidden, at.hidden, 0, grad_input=at.up)
    else:
        torch.mul(hidden.unsqueeze(1), at.slopes, out=at.up.view(at.slopes.shape))
    return at.up


def conclude_backward(blame: Tensor, at: Place, up: Tensor, down: Tensor) -> Tensor:
    r"""
    ## Back through the network

    * `blame` is $\delta_{x^l}$, `[B, C]`
    * `up`, `down` are $W_1$, `[F, C]`, and $W_2$, `[C, F]`

    Returns $\delta_z$.
    """
    if at.concluded_kept is not None:
        torch.mul(blame, at.concluded_kept, out=at.concluded)
    through = bend_backward(at.concluded.mm(down), at).mm(up)
    through = normalise_backward(through, at.z, at.z_mean, at.z_rstd)
    return torch.add(blame, through, out=at.of_z)


class Rows(NamedTuple):
    r"""
    ## What a step has looked at

    * `keys` are its rows, `[H·B, S, K]`
    * `values` are theirs, `[H·B, K, S]`
    * `distance` is $E$ for each layer, `[H, S, K]`

    They are all rows of a span. Those that the step did not see had no weight, and so
    get no blame.
    """

    keys: Tensor
    values: Tensor
    distance: tuple[Tensor, ...]


def attend_backward(
    blame: Tensor,
    at: Place,
    rows: Rows,
    number: int,
    desk: Desk,
    query: Tensor,
    output: Tensor,
) -> Tensor:
    r"""
    ## Back through attention

    * `blame` is $\delta_z$, `[B, C]`
    * `number` is that of the layer
    * `query`, `output` are $W_Q$ and $W_O$, `[C, C]`

    Returns $\delta_z + N(W_Q^\top \delta_q)$.
    """
    # $\delta_o$.
    if at.attended_kept is not None:
        torch.mul(blame, at.attended_kept, out=at.attended)
    torch.mm(at.attended, output, out=desk.maps)
    at.found.copy_(desk.maps_by_head)

    # $\delta_a$ and $\delta_A$. A weight that was dropped did not take part.
    distance, scores = rows.distance[number], at.found_rows.bmm(rows.values)
    if at.attn_kept is not None:
        scores.mul_(at.attn_kept)
    scores = torch._softmax_backward_data(scores, at.attn, -1, scores.dtype)
    at.scores.copy_(scores)

    # $\delta_q$: rows are each text's own, and distances are the same for all texts.
    torch.bmm(scores, rows.keys, out=desk.rows)
    desk.heads.baddbmm_(scores.view(len(distance), len(blame), -1), distance)
    at.query_by_head.copy_(desk.heads)
    through = at.query.mm(query)
    return normalise_backward(through, at.x, at.x_mean, at.x_rstd).add_(blame)


@dataclass
class Total:
    r"""
    ## What all steps have a say in

    * `x_seq` is the text, `[T, B, C]`
    * `keys`, `values` are all rows, `[H·B, before + T, K]`
    * `weights` are all weights
    """

    x_seq: Tensor
    keys: Tensor
    values: Tensor
    weights: Weights


class Walk:
    r"""
    ## The walk

    One span, from its last step to its first.
    """

    def __init__(
        self,
        span: Span,
        read: Read,
        known: Known,
        notes: Notes,
        weights: Weights,
        form: Form,
    ) -> None:
        """What the steps of a span share."""
        self.span, self.known, self.notes = span, known, notes
        self.weights, self.form = weights, form
        maps = (weights.query, weights.output, weights.up, weights.down.mT)
        self.layers = list(zip(*(stacked.unbind() for stacked in maps), strict=True))
        self.places = Place.all(known, notes)
        _, _, batch, width = known.x.shape
        self.desk = Desk.of(known.x, batch, form.heads, width // form.heads)

        low, rows = span.low, span.rows
        self.keys = read.keys[:, low : low + rows].contiguous()
        self.values = read.values[:, low : low + rows].transpose(1, 2).contiguous()
        # The first steps see less: behind distance 1 there are zeros.
        table = F.pad(distances(weights, rows)[0], (0, 0, 0, span.steps - 1))
        self.table = torch.unflatten(table, 0, (len(self.layers), -1))

        row = notes.row.view(span.steps, batch, 2, form.heads, -1)
        self.row_by_head = row.permute(0, 2, 3, 1, 4).unbind()

        # Memory vectors, which the steps normalised.
        outputs = read.outputs[span.start : span.stop]
        vectors = torch.matmul(weights.shares, outputs.flatten(2))
        self.vectors = vectors.view_as(outputs[:, 0])
        self.norm = Norm.of(self.vectors, form)

    def run(self, gradients: Tensor, total: Total) -> None:
        r"""
        ### Step after step

        A row is read by later steps of its own span and by those of later spans. What
        the later spans had to say of it is in `total`. So a step has to ask only the
        later steps of its own span, fewer than $n$. And rows that are older than the
        span have time until all its steps are done: then they are one product.
        """
        span, first = self.span, self.span.before + self.span.start
        new = slice(first, first + span.steps)
        said = torch.stack((total.keys[:, new], total.values[:, new]))
        said_by_step = torch.unflatten(said, 1, (self.form.heads, -1)).unbind(3)
        for step in reversed(range(span.steps)):
            t = span.start + step
            vector = self.forget(step, said_by_step[step])
            self.descend(step, gradients[t], vector, total.x_seq[t])

        self.blame_older(total)

    def blame_older(self, total: Total) -> None:
        r"""
        ### Rows that are older than the span
        """
        older = slice(self.span.low, self.span.before + self.span.start)
        of_keys, of_values = self.blame(slice(0, self.span.old), 0)
        total.keys[:, older] += of_keys
        total.values[:, older] += of_values

    def blame(self, rows: slice, later: int) -> Tensor:
        r"""
        ### Blame of rows

        $$\delta_{k_j} = \sum_{t, l} \delta_{A_{tj}}^l \, q_t^l, \qquad
        \delta_{v_j} = \sum_{t, l} a_{tj}^l \, \delta_{o_t}^l$$

        Both are sums of the same kind, and so one product.

        * `rows` are the $j$ to be blamed, counted from the first that the span sees
        * `later` is the first of the $(t, l)$ that blame them

        Returns both, `[2, H·B, rows, K]`.
        """
        by, what = self.known.by[:, :, later:, rows], self.known.what[:, :, later:]
        product = torch.bmm(by.flatten(0, 1).transpose(1, 2), what.flatten(0, 1))
        return product.view(2, -1, *product.shape[1:])

    def forget(self, step: int, said: Tensor) -> Tensor:
        r"""
        ### The row that a step wrote

        * `said` is what later spans had to say of it, `[2, H, B, K]`

        Returns $\delta_m$, `[B, C]`.
        """
        note, seen = self.notes.vector[step], self.span.old + step
        row = self.row_by_head[step].copy_(said)
        if step + 1 < self.span.steps:
            later = (step + 1) * len(self.layers)
            row += self.blame(slice(seen, seen + 1), later).view(row.shape)
        torch.mm(self.notes.row[step], self.weights.memory, out=note)
        if self.form.norm_memory:
            mean, rstd = self.norm.mean[step], self.norm.rstd[step]
            note.copy_(normalise_backward(note, self.vectors[step], mean, rstd))
        return note

    def descend(self, step: int, blame: Tensor, vector: Tensor, into: Tensor) -> None:
        r"""
        ### Down through the layers

        * `blame` is $g_t$
        * `vector` is $\delta_m$
        * `into` is where $\delta_{x^0}$ goes

        At each layer, and before the last, $\delta_m$ is added by its share.
        """
        first, desk = self.span.steps - 1 - step, self.desk
        distance = self.table[:, :, first : first + self.span.rows]
        rows = Rows(self.keys, self.values, distance.unbind())
        places = self.places[step :: self.span.steps]
        *under, top = (vector * self.weights.shares[:, None, None]).unbind()
        blame = torch.add(blame, top, out=places[-1].of_x)
        for number in reversed(range(len(places))):
            query, output, up, down = self.layers[number]
            at = places[number]
            blame = conclude_backward(blame, at, up, down)
            blame = attend_backward(blame, at, rows, number, desk, query, output)
            below = places[number - 1].of_x if number else into
            blame = torch.add(blame, under[number], out=below)
