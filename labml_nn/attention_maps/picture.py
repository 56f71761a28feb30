r"""
---
title: A picture of attention
summary: >
  A map of attention as a drawing: tokens on both sides, and a square for each weight.
---

A matrix of weights is a table of who looks at whom. Drawn, it is read in a glance: rows
ask, columns answer, and the more ink in a square, the more of what the column has goes
into the row. A causal model leaves the upper right triangle empty; a head that looks at
its neighbour draws a diagonal.

```python
import torch
from labml_nn.attention_maps import AttentionMap, picture

text = tuple("to be")
weights = torch.randn(5, 5, 1, 2).softmax(dim=1)
drawn = picture(AttentionMap("made.up", weights, queries=(text,), keys=(text,)))
assert drawn.startswith("<svg")
```

The drawing is SVG, a text that browsers, notebooks and printers draw as sharp as they
need it. We write it ourselves, in a few kilobytes and without a plotting library. The
same map always gives the same text. [Ink and signs](ink.py) says why it can be read in
the light and in the dark. For those who don't see it, it has a name and a description
in words.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $A_{ts}$ | `matrix` | `[T][S]` | weights of one head |
| | `scale` | | the weight that is drawn with all the ink |
| | `cell` | | the side of a square, in pixels |
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from labml_nn.attention_maps.ink import legend, number, style, visible, written
from labml_nn.attention_maps.maps import AttentionMap

Matrix = list[list[float]]

# ## Sizes
#
# In pixels. A letter of the type is about 6.7 wide. Squares smaller than a letter have
# no labels of their own; positions are counted instead. Many squares have no titles to
# hover over, and of very many there is no picture.
LETTER, LINE, EDGE = 6.7, 15.0, 12.0
ALONE, BESIDE, WIDEST = 620.0, 270.0, 960.0  # a head alone, one of several, all
LARGEST, LEGIBLE = 22.0, 11.0  # sides of a square
HOVERED, DRAWN = 2_500, 200_000  # squares with titles, and squares at all


def picture(
    attention: AttentionMap,
    *,
    batch: int = 0,
    heads: Sequence[int] | None = None,
    scale: float | None = None,
) -> str:
    r"""
    ## The picture

    * `attention` is a map with axes of queries and keys
    * `batch` is which of its texts to draw
    * `heads` are those to draw, counted from 0 as in `pick`; `None`: all
    * `scale` is the weight that is drawn with all the ink, as are larger ones. `None`
      takes the largest but for one in a hundred; to compare pictures, give a number

    Returns an `<svg>` element, for a file of its own or inside a page. Raises
    `ValueError` for a map without queries or keys, for a scale that is not positive,
    and for more than 200,000 squares; `IndexError` for a text or a head that is not
    there.
    """
    if "batch" in attention.axes:
        attention = attention.pick(batch=batch)
    matrices = _matrices(attention, heads)
    if scale is None:
        scale = _all_ink(matrices)
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
        parts += [*panel.draw(scale, hover=squares <= HOVERED), "</g>"]
    bottom = y + lines * (panels[0].height + EDGE)
    largest = max(max(map(max, matrix)) for matrix in matrices.values())
    parts += legend(scale, largest > scale, EDGE, bottom)
    return _document(attention, panels, parts, width, bottom + LINE + EDGE)


def save_picture(
    attention: AttentionMap,
    path: str | Path,
    *,
    batch: int = 0,
    heads: Sequence[int] | None = None,
    scale: float | None = None,
) -> None:
    """
    ## A file of its own

    Writes what `picture` returns to `path`, which browsers open and documents include.
    """
    drawn = picture(attention, batch=batch, heads=heads, scale=scale)
    Path(path).write_text(drawn + "\n", encoding="utf-8", newline="\n")


def _matrices(
    attention: AttentionMap, heads: Sequence[int] | None
) -> dict[str, Matrix]:
    # The tables to draw, by the names that stand above them.
    for axis in ("query", "key"):
        if axis not in attention.axes:
            raise ValueError(
                f"a picture has queries and keys, and this map has no {axis} axis, "
                f"only {', '.join(attention.axes) or 'a number'}"
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


def _all_ink(matrices: dict[str, Matrix]) -> float:
    # The first row of a causal model has one key, and a weight of 1 for it. One such
    # square would leave little ink for the others, so one in a hundred may go beyond.
    weights = sorted(
        weight
        for matrix in matrices.values()
        for row in matrix
        for weight in row
        if weight > 0
    )
    return weights[math.ceil(0.99 * (len(weights) - 1))] if weights else 1.0


@dataclass(frozen=True)
class Panel:
    r"""
    ## The table of one head

    * `name` stands above it, if there are several
    * `matrix` holds its weights
    * `rows`, `columns` are the labels of queries and keys
    * `marks_left`, `marks_above` are what is written there: the labels, or numbers
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
        """Room for what is written on the left."""
        return max(map(len, self.marks_left)) * LETTER + 8

    @property
    def flat(self) -> bool:
        """Whether there is room to write side by side above, or only upright."""
        longest = max(map(len, self.marks_above))
        return longest == 1 or self.cell < LEGIBLE

    @property
    def top(self) -> float:
        """Room for the name, and for what is written above."""
        longest = max(map(len, self.marks_above))
        above = LINE if self.flat else longest * LETTER + 8
        return above + (LINE + 2 if self.name else 0)

    @property
    def width(self) -> float:
        return self.left + len(self.columns) * self.cell

    @property
    def height(self) -> float:
        return self.top + len(self.rows) * self.cell

    def draw(self, scale: float, *, hover: bool) -> Iterator[str]:
        """Its elements, seen from its upper left corner."""
        left, top = number(self.left), number(self.top)
        if self.name:
            yield f'<text class="muted" x="{left}" y="11">{escape(self.name)}</text>'
        yield from self._marks()
        yield f'<g class="ink" transform="translate({left} {top})">'
        yield from (self._titled(scale) if hover else self._untitled(scale))
        width, height = len(self.columns) * self.cell, len(self.rows) * self.cell
        yield (
            f'</g><rect class="frame" x="{left}" y="{top}" width="{number(width)}" '
            f'height="{number(height)}"/>'
        )

    def _marks(self) -> Iterator[str]:
        for i, mark in enumerate(self.marks_left):
            place = (
                f"{number(self.left - 5)} {(i + 0.5) * self.cell + self.top + 4:.1f}"
            )
            yield from written(mark, f"translate({place})", "end")
        for i, mark in enumerate(self.marks_above):
            x, y = (i + 0.5) * self.cell + self.left, number(self.top - 5)
            if self.flat:
                yield from written(mark, f"translate({x:.1f} {y})", "middle")
            else:
                yield from written(
                    mark, f"translate({x + 4:.1f} {y}) rotate(-90)", "start"
                )

    def _inked(self, scale: float) -> Iterator[tuple[int, int, float, str]]:
        # The squares that leave a trace: row, column, weight, and opacity.
        for t, row in enumerate(self.matrix):
            for s, weight in enumerate(row):
                share = min(max(weight / scale, 0.0), 1.0)
                if (opacity := f"{share:.2f}".rstrip("0").rstrip(".")) != "0":
                    yield t, s, weight, opacity

    def _titled(self, scale: float) -> Iterator[str]:
        side = number(self.cell)
        for t, s, weight, opacity in self._inked(scale):
            x, y = number(s * self.cell), number(t * self.cell)
            looks = escape(f"{self.rows[t]} → {self.columns[s]}: {weight:.3f}")
            yield (
                f'<rect x="{x}" y="{y}" width="{side}" height="{side}" '
                f'fill-opacity="{opacity}"><title>{looks}</title></rect>'
            )

    def _untitled(self, scale: float) -> Iterator[str]:
        # All squares of one opacity make one path, which is a fifth of the text.
        side, paths = number(self.cell), dict[str, list[str]]()
        for t, s, _, opacity in self._inked(scale):
            x, y = number(s * self.cell), number(t * self.cell)
            paths.setdefault(opacity, []).append(f"M{x} {y}h{side}v{side}h-{side}z")
        for opacity, squares in sorted(paths.items()):
            yield f'<path fill-opacity="{opacity}" d="{"".join(squares)}"/>'


def _panels(attention: AttentionMap, matrices: dict[str, Matrix]) -> list[Panel]:
    # Whoever has no labels is a number.
    texts = [
        [visible(sign) for sign in labels[0]]
        if labels
        else [str(i) for i in range(size)]
        for labels, size in (
            (attention.queries, attention.sizes["query"]),
            (attention.keys, attention.sizes["key"]),
        )
    ]
    room = ALONE if len(matrices) == 1 else BESIDE
    cell = max(1.0, min(LARGEST, room / len(texts[1]), 2 * room / len(texts[0])))
    rows, columns = texts
    left, above = (_marks(labels, cell) for labels in texts)
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
    # Screen readers read the first title, and the description.
    weight, t, s, best = max(
        (weight, -t, -s, -number)
        for number, panel in enumerate(panels)
        for t, row in enumerate(panel.matrix)
        for s, weight in enumerate(row)
    )
    panel = panels[-best]
    where = f"In {panel.name}, row" if panel.name else "Row"
    description = (
        f"{len(panel.rows)} rows ask and {len(panel.columns)} columns answer, in "
        f"{len(panels)} tables. {where} {1 - t}, {panel.rows[-t]}, looks most at "
        f"column {1 - s}, {panel.columns[-s]}: {weight:.2f}."
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


# A map shows itself in a notebook: its first text, with all heads. Jupyter takes the
# HTML, which knows the notebook's theme, and other programs the image.
def _shown(attention: AttentionMap) -> str | None:
    try:
        return picture(attention)
    except ValueError:  # other axes, or too large: the notebook shows the text
        return None


AttentionMap._repr_svg_ = AttentionMap._repr_html_ = _shown


# ## Exercises
#
# **1.** Draw a mask.
#
# <details><summary>Answer</summary>
#
# A picture doesn't ask where its numbers come from.
#
# ```python
# from labml_nn.attention_maps import AttentionMap, picture
# from labml_nn.transformers.utils import subsequent_mask
#
# mask = subsequent_mask(6).squeeze(-1).float()
# drawn = picture(AttentionMap("mask", mask, axes=("query", "key"), title="no future"))
# assert drawn.count("<rect") == 21 + 11 + 2  # squares, legend, ground and frame
# ```
#
# </details>
#
# **2.** Two texts, two pictures. Make their colours mean the same.
#
# <details><summary>Answer</summary>
#
# By default each picture has a scale of its own. Give both the same; with 1.0, all ink
# means that nothing else is looked at.
#
# ```python
# import torch
# from labml_nn.attention_maps import AttentionMap, picture
#
# sharp, even = torch.eye(4), torch.full((4, 4), 0.25)
# drawn = [
#     picture(AttentionMap("", weights, axes=("query", "key")), scale=1.0)
#     for weights in (sharp, even)
# ]
# assert drawn[1].count('fill-opacity="0.25"') == 16
# assert 'fill-opacity="0.25"' not in drawn[0]
# ```
#
# </details>
#
# **3.** Make a page of all layers of a model.
#
# <details><summary>Answer</summary>
#
# Pictures are text, and text can be joined.
#
# ```python
# import torch
# from labml_nn.attention_maps import attention_maps, picture
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "n_layers": 2}
# model = FeedbackLanguageModel.from_config(config)
# maps = attention_maps(model, torch.tensor([[0, 1, 2, 4]]).T, vocabulary="abcde")
# page = "<!doctype html><title>Layers</title>" + "".join(map(picture, maps))
# assert page.count("<svg") == 2
# ```
#
# </details>
