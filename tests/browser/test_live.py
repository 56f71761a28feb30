"""Models that run in pages: opened by a button, shown, and answered in sentences."""

import re

import pytest
from browser_tools import (
    LESSONS,
    MHA,
    PANELS,
    READY,
    SETTLED,
    Open,
    Visit,
    box,
    bracketed,
    each_in_one_look,
    outside,
    violations,
)
from playwright.sync_api import expect
from sweeps import swept

from docs_src.lessons import URLS
from docs_src.live.poems import verse

pytestmark = pytest.mark.browser

#: The Chinese pages with a model that has read poems, and what that model is called.
POEMS = {
    f"zh/{URLS['mha']}": "tang",
    f"zh/{URLS['lstm']}": "tang_lstm",
    f"zh/{URLS['gated_delta_net']}": "tang_delta_net",
}
IN_PAGES = [*PANELS, *POEMS]
#: Adds up how far a page moves what is seen, without the reader.
MOVES = """window.moved = 0;
  new PerformanceObserver(list => list.getEntries().forEach(({ value, hadRecentInput }) =>
    (moved += hadRecentInput ? 0 : value))).observe({ type: "layout-shift", buffered: true })"""


def opened(visit: Open, url: str = MHA) -> Visit:
    return started(visit(url))


def started(window: Visit) -> Visit:
    assert not [url for url in window.requests if "/live/" in url]
    window.page.locator("[data-live]").press("Enter")
    window.page.wait_for_function(READY, timeout=60_000)
    return window


@pytest.mark.parametrize(("url", "width", "theme"), each_in_one_look(IN_PAGES))
def test_panel(url: str, width: int, theme: str, visit: Open):
    """It opens by keyboard, shows its observations, fits, and axe finds nothing.

    All that its script says can be in another language. At a desk the whole panel is in the
    window; on a phone, what is changed and its outcome.
    """
    window = started(bracketed(visit, url, width, theme))
    page = window.page
    assert page.evaluate("document.activeElement.id") == "live"
    if width == 1440:
        panel = box(page.locator(".live"))
        assert box(page.locator(".bar"))["height"] <= panel["y"]
        assert panel["y"] + panel["height"] <= 900
    for part in (".controls", ".view") if width == 390 else ():
        page.locator(f".live {part}").evaluate("one => one.scrollIntoView()")
        outcome = box(page.locator(".live .outcome"))
        assert outcome["y"] + outcome["height"] <= 844 and outcome["height"] <= 200
    # What a model has read and written is in the language of its texts, as is a page in Chinese.
    others = "textarea, .letters, .arcs, .written, .field option, :lang(zh) *"
    models = {"LSTM", "Mamba-2", "DeltaNet"}
    shows = page.locator(".live .observations button")
    assert shows.count() == 3
    # It begins with something to see.
    assert page.locator(".live .observations [aria-pressed=true]").count() == 1
    for show in shows.all():
        before = page.evaluate(READY)
        show.press("Enter")
        page.wait_for_function(f"{READY} != {before}", timeout=60_000)
        assert outside(page, ".live", others) <= models
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert violations(window, ".live") == []
    for wrong in ("", "#", "a" * 300) if url in PANELS else ():
        page.locator(".live textarea").fill(wrong)
        expect(page.locator(".live .fault")).to_contain_text("⟦")
        assert outside(page, ".live .fault") == set()


@pytest.mark.parametrize("width", swept([390, 1440], 390))
def test_a_finger_hits_its_controls(width: int, visit: Open):
    window = visit(MHA, width, has_touch=True)
    window.page.locator("[data-live]").tap()
    window.page.wait_for_function(READY, timeout=60_000)
    sizes = window.page.locator(
        ".live :is(button, select, summary, .heads label, input[type=range]):visible"
    ).evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).flatMap(box => [box.width, box.height])"
    )
    assert min(sizes) >= 44


@pytest.mark.parametrize("url", swept(LESSONS, *LESSONS[:2]))
def test_its_address_opens_it(url: str, visit: Open):
    window = visit("404.html")
    window.open(f"{url}#try-it", hurry=False)
    window.page.wait_for_function(READY, timeout=60_000)
    expect(window.page.locator(".live h3")).to_be_in_viewport()
    expect(window.page.locator(".live .outcome")).to_be_in_viewport()


def test_a_change_of_its_address_opens_it(visit: Open):
    there = visit(MHA).page
    there.evaluate("location.hash = 'try-it'")
    there.wait_for_function(READY, timeout=60_000)


def test_it_is_open_when_a_reader_comes_near(visit: Open):
    """Nothing that is in sight moves, and the focus stays where it is."""
    window = visit("404.html")
    page = window.page
    page.add_init_script(MOVES)
    window.open(MHA)
    page.locator("[data-live]").evaluate(
        "one => scrollBy(0, one.getBoundingClientRect().top - 1.5 * innerHeight)"
    )
    page.wait_for_function(READY, timeout=60_000)
    assert page.evaluate("document.activeElement.id") != "live"
    page.evaluate(SETTLED)
    assert page.evaluate("moved") < 1e-3


def test_wrong_text_gets_a_sentence_and_dims_old_results(visit: Open):
    page = opened(visit).page
    seen = "+getComputedStyle(document.querySelector('.live .outcome').parentElement).opacity"
    assert page.evaluate(seen) == 1
    for text, said in (("", "empty"), ("a9", "“9”"), ("a" * 70, "70 characters")):
        page.locator(".live textarea").fill(text)
        assert said in page.locator(".live .fault").inner_text()
        assert page.evaluate(seen) < 0.6
    page.locator(".live textarea").fill("a")
    assert page.evaluate(seen) == 1


def test_a_head_that_is_off_looks_off(visit: Open):
    page = opened(visit).page
    head = page.locator(".live .heads > div").first
    canvas = head.locator("canvas")
    expect(canvas).to_have_css("opacity", "1")
    head.get_by_role("checkbox").uncheck()
    expect(head.locator("button")).to_have_class("off")
    assert canvas.evaluate("one => +getComputedStyle(one).opacity") < 0.5
    # Something else is shown now than what was pressed.
    assert page.locator(".live .observations [aria-pressed=true]").count() == 0


WRITTEN = """document.querySelector('.written').value.length > 30 &&
  [...document.querySelectorAll('.writer button')].at(-1).textContent === 'Write on'"""


def test_it_writes_the_same_text_again(visit: Open):
    page = opened(visit).page
    written = []
    for _ in range(2):
        page.get_by_role("button", name="Write on").click()
        page.wait_for_function(WRITTEN)
        written.append(page.locator(".written").inner_text())
        page.evaluate("document.querySelector('.written').value = ''")
    assert written[0] == written[1]


def test_from_a_disk(visit: Open, site):
    opened(visit, (site / MHA).as_uri())


def test_a_model_that_does_not_load_gets_a_sentence(visit: Open):
    window = visit(MHA)
    window.page.route("**/live/panel.js", lambda route: route.abort())
    window.page.locator("[data-live]").click()
    assert "did not load" in window.page.get_by_role("alert").inner_text()
    window.forgive("Failed to load")


def weights_of(window: Visit) -> list[str]:
    """The weights that a page has loaded."""
    return [url.rpartition("/")[2] for url in window.requests if "/live/weights/" in url]


@pytest.mark.parametrize(("url", "name"), POEMS.items())
def test_a_chinese_page_has_poems_first_and_shakespeare_on_demand(url: str, name: str, visit: Open):
    window = opened(visit, url)
    page, text = window.page, window.page.locator(".live textarea")
    poems = [f"{name}.js", "verse.js"]
    assert sorted(weights_of(window)) == sorted(poems)
    expect(text).to_have_value(re.compile("白日依山尽"))
    choice = page.locator(".live > .knob select")
    choice.select_option("莎士比亚")
    expect(text).to_have_value(re.compile("ROMEO"), timeout=60_000)
    page.wait_for_function(READY, timeout=60_000)
    assert len(weights_of(window)) == len(poems) + 1
    # The choice is made anew, and keeps the focus.
    expect(choice).to_be_focused()
    choice.select_option("唐诗")
    expect(text).to_have_value(re.compile("白日依山尽"))


@pytest.mark.parametrize("url", POEMS)
def test_on_a_chinese_page_it_writes_a_poem_with_the_heads_that_a_reader_gives(
    url: str, visit: Open
):
    window = opened(visit, url)
    page = window.page
    heads, write = page.locator(".live input[type=text]"), page.locator(".live .writer > button")
    poem, field = page.locator(".live .writer .written"), page.locator(".live textarea")
    form = page.get_by_label("体裁")
    for given, width in (("山水风月", 5), ("山水风月", 7), ("", 5)):
        heads.fill(given)
        form.select_option("七言绝句" if width == 7 else "五言绝句")
        field.fill("白日依山尽，黄河入")
        write.press("Enter")
        expect(write).to_have_text("写诗", timeout=60_000)
        lines = re.findall("[^，。\n]+", poem.inner_text())
        assert [len(line) for line in lines] == [width] * 4
        # Rhyme was asked for.
        ends = [lines[1][-1], lines[3][-1]]
        assert len({*ends}) == 2 and any({*ends} <= {*group} for group in verse()["韵"])
        # What it has written is what one sees attention in.
        assert field.input_value() == poem.inner_text()
        if given:
            assert "".join(line[0] for line in lines) == given
        else:
            assert poem.inner_text().startswith("白日依山尽，黄河入")
    heads.fill("山水a月")
    write.press("Enter")
    expect(page.locator(".live .outcome ~ .after .fault")).to_contain_text("“a”不在")
    field.fill("abc")
    expect(page.locator(".live .field .fault")).to_contain_text("“a”不在模型认识的")
