r"""
---
title: "Loss curves as SVG"
summary: >
  Training and validation loss of one run or of many, as an SVG picture with a light and
  a dark theme.
---

The training loss is measured on the batches of the updates, with dropout, and is noisy.
The validation loss is measured on held-out text. Where the first falls and the second
rises, the model overfits. The names stand at the ends of the lines, so that no legend
has to be matched by colour.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Line", "curve_svg", "lines_of"]

# The palette of the site, on light and on dark backgrounds. The last six are of lines.
NAMES = ("ground", "text", "muted", "rule", *(f"c{i}" for i in range(6)))
LIGHT = (
    "#ffffff #1b1f24 #57606a #c3cad2 #0550ae #8a4600 #0a5c2c #a0276b #6f3fb5 #0b5c7a"
)
DARK = "#14171c #e3e7ec #a3adb8 #424a53 #7cb7ff #f2b872 #9fdf9f #f59ac8 #c9b1ff #7fd3ee"

# Pixels: the picture, and the rectangle of the lines in it.
WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 566.0, 60.0, 352.0
LETTER = 6.4  # width of a letter of a name
NEAR = 15.0  # names of lines that end closer are moved apart

Number = int | float
Spot = tuple[Number, Number]


@dataclass(frozen=True)
class Line:
    """
    ## A line

    * `name` stands at its end; an empty one is not written
    * `points` are pairs of x and y
    * `colour` is the number of its colour
    * `faint` makes it thinner and paler
    """

    name: str
    points: Sequence[Spot]
    colour: int = 0
    faint: bool = False

    @property
    def paint(self) -> str:
        """The class of its colour."""
        return f"c{self.colour % 6}"


def lines_of(
    result: Mapping[str, Any],
    name: str | None = None,
    *,
    colour: int = 0,
    train: bool = True,
) -> list[Line]:
    """
    ## The lines of a run

    * `result` is the content of its `result.json`
    * `name` is that of the validation line
    * `train` adds the training loss
    """
    curve = result["curve"]
    points = {
        kind: [
            (float(point[0]), float(point[1]))
            for point in curve[kind]
            if point[1] is not None
        ]
        for kind in ("train", "validation")
    }
    lines = [Line(name or "validation", points["validation"], colour)]
    if train:
        lines.insert(0, Line("" if name else "training", points["train"], colour, True))
    return lines


def curve_svg(
    lines: Sequence[Line],
    *,
    title: str = "",
    x: str = "updates",
    y: str = "nats per character",
) -> str:
    """
    ## The picture

    * `title` stands above the lines
    * `x`, `y` are the labels of the axes

    Returns an `<svg>` element. Raises `ValueError` if there is no point.
    """
    plot = _Plot.around(lines)
    drawn = [line for line in lines if line.points]
    parts = [
        *_axes(plot, x, y),
        *(part for line in drawn for part in _drawn(line, plot)),
        *_names(drawn, plot),
    ]
    ends = "; ".join(
        f"{line.name} ends at {line.points[-1][1]:.3f} after {line.points[-1][0]:,.6g}"
        for line in drawn
        if line.name
    )
    shown = escape(title or "Losses")
    w, h = number(WIDTH), number(HEIGHT)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="loss-curve" role="img" '
        f'width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        f"<title>{shown}</title>"
        f"<desc>{escape(y)} over {escape(x)}: {escape(ends)}.</desc>"
        f"<style>{_style()}</style>"
        f'<rect class="ground" width="{w}" height="{h}"/>'
        f'<text class="text head" x="16" y="26">{escape(title)}</text>'
        f"{''.join(parts)}</svg>"
    )


@dataclass(frozen=True)
class _Plot:
    """From values to pixels: the axes reach from `x0` to `x1` and `y0` to `y1`."""

    x0: float
    x1: float
    y0: float
    y1: float

    @classmethod
    def around(cls, lines: Sequence[Line]) -> "_Plot":
        """The range of all lines, with some room above and below."""
        spots = [spot for line in lines for spot in line.points]
        if not spots:
            raise ValueError("there is nothing to draw: no line has a point")
        xs, ys = zip(*spots, strict=True)
        room = (max(ys) - min(ys)) * 0.06 or 0.5
        begin, end = min(0.0, *xs), max(xs)
        corners = begin, max(end, begin + 1e-9), min(ys) - room, max(ys) + room
        return cls(*map(float, corners))

    def at(self, spot: Spot) -> Spot:
        """The pixels of a pair of values."""
        across = (spot[0] - self.x0) / (self.x1 - self.x0)
        up = (spot[1] - self.y0) / (self.y1 - self.y0)
        return LEFT + across * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)


def _marks(low: float, high: float, about: int) -> list[float]:
    # Round numbers between two others: steps of 1, 2 or 5 times a power of ten.
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough * 0.999)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [i * step for i in range(first, last + 1)]


def _axes(plot: _Plot, x: str, y: str) -> Iterator[str]:
    marks = _marks(plot.y0, plot.y1, 6)
    digits = max(len(f"{mark:.4g}".partition(".")[2]) for mark in [*marks, 0])
    for value in marks:
        _, height = plot.at((plot.x0, value))
        yield (
            f'<path class="rule" d="M{number(LEFT)} {number(height)}'
            f'H{number(RIGHT)}"/><text class="muted" x="{number(LEFT - 8)}" '
            f'y="{number(height + 4)}" text-anchor="end">{value:.{digits}f}</text>'
        )
    for value in _marks(plot.x0, plot.x1, 6):
        across, _ = plot.at((value, plot.y0))
        yield (
            f'<path class="axis" d="M{number(across)} {number(BOTTOM)}v5"/>'
            f'<text class="muted" x="{number(across)}" y="{number(BOTTOM + 19)}" '
            f'text-anchor="middle">{value:,.6g}</text>'
        )
    yield f'<path class="axis" d="M{number(LEFT)} {number(BOTTOM)}H{number(RIGHT)}"/>'
    yield (
        f'<text class="muted" x="{number(LEFT - 8)}" y="{number(TOP - 12)}">'
        f"{escape(y)}</text>"
        f'<text class="muted" x="{number(RIGHT)}" y="{number(BOTTOM + 37)}" '
        f'text-anchor="end">{escape(x)}</text>'
    )


def _path(spots: Sequence[Spot], plot: _Plot) -> str:
    pixels = (plot.at(spot) for spot in spots)
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in pixels)


def _drawn(line: Line, plot: _Plot) -> Iterator[str]:
    weight = "thin" if line.faint else "line"
    yield f'<path class="{weight} {line.paint}" d="{_path(line.points, plot)}"/>'
    if line.faint or len(line.points) > 40:
        return
    for spot in line.points:
        across, height = plot.at(spot)
        yield (
            f'<circle class="dot {line.paint}" cx="{number(across)}" '
            f'cy="{number(height)}" r="2.5"><title>'
            f"{escape(line.name)} {spot[1]:.4f} at {spot[0]:,.6g}</title></circle>"
        )


def _names(lines: Sequence[Line], plot: _Plot) -> Iterator[str]:
    """From top to bottom, moved apart where lines end close to each other."""
    named = sorted(
        ((plot.at(line.points[-1])[1], line) for line in lines if line.name),
        key=lambda pair: pair[0],
    )
    heights: list[float] = []
    for height, _ in named:
        heights.append(max(height, heights[-1] + NEAR) if heights else height)
    lowest = BOTTOM
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], lowest)
        lowest = heights[i] - NEAR
    for height, (_, line) in zip(heights, named, strict=True):
        across = max(plot.at(line.points[-1])[0], RIGHT - 60) + 8
        weight = "note" if line.faint else "name"
        longest = int((WIDTH - RIGHT - 16 - 6 * LETTER) / LETTER)
        name = line.name if len(line.name) <= longest else line.name[:longest] + "…"
        yield (
            f'<text class="{weight} {line.paint}" x="{number(across)}" '
            f'y="{number(height + 4)}">{escape(name)} '
            f'<tspan class="value">{line.points[-1][1]:.3f}</tspan></text>'
        )


def number(x: float) -> str:
    """Pixels to a tenth: short, and the same on every machine."""
    return f"{x:.1f}".removesuffix(".0")


def _style() -> str:
    """Colours are variables, and those of the light theme where there are none."""
    light, dark = (
        dict(zip(NAMES, theme.split(), strict=True)) for theme in (LIGHT, DARK)
    )
    day, night = (
        "".join(f"--curve-{name}:{colour};" for name, colour in theme.items())
        for theme in (light, dark)
    )

    def paint(rule: str, what: str, name: str) -> str:
        return f".loss-curve {rule}{{{what}:{light[name]};{what}:var(--curve-{name})}}"

    rules = [
        *(paint(f".{name}", "fill", name) for name in ("ground", "text", "muted")),
        *(
            paint(f".{n}", "stroke", c)
            for n, c in (("rule", "rule"), ("axis", "muted"))
        ),
        *(paint(f":is(.line,.thin).{c}", "stroke", c) for c in NAMES[4:]),
        *(paint(f":is(.dot,.name,.note).{c}", "fill", c) for c in NAMES[4:]),
    ]
    return (
        f".loss-curve{{{day}max-width:100%;height:auto;"
        "font:12px Inter,system-ui,'DejaVu Sans',sans-serif}"
        f"@media (prefers-color-scheme:dark){{.loss-curve{{{night}}}}}{''.join(rules)}"
        ".loss-curve path{fill:none}"
        ".loss-curve .line{stroke-width:2;stroke-linejoin:round}"
        ".loss-curve .thin{stroke-width:1;opacity:.55;stroke-linejoin:round}"
        ".loss-curve :is(.head,.name){font-weight:600}.loss-curve .head{font-size:14px}"
    )
