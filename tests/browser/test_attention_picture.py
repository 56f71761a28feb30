"""Pictures of attention as Chromium draws them: in both themes, at any width."""

import pytest
import torch
from playwright.sync_api import Browser

from labml_nn.attention_maps import AttentionMap, picture

pytestmark = pytest.mark.browser

WORDS = ("The", "nurse", "told", "Juliet", " that", "she", "was\n", "late", ".")
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(18, 18, 18)"

#: Colours as computed, and the texts that stand out of the picture.
LOOK = """() => {
  const svg = document.querySelector('svg.attention-map');
  const fill = name => getComputedStyle(svg.querySelector(name)).fill;
  const box = svg.getBoundingClientRect();
  const outside = [...svg.querySelectorAll('text')].filter(e => {
    const b = e.getBoundingClientRect();
    return b.left < box.left - 1 || b.right > box.right + 1 ||
      b.top < box.top - 1 || b.bottom > box.bottom + 1;
  });
  return {
    ground: fill('.ground'), text: fill('text'), outside: outside.map(e => e.textContent),
    wide: document.documentElement.scrollWidth - innerWidth,
  };
}"""


def drawn(heads=2, size=9):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(size, size, 1, heads, generator=generator).softmax(1)
    labels = (WORDS,) if size == len(WORDS) else None
    return picture(AttentionMap("", weights, title="layer 2, self", queries=labels, keys=labels))


@pytest.mark.parametrize(("theme", "ground"), [("light", LIGHT), ("dark", DARK)])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize(("heads", "size"), [(1, 9), (4, 9), (1, 90)])
def test_readable_and_inside_its_box(browser: Browser, theme, ground, width, heads, size):
    page = browser.new_page(viewport={"width": width, "height": 800})
    head = f'<!doctype html><html style="color-scheme: {theme}"><body>'
    page.set_content(head + drawn(heads, size))
    seen = page.evaluate(LOOK)
    image = page.get_by_role("img", name="Attention: layer 2, self", exact=True)
    assert image.count() == 1
    page.close()
    assert seen["ground"] == ground
    assert seen["text"] == ("rgb(0, 0, 0)" if theme == "light" else "rgb(255, 255, 255)")
    assert seen["outside"] == [] and seen["wide"] <= 0


def test_on_a_page_of_the_site(visit):
    """Switching the theme of the page switches the picture, and nothing else is touched."""
    page = visit("labml_nn/transformers/mha.html", theme="light").page
    styles = "e => JSON.stringify([...document.querySelectorAll('main *')].slice(0, 300)"
    styles += ".map(e => [getComputedStyle(e).color, getComputedStyle(e).font]))"
    before = page.evaluate(styles)
    insert = "svg => document.querySelector('main').insertAdjacentHTML('beforeend', svg)"
    page.evaluate(insert, drawn())
    assert page.evaluate(styles) == before
    for theme, ground in (("light", LIGHT), ("dark", DARK)):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        assert page.evaluate(LOOK)["ground"] == ground
    assert page.evaluate(LOOK)["wide"] <= 0
