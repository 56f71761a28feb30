"""Heat maps: a matrix as ink of one tone, or of two for values of either sign.

More ink is more, on any ground, so that the same drawing holds in the light and in the dark. All
cells of one strength are one path, whose rows are dashes: a map of a thousand cells takes a few
elements and about two kilobytes.
"""

import math
from collections.abc import Sequence

from pylit.figures.svg import LETTER, LINE, WIDTH, Panel, crossing, element, short, text

Matrix = Sequence[Sequence[float]]
#: Strengths of ink.
LEVELS = 8


def heat_map(
    matrix: Matrix,
    *,
    title: str = "",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    most: float | None = None,
    cell: float | None = None,
    down: str = "",
    across: str = "",
    frames: bool = False,
    width: float = WIDTH,
) -> Panel:
    """A panel with one cell for each number.

    Args:
        matrix: Rows of numbers; those below 0 get the second tone.
        title: Above it.
        rows, columns: Labels, one for each or none; an empty one is left out.
        most: The value that is all ink; the largest if not given.
        cell: Side of a cell; as large as the width has room for, up to 22, if not given.
        down, across: What the rows and the columns are.
        frames: Whether cells have a thin border, for few of them.
        width: Of the panel.
    """
    left = max((len(label) for label in rows), default=0) * LETTER + (8 if rows else 1)
    # To a tenth of a pixel, so that sums of many sides are right.
    side = cell or math.floor(min(22.0, (width - left - 2) / len(matrix[0])) * 10) / 10
    heads = [(title, "h")] if title else []
    words = ", ".join(filter(None, (down and f"↓ {down}", across and f"→ {across}")))
    heads += [(words, "")] if words else []
    parts = [
        text(0, (i + 1) * LINE - 3, head, classes=kind) for i, (head, kind) in enumerate(heads)
    ]
    if any(value < 0 for row in matrix for value in row):
        parts += _signs(width, len(heads) * LINE - 3)
    top = len(heads) * LINE + (LINE if any(columns) else 0) + 4
    parts += crossing(columns, left, top - 5, side)
    for i, label in enumerate(rows):
        if label:
            parts.append(text(left - 5, top + (i + 0.5) * side + 4, label, "end"))
    high = most or max(max(map(abs, row)) for row in matrix) or 1.0
    for (tone, level), d in sorted(_paths(matrix, high, side).items()):
        more = {"transform": f"translate({short(left)} {short(top)})"}
        strength = f"{level / LEVELS:.3f}".rstrip("0").rstrip(".")
        parts.append(
            element("path", f"c t{tone}", d=d, stroke_width=side, stroke_opacity=strength, **more)
        )
    w, h = len(matrix[0]) * side, len(matrix) * side
    if frames:
        parts.append(_grid(left, top, w, h, side))
    parts.append(element("rect", "b", x=left, y=top, width=w, height=h))
    return Panel(width, top + h + 3, tuple(parts))


def _signs(right: float, y: float) -> list[str]:
    """Which tone is which sign, in the last line above the map."""
    parts = []
    for tone, words in ((1, "below 0"), (0, "above 0")):
        parts.append(text(right, y, words, "end"))
        right -= len(words) * LETTER + 12
        parts.append(element("rect", f"f t{tone}", x=right, y=y - 8, width=8, height=8))
        right -= 12
    return parts


def _paths(matrix: Matrix, most: float, side: float) -> dict[tuple[int, int], str]:
    """For each tone and strength the dashes of all rows; cells without ink are in none."""
    paths: dict[tuple[int, int], list[str]] = {}
    for i, row in enumerate(matrix):
        kinds = [_kind(value, most) for value in row] + [(0, 0)]
        start = 0
        #: How far each path has come in this row.
        reached: dict[tuple[int, int], int] = {}
        for j in range(1, len(kinds)):
            if kinds[j] == kinds[start] and j < len(row):
                continue
            kind = kinds[start]
            if kind[1]:
                move = f"M{short(start * side)} {short((i + 0.5) * side)}"
                if kind in reached:
                    move = f"m{short((start - reached[kind]) * side)} 0"
                paths.setdefault(kind, []).append(f"{move}h{short((j - start) * side)}")
                reached[kind] = j
            start = j
    return {kind: "".join(dashes) for kind, dashes in paths.items()}


def _kind(value: float, most: float) -> tuple[int, int]:
    """Tone and strength of a cell."""
    level = min(round(abs(value) / most * LEVELS), LEVELS)
    return (0 if value >= 0 else 1), level


def _grid(left: float, top: float, width: float, height: float, side: float) -> str:
    columns, rows = round(width / side), round(height / side)
    d = "".join(
        f"M{short(left + i * side)} {short(top)}v{short(height)}" for i in range(1, columns)
    )
    d += "".join(f"M{short(left)} {short(top + i * side)}h{short(width)}" for i in range(1, rows))
    return element("path", "g", d=d)
