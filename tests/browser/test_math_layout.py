"""Our formulas have fewer elements than those of MathJax, and every glyph stands where it stood."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pylit.node.process import MODULES, find_node
from pylit.notes.tex import FONT_FOLDER, MathRenderer
from pylit.outputs.assets import math_style_sheet

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
FORMULAS = HERE.parent / "pylit/golden/formulas.txt"
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ width: {width}px; font: 17px/1.6 serif }} {css}
</style>{body}"""
#: Boxes of everything that leaves ink, from the corner of the paragraph around it.
BOXES = r"""() => [...document.querySelectorAll("p")].map((paragraph) => {
  const corner = paragraph.getBoundingClientRect();
  const ink = [...paragraph.querySelectorAll("mjx-c, mjx-line, mjx-utext, mjx-surd")];
  const boxes = ink.filter((mark) => !/^[\u2061-\u2064]$/u.test(mark.textContent)).map((mark) => {
    const box = mark.getBoundingClientRect();
    return [box.left - corner.left, box.top - corner.top, box.width, box.height];
  });
  return [corner.height, boxes];
})"""


def formulas() -> list[tuple[str, bool]]:
    text = FORMULAS.read_text(encoding="utf-8")
    lines = [*text.splitlines(), r"\class{mark}{x}_i \in \mathcal{L}", r"a = b + c = d - e \le f"]
    return [(tex, display) for tex in lines if tex for display in (True, False)]


def page(path: Path, html: list[str], css: str, width: int) -> str:
    body = "".join(f"<p>before <span>{one}</span> after</p>" for one in html)
    path.write_text(PAGE.format(width=width, css=css, body=body), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def both() -> Iterator[list[tuple[list[str], str]]]:
    """HTML and style sheet of all formulas, from MathJax as it is and from us."""
    done = subprocess.run(
        [find_node(), HERE / "mathjax_as_it_is.mjs", MODULES / "@mathjax"],
        input=json.dumps(formulas()),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    theirs = json.loads(done.stdout)
    with closing(MathRenderer(None)) as maths:
        ours = [maths.result(tex, display) for tex, display in formulas()]
    sheet = math_style_sheet(ours)[0]
    yield [(theirs["html"], theirs["css"]), ([one.html for one in ours], sheet)]


def test_fewer_elements(both: list[tuple[list[str], str]]) -> None:
    theirs, ours = (sum(one.count("<mjx-") for one in html) for html, _ in both)
    assert ours < 0.8 * theirs


@pytest.mark.parametrize("width", [1000, 240, 190, 150])
def test_every_glyph_stands_where_it_stood(
    both: list[tuple[list[str], str]], browser: Browser, tmp_path: Path, width: int
) -> None:
    shutil.copytree(FONT_FOLDER, tmp_path / "fonts")
    tab = browser.new_page()
    measured = []
    for number, (html, css) in enumerate(both):
        tab.goto(page(tmp_path / f"{number}.html", html, css, width))
        tab.evaluate("document.fonts.ready")
        measured.append(tab.evaluate(BOXES))
    tab.close()
    for formula, theirs, ours in zip(formulas(), *measured, strict=True):
        assert ours[0] == pytest.approx(theirs[0], abs=0.1), formula
        assert len(ours[1]) == len(theirs[1]), formula
        for one, other in zip(ours[1], theirs[1], strict=True):
            assert one == pytest.approx(other, abs=0.2), formula
