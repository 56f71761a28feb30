"""One text, and the part of it that is held back."""

import hashlib
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labml_nn.experiments.data.corpus import Corpus, checksum


@given(st.text(min_size=1), st.floats(0.01, 0.99))
def test_the_two_splits_are_the_text(text, share):
    corpus = Corpus.of("any", text, validation_share=share)
    assert corpus.train_text + corpus.validation_text == text
    assert len(corpus.train_text) == int((1 - share) * len(text))
    tokens = torch.cat([corpus.train, corpus.validation])
    assert corpus.vocabulary.decode(tokens) == text


@pytest.mark.parametrize("size", [1, 10, 99, 1115394])
def test_cut_where_others_cut(size):
    """`data[: int(n * 0.9)]`, as nanoGPT has it."""
    assert len(Corpus.of("x", "x" * size).train_text) == int(size * 0.9)


def test_vocabulary_is_that_of_the_whole_text():
    corpus = Corpus.of("x", "aaaaaaaaaz")
    assert corpus.vocabulary.characters == "az"
    assert corpus.train.tolist() == [0] * 9
    assert corpus.validation.tolist() == [1]


def test_the_checksum_is_that_of_the_text():
    corpus = Corpus.of("x", "Hé\n")
    assert corpus.sha256 == checksum("Hé\n") == hashlib.sha256(b"H\xc3\xa9\n").hexdigest()
    assert corpus == Corpus("x", "Hé\n", corpus.sha256)


def test_the_text_is_not_shown():
    text = "x" * 1000
    assert text not in repr(Corpus.of("long", text))
    assert "long" in repr(Corpus.of("long", text))


def test_goes_to_another_process():
    corpus = Corpus.of("x", "to be, or not to be")
    tokens = corpus.train
    assert torch.equal(pickle.loads(pickle.dumps(corpus)).train, tokens)


def test_a_text_without_characters():
    with pytest.raises(ValueError, match=r"^my.txt is empty; expected a text to train on$"):
        Corpus.of("my.txt", "")


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_that_leaves_nothing(share):
    with pytest.raises(ValueError, match=r"`validation_share` \(.*\) must be between 0 and 1"):
        Corpus.of("x", "text", validation_share=share)
