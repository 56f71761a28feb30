"""The harness by which a lesson's test compares the script of a stage with the lesson."""

import pytest
from stages import check_first, play

from pylit.figures.draw import Choice, Figure, Knob, Panel, Stage, element, grab, hook, shown, text

SCRIPT = """
stages.double = ({ by }, { x, token = 0 }, parts, step) => {
  parts("number").forEach((part, i) => (part.textContent = short(x * by ** i)));
  parts("bar")[0].setAttribute("width", x * (1 + step));
  parts("bar")[0].classList.toggle("p-t1", x < 0);
  return _("{0} of token {1}, and {2}.", x, token, grouped(x * by * 1000));
};
"""


def figure(x=1.5, says="1.5 of token 0, and 4,500."):
    parts = [hook(text(0, 9, shown(x * 3**i)), "number") for i in range(2)]
    bar = element("rect", "f t0", width=x, height=9, data_p="bar")
    panels = [Panel(100, 20, (*parts, grab(bar, "x"))), Panel(100, 20, ())]
    knobs = [Knob("x", "number", -4, 4, 0.5, x), Choice("token", "of", ("the", "dog"))]
    return Figure(panels, "Numbers.", stage=Stage("double", knobs, {"by": 3}, says, ("One", "Two")))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "double.js").write_text(SCRIPT)
    return tmp_path


def test_a_test_sees_what_the_script_draws_and_says(folder):
    settings = ({}, {"step": 0.5, "x": -2}, {"token": 1})
    first, second, third = play(figure(), *settings, folder=folder)
    assert first.texts("number") == ["1.5", "4.5"] and first.places("bar", "width") == [1.5]
    assert second.numbers("number") == [-2, -6] and second.places("bar", "width") == [-3]
    assert second.elements["bar"][0].classes == ["p-f", "p-t0", "p-t1"]
    assert third.said == "1.5 of token 1, and 4,500."


def test_what_the_build_has_drawn_is_what_the_script_draws_first(folder):
    right = figure()
    check_first(right, folder=folder)
    bars = tuple(part.replace('width="1.5"', 'width="2"') for part in right.panels[0].parts)
    wrong = Figure([Panel(100, 20, bars)], "", stage=right.stage)
    for other in (figure(says="Another sentence."), wrong):
        with pytest.raises(AssertionError):
            check_first(other, folder=folder)


def test_what_a_page_gets_of_a_stage():
    picture = figure().picture()
    above, _, below = picture.partition('<div class="panels by-step"')
    assert above.count("<button") == 2 and above.count('aria-pressed="true"') == 1
    assert below.count('<svg class="at"') == 1 and below.count("<svg") == 2
    assert '<g class="grab" data-x="x" data-unit="24">' in below
    assert below.count('type="radio"') == 2 and below.count(' checked="') == 1
    # Steps that are no panels have no panel to mark.
    one = figure()
    assert "by-step" not in Figure(one.panels[:1], "", stage=one.stage).picture()
