"""Other languages: what scripts say can be in them, and the pages in Chinese."""

import re

import pytest
from browser_tools import MHA, Open, bracketed, outside
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_all_that_a_page_says_by_script_can_be_translated(visit: Open):
    page = bracketed(visit, MHA).page
    expect(page.locator("#theme-button")).to_have_attribute("title", "⟦Theme: as the system⟧")
    tools = ".by, .self, .import button, [tabindex][role=group], td code[role=button]"
    assert page.locator(tools).count() > 50
    assert outside(page, tools, "pre, td code, .table-scroll *") == set()
    page.keyboard.press("/")
    page.keyboard.type("attention")
    expect(page.locator("#search [role=status]")).to_have_text(re.compile(r"⟦\d+ results⟧"))
    kinds = {kind.split("⟧")[0] for kind in page.locator("#results i").all_inner_texts()}
    assert kinds <= {"⟦page", "⟦code", "⟦section", "⟦note", "⟦glossary"}


def test_all_that_a_replay_says_can_be_translated(visit: Open):
    page = bracketed(visit, MHA).page
    page.locator(".replay-start").click()
    # A replay brings its own texts, and names of functions and tensors are code.
    others = (
        "#replay-title, .runs, .stops, .about, .note, .line, .tensor h3, .tensor output b, "
        "figcaption, caption, .token"
    )
    page.get_by_role("button", name="⟦Every line⟧").click()
    for _ in range(12):
        assert outside(page, "#replay", others) <= {"forward"}
        page.locator("#replay .next").click()


def test_all_that_a_stage_says_can_be_translated(visit: Open):
    page = bracketed(visit, "labml_nn/transformers/positional_encoding.html").page
    form = page.locator("[data-stage]").first
    form.locator("input").first.focus()
    expect(form.locator("output")).to_contain_text("⟦Hand ")
    assert outside(page, "[data-stage] output") == set()


def test_the_link_to_the_other_language_keeps_the_place(visit: Open):
    place = "#attention-of-all-heads"
    window = visit("404.html")
    page = window.page
    for url, other in ((MHA, f"zh/{MHA}"), (f"zh/{MHA}", MHA)):
        window.open(url)
        page.evaluate(f"document.querySelector('{place}').scrollIntoView()")
        current = page.locator("#outline [aria-current]")
        expect(current).to_have_attribute("href", place)
        # Playwright's own click would scroll the page.
        page.evaluate("document.querySelector('.bar a[hreflang]').click()")
        page.wait_for_url(f"{window.server}{other}{place}")


def test_the_style_sheet_says_which_links_lead_out_of_chinese(visit: Open):
    page = visit(f"zh/{MHA}").page
    said = page.evaluate(
        """[...document.querySelectorAll(":is(main, .foot) a[href*='.html']:not([lang], pre a)")]
        .filter(a => a.origin === location.origin)
        .map(a => [a.pathname.startsWith("/zh/"),
                   getComputedStyle(a, "::after").content.includes("英文")])"""
    )
    assert len(said) > 50 and any(out for _, out in said)
    assert all(within != out for within, out in said)
