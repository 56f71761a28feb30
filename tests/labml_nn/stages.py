"""Plays the stage of a figure without a browser, so that a lesson's test sees what a reader would.

    from stages import play

    first, third = play(explore(), {}, {"step": 2, "q0": 1.5})
    assert first.said.startswith("Query")
    assert third.numbers("share") == pytest.approx(weights, abs=5e-4)

`play` runs the scripts of the site in Node.js, on the elements that the figure has drawn. What a
setting leaves out is as the build has drawn it; a step counts from 0, and may be a fraction.
"""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pylit.figures.draw import Figure, Knob
from pylit.node.process import find_node
from pylit.site.options import THEME

FIGURES = Path(__file__).parents[2] / "docs_src" / "figures"
NUMBER = re.compile(r"[−-]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

#: The frame and the scripts of figures, with as much of a browser as they need.
PROGRAM = r"""
const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
const { scripts, name, data, elements, settings } = asked;
const mapped = (all, make) =>
  Object.fromEntries(Object.entries(all).map(([key, some]) => [key, some.map(make)]));
globalThis.window = globalThis;
window.pylit = { _: (text, ...values) => text.replace(/\{(\d)}/g, (found, n) => values[n]) };
globalThis.matchMedia = () => ({ matches: true });
globalThis.document = { documentElement: { lang: "en" } };
const stages = new Function(`"use strict";\n${scripts}\nreturn stages;`)();
const element = ({ text, attributes }) => {
  const classes = new Set((attributes.class ?? "").split(" "));
  return {
    textContent: text,
    attributes: { ...attributes },
    getAttribute(key) { return this.attributes[key] ?? null },
    setAttribute(key, value) { this.attributes[key] = `${value}` },
    removeAttribute(key) { delete this.attributes[key] },
    toggleAttribute(key, on) { on ? (this.attributes[key] = "") : delete this.attributes[key] },
    classList: {
      add: (one) => classes.add(one),
      remove: (one) => classes.delete(one),
      contains: (one) => classes.has(one),
      toggle: (one, on = !classes.has(one)) => (on ? classes.add(one) : classes.delete(one)),
    },
    get classes() { return [...classes].filter(Boolean) },
  };
};
const played = settings.map(({ step, ...values }) => {
  const made = mapped(elements, element);
  const said = stages[name](data, values, (key) => made[key] ?? [], step);
  const shown = ({ textContent, attributes, classes }) =>
    ({ text: `${textContent}`, attributes, classes });
  return { said, elements: mapped(made, shown) };
});
console.log(JSON.stringify(played));
"""


@dataclass
class Element:
    """An element that a script changes: its text, attributes and classes."""

    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)


@dataclass
class Shown:
    """What the script has drawn for one setting, and what it says."""

    said: str
    elements: Mapping[str, list[Element]]

    def texts(self, name: str) -> list[str]:
        """The texts of the elements whose ``data-p`` is `name`."""
        return [element.text for element in self.elements[name]]

    def numbers(self, name: str) -> list[float]:
        """The numbers in these texts, in order."""
        return numbers(" ".join(self.texts(name)))

    def places(self, name: str, attribute: str) -> list[float]:
        """An attribute of these elements, as numbers."""
        return [float(element.attributes[attribute]) for element in self.elements[name]]


def numbers(text: str) -> list[float]:
    """The numbers in a text; a minus sign may be a real one."""
    return [float(found.replace("−", "-")) for found in NUMBER.findall(text)]


class _Drawn(HTMLParser):
    """The elements of a figure that have a ``data-p``."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: defaultdict[str, list[Element]] = defaultdict(list)
        self._open: list[Element | None] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        self._open.append(self._last)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        self._last = None
        if name := attributes.get("data-p"):
            self._last = Element("", attributes, attributes.get("class", "").split())
            self.found[name].append(self._last)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in filter(None, self._open):
            element.text += data


def _first(figure: Figure) -> dict[str, float]:
    assert figure.stage is not None
    values = {knob.name: float(knob.value) for knob in figure.stage.knobs}
    return {"step": 0.0, **values}


def play(figure: Figure, *settings: Mapping[str, float], folder: Path = FIGURES) -> list[Shown]:
    """What the figure's script draws for each of some settings: a step, and values of knobs."""
    stage = figure.stage
    assert stage is not None
    frame = [*sorted((THEME / "js" / "figures").glob("*.js")), *sorted(folder.glob("*.js"))]
    drawn = _Drawn("".join(panel.svg() for panel in figure.panels)).found
    known = _first(figure)
    for setting in settings:
        assert setting.keys() <= known.keys(), setting
    asked = {
        "scripts": "\n".join(path.read_text("utf-8") for path in frame),
        "name": stage.name,
        "data": stage.data,
        "elements": {
            name: [{"text": one.text, "attributes": one.attributes} for one in all_]
            for name, all_ in drawn.items()
        },
        "settings": [known | dict(setting) for setting in settings],
    }
    done = subprocess.run(
        [find_node(), "-e", PROGRAM],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        Shown(one["said"], {k: [Element(**e) for e in v] for k, v in one["elements"].items()})
        for one in json.loads(done.stdout)
    ]


def check_first(figure: Figure, within: float = 0.06, folder: Path = FIGURES) -> None:
    """Fail unless the script draws at first what the build has drawn, and says the same."""
    (shown,) = play(figure, {}, folder=folder)
    assert figure.stage is not None
    assert shown.said == figure.stage.says
    drawn = _Drawn("".join(panel.svg() for panel in figure.panels)).found
    for name, elements in drawn.items():
        for before, after in zip(elements, shown.elements[name], strict=True):
            assert after.text == before.text, name
            assert set(after.classes) == set(before.classes), name
            # What comes at later steps may be pale; a drawing shows it all.
            after.attributes.pop("opacity", None)
            for key, value in after.attributes.items():
                expected = numbers(before.attributes.get(key, ""))
                assert numbers(value) == pytest.approx(expected, abs=within), (name, key)


def sliders(figure: Figure) -> list[Knob]:
    """The sliders of a figure, for random settings."""
    assert figure.stage is not None
    return [knob for knob in figure.stage.knobs if isinstance(knob, Knob)]
