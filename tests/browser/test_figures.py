"""Figures as readers get them: at any width, in both themes, by keyboard, on paper."""

import json
import math
import re

import pytest
import torch
from browser_tools import SETTLED, Open

from labml_nn.sampling import Temperature
from labml_nn.transformers.positional_encoding import get_positional_encoding

pytestmark = pytest.mark.browser

ENCODING = "labml_nn/transformers/positional_encoding.html"
SAMPLING = "labml_nn/sampling.html"


@pytest.mark.parametrize(("url", "label"), [(SAMPLING, "Temperature")])
def test_the_script_draws_what_the_build_has_drawn(url: str, label: str, visit: Open):
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
    page.evaluate(SETTLED)
    assert state() == before
    page.keyboard.press("ArrowRight")
    turned = state()
    assert turned != before
    page.keyboard.press("ArrowLeft")
    assert state() == before


@pytest.mark.parametrize("presses", [-8, 12])
def test_the_temperature_is_that_of_the_module(presses: int, visit: Open):
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


def test_the_hands_are_those_of_the_module(visit: Open):
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


def test_without_scripts_the_drawing_is_there_and_its_knobs_are_not(visit: Open):
    page = visit(SAMPLING, java_script_enabled=False).page
    figure = page.locator("figure.fig").first
    assert figure.locator("svg").first.is_visible()
    assert not figure.locator("input").first.is_visible()
    figure.locator("summary").click()
    assert figure.locator("td").first.is_visible()
