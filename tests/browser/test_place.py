"""Where a reader is: the menu, the pages beside this one, what was read, and the home page."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from browser_tools import MHA, SETTLED, Open, box
from playwright.sync_api import Page, Route, expect

pytestmark = pytest.mark.browser

POSITIONS = "labml_nn/transformers/positional_encoding.html"
#: Addresses of what was read, with the parts as bits, their number, and where to go on.
KEPT = "JSON.parse(localStorage[`pylit-parts ${pylit.site.pathname}`] ?? '{}')"
#: Nothing may be kept, as in a browser that refuses cookies.
REFUSED = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("refused", "SecurityError") }
})"""


def scroll_to(page: Page, selector: str, part: float) -> None:
    """Bring the top of an element to a part of the height of the window."""
    page.locator(selector).first.evaluate(
        """(element, part) => scrollBy({ behavior: "instant",
          top: element.getBoundingClientRect().top - part * innerHeight })""",
        part,
    )
    page.evaluate(SETTLED)


def read(page: Page) -> dict[str, list[object]]:
    page.evaluate(SETTLED)
    found: dict[str, list[object]] = page.evaluate(KEPT)
    return found


@pytest.mark.parametrize("width", [320, 1440])
def test_every_page_has_a_menu_of_the_lessons_without_scripts(width: int, visit: Open):
    window = visit(MHA, width, java_script_enabled=False)
    page = window.page
    for url in (MHA, "notation.html", "zh/index.html"):
        window.open(url)
        menu = page.locator("#menu")
        expect(menu).to_be_hidden()
        page.locator("#menu-button").click()
        expect(menu.locator("ol a")).to_have_count(13)
        expect(menu.locator("ol a").first).to_be_visible()
        # Where the bar has no room for its destinations, they stand here.
        ends = page.locator(".bar .ends a" if width == 1440 else "#menu .ends a")
        expect(ends).to_have_count(3)
        expect(ends.first).to_be_visible()
    window.open(MHA)
    expect(page.locator("#menu [aria-current=page]")).to_have_attribute("href", "mha.html")


def test_a_lesson_says_which_it_is_and_leads_on_at_its_top_and_its_end(visit: Open):
    window = visit(MHA)
    page = window.page
    seen = [MHA]
    for number in range(1, 6):
        expect(page.locator(".count")).to_have_text(f"{number} of 5")
        page.wait_for_load_state()
        ways = [
            [link.get_attribute("href") for link in page.locator(f"{where} [rel={to}]").all()]
            for to in ("prev", "next")
            for where in (".place", ".turn")
        ]
        assert ways[0] == ways[1] and ways[2] == ways[3]
        assert [len(way) for way in ways] == [number > 1] * 2 + [number < 5] * 2
        if number < 5:
            page.locator(".place [rel=next]").click()
            seen.append(page.url.removeprefix(window.server))
    assert seen[1] == POSITIONS and len(set(seen)) == 5


def test_the_parts_of_a_lesson_are_links_at_its_head(visit: Open):
    page = visit(MHA).page
    parts = page.locator("nav.kicker a")
    expect(parts).to_have_count(3)
    for part in parts.all():
        part.click()
        expect(page.locator(str(part.get_attribute("href")))).to_be_in_viewport()


def test_a_part_is_read_when_its_end_comes_into_sight_and_a_link_past_it_does_not_count(
    visit: Open,
):
    window = visit(f"{MHA}#line-by-line")
    page = window.page
    assert read(page) == {}
    window.open(MHA)
    page.locator("nav.kicker a").nth(1).click()
    assert read(page) == {}
    scroll_to(page, "h1", 0.5)
    scroll_to(page, ".border", 0.8)
    assert read(page) == {MHA: [1, 3, "#line-by-line"]}
    # In Chinese it is the same page.
    window.open("zh/index.html")
    expect(page.locator(".cards .read")).to_have_count(1)
    window.open("index.html")
    expect(page.locator(".cards .read")).to_have_text("1 of 3 read")
    start = page.locator("#start")
    expect(start).to_have_text("Go on: Multi-head attention")
    expect(start).to_have_attribute("href", f"{window.server}{MHA}#line-by-line")
    # Whatever else is read, the page that was left last is the one to go on with.
    window.open("glossary.html")
    scroll_to(page, ".share", 0.8)
    assert [*read(page)] == [MHA]
    window.open(MHA)
    for end in ("#symbols", ".share"):
        scroll_to(page, end, 0.8)
    assert read(page) == {MHA: [7, 3, ""]}
    page.locator("#menu-button").click()
    expect(page.locator("#menu .read")).to_have_text("finished")
    window.open("index.html")
    expect(start).to_have_text("Go on: Positional encoding")
    page.locator("#menu-button").click()
    page.locator("#forget").click()
    assert read(page) == {}
    expect(page.locator(".read")).to_have_count(0)
    expect(start).to_contain_text("Start: Multi-head attention")


def test_progress_is_kept_on_a_disk_and_not_missed_where_it_is_refused(site: Path, visit: Open):
    window = visit((site / "notation.html").as_uri())
    page = window.page
    window.open((site / MHA).as_uri())
    scroll_to(page, ".border", 0.8)
    assert read(page) == {MHA: [1, 3, "#line-by-line"]}
    window = visit("404.html")
    window.page.add_init_script(REFUSED)
    window.open(MHA)
    scroll_to(window.page, ".border", 0.8)
    window.page.locator("#menu-button").click()
    expect(window.page.locator("#menu ol a").first).to_be_visible()
    window.open("index.html")
    expect(window.page.locator("#start")).to_contain_text("Start:")


def test_the_home_page_is_an_excerpt_and_not_a_list(visit: Open):
    window = visit("index.html", 390)
    page = window.page
    assert page.locator("main a[href]:not(.self)").count() <= 45
    expect(page.locator(".demo pre code")).to_have_count(5)
    expect(page.locator(".demo pre .at")).to_contain_text("attn = self.softmax(scores)")
    # What a phone shows stands below each other.
    cards = page.locator(".cards li").all()
    assert len(cards) == 13 and len({box(card)["x"] for card in cards}) == 1
    page.get_by_role("link", name="Step through this run").click()
    # The panel is a script, which a busy machine loads late.
    expect(page.locator("#replay")).to_be_visible(timeout=30_000)
    line = page.locator("#replay .line.ran").first
    expect(line).to_contain_text("attn = self.softmax(scores)")


def test_where_the_repository_is_known_an_error_is_reported_in_its_very_section(visit: Open):
    """This checkout has no address, so the link of the footer is put in on the way."""
    window = visit("404.html")
    link = '<a id="report" href="https://example.org/issues/new?title=x">Report</a>'

    def known(route: Route) -> None:
        html = route.fetch().text().replace("<footer", f"{link}<footer", 1)
        route.fulfill(body=html, content_type="text/html; charset=utf-8")

    window.page.route(f"**/{MHA}", known)
    window.open(MHA)
    report = window.page.locator("#cost").get_by_role("link", name="Report a mistake")
    address = parse_qs(urlsplit(str(report.get_attribute("href"))).query)
    assert address == {"title": ["x"], "body": [f"{window.server}{MHA}#cost"]}
