"""Figures as readers get them: at any width, in both themes, by keyboard, on paper."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from browser_tools import HEIGHTS, Visit, pages
from sweeps import swept

from labml_nn.sampling import Temperature
from labml_nn.transformers.positional_encoding import get_positional_encoding

pytestmark = pytest.mark.browser

ENCODING = "labml_nn/transformers/positional_encoding.html"
SAMPLING = "labml_nn/sampling.html"

#: What stands out of its drawing, letters too small to read, and faint ones.
LOOK = """figures => {
  const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(part => {
    const x = part / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const found = [];
  for (const figure of figures) for (const svg of figure.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    const size = [svg.width.baseVal.value, svg.height.baseVal.value];
    if (Math.abs(box.width / box.height - size[0] / size[1]) > 0.02) found.push("squeezed");
    if (box.width < 100) found.push("tiny");
    for (const text of svg.querySelectorAll("text")) {
      const words = text.textContent, b = text.getBoundingClientRect();
      const { fontSize, fill } = getComputedStyle(text);
      const sized = text.matches(".p-mid, .p-large, .p-big");
      const letters = parseFloat(fontSize) * box.width / size[0];
      const most = sized ? Infinity : text.matches(".p-w, .p-m") ? 18 : 14;
      if (letters < 10.95 || letters > most + 0.05) found.push(`${words}: ${letters} px`);
      // The box of letters is higher than their ink, and between panels there are 24 pixels.
      const over = Math.max(6, letters * 0.4);
      if (b.left < box.left - 8 || b.right > box.right + 8 || b.top < box.top - over
        || b.bottom > box.bottom + over) found.push(`${words} stands out`);
      const [low, high] = [light(fill), ground].sort((a, b) => a - b);
      if ((high + 0.05) / (low + 0.05) < 4.5) found.push(`${words} is faint`);
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def drawn(site: Path) -> list[str]:
    """The pages that have figures."""
    return [url for url in pages(site) if 'class="panels"' in (site / url).read_text("utf-8")]


EDGES = ((320, "dark"), (1440, "light"))
BETWEEN = ((390, "light"), (1024, "light"), (1440, "dark"), (1920, "light"))


@pytest.mark.parametrize("looks", swept([EDGES, BETWEEN], EDGES), ids=["edges", "between"])
def test_every_figure_can_be_read_and_is_named_and_captioned(
    looks: tuple[tuple[int, str], ...], drawn: list[str], visit: Callable[..., Visit]
):
    assert len(drawn) >= 8
    window = visit("index.html")
    for url in drawn:
        window.open(url)
        figures = window.unfold().locator("figure.fig")
        for width, theme in looks:
            window.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
            window.page.emulate_media(color_scheme=theme)
            assert figures.evaluate_all(LOOK) == [], (url, width, theme)
            assert window.page.evaluate("document.documentElement.scrollWidth") <= width, url
        for figure in figures.all():
            image = figure.locator(".panels")
            assert image.count() == 1, url
            name = image.get_attribute("aria-label") or ""
            assert len(name.split()) > 10 or (url.startswith("zh/") and len(name) > 20), name
            assert not re.search(r"\bnan\b|\binf\b|[{}]", name)
            assert figure.locator("figcaption").inner_text().strip(), url


@pytest.mark.parametrize(("url", "label"), [(SAMPLING, "Temperature")])
def test_the_script_draws_what_the_build_has_drawn(
    url: str, label: str, visit: Callable[..., Visit]
):
    """Nothing changes when the script comes; then a knob turns there and back."""
    page = visit(url).page
    figure = page.locator("figure.fig", has=page.locator("[data-stage]"))
    shown = figure.locator(".panels, output, b")

    def state() -> list[str]:
        found = "parts => parts.map(part => part.innerHTML)"
        return [numbers(text) for text in shown.evaluate_all(found)]

    def numbers(text: str) -> str:
        # A path of differences and one of places are the same line; ask for the ends of others.
        # The frame around the panel of a step follows the words in sight.
        text = re.sub(r'<svg class="(at)?"', "<svg", text)
        return re.sub(r' d="M[^"]*"(?= data-p="(sine|cosine)")', "", text)

    before = state()
    page.get_by_label(label, exact=True).focus()
    page.wait_for_function("typeof pylit.stage == 'function'")
    page.wait_for_timeout(50)
    assert state() == before
    page.keyboard.press("ArrowRight")
    turned = state()
    assert turned != before
    page.keyboard.press("ArrowLeft")
    assert state() == before


@pytest.mark.parametrize("presses", [-8, 12])
def test_the_temperature_is_that_of_the_module(presses: int, visit: Callable[..., Visit]):
    page = visit(SAMPLING).page
    form = page.locator("[data-stage=temperature]")
    logits = json.loads(form.locator("script").text_content() or "")["logits"]
    page.get_by_label("Temperature", exact=True).focus()
    page.wait_for_function("typeof pylit.stage == 'function'")
    for _ in range(abs(presses)):
        page.keyboard.press("ArrowRight" if presses > 0 else "ArrowLeft")
    tau = 1 + presses / 10
    assert form.locator("b").inner_text() == f"{tau:g}"
    scaled = torch.tensor([logits], dtype=torch.float64)
    expected = Temperature(tau).distribution(scaled)[0]
    figure = page.locator("figure.fig", has=form)
    words = figure.locator("[data-p=bar] + text").all_text_contents()
    shares = [float(text.removesuffix(" %")) / 100 for text in words]
    assert shares[:-1] == pytest.approx(expected[: len(shares) - 1].tolist(), abs=6e-4)
    assert sum(shares) == pytest.approx(1, abs=0.006)
    many = torch.special.entr(expected).sum().exp().item()
    assert f"between {many:.1f} letters" in form.locator("output").inner_text()


def test_the_hands_are_those_of_the_module(visit: Callable[..., Visit]):
    page = visit(ENCODING).page
    hand, position = 2, 33
    output = page.locator("[data-stage=clocks] output")
    page.get_by_label("Hand", exact=True).focus()
    page.wait_for_function("typeof pylit.stage == 'function'")
    # The drawing answers when its own script has come.
    for value in (3, 4, hand) * 100:
        page.get_by_label("Hand", exact=True).fill(str(value))
        if output.inner_text().startswith(f"Hand {hand} "):
            break
    page.get_by_label("Position", exact=True).fill(str(position))
    table = get_positional_encoding(24, 49, dtype=torch.float64)[:, 0]
    sine, cosine = table[position, 2 * hand : 2 * hand + 2].tolist()
    assert f"At position 33 it shows {sine:.2f} and {cosine:.2f}." in output.inner_text()
    for i, line in enumerate(page.locator("[data-p=hand]").all()):
        angle = math.radians(float((line.get_attribute("transform") or "")[7:-1]))
        shown = (math.sin(angle), math.cos(angle))
        assert shown == pytest.approx(table[position, 2 * i : 2 * i + 2].tolist(), abs=2e-3)


def test_without_scripts_the_drawing_is_there_and_its_knobs_are_not(visit: Callable[..., Visit]):
    page = visit(SAMPLING, java_script_enabled=False).page
    figure = page.locator("figure.fig").first
    assert figure.locator("svg").first.is_visible()
    assert not figure.locator("input").first.is_visible()
    figure.locator("summary").click()
    assert figure.locator("td").first.is_visible()
