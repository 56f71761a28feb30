"""Shapes at the ends of lines: where they stand, switched off and on, and no part of the code."""

import re

import pytest
from browser_tools import FEEDBACK, HEIGHTS, MHA, Open, box
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

#: The chips that lie over the code of their line, or stand out of their block.
ASTRAY = """chips => chips.filter(chip => {
  if (!chip.checkVisibility()) return false;
  const range = document.createRange();
  let start = chip;
  while (!start.matches?.(".n")) start = start.previousSibling;
  range.setStartAfter(start);
  range.setEndBefore(chip);
  const box = chip.querySelector("i").getBoundingClientRect();
  const over = [...range.getClientRects()].some(code =>
    code.right > box.left && code.bottom > box.top + 6 && code.top < box.bottom - 6);
  return over || box.left < chip.closest("pre").getBoundingClientRect().left;
}).map(chip => chip.textContent)"""


@pytest.mark.parametrize("url", [MHA, FEEDBACK])
def test_beside_the_code_or_below_it_but_never_over_it(url: str, visit: Open):
    page = visit(url).page
    chips = page.locator(".c samp")
    assert chips.count() > 20
    for width in (320, 1024, 1440, 1920):
        page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        assert chips.evaluate_all(ASTRAY) == [], width


def test_a_phone_collects_those_of_arguments_below_the_signature(visit: Open):
    page = visit(MHA, 390).page
    block = page.locator(".c", has_text="def attend(")
    shown = [chip for chip in block.locator("samp").all() if chip.is_visible()]
    assert len(shown) > 2 and any("key" in chip.inner_text() for chip in shown)
    end = box(block.locator(".n").last)["y"]
    assert all(box(chip)["y"] > end - 4 for chip in shown)
    wide = visit(MHA, 1440).page.locator(".c", has_text="def attend(")
    assert not any(chip.is_visible() for chip in wide.locator("samp.all").all())


def test_switched_off_and_on_and_remembered(visit: Open):
    window = visit(MHA, 390)
    # The narrowest bar has no room for it; the key is there.
    button = window.page.locator("#shapes-button")
    chips = window.page.locator(".c samp:not(.of, .all)")
    height = "document.body.scrollHeight"
    expect(button).to_have_attribute("aria-pressed", "true")
    with_shapes = window.page.evaluate(height)
    window.page.keyboard.press("s")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(chips.first).to_be_hidden()
    assert window.page.evaluate(height) < with_shapes
    window.page.reload()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(chips.first).to_be_hidden()
    window.open(FEEDBACK)
    expect(chips.first).to_be_hidden()
    window.page.keyboard.press("s")
    expect(chips.first).to_be_visible()
    window.open(MHA)
    expect(chips.first).to_be_visible()


def test_heard_after_the_line_that_made_them(visit: Open):
    window = visit(MHA)
    block = window.page.locator(".c:has(samp)").filter(has_text="self.get_scores(query, key)")
    heard = block.first.aria_snapshot()
    made = re.search(r"scores \[T, [ST], B, H\]", heard)
    assert made and heard.index("get_scores") < made.start()
