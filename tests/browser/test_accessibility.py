"""axe finds nothing, in both themes, at five widths, and with everything open."""

from pathlib import Path

import pytest
from browser_tools import HEIGHTS, LESSONS, LOOKS, MHA, Open, each_in_one_look, pages, violations
from sweeps import in_turn, swept

pytestmark = pytest.mark.browser

#: A page of each kind. Those in Chinese have the parts of the English ones; some stand for all.
KINDS = [
    *LESSONS,
    "notation.html",
    "annotate.html",
    "404.html",
    "labml_nn/utils.html",
    "compare/labml_nn.lstm...labml_nn.lstm.gru.html",
    *(f"zh/{url}" for url in ("index.html", "glossary.html", "exercises.html", MHA)),
]


@pytest.mark.parametrize(("url", "theme"), in_turn([MHA, "index.html"], ["light", "dark"]))
def test_axe_at_every_width(url: str, theme: str, visit: Open):
    window = visit(url, 320, theme)
    for width, height in HEIGHTS.items():
        window.page.set_viewport_size({"width": width, "height": height})
        assert violations(window) == [], width


@pytest.mark.parametrize(("url", "width", "theme"), each_in_one_look(KINDS))
def test_axe_with_everything_unfolded(url: str, width: int, theme: str, visit: Open):
    window = visit(url, width, theme)
    window.unfold()
    assert violations(window) == []


@pytest.mark.sweep
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_on_the_whole_of_every_page_with_a_drawing(
    width: int, theme: str, site: Path, visit: Open
):
    window = visit("index.html", width, theme)
    for url in pages(site):
        if 'class="panels"' in (site / url).read_text("utf-8") and not url.startswith("zh/"):
            window.open(url)
            window.unfold()
            assert violations(window, whole=True) == [], url


@pytest.mark.parametrize("theme", swept(["light", "dark"], "dark"))
def test_axe_with_dialogs_and_previews_open(theme: str, visit: Open):
    window = visit(f"{MHA}#L100", 1024, theme)
    page = window.unfold()
    assert violations(window) == []
    for button in ("#menu-button", "#outline-button"):
        page.locator(button).click()
        assert violations(window, button.removesuffix("-button")) == []
    for key, shown, part in (("?", "#help[open]", "#help"), ("/", "#search[open]", "#search")):
        page.keyboard.press("Escape")
        page.keyboard.press(key)
        page.locator(shown).wait_for()
        if key == "/":
            page.locator("#search input").fill("attention")
            page.locator("#results [aria-selected=true]").wait_for()
        assert violations(window, part) == []
    page.keyboard.press("Escape")
    page.locator("td code[role=button]").first.press("Enter")
    page.locator("pre .lit").first.wait_for(state="attached")
    assert violations(window) == []
    page.keyboard.press("Escape")
    page.locator(".c > pre a.x:not(.e)").first.focus()
    page.locator("#preview:popover-open").wait_for()
    assert violations(window, "#preview") == []
