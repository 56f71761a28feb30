"""What authors of figures import: ``from pylit.figures.draw import Figure, Plot``.

A function of ``docs_src/figures`` returns a `Figure`, made of drawings, or a `Table`. A drawing is
a `Panel` of inline SVG: a `Plot`, a `heat_map`, a `bar_list`, or elements of one's own.

Everything is measured in pixels at the size at which a figure is drawn first. A panel is 288 wide,
because that is what a page 320 wide has room for; where there is more, panels stand side by side
and may grow a little. Colours are classes, which the style sheet fills in for both themes; in a
page each of them begins with ``p-``.

    t0 t1 t2 t3 t4      tones            l f c       a line, a filled shape, dashes as cells
    thin thick d        kinds of lines   g b h       grid, border, and the head of a drawing
"""

import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from typing import Any

#: Width of a panel that fits everywhere.
WIDTH = 288.0
#: How much a panel may grow where there is room.
GROWTH = 1.25
#: Height of a line of text, and the width of a letter in it.
LINE, LETTER = 14.0, 6.0


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a figure: its size, and its elements."""

    width: float
    height: float
    parts: tuple[str, ...]

    def svg(self) -> str:
        """The element. Raises `ValueError` for parts that are not well-formed.

        They would swallow the rest of their page.
        """
        w, h = short(self.width), short(self.height)
        size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        grows = f"flex:1 1 {w}px;max-width:{self.width * GROWTH:.0f}px"
        # The page has short names of classes as well, and others mean something else by them.
        inside = re.sub(
            r'(?<= class=")[^"]*',
            lambda names: " ".join(f"p-{name}" for name in names[0].split()),
            "".join(self.parts),
        )
        drawing = f'<svg {size} style="{grows}">{inside}</svg>'
        try:
            ET.fromstring(drawing)
        except ET.ParseError as error:
            message = str(error).partition(":")[0]
            raise ValueError(f"the drawing is no SVG: {message}") from None
        return drawing


def short(number: float) -> str:
    """A length to a tenth of a pixel: short, and the same on every machine."""
    return f"{_tenths(number) / 10:.1f}".removesuffix(".0")


def _tenths(number: float) -> int:
    if not math.isfinite(number):
        raise ValueError(f"{number} is no length that can be drawn")
    return round(number * 10)


def text(x: float, y: float, words: str, at: str = "start", classes: str = "") -> str:
    """A line of text. `at` says what of it stands at `x`: its start, middle or end."""
    anchor = "" if at == "start" else f' text-anchor="{at}"'
    named = f' class="{classes}"' if classes else ""
    return f'<text x="{short(x)}" y="{short(y)}"{anchor}{named}>{escape(words)}</text>'


def element(name: str, classes: str = "", **attributes: float | str) -> str:
    """An empty element; ``stroke_width=2`` is its attribute ``stroke-width``."""
    named = f' class="{classes}"' if classes else ""
    written = "".join(
        f' {key.replace("_", "-")}="{value if isinstance(value, str) else short(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{named}{written}/>"


def box(
    x: float, y: float, width: float, height: float, words: str = "", tone: int = 0, to: str = ""
) -> str:
    """A box with its top at `y` and its middle at `x`, and words in it; with `to`, a link."""
    size = {"x": x - width / 2, "y": y, "width": width, "height": height, "rx": 4}
    drawn = element("rect", f"f t{tone}", fill_opacity="0.14", **size)
    drawn += element("rect", f"l t{tone}", **size)
    drawn += text(x, y + height / 2 + 4, words, "middle") if words else ""
    return f'<a href="{escape(to)}">{drawn}</a>' if to else drawn


def line(x1: float, y1: float, x2: float, y2: float, classes: str, head: str = "") -> str:
    """A straight line."""
    d = f"M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}{head}"
    return element("path", classes, d=d)


def arrow(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    """A straight line with a head at its end."""
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    x, y = 4 * (x2 - x1) / length, 4 * (y2 - y1) / length
    sides = ((-x - y, -y + x), (-x + y, -y - x))
    head = "".join(f"M{short(x2)} {short(y2)}l{short(a)} {short(b)}" for a, b in sides)
    return line(x1, y1, x2, y2, classes, head)


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """The path through some points. What is written of one is its distance to the one before."""
    # In tenths of a pixel, so that no error adds up.
    at = [(_tenths(x), _tenths(y)) for x, y in points]
    if not at:
        return ""
    steps = " ".join(
        f"{short((x - a) / 10)} {short((y - b) / 10)}" for (a, b), (x, y) in pairwise(at)
    )
    return f"M{short(at[0][0] / 10)} {short(at[0][1] / 10)}l" + steps.replace(" -", "-")


def _heads(title: str, words: str = "") -> list[str]:
    """The lines above a drawing: its title, and what it measures."""
    lines = [(line, kind) for line, kind in ((title, "h"), (words, "")) if line]
    return [text(0, (i + 1) * LINE - 3, line, classes=kind) for i, (line, kind) in enumerate(lines)]


Range = tuple[float, float]


class Plot:
    """A plot that grows by what is drawn into it; `panel` is the finished drawing.

    Args:
        x, y: The ends of the axes.
        title: Above it.
        x_label, y_label: What the axes measure; the second stands above the axis.
        log: Whether `y` has a logarithmic scale.
        height: Of the plot alone, without labels.
    """

    def __init__(
        self,
        x: Range,
        y: Range,
        *,
        title: str = "",
        x_label: str = "",
        y_label: str = "",
        log: bool = False,
        height: float = 130.0,
        x_ticks: Sequence[float] | None = None,
        y_ticks: Sequence[float] | None = None,
    ) -> None:
        self._x, self._y, self._log = x, y, log
        marks = _powers(y) if log else _ticks(y, 4)
        self._y_ticks = list(marks if y_ticks is None else y_ticks)
        self._x_ticks = list(_ticks(x, 6) if x_ticks is None else x_ticks)
        heads = _heads(title, y_label)
        self.left = max(len(_shown(tick)) for tick in self._y_ticks) * LETTER + 8
        self.top = len(heads) * LINE + 6
        self.right = WIDTH - 6
        self.bottom = self.top + height
        self._height = self.bottom + LINE + (LINE if x_label else 0) + 2
        self._parts = heads
        self._labels: list[tuple[str, str]] = []
        if x_label:
            self._parts.append(text(self.right, self._height - 3, x_label, "end"))
        self._parts += self._grid()

    def _grid(self) -> list[str]:
        parts = []
        for tick in self._y_ticks:
            y = self.at(self._x[0], tick)[1]
            parts.append(line(self.left, y, self.right, y, "g"))
            parts.append(text(self.left - 5, y + 4, _shown(tick), "end"))
        for tick in self._x_ticks:
            x = self.at(tick, self._y[0])[0]
            half = len(_shown(tick)) * LETTER / 2
            at, x = ("end", WIDTH) if x + half > WIDTH else ("middle", x)
            parts.append(text(x, self.bottom + LINE, _shown(tick), at))
        return parts

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where in the drawing a point of the plot lies."""
        low, high = self._y
        if self._log:
            y, low, high = (math.log10(max(value, self._y[0])) for value in (y, low, high))
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = (y - low) / (high - low)
        return (
            self.left + across * (self.right - self.left),
            self.bottom - up * (self.bottom - self.top),
        )

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        tone: int = 0,
        *,
        label: str = "",
        dashed: bool = False,
        hook: str = "",
    ) -> None:
        """A curve through points; its label stands above the plot, beside a piece of it."""
        points = [self.at(x, y) for x, y in zip(xs, ys, strict=True)]
        classes = f"l t{tone}" + (" d" if dashed else "")
        more: dict[str, str] = {"data_p": hook} if hook else {}
        self._parts.append(element("path", classes, d=polyline(points), **more))
        if label:
            self._labels.append((label, classes))

    def dots(self, xs: Sequence[float], ys: Sequence[float], tone: int = 0) -> None:
        """Points."""
        for x, y in zip(xs, ys, strict=True):
            cx, cy = self.at(x, y)
            self._parts.append(element("circle", f"f t{tone}", cx=cx, cy=cy, r=2.5))

    def note(self, x: float, y: float, words: str, at: str = "start") -> None:
        """Words at a point of the plot."""
        self._parts.append(text(*self.at(x, y), words, at))

    def add(self, part: str) -> None:
        """An element of one's own, placed with `at`."""
        self._parts.append(part)

    def panel(self) -> Panel:
        """The drawing."""
        return Panel(WIDTH, self._height, (*self._parts, *self._legend()))

    def _legend(self) -> list[str]:
        """What the curves are, from the right in the last line above the plot."""
        parts: list[str] = []
        right, y = self.right, self.top - 9
        for label, classes in reversed(self._labels):
            parts.append(text(right, y, label, "end"))
            right -= len(label) * LETTER + 5
            parts.append(line(right - 14, y - 4, right, y - 4, classes))
            right -= 24
        return parts


def bar_list(
    labels: Sequence[str],
    values: Sequence[float],
    shown: Sequence[str],
    *,
    title: str = "",
    most: float | None = None,
    room: float = 64.0,
    hook: str = "",
) -> Panel:
    """Bars that lie one under the other, with a label on their left and a number on their right.

    Args:
        labels, values, shown: Of each bar; `shown` is its value in words.
        title: Above it.
        most: The value that takes all the width.
        room: Pixels that the values in words take.
        hook: By which a script finds the bars; the values follow them.
    """
    left = max(map(len, labels)) * LETTER + 8
    scale = (WIDTH - left - room) / (most or max(values) or 1)
    parts = _heads(title)
    top = LINE + 6 if title else 2.0
    hooks: dict[str, str] = {"data_p": hook} if hook else {}
    for label, value, words in zip(labels, values, shown, strict=True):
        size = {"x": left, "y": top + 1, "width": value * scale, "height": 13}
        parts.append(text(left - 6, top + 11, label, "end"))
        parts.append(element("rect", "f t0", **size, **hooks))
        parts.append(text(left + value * scale + 5, top + 11, words))
        top += 18
    return Panel(WIDTH, top + 2, tuple(parts))


def _ticks(ends: Range, about: int) -> list[float]:
    """Round numbers between the ends, about so many."""
    low, high = ends
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(ends: Range) -> list[float]:
    """Powers of ten between the ends, at most five."""
    low, high = (round(math.log10(end)) for end in ends)
    step = -(-(high - low) // 4) or 1
    return [10.0**power for power in range(high, low - 1, -step)]


_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _shown(value: float) -> str:
    """A number beside an axis."""
    if value and not 1e-3 <= abs(value) < 1e5:
        return "10" + str(round(math.log10(abs(value)))).translate(_SUPER)
    return f"{value:,.3f}".rstrip("0").rstrip(".").replace("-", "−")


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
    # At least two letters' room: a single W is wider than letters are on average.
    left = max(2, *map(len, rows)) * LETTER + 8 if rows else 1
    # To a tenth of a pixel, so that sums of many sides are right.
    side = cell or math.floor(min(22.0, (width - left - 2) / len(matrix[0])) * 10) / 10
    words = ", ".join(filter(None, (down and f"↓ {down}", across and f"→ {across}")))
    parts = _heads(title, words)
    above = len(parts) * LINE
    if any(value < 0 for row in matrix for value in row):
        parts += _signs(width, above - 3)
    top = above + (LINE if any(columns) else 0) + 4
    for j, label in enumerate(columns):
        if label:
            parts.append(text(left + (j + 0.5) * side, top - 5, label, "middle"))
    for i, label in enumerate(rows):
        if label:
            parts.append(text(left - 5, top + (i + 0.5) * side + 4, label, "end"))
    high = most or max(max(map(abs, row)) for row in matrix) or 1.0
    for (tone, level), d in sorted(_paths(matrix, high, side).items()):
        look: dict[str, float | str] = {"d": d, "stroke_width": side}
        look["stroke_opacity"] = f"{level / LEVELS:g}"
        look["transform"] = f"translate({short(left)} {short(top)})"
        parts.append(element("path", f"c t{tone}", **look))
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
    paths: dict[tuple[int, int], str] = {}
    for i, row in enumerate(matrix):
        j = 0
        #: How far each path has come in this row.
        reached: dict[tuple[int, int], int] = {}
        for kind, cells in groupby(_kind(value, most) for value in row):
            start, j = j, j + len(list(cells))
            if not kind[1]:
                continue
            move = f"M{short(start * side)} {short((i + 0.5) * side)}"
            if kind in reached:
                move = f"m{short((start - reached[kind]) * side)} 0"
            paths[kind] = f"{paths.get(kind, '')}{move}h{short((j - start) * side)}"
            reached[kind] = j
    return paths


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


#: Classes of cells whose text stands at the right, or in the middle; at the left is usual.
_ALIGNED = {"l": "", "r": ' class="r"', "c": ' class="m"'}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: What opens it, where it belongs to a figure.
    title: str = "The numbers"
    #: A letter for each column: left, right or centre. If not given, the first column, which says
    #: what its row is about, is left and all others right.
    align: str = ""
    #: Sentences under it: what a column means, where a number is missing and why.
    notes: Sequence[str] = ()

    def cells(self) -> str:
        """Its head and its rows, as HTML inside of a table that stands by itself.

        Raises `ValueError` for rows that are not as long as the head.
        """
        looks = self._looks()
        # An empty header is no header of anything.
        head = "".join(
            f'<th scope="col"{look}>{escape(cell)}</th>' if cell else "<td></td>"
            for cell, look in zip(self.head, looks, strict=True)
        )
        rows = ""
        for row in self.rows:
            first, *others = (
                f"{look}>{escape(cell)}" for cell, look in zip(row, looks, strict=True)
            )
            rows += f'<tr><th scope="row"{first}</th>'
            rows += "".join(f"<td{other}</td>" for other in others) + "</tr>"
        return f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"

    def below(self) -> str:
        """What stands under it."""
        return "".join(f"<p>{escape(note)}</p>" for note in self.notes)

    def folded(self) -> str:
        """The HTML of the numbers of a figure, which open when asked."""
        return (
            f"<details><summary>{escape(self.title)}</summary>"
            f'<div class="table-scroll"><table>{self.cells()}</table></div></details>'
        )

    def _looks(self) -> list[str]:
        """The class of each column."""
        count = len(self.head)
        align = self.align or "l" + "r" * (count - 1)
        if not count or not self.rows:
            raise ValueError("the table is empty; give it a head and a row")
        if len(align) != count or set(align) - set(_ALIGNED):
            raise ValueError(
                f"`align` ({self.align!r}) must be {count} of the letters l, r and c, one for each "
                "column"
            )
        for number, row in enumerate(self.rows, 1):
            if len(row) != count:
                raise ValueError(f"row {number} has {len(row)} cells and the head {count}")
        return [_ALIGNED[letter] for letter in align]


@dataclass(frozen=True, slots=True)
class Knob:
    """A slider beside a figure."""

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float


@dataclass(frozen=True, slots=True)
class Demo:
    """What a script needs to draw a figure anew when a knob turns.

    The drawing as it stands is what the knobs' first values give. `name` is that of a function in
    `pylit/theme/js/figures`; elements that it changes carry ``data-p``.
    """

    name: str
    knobs: Sequence[Knob]
    data: Mapping[str, Any]
    #: What the script says of the drawing while the knobs are at their first values.
    says: str


@dataclass(frozen=True, slots=True)
class Figure:
    """Drawings side by side, in words for those who do not see them, and in numbers."""

    panels: Sequence[Panel]
    #: What it shows, best with the numbers that the run gave.
    alt: str
    table: Table | None = None
    demo: Demo | None = None
    #: The panel with a model that a button below opens: a script of ``docs_src/live``.
    live: str = ""

    def picture(self) -> str:
        """The HTML of its drawings and of its knobs."""
        drawings = [panel.svg() for panel in self.panels]
        # What is inside of an image cannot be reached, so links make it a group.
        role = "group" if any("<a " in drawing for drawing in drawings) else "img"
        label = f'role="{role}" aria-label="{escape(" ".join(self.alt.split()))}"'
        picture = f'<div class="panels" {label}>{"".join(drawings)}</div>'
        picture += _knobs(self.demo) if self.demo else ""
        if self.live:
            button = f'<button type="button" data-live="{escape(self.live)}">Try it</button>'
            picture += f'<p class="js">{button}</p>'
        return picture

    def below(self) -> str:
        """The HTML of its numbers."""
        return self.table.folded() if self.table else ""


def _knobs(demo: Demo) -> str:
    data = json.dumps(demo.data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    knobs = "".join(
        f"<p><label>{escape(knob.label)}"
        f'<input type="range" name="{escape(knob.name)}" min="{knob.low:g}" max="{knob.high:g}"'
        f' step="{knob.step:g}" value="{knob.value:g}" autocomplete="off"></label>'
        f"<b>{knob.value:g}</b></p>"
        for knob in demo.knobs
    )
    return (
        f'<div class="knobs js" data-demo="{escape(demo.name)}">{knobs}'
        f"<output>{escape(demo.says)}</output>"
        f'<script type="application/json">{data}</script></div>'
    )
