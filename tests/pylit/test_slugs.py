"""Anchors, levels and numbers that the notes of one page share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylit.addresses import Anchors, slugify


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Multi-Head Attention", "multi-head-attention"),
        ("  What's new? ", "whats-new"),
        ("d_model", "d-model"),
        ("Aufmerksamkeit für alle", "aufmerksamkeit-für-alle"),
        ("注意", "注意"),
        ("!?", "section"),
    ],
)
def test_slugs_are_words_joined_by_hyphens(text, slug):
    assert slugify(text) == slug


@given(st.lists(st.text(alphabet="ab1-2 ", max_size=4)))
def test_no_anchor_is_given_twice_and_a_chosen_one_once(texts):
    slugs = Anchors(["a", "a-section"])
    assert slugs.slug("x", "mine") == ("mine", True)
    assert slugs.slug("x", "mine") == ("mine-2", False)
    anchors = [slugs.slug(text)[0] for text in texts]
    assert len(set(anchors)) == len(anchors)
    assert not {"a", "a-section", "mine"} & set(anchors)


@pytest.mark.parametrize(
    ("written", "levels"),
    [
        ([1, 2, 3, 2, 1], [2, 3, 4, 3, 2]),
        ([2, 3, 3, 2], [2, 3, 3, 2]),
        ([3, 3, 2, 3], [2, 2, 2, 3]),
        ([2, 5, 5, 4, 6], [2, 3, 3, 3, 4]),
        ([1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 6]),
    ],
)
def test_a_level_is_one_below_what_contains_it(written, levels):
    slugs = Anchors()
    assert [slugs.level(level) for level in written] == levels
