"""Curves and bars over axes."""

import math
from collections.abc import Sequence

from pylit.figures.svg import (
    LETTER,
    LINE,
    WIDTH,
    Panel,
    element,
    line,
    polyline,
    short,
    text,
)

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
        heads = [words for words in (title, y_label) if words]
        self.left = max(len(_shown(tick)) for tick in self._y_ticks) * LETTER + 8
        self.top = len(heads) * LINE + 6
        self.right = WIDTH - 6
        self.bottom = self.top + height
        self._height = self.bottom + LINE + (LINE if x_label else 0) + 2
        self._parts: list[str] = []
        self._labels: list[tuple[str, str]] = []
        for i, words in enumerate(heads):
            bold = "h" if words == title else ""
            self._parts.append(text(0, (i + 1) * LINE - 3, words, classes=bold))
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
        self._parts.append(element("path", classes, d=polyline(thinned(points)), **more))
        if label:
            self._labels.append((label, classes))

    def dots(self, xs: Sequence[float], ys: Sequence[float], tone: int = 0) -> None:
        """Points."""
        for x, y in zip(xs, ys, strict=True):
            cx, cy = self.at(x, y)
            self._parts.append(element("circle", f"f t{tone}", cx=cx, cy=cy, r=2.5))

    def bars(self, xs: Sequence[float], ys: Sequence[float], tone: int = 0) -> None:
        """Bars that stand on the lower end of the axis."""
        step = (self.at(xs[1], 0)[0] - self.at(xs[0], 0)[0]) if len(xs) > 1 else 40.0
        parts = []
        for x, y in zip(xs, ys, strict=True):
            middle, top = self.at(x, y)
            half = step * 0.35
            parts.append(
                f"M{short(middle - half)} {short(self.bottom)}V{short(top)}"
                f"h{short(2 * half)}V{short(self.bottom)}z"
            )
        self._parts.append(element("path", f"f t{tone}", d="".join(parts)))

    def note(self, x: float, y: float, words: str, at: str = "start", classes: str = "") -> None:
        """Words at a point of the plot."""
        px, py = self.at(x, y)
        self._parts.append(text(px, py, words, at, classes))

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
    tones: Sequence[int] | None = None,
    most: float | None = None,
    room: float = 64.0,
    hook: str = "",
) -> Panel:
    """Bars that lie one under the other, with a label on their left and a number on their right.

    Args:
        labels, values, shown: Of each bar; `shown` is its value in words.
        title: Above it.
        tones: Of each bar.
        most: The value that takes all the width.
        room: Pixels that the values in words take.
        hook: By which a script finds the bars; the values follow them.
    """
    left = max(map(len, labels)) * LETTER + 8
    scale = (WIDTH - left - room) / (most or max(values) or 1)
    y = LINE + 6 if title else 2.0
    parts = [text(0, LINE - 3, title, classes="h")] if title else []
    rows = zip(labels, values, shown, tones or [0] * len(labels), strict=True)
    hooks: dict[str, str] = {"data_p": hook} if hook else {}
    for i, (label, value, words, tone) in enumerate(rows):
        top = y + i * 18
        parts.append(text(left - 6, top + 11, label, "end"))
        parts.append(
            element(
                "rect", f"f t{tone}", x=left, y=top + 1, width=value * scale, height=13, **hooks
            )
        )
        parts.append(text(left + value * scale + 5, top + 11, words))
    return Panel(WIDTH, y + len(labels) * 18 + 2, tuple(parts))


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Fewer points whose line is nowhere further from the others than a fifth of a pixel.

    Between two points that are kept, the one that is farthest from their line is kept too, if it is
    that far away. (To compare each point with its neighbours is not enough: along a smooth curve of
    many points each lies between its neighbours, and the curve would become a straight line.)
    """
    kept = {0, len(points) - 1}
    open_ = [(0, len(points) - 1)]
    while open_:
        first, last = open_.pop()
        between = range(first + 1, last)
        off = [_distance(points[i], points[first], points[last]) for i in between]
        if off and max(off) > 0.2:
            middle = between[off.index(max(off))]
            kept.add(middle)
            open_ += [(first, middle), (middle, last)]
    return [points[i] for i in sorted(kept) if 0 <= i < len(points)]


def _distance(
    point: tuple[float, float], start: tuple[float, float], end: tuple[float, float]
) -> float:
    """How far a point is from the straight line between two others."""
    (x, y), (x0, y0), (x1, y1) = point, start, end
    across, up = x1 - x0, y1 - y0
    length = across**2 + up**2
    part = ((x - x0) * across + (y - y0) * up) / length if length else 0.0
    part = min(max(part, 0.0), 1.0)
    return math.hypot(x - x0 - part * across, y - y0 - part * up)


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
    return f"{value:,.3f}".rstrip("0").rstrip(".").replace("-", "−").replace("−0", "−0")
