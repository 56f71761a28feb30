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
| $\delta_o$ | `found` | `[H, B, K]` | blame of what the heads found |
| $\delta_A$ | `scores` | `[H·B, 1, S]` | blame of scores |
| $\delta_q$ | `asked` | `[H, B, K]` | blame of queries |
| $g_t$ | `gradients` | `[T, B, C]` | from outside, for the last layer |
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.again import (
    Known,
    Norm,
    Scratch,
    distances,
)
from labml_nn.transformers.feedback.by_hand.form import Form, Span
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.weights import Weights


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


class Notes(NamedTuple):
    r"""
    ## What the steps write down

    For the products at the end of a span, all that was blamed, side by side:

    * `attended`, `concluded` are what the two branches of a layer add, `[L, n, B, C]`
    * `query` is queries, `[L, n, B, C]`
    * `up` is what enters $f$, `[L, n, B, 1 or 2, F]`
    * `found` is what heads found, `[n·L, H, B, K]`
    * `scores` is scores, `[H·B, n·L, S]`; zero where a step did not look
    * `vector` is memory vectors, `[n, B, C]`
    * `row` is keys and values, `[n, B, 2·C]`
    """

    attended: Tensor
    concluded: Tensor
    query: Tensor
    up: Tensor
    found: Tensor
    scores: Tensor
    vector: Tensor
    row: Tensor

    @staticmethod
    def empty(known: Known, scratch: Scratch) -> "Notes":
        """Space for the notes of a span."""
        shape = known.x.shape
        n_layers, steps, batch, width = shape
        heads = len(known.query) // batch
        return Notes(
            attended=scratch("attended", *shape),
            concluded=scratch("concluded", *shape),
            query=scratch("query", *shape),
            up=scratch("slopes", *known.slopes.shape),
            found=scratch("found", steps * n_layers, heads, batch, width // heads),
            scores=scratch("scores", *known.attn.shape).zero_(),
            vector=scratch("vector", steps, batch, width),
            row=scratch("row", steps, batch, 2 * width),
        )


class Place(NamedTuple):
    r"""
    ## One layer at one step

    What is [known](again.py) there, and where its notes go.
    """

    x: Tensor
    x_mean: Tensor
    x_rstd: Tensor
    z: Tensor
    z_mean: Tensor
    z_rstd: Tensor
    slopes: Tensor
    attended: Tensor
    concluded: Tensor
    query: Tensor
    up: Tensor
    attended_kept: Tensor | None
    concluded_kept: Tensor | None
    attn: Tensor
    attn_kept: Tensor | None
    found: Tensor
    scores: Tensor

    @staticmethod
    def all(known: Known, notes: Notes) -> list[list["Place"]]:
        r"""
        All places of a span, `[step][layer]`. To cut a tensor into all of its pieces
        at once is quicker than to ask for each piece when it is needed, and there are
        $n \cdot L$ times 17 of them.
        """
        n_layers, steps = known.x.shape[:2]

        def pieces(x: Tensor | None, *, merged: bool = False) -> list[Tensor | None]:
            if x is None:
                return [None] * (steps * n_layers)
            if merged:
                return list(x.unsqueeze(2).unbind(1))
            return [piece for step in x.unbind(1) for piece in step.unbind()]

        masks = known.masks
        columns = [
            *(pieces(x) for x in (known.x, known.x_norm.mean, known.x_norm.rstd)),
            *(pieces(z) for z in (known.z, known.z_norm.mean, known.z_norm.rstd)),
            *(pieces(known.slopes), pieces(notes.attended), pieces(notes.concluded)),
            *(pieces(notes.query), pieces(notes.up)),
            *(pieces(masks.attended), pieces(masks.concluded)),
            *(pieces(x, merged=True) for x in (known.attn, masks.attention)),
            *(notes.found.unbind(), pieces(notes.scores, merged=True)),
        ]
        found = [Place(*views) for views in zip(*columns, strict=True)]
        return [found[i : i + n_layers] for i in range(0, len(found), n_layers)]


def kept(blame: Tensor, mask: Tensor | None, note: Tensor) -> Tensor:
    r"""
    What dropout let through, noted down.
    """
    return note.copy_(blame) if mask is None else torch.mul(blame, mask, out=note)


def conclude_backward(blame: Tensor, at: Place, up: Tensor, down: Tensor) -> Tensor:
    r"""
    ## Back through the network

    * `blame` is $\delta_{x^l}$, `[B, C]`
    * `up`, `down` are $W_1$, `[F, C]`, and $W_2$, `[C, F]`

    Returns $\delta_z$.
    """
    hidden = kept(blame, at.concluded_kept, at.concluded) @ down
    torch.mul(hidden.unsqueeze(1), at.slopes, out=at.up)
    through = at.up.flatten(1) @ up
    return blame + normalise_backward(through, at.z, at.z_mean, at.z_rstd)


class Rows(NamedTuple):
    r"""
    ## What a step has looked at

    * `keys` are its rows, `[H·B, S, K]`
    * `values` are theirs, `[H·B, K, S]`
    * `distance` is $E$ for each layer, `[H, S, K]`
    """

    keys: Tensor
    values: Tensor
    distance: tuple[Tensor, ...]


def attend_backward(
    blame: Tensor, at: Place, rows: Rows, number: int, query: Tensor, output: Tensor
) -> Tensor:
    r"""
    ## Back through attention

    * `blame` is $\delta_z$, `[B, C]`
    * `number` is that of the layer
    * `query` is $W_Q$, `[C, C]`, and `output` is $W_O$, for each head, `[H, C, K]`

    Returns $\delta_z + N(W_Q^\top \delta_q)$.
    """
    # $\delta_o$.
    table = rows.distance[number]
    alike = kept(blame, at.attended_kept, at.attended).expand(len(table), -1, -1)
    found = torch.bmm(alike, output, out=at.found)

    # $\delta_a$ and $\delta_A$. A weight that was dropped did not take part.
    scores = torch.bmm(found.view(len(rows.keys), 1, -1), rows.values)
    seen = scores.shape[-1]
    if at.attn_kept is not None:
        scores.mul_(at.attn_kept.narrow(2, 0, seen))
    attn = at.attn.narrow(2, 0, seen)
    scores = torch._softmax_backward_data(scores, attn, -1, attn.dtype)
    at.scores.narrow(2, 0, seen).copy_(scores)

    # $\delta_q$: rows are each text's own, and distances are the same for all texts.
    asked = torch.bmm(scores, rows.keys).view_as(found)
    asked.baddbmm_(scores.view(*found.shape[:2], seen), table)
    at.query.view(len(blame), len(table), -1).copy_(asked.transpose(0, 1))
    through = at.query @ query
    return blame + normalise_backward(through, at.x, at.x_mean, at.x_rstd)


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


def spread(
    total: Total, rows: slice, seen: slice, by: slice, known: Known, notes: Notes
) -> None:
    r"""
    ## Blame of rows

    $$\delta_{k_j} \mathrel{+}= \sum_{t, l} \delta_{A_{tj}}^l \, q_t^l, \qquad
    \delta_{v_j} \mathrel{+}= \sum_{t, l} a_{tj}^l \, \delta_{o_t}^l$$

    * `rows` are the $j$ to be blamed, counted from the first row of all
    * `seen` are the same, counted from the first that the span sees
    * `by` are the $(t, l)$ that blame them

    A product that is added to *some* rows of each head and text is made for one of
    them after the other. To make it for all and add it then took a quarter of the time.
    """
    if rows.start == rows.stop:
        return
    scores, attn = notes.scores[:, by, seen], known.kept_attn[:, by, seen]
    found = notes.found[by].flatten(1, 2).transpose(0, 1)
    total.keys[:, rows] += torch.bmm(scores.transpose(1, 2), known.query[:, by])
    total.values[:, rows] += torch.bmm(attn.transpose(1, 2), found)


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
        output = torch.unflatten(weights.output, 2, (form.heads, -1)).transpose(1, 2)
        maps = (weights.query, output, weights.up, weights.down.mT)
        self.layers = list(zip(*(stacked.unbind() for stacked in maps), strict=True))
        # Not as numbers of Python: a GPU would have to be waited for.
        self.shares = weights.shares.unbind()
        self.places = Place.all(known, notes)

        low, rows = span.low, span.rows
        self.keys = read.keys[:, low : low + rows].contiguous()
        self.values = read.values[:, low : low + rows].transpose(1, 2).contiguous()
        table = distances(weights, rows)[0]
        self.table = torch.unflatten(table, 0, (len(self.layers), -1))

        # Memory vectors, which the steps normalised.
        outputs = read.outputs[span.start : span.stop]
        self.vectors = torch.einsum("l,tlbc->tbc", weights.shares, outputs)
        self.norm = Norm.of(self.vectors, form)

    def run(self, gradients: Tensor, total: Total) -> None:
        r"""
        ### Step after step

        A row is read by the later steps of its own span and by those of later spans.
        The later spans have been gone through. So a step has to blame at once only the
        rows of its own span, $n$ at most. For the older ones, there is time until all
        steps are done, and then it is one product.
        """
        span, n_layers = self.span, len(self.layers)
        first = span.before + span.start
        for step in reversed(range(span.steps)):
            t, end = span.start + step, span.old + step
            vector = self.forget(step, total)
            blame = torch.addcmul(gradients[t], vector, self.shares[n_layers])
            total.x_seq[t] = self.descend(step, blame, vector)
            by = slice(step * n_layers, (step + 1) * n_layers)
            rows, seen = slice(first, first + step), slice(span.old, end)
            spread(total, rows, seen, by, self.known, self.notes)

        by = slice(0, span.steps * n_layers)
        rows, seen = slice(span.low, first), slice(0, span.old)
        spread(total, rows, seen, by, self.known, self.notes)

    def forget(self, step: int, total: Total) -> Tensor:
        r"""
        ### The row that a step wrote

        Returns $\delta_m$, `[B, C]`.
        """
        row = self.notes.row[step]
        number = self.span.before + self.span.start + step
        heads, batch = self.form.heads, len(row)
        halves = row.view(batch, 2, heads, -1).transpose(0, 2).unbind(1)
        for half, rows in zip(halves, (total.keys, total.values), strict=True):
            half.copy_(rows[:, number].view(half.shape))
        vector = row @ self.weights.memory
        if self.form.norm_memory:
            mean, rstd = self.norm.mean[step], self.norm.rstd[step]
            vector = normalise_backward(vector, self.vectors[step], mean, rstd)
        self.notes.vector[step] = vector
        return vector

    def descend(self, step: int, blame: Tensor, vector: Tensor) -> Tensor:
        r"""
        ### Down through the layers

        * `blame` is $\delta_{x^L}$
        * `vector` is $\delta_m$

        Returns $\delta_{x^0}$.
        """
        end = self.span.old + step
        near = self.table[:, :, self.span.rows - end :]
        rows = Rows(self.keys[:, :end], self.values[..., :end], near.unbind())
        for number in reversed(range(len(self.layers))):
            query, output, up, down = self.layers[number]
            at = self.places[step][number]
            blame = conclude_backward(blame, at, up, down)
            blame = attend_backward(blame, at, rows, number, query, output)
            blame = torch.addcmul(blame, vector, self.shares[number])
        return blame
