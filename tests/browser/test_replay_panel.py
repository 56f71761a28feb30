"""Replays: a run of the code, step by step, with its tensors, in a panel loaded on demand."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from browser_tools import LESSONS, MHA, SETTLED, Open, Visit, box, each_in_one_look, violations
from playwright.sync_api import Locator, Page, expect
from replay_sample import KEYS, QUERIES, Sample, make_sample

pytestmark = pytest.mark.browser

#: The lines that are marked, each with what of it the bar and the panel leave in sight.
MARKED = """() => {
  const high = document.querySelector(".bar").getBoundingClientRect().bottom;
  const low = document.querySelector("#replay").getBoundingClientRect().top;
  return [...document.querySelectorAll(".n.now")].map(number => {
    const { top, bottom } = number.getBoundingClientRect();
    return [+number.id.slice(1), top >= high && bottom <= low];
  });
}"""

#: The colours along the top of each cell, above the value in it, of two rows and three columns.
COLOURS = """canvas => {
  const [wide, high] = [canvas.width / 3, canvas.height / 2];
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return [0, 1].flatMap(r => [0, 1, 2].map(c => {
    const { data } = context.getImageData(c * wide + 1, r * high + 1, wide - 1, 4);
    return Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3).join());
  }));
}"""


#: Whether all marked lines are in sight.
ALL_SEEN = f"({MARKED})().every(([, seen]) => seen)"


@pytest.fixture(scope="module")
def sample(site: Path) -> Sample:
    return make_sample(site)


@pytest.fixture
def served(sample: Sample, visit: Open) -> Open:
    """Opens the page with the replay of our own, or with another script."""

    def start(*look: object, script: str | None = sample.script, **options: object) -> Visit:
        window = visit("404.html", *look, **options)
        page = window.page
        page.route(f"**/{MHA}", lambda route: route.fulfill(body=sample.page))
        page.route(
            "**/sample.js",
            lambda route: route.abort() if script is None else route.fulfill(body=script),
        )
        window.open(MHA)
        return window

    return start


@pytest.fixture
def play(served: Open) -> Open:
    """Opens the page, and the panel with the keyboard, with every line of it."""

    def start(*look: object, **options: object) -> Visit:
        window = served(*look, **options)
        window.page.locator(".replay-start").press("Enter")
        window.page.get_by_role("button", name="Every line").press("Enter")
        window.page.locator("#replay .line.ran").first.press("Enter")
        go(window.page, 0)
        window.page.get_by_role("button", name="Next step").focus()
        return window

    return start


def go(page: Page, step: int) -> None:
    slider = page.get_by_role("slider", name="Step")
    slider.press("Home")
    for _ in range(step):
        slider.press("ArrowRight")


def block(page: Page, name: str) -> Locator:
    return page.locator(f"#replay [data-name={name}]")


def readout(page: Page, name: str) -> Locator:
    """What is said of the value under the marker."""
    return block(page, name).locator("output")


def number(text: str) -> float:
    words = {"∞": math.inf, "−∞": -math.inf, "True": 1.0, "False": 0.0}
    return words[text] if text in words else float(text.replace("−", "-"))


def test_it_is_loaded_when_it_is_asked_for_from_a_disk(site: Path, visit: Open):
    window = visit((site / MHA).as_uri())

    def loaded() -> set[str]:
        return {Path(url).name for url in window.requests if "replay" in url}

    assert not loaded()
    window.page.locator(".replay-start").press("Enter")
    expect(window.page.locator("#replay")).to_be_visible()
    assert len(loaded()) == 3 and {"replay.js", "replay.css"} < loaded()


def test_it_begins_with_what_it_is_and_its_first_stop(served: Open):
    page = served().page
    page.locator(".replay-start").press("Enter")
    expect(page.get_by_role("region", name="A model reads “RO”")).to_be_visible()
    expect(page.locator("#replay")).to_contain_text("What it reads, in a sentence.")
    expect(page.locator("#replay .note")).to_have_text("The mask.")


@pytest.mark.parametrize("script", [None, "pylitReplay({"], ids=["gone", "cut"])
def test_one_that_does_not_load_gets_a_sentence(script: str | None, served: Open):
    window = served(script=script)
    window.page.locator(".c samp i").nth(9).click()
    # A live model that has come near has an alert of its own, which is empty.
    expect(window.page.get_by_role("alert").filter(has_text="did not load")).to_be_in_viewport()
    window.forgive("Failed to load", "Unexpected end")


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1440, "light")])
def test_exactly_the_line_that_ran_is_marked_and_in_sight(
    width: int, theme: str, sample: Sample, play: Open
):
    page = play(width, theme).page
    for step, expected in enumerate(sample.steps):
        go(page, step)
        lines = range(expected["line"], expected.get("last", expected["line"]) + 1)
        # A line that is far away is shown in the panel, and a click on it leads there.
        shown = page.locator("#replay .line.ran")
        assert shown.first.inner_text().startswith(str(lines[0]))
        shown.first.click()
        page.wait_for_function(ALL_SEEN)
        assert [line for line, _ in page.evaluate(MARKED)] == list(lines)
        current = page.locator("[aria-current=step].n")
        assert current.evaluate_all("all => all.map(one => one.id)") == [f"L{lines[0]}"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Small panel").click()
    go(page, 2)
    page.wait_for_function(ALL_SEEN)
    assert page.locator("#replay .maps").is_hidden()
    page.get_by_role("button", name="Small panel").click()
    assert box(page.locator("#replay canvas").first)["width"] > 60


def test_where_it_is_in_words(play: Open):
    page = play().page
    for step, words in (
        (0, "forward calls attend"),
        (2, "attend, called by forward"),
        (6, "attend returns to forward"),
        (7, "__init__t: iteration 3 of 8layer: iteration 2"),
    ):
        go(page, step)
        expect(page.locator("#replay .where")).to_have_text(words)


def test_everything_by_keyboard(play: Open):
    page = play().page
    slider, keys = page.get_by_role("slider", name="Step"), page.keyboard
    for key in ("ArrowRight", "Enter", "ArrowRight", "ArrowLeft"):
        keys.press(key)
    expect(slider).to_have_value("2")
    page.get_by_role("button", name="Every line").press("Enter")
    page.get_by_role("button", name="Weights").press("Enter")
    page.get_by_role("button", name="Every line").press("Enter")
    expect(slider).to_have_value("4")
    expect(page.locator("#replay .note")).to_have_text("The weights.")
    page.get_by_role("button", name="Next step").focus()
    reached: set[str] = set()
    while "maps" not in reached and len(reached) < 30:
        keys.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.className || document.activeElement.textContent")
        )
    assert {"line", "maps", "Numbers"} <= reached
    expect(readout(page, "attn")).to_contain_text("attn[0, 0, 0, 0]")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "PageDown", "ArrowUp"):
        keys.press(key)
    expect(readout(page, "attn")).to_contain_text("attn[1, 1, 0, 1]")
    expect(readout(page, "attn")).to_contain_text("head 2, T 1 “O”, S 1 “h”")
    # In a map, arrows move the reader; they leave the step as it is.
    expect(slider).to_have_value("4")
    keys.press("Escape")
    expect(page.locator("#replay")).to_be_hidden()
    assert page.evaluate("document.activeElement.matches('.replay-start')")
    assert page.locator(".n.now, [aria-current=step].n").count() == 0


def test_the_sum_over_each_axis(sample: Sample, play: Open):
    page = play().page
    go(page, 4)
    attn, weights = block(page, "attn"), sample.tensors["attn"][:, :, 0]
    # Of weights the sum is shown without being asked for.
    page.locator("#replay .maps").focus()
    expect(readout(page, "attn")).to_contain_text("sum over axis 1: 1.00")
    expect(attn.locator("figure").first.locator(".sums span")).to_have_text(["1.00"] * 5)
    for axis, name in enumerate(("Sum over axis 0: T", "Sum over axis 1: S", "Sum over axis 3: H")):
        attn.get_by_role("combobox", name="Sum").select_option(name)
        page.locator("#replay .maps").focus()
        place = [slice(None) if i == axis else 0 for i in range(3)]
        shown = number(readout(page, "attn").inner_text().split("sum over ")[1].split(": ")[1])
        assert shown == pytest.approx(weights[tuple(place)].sum().item(), abs=0.06)
    expect(attn.locator("figcaption").last).to_have_text("sum over axis 3")
    # A click on the names along an axis is the shortest way, and back.
    for expected in ("1", ""):
        attn.locator(".columns").first.click()
        expect(attn.get_by_role("combobox", name="Sum")).to_have_value(expected)


def test_tables_hold_the_recorded_values(sample: Sample, play: Open):
    page, found = play().page, sample.tensors
    by_head = {name: found[name][:, :, 0].movedim(-1, 0) for name in ("scaled", "masked", "attn")}
    # The tables of all heads of a value at a step.
    for step, name, tables in (
        (0, "query", found["query"][:, 0].movedim(1, 0)),
        (0, "mask", found["mask"][None, :, :, 0, 0]),
        (2, "scores", by_head["scaled"]),
        (3, "scores", by_head["masked"]),
        (4, "attn", by_head["attn"]),
        (7, "odd", found["odd"][None]),
        (8, "features", found["features"][None]),
    ):
        go(page, step)
        numbers = block(page, name).get_by_role("button", name="Numbers")
        if numbers.get_attribute("aria-pressed") == "false":
            numbers.click()
        finite = tables[tables.isfinite()].double()
        half = (finite.max() - finite.min()).item() / 252 / 2 if finite.min() < 0 else 0.002
        for head, table in enumerate(tables.double()):
            if len(tables) > 1:
                maps = block(page, name).get_by_role("combobox", name="Map", exact=True)
                maps.select_option(index=head)
            if name == "attn":  # The last column of weights is their sum.
                table = torch.cat([table, table.sum(1, keepdim=True)], 1)
            rows = block(page, name).locator("tbody tr").all()
            decimals = re.search(r"\.(\d+)", rows[0].inner_text())
            near = half + (0.5 * 10 ** -len(decimals[1]) if decimals else 0)
            for row, expected in zip(rows, table.tolist(), strict=True):
                shown = [number(text) for text in row.locator("td").all_text_contents()]
                assert shown == pytest.approx(expected, abs=near, nan_ok=True), (step, name)


def test_what_is_large_scrolls_to_the_value_and_has_the_rows_around_it(play: Open):
    page = play(390).page
    go(page, 8)
    features, table = block(page, "features"), block(page, "table")
    features.locator(".maps").focus()
    for _ in range(159):
        page.keyboard.press("ArrowRight")
    expect(readout(page, "features")).to_contain_text("features[0, 159] = ")
    marker = box(features.locator(".cells i"))
    assert marker["x"] + marker["width"] <= 390
    table.locator(".maps").focus()
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    table.get_by_role("button", name="Numbers").click()
    expect(table.locator("caption")).to_have_text("table, rows 12 to 23 of 30")
    expect(table.locator("tbody th")).to_have_text([str(row) for row in range(12, 24)])


def test_what_is_not_finite_too_large_empty_or_one_number(play: Open):
    page = play().page
    go(page, 7)
    expect(block(page, "odd").locator(".legend")).to_have_text(re.compile("−∞.*∞.*NaN"))
    expect(readout(page, "scale")).to_have_text(re.compile(r"scale = 2\.50*"))
    expect(readout(page, "tiny")).to_have_text("tiny = 4.5e−5")
    expect(block(page, "tokens").locator("tbody td")).to_have_text(["17", "−3", "0", "1024"])
    expect(block(page, "tokens").locator("thead th")).to_have_text(KEYS)
    expect(block(page, "cache")).to_contain_text("no elements")
    expect(block(page, "huge")).to_contain_text("60,000 elements")
    expect(block(page, "phase")).to_contain_text("not real numbers")


def test_tokens_are_text_and_their_labels_are_short(sample: Sample, play: Open):
    token, tokens = "<b>bold</b> " * 9, json.dumps(QUERIES, ensure_ascii=False)
    page = play(script=sample.script.replace(tokens, json.dumps([token] * 5))).page
    query = block(page, "query")
    expect(query.locator("figure").first.locator(".rows span")).to_have_text(["<b>bold</b>…"] * 5)
    assert box(query.locator(".rows").first)["width"] < 90
    query.locator(".maps").focus()
    expect(readout(page, "query")).to_contain_text(f"“{token[:-1]}␣”")


@pytest.mark.parametrize("colours", ["none", "active"])
def test_colours_and_hatching_tell_values_infinities_and_nan_apart(colours: str, play: Open):
    """In forced colours, too."""
    page = play(forced_colors=colours).page
    seen = block(page, "query").locator("canvas").first.evaluate(COLOURS)
    assert len({colour for cell in seen for colour in cell}) > 4
    go(page, 7)
    seen = block(page, "odd").locator("canvas").evaluate(COLOURS)
    assert [len(set(cell)) == 1 for cell in seen] == [True, False, True, False, False, True]
    assert len(set(map(tuple, seen))) == 6


def test_the_line_stays_in_sight_until_the_reader_scrolls(play: Open):
    """Sections get their heights when they are laid out, and that may be later."""
    page = play().page
    grow = """document.documentElement.style.overflowAnchor = "none";
      document.querySelector("main").prepend(Object.assign(document.createElement("p"),
        { style: "height: 40rem" }))"""
    page.evaluate(grow)
    page.wait_for_function(ALL_SEEN)
    page.mouse.move(400, 200)
    page.mouse.wheel(0, 3000)
    page.wait_for_function(f"({MARKED})().every(([, seen]) => !seen)")
    page.evaluate(grow)
    page.evaluate(SETTLED)
    assert not any(seen for _, seen in page.evaluate(MARKED))
    page.locator("#replay .line.ran").first.click()
    page.wait_for_function(ALL_SEEN)


def test_what_changed_can_be_compared(sample: Sample, play: Open):
    page = play().page
    go(page, 3)
    scores = block(page, "scores")
    # Three hidden keys, then two, then one, in each of three heads.
    expect(readout(page, "scores")).to_have_text("18 of 60 values changed.")
    page.locator("#replay .maps").focus()
    page.keyboard.press("ArrowRight")
    value = sample.tensors["scaled"][0, 1, 0, 0].item()
    was = re.search(r"= −∞ .*was (\S+)", readout(page, "scores").inner_text())
    assert was and number(was[1]) == pytest.approx(value, abs=0.02)
    before = scores.get_by_role("button", name="Before")
    before.press("Enter")
    expect(before).to_be_focused()
    expect(before).to_have_attribute("aria-pressed", "true")
    page.locator("#replay .maps").focus()
    page.keyboard.press("ArrowRight")
    assert "∞" not in readout(page, "scores").inner_text()


def test_a_value_under_the_pointer_and_by_touch(play: Open):
    page = play(390, has_touch=True).page
    go(page, 1)
    canvas = block(page, "scores").locator("canvas").nth(1)
    size = box(canvas)
    canvas.tap(position={"x": size["width"] * 0.9, "y": size["height"] * 0.1})
    expect(readout(page, "scores")).to_contain_text("scores[0, 3, 0, 1] = ")
    canvas.hover(position={"x": size["width"] * 0.1, "y": size["height"] * 0.9})
    expect(readout(page, "scores")).to_contain_text("scores[4, 0, 0, 1] = ")


def test_chips_are_buttons_for_their_tensors(sample: Sample, served: Open):
    """Before the panel is there they can be clicked, and from then on reached by keyboard."""
    page = served().page

    def chip(step: int) -> Locator:
        number = page.locator(f"#L{sample.steps[step]['line']}")
        return number.locator("xpath=following-sibling::samp[1]/i")

    slider = page.locator("#replay input[type=range]")
    chip(4).click()
    expect(slider).to_have_value("4")
    assert page.evaluate("document.activeElement.className") == "maps"
    page.keyboard.press("Escape")
    assert chip(4).evaluate("chip => chip === document.activeElement")
    expect(chip(1)).to_have_role("button")
    chip(1).press("Enter")
    expect(slider).to_have_value("1")
    # Lines that the replay does not come to stay as they are.
    buttons = page.locator(".c samp [role=button]").count()
    assert 4 < buttons < page.locator(".c samp").count()


@pytest.mark.parametrize(("url", "width", "theme"), each_in_one_look(LESSONS))
def test_the_stops_of_the_lessons(url: str, width: int, theme: str, visit: Open):
    window = visit(url, width, theme)
    page = window.page
    assert not [url for url in window.requests if "/replays/" in url]
    page.locator(".replay-start").press("Enter")
    page.locator("#replay").wait_for()
    stops = page.locator("#replay .stops button")
    assert stops.count() >= 3
    for stop in stops.all():
        stop.press("Enter")
        expect(page.locator("#replay .note")).not_to_be_empty()
        assert page.locator("[aria-current=step].n").count() == 1
        assert page.locator("#replay .line.ran").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The panels are alike: axe looks at a small dark one and a large light one.
    assert url not in LESSONS[:2] or violations(window, "#replay") == []


def test_stops_by_name_wherever_the_focus_is(visit: Open):
    page = visit(MHA).page
    page.locator(".replay-start").press("Enter")
    page.locator("#replay").wait_for()
    runs = page.locator("#replay .runs button")
    expect(runs).to_have_count(2)
    at = page.locator("#replay [aria-current=step]")
    page.evaluate("document.activeElement.blur()")
    count = page.locator("#replay .stops button").count()
    for _ in range(count):
        expect(page.locator("#replay .note")).not_to_be_empty()
        expect(page.locator("#replay .tensor")).not_to_have_count(0)
        page.keyboard.press("ArrowRight")
    expect(at).to_have_text("Result")
    page.keyboard.press("ArrowLeft")
    expect(at).to_have_text("Weights")
    page.get_by_role("button", name="Scores", exact=True).click()
    # In a field the arrows belong to the field.
    page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    page.locator("main > textarea").press("ArrowRight")
    expect(at).to_have_text("Scores")
    runs.nth(1).click()
    expect(page.locator("#replay .stops button")).to_have_count(8)


def test_the_page_is_never_thrown_about(visit: Open):
    """From stop to stop it moves once by more than a screen, to the method with most of them."""
    page = visit(MHA).page
    page.locator(".replay-start").press("Enter")
    page.locator("#replay .line.ran").first.click()
    page.evaluate(SETTLED)
    page.evaluate(
        """() => {
          [window.before, window.far] = [scrollY, 0];
          addEventListener("scroll", () => {
            far += Math.abs(scrollY - before) > innerHeight;
            before = scrollY;
          });
        }"""
    )
    for key in ["ArrowRight"] * 7 + ["ArrowLeft"] * 3:
        page.keyboard.press(key)
        page.evaluate(SETTLED)
    assert page.evaluate("far") <= 1


@pytest.mark.parametrize(("width", "height"), [(720, 450), (1366, 657), (390, 844)])
def test_values_are_in_sight_in_a_low_window(width: int, height: int, visit: Open):
    window = visit(MHA, 1024)
    page = window.page
    page.set_viewport_size({"width": width, "height": height})
    page.locator(".replay-start").press("Enter")
    page.get_by_role("button", name="Scores", exact=True).press("Enter")
    for part in (".note", "canvas"):
        bounds = box(page.locator(f"#replay {part}").first)
        assert bounds["y"] + bounds["height"] <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_address_of_the_button_opens_it(visit: Open):
    page = visit(f"{MHA}#step-through").page
    expect(page.locator("#replay .note")).not_to_be_empty()


def test_the_tensor_that_a_stop_is_about_comes_first(visit: Open):
    page = visit("labml_nn/transformers/models.html").page
    page.locator(".replay-start").click()
    for run, name in enumerate(("attend.attn", "look.attn")):
        page.locator("#replay .runs button").nth(run).click()
        page.get_by_role("button", name="Weights", exact=True).click()
        expect(page.locator("#replay .note code")).to_have_text(name)
        expect(page.locator("#replay h3 b").first).to_have_text(name)


def test_playing_goes_to_the_next_stop(play: Open):
    page = play().page
    page.get_by_label("Speed").select_option("fast")
    button = page.get_by_role("button", name="Play to the next stop")
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("slider", name="Step")).to_have_value("3")
    expect(button).to_have_attribute("aria-pressed", "false")


def test_nothing_plays_where_motion_is_reduced(play: Open):
    page = play(reduced_motion="reduce").page
    expect(page.get_by_role("button", name="Next step")).to_be_visible()
    expect(page.locator("#replay .play")).to_be_hidden()


def test_axe_with_maps_and_numbers(play: Open):
    """In steps in which the panel has parts of every kind: maps, weights with sums, odd values."""
    window = play(390, "dark")
    for step in (0, 7, 4):
        go(window.page, step)
        assert violations(window, "#replay") == [], step
    for button in ("Numbers", "Small panel"):
        window.page.get_by_role("button", name=button).click()
        assert violations(window, "#replay") == [], button
