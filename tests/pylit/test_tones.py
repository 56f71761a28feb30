"""Roles and their colours: words and symbols of a first reading."""

import re

import pytest
from site_tools import build, make_site, read, succeed

from pylit.notes.tones import Tones, read_tones

TONES = "{query: 3, key: 1, hidden state: 5}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("A query, two queries.", ["query 3", "queries 3"]),
        ("Keys and a key; a keyboard, monkeys", ["Keys 1", "key 1"]),
        ("the hidden state, hidden states", ["hidden state 5", "hidden states 5"]),
        ("a value &lt;key&gt;", ["key 1"]),
        ("nothing", []),
    ],
)
def test_a_word_has_its_tone_in_the_plural_too(words, expected):
    html = Tones(TONES).coloured(words)
    found = re.findall(r'<span class="t(\d)">(.*?)</span>', html)
    assert [f"{word} {tone}" for tone, word in found] == expected
    assert re.sub(r"</?span[^>]*>", "", html) == words


def test_a_variable_has_the_tone_of_its_word():
    tones = Tones(TONES)
    assert (tones.of("query"), tones.of("keys"), tones.of("monkey")) == (3, 1, None)
    letters = Tones("{i: 0, key: 1}")
    assert (letters.of("i"), letters.of("is")) == (0, None)
    assert letters.coloured("It is i: a key") == 'It is i: a <span class="t1">key</span>'
    assert not Tones("") and Tones("").of("key") is None


@pytest.mark.parametrize("written", ["query", "query: 9", "query: 3, key", "3: query"])
def test_what_names_no_tones(written):
    with pytest.raises(ValueError, match="no list of words"):
        Tones(written)
    assert not read_tones(written)


LESSON = '''\
r"""
---
title: Query by query
tones: {query: 3, key: 1}
---

## The query

A query meets a *key*, a `query` and a [key](https://example.org/key): $q_1 + Q = K d$.

| Symbol | Code |
|:--|:--|
| $Q$ | `query` |
| $K$ | `keys` |
| $d$ | `size` |
"""

def attend(query, keys, size):
    """A query again, and $Q$."""
    return query @ keys / size
'''


def test_words_and_symbols_have_their_colours_up_to_the_code(tmp_path):
    succeed(make_site(tmp_path, {"pkg/one.py": LESSON}))
    page = read(tmp_path, "pkg/one.html")
    head, _, code = page[page.index("<main") :].partition('id="attend"')
    words = re.findall(r'<span class="t(\d)">(\w+)</span>', head)
    assert words == [("3", "query"), ("1", "key")]
    assert {*re.findall(r'class="(y\d t\d) ', head)} == {"y1 t3", "y2 t1"}
    assert re.search(r'class="y3 mjx', head)
    assert '<span class="t' not in code
    assert re.search(r'class="y1 mjx', code) and not re.search(r'class="y\d t', code)


def test_tones_that_cannot_be_read_fail_the_build(tmp_path):
    wrong = LESSON.replace("{query: 3, key: 1}", "{query: violet}")
    outcome = build(make_site(tmp_path, {"pkg/one.py": wrong}))
    assert [one.message for one in outcome.report] == ["`tones` is `query: violet`"]
