"""A symbol and its variable light up together: by mouse, by keyboard and by touch."""

import pytest
from browser_tools import MHA, Open
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

LIT = "[...document.querySelectorAll('.lit')].map((e) => e.textContent)"


def lit(page: Page) -> set[str]:
    """What is lit, as it is written."""
    return set(page.evaluate(LIT))


def mark(page: Page, text: str, index: int = 0) -> str:
    """The selector of what belongs to a name of the table."""
    found = page.locator("td code").filter(has_text=text).nth(index)
    classes = (found.get_attribute("class") or "").split()
    return next(f".{name}" for name in classes if name.startswith("y"))


def test_pointing_at_a_symbol_lights_its_variables_and_back(visit: Open):
    page = visit(MHA).unfold()
    query = mark(page, "query", 1)
    symbol = page.locator(f"mjx-container[display] mjx-c{query}").first
    symbol.hover()
    assert lit(page) == {"𝑄", "query"}
    expect(page.locator(f"{query}:not(.lit)")).to_have_count(0)
    expect(page.locator(".lit").locator("visible=true")).not_to_have_count(0)
    page.locator("h1").hover()
    assert lit(page) == set()
    variable = page.locator(f"pre var{query}").first
    variable.hover()
    assert lit(page) == {"𝑄", "query"}
    assert "lit" in str(symbol.get_attribute("class"))


def test_by_keyboard_there_is_one_stop_for_each_name_of_the_table(visit: Open):
    page = visit(MHA).unfold()
    names = page.locator("td code[role=button]")
    assert 10 <= names.count() <= 30
    names.first.focus()
    seen = []
    for _ in range(6):
        seen.append(page.evaluate("document.activeElement.textContent"))
        assert seen[-1] in lit(page)
        page.keyboard.press("Tab")
    assert seen[:5] == ["query", "key", "value", "query", "key"]
    stops = page.locator("var, mjx-c, mjx-math *").evaluate_all(
        "all => all.filter((e) => e.tabIndex >= 0).length"
    )
    assert stops == 0


def test_enter_keeps_the_light_n_and_p_go_through_it_and_escape_puts_it_out(visit: Open):
    page = visit(MHA).unfold()
    name = page.locator("td code[role=button]", has_text="query").nth(1)
    name.focus()
    page.keyboard.press("Enter")
    expect(name).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("n")
    # The next formula that has the symbol.
    assert "Q" in page.evaluate("document.activeElement.dataset.tex")
    expect(page.locator(":focus")).to_be_in_viewport()
    page.locator("h1").hover()
    assert lit(page) == {"𝑄", "query"}
    for _ in range(2):
        page.keyboard.press("p")
    # The name itself, and then the formula of the table's own row.
    assert page.evaluate("document.activeElement.tagName") == "MJX-CONTAINER"
    assert page.evaluate("document.activeElement.dataset.tex") == "Q"
    page.keyboard.press("Escape")
    assert lit(page) == set()
    expect(name).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.dataset.tex") == "Q"


def test_a_tap_lights_and_another_puts_it_out(visit: Open):
    page = visit(MHA, 390, has_touch=True).unfold()
    query = mark(page, "query", 1)
    symbol = page.locator(f"mjx-container[display] mjx-c{query}").first
    symbol.tap()
    assert lit(page) == {"𝑄", "query"}
    symbol.tap()
    assert lit(page) == set()
    variable = page.locator(f"pre var{query}").first
    variable.tap()
    assert "𝑄" in lit(page)
    page.locator("td code[role=button]").nth(1).tap()
    assert lit(page) == {"𝑌", "key"}
    page.locator("h1").tap()
    assert lit(page) == set()
