"""A window on the site, and what it has seen."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page
from sweeps import in_turn

from docs_src.lessons import URLS
from pylit.node.process import MODULES

HEIGHTS = {320: 640, 390: 844, 1024: 768, 1440: 900, 1920: 1080}
#: Far sections are laid out a little later than those near the window: here, all of them at once.
LAY_OUT = """() => document.querySelectorAll(".s, .s > *")
  .forEach(part => (part.style.contentVisibility = "visible"))"""
#: Pictures wait, in one column, until they come near.
LAID_OUT = """() => document.documentElement.dataset.js === undefined ||
  [...document.querySelectorAll(".s, .s > :not(.p)")]
    .every(part => getComputedStyle(part).contentVisibility !== "auto")"""
#: What a page does by itself in answer to a reader has happened: observers are told after a frame.
SETTLED = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
  setTimeout(done))))"""
MHA = "labml_nn/transformers/mha.html"
FEEDBACK = "labml_nn/transformers/feedback/index.html"
#: Pages of lessons, which have a panel and a replay; and those that have a panel.
LESSONS = [*URLS.values()]
PANELS = [*LESSONS, "memory.html"]
#: How often a panel has computed.
READY = "document.querySelector('.live')?.dataset.ready"
#: What costs seconds on each of many pages is looked at small and dark, or large and light.
LOOKS = [(390, "dark"), (1440, "light")]

#: A language in which each sentence is the English one in brackets.
BRACKETS = "window.pylitWords = new Proxy({}, { get: (words, text) => `⟦${text}⟧` })"
#: The words outside brackets, with the names that people hear: of the elements inside `parts`, but
#: not inside `others`.
OUTSIDE = """([parts, others]) => {
  const texts = [];
  for (const part of document.querySelectorAll(parts)) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = part; node; node = walker.nextNode()) {
      const isText = node.nodeType === Node.TEXT_NODE;
      if ((isText ? node.parentElement : node).closest(others)) continue;
      const names = ["aria-label", "aria-valuetext", "title"];
      texts.push(...(isText ? [node.data] : names.map((name) => node.getAttribute(name))));
      if (node.tagName === "OUTPUT") texts.push(node.value);
    }
  }
  return texts.filter(Boolean).filter((text) => {
    for (let before = ""; before !== text;) [before, text] = [text, text.replace(/⟦[^⟦⟧]*⟧/g, "")];
    return /[a-z]{2}|[⟦⟧]|undefined/i.test(text);
  });
}"""


AXE = (MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
#: Most of a long page is alike, and axe takes a millisecond for each element of it. What has come
#: before, with the same tags, classes and attributes around it, goes; a name stays whole.
THIN = """part => {
  const kind = e => [e.localName, ...e.classList, ...e.getAttributeNames(), e.role,
    [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim())].join(" ");
  const refers = /^(for|aria-.*(by|controls|owns|activedescendant))$/;
  const all = [...document.body.querySelectorAll("*")];
  const named = new Set(all.flatMap(e => [...e.attributes].flatMap(({ name, value }) =>
    refers.test(name) ? value.split(" ") : [])));
  const kinds = new Map(), seen = new Set(), stays = new Set([document.body]);
  for (const e of all) {
    const around = e.matches("mjx-container *, svg *") ? "" : kinds.get(e.parentElement);
    const here = `${around} > ${kind(e)}`;
    kinds.set(e, here);
    const stay = !seen.has(here) || named.has(e.id) || e.closest(part)
      || e.matches("h1, h2, h3, h4, h5, h6, :focus, [open], :popover-open");
    seen.add(here);
    for (let one = e; stay && !stays.has(one); one = one.parentElement) stays.add(one);
  }
  const name = "a, button, dl, summary, label, h1, h2, h3, h4, h5, h6, th, [role]:not([role=img])";
  for (const e of all)
    if (stays.has(e.parentElement) && e.parentElement.closest(name)) stays.add(e);
  all.forEach(e => stays.has(e) || e.remove());
}"""
AXE_RUN = """part => axe.run(part ?? document, {resultTypes: ["violations"], elementRef: false})"""


def each_in_one_look(urls: list[str]) -> list[ParameterSet]:
    """Each page with one of the looks, in turn; a sweep takes the others."""
    found = [(one.values, one.marks) for one in in_turn(urls, LOOKS)]
    return [pytest.param(url, *look, marks=marks) for (url, look), marks in found]


class Visit:
    """One window. `page` is Playwright's; requests and faults are kept."""

    def __init__(self, page: Page, server: str) -> None:
        self.page, self.server = page, server
        self.requests: list[str] = []
        self.faults: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"{page.url}: {error}"))
        page.on("request", lambda request: self._request(request.url))

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

    def forgive(self, *texts: str) -> None:
        """Forget faults that are wanted here."""
        self.faults = [one for one in self.faults if not any(text in one for text in texts)]

    def _console(self, message: ConsoleMessage) -> None:
        # A browser that is held up for seconds, by axe or by other tests, says it of any font.
        late = "preloaded using link preload but not used" in message.text
        if message.type in ("error", "warning") and not late:
            self.faults.append(f"{self.page.url}: {message.type}: {message.text}")

    def _request(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self.server, "file:", "data:", "blob:")):
            self.faults.append(f"{self.page.url} asks for {url}")


#: How tests open a page: its address, a width, a theme and options of the browser.
Open = Callable[..., Visit]


class Windows:
    """Windows on the site. Plain ones are tabs of one browser, which is six times as fast as a
    browser for each; one with options is alone in a browser that has them."""

    def __init__(self, browser: Browser, server: str) -> None:
        self._browser, self._server = browser, server
        self._shared = browser.new_context()
        # A tab that stays keeps the process of the others, and empties what they have stored.
        self._tools = self._shared.new_cdp_session(self._shared.new_page())
        self._open: list[tuple[Visit, BrowserContext]] = []

    def open(self, width: int, theme: str, **options: Any) -> Visit:
        context = self._browser.new_context(**options) if options else self._shared
        page = context.new_page()
        visit = Visit(page, self._server)
        self._open.append((visit, context))
        page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        page.emulate_media(color_scheme=theme)
        return visit

    def close(self) -> list[str]:
        """Leave nothing that the next test could see, and return the faults of all windows."""
        for visit, context in self._open:
            visit.page.close()
            if context is not self._shared:
                context.close()
        for origin in (self._server, "file://"):
            stored = {"origin": origin, "storageTypes": "all"}
            self._tools.send("Storage.clearDataForOrigin", stored)
        faults = [fault for visit, _ in self._open for fault in visit.faults]
        self._open.clear()
        return faults


def bracketed(visit: Open, url: str, *look: object) -> Visit:
    """A page whose scripts speak the language of brackets."""
    window = visit("404.html", *look)
    window.page.add_init_script(BRACKETS)
    window.open(url)
    return window


def outside(page: Page, parts: str, others: str = "nothing") -> set[str]:
    """What is said in some parts of a page, but not in others of them, outside brackets."""
    return set(page.evaluate(OUTSIDE, [parts, others]))


def violations(window: Visit, part: str | None = None, whole: bool = False) -> list[str]:
    """What axe objects to, and where: on the page, or in the part of it that a selector finds.

    Unless it is looked at as a whole, a page keeps one element of each kind from then on.
    """
    if not whole:
        window.page.evaluate(THIN, part or "nothing")
    if not window.page.evaluate("'axe' in window"):
        window.page.evaluate(AXE)
    found = window.page.evaluate(AXE_RUN, part)["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"][:3]]


def box(found: Locator) -> dict[str, float]:
    """Where an element is."""
    bounds = found.first.bounding_box()
    assert bounds
    return {**bounds}


def pages(site: Path) -> list[str]:
    """All pages of the site."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


def english(url: str) -> str:
    """The address of the page that a page in Chinese translates; of any other, its own."""
    return url.removeprefix("zh/")


def packed(data: bytes) -> int:
    """Bytes on the wire."""
    return len(gzip.compress(data, 9))
