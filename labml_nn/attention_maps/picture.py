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
text = (tuple("to be"), tuple("or no"))
attention = AttentionMap("layers.1.self_attn", weights, queries=text, keys=text)
one = attention.pick(batch=0, head=2)
assert one.axes == ("query", "key")
assert torch.equal(one.weights, weights[:, :, 0, 2])
assert picture(one).startswith("<svg")
```

In the picture rows are queries and columns are keys, and the opacity of a square is the
weight. A causal model leaves the upper right triangle empty; a head that attends to the
previous position draws a diagonal. It is SVG, which follows the light or dark theme of
the page that shows it, and has a title and a description for screen readers.
"""

import math
import unicodedata
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

    * `name` is the name of the attention module in its model
    * `weights` holds $A$, without gradients. In each head the weights of a query sum to
      one, or to zero if all its keys were masked
    * `axes` names the axes of `weights`, in their order
    * `title` is the same in words
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
        if len(self.axes) != self.weights.dim() or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"`axes` {self.axes} must give each axis of {list(self.weights.shape)} "
                "a name of its own"
            )
        for axis, labels in (("query", self.queries), ("key", self.keys)):
            if labels is None or axis not in self.axes:
                continue
            lengths = [len(row) for row in labels]
            expected = [self.sizes[axis]] * self.sizes.get("batch", 1)
            if lengths != expected:
                raise ValueError(
                    f"labels of the {axis} axis come in rows of {lengths}; expected "
                    f"{expected}, one row for each text"
                )

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each axis, by name."""
        return dict(zip(self.axes, self.weights.shape, strict=True))

    def __repr__(self) -> str:
        """Name, title and sizes."""
        sizes = ", ".join(f"{axis}={size}" for axis, size in self.sizes.items())
        return f"<AttentionMap {self.name!r} ({self.title}): {sizes}>"

    def pick(self, **where: int) -> "AttentionMap":
        r"""
        ### Select

        `pick(batch=0, head=2)` returns a map of queries and keys. Negative indices
        count from the end. Raises `ValueError` for an unknown axis, and `IndexError`
        for an index beyond its end.
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

        `mean("head")` averages over the heads. Raises `ValueError` for an unknown axis,
        and for the batch, whose sequences are unrelated.
        """
        place = self._place(axis)
        if axis == "batch":
            raise ValueError("the batch holds unrelated sequences; use pick(batch=0)")
        axes = self.axes[:place] + self.axes[place + 1 :]
        return replace(self, weights=self.weights.mean(place), axes=axes)

    def tensor(self, *axes: str) -> Float[Tensor, "..."]:
        """
        ### Weights in another order

        `tensor("batch", "head", "query", "key")` is the order of other libraries.
        Raises `ValueError` if these are not the names of all axes.
        """
        if sorted(axes) != sorted(self.axes):
            raise ValueError(f"{axes} is not an order of the axes {self.axes}")
        return self.weights.permute([self.axes.index(axis) for axis in axes])

    def _place(self, axis: str) -> int:
        if axis not in self.axes:
            raise ValueError(
                f"there is no axis {axis!r}; this map has {', '.join(self.axes)}"
            )
        return self.axes.index(axis)

    # If axes are missing or the map is too large, notebooks show the text.
    def _repr_html_(self) -> str | None:
        try:
            return picture(self)
        except ValueError:
            return None

    _repr_svg_ = _repr_html_


Matrix = list[list[float]]

# ## Sizes
#
# In pixels; a character is about 6.7 wide. If squares are smaller than a character,
# some positions are numbered instead of labelled. With many squares there are no
# tooltips, and with more than `DRAWN` there is no picture.
LETTER, LINE, EDGE = 6.7, 15.0, 12.0
SINGLE, MULTIPLE, WIDEST = 620.0, 270.0, 960.0  # one head, one of several, all
LARGEST, LEGIBLE = 22.0, 11.0  # sides of a square
TOOLTIPS, DRAWN = 2_500, 200_000  # most squares with tooltips, and at all


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

    Returns an `<svg>` element. Raises `ValueError` for a map without queries or keys,
    a scale that is not positive, and more than 200,000 squares; `IndexError` for a
    sequence or a head that does not exist.
    """
    if "batch" in attention.axes:
        attention = attention.pick(batch=batch)
    matrices = _matrices(attention, heads)
    if scale is None:
        scale = _default_scale(matrices)
    if not scale > 0:
        raise ValueError(f"`scale` ({scale}) must be a weight above 0, such as 1.0")

    panels = _panels(attention, matrices)
    squares = sum(len(panel.rows) * len(panel.columns) for panel in panels)
    most = max(1, int(WIDEST / (panels[0].width + EDGE)))
    lines = -(-len(panels) // most)
    columns = -(-len(panels) // lines)
    right = columns * (panels[0].width + EDGE) + EDGE
    width = max(right, len(attention.title) * 8 + 2 * EDGE, 240.0)

    # Panels from left to right, and rows of panels from top to bottom.
    parts, y = list[str](), 2.0 * LINE + EDGE
    for i, panel in enumerate(panels):
        x = EDGE + (i % columns) * (panel.width + EDGE)
        top = y + (i // columns) * (panel.height + EDGE)
        parts.append(f'<g transform="translate({number(x)} {number(top)})">')
        parts += [*panel.draw(scale, tooltips=squares <= TOOLTIPS), "</g>"]
    bottom = y + lines * (panels[0].height + EDGE)
    largest = max(max(map(max, matrix)) for matrix in matrices.values())
    parts += legend(scale, largest > scale, EDGE, bottom)
    return _document(attention, panels, parts, width, bottom + LINE + EDGE)


def save_picture(attention: AttentionMap, path: str | Path, **options: Any) -> None:
    """
    ## Picture file

    Writes what `picture` returns to `path`; `options` are its keyword arguments.
    """
    drawn = picture(attention, **options)
    Path(path).write_text(drawn + "\n", encoding="utf-8", newline="\n")


def _matrices(
    attention: AttentionMap, heads: Sequence[int] | None
) -> dict[str, Matrix]:
    # The matrices to draw, by their headings.
    if not {"query", "key"} <= set(attention.axes):
        raise ValueError(
            f"a picture needs the axes query and key, and this map has {attention.axes}"
        )
    if "head" not in attention.axes:
        chosen = {"": attention}
    else:
        wanted = range(attention.sizes["head"]) if heads is None else heads
        chosen = {f"head {head}": attention.pick(head=head) for head in wanted}
    if not chosen:
        raise ValueError("`heads` is empty; expected at least one head to draw")
    squares = attention.sizes["query"] * attention.sizes["key"] * len(chosen)
    if squares > DRAWN:
        raise ValueError(
            f"{squares:,} squares are more than a picture can show ({DRAWN:,}); draw "
            "fewer heads, heads=[0], or a shorter text"
        )
    return {
        name: one.tensor("query", "key").float().cpu().tolist()
        for name, one in chosen.items()
    }


def _default_scale(matrices: dict[str, Matrix]) -> float:
    # The first query of a causal model has one key, with a weight of 1. With the
    # maximum as the scale, this one square would make all others pale.
    rows = (row for matrix in matrices.values() for row in matrix)
    weights = sorted(weight for row in rows for weight in row if weight > 0)
    return weights[math.ceil(0.99 * (len(weights) - 1))] if weights else 1.0


@dataclass(frozen=True)
class Panel:
    r"""
    ## Matrix of one head

    * `name` is its heading, if there are several
    * `matrix` holds its weights
    * `rows`, `columns` are the labels of queries and keys
    * `marks_left`, `marks_above` are the labels beside it, or numbers of some positions
    * `cell` is the side of a square
    """

    name: str
    matrix: Matrix
    rows: Sequence[str]
    columns: Sequence[str]
    marks_left: Sequence[str]
    marks_above: Sequence[str]
    cell: float

    @property
    def left(self) -> float:
        """Width of the labels on the left."""
        return max(map(len, self.marks_left)) * LETTER + 8

    @property
    def flat(self) -> bool:
        """Whether the labels above are horizontal."""
        longest = max(map(len, self.marks_above))
        return longest == 1 or self.cell < LEGIBLE

    @property
    def top(self) -> float:
        """Height of the heading and of the labels above."""
        longest = max(map(len, self.marks_above))
        above = LINE if self.flat else longest * LETTER + 8
        return above + (LINE + 2 if self.name else 0)

    @property
    def width(self) -> float:
        return self.left + len(self.columns) * self.cell

    @property
    def height(self) -> float:
        return self.top + len(self.rows) * self.cell

    def draw(self, scale: float, *, tooltips: bool) -> Iterator[str]:
        """Its elements, relative to its upper left corner."""
        left, top = number(self.left), number(self.top)
        if self.name:
            yield f'<text class="muted" x="{left}" y="11">{escape(self.name)}</text>'
        yield from self._marks()
        yield f'<g class="paint" transform="translate({left} {top})">'
        yield from (self._titled(scale) if tooltips else self._untitled(scale))
        width, height = len(self.columns) * self.cell, len(self.rows) * self.cell
        yield (
            f'</g><rect class="frame" x="{left}" y="{top}" width="{number(width)}" '
            f'height="{number(height)}"/>'
        )

    def _marks(self) -> Iterator[str]:
        for i, mark in enumerate(self.marks_left):
            edge, middle = number(self.left - 5), (i + 0.5) * self.cell + self.top
            yield from label(mark, f"translate({edge} {middle + 4:.1f})", "end")
        for i, mark in enumerate(self.marks_above):
            x, y = (i + 0.5) * self.cell + self.left, number(self.top - 5)
            if self.flat:
                yield from label(mark, f"translate({x:.1f} {y})", "middle")
            else:
                place = f"translate({x + 4:.1f} {y}) rotate(-90)"
                yield from label(mark, place, "start")

    def _visible_squares(self, scale: float) -> Iterator[tuple[int, int, float, str]]:
        # Row, column, weight and opacity of the squares that are not transparent.
        for t, row in enumerate(self.matrix):
            for s, weight in enumerate(row):
                share = min(max(weight / scale, 0.0), 1.0)
                if (opacity := f"{share:.2f}".rstrip("0").rstrip(".")) != "0":
                    yield t, s, weight, opacity

    def _titled(self, scale: float) -> Iterator[str]:
        side = number(self.cell)
        for t, s, weight, opacity in self._visible_squares(scale):
            x, y = number(s * self.cell), number(t * self.cell)
            tooltip = escape(f"{self.rows[t]} → {self.columns[s]}: {weight:.3f}")
            yield (
                f'<rect x="{x}" y="{y}" width="{side}" height="{side}" '
                f'fill-opacity="{opacity}"><title>{tooltip}</title></rect>'
            )

    def _untitled(self, scale: float) -> Iterator[str]:
        # All squares of one opacity are one path, which is a fifth of the size.
        side, paths = number(self.cell), dict[str, list[str]]()
        for t, s, _, opacity in self._visible_squares(scale):
            x, y = number(s * self.cell), number(t * self.cell)
            paths.setdefault(opacity, []).append(f"M{x} {y}h{side}v{side}h-{side}z")
        for opacity, squares in sorted(paths.items()):
            yield f'<path fill-opacity="{opacity}" d="{"".join(squares)}"/>'


# Without labels, positions are numbered.
def _texts(labels: Labels | None, size: int) -> list[str]:
    return list(map(visible, labels[0]) if labels else map(str, range(size)))


def _panels(attention: AttentionMap, matrices: dict[str, Matrix]) -> list[Panel]:
    rows = _texts(attention.queries, attention.sizes["query"])
    columns = _texts(attention.keys, attention.sizes["key"])
    room = SINGLE if len(matrices) == 1 else MULTIPLE
    cell = max(1.0, min(LARGEST, room / len(columns), 2 * room / len(rows)))
    left, above = _marks(rows, cell), _marks(columns, cell)
    return [
        Panel(name, matrix, rows, columns, left, above, cell)
        for name, matrix in matrices.items()
    ]


def _marks(labels: Sequence[str], cell: float) -> list[str]:
    if cell >= LEGIBLE:
        return list(labels)
    steps = (n * 10**power for power in range(9) for n in (1, 2, 5))
    every = next(n for n in steps if n * cell >= 32)
    return ["" if i % every else str(i) for i in range(len(labels))]


def _document(
    attention: AttentionMap,
    panels: Sequence[Panel],
    parts: Sequence[str],
    width: float,
    height: float,
) -> str:
    # Screen readers read the first title and the description.
    weight, t, s, best = max(
        (weight, -t, -s, -number)
        for number, panel in enumerate(panels)
        for t, row in enumerate(panel.matrix)
        for s, weight in enumerate(row)
    )
    panel = panels[-best]
    where = f"In {panel.name}, row" if panel.name else "Row"
    description = (
        f"{len(panel.rows)} queries in rows, {len(panel.columns)} keys in columns, in "
        f"{len(panels)} tables. {where} {1 - t}, {panel.rows[-t]}, has its largest "
        f"weight in column {1 - s}, {panel.columns[-s]}: {weight:.2f}."
    )
    w, h = number(width), number(height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="attention-map" role="img" '
        f'width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        f"<title>Attention: {escape(attention.title)}</title>"
        f"<desc>{escape(description)}</desc><style>{style()}</style>"
        f'<rect class="ground" width="{w}" height="{h}"/>'
        f'<text class="text head" x="{number(EDGE)}" y="{number(LINE + 6)}">'
        f"{escape(attention.title)}</text>{''.join(parts)}</svg>"
    )


# ## Colours
#
# A square is painted in one colour, and its opacity is the weight: on a light and on a
# dark ground, more weight has more contrast.
LIGHT = {
    "ground": "#ffffff",
    "paint": "#0550ae",
    "text": "#1b1f24",
    "muted": "#57606a",
    "rule": "#c3cad2",
}
DARK = {
    "ground": "#14171c",
    "paint": "#7cb7ff",
    "text": "#e3e7ec",
    "muted": "#a3adb8",
    "rule": "#424a53",
}

# Marks by which a page shows the theme that it has chosen: this site, Jupyter, VS Code
# and Colab. Without one of them the system's theme holds.
CHOSEN = {
    "light": ('[data-theme="light"]', '[data-jp-theme-light="true"]', ".vscode-light"),
    "dark": (
        '[data-theme="dark"]',
        '[data-jp-theme-light="false"]',
        '[theme="dark"]',
        ".vscode-dark",
    ),
}


def style() -> str:
    """
    ## Style sheet

    Every rule begins with the class of the picture, so nothing else on a page is
    affected. A program without CSS variables shows the light theme.
    """
    light, dark = (
        "".join(f"--attention-{name}:{colour};" for name, colour in theme.items())
        for theme in (LIGHT, DARK)
    )
    chosen = {
        theme: ",".join(f"{mark} .attention-map" for mark in marks)
        for theme, marks in CHOSEN.items()
    }
    fills = "".join(
        f".attention-map .{name}{{fill:{LIGHT[name]};fill:var(--attention-{name})}}"
        for name in ("ground", "paint", "text", "muted")
    )
    return (
        f".attention-map{{{light}max-width:100%;height:auto;"
        "font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
        f"@media (prefers-color-scheme:dark){{.attention-map{{{dark}}}}}"
        f"{chosen['light']}{{{light}}}{chosen['dark']}{{{dark}}}{fills}"
        ".attention-map .frame{fill:none;"
        f"stroke:{LIGHT['rule']};stroke:var(--attention-rule)}}"
        ".attention-map .head{font-weight:600;font-size:13px}"
        ".attention-map .paint{shape-rendering:crispEdges}"
    )


SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
LONGEST = 14  # characters of a label


def visible(token: str) -> str:
    r"""
    ## Invisible characters

    `" the"` is shown as `␣the`, a new line as `↵`, the empty token as `∅`, other
    invisible characters by their code, such as `\u200b`, and a combining mark on a
    circle.
    """
    shown = "".join(map(_visible_character, token)) or "∅"
    if unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _visible_character(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    invisible = unicodedata.category(sign)[0] in "CZ"
    return f"\\u{ord(sign):04x}" if invisible else sign


def label(text: str, place: str, anchor: str) -> Iterator[str]:
    """
    ## Labels

    * `place` is an SVG transformation
    * `anchor` is `start`, `middle` or `end`, the part of the text at that place
    """
    if text:
        yield (
            f'<text class="text" transform="{place}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )


def legend(scale: float, more: bool, x: float, y: float) -> Iterator[str]:
    """
    ## Legend

    Opacities from zero to `scale`, or `more`; `x`, `y` is the upper left corner.
    """
    yield f'<text class="muted" x="{number(x)}" y="{number(y + 10)}">0</text>'
    yield f'<g class="paint" transform="translate({number(x + 10)} {number(y)})">'
    for i in range(11):
        yield f'<rect x="{8 * i}" y="0" width="8" height="11" fill-opacity="{i / 10}"/>'
    yield f'</g><text class="muted" x="{number(x + 104)}" y="{number(y + 10)}">'
    yield f"{scale:.2g}{' or more' if more else ''}</text>"


def number(x: float) -> str:
    """Pixels, rounded to a tenth: short, and the same on every machine."""
    return f"{x:.1f}".removesuffix(".0")
