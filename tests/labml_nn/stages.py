"""Plays the stage of a figure without a browser, so that a lesson's test sees what a reader would.

    def computed(step, factor):
        sums = lesson(factor)
        return {"sum": sums, "bar width": 9 * sums, "says": ["times as long"]}

    check_stage(weigh(), computed)

The scripts of the site run in Node.js, on the elements that the figure has drawn. `play` returns
what they show for single settings; a step counts from 0, and may be a fraction.
"""

import json
import random
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from lesson_pages import numbers

from pylit.figures.draw import Choice, Figure, Knob
from pylit.node.process import find_node
from pylit.site.options import THEME

FIGURES = Path(__file__).parents[2] / "docs_src" / "figures"

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
        """The numbers in an attribute of these elements."""
        return numbers(" ".join(element.attributes[attribute] for element in self.elements[name]))


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
    knobs = figure.stage.knobs
    values = {one.name: float(one.value) if isinstance(one, Knob) else one.value for one in knobs}
    return {"step": 0, **values}


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
    _check_first(figure, shown, within)


def _check_first(figure: Figure, shown: Shown, within: float) -> None:
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


def random_settings(figure: Figure, count: int) -> list[dict[str, float]]:
    """The steps in turn, with knobs that are often at an end; no choice that moves sliders."""
    stage, chosen = figure.stage, random.Random(0)
    assert stage is not None

    def turned(knob: Knob | Choice) -> float:
        if isinstance(knob, Choice):
            return chosen.randrange(len(knob.options))
        places = round((knob.high - knob.low) / knob.step)
        place = chosen.choice((0, places, *(chosen.randrange(places + 1) for _ in range(4))))
        return round(float(knob.low + place * knob.step), 9)

    free = [knob for knob in stage.knobs if isinstance(knob, Knob) or not knob.sets]
    steps = max(1, len(stage.steps))
    return [{"step": n % steps, **{knob.name: turned(knob) for knob in free}} for n in range(count)]


def check_stage(
    figure: Figure,
    computed: Callable[..., Mapping[str, Any]],
    *more: Mapping[str, float],
    within: Mapping[str, float] | None = None,
    count: int = 16,
) -> None:
    """Fail unless the script draws at first what the build has drawn, and then what is computed.

    `computed` gets the step and the values of all knobs, for random settings, those that a choice
    makes, and some `more`. It
    returns what is to be seen, under the names of the elements: numbers (tensors, and lists in
    lists) or texts; those of an attribute under ``"name attribute"``; which ones have a class under
    ``"name .class"``; and under ``"says"`` what the sentence has in it. Numbers may be off by half
    of their last digit, or by what `within` says.
    """
    chosen = [one for knob in figure.stage.knobs for one in getattr(knob, "sets", None) or ()]
    settings = [*random_settings(figure, count), *chosen, *more]
    settings = [_first(figure) | dict(one) for one in settings]
    first, *later = play(figure, {}, *settings)
    _check_first(figure, first, 0.06)
    for setting, shown in zip(settings, later, strict=True):
        for name, expected in computed(**setting).items():
            _check_shown(shown, name, list(_leaves(expected)), (within or {}).get(name), setting)


def _check_shown(
    shown: Shown, name: str, expected: list[Any], within: float | None, setting: Mapping[str, float]
) -> None:
    if name == "says":
        assert all(words in shown.said for words in expected), (setting, shown.said, expected)
        return
    element, _, attribute = name.partition(" ")
    if expected and isinstance(expected[0], str):
        assert shown.texts(element) == expected, (setting, name)
        return
    if attribute.startswith("."):
        marked = [attribute[1:] in one.classes for one in shown.elements[element]]
        assert marked == expected, (setting, name)
        return
    found = shown.places(element, attribute) if attribute else shown.numbers(element)
    # Numbers are printed with two decimals, and places with one.
    half = 0.11 if attribute and not attribute.endswith("opacity") else 0.006
    assert found == pytest.approx(expected, abs=within or half), (setting, name)


def _leaves(value: Any) -> Iterable[Any]:
    """The numbers or texts of a value, of lists in lists and of tensors."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str | int | float):
        yield value
        return
    for part in value:
        yield from _leaves(part)
