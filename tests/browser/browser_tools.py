"""A window on the site, and what it has seen."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from playwright.sync_api import Browser, ConsoleMessage, Page
from sweeps import in_turn

from docs_src.lessons import URLS
from pylit.node.process import MODULES

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HEIGHTS = {320: 640, 390: 844, 1024: 768, 1440: 900, 1920: 1080}
#: Far sections are laid out a little later than those near the window: here, all of them at once.
LAY_OUT = """() => document.querySelectorAll(".s, .s > *")
  .forEach(part => (part.style.contentVisibility = "visible"))"""
#: Pictures wait, in one column, until they come near.
LAID_OUT = """() => document.documentElement.dataset.js === undefined ||
  [...document.querySelectorAll(".s, .s > :not(.p)")]
    .every(part => getComputedStyle(part).contentVisibility !== "auto")"""
MHA = "labml_nn/transformers/mha.html"
FEEDBACK = "labml_nn/transformers/feedback/index.html"
#: Pages of lessons, which have a panel and a replay; and those that have a panel.
LESSONS = [*URLS.values()]
PANELS = [*LESSONS, "memory.html"]
#: How often a panel has computed.
READY = "document.querySelector('.live')?.dataset.ready"
#: What costs seconds on each of many pages is looked at small and dark, or large and light.
LOOKS = [(390, "dark"), (1440, "light")]

AXE = (MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
#: axe reads a whole document for any part of it: a part is judged without figures around it.
RUN = """within => {
  const figures = within ? document.querySelectorAll("figure") : [];
  const near = (figure) => figure.closest(within) || figure.querySelector(within);
  figures.forEach(figure => near(figure) || figure.remove());
  return axe.run(within ?? document, {resultTypes: ["violations"], elementRef: false});
}"""


def each_in_one_look(urls: list[str]) -> list[ParameterSet]:
    """Each page with one of the looks, in turn; a sweep takes the others."""
    found = [(one.values, one.marks) for one in in_turn(urls, LOOKS)]
    return [pytest.param(url, *look, marks=marks) for (url, look), marks in found]


class Visit:
    """One window. `page` is Playwright's; requests and faults are kept."""

    def __init__(
        self, browser: Browser, server: str, width: int, theme: str, options: dict[str, Any]
    ) -> None:
        self.server = server
        self.requests: list[str] = []
        self.faults: list[str] = []
        self._context = browser.new_context(
            viewport={"width": width, "height": HEIGHTS[width]}, color_scheme=theme, **options
        )
        self.page: Page = self._context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.page.url}: {error}"))
        self.page.on("request", lambda request: self._request(request.url))

    def open(self, url: str, hurry: bool = True) -> None:
        """Go to a page of the site, or to an address of its own; return when it is laid out."""
        self.page.goto(url if ":" in url else self.server + url)
        if hurry:
            self.page.evaluate(LAY_OUT)
        self.page.wait_for_function(LAID_OUT)

    def unfold(self) -> Page:
        """The page, with all imports, tables of symbols and answers open."""
        self.page.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
        return self.page

    def close(self) -> list[str]:
        """The faults that the window has seen."""
        self._context.close()
        return self.faults

    def _console(self, message: ConsoleMessage) -> None:
        # A browser that is held up for seconds, by axe or by other tests, says it of any font.
        late = "preloaded using link preload but not used" in message.text
        if message.type in ("error", "warning") and not late:
            self.faults.append(f"{self.page.url}: {message.type}: {message.text}")

    def _request(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self.server, "file:", "data:", "blob:")):
            self.faults.append(f"{self.page.url} asks for {url}")


def violations(window: Visit, within: str | None = None) -> list[str]:
    """What axe objects to, and where: on the whole page, or in the part that a selector finds.

    For a part, figures of the page that are outside of it are removed for good.
    """
    if not window.page.evaluate("'axe' in window"):
        window.page.evaluate(AXE)
    found = window.page.evaluate(RUN, within)["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"][:3]]


def pages(site: Path) -> list[str]:
    """All pages of the site."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


def english(url: str) -> str:
    """The address of the page that a page in Chinese translates; of any other, its own."""
    return url.removeprefix("zh/")


def packed(data: bytes) -> int:
    """Bytes on the wire."""
    return len(gzip.compress(data, 9))
