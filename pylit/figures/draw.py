"""What authors of figures import: ``from pylit.figures.draw import Figure, Plot``."""

from pylit.figures.figure import Demo, Figure, Knob
from pylit.figures.heat import heat_map
from pylit.figures.plot import Plot, bar_list
from pylit.figures.svg import (
    LETTER,
    LINE,
    WIDTH,
    Panel,
    arrow,
    box,
    element,
    line,
    polyline,
    short,
    text,
)
from pylit.figures.table import Table

__all__ = [
    "LETTER",
    "LINE",
    "WIDTH",
    "Demo",
    "Figure",
    "Knob",
    "Panel",
    "Plot",
    "Table",
    "arrow",
    "bar_list",
    "box",
    "element",
    "heat_map",
    "line",
    "polyline",
    "short",
    "text",
]
