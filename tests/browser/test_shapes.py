"""Shapes at the ends of lines: where they stand, switched off and on, and no part of the code."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_tools import MHA, Visit
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SOURCE = Path(__file__).parents[2] / "labml_nn" / "transformers" / "mha.py"
CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}
FEEDBACK_ATTENTION = "labml_nn/transformers/feedback/index.html"

#: Of each chip: its box, that of the code on its line, and of the block that it is seen in.
BOXES = """chips => chips.map(chip => {
  const pre = chip.closest("pre");
  const range = document.createRange();
  let start = chip;
  while (!start.matches?.(".n")) start = start.previousSibling;
  range.setStartAfter(start);
  range.setEndBefore(chip);
  const code = [...range.getClientRects()];
  const box = chip.querySelector("i").getBoundingClientRect();
  return {
    line: start.id,
    left: box.left, right: box.right, top: box.top, bottom: box.bottom, height: box.height,
    code_right: Math.max(...code.map(one => one.right)),
    code_bottom: Math.max(...code.map(one => one.bottom)),
    code_top: Math.min(...code.map(one => one.top)),
    pre_left: pre.getBoundingClientRect().left, pre_right: pre.getBoundingClientRect().right,
  };
})"""


@pytest.mark.parametrize("url", [MHA, FEEDBACK_ATTENTION])
@pytest.mark.parametrize("width", [1024, 1440, 1920])
def test_beside_the_code_or_below_it_but_never_over_it(
    url: str, width: int, visit: Callable[..., Visit]
):
    window = visit(url, width)
    chips = window.page.locator(".c samp").evaluate_all(BOXES)
    assert len(chips) > 20
    beside = 0
    for chip in chips:
        assert chip["height"] > 10, chip
        assert chip["right"] == pytest.approx(chip["pre_right"] - 24, abs=1), chip
        assert chip["left"] >= chip["pre_left"], chip
        if chip["top"] < chip["code_bottom"] - 6:
            beside += 1
            assert chip["left"] > chip["code_right"] + 4, chip
        else:
            assert chip["top"] < chip["code_bottom"] + 12, chip
    assert beside > len(chips) * (0.2 if width == 1024 else 0.8)


@pytest.mark.parametrize("width", [320, 390])
def test_below_the_code_where_it_is_narrow(width: int, visit: Callable[..., Visit]):
    window = visit(MHA, width)
    for chip in window.page.locator(".c samp").evaluate_all(BOXES):
        assert chip["top"] >= chip["code_bottom"] - 4
        assert chip["top"] <= chip["code_bottom"] + 8
        assert chip["left"] == pytest.approx(chip["pre_left"] + 72, abs=2)


def test_switched_off_and_on_and_remembered(visit: Callable[..., Visit]):
    window = visit(MHA, 390)
    button = window.page.get_by_role("button", name="Shapes")
    chips = window.page.locator(".c samp")
    height = "document.body.scrollHeight"
    expect(button).to_have_attribute("aria-pressed", "true")
    with_shapes = window.page.evaluate(height)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(chips.first).to_be_hidden()
    assert window.page.evaluate(height) < with_shapes
    window.page.reload()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(chips.first).to_be_hidden()
    window.open(FEEDBACK_ATTENTION)
    expect(chips.first).to_be_hidden()
    window.page.keyboard.press("s")
    expect(chips.first).to_be_visible()
    window.open(MHA)
    expect(chips.first).to_be_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_a_selection_is_copied_without_shapes(width: int, visit: Callable[..., Visit]):
    window = visit(MHA, width, **CLIPBOARD)
    lines = """() => {
      const code = [...document.querySelectorAll(".c code")]
        .find(code => code.querySelectorAll("samp").length > 2);
      getSelection().selectAllChildren(code);
      return [...code.querySelectorAll(".n")].map(n => +n.id.slice(1));
    }"""
    numbers = window.page.evaluate(lines)
    window.page.keyboard.press("Control+c")
    copied = window.page.evaluate("navigator.clipboard.readText()")
    source = SOURCE.read_text(encoding="utf-8").split("\n")
    expected = source[numbers[0] - 1 : numbers[-1]]
    assert [line.rstrip() for line in copied.rstrip("\n").split("\n")] == expected


def test_a_selection_of_notes_and_code_is_copied_without_shapes(visit: Callable[..., Visit]):
    """One with formulas goes through a script, which writes them as TeX."""
    window = visit(MHA, **CLIPBOARD)
    window.page.evaluate("getSelection().selectAllChildren(document.querySelector('main'))")
    window.page.keyboard.press("Control+c")
    copied = window.page.evaluate("navigator.clipboard.readText()")
    assert "$" in copied and "self.get_scores(query, key)" in copied
    assert "returns [T, B, C]" not in copied


def test_heard_after_the_line_that_made_them(visit: Callable[..., Visit]):
    window = visit(MHA)
    block = window.page.locator(".c:has(samp)").filter(has_text="self.get_scores(query, key)")
    heard = block.first.aria_snapshot()
    made = re.search(r"scores \[T, [ST], B, H\]", heard)
    assert made and heard.index("get_scores") < made.start()


def test_without_scripts_shapes_are_there_and_cannot_be_switched(visit: Callable[..., Visit]):
    window = visit(MHA, java_script_enabled=False)
    expect(window.page.locator(".c samp i").first).to_be_visible()
    expect(window.page.locator("#shapes-button")).to_be_hidden()
