"""axe finds nothing, in both themes, at five widths, and with everything open."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from browser_tools import HEIGHTS, LESSONS, MHA, Visit, pages, violations
from sweeps import in_turn, swept

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("url", "theme"), in_turn([MHA, "index.html"], ["light", "dark"]))
def test_axe_at_every_width(url: str, theme: str, visit: Callable[..., Visit]):
    window = visit(url, 320, theme)
    for width, height in HEIGHTS.items():
        window.page.set_viewport_size({"width": width, "height": height})
        window.page.wait_for_timeout(50)
        assert violations(window) == [], f"{url} at {width} px, {theme}"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_axe_on_pages_of_every_kind_with_everything_unfolded(
    every: bool, site: Path, visit: Callable[..., Visit]
):
    """The lessons, or every page with a drawing."""
    window = visit("index.html")
    # A page in Chinese has the parts of the English one; some of them stand for all.
    own = [url for url in pages(site) if not url.startswith("zh/")]
    drawn = [url for url in own if 'class="panels"' in (site / url).read_text("utf-8")]
    drawn = drawn if every else [*LESSONS]
    drawn += ["zh/index.html", "zh/glossary.html", "zh/exercises.html", f"zh/{MHA}", f"zh/{MHA}"]
    looks = cycle([(320, "dark"), (1440, "light")])
    # What pages have in common is seen in both looks.
    compared = [url for url in pages(site) if url.startswith("compare/")] * 2
    urls = ("notation.html", "annotate.html", "404.html", *drawn, *sorted(compared))
    for url, (width, theme) in zip(urls, looks, strict=False):
        window.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        window.page.emulate_media(color_scheme=theme)
        window.open(url)
        window.unfold()
        window.page.wait_for_timeout(50)
        assert violations(window) == [], f"{url} at {width} px, {theme}"


@pytest.mark.parametrize("theme", swept(["light", "dark"], "dark"))
def test_axe_with_dialogs_and_previews_open(theme: str, visit: Callable[..., Visit]):
    window = visit(f"{MHA}#L100", 1024, theme)
    page = window.page
    assert violations(window) == []
    for button in ("#menu-button", "#outline-button"):
        page.locator(button).click()
        assert violations(window) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()
    assert violations(window) == []
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.locator("#search input").fill("attention")
    page.locator("#results [aria-selected=true]").wait_for()
    assert violations(window) == []
    page.keyboard.press("Escape")
    window.unfold()
    page.locator("td code[role=button]").nth(1).press("Enter")
    page.locator("pre .lit").first.wait_for(state="attached")
    assert violations(window) == []
    page.keyboard.press("Escape")
    page.locator(".c > pre a.x:not(.e)").first.focus()
    page.locator("#preview:popover-open").wait_for()
    assert violations(window) == []
