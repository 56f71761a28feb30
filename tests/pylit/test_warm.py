"""What a process keeps from build to build: drafts that need not be asked about again."""

from dataclasses import replace

import pytest

from pylit.model import Definition, Target
from pylit.pipeline.warm import Warm
from pylit.site.gathered import gathered

DRAFT = gathered("a.html", "A", "", ()).draft
LAYER = Target(Definition("class", "p.Layer", "Layer", 3, "(size)", "A layer."), "p.html#Layer")
KNOWN = {"p.Layer": LAYER}
NOTED = replace(LAYER, definition=replace(LAYER.definition, line=9, summary="A new note."))


def test_without_a_build_before_nothing_is_held():
    assert Warm().held(KNOWN) == {}


@pytest.mark.parametrize("now", [KNOWN, {"p.Layer": NOTED}])
def test_drafts_hold_while_they_would_be_told_the_same(now: dict[str, Target]):
    warm = Warm()
    warm.hold(KNOWN, [DRAFT])
    assert warm.held(now) == {"a.html": DRAFT}


@pytest.mark.parametrize(
    "now",
    [
        {},
        {**KNOWN, "p.other": LAYER},
        {"p.Layer": replace(LAYER, url="p.html#L3")},
        {"p.Layer": replace(LAYER, attributes={"norm": "p.Norm"})},
    ],
)
def test_what_is_told_otherwise_is_asked_for_again(now: dict[str, Target]):
    warm = Warm()
    warm.hold(KNOWN, [DRAFT])
    assert warm.held(now) == {}
