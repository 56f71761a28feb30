r"""
---
title: Attention maps and their picture
summary: >
  The attention weights of one layer as a value with named axes, and their drawing as
  SVG: tokens on both sides, a square for each weight.
---

Attention weights have four axes: query, key, sequence of the batch, and head. In a bare
tensor of shape `[T, S, B, H]` they are easily confused: `weights[0, 1]` is a matrix,
and looks as plausible if it is the wrong one. An `AttentionMap` has names for them:

```python
import torch
from labml_nn.attention_maps import AttentionMap, picture

weights = torch.rand(5, 5, 2, 3).softmax(dim=1)
one = AttentionMap("layers.1.self_attn", weights).pick(batch=0, head=2)
assert torch.equal(one.weights, weights[:, :, 0, 2])
assert one.axes == ("query", "key") and picture(one).startswith("<svg")
```

In the picture rows are queries and columns are keys, and the opacity of a square is the
weight. A causal model leaves the upper right triangle empty; a head that attends to the
previous position draws a diagonal. It is SVG, in the light or dark colours of the page
that shows it, and has a title and a description for screen readers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

#: One row of labels for each text of the batch.
Labels = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap:
    r"""
    ## The map

    * `name` is the name of the attention module in its model, `title` the same in words
    * `weights` holds $A$, without gradients. In each head the weights of a query sum to
      one, or to zero if all its keys were masked; `axes` names their axes in order
    * `call` is the number of earlier calls of this attention in the same recording
    * `queries` and `keys` are labels, one row for each sequence; `None` if unknown

    Raises `ValueError` if `axes` or labels do not match the shape of the weights.
    """

    name: str
    weights: Float[Tensor, "..."]
    axes: tuple[str, ...] = ("query", "key", "batch", "head")
    title: str = "attention"
    call: int = 0
    queries: Labels | None = None
    keys: Labels | None = None

    def __post_init__(self) -> None:
        if len(set(self.axes)) != self.weights.dim():
            raise ValueError(
                f"`axes` {self.axes} must give each axis of {list(self.weights.shape)} "
                "a name of its own"
            )
        for axis, labels in (("query", self.queries), ("key", self.keys)):
            if labels is not None and axis in self.axes:
                expected = [self.sizes[axis]] * self.sizes.get("batch", 1)
                if (lengths := [len(row) for row in labels]) != expected:
                    raise ValueError(
                        f"labels of the {axis} axis come in rows of {lengths}; "
                        f"expected {expected}, one row for each text"
                    )

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each axis."""
        return dict(zip(self.axes, self.weights.shape, strict=True))

    def __repr__(self) -> str:
        """Name, title and sizes."""
        sizes = ", ".join(f"{axis}={size}" for axis, size in self.sizes.items())
        return f"<AttentionMap {self.name!r} ({self.title}): {sizes}>"

    def pick(self, **where: int) -> "AttentionMap":
        """
        ### Select

        `pick(batch=0, head=2)` returns a map of queries and keys. Negative indices
        count from the end. Raises `ValueError` or `IndexError` if there is no such one.
        """
        picked = self
        for axis, index in where.items():
            place, size = picked._place(axis), picked.sizes[axis]
            if not -size <= index < size:
                raise IndexError(f"there is no {axis} {index}: the axis has {size}")
            queries, keys = picked.queries, picked.keys
            if axis == "batch":
                queries = queries and (queries[index],)
                keys = keys and (keys[index],)
            picked = replace(
                picked,
                weights=picked.weights.select(place, index),
                axes=picked.axes[:place] + picked.axes[place + 1 :],
                queries=queries,
                keys=keys,
            )
        return picked

    def mean(self, axis: str) -> "AttentionMap":
        """
        ### Mean over an axis

        `mean("head")` averages over the heads. Sequences of a batch are unrelated.
        """
        if axis == "batch":
            raise ValueError("the batch holds unrelated sequences; use pick(batch=0)")
        place = self._place(axis)
        axes = self.axes[:place] + self.axes[place + 1 :]
        return replace(self, weights=self.weights.mean(place), axes=axes)

    def tensor(self, *axes: str) -> Float[Tensor, "..."]:
        """`tensor("batch", "head", "query", "key")` is the order of other libraries."""
        if sorted(axes) != sorted(self.axes):
            raise ValueError(f"{axes} is not an order of the axes {self.axes}")
        return self.weights.permute([self.axes.index(axis) for axis in axes])

    def _place(self, axis: str) -> int:
        if axis not in self.axes:
            known = ", ".join(self.axes)
            raise ValueError(f"there is no axis {axis!r}; this map has {known}")
        return self.axes.index(axis)

    # If axes are missing or the map is too large, notebooks show the text.
    def _repr_html_(self) -> str | None:
        try:
            return picture(self)
        except ValueError:
            return None

    _repr_svg_ = _repr_html_


# ## Sizes
#
# In pixels; a character is about 6.7 wide. A wide picture is shrunk to the page. With
# many squares there are no tooltips, and with more than `DRAWN` there is no picture.
LETTER, LINE, EDGE, CELL, WIDEST = 6.7, 15, 12, 16, 960
TOOLTIPS, DRAWN = 2_500, 200_000

# The colours of the page, which a dark one sets by `color-scheme`; where a program does
# not know them, black on white. The blue is legible on both.
STYLE = (
    ".attention-map{max-width:100%;height:auto;"
    "font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
    ".attention-map .ground{fill:Canvas}.attention-map text{fill:CanvasText}"
    ".attention-map .head{font-weight:600}.attention-map .paint{fill:#3d7ddb;"
    "shape-rendering:crispEdges}.attention-map .frame{fill:none;stroke:#808080}"
)


def picture(
    attention: AttentionMap,
    *,
    batch: int = 0,
    heads: Sequence[int] | None = None,
    scale: float | None = None,
) -> str:
    r"""
    ## Picture

    * `attention` is a map with axes of queries and keys
    * `batch` is the index of the sequence to draw
    * `heads` are the indices of the heads to draw; `None` draws all
    * `scale` is the weight that is drawn opaque, as are larger ones. `None` takes the
      99th percentile of the weights; to compare pictures, give the same number

    Returns an `<svg>` element. Raises `ValueError` or `IndexError` for what cannot be
    drawn.
    """
    if "batch" in attention.axes:
        attention = attention.pick(batch=batch)
    matrices = _matrices(attention, heads)
    rows, columns = (
        [visible(label) for label in labels[0]] if labels else list(map(str, range(n)))
        for labels, n in (
            (attention.queries, attention.sizes["query"]),
            (attention.keys, attention.sizes["key"]),
        )
    )

    # The first query of a causal model has one key, with a weight of 1. With the
    # maximum as the scale, this one square would make all others pale.
    every = sorted(w for matrix in matrices.values() for row in matrix for w in row)
    if scale is None:
        positive = [weight for weight in every if weight > 0] or [1.0]
        scale = positive[math.ceil(0.99 * (len(positive) - 1))]
    if not scale > 0:
        raise ValueError(f"`scale` ({scale}) must be a weight above 0, such as 1.0")

    # Panels from left to right, and rows of panels from top to bottom.
    left, top = (max(map(len, labels)) * LETTER + 8 for labels in (rows, columns))
    upright = max(map(len, columns)) > 1
    wide, high = left + len(columns) * CELL, top + LINE + len(rows) * CELL
    lines = math.ceil(len(matrices) / max(1, WIDEST // (wide + EDGE)))
    per_line = math.ceil(len(matrices) / lines)
    tooltips = len(every) <= TOOLTIPS
    parts = []
    for i, (name, matrix) in enumerate(matrices.items()):
        x, y = EDGE + i % per_line * (wide + EDGE), i // per_line * (high + EDGE)
        parts.append(f'<g transform="translate({x:.1f} {2 * LINE + EDGE + y:.1f})">')
        parts.append(f'<text x="{left:.1f}" y="11">{name}</text>')
        parts.append(f'<g transform="translate({left:.1f} {top + LINE:.1f})">')
        for t, text in enumerate(rows):
            parts.append(_label(text, f"translate(-5 {t * CELL + 12})", "end"))
        for s, text in enumerate(columns):
            turn = ") rotate(-90)" if upright else ")"
            anchor = "start" if upright else "middle"
            x = s * CELL + (12 if upright else 8)
            parts.append(_label(text, f"translate({x} -5{turn}", anchor))
        parts.append('<g class="paint">')
        parts += _squares(matrix, scale, rows, columns, tooltips=tooltips)
        size = f'width="{len(columns) * CELL}" height="{len(rows) * CELL}"'
        parts.append(f'</g><rect class="frame" fill="none" {size}/></g></g>')

    # The legend: opacities from zero to the scale.
    bottom = 2 * LINE + EDGE + lines * (high + EDGE)
    parts.append(f'<g transform="translate({EDGE} {bottom:.1f})"><text y="10">0</text>')
    for i in range(11):
        opacity = f'class="paint" fill-opacity="{i / 10}"'
        parts.append(f'<rect {opacity} x="{10 + 8 * i}" width="8" height="11"/>')
    more = " or more" if every[-1] > scale else ""
    parts.append(f'<text x="104" y="10">{scale:.2g}{more}</text></g>')

    title = escape(attention.title)
    width = max(per_line * (wide + EDGE) + EDGE, len(title) * LETTER + 2 * EDGE, 240)
    size = f'width="{width:.0f}" height="{bottom + 2 * LINE:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="attention-map" role="img" '
        f'{size} viewBox="0 0 {width:.0f} {bottom + 2 * LINE:.0f}">'
        f"<title>Attention: {title}</title><desc>{len(rows)} queries in rows, "
        f"{len(columns)} keys in columns, {len(matrices)} tables. The largest weight "
        f'is {every[-1]:.2f}.</desc><style>{STYLE}</style><rect class="ground" '
        f'fill="white" {size}/><text class="head" x="{EDGE}" y="20">{title}</text>'
        f"{''.join(parts)}</svg>"
    )


def save_picture(attention: AttentionMap, path: str | Path, **options: Any) -> None:
    """Writes what `picture` returns to `path`; `options` are its keyword arguments."""
    drawn = picture(attention, **options)
    Path(path).write_text(drawn + "\n", encoding="utf-8", newline="\n")


def _matrices(
    attention: AttentionMap, heads: Sequence[int] | None
) -> dict[str, list[list[float]]]:
    # The matrices to draw, by their headings.
    if not {"query", "key"} <= set(attention.axes):
        raise ValueError(
            f"a picture needs the axes query and key, and this map has {attention.axes}"
        )
    chosen = {"": attention}
    if "head" in attention.axes:
        wanted = range(attention.sizes["head"]) if heads is None else heads
        chosen = {f"head {head}": attention.pick(head=head) for head in wanted}
    squares = attention.sizes["query"] * attention.sizes["key"] * len(chosen)
    if not 0 < squares <= DRAWN:
        raise ValueError(
            f"a picture of {squares:,} squares cannot be drawn; expected 1 to "
            f"{DRAWN:,}: choose heads, such as heads=[0], or a shorter text"
        )
    return {
        name: one.tensor("query", "key").float().cpu().tolist()
        for name, one in chosen.items()
    }


def _label(text: str, place: str, anchor: str) -> str:
    shown = escape(text)
    return f'<text transform="{place}" text-anchor="{anchor}">{shown}</text>'


def _squares(
    matrix: list[list[float]],
    scale: float,
    rows: list[str],
    columns: list[str],
    *,
    tooltips: bool,
) -> Iterator[str]:
    # Without tooltips, all squares of one opacity are one path: a fifth of the size.
    paths = dict[str, str]()
    for t, row in enumerate(matrix):
        for s, weight in enumerate(row):
            opacity = f"{round(min(max(weight / scale, 0.0), 1.0), 2):g}"
            square = f"M{s * CELL} {t * CELL}h{CELL}v{CELL}h-{CELL}z"
            if opacity != "0" and tooltips:
                text = escape(f"{rows[t]} → {columns[s]}: {weight:.3f}")
                opening = f'<path fill-opacity="{opacity}" d="{square}">'
                yield f"{opening}<title>{text}</title></path>"
            elif opacity != "0":
                paths[opacity] = paths.get(opacity, "") + square
    for opacity, squares in sorted(paths.items()):
        yield f'<path fill-opacity="{opacity}" d="{squares}"/>'


SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def visible(token: str) -> str:
    r"""
    ## Invisible characters

    `" the"` is shown as `␣the`, a new line as `↵`, the empty token as `∅`, and other
    invisible characters by their code, such as `\u200b`. Long tokens are cut.
    """
    shown = "".join(
        SIGNS.get(sign, sign if sign.isprintable() else f"\\u{ord(sign):04x}")
        for sign in token
    )
    return (shown if len(shown) <= 14 else f"{shown[:13]}…") or "∅"
