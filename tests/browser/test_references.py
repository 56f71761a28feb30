"""Citations, terms, exercises, and what is built from what, as a reader meets them."""

import pytest
from browser_tools import MHA, Open
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

#: What was to happen in 200 milliseconds has happened: timers of equal delays keep their order.
HAD_TIME = "new Promise(done => setTimeout(done, 200))"
CITATION = 'a[href$="bibliography.html#vaswani2017attention"]'


def test_a_citation_shows_its_work_by_mouse_and_keyboard(visit: Open):
    page = visit(MHA).page
    link = page.locator(CITATION).first
    expect(link).to_have_text("Vaswani et al. 2017")
    link.hover()
    preview = page.locator("#preview")
    expect(preview).to_contain_text("Attention Is All You Need")
    expect(preview).to_contain_text("Ashish Vaswani")
    paper = preview.locator('a[href="https://arxiv.org/abs/1706.03762"]')
    expect(paper).to_have_text("arXiv:1706.03762")
    # The pointer may go to the link in it.
    paper.hover()
    page.evaluate(HAD_TIME)
    expect(preview).to_be_visible()
    page.mouse.move(2, 2)
    expect(preview).to_be_hidden()
    link.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    # It may have gone for a moment between the two keys.
    expect(link).to_have_attribute("aria-describedby", "preview")
    expect(preview).to_be_visible()
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()
    assert link.get_attribute("aria-describedby") is None
    expect(link).to_be_focused()


def test_a_term_says_what_it_means_and_looks_like_text(visit: Open):
    page = visit("labml_nn/transformers/label_smoothing_loss.html").page
    term = page.locator("a.g[href$='#token']").first
    around = term.evaluate("link => getComputedStyle(link.parentElement).color")
    expect(term).to_have_css("color", around)
    expect(term).to_have_css("text-decoration-style", "dotted")
    term.hover()
    expect(page.locator("#preview b")).to_have_text("token")
    expect(page.locator("#preview")).to_contain_text("A unit of text with a number")
    term.click()
    page.wait_for_url("**/glossary.html#token")
    expect(page.locator("dt:has(#token)")).to_be_in_viewport()
