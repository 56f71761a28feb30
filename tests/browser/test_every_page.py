"""What holds for each page of the site: no faults, no strangers, no overflow, and the budgets."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from browser_tools import FEEDBACK, HEIGHTS, MHA, Open, each_in_one_look, english, packed, pages
from playwright.sync_api import Route
from sweeps import swept

from docs_src.lessons import URLS
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
  )].filter(part => !part.matches(".l, pre > code")
    && new Set([...part.getClientRects()].map(box => Math.round(box.top))).size > 1)
    .map(part => part.textContent),
  [...document.querySelectorAll("th")].filter(head => {
    const words = head.cloneNode(true);
    for (const formula of words.querySelectorAll("mjx-container")) formula.remove();
    return head.textContent && !words.textContent.trim();
  }).map(head => head.textContent)
]"""

#: Of each figure its name, its caption, what stands out of its drawing, letters that are too small
#: to read, and faint ones.
FIGURES = """figures => {
  const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(part => {
    const x = part / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const faults = svg => {
    const box = svg.getBoundingClientRect(), found = [];
    const size = [svg.width.baseVal.value, svg.height.baseVal.value];
    if (Math.abs(box.width / box.height - size[0] / size[1]) > 0.02) found.push("squeezed");
    if (box.width < 100) found.push("tiny");
    for (const text of svg.querySelectorAll("text")) {
      const words = text.textContent, b = text.getBoundingClientRect();
      const { fontSize, fill } = getComputedStyle(text);
      const sized = text.matches(".p-mid, .p-large, .p-big");
      const letters = parseFloat(fontSize) * box.width / size[0];
      const most = sized ? Infinity : text.matches(".p-w, .p-m") ? 18 : 14;
      // A Chinese character has too many strokes for less than 12 pixels, if there is room.
      const least = /[\\u4e00-\\u9fff]/.test(words) && innerWidth > 320 ? 11.95 : 10.95;
      if (letters < least || letters > most + 0.05) found.push(`${words}: ${letters} px`);
      // The box of letters is higher than their ink, and between panels there are 24 pixels.
      const over = Math.max(6, letters * 0.4);
      if (b.left < box.left - 8 || b.right > box.right + 8 || b.top < box.top - over
        || b.bottom > box.bottom + over) found.push(`${words} stands out`);
      const [low, high] = [light(fill), ground].sort((a, b) => a - b);
      if ((high + 0.05) / (low + 0.05) < 4.5) found.push(`${words} is faint`);
    }
    return found;
  };
  return figures.map(figure => [
    [...figure.querySelectorAll(".panels")].map(each => each.ariaLabel).join("{}"),
    figure.querySelector("figcaption").innerText.trim(),
    [...figure.querySelectorAll("svg")].flatMap(faults),
  ]);
}"""

# A lesson stands whole on its page, from an illustrated first reading to the exercises, and may
# take more bytes and elements than other pages. The page of a whole backward pass is as large as
# a page without a lesson may be, 24.9 KB, and gets some bytes to grow.
LESSONS = set(URLS.values())
# Its 85 cells are the whole model: 23.8 KB in English, and 26.8 in Chinese.
NOTEBOOK = "notebooks/feedback.html"
# As long as a lesson, with its figures.
GPT = "labml_nn/transformers/autoregressive.html"
POSITIONS = "labml_nn/transformers/positional_encoding.html"
BY_HAND = "labml_nn/kernels/feedback_by_hand.html"
# Code of whole files that are not ours, with our notes.
FOREIGN = {f"torch/nn/{name}.html" for name in ("modules/activation", "modules/transformer")}

# Where each part that a reader sees first begins, in pixels from the top, once it is painted.
TOPS = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
  window.seen ??= [...document.querySelectorAll("main :is(h1, h2, p, li, pre, table, button)")]
    .filter(part => part.checkVisibility() && part.getBoundingClientRect().top < innerHeight);
  done(seen.map(part => part.getBoundingClientRect().top));
})))"""


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(
    "look",
    # Every page on a phone; those in Chinese, which have the figures of the others, at a desk, too.
    swept(
        [*((w, t, "") for w in HEIGHTS for t in ("dark", "light")), (1440, "light", "zh/")],
        (320, "dark", ""),
        (1440, "light", "zh/"),
    ),
)
def test_no_page_is_too_wide_or_too_large_and_its_figures_can_be_read(
    look: tuple[int, str, str], part: int, site: Path, visit: Open
):
    """One walk looks at everything: to open a page takes longer than to look at it."""
    width, theme, within = look
    window = visit("404.html", width, theme)
    for url in [url for url in pages(site) if url.startswith(within)][part::4]:
        window.open(url)
        across, elements, broken, wordless = window.unfold().evaluate(MEASURES)
        assert across <= width, url
        assert elements < (7000 if english(url) in LESSONS else 5000), url
        assert (broken, wordless) == ([], []), url
        for name, caption, faults in window.page.locator("figure.fig").evaluate_all(FIGURES):
            assert faults == [], (url, name)
            assert len(name.split()) > 10 or (url.startswith("zh/") and len(name) > 20), (url, name)
            assert not re.search(r"\bnan\b|\binf\b|[{}]", name), (url, name)
            assert caption, (url, name)


@pytest.mark.parametrize(
    ("url", "width", "theme"),
    each_in_one_look(["index.html", MHA, POSITIONS, FEEDBACK, f"zh/{MHA}", "notation.html"]),
)
def test_hardly_anything_moves_when_script_and_fonts_arrive_late(
    url: str, width: int, theme: str, visit: Open
):
    """A busy machine has them late by chance; here they are late on purpose, one by one.

    What a script adds has its place before. Text keeps the metrics of its stand-in, so a formula's
    line may move by a pixel, once for each font. On a phone, and beside a picture, a paragraph may
    break one line sooner or later, for only the mean of the letters is the same.
    """
    window = visit("404.html", width, theme)
    late: dict[str, list[Route]] = {".js": [], ".woff2": []}
    come: set[str] = set()

    def hold(request: Route) -> None:
        suffix = Path(request.request.url).suffix
        if suffix in come:
            request.continue_()
        else:
            late[suffix].append(request)

    window.page.route("**/*.{js,woff2}", hold)
    window.page.goto(window.server + url, wait_until="commit")
    window.page.wait_for_function("document.readyState == 'interactive'")
    tops = [window.page.evaluate(TOPS)]
    for suffix, arrived in (
        (".js", "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"),
        (".woff2", "document.readyState == 'complete' && document.fonts.status == 'loaded'"),
    ):
        come.add(suffix)
        assert late[suffix]
        for request in late[suffix]:
            request.continue_()
        window.page.wait_for_function(arrived)
        tops.append(window.page.evaluate(TOPS))
    first, with_script, with_fonts = tops
    assert with_script == first
    moved = [abs(new - old) for new, old in zip(with_fonts, first, strict=True)]
    assert max(moved) <= 29  # a line of the summary


def test_html_is_small(site: Path):
    """A lesson stands whole on its page, with the first reading before the code."""
    sizes = {url: packed((site / url).read_bytes()) for url in pages(site)}
    long = {english(url) for url, size in sizes.items() if size > 25 * 1024}
    assert long <= LESSONS | {BY_HAND, NOTEBOOK, GPT} | FOREIGN
    assert max(sizes.values()) <= 64 * 1024


def test_style_sheet_script_and_typefaces_are_small(site: Path):
    assets = site / "assets"
    parts = [packed((assets / name).read_bytes()) for name in ("site.css", "site.js")]
    assert sum(parts) <= 16 * 1024
    fonts = [f"fonts/{name}.woff2" for name in ("serif", "serif-italic", "sans", "mono")]
    assert sum((assets / font).stat().st_size for font in fonts) <= 75 * 1024


def test_a_first_view_takes_four_requests_before_fonts(site: Path, visit: Open):
    window = visit(MHA)
    window.page.wait_for_load_state("networkidle")
    asked = [url.removeprefix(window.server) for url in window.requests]
    before_fonts = {path for path in asked if not path.endswith(".woff2")}
    assert before_fonts == {MHA, "assets/site.css", "assets/math.css", "assets/site.js"}
    assert sum(packed((site / path).read_bytes()) for path in before_fonts) <= 130 * 1024


def test_the_validator_finds_no_errors(site: Path, java: str, tmp_path: Path):
    broken = tmp_path / "broken.html"
    broken.write_text("<!doctype html><title>x</title><p id=a><p id=a>", encoding="utf-8")
    jar = MODULES / "vnu-jar" / "build" / "dist" / "vnu.jar"
    # To optimise what runs for seconds takes a Java machine longer than to run it.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [java, "-Xss8m", *quick, "-jar", str(jar), "--errors-only", "--format", "json"]
    command += ["--exit-zero-always", "--skip-non-html", str(broken), str(site)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    messages = json.loads(run.stderr)["messages"]
    errors = [f"{m['url']}:{m['lastLine']}: {m['message']}" for m in messages]
    # The file that is wrong on purpose shows that the validator looked.
    assert [error for error in errors if "broken.html" not in error] == []
    assert errors
