"""A symbol and its variable light up together: by mouse, by keyboard and by touch."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_tools import FEEDBACK, MHA, Visit, pages
from playwright.sync_api import Page, expect
from test_accessibility import violations

pytestmark = pytest.mark.browser

LIT = "[...document.querySelectorAll('.lit')].map((e) => e.textContent)"
#: How many classes of marks there are in formulas, in code and in tables.
MARKS = r"""() => ['mjx-math [class]', 'pre [class]', 'td code'].map((where) => new Set(
  [...document.querySelectorAll(where)].flatMap((e) => e.className.match(/\by\d+/g) ?? [])
).size)"""


def lit(page: Page) -> set[str]:
    """What is lit, as it is written."""
    return set(page.evaluate(LIT))


def mark(page: Page, text: str, where: str = "td code") -> str:
    """The selector of what belongs to a name of the table."""
    found = page.locator(where).filter(has_text=text).first
    classes = (found.get_attribute("class") or "").split()
    return next(f".{name}" for name in classes if name.startswith("y"))


def test_pointing_at_a_symbol_lights_its_variables_and_back(visit: Callable[..., Visit]):
    page = visit(MHA).page
    query = mark(page, "queries")
    symbol = page.locator(f"mjx-container[display] mjx-c{query}").first
    symbol.hover()
    assert lit(page) == {"𝑄", "query", "queries"}
    expect(page.locator(f"{query}:not(.lit)")).to_have_count(0)
    expect(page.locator(".lit").locator("visible=true")).not_to_have_count(0)
    page.locator("h1").hover()
    assert lit(page) == set()
    variable = page.locator(f"pre var{query}").first
    variable.hover()
    assert lit(page) == {"𝑄", "query", "queries"}
    assert "lit" in str(symbol.get_attribute("class"))


def test_an_index_is_part_of_what_one_points_at(visit: Callable[..., Visit]):
    page = visit(FEEDBACK).page
    outputs = mark(page, "outputs")
    index = page.locator(f"mjx-msubsup:has(> {outputs}) > mjx-script mjx-c").first
    index.hover()
    assert {"𝑥", "outputs"} <= lit(page)


def test_a_name_means_what_it_means_in_its_function(visit: Callable[..., Visit]):
    page = visit(MHA).page
    functions = """(names) => names.map((name) => {
      const lines = [...document.querySelectorAll('.lit')].map((e) => e.closest('.s')?.id);
      return lines.includes(`MultiHeadAttention.${name}`);
    })"""
    asked = ["attend", "attend_to", "_answer", "forward", "get_scores"]
    page.locator(f"pre var{mark(page, 'queries')}").first.hover()
    assert page.evaluate(functions, asked) == [True, False, True, False, False]
    page.locator("td code[role]").first.hover()
    assert page.evaluate(functions, asked) == [False, True, False, True, False]


def test_by_keyboard_there_is_one_stop_for_each_name_of_the_table(visit: Callable[..., Visit]):
    page = visit(MHA).page
    names = page.locator("td code[role=button]")
    assert 10 <= names.count() <= 30
    names.first.focus()
    seen = []
    for _ in range(6):
        seen.append(page.evaluate("document.activeElement.textContent"))
        assert seen[-1] in lit(page)
        page.keyboard.press("Tab")
    assert seen[:5] == ["query", "key", "value", "query", "queries"]
    stops = (
        "[...document.querySelectorAll('var, mjx-c, mjx-math *')].filter((e) => e.tabIndex >= 0)"
    )
    assert page.evaluate(f"{stops}.length") == 0


def test_enter_keeps_the_light_n_and_p_go_through_it_and_escape_puts_it_out(
    visit: Callable[..., Visit],
):
    window = visit(MHA)
    page = window.page
    name = page.locator("td code[role=button]", has_text="queries")
    at = "document.activeElement.tagName + ' ' + document.activeElement.textContent.slice(0, 7)"
    name.focus()
    page.keyboard.press("Enter")
    expect(name).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("n")
    assert page.evaluate(at) == "VAR query"
    expect(page.locator(":focus")).to_be_in_viewport()
    page.locator("h1").hover()
    assert lit(page) == {"𝑄", "query", "queries"}
    for _ in range(3):
        page.keyboard.press("p")
    # The name itself, the one before it, and then the formula of the table's own row.
    assert page.evaluate("document.activeElement.tagName") == "MJX-CONTAINER"
    assert page.evaluate("document.activeElement.dataset.tex") == "Q"
    assert violations(window) == []
    page.keyboard.press("Escape")
    assert lit(page) == set()
    expect(name).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.dataset.tex") == "Q"


def test_the_way_from_place_to_place_begins_where_one_clicked(visit: Callable[..., Visit]):
    page = visit(MHA).page
    last = page.locator(f"pre var{mark(page, 'queries')}").last
    last.click()
    assert len(lit(page)) > 1
    page.keyboard.press("p")
    page.keyboard.press("n")
    assert last.evaluate("element => element === document.activeElement")
    page.keyboard.press("Escape")
    page.mouse.move(3, 3)
    assert lit(page) == set()


def test_a_tap_lights_and_another_puts_it_out(visit: Callable[..., Visit]):
    page = visit(MHA, 390, has_touch=True).page
    query = mark(page, "queries")
    symbol = page.locator(f"mjx-container[display] mjx-c{query}").first
    symbol.tap()
    assert lit(page) == {"𝑄", "query", "queries"}
    symbol.tap()
    assert lit(page) == set()
    variable = page.locator(f"pre var{query}").first
    variable.tap()
    assert "𝑄" in lit(page)
    page.locator("td code[role=button]").nth(1).tap()
    assert lit(page) == {"𝑋", "key"}
    page.locator("h1").tap()
    assert lit(page) == set()


def test_links_still_lead_where_they_led(visit: Callable[..., Visit]):
    page = visit(MHA).page
    link = page.locator("pre a[class*=' y']").first
    address = link.get_attribute("href")
    link.hover()
    assert link.inner_text() in lit(page)
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith(str(address).split("/")[-1]))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1440])
def test_axe_finds_nothing_while_it_is_lit(width: int, theme: str, visit: Callable[..., Visit]):
    window = visit(MHA, width, theme)
    names = window.page.locator("td code[role=button]")
    for index in range(0, names.count(), 4):
        names.nth(index).focus()
        window.page.keyboard.press("Enter")
        window.page.keyboard.press("n")
        assert violations(window) == []


def test_the_light_is_seen_in_both_themes(visit: Callable[..., Visit]):
    grounds = []
    for theme in ("light", "dark"):
        page = visit(MHA, 1440, theme).page
        page.locator("td code[role=button]").nth(3).focus()
        background = "(e) => getComputedStyle(e).backgroundColor"
        grounds.append({page.locator(".lit").nth(i).evaluate(background) for i in range(5)})
    assert grounds == [{"rgb(211, 228, 250)"}, {"rgb(37, 60, 87)"}]


def test_copied_code_and_formulas_are_what_they_were(visit: Callable[..., Visit]):
    page = visit(MHA, permissions=["clipboard-read", "clipboard-write"]).page
    page.locator("td code[role=button]").nth(3).focus()
    page.keyboard.press("Enter")
    formula = page.locator(".d mjx-container[display]").first
    formula.evaluate("(e) => getSelection().selectAllChildren(e.closest('.d'))")
    page.keyboard.press("Control+c")
    text = " ".join(page.evaluate("navigator.clipboard.readText()").split())
    tex = " ".join(str(formula.get_attribute("data-tex")).split())
    assert f"$${tex}$$" in text and "\\class" not in text


def test_every_table_lights_what_it_says(site: Path, visit: Callable[..., Visit]):
    """On each page with a table: its symbols stand in formulas, and its names in tables."""
    window = visit(MHA)
    tables = 0
    for url in pages(site):
        if not re.search(r"<th[^>]*>Symbol</th>", (site / url).read_text(encoding="utf-8")):
            continue
        window.open(url)
        formulas, _, names = window.page.evaluate(MARKS)
        tables += formulas > 0
        assert names <= formulas, url
    assert tables > 20


def test_without_scripts_a_table_is_a_table(visit: Callable[..., Visit]):
    page = visit(MHA, java_script_enabled=False).page
    expect(page.locator("td code[role]")).to_have_count(0)
    expect(page.get_by_role("cell", name="query of attend", exact=False).first).to_be_visible()
