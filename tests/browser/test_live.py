"""Models that run in pages: opened by a button, shown, and answered in sentences."""

from collections.abc import Callable

import pytest
from browser_tools import MHA, Visit, each_in_one_look
from test_accessibility import violations

from docs_src.lessons import URLS

pytestmark = pytest.mark.browser

#: Pages of lessons, which have a panel and a replay.
LESSONS = [*URLS.values()]
PAGES = [*LESSONS, "memory.html"]
READY = "document.querySelector('.live')?.dataset.ready"


def opened(visit: Callable[..., Visit], url: str, width: int, theme: str) -> Visit:
    window = visit(url, width, theme)
    assert not [url for url in window.requests if "/live/" in url]
    window.page.locator("[data-live]").press("Enter")
    window.page.wait_for_function(READY, timeout=60_000)
    return window


@pytest.mark.parametrize(("url", "width", "theme"), each_in_one_look(PAGES))
def test_panel(url: str, width: int, theme: str, visit: Callable[..., Visit]):
    """It opens by keyboard, shows its observations, fits, and axe finds nothing."""
    window = opened(visit, url, width, theme)
    page = window.page
    assert page.evaluate("document.activeElement.id") == "live"
    shows = page.locator(".live .observations button")
    assert shows.count() == 3
    for show in shows.all():
        before = page.evaluate(READY)
        show.press("Enter")
        page.wait_for_function(f"{READY} != {before}", timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert violations(window, ".live") == []


def test_wrong_text_gets_a_sentence(visit: Callable[..., Visit]):
    page = opened(visit, MHA, 1440, "light").page
    for text, said in (("", "empty"), ("a9", "“9”"), ("a" * 70, "70 characters")):
        page.locator(".live textarea").fill(text)
        assert said in page.locator(".live .fault").inner_text()


def test_it_writes_the_same_text_again(visit: Callable[..., Visit]):
    page = opened(visit, MHA, 1440, "light").page
    written = []
    for _ in range(2):
        page.get_by_role("button", name="Write on").click()
        page.wait_for_function(
            "document.querySelector('.written').value.length > 30 && "
            "[...document.querySelectorAll('.writer button')].at(-1).textContent === 'Write on'"
        )
        written.append(page.locator(".written").inner_text())
        page.evaluate("document.querySelector('.written').value = ''")
    assert written[0] == written[1]


def test_from_a_disk(visit: Callable[..., Visit], site):
    opened(visit, (site / MHA).as_uri(), 1440, "light")


def test_a_model_that_does_not_load_gets_a_sentence(visit: Callable[..., Visit]):
    window = visit(MHA)
    window.page.route("**/live/panel.js", lambda route: route.abort())
    window.page.locator("[data-live]").click()
    assert "did not load" in window.page.get_by_role("alert").inner_text()
    window.faults = [fault for fault in window.faults if "Failed to load" not in fault]
