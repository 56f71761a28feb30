"""The pages in Chinese: each beside its English sibling, and found by what readers type."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import html5lib
import pytest
from browser_tools import MHA, Open, pages
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

#: What a search in Chinese for each of the words finds first.
QUERIES = """
labml_nn/transformers/mha.html: 注意力, 多头注意力, 自注意力, 查询 键 值, multi-head attention
labml_nn/transformers/positional_encoding.html: 位置编码, 正弦编码
labml_nn/transformers/models.html: 编码器 解码器, 序列到序列, 教师强制
labml_nn/transformers/feedback/index.html: 反馈记忆, feedback transformer
labml_nn/recurrent/elman/index.html: 循环神经网络, 隐状态, elman
labml_nn/lstm/index.html: 长短期记忆, 遗忘门, 细胞状态, LSTM
labml_nn/lstm/gru.html: 门控循环单元, 更新门
labml_nn/recurrent/linear_attention.html: 线性注意力, 快速权重
labml_nn/recurrent/delta_net.html: delta 规则
labml_nn/recurrent/mamba2.html: 状态空间模型, 状态空间对偶
faults.html: 常见错误
notation.html: 形状
reading.html: 怎样阅读
glossary.html: 词汇表
exercises.html: 练习
"""


def chinese(site: Path) -> list[str]:
    return [url for url in pages(site) if url.startswith("zh/")]


def test_what_chinese_readers_type_finds_its_page_first(visit: Open):
    page = visit("zh/index.html").page
    page.keyboard.press("/")
    field, results = page.locator("#search input"), page.locator("#results")
    missed = []
    for expected, queries in (line.split(": ") for line in QUERIES.strip().splitlines()):
        for text in queries.split(", "):
            field.fill(text)
            expect(results).to_have_attribute("data-query", text)
            first = page.locator("#results a").first.evaluate("link => link.href")
            if not first.endswith(f"/zh/{expected}"):
                missed.append((text, expected, first))
    assert not missed, "\n".join(map(str, missed))
    # What has no Chinese page is found in English.
    field.fill("torchrun")
    expect(page.locator("#results a").first).to_have_attribute(
        "href", re.compile("/labml_nn/experiments/distributed.html")
    )


def test_each_page_leads_to_its_sibling_and_back(site: Path):
    assert len(chinese(site)) > 20
    for url in chinese(site):
        english = url.removeprefix("zh/")
        for page, other in ((url, english), (english, url)):
            text = (site / page).read_text("utf-8")
            (link,) = re.findall(r'<a class="tool" href="([^"]*)" lang', text)
            assert (site / page).parent.joinpath(link).resolve() == (site / other).resolve()


def test_a_page_in_chinese_has_the_anchors_of_its_sibling(site: Path):
    for url in chinese(site):
        texts = [(site / name).read_text("utf-8") for name in (url, url.removeprefix("zh/"))]
        found, known = (set(re.findall(r'<h[2-4] id="([^"]*)"', text)) for text in texts)
        if not url.endswith("exercises.html"):  # Its headings are titles of pages.
            # A Chinese lesson has a summary, which the English has not.
            assert found - {"小结"} == known, url


def test_the_link_to_the_other_language_keeps_the_place(visit: Open):
    place = "#attention-of-all-heads"
    window = visit("404.html")
    page = window.page
    for url, other in ((MHA, f"zh/{MHA}"), (f"zh/{MHA}", MHA)):
        window.open(url)
        page.evaluate(f"document.querySelector('{place}').scrollIntoView()")
        current = page.locator("#outline [aria-current]")
        expect(current).to_have_attribute("href", place)
        # Playwright's own click would scroll the page.
        page.evaluate("document.querySelector('.bar a[hreflang]').click()")
        page.wait_for_url(f"{window.server}{other}{place}")


def leaving(site: Path, url: str) -> Iterator[tuple[str, str, list[str]]]:
    """Links of a page out of Chinese: the address, the text, and tags and classes around it."""
    tree = html5lib.parse((site / url).read_bytes(), namespaceHTMLElements=False)
    within: dict[object, list[str]] = {tree: []}
    for parent in tree.iter():
        for child in parent:
            classes = (child.get("class") or "").split()
            within[child] = [*within[parent], child.tag, *classes]
        if parent.tag != "a" or parent.get("lang"):
            continue
        address = urljoin(f"/{url}", parent.get("href", "")).partition("#")[0]
        if address.endswith(".html") and not address.startswith(("/zh/", "http")):
            yield address.removeprefix("/"), "".join(parent.itertext()), within[parent]


def test_a_link_that_leads_out_of_chinese_has_no_chinese_page_and_says_so(site: Path):
    """In prose the style sheet says it; names in code are English anyway."""
    for url in chinese(site):
        for address, text, within in leaving(site, url):
            assert not (site / "zh" / address).exists(), (url, address)
            said = "（英文）" in text or {"main", "ends", "foot", "pre"} & {*within}
            assert said, (url, address, text)


def test_the_style_sheet_says_which_links_lead_out_of_chinese(visit: Open):
    page = visit(f"zh/{MHA}").page
    said = page.evaluate(
        """[...document.querySelectorAll(":is(main, .foot) a[href*='.html']:not([lang], pre a)")]
        .filter(a => a.origin === location.origin)
        .map(a => [a.pathname.startsWith("/zh/"),
                   getComputedStyle(a, "::after").content.includes("英文")])"""
    )
    assert len(said) > 50 and any(out for _, out in said)
    assert all(within != out for within, out in said)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_letters_of_drawings_can_be_read(visit: Open, width: int):
    """A Chinese character has too many strokes for less than 12 pixels."""
    window = visit("zh/index.html")
    window.page.set_viewport_size({"width": width, "height": 900})
    for url in ("zh/index.html", "zh/memory.html", "zh/labml_nn/transformers/models.html"):
        window.open(url)
        sizes = window.page.evaluate(
            """[...document.querySelectorAll(":is(.cards, .panels) text")]
            .filter(text => /[\\u4e00-\\u9fff]/.test(text.textContent))
            .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
        )
        assert len(sizes) > 10 and min(sizes) > 11.9, url
