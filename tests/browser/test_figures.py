"""Figures as readers get them: with their knobs, by keyboard, and without scripts."""

import json
import re

import pytest
import torch
from browser_tools import SETTLED, Open

from labml_nn.sampling import Temperature

pytestmark = pytest.mark.browser

SAMPLING = "labml_nn/sampling.html"


def test_a_knob_draws_what_the_module_computes_and_nothing_changes_before(visit: Open):
    """What stages of lessons compute is tested with each lesson; here is one in its page."""
    page = visit(SAMPLING).page
    form = page.locator("[data-stage=temperature]")
    figure, knob = (
        page.locator("figure.fig", has=form),
        page.get_by_label("Temperature", exact=True),
    )
    logits = json.loads(form.locator("script").text_content() or "")["logits"]

    def state() -> list[str]:
        parts = figure.locator(".panels, output, b")
        found = parts.evaluate_all("parts => parts.map(part => part.innerHTML)")
        # The frame around the panel of a step follows the words in sight.
        return [re.sub(r'<svg class="(at)?"', "<svg", text) for text in found]

    before = state()
    knob.focus()
    page.wait_for_function("typeof pylit.stage == 'function'")
    page.evaluate(SETTLED)
    assert state() == before
    for presses in (-8, 12):
        for _ in range(abs(presses)):
            page.keyboard.press("ArrowRight" if presses > 0 else "ArrowLeft")
        tau = 1 + presses / 10
        assert form.locator("b").inner_text() == f"{tau:g}" and state() != before
        scaled = torch.tensor([logits], dtype=torch.float64)
        expected = Temperature(tau).distribution(scaled)[0]
        words = figure.locator("[data-p=bar] + text").all_text_contents()
        shares = [float(text.removesuffix(" %")) / 100 for text in words]
        assert shares[:-1] == pytest.approx(expected[: len(shares) - 1].tolist(), abs=6e-4)
        assert sum(shares) == pytest.approx(1, abs=0.006)
        many = torch.special.entr(expected).sum().exp().item()
        assert f"between {many:.1f} letters" in form.locator("output").inner_text()
        for _ in range(abs(presses)):
            page.keyboard.press("ArrowLeft" if presses > 0 else "ArrowRight")
        assert state() == before


def test_without_scripts_the_drawing_is_there_and_its_knobs_are_not(visit: Open):
    page = visit(SAMPLING, java_script_enabled=False).page
    figure = page.locator("figure.fig").first
    assert figure.locator("svg").first.is_visible()
    assert not figure.locator("input").first.is_visible()
    figure.locator("summary").click()
    assert figure.locator("td").first.is_visible()
