"""The letters of a drawing: short numbers, texts, paths, and the panel that holds them.

Everything is measured in pixels at the size at which a figure is drawn first. A panel is 288 wide,
because that is what a page 320 wide has room for; where there is more, panels stand side by side
and may grow a little. Colours are classes, which the style sheet fills in for both themes; in a
page each of them begins with ``p-``.

    t0 t1 t2 t3 t4      tones            l f c       a line, a filled shape, dashes as cells
    thin thick d        kinds of lines   g b h       grid, border, and the head of a drawing
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

#: Width of a panel that fits everywhere.
WIDTH = 288.0
#: How much a panel may grow where there is room.
GROWTH = 1.25
#: Height of a line of text, and the width of a letter in it.
LINE, LETTER = 14.0, 6.0
#: How many tones there are: class ``t0`` and so on, in `css/58-figures.css`.
TONES = 5

_CLASSES = re.compile(r' class="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a figure: its size, and its elements."""

    width: float
    height: float
    parts: tuple[str, ...]

    def svg(self) -> str:
        """The element."""
        w, h = short(self.width), short(self.height)
        size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        grows = f"flex:1 1 {w}px;max-width:{self.width * GROWTH:.0f}px"
        # The page has short names of classes as well, and others mean something else by them.
        inside = _CLASSES.sub(_prefixed, "".join(self.parts))
        return f'<svg {size} style="{grows}">{inside}</svg>'


def _prefixed(match: re.Match[str]) -> str:
    names = " ".join(f"p-{name}" for name in match[1].split())
    return f' class="{names}"'


def short(number: float) -> str:
    """A length to a tenth of a pixel: short, and the same on every machine."""
    text = f"{_tenths(number) / 10:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


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


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    """A straight line."""
    d = f"M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}"
    return element("path", classes, d=d)


def arrow(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    """A straight line with a head at its end."""
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    x, y = 4 * (x2 - x1) / length, 4 * (y2 - y1) / length
    d = f"M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}"
    for side in (1, -1):
        d += f"M{short(x2)} {short(y2)}l{short(-x - side * y)} {short(-y + side * x)}"
    return element("path", classes, d=d)


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """The path through some points. What is written of one is its distance to the one before."""
    written: list[str] = []
    x, y = 0, 0
    for point in points:
        # In tenths of a pixel, so that no error adds up.
        to = _tenths(point[0]), _tenths(point[1])
        if not written:
            written.append(f"M{short(to[0] / 10)} {short(to[1] / 10)}l")
        else:
            dx, dy = short((to[0] - x) / 10), short((to[1] - y) / 10)
            space = "" if dx.startswith("-") or written[-1].endswith("l") else " "
            written.append(f"{space}{dx}{dy if dy.startswith('-') else ' ' + dy}")
        x, y = to
    return "".join(written)


def crossing(labels: Sequence[str], x: float, y: float, step: float) -> list[str]:
    """Labels side by side, each in the middle of a cell `step` wide."""
    return [
        text(x + (i + 0.5) * step, y, label, "middle") for i, label in enumerate(labels) if label
    ]
