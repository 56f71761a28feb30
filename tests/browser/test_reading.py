"""What a reader does with a page: look, go on, copy, switch the theme, and print."""

from pathlib import Path

import pytest
from browser_tools import HEIGHTS, LAID_OUT, LESSONS, MHA, SETTLED, Open, Visit, box, pages
from playwright.sync_api import Locator, expect
from sweeps import swept

pytestmark = pytest.mark.browser

SOURCE = Path(__file__).parents[2] / "labml_nn" / "transformers" / "mha.py"
CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}
READ = "navigator.clipboard.readText()"


def some_line(window: Visit) -> Locator:
    """The number of a line of code in the middle of a page."""
    return window.page.locator(".s:not(.wide):has(> .d) .n").nth(60)


def test_the_three_layouts(visit: Open):
    window = visit(MHA)
    for width in (390, 1024, 1440, 1920):
        window.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        note = box(window.page.locator(".s:not(.wide):has(> .c) > .d"))
        code = box(window.page.locator(".s:not(.wide):has(> .d) > .c"))
        if width < 960:
            assert note["y"] + note["height"] == pytest.approx(code["y"])
        else:
            assert note["y"] == code["y"] and note["x"] + note["width"] <= code["x"]
        assert window.page.locator("#outline").is_visible() == (width >= 1680)
    # Beside a page of one column there is room earlier.
    window.open("exercises.html")
    for width in (1024, 1440):
        window.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        assert window.page.locator("#outline").is_visible() == (width >= 1280)


@pytest.mark.parametrize("width", swept([1024, 1440], 1440))
@pytest.mark.parametrize("url", swept(LESSONS, *LESSONS[:5]))
def test_every_note_begins_beside_its_code(url: str, width: int, visit: Open):
    # At the head of a page nothing sticks.
    page = visit(url, width).page
    distances = page.locator(".s:not(.wide):has(> .d > *):has(> .c .n)").evaluate_all(
        """sections => sections.map(section =>
          section.querySelector(".n").getBoundingClientRect().top
          - section.querySelector(".d > *").getBoundingClientRect().top)"""
    )
    assert len(distances) > 5 and max(map(abs, distances)) <= 45


def test_the_outline_opens_from_the_bar_and_closes_when_it_has_been_used(visit: Open):
    window = visit(MHA, 1024)
    outline = window.page.locator("#outline")
    window.page.locator("#outline-button").click()
    expect(outline).to_be_visible()
    entry = outline.get_by_role("link").nth(2)
    anchor = entry.get_attribute("href")
    entry.click()
    expect(outline).to_be_hidden()
    assert window.page.url.endswith(str(anchor))


@pytest.mark.parametrize("width", swept([390, 1440], 390))
@pytest.mark.parametrize("anchor", ["cost", "MultiHeadAttention.forward", "exercise-2"])
def test_what_a_link_leads_to_stays_in_place_while_the_rest_is_laid_out(
    anchor: str, width: int, visit: Open
):
    window = visit("404.html", width)
    window.open(f"{MHA}#{anchor}", hurry=False)
    target = window.page.locator(f"[id='{anchor}']")
    top, bar = box(target)["y"], box(window.page.locator(".bar"))
    assert bar["height"] <= top <= bar["height"] + 60
    target.evaluate("element => element.scrollIntoView()")
    assert box(target)["y"] == pytest.approx(top, abs=2)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("way", ["back", "reload"])
def test_back_and_reload_lead_to_where_a_reader_was(way: str, width: int, visit: Open):
    window = visit(MHA, width)
    page, seen = window.page, window.page.locator("[id='MultiHeadAttention.forward']")
    seen.evaluate("""element => scrollBy({ top: element.getBoundingClientRect().top - 200,
      behavior: "instant" })""")
    page.evaluate(SETTLED)
    top = box(seen)["y"]
    if way == "back":
        window.open("notation.html")
        page.go_back()
    else:
        page.reload()
    page.wait_for_function(LAID_OUT)
    assert box(seen)["y"] == pytest.approx(top, abs=40)


def test_a_line_that_a_link_leads_to_is_marked_and_in_sight(visit: Open):
    window = visit(MHA)
    line = some_line(window)
    window.open(f"{MHA}#{line.get_attribute('id')}")
    top = line.evaluate("element => element.getBoundingClientRect().top")
    assert 48 <= top < 900
    mark = "element => getComputedStyle(element, '::before').backgroundColor"
    other = window.page.locator(".n:not(:target)").first
    assert line.evaluate(mark) != other.evaluate(mark)


def test_j_and_k_go_through_all_sections(visit: Open):
    page = visit(MHA).page
    sections = page.locator(".s")
    count = sections.count()
    sections.evaluate_all(
        "all => addEventListener('focusin', ({ target }) => seen.push(all.indexOf(target)))"
    )
    for key, order in (("j", range(1, count)), ("k", reversed(range(count - 1)))):
        page.evaluate("window.seen = []")
        for _ in range(count):
            page.keyboard.press(key)
        # The section in sight is the first; there is none behind the last.
        assert page.evaluate("seen") == [*order]


def test_single_keys_can_be_switched_off_and_stay_off(visit: Open):
    window = visit(MHA)
    window.page.keyboard.press("?")
    expect(window.page.locator("#help")).to_be_visible()
    window.page.locator("#keys-button").uncheck()
    window.page.keyboard.press("Escape")
    expect(window.page.locator("#help")).to_be_hidden()
    window.open("notation.html")
    for key in "?/":
        window.page.keyboard.press(key)
    expect(window.page.locator("dialog[open]")).to_have_count(0)
    window.page.keyboard.press("Control+k")
    expect(window.page.locator("#search")).to_be_visible()


def test_the_theme_is_switched_and_remembered_before_anything_is_painted(visit: Open):
    window = visit(MHA, theme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for _ in range(3):
        window.page.locator("#theme-button").click()
        name = window.page.locator("#theme-button").get_attribute("aria-label")
        seen.append((name, window.page.evaluate(background)))
    white, black = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    names = ("Theme: light", "Theme: dark", "Theme: as the system")
    assert seen == [*zip(names, (white, black, white), strict=True)]
    window.page.locator("#theme-button").click(click_count=2)
    watch = """new MutationObserver((changes, observer) => {
      if (!document.body) return;
      window.first = document.documentElement.dataset.theme;
      observer.disconnect();
    }).observe(document, { childList: true, subtree: true })"""
    window.page.add_init_script(watch)
    window.open("notation.html")
    assert window.page.evaluate("window.first") == "dark"
    assert window.page.evaluate(background) == black


def test_copying_takes_no_numbers(visit: Open):
    page = visit(MHA, **CLIPBOARD).page
    block = page.locator(".c", has_text="attn").first
    numbers = block.locator(".n").evaluate_all("all => all.map(n => +n.id.slice(1))")
    lines = SOURCE.read_text(encoding="utf-8").split("\n")
    expected = [lines[number - 1] for number in numbers]
    block.hover()
    block.get_by_role("button").click()
    expect(block.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate(READ) == "\n".join(expected)
    block.locator("pre").evaluate("element => getSelection().selectAllChildren(element)")
    page.keyboard.press("Control+c")
    assert [*filter(None, page.evaluate(READ).split("\n"))] == [*filter(None, expected)]


def test_formulas_are_copied_as_tex_and_code_without_shapes(visit: Open):
    page = visit(MHA, **CLIPBOARD).page
    page.evaluate("getSelection().selectAllChildren(document.querySelector('main'))")
    page.keyboard.press("Control+c")
    copied = page.evaluate(READ)
    formula = page.locator(".d p mjx-container").first.get_attribute("data-tex")
    assert f"${formula}$" in copied and "self.get_scores(query, key)" in copied
    assert "returns [T, B, C]" not in copied


def test_what_scrolls_sideways_can_be_reached_with_tab(visit: Open):
    window = visit(MHA, 390)
    unlike = """() => [...document.querySelectorAll('.c pre, .table-scroll')].filter(element =>
      element.checkVisibility() &&
      (element.scrollWidth > element.clientWidth) !== (element.tabIndex === 0)).length"""
    window.page.get_by_role("button", name="Wrap code").click()
    expect(window.page.locator(".c pre[tabindex='0']").first).to_have_role("group")
    assert window.page.evaluate(unlike) == 0
    # What is in something closed is seen, and has a width, only when that is opened.
    window.unfold()
    window.page.wait_for_function(f"({unlike})() === 0")


@pytest.mark.parametrize("scripts", [True, False])
def test_a_phone_shows_code_whole(scripts: bool, visit: Open):
    """Without the indentation that lines share, and what follows a break stands within the code."""
    window = visit(MHA, 390, java_script_enabled=scripts)
    # A line of a method, which has eight columns of indentation and no room.
    block = window.page.locator(".c", has_text="self.query = Prepare")
    number, start = block.locator(".n").first, block.locator("code .hb").first
    goes_on = block.locator(".hb", has_text="self").nth(1)
    left = [box(one)["x"] for one in (number, start, goes_on)]
    assert 0 <= left[0] < left[1] < 40 and left[1] < left[2] < 80
    rights = block.locator("code :not(samp, samp *)").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert max(rights) <= 390


def test_a_switch_unwraps_code_and_is_remembered(visit: Open):
    window = visit(MHA, 390)
    widest = "Math.max(...[...document.querySelectorAll('.c pre')].map(e => e.scrollWidth))"
    assert window.page.evaluate(widest) <= 390
    window.page.get_by_role("button", name="Wrap code").click()
    assert window.page.evaluate(widest) > 390
    window.page.reload()
    assert window.page.evaluate(widest) > 390


@pytest.mark.parametrize("width", swept([1024, 1440], 1440))
def test_what_a_block_offers_covers_nothing(width: int, visit: Open):
    page = visit(MHA, width).page
    covered = page.locator(".c:not(:has(.fold))").evaluate_all(
        """blocks => blocks.flatMap(block => {
          const tools = block.querySelector(":scope > .by").getBoundingClientRect();
          const texts = [...block.querySelectorAll("samp i, code > :not(samp, .n)")];
          return texts.filter(text => [...text.getClientRects()].some(one =>
            one.left < tools.right && one.right > tools.left &&
            one.top < tools.bottom && one.bottom > tools.top));
        }).length"""
    )
    assert covered == 0


def test_on_touch_a_word_is_explained_from_below_and_the_page_stays(visit: Open):
    window = visit(MHA, 390, has_touch=True, is_mobile=True)
    term = window.page.locator("main a.g").first
    here = window.page.url
    term.tap()
    sheet = window.page.locator("#preview")
    expect(sheet).to_be_visible()
    assert window.page.url == here
    place = box(sheet)
    assert place["x"] == 0 and place["y"] + place["height"] == pytest.approx(844, abs=2)
    link = sheet.get_by_role("link", name="Open in glossary")
    assert (link.get_attribute("href") or "").startswith("http")
    link.tap()
    window.page.wait_for_url("**/glossary.html#*")


def test_headings_and_definitions_link_to_themselves(visit: Open):
    window = visit(MHA)
    for name in ("Link to this section", "Link to KVCache.__init__"):
        link = window.page.get_by_role("link", name=name).first
        link.focus()
        expect(link).to_have_css("opacity", "1")
        target = link.get_attribute("href")
        link.press("Enter")
        assert window.page.url.endswith(target)
        expect(window.page.locator(f"[id='{target[1:]}']")).to_be_in_viewport()


def test_a_link_to_a_folded_import_opens_it(visit: Open):
    window = visit(MHA)
    folded = window.page.locator(".fold .n").first
    expect(folded).to_be_hidden()
    window.open(f"{MHA}#{folded.get_attribute('id')}")
    expect(folded).to_be_in_viewport()


def test_every_page_is_read_without_scripts(site: Path, visit: Open):
    window = visit(MHA, 1024, java_script_enabled=False)
    page = window.page
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("pre").first).to_contain_text("import")
    expect(page.locator(".js").first).to_be_hidden()
    page.locator("#outline-button").click()
    expect(page.locator("#outline")).to_be_visible()
    expect(page.locator(".c samp i").first).to_be_visible()
    for dead in ("td code[role]", ".c samp [role=button]", ".replay-start:visible"):
        expect(page.locator(dead)).to_have_count(0)
    # Every page has its heading in the HTML; whether it shows is up to the template of its kind.
    for url in pages(site):
        assert "<h1" in (site / url).read_text(encoding="utf-8"), url
    for url in ("index.html", "glossary.html", "exercises.html", "notebooks/mha.html"):
        window.open(url)
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_pages_work_from_a_disk(site: Path, visit: Open):
    window = visit((site / MHA).as_uri())
    page = window.page
    page.keyboard.press("/")
    page.locator("#search input").fill("FeedbackAttention")
    expect(page.locator("#results [aria-selected=true] b")).to_have_text("FeedbackAttention")
    page.keyboard.press("Enter")
    page.wait_for_url("**/feedback/**")
    # While sections are laid out, the link may leave the window, and takes its preview along.
    page.wait_for_function(LAID_OUT)
    page.locator(".c > pre a.x:not(.e)").first.focus()
    expect(page.locator("#preview")).to_be_visible()


def test_at_any_address_the_404_page_finds_its_way_home(visit: Open):
    window = visit("index.html")
    window.page.goto(window.server + "no/such/page.html")
    # The answer's status is a fault to Chromium, and what is wanted here.
    window.forgive("404")
    expect(window.page.get_by_role("heading", level=1)).to_be_visible()
    assert box(window.page.locator(".bar"))["height"] == 48
    window.page.get_by_role("link", name="the list of all pages").click()
    assert window.page.url == window.server + "all.html"


#: Buttons that are printed, what is cut off, and addresses that mean nothing on paper.
PRINTED = """() => {
  const all = (tags) =>
    [...document.querySelectorAll(tags)].filter((each) => each.checkVisibility());
  return [
    all("button, input, select, .bar").length,
    all("table, pre").filter((part) => part.getBoundingClientRect().right > innerWidth + 1).length
      + all(".import code").filter((code) => code.scrollWidth > code.clientWidth).length,
    all("a").map((link) => [getComputedStyle(link, "::after").content, link.getAttribute("href")])
      .filter(([said, href]) => said.includes("(") && !href.startsWith("http")),
  ];
}"""


def test_paper_has_one_column_no_buttons_and_only_addresses_that_mean_something(visit: Open):
    window = visit("index.html")
    page = window.page
    for url in ("index.html", "results.html", MHA):
        window.open(url)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 680, "height": 960})
        assert page.evaluate(PRINTED) == [0, 0, []], url
        # Which page it is, and of which day.
        expect(page.locator(".paper")).to_be_visible()
        expect(page.locator(".paper")).to_have_text(url)
    note = box(page.locator(".s:not(.wide):has(> .c) > .d"))
    code = box(page.locator(".s:not(.wide):has(> .d) > .c"))
    assert note["y"] + note["height"] <= code["y"]
    shown = "element => getComputedStyle(element, '::after').content"
    assert "arxiv.org" in page.locator(".links a").first.evaluate(shown)


def test_marks_remain_in_forced_colours(visit: Open):
    window = visit(MHA, forced_colors="active")
    line = some_line(window)
    window.open(f"{MHA}#{line.get_attribute('id')}")
    width = "element => getComputedStyle(element, '::before').borderLeftWidth"
    assert line.evaluate(width) == "3px"
    bar = "element => getComputedStyle(element, '::after').borderLeftWidth"
    assert window.page.locator(".s.on").evaluate(bar) == "2px"
