"""Finding a thing by its name, and looking at it without going there, both by keyboard."""

from collections.abc import Callable

import pytest
from browser_tools import MHA, Visit
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def search(page: Page, text: str) -> list[str]:
    """The titles of what is found."""
    page.keyboard.press("/")
    page.locator("#search input").fill(text)
    expect(page.locator("#search [role=status]")).to_contain_text("result")
    return page.locator("#results b").all_inner_texts()


def test_feedback_attention_is_found_by_keyboard(visit: Callable[..., Visit]):
    page = visit("index.html").page
    assert not page.evaluate("'MiniSearch' in window")
    page.keyboard.press("/")
    page.keyboard.type("FeedbackAttention")
    chosen = page.locator("#results [aria-selected=true]")
    expect(chosen.locator("b")).to_have_text("FeedbackAttention")
    active = page.locator("#search input").get_attribute("aria-activedescendant")
    assert chosen.get_attribute("id") == active
    page.keyboard.press("ArrowDown")
    expect(chosen.locator("b")).not_to_have_text("FeedbackAttention", use_inner_text=True)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**#FeedbackAttention")
    expect(page.locator("[id='FeedbackAttention']")).to_be_in_viewport()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("feedback attention", "FeedbackAttention"),
        ("feedbackattention", "FeedbackAttention"),
        ("FeedbckAttention", "FeedbackAttention"),
        ("multi head attention", "MultiHeadAttention"),
        ("subsequent_mask", "subsequent_mask"),
    ],
)
def test_words_and_slips_of_the_finger(text: str, expected: str, visit: Callable[..., Visit]):
    assert search(visit("index.html").page, text)[0] == expected


def test_the_dialog_closes_with_escape_and_gives_the_focus_back(visit: Callable[..., Visit]):
    page = visit(MHA).page
    page.locator("#search-button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_be_hidden()
    assert page.evaluate("document.activeElement.id") == "search-button"


def test_a_preview_opens_with_tab_and_closes_with_escape(visit: Callable[..., Visit]):
    page = visit(MHA).page
    link = page.locator("pre a.x:not(.e)", has_text="check_heads").first
    # The element before the link in the order of Tab, so that Tab itself moves the focus.
    link.evaluate("element => { element.focus(); }")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    preview = page.locator("#preview")
    expect(preview).to_be_visible()
    expect(preview).to_contain_text("def check_heads(")
    expect(link).to_have_attribute("aria-describedby", "preview")
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()
    assert link.get_attribute("aria-describedby") is None
    assert link.evaluate("element => element === document.activeElement")


def test_a_preview_stays_inside_a_narrow_window(visit: Callable[..., Visit]):
    page = visit(MHA, 320).page
    page.locator("pre a.x:not(.e)").last.focus()
    expect(page.locator("#preview")).to_be_visible()
    box = page.locator("#preview").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
