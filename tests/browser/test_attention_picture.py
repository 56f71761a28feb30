"""Pictures of attention as Chromium draws them: in both themes, on any page, at any width."""

import pytest
import torch
from playwright.sync_api import Browser

from labml_nn.attention_maps import AttentionMap, picture

pytestmark = pytest.mark.browser

WORDS = ("The", "nurse", "told", "Juliet", " that", "she", "was\n", "late", ".")
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 28)"

#: Colours of ground, text and ink as computed, the boxes of all texts, and what stands out.
LOOK = """() => {
  const svg = document.querySelector('svg.attention-map');
  const fill = name => [...svg.querySelectorAll('.' + name)].map(e => getComputedStyle(e).fill);
  const box = svg.getBoundingClientRect();
  const outside = [...svg.querySelectorAll('text')].filter(e => {
    const b = e.getBoundingClientRect();
    return b.left < box.left - 1 || b.right > box.right + 1 ||
      b.top < box.top - 1 || b.bottom > box.bottom + 1;
  });
  return {
    ground: fill('ground')[0], texts: [...new Set([...fill('text'), ...fill('muted')])],
    ink: fill('paint')[0], outside: outside.map(e => e.textContent),
    wide: document.documentElement.scrollWidth - innerWidth,
    box: [box.width, box.height], natural: [svg.width.baseVal.value, svg.height.baseVal.value],
  };
}"""


def drawn(heads=2, size=9):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(size, size, 1, heads, generator=generator).softmax(1)
    labels = (WORDS,) if size == len(WORDS) else None
    return AttentionMap("", weights, title="encoder layer 1, self", queries=labels, keys=labels)


def look(browser: Browser, html: str, width: int = 1440, theme: str = "light"):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    page = context.new_page()
    page.set_content(html)
    seen = page.evaluate(LOOK)
    context.close()
    return seen


def numbers(colour: str) -> list[float]:
    return [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [part / 255 for part in numbers(colour)]
        red, green, blue = (
            x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "ground"), [("light", LIGHT), ("dark", DARK)])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize(("heads", "size"), [(1, 9), (4, 9), (8, 19), (1, 90)])
def test_readable_and_inside_its_box(browser, theme, ground, width, heads, size):
    html = f"<!doctype html><body>{picture(drawn(heads, size))}"
    seen = look(browser, html, width, theme)
    assert seen["ground"] == ground
    assert len(seen["texts"]) == 2
    assert all(contrast(colour, ground) >= 4.5 for colour in seen["texts"])
    assert contrast(seen["ink"], ground) >= 4.5
    assert seen["outside"] == []
    assert seen["wide"] <= 0
    (width, height), (natural_width, natural_height) = seen["box"], seen["natural"]
    assert abs(width / height - natural_width / natural_height) < 0.01


CHOSEN = [
    ('<html data-theme="{}">', "light", "dark"),
    ('<html theme="{}">', None, "dark"),
    ('<body data-jp-theme-light="{}">', "true", "false"),
    ('<body class="vscode-{}">', "light", "dark"),
]


@pytest.mark.parametrize(("mark", "light", "dark"), CHOSEN)
def test_a_theme_that_the_page_has_chosen_comes_first(browser, mark, light, dark):
    for value, system, ground in ((light, "dark", LIGHT), (dark, "light", DARK)):
        if value is not None:
            html = f"<!doctype html>{mark.format(value)}{picture(drawn())}"
            seen = look(browser, html, theme=system)
            assert seen["ground"] == ground
            assert all(contrast(colour, ground) >= 4.5 for colour in seen["texts"])


def test_on_a_page_of_the_site(visit):
    """Switching the theme of the page switches the picture, and nothing else is touched."""
    window = visit("labml_nn/transformers/mha.html", theme="light")
    page = window.page
    styles = "e => JSON.stringify([...document.querySelectorAll('main *')].slice(0, 300)"
    styles += ".map(e => [getComputedStyle(e).color, getComputedStyle(e).font]))"
    before = page.evaluate(styles)
    page.evaluate(
        "svg => document.querySelector('main').insertAdjacentHTML('beforeend', svg)",
        picture(drawn()),
    )
    assert page.evaluate(styles) == before
    grounds = []
    for theme in ("light", "dark"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        grounds.append(page.evaluate(LOOK)["ground"])
    assert grounds == [LIGHT, DARK]
    assert page.evaluate(LOOK)["wide"] <= 0


def test_what_a_screen_reader_hears(browser):
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f"<!doctype html>{picture(drawn())}")
    image = page.get_by_role("img", name="Attention: encoder layer 1, self", exact=True)
    assert image.count() == 1
    page.close()
    context.close()
