"""What a function of ``docs_src/figures`` returns, and how it looks in a page."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pylit.figures.svg import Panel
from pylit.figures.table import Table


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
        for drawing in drawings:
            _check(drawing)
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


def _check(drawing: str) -> None:
    """What is not well-formed would swallow the rest of its page."""
    try:
        ET.fromstring(drawing)
    except ET.ParseError as error:
        message = str(error).partition(":")[0]
        raise ValueError(f"the drawing is no SVG: {message}") from None


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
