"""What scripts say can be in another language, and so can the index that they search."""

import re
from collections.abc import Callable, Mapping

import pytest
from browser_tools import MHA, PANELS, READY, Visit
from playwright.sync_api import Page, Route, expect

from pylit.outputs.search import SearchIndex, SearchPage, counted

pytestmark = pytest.mark.browser

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


def bracketed(visit: Callable[..., Visit], url: str) -> Visit:
    window = visit("404.html")
    window.page.add_init_script(BRACKETS)
    window.open(url)
    return window


def outside(page: Page, parts: str, others: str = "nothing") -> set[str]:
    return set(page.evaluate(OUTSIDE, [parts, others]))


def test_the_page(visit: Callable[..., Visit]):
    page = bracketed(visit, MHA).page
    expect(page.locator("#theme-button")).to_have_attribute("title", "⟦Theme: as the system⟧")
    tools = ".by, .self, .import button, [tabindex][role=group], td code[role=button]"
    assert page.locator(tools).count() > 50
    assert outside(page, tools, "pre, td code, .table-scroll *") == set()
    page.keyboard.press("/")
    page.keyboard.type("attention")
    expect(page.locator("#search [role=status]")).to_have_text(re.compile(r"⟦\d+ results⟧"))
    kinds = page.locator("#results i").all_inner_texts()
    assert {kind.split("⟧")[0] for kind in kinds} <= {
        "⟦page",
        "⟦code",
        "⟦section",
        "⟦note",
        "⟦glossary",
    }


@pytest.mark.parametrize("url", PANELS)
def test_panels(url: str, visit: Callable[..., Visit]):
    page = bracketed(visit, url).page
    page.locator("[data-live]").press("Enter")
    page.wait_for_function(READY, timeout=60_000)
    models, text = {"LSTM", "Mamba-2", "DeltaNet"}, page.locator(".live textarea")
    others = "textarea, .letters, .arcs, .written, .field option"
    assert outside(page, ".live", others) <= models
    for show in page.locator(".live .observations button").all():
        before = page.evaluate(READY)
        show.press("Enter")
        page.wait_for_function(f"{READY} != {before}", timeout=60_000)
        assert outside(page, ".live", others) <= models
    for wrong in ("", "#", "a" * 300):
        text.fill(wrong)
        expect(page.locator(".live .fault")).to_contain_text("⟦")
        assert outside(page, ".live .fault") == set()


def test_the_replay(visit: Callable[..., Visit]):
    page = bracketed(visit, MHA).page
    page.locator(".replay-start").click()
    # A replay brings its own texts, and names of functions and tensors are code.
    others = (
        "#replay-title, .runs, .stops, .about, .note, .line, .tensor h3, .tensor output b, "
        "figcaption, caption, .token"
    )
    page.get_by_role("button", name="⟦Every line⟧").click()
    for _ in range(12):
        assert outside(page, "#replay", others) <= {"forward"}
        page.locator("#replay .next").click()


def test_figures(visit: Callable[..., Visit]):
    page = bracketed(visit, "labml_nn/transformers/positional_encoding.html").page
    form = page.locator("[data-stage]").first
    form.locator("input").first.focus()
    expect(form.locator("output")).to_contain_text("⟦Hand ")
    assert outside(page, "[data-stage] output") == set()


def in_another_edition(window: Visit, files: Mapping[str, str], link: str) -> None:
    """Open the page as that of an edition in another language, which has scripts of its own."""

    def page(route: Route) -> None:
        html = route.fetch().text().replace("<html ", '<html data-edition="zh/" ', 1)
        html = html.replace("</title>", "</title><script>pylitWords = {}</script>", 1)
        html = html.replace('<div class="tools">', f'<div class="tools">{link}', 1)
        route.fulfill(body=html, content_type="text/html; charset=utf-8")

    def script(route: Route) -> None:
        path = route.request.url.removeprefix(f"{window.server}assets/zh/")
        route.fulfill(body=files[f"assets/{path}"], content_type="text/javascript")

    window.page.route(f"**/{MHA}", page)
    window.page.route("**/assets/zh/**", script)
    window.open(MHA)


def test_a_search_reads_the_index_and_the_words_of_the_edition(visit: Callable[..., Visit]):
    with SearchIndex() as index:
        text = "Transformer的注意力让每个位置查看所有位置。"
        index.add(counted(SearchPage("zh/mha.html", "多头注意力", ("mha",), text, ())), 0)
        files = {path: data.decode() for path, data in index.files()}
    files["assets/words.js"] = 'Object.assign(pylitWords, {"1 result": "1 条结果"});'
    window = visit("404.html")
    in_another_edition(window, files, "")
    page = window.page
    page.keyboard.press("/")
    page.locator("#search input").fill("注意力")
    result = page.locator("#results a")
    expect(page.locator("#search [role=status]")).to_have_text("1 条结果")
    expect(result.locator("b mark")).to_have_text("注意力")
    expect(result.locator("small mark")).to_have_text("注意力")
    assert result.evaluate("link => link.href") == f"{window.server}zh/mha.html"


def test_a_link_to_another_language_keeps_the_place(visit: Callable[..., Visit]):
    window = visit("404.html")
    in_another_edition(window, {}, '<a href="#" hreflang="en">English</a>')
    page = window.page
    page.evaluate("scrollTo({ top: document.body.scrollHeight / 2, behavior: 'instant' })")
    expect(page.locator("#outline [aria-current]")).to_have_count(1)
    here, opened = page.evaluate("""() => {
      const here = document.querySelector("#outline [aria-current]").hash;
      document.querySelector("[hreflang=en]").click();
      return [here, location.hash];
    }""")
    assert here == opened != ""
