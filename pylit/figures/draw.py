"""What authors of figures import: ``from pylit.figures.draw import Figure, Plot``.

A function of ``docs_src/figures`` returns a `Figure`, made of drawings, or a `Table`. A drawing is
a `Panel` of inline SVG: a `Plot`, a `heat_map`, a `bar_list`, or other elements.

Lengths are in pixels. A panel is 288 wide, which fits a page 320 wide. It may shrink or grow a
little, so that two are side by side from 552 pixels on and letters, which are 12 high, stay between
11 and 14. Colours and kinds are classes, defined by the style sheet for both themes; in a page each
of them has the prefix ``p-``, because the page has short class names as well.

    t0 t1 t2 t3         tones: weights, keys, values, queries
    t4 t5 t6            tones: all else, a state or a second head, an error
    l f c k r x         line, filled shape, cells of a heat map, cell, ribbon, hatching
    thin thick d round  styles of lines          far      in the background
    g b o               grid, border, page       halo     words on top of lines
    h on n z            words: title, important, a number, a zero
    w m num sum s       words: a token, a symbol, a number in a column, a result, a small label
    small mid large big sizes of words
"""

import json
import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from html import escape
from itertools import groupby, pairwise
from typing import Any, SupportsFloat

#: Width of a panel that fits everywhere.
WIDTH = 288.0
#: How much a panel may grow where there is room, and shrink before it goes into a row of its own.
GROWTH, SHRINKING = 7 / 6, 11 / 12
#: Height of a line of text, and the width of a letter in it.
LINE, LETTER = 14.0, 6.5

Range = tuple[float, float]
Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a figure: its size, and its elements."""

    width: float
    height: float
    parts: tuple[str, ...]
    #: How much it may grow.
    growth: float = GROWTH

    def svg(self) -> str:
        """The element. Raises `ValueError` if the parts are not well-formed XML."""
        w, h = short(self.width), short(self.height)
        # Panels of one row grow by the same factor. The style sheet has the usual width.
        least, most = self.width * SHRINKING, self.width * self.growth
        usual = (self.width, self.growth) == (WIDTH, GROWTH)
        style = "" if usual else f"flex:{w} 1 {least:.0f}px;max-width:{most:.0f}px"
        size = {"width": w, "height": h, "viewBox": f"0 0 {w} {h}", "style": style}
        drawing = tag("svg", *self.parts, **size)
        try:
            ET.fromstring(drawing)
        except ET.ParseError as error:
            message = str(error).partition(":")[0]
            raise ValueError(f"the drawing is no SVG: {message}") from None
        return drawing


def short(number: float) -> str:
    """A length to a tenth of a pixel: short, and the same on every machine."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is no length that can be drawn")
    return f"{round(number * 10) / 10:.1f}".removesuffix(".0")


def tag(name: str, /, *inside: str, **attributes: float | str) -> str:
    """An element; ``stroke_width=2`` is its attribute ``stroke-width``, an empty one is omitted."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="'
        f'{escape(value) if isinstance(value, str) else short(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}" + (f">{''.join(inside)}</{name}>" if inside else "/>")


def element(name: str, classes: str = "", *inside: str, **attributes: float | str) -> str:
    """An element of a drawing, with classes of the list above."""
    prefixed = " ".join(f"p-{name}" for name in classes.split())
    return tag(name, *inside, class_=prefixed, **attributes)


def text(x: float, y: float, words: str, at: str = "start", classes: str = "") -> str:
    """A line of text, with its start, middle or end at `x`."""
    anchor = "" if at == "start" else at
    return element("text", classes, escape(words), x=x, y=y, text_anchor=anchor)


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
    """The path through some points, each relative to the one before."""
    # Points are rounded before they are subtracted, so that no error adds up.
    at = [(0.0, 0.0), *((float(short(x)), float(short(y))) for x, y in points)]
    steps = (f"{short(x - a)} {short(y - b)}" for (a, b), (x, y) in pairwise(at))
    return f"M{next(steps, '')}l{' '.join(steps).replace(' -', '-')}"


def hook(part: str, name: str) -> str:
    """An element that a script finds by its ``data-p``, and changes; without a name, as it is."""
    return part.replace(" ", f' data-p="{name}" ', 1) if name else part


#: For functions that have an argument of this name.
_hooked = hook


# --- Numbers and words ----------------------------------------------------------------------------


def shown(value: SupportsFloat, digits: int | None = None) -> str:
    """A number as pictures write it: 4, 0.5, −1; with two digits 0.67, but 1."""
    value = float(value)
    if digits is None or value in (0, 1):
        # Adding 0 makes 0 of −0.
        return f"{round(value, 2) + 0:g}".replace("-", "−")
    words = f"{value:.{digits}f}"
    return f"{0:.{digits}f}" if not float(words) else words.replace("-", "−")


def listed(values: Iterable[SupportsFloat], digits: int | None = None) -> str:
    """A vector in words: (2, 0, −1)."""
    return f"({', '.join(shown(value, digits) for value in values)})"


def title(words: str, y: float = 11.0) -> str:
    """What a drawing shows, above it."""
    return text(0, y, words, classes="h")


def word(x: float, y: float, token: str, at: str = "middle", size: str = "") -> str:
    """A token, set as the prose sets it; `size` is small, mid, large or big, from 14 to 40 high."""
    # Its middle is the usual place; the style sheet knows the others.
    return text(x, y, token, classes=f"w {size} {'' if at == 'middle' else at}".strip())


def letter(x: float, y: float, *parts: str | tuple[Any, ...], at: str = "start") -> str:
    """Symbols and signs in a row, as formulas set them.

    Args:
        parts: A text is a sign, such as ``" · "``. A symbol is its letter and its tone, or `None`,
            and what stands above it: ``("W", 3, "Q")`` is W to the power of Q, in violet.
    """
    inside = ""
    for part in parts:
        if isinstance(part, str):
            inside += tag("tspan", escape(part), class_="p-u")
            continue
        name, tone, *above = part
        tone = "" if tone is None else f"p-t{tone}"
        inside += tag("tspan", escape(name), class_=tone)
        if above:
            # What comes after has to go down again.
            inside += tag("tspan", escape(above[0]), class_=tone, dy=-5, font_size="75%")
            inside += tag("tspan", "\u200b", dy=5)
    return element("text", "m", inside, x=x, y=y, text_anchor="" if at == "start" else at)


# --- Tensors --------------------------------------------------------------------------------------


def square(x: float, y: float, w: float, h: float) -> str:
    """The path of a rectangle."""
    return f"M{short(x)} {short(y)}h{short(w)}v{short(h)}h{short(-w)}z"


def _opacity(number: float) -> str:
    return f"{number:.2g}".removeprefix("0")


def cell(
    x: float, y: float, w: float, h: float, tone: int, strength: float, classes: str = ""
) -> str:
    """One cell; `strength` is the opacity of its ground, and ``far`` the class of those behind."""
    d = square(x, y, w, h)
    return element("path", f"k t{tone} {classes}".strip(), d=d, fill_opacity=_opacity(strength))


def hatch(x: float, y: float, w: float, h: float, gap: float = 8.0) -> str:
    """What must not be seen: a frame, and lines from its lower left to its upper right."""
    strokes = square(x, y, w, h)
    for i in range(1, math.ceil((w + h) / gap)):
        low, left = min(i * gap, h), max(i * gap - h, 0.0)
        rise = min(low, w - left)
        strokes += f"M{short(x + left)} {short(y + low)}l{short(rise)} {short(-rise)}"
    return element("path", "x", d=strokes)


def grid(
    x: float,
    y: float,
    rows: Iterable[Iterable[SupportsFloat]],
    tone: int,
    w: float = 24.0,
    h: float = 24.0,
    *,
    step: float | None = None,
    most: float | None = None,
    dim: Sequence[int] = (),
    hidden: Sequence[Sequence[bool]] | None = None,
    digits: int | None = None,
    sign: str = "",
) -> list[str]:
    """A tensor as cells with its numbers; the larger a number, the stronger the ground of its cell.

    Args:
        x, y: Its upper left corner.
        rows: The numbers; a matrix of torch is fine.
        w, h: Size of a cell.
        step: From column to column, if not the width of a cell.
        most: The number with the strongest ground; the largest if not given.
        dim: Rows in the background.
        hidden: Cells that are hatched, as booleans; `sign` stands in them.
        digits: Of numbers that are no integers; with 0 there are no numbers.
    """
    numbers = [[float(value) for value in row] for row in rows]
    most = most or max((abs(value) for row in numbers for value in row), default=0.0) or 1.0
    grounds: defaultdict[tuple[bool, float], str] = defaultdict(str)
    single: defaultdict[str, list[tuple[float, float, str]]] = defaultdict(list)
    found: list[str] = []
    for i, row in enumerate(numbers):
        for j, value in enumerate(row):
            left, top, far = x + j * (step or w), y + i * h, i in dim
            middle = left + w / 2, top + h / 2 + 4
            if hidden is not None and hidden[i][j]:
                found.append(hatch(left + 1, top + 1, w - 2, h - 2))
                found += [text(*middle, sign, classes="n halo")] if sign else []
                continue
            strength = 0.05 + 0.35 * min(abs(value) / most, 1) * (0.4 if far else 1)
            grounds[far, round(strength * 25) / 25] += square(left + 1, top + 1, w - 2, h - 2)
            if digits == 0:
                continue
            words, kind = shown(value, digits), "n" if value and not far else "z"
            if len(words) == 1:
                single[kind].append((*middle, words))
            else:
                found.append(text(*middle, words, classes=kind))
    for (far, strength), d in sorted(grounds.items()):
        kind = f"k t{tone} far" if far else f"k t{tone}"
        found.insert(0, element("path", kind, d=d, fill_opacity=_opacity(strength)))
    for kind, letters in single.items():
        # All numbers of one letter are one element, which has a place for each of its letters.
        xs, ys = (" ".join(map(short, places)) for places in list(zip(*letters, strict=True))[:2])
        found.append(element("text", kind, "".join(one[2] for one in letters), x=xs, y=ys))
    return found


def frame(x: float, y: float, w: float, h: float, tone: int) -> str:
    """A line around what the words are about."""
    return element("rect", f"l t{tone}", x=x, y=y, width=w, height=h, rx=3)


# --- Weights --------------------------------------------------------------------------------------


def _stroke(
    d: str, weight: float, tone: int, full: float, near: bool, hook: str = "", classes: str = ""
) -> str:
    kind = " ".join(filter(None, (f"r t{tone}", classes, "" if near else "far")))
    return element("path", kind, d=d, stroke_width=max(float(weight) * full, 0.7), data_p=hook)


def ribbon(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    weight: float,
    tone: int = 0,
    full: float = 10.0,
    near: bool = True,
    hook: str = "",
) -> str:
    """A weight as a straight line: the larger, the thicker; one is `full` thick."""
    d = f"M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}"
    return _stroke(d, weight, tone, full, near, hook)


def arc(
    x1: float,
    x2: float,
    y: float,
    height: float,
    weight: float,
    tone: int = 0,
    full: float = 10.0,
    near: bool = True,
    hook: str = "",
) -> str:
    """A weight as a line from word to word, above them or, with a negative height, below."""
    up = round(-height)
    d = f"M{x1:.0f} {y:.0f}c0 {up} {x2 - x1:.0f} {up} {x2 - x1:.0f} 0"
    return _stroke(d, weight, tone, full, near, hook, "round")


def loop(
    x: float,
    y: float,
    height: float,
    weight: float,
    tone: int = 0,
    full: float = 10.0,
    near: bool = True,
    hook: str = "",
) -> str:
    """A weight of a word for itself."""
    side = abs(height)
    d = f"M{x:.0f} {y:.0f}c0 {-1.3 * height:.0f} {side:.0f} {-height:.0f} {0.42 * side:.0f} 0"
    return _stroke(d, weight, tone, full, near, hook, "round")


# --- Points, distributions, networks --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plane:
    """Points and vectors in a plane, with one unit for both axes."""

    x: Range
    y: Range
    #: Pixels from one integer to the next.
    unit: float = 24.0
    #: Its upper left corner in the drawing.
    left: float = 24.0
    top: float = 20.0

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place in the drawing of a point of the plane."""
        return self.left + (x - self.x[0]) * self.unit, self.top + (self.y[1] - y) * self.unit

    def axes(self, step: float = 1.0) -> list[str]:
        """A line with its number at each multiple of `step`."""
        (low, high), (bottom, top), found = self.x, self.y, []
        for tick in _multiples(low, high, step):
            (x, y), end = self.at(tick, bottom), self.at(tick, top)
            found += [line(x, y, *end, "g"), text(x, y + LINE, shown(tick), "middle")]
        for tick in _multiples(bottom, top, step):
            (x, y), end = self.at(low, tick), self.at(high, tick)
            found += [line(x, y, *end, "g"), text(x - 6, y + 4, shown(tick), "end")]
        return found

    def point(self, x: float, y: float, tone: int, r: float = 5.0, hook: str = "") -> str:
        """A point."""
        cx, cy = self.at(x, y)
        return element("circle", f"f t{tone}", cx=cx, cy=cy, r=r, data_p=hook)

    def vector(self, x: float, y: float, tone: int, hook: str = "") -> str:
        """An arrow from the origin to a point."""
        return _hooked(arrow(*self.at(0, 0), *self.at(x, y), f"l t{tone} thick"), hook)


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def knot(x: float, y: float, sign: str, tone: int = 4, r: float = 9.0) -> str:
    """An operation on numbers that meet: a circle with its sign, such as × or +."""
    ground = element("circle", "o", cx=x, cy=y, r=r)
    return (
        ground
        + element("circle", f"l t{tone}", cx=x, cy=y, r=r)
        + text(x, y + 4, sign, classes="n")
    )


# --- Plots ----------------------------------------------------------------------------------------


def _heads(title: str, words: str = "") -> list[str]:
    """The lines above a drawing: its title, and the label of an axis."""
    lines = [(line, kind) for line, kind in ((title, "h"), (words, "")) if line]
    return [text(0, (i + 1) * LINE - 3, line, classes=kind) for i, (line, kind) in enumerate(lines)]


@dataclass
class Plot:
    """Axes with a grid, to which lines and points are added; `panel` is the finished drawing."""

    #: The ends of the axes.
    x: Range
    y: Range
    _: KW_ONLY
    title: str = ""
    #: Labels of the axes; that of `y` is above the plot.
    x_label: str = ""
    y_label: str = ""
    #: Whether `y` has a logarithmic scale.
    log: bool = False
    #: Height of the plot without labels.
    height: float = 130.0
    x_ticks: Sequence[float] | None = None
    y_ticks: Sequence[float] | None = None

    def __post_init__(self) -> None:
        y_ticks = self.y_ticks
        if y_ticks is None:
            y_ticks = _powers(self.y) if self.log else _ticks(self.y, 4)
        self._labels: list[tuple[str, str]] = []
        self._parts = _heads(self.title, self.y_label)
        #: The edges of the plot in the drawing.
        self.left = max(len(_shown(tick)) for tick in y_ticks) * LETTER + 8
        self.right = WIDTH - 6
        self.top = len(self._parts) * LINE + (11 if self._parts else 6)
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
        """The place in the drawing of a point of the plot."""
        (left, right), (low, high) = self.x, self.y
        if self.log:
            y, low, high = (math.log10(max(value, self.y[0])) for value in (y, low, high))
        across, up = (x - left) / (right - left), (y - low) / (high - low)
        return self.left + across * (self.right - self.left), self.bottom - up * self.height

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
        """A curve through points; the legend has its label."""
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
        """Add an element, placed with `at`."""
        self._parts.append(part)

    def panel(self) -> Panel:
        """The drawing."""
        legend = _legend(reversed(self._labels), self.right, self.top - 14)
        return Panel(WIDTH, self._end, (*self._parts, *legend))


def _width(words: str) -> float:
    """About how wide words are: a legend shows where narrow and wide letters are counted alike."""
    return sum(LETTER * (0.5 if c in "fijlrt.,' " else 1.5 if c in "mwMW" else 1) for c in words)


def _legend(labels: Iterable[tuple[str, str]], right: float, y: float) -> Iterator[str]:
    """The legend, from right to left: labels, each with a line or a square of its classes."""
    for words, classes in labels:
        yield text(right, y, words, "end")
        right -= _width(words) + 10
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
    """Horizontal bars, with a label on their left and a number on their right.

    Args:
        shown: The values as text; `room` is its width in pixels.
        most: The value of a bar over the whole width.
        hook: The ``data-p`` by which a script finds the bars; the values follow them.
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
    """Round numbers between the ends; `about` is their approximate number."""
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


#: Levels of opacity.
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
    """A panel with one cell for each number of a matrix; those below 0 have the second colour.

    Args:
        rows, columns: Labels, one for each or none; an empty one is left out.
        most: The value of full opacity; the largest if not given.
        cell: Side of a cell; if not given, as large as the width allows, up to 22.
        down, across: What the rows and the columns are.
        frames: Whether cells have a thin border.
    """
    # At least two letters wide: a single W is wider than the average letter.
    left = max(2, *map(len, rows)) * LETTER + 8 if rows else 1
    # A multiple of a tenth of a pixel, as all lengths are written.
    side = cell or math.floor(min(22.0, (width - left - 2) / len(matrix[0])) * 10) / 10
    # A strip of a few rows has room for their labels.
    high = max(side, LINE - 1) if len(matrix) < 5 and any(rows) else side
    words = ", ".join(filter(None, (down and f"↓ {down}", across and f"→ {across}")))
    parts = _heads(title, words)
    above = len(parts) * LINE
    if any(value < 0 for row in matrix for value in row):
        parts += _legend((("below 0", "f t1"), ("above 0", "f t0")), width, above - 3)
    top = above + (LINE if any(columns) else 0) + 4
    for j, label in enumerate(columns):
        parts += [text(left + (j + 0.5) * side, top - 5, label, "middle")] if label else []
    for i, label in enumerate(rows):
        parts += [text(left - 5, top + (i + 0.5) * high + 4, label, "end")] if label else []
    most = most or max(abs(value) for row in matrix for value in row) or 1.0
    # Paths are in units of cells: a stroke as wide as a cell, along the middle of its row.
    scale = f"translate({short(left)} {short(top)})scale({short(side)} {short(high)})"
    paths = [
        element("path", f"c t{tone:d}", d=d, stroke_opacity=f"{level / LEVELS:g}", stroke_width=1)
        for (tone, level), d in sorted(_paths(matrix, most).items())
    ]
    parts.append(element("g", "", *paths, transform=scale))
    m, n = len(matrix), len(matrix[0])
    w, h = n * side, m * high
    if frames:
        parts += [line(x, top, x, top + h, "g") for x in (left + j * side for j in range(1, n))]
        parts += [line(left, y, left + w, y, "g") for y in (top + i * high for i in range(1, m))]
    parts.append(element("rect", "b", x=left, y=top, width=w, height=h))
    return Panel(width, top + h + 3, tuple(parts))


def _paths(matrix: Matrix, most: float) -> dict[tuple[bool, int], str]:
    """The path through the cells of each sign and level; level 0 is not drawn."""
    paths: defaultdict[tuple[bool, int], str] = defaultdict(str)
    for i, row in enumerate(matrix):
        shades = [(value < 0, round(min(abs(value) / most, 1) * LEVELS)) for value in row]
        #: The end of each path in this row, from which a relative move is shorter.
        ends: dict[tuple[bool, int], int] = {}
        for shade, run in groupby(range(len(row)), shades.__getitem__):
            first, *others = run
            move = f"m{first - ends[shade]} 0" if shade in ends else f"M{first} {i}.5"
            ends[shade] = first + 1 + len(others)
            if shade[1]:
                paths[shade] += f"{move}h{1 + len(others)}"
    return paths


#: The classes of cells by their alignment: left, right and centre.
_ALIGNED = {"l": "", "w": "w", "r": "r", "c": "m"}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a header row."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: The summary that opens it below a figure.
    title: str = "The numbers"
    #: A letter for each column: l, r or c, or w for words, on the left and on several lines. By
    #: default the first is left and all others right.
    align: str = ""
    #: Sentences below the table.
    notes: Sequence[str] = ()

    def cells(self) -> str:
        """The HTML inside its element. Raises `ValueError` if a row is not as long as the head."""
        count, align = len(self.head), self.align or "l" + "r" * (len(self.head) - 1)
        if not count or not self.rows:
            raise ValueError("the table is empty; give it a head and a row")
        if len(align) != count or set(align) - set(_ALIGNED):
            letters = f"{count} of the letters l, w, r and c, one for each column"
            raise ValueError(f"`align` ({align!r}) must be {letters}")
        for number, cells in enumerate(self.rows, 1):
            if len(cells) != count:
                raise ValueError(f"row {number} has {len(cells)} cells and the head {count}")

        def row(cells: Sequence[str], scopes: Sequence[str]) -> str:
            looks = zip(map(escape, cells), scopes, map(_ALIGNED.get, align), strict=True)
            made = (tag("th" if a else "td", c, scope=a, class_=b or "") for c, a, b in looks)
            return tag("tr", *made)

        # An empty cell is not the header of its column.
        head = row(self.head, ["col" * bool(cell) for cell in self.head])
        body = (row(cells, ["row"] + [""] * (count - 1)) for cells in self.rows)
        return tag("thead", head) + tag("tbody", *body)

    def below(self) -> str:
        """The HTML of its notes."""
        return "".join(tag("p", escape(note)) for note in self.notes)

    def markdown(self) -> str:
        """Its rows as a table of Markdown, and its notes below it, for the text of a page."""
        align = self.align or "l" + "r" * (len(self.head) - 1)
        rules = [{"r": "--:", "c": ":-:"}.get(letter, ":--") for letter in align]
        cells = [[cell.replace("|", "\\|") for cell in row] for row in (self.head, *self.rows)]
        rows = [f"| {' | '.join(row)} |" for row in (cells[0], rules, *cells[1:])]
        return "\n\n".join(["\n".join(rows), *self.notes])


@dataclass(frozen=True, slots=True)
class Knob:
    """A slider below a figure."""

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float

    def html(self) -> str:
        """The slider, between its label and its value."""
        ends = {"min": self.low, "max": self.high, "step": self.step, "value": self.value}
        numbers = {key: f"{value:g}" for key, value in ends.items()}
        slider = tag("input", type="range", name=self.name, **numbers, autocomplete="off")
        return tag("p", tag("label", escape(self.label), slider), tag("b", shown(self.value)))


@dataclass(frozen=True, slots=True)
class Choice:
    """Tokens below a figure, of which a reader chooses one; its value is the number of the token.

    With `sets`, a mapping for each token from names of sliders to values, it moves these sliders.
    """

    name: str
    label: str
    options: Sequence[str]
    value: int = 0
    sets: Sequence[Mapping[str, float]] = ()

    def html(self) -> str:
        """The tokens, after their label."""
        found = []
        for number, option in enumerate(self.options):
            radio = tag(
                "input",
                type="radio",
                name=self.name,
                value=str(number),
                checked="checked" if number == self.value else "",
                data_sets=json.dumps(self.sets[number]) if self.sets else "",
            )
            found.append(tag("label", radio, escape(option)))
        return tag("fieldset", tag("legend", escape(self.label)), *found)


def grab(part: str, x: str = "", y: str = "", unit: float = 24.0) -> str:
    """An element that a reader drags.

    Dragged to the right, it moves the slider named `x`, and upwards the one named `y`, by one for
    each `unit` of the drawing.
    """
    return tag("g", part, class_="grab", data_x=x, data_y=y, data_unit=unit)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a reader does with a figure: go through its steps, and change what it is drawn from.

    The figure is drawn for the first step and the first values. `name` is that of a function which
    a script in ``docs_src/figures`` adds to `stages`; elements that it changes have the attribute
    ``data-p`` (`hook`). With as many panels as steps, each panel is what its step is about.
    """

    name: str
    #: The sliders and choices.
    knobs: Sequence[Knob | Choice] = ()
    #: The data with which the script draws.
    data: Mapping[str, Any] = field(default_factory=dict)
    #: The text of the script for the first step and the first values.
    says: str = ""
    #: What the steps are called, in a word each; they follow the items of the numbered list beside.
    steps: Sequence[str] = ()

    def above(self) -> str:
        """The buttons of the steps."""
        buttons = (
            tag(
                "button",
                f"<b>{number}</b> {escape(name)}",
                type="button",
                aria_pressed=str(number == 1).lower(),
            )
            for number, name in enumerate(self.steps, 1)
        )
        inside = "".join(buttons)
        return tag("div", inside, class_="steps js", role="group", aria_label="Steps") * bool(
            inside
        )

    def html(self) -> str:
        """The knobs, what it says, and the data."""
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        data = tag("script", data.replace("</", "<\\/"), type="application/json")
        knobs = (knob.html() for knob in self.knobs)
        inside = (*knobs, tag("output", escape(self.says)), data)
        return tag("div", *inside, class_="knobs js", data_stage=self.name)


@dataclass(frozen=True, slots=True)
class Figure:
    """Drawings side by side, with a text alternative, a table of their numbers, and a stage."""

    panels: Sequence[Panel]
    #: What it shows, best with the numbers of the run.
    alt: str
    table: Table | None = None
    stage: Stage | None = None
    #: The script of ``docs_src/live`` with a model, which a button below the figure starts.
    live: str = ""
    #: A sentence below the caption, with numbers of the run.
    says: str = ""

    def picture(self) -> str:
        """The HTML of its drawings and of its stage."""
        drawings, stage = "".join(panel.svg() for panel in self.panels), self.stage
        by_step = stage is not None and len(stage.steps) == len(self.panels) > 1
        drawings = drawings.replace("<svg", '<svg class="at"', 1) if by_step else drawings
        # Links inside an image cannot have the focus, so with links it is a group.
        role, alt = "group" if "<a " in drawings else "img", " ".join(self.alt.split())
        kind = "panels by-step" if by_step else "panels"
        picture = tag("div", drawings, class_=kind, role=role, aria_label=alt)
        picture = stage.above() + picture + stage.html() if stage else picture
        if self.live:
            button = tag("button", "Try it", type="button", data_live=self.live)
            picture += tag("p", button, class_="js")
        return picture

    def below(self) -> str:
        """The HTML of its sentence and of its numbers."""
        says = tag("p", escape(self.says)) if self.says else ""
        if self.table is None:
            return says
        table = tag("div", tag("table", self.table.cells()), class_="table-scroll")
        inside = tag("summary", escape(self.table.title)), table, self.table.below()
        return says + tag("details", *inside)
