"""What scripts say can be in another language, and so can the index that they search."""

import re
from collections.abc import Mapping

import pytest
from browser_tools import MHA, Open, Visit, bracketed, outside
from playwright.sync_api import Route, expect

from pylit.outputs.search import SearchIndex, SearchPage, counted

pytestmark = pytest.mark.browser


def test_the_page(visit: Open):
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


def test_the_replay(visit: Open):
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


def test_figures(visit: Open):
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


def test_a_search_reads_the_index_and_the_words_of_the_edition(visit: Open):
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


def test_a_link_to_another_language_keeps_the_place(visit: Open):
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
