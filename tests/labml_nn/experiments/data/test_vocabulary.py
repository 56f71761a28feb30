"""From signs to numbers and back."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from labml_nn.experiments.data.vocabulary import Vocabulary

# Any character, halves of surrogate pairs among them.
ANY_TEXT = st.text(st.characters(exclude_categories=()), min_size=1, max_size=60)


@given(ANY_TEXT)
def test_any_text_comes_back(text):
    vocabulary = Vocabulary.from_text(text)
    tokens = vocabulary.encode(text)
    assert tokens.dtype == torch.long
    assert tokens.shape == (len(text),)
    assert vocabulary.decode(tokens) == vocabulary.decode(tokens.tolist()) == text


@given(ANY_TEXT)
def test_characters_are_sorted_and_there_once(text):
    vocabulary = Vocabulary.from_text(text)
    assert list(vocabulary) == sorted(set(text))
    assert len(vocabulary) == len(set(text))
    assert vocabulary == Vocabulary.from_text(text[::-1])


@given(ANY_TEXT, st.randoms())
def test_any_order_of_characters_is_kept(text, random):
    characters = sorted(set(text))
    random.shuffle(characters)
    vocabulary = Vocabulary("".join(characters))
    assert vocabulary.encode("".join(characters)).tolist() == list(range(len(characters)))
    assert vocabulary.encode(text).tolist() == [characters.index(c) for c in text]


@given(st.text("abc", min_size=1), st.characters(exclude_characters="abc"), st.text("abc\n"))
def test_an_unknown_character_is_named_with_its_place(known, unknown, rest):
    vocabulary = Vocabulary("abc\n")
    if unknown == "\n":
        unknown = "\r"
    text = known + unknown + rest
    with pytest.raises(ValueError, match="is not in the vocabulary") as raised:
        vocabulary.encode(text)
    assert str(raised.value).startswith(f"{unknown!r} (line 1, column {len(known) + 1})")


def test_place_is_counted_in_lines():
    vocabulary = Vocabulary.from_text("ROMEO: is the day so young\n")
    with pytest.raises(ValueError) as raised:
        vocabulary.encode("ROMEO:\nis the Day")
    assert str(raised.value) == (
        "'D' (line 2, column 8) is not in the vocabulary; write 'd', or use only its 19 "
        r"characters: \n :EMORadeghinostuy"
    )


def test_a_large_vocabulary_is_shown_by_its_start():
    characters = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))
    with pytest.raises(ValueError) as raised:
        Vocabulary(characters).encode("a")
    assert str(raised.value).endswith(f"use only its 500 characters: {characters[:120]}…")


def test_a_text_without_characters():
    vocabulary = Vocabulary("ab")
    assert vocabulary.encode("").tolist() == []
    assert vocabulary.encode("").dtype == torch.long
    assert vocabulary.decode(vocabulary.encode("")) == vocabulary.decode([]) == ""
    with pytest.raises(ValueError, match="`characters` is empty"):
        Vocabulary.from_text("")


def test_a_character_twice_is_refused():
    with pytest.raises(ValueError, match="`characters` holds 'o' 2 times"):
        Vocabulary("romeo")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([0, 1, 3], r"`tokens\[2\]` is 3; expected numbers from 0 to 2"),
        ([1, -1], r"`tokens\[1\]` is -1; expected numbers from 0 to 2"),
        (torch.tensor([7]), r"`tokens\[0\]` is 7"),
    ],
)
def test_numbers_without_a_character(tokens, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary("abc").decode(tokens)


def test_a_batch_is_not_a_text(unhooked):
    vocabulary = unhooked("labml_nn.experiments.data.vocabulary").Vocabulary("abc")
    with pytest.raises(ValueError, match=r"shape \[5, 1\]; expected one text, \[T\]: decode one"):
        vocabulary.decode(torch.zeros(5, 1, dtype=torch.long))


def test_is_a_sequence_of_signs():
    vocabulary = Vocabulary.from_text("romeo")
    assert [vocabulary[token] for token in range(4)] == list("emor")
    assert vocabulary[1:3] == "mo"
    assert "m" in vocabulary and "x" not in vocabulary
    assert vocabulary.index("r") == 3
    with pytest.raises(IndexError):
        vocabulary[4]


def test_is_a_value():
    vocabulary = Vocabulary.from_text("romeo")
    before = vocabulary.encode("more")
    for other in (pickle.loads(pickle.dumps(vocabulary)), copy.deepcopy(vocabulary)):
        assert other == vocabulary and hash(other) == hash(vocabulary)
        assert torch.equal(other.encode("more"), before)
    assert vocabulary != Vocabulary("romE")


def test_a_vocabulary_without_ascii():
    """The table ends at the highest known number; what lies behind it is unknown all the same."""
    vocabulary = Vocabulary("é𝄞")
    assert isinstance(vocabulary.encode("𝄞é"), Tensor)
    assert vocabulary.encode("𝄞é").tolist() == [1, 0]
    for unknown in ("\U0001f600", "a", "\0"):
        with pytest.raises(ValueError, match="not in the vocabulary"):
            vocabulary.encode(unknown)
