"""What authors of figures import: ``from pylit.figures.draw import Figure, Plot``.

A function of ``docs_src/figures`` returns a `Figure`, made of drawings, or a `Table`. A drawing is
a `Panel` of inline SVG: a `Plot`, a `heat_map`, a `bar_list`, or elements of one's own.

Everything is measured in pixels at the size at which a figure is drawn first. A panel is 288 wide,
because that is what a page 320 wide has room for; where there is more, panels stand side by side
and may grow a little. Colours are classes, which the style sheet fills in for both themes; in a
page each of them begins with ``p-``, for the page has short names as well.

    t0 t1 t2 t3 t4      tones            l f c       a line, a filled shape, dashes as cells
    thin thick d        kinds of lines   g b h       grid, border, and the head of a drawing
"""

import json
import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from itertools import groupby, pairwise
from typing import Any

#: Width of a panel that fits everywhere.
WIDTH = 288.0
#: How much a panel may grow where there is room.
GROWTH = 1.25
#: Height of a line of text, and the width of a letter in it.
LINE, LETTER = 14.0, 6.0

Range = tuple[float, float]
Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a figure: its size, and its elements."""

    width: float
    height: float
    parts: tuple[str, ...]

    def svg(self) -> str:
        """The element. Raises `ValueError` for parts that would swallow the rest of their page."""
        w, h = short(self.width), short(self.height)
        grows = f"flex:1 1 {w}px;max-width:{self.width * GROWTH:.0f}px"
        size = {"width": w, "height": h, "viewBox": f"0 0 {w} {h}", "style": grows}
        drawing = tag("svg", *self.parts, **size)
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


def tag(name: str, /, *inside: str, **attributes: float | str) -> str:
    """An element; ``stroke_width=2`` is its attribute ``stroke-width``, an empty one is none."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="'
        f'{escape(value) if isinstance(value, str) else short(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}" + (f">{''.join(inside)}</{name}>" if inside else "/>")


def element(name: str, classes: str = "", *inside: str, **attributes: float | str) -> str:
    """An element of a drawing, with classes of the list above."""
    return tag(name, *inside, class_=_own(classes), **attributes)


def _own(classes: str) -> str:
    return " ".join(f"p-{name}" for name in classes.split())


def text(x: float, y: float, words: str, at: str = "start", classes: str = "") -> str:
    """A line of text. `at` says what of it stands at `x`: its start, middle or end."""
    anchor = "" if at == "start" else at
    return tag("text", escape(words), x=x, y=y, text_anchor=anchor, class_=_own(classes))


def box(
    x: float, y: float, width: float, height: float, words: str = "", tone: int = 0, to: str = ""
) -> str:
    """A box with its top at `y` and its middle at `x`, and words in it; with `to`, a link."""
    size = {"x": x - width / 2, "y": y, "width": width, "height": height, "rx": 4}
    drawn = element("rect", f"f t{tone}", fill_opacity="0.14", **size)
    drawn += element("rect", f"l t{tone}", **size)
    drawn += text(x, y + height / 2 + 4, words, "middle") if words else ""
    return tag("a", drawn, href=to) if to else drawn


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
    at = [(0, 0), *((_tenths(x), _tenths(y)) for x, y in points)]
    steps = [((x - a) / 10, (y - b) / 10) for (a, b), (x, y) in pairwise(at)]
    first, *others = [f"{short(x)} {short(y)}" for x, y in steps] or [""]
    return f"M{first}l{' '.join(others).replace(' -', '-')}"


def _heads(title: str, words: str = "") -> list[str]:
    """The lines above a drawing: its title, and what it measures."""
    lines = [(line, kind) for line, kind in ((title, "h"), (words, "")) if line]
    return [text(0, (i + 1) * LINE - 3, line, classes=kind) for i, (line, kind) in enumerate(lines)]


@dataclass
class Plot:
    """A plot that grows by what is drawn into it; `panel` is the finished drawing."""

    #: The ends of the axes.
    x: Range
    y: Range
    _: KW_ONLY
    title: str = ""
    #: What the axes measure; the second stands above the axis.
    x_label: str = ""
    y_label: str = ""
    #: Whether `y` has a logarithmic scale.
    log: bool = False
    #: Of the plot alone, without labels.
    height: float = 130.0
    x_ticks: Sequence[float] | None = None
    y_ticks: Sequence[float] | None = None

    def __post_init__(self) -> None:
        usual = _powers(self.y) if self.log else _ticks(self.y, 4)
        y_ticks = usual if self.y_ticks is None else self.y_ticks
        self._labels: list[tuple[str, str]] = []
        self._parts = _heads(self.title, self.y_label)
        #: Where in the drawing the plot lies.
        self.left = max(len(_shown(tick)) for tick in y_ticks) * LETTER + 8
        self.right = WIDTH - 6
        self.top = len(self._parts) * LINE + 6
        self.bottom = self.top + self.height
        self._end = self.bottom + LINE + (LINE if self.x_label else 0) + 2
        if self.x_label:
            self.add(text(self.right, self._end - 3, self.x_label, "end"))
        for tick in y_ticks:
            y = self.at(self.x[0], tick)[1]
            self.add(line(self.left, y, self.right, y, "g"))
            self.add(text(self.left - 5, y + 4, _shown(tick), "end"))
        for tick in _ticks(self.x, 6) if self.x_ticks is None else self.x_ticks:
            x, words = self.at(tick, self.y[0])[0], _shown(tick)
            at, x = ("end", WIDTH) if x + len(words) * LETTER / 2 > WIDTH else ("middle", x)
            self.add(text(x, self.bottom + LINE, words, at))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where in the drawing a point of the plot lies."""
        (left, right), (low, high) = self.x, self.y
        if self.log:
            y, low, high = (math.log10(max(value, self.y[0])) for value in (y, low, high))
        across, up = (x - left) / (right - left), (y - low) / (high - low)
        width, height = self.right - self.left, self.bottom - self.top
        return self.left + across * width, self.bottom - up * height

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
        self.add(element("path", classes, d=polyline(points), data_p=hook))
        self._labels += [(label, classes)] if label else []

    def dots(self, xs: Sequence[float], ys: Sequence[float], tone: int = 0) -> None:
        """Points."""
        for x, y in zip(xs, ys, strict=True):
            cx, cy = self.at(x, y)
            self.add(element("circle", f"f t{tone}", cx=cx, cy=cy, r=2.5))

    def note(self, x: float, y: float, words: str, at: str = "start") -> None:
        """Words at a point of the plot."""
        self.add(text(*self.at(x, y), words, at))

    def add(self, part: str) -> None:
        """An element of one's own, placed with `at`."""
        self._parts.append(part)

    def panel(self) -> Panel:
        """The drawing."""
        legend = _legend(reversed(self._labels), self.right, self.top - 9)
        return Panel(WIDTH, self._end, (*self._parts, *legend))


def _legend(labels: Iterable[tuple[str, str]], right: float, y: float) -> Iterator[str]:
    """What lines, or filled squares, of some classes are: leftwards, on one line."""
    for words, classes in labels:
        yield text(right, y, words, "end")
        right -= len(words) * LETTER + 5
        if classes.startswith("l"):
            yield line(right - 14, y - 4, right, y - 4, classes)
        else:
            yield element("rect", classes, x=right - 8, y=y - 8, width=8, height=8)
        right -= 24


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
        shown: The values in words, in `room` pixels.
        most: The value that takes all the width.
        hook: By which a script finds the bars; the values follow them.
    """
    left = max(map(len, labels)) * LETTER + 8
    scale = (WIDTH - left - room) / (most or max(values) or 1)
    parts = _heads(title)
    top = LINE + 6 if title else 2.0
    for label, value, words in zip(labels, values, shown, strict=True):
        size = {"x": left, "y": top + 1, "width": value * scale, "height": 13}
        parts.append(text(left - 6, top + 11, label, "end"))
        parts.append(element("rect", "f t0", **size, data_p=hook))
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
    """A panel with one cell for each number of a matrix; those below 0 get the second tone.

    Args:
        rows, columns: Labels, one for each or none; an empty one is left out.
        most: The value that is all ink; the largest if not given.
        cell: Side of a cell; as large as the width has room for, up to 22, if not given.
        down, across: What the rows and the columns are.
        frames: Whether cells have a thin border, for few of them.
    """
    # At least two letters' room: a single W is wider than letters are on average.
    left = max(2, *map(len, rows)) * LETTER + 8 if rows else 1
    # To a tenth of a pixel, so that sums of many sides are right.
    side = cell or math.floor(min(22.0, (width - left - 2) / len(matrix[0])) * 10) / 10
    words = ", ".join(filter(None, (down and f"↓ {down}", across and f"→ {across}")))
    parts = _heads(title, words)
    above = len(parts) * LINE
    if any(value < 0 for row in matrix for value in row):
        parts += _legend((("below 0", "f t1"), ("above 0", "f t0")), width, above - 3)
    top = above + (LINE if any(columns) else 0) + 4
    for j, label in enumerate(columns):
        parts += [text(left + (j + 0.5) * side, top - 5, label, "middle")] if label else []
    for i, label in enumerate(rows):
        parts += [text(left - 5, top + (i + 0.5) * side + 4, label, "end")] if label else []
    high = most or max(max(map(abs, row)) for row in matrix) or 1.0
    moved = f"translate({short(left)} {short(top)})"
    for (tone, level), d in sorted(_paths(matrix, high, side).items()):
        ink = {"stroke_opacity": f"{level / LEVELS:g}", "transform": moved}
        parts.append(element("path", f"c t{tone:d}", d=d, stroke_width=side, **ink))
    m, n = len(matrix), len(matrix[0])
    w, h = n * side, m * side
    if frames:
        parts += [line(x, top, x, top + h, "g") for x in (left + j * side for j in range(1, n))]
        parts += [line(left, y, left + w, y, "g") for y in (top + i * side for i in range(1, m))]
    parts.append(element("rect", "b", x=left, y=top, width=w, height=h))
    return Panel(width, top + h + 3, tuple(parts))


def _paths(matrix: Matrix, most: float, side: float) -> dict[tuple[bool, int], str]:
    """For each tone and strength the dashes of all rows; cells without ink are in none."""
    paths: defaultdict[tuple[bool, int], str] = defaultdict(str)
    for i, row in enumerate(matrix):
        inks = [(value < 0, round(min(abs(value) / most, 1) * LEVELS)) for value in row]
        #: How far each path has come in this row.
        reached: dict[tuple[bool, int], int] = {}
        for ink, run in groupby(range(len(row)), inks.__getitem__):
            first, *others = run
            move = f"M{short(first * side)} {short((i + 0.5) * side)}"
            if ink in reached:
                move = f"m{short((first - reached[ink]) * side)} 0"
            reached[ink] = first + 1 + len(others)
            if ink[1]:
                paths[ink] += f"{move}h{short((1 + len(others)) * side)}"
    return paths


#: Classes of cells whose text stands at the right, or in the middle; at the left is usual.
_ALIGNED = {"l": "", "r": "r", "c": "m"}


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
        """The inside of its element. Raises `ValueError` for a row not as long as the head."""
        count, align = len(self.head), self.align or "l" + "r" * (len(self.head) - 1)
        if not count or not self.rows:
            raise ValueError("the table is empty; give it a head and a row")
        if len(align) != count or set(align) - set(_ALIGNED):
            letters = f"{count} of the letters l, r and c, one for each column"
            raise ValueError(f"`align` ({align!r}) must be {letters}")
        for number, cells in enumerate(self.rows, 1):
            if len(cells) != count:
                raise ValueError(f"row {number} has {len(cells)} cells and the head {count}")

        def row(cells: Sequence[str], scopes: Sequence[str]) -> str:
            looks = zip(map(escape, cells), scopes, map(_ALIGNED.get, align), strict=True)
            made = (tag("th" if a else "td", c, scope=a, class_=b or "") for c, a, b in looks)
            return tag("tr", *made)

        # An empty header is no header of anything.
        head = row(self.head, ["col" * bool(cell) for cell in self.head])
        body = (row(cells, ["row"] + [""] * (count - 1)) for cells in self.rows)
        return tag("thead", head) + tag("tbody", *body)

    def below(self) -> str:
        """What stands under it."""
        return "".join(tag("p", escape(note)) for note in self.notes)


@dataclass(frozen=True, slots=True)
class Knob:
    """A slider beside a figure."""

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float

    def html(self) -> str:
        """The slider, between what it sets and its value."""
        ends = {"min": self.low, "max": self.high, "step": self.step, "value": self.value}
        numbers = {key: f"{value:g}" for key, value in ends.items()}
        slider = tag("input", type="range", name=self.name, **numbers, autocomplete="off")
        return tag("p", tag("label", escape(self.label), slider), tag("b", f"{self.value:g}"))


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

    def html(self) -> str:
        """The knobs, and the data."""
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        data = tag("script", data.replace("</", "<\\/"), type="application/json")
        knobs = (knob.html() for knob in self.knobs)
        inside = (*knobs, tag("output", escape(self.says)), data)
        return tag("div", *inside, class_="knobs js", data_demo=self.name)


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
        drawings = "".join(panel.svg() for panel in self.panels)
        # What is inside of an image cannot be reached, so links make it a group.
        role, alt = "group" if "<a " in drawings else "img", " ".join(self.alt.split())
        picture = tag("div", drawings, class_="panels", role=role, aria_label=alt)
        picture += self.demo.html() if self.demo else ""
        if self.live:
            button = tag("button", "Try it", type="button", data_live=self.live)
            picture += tag("p", button, class_="js")
        return picture

    def below(self) -> str:
        """The HTML of its numbers."""
        if self.table is None:
            return ""
        table = tag("div", tag("table", self.table.cells()), class_="table-scroll")
        return tag("details", tag("summary", escape(self.table.title)), table)
