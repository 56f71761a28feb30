"""What holds for each page of the site: no faults, no strangers, no overflow, and the budgets."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_tools import FEEDBACK, HEIGHTS, MHA, Visit, packed, pages
from playwright.sync_api import Route

from pylit.node.process import MODULES

pytestmark = pytest.mark.browser

# How wide a page is, how many elements it has, which shapes and short formulas are broken (several
# boxes one under the other, for a formula's parts may lie beside each other), and which heads of
# tables are formulas alone: axe finds no word in those.
MEASURES = """() => [
  document.documentElement.scrollWidth,
  document.querySelectorAll("*").length,
  [...document.querySelectorAll(
    ".d p code, .d li code, .d td code, .d mjx-container:not([display])"
  )].filter(part => !part.matches(".l")
    && new Set([...part.getClientRects()].map(box => Math.round(box.top))).size > 1)
    .map(part => part.textContent),
  [...document.querySelectorAll("th")].filter(head => {
    const words = head.cloneNode(true);
    for (const formula of words.querySelectorAll("mjx-container")) formula.remove();
    return head.textContent && !words.textContent.trim();
  }).map(head => head.textContent)
]"""

# A lesson stands whole on its page, from the first reading to the exercises, and may take more
# bytes than other pages. Elman, with cell, layer, network and language model, may have more
# elements, too, and the page of a whole backward pass most. Decision 038 has what they cost.
LESSONS = {
    f"labml_nn/{name}.html"
    for name in (
        "recurrent/elman/index",
        "transformers/feedback/index",
        "transformers/mha",
        "transformers/models",
        "transformers/positional_encoding",
    )
}
BY_HAND = "labml_nn/kernels/feedback_by_hand.html"
LARGEST = {BY_HAND: 6550, "labml_nn/recurrent/elman/index.html": 5700}

# How far content moves while a page loads, as Chromium reports it (cumulative layout shift).
SHIFTS = """new Promise(done => {
  let sum = 0;
  new PerformanceObserver(list => {
    for (const shift of list.getEntries()) sum += shift.value;
  }).observe({ type: "layout-shift", buffered: true });
  document.fonts.ready.then(() => setTimeout(() => done(sum), 100));
})"""


def test_no_page_is_too_wide_or_too_large_and_short_parts_stay_on_one_line(
    site: Path, visit: Callable[..., Visit]
):
    """One walk looks at everything: to open a page takes longer than to look at it."""
    window = visit("index.html")
    wide, large, broken, wordless = {}, {}, {}, {}
    for url in pages(site):
        window.open(url)
        for width in (1440, 320):
            window.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
            across, elements, parts, heads = window.page.evaluate(MEASURES)
            if across > width:
                wide[url, width] = across
            if elements >= LARGEST.get(url, 5000):
                large[url] = elements
            if parts:
                broken[url, width] = parts
            if heads:
                wordless[url] = heads
    assert (wide, large, broken, wordless) == ({}, {}, {}, {})


@pytest.mark.parametrize("url", ["index.html", MHA, FEEDBACK, "notation.html"])
@pytest.mark.parametrize("width", [390, 1440])
def test_hardly_anything_moves_when_fonts_arrive_late(
    url: str, width: int, visit: Callable[..., Visit]
):
    """Late fonts are what a busy machine has by chance, so here every font is late on purpose.

    Text keeps the metrics of its stand-in. A formula's line may move by a pixel, once for each font
    that arrives by itself. Chromium calls a page good up to 0.1; a tenth of that is allowed. On a
    phone a paragraph may break one line sooner, for only the mean of the letters is the same.
    """
    window = visit("404.html", width)

    def late(route: Route) -> None:
        time.sleep(0.2)
        route.continue_()

    window.page.route("**/*.woff2", late)
    window.open(url)
    assert window.page.evaluate(SHIFTS) <= (0.01 if width > 390 else 0.06)


def test_html_is_small(site: Path):
    """A lesson stands whole on its page, with the first reading before the code."""
    sizes = {url: packed((site / url).read_bytes()) for url in pages(site)}
    long = {url for url, size in sizes.items() if size > 25 * 1024}
    assert long <= LESSONS | {BY_HAND}
    assert max(sizes.values()) <= 40 * 1024


def test_style_sheet_and_script_are_small(site: Path):
    parts = [site / "assets" / name for name in ("site.css", "site.js")]
    assert sum(packed(part.read_bytes()) for part in parts) <= 12 * 1024


def test_the_typefaces_are_small(site: Path):
    names = ("serif", "serif-italic", "sans", "mono")
    fonts = [site / "assets" / "fonts" / f"{name}.woff2" for name in names]
    assert sum(font.stat().st_size for font in fonts) <= 75 * 1024


def test_a_first_view_takes_four_requests_before_fonts(site: Path, visit: Callable[..., Visit]):
    window = visit(MHA)
    window.page.wait_for_load_state("networkidle")
    asked = [url.removeprefix(window.server) for url in window.requests]
    before_fonts = [path for path in asked if not path.endswith(".woff2")]
    assert sorted(before_fonts) == sorted(
        [MHA, "assets/site.css", "assets/math.css", "assets/site.js"]
    )
    assert sum(packed((site / path).read_bytes()) for path in before_fonts) <= 110 * 1024


def test_the_validator_finds_no_errors(site: Path, java: str, tmp_path: Path):
    broken = tmp_path / "broken.html"
    broken.write_text("<!doctype html><title>x</title><p id=a><p id=a>", encoding="utf-8")
    jar = MODULES / "vnu-jar" / "build" / "dist" / "vnu.jar"
    command = [java, "-Xss8m", "-jar", str(jar), "--errors-only", "--format", "json"]
    command += ["--exit-zero-always", "--skip-non-html", str(broken), str(site)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    messages = json.loads(run.stderr)["messages"]
    errors = [f"{m['url']}:{m['lastLine']}: {m['message']}" for m in messages]
    # The file that is wrong on purpose shows that the validator looked.
    assert [error for error in errors if "broken.html" not in error] == []
    assert errors
