"""A download leaves a right file or none. The server is one of our own."""

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from labml_nn.experiments import data as module

TEXT = b"First Citizen:\nBefore we proceed any further, hear me speak.\n"
ROOT = Path(__file__).parents[3]


class Server(ThreadingHTTPServer):
    """Answers as its `answer` says, and counts how often it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.answer = lambda reply: reply.send(TEXT)
        self.asked = 0
        self.released = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/input.txt"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        self.server.answer(self)

    def send(self, data, promised=None):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) if promised is None else promised))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    served = Server()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(module, "ADDRESS", served.address)
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(TEXT).hexdigest())
    monkeypatch.setattr(module, "SIZE", len(TEXT))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield served
    served.released.set()
    served.shutdown()
    served.server_close()
    thread.join()


def test_what_comes_is_kept_for_the_next_run(server, tmp_path):
    folder = tmp_path / "new" / "cache"
    assert module.download(folder) == TEXT.decode()
    assert [path.name for path in folder.iterdir()] == ["tinyshakespeare.txt"]
    assert module.read_cached(folder) == TEXT.decode()
    assert server.asked == 1


def test_nothing_is_kept_yet(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no .*tinyshakespeare.txt"):
        module.read_cached(tmp_path)


@pytest.mark.parametrize("data", [TEXT[:-1], TEXT.replace(b"F", b"f"), b""])
def test_another_text_is_not_kept(server, tmp_path, data):
    server.answer = lambda reply: reply.send(data)
    with pytest.raises(ValueError, match=f"is not Tiny Shakespeare: {len(data)} bytes with the"):
        module.download(tmp_path)
    assert not list(tmp_path.iterdir())
    assert server.asked == 1


def test_an_answer_without_an_end_is_not_read_to_the_end(server, tmp_path):
    def pour(reply):
        reply.send(TEXT, promised=10**9)
        while not server.released.wait(0.001):
            reply.wfile.write(b"x" * 1000)

    server.answer = pour
    with pytest.raises(ValueError, match=rf"not Tiny Shakespeare: more than {len(TEXT)} bytes"):
        module.download(tmp_path)


def test_an_answer_that_breaks_off(server, tmp_path):
    server.answer = lambda reply: reply.send(TEXT[:20], promised=len(TEXT))
    with pytest.raises((ValueError, OSError), match=r"20 bytes|IncompleteRead"):
        module.download(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_error_is_no_text(server, tmp_path):
    server.answer = lambda reply: reply.send_error(404)
    with pytest.raises(ConnectionError, match=r"127.0.0.1.*404"):
        module.download(tmp_path)
    assert server.asked == 1


def test_nobody_there(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ADDRESS", "http://127.0.0.1:9/input.txt")
    with pytest.raises(ConnectionError, match=r"127.0.0.1:9.*refused"):
        module.download(tmp_path)


def test_what_is_no_http_at_all(server, tmp_path):
    server.answer = lambda reply: reply.wfile.write(b"login please\n")
    with pytest.raises(ConnectionError, match="login please"):
        module.download(tmp_path)


def test_nobody_waits_long_for_an_answer(server, tmp_path, monkeypatch):
    server.answer = lambda reply: server.released.wait(9)
    monkeypatch.setattr(module, "ANSWERS_WITHIN", 0.1)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0.1 seconds"):
        module.download(tmp_path)
    assert time.monotonic() - begun < 2
    assert server.asked == 1


def test_nobody_waits_long_for_the_rest(server, tmp_path, monkeypatch):
    def begin_only(reply):
        reply.send(TEXT[:9], promised=len(TEXT))
        server.released.wait(9)

    server.answer = begin_only
    monkeypatch.setattr(module, "ENDS_WITHIN", 0.1)
    with pytest.raises((TimeoutError, ConnectionError), match=r"not all of it came|timed out"):
        module.download(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_text_that_cannot_be_kept_is_a_text(server, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING):
        assert module.download(tmp_path / "cache") == TEXT.decode()
    (message,) = caplog.messages
    assert message.startswith("The next run has to download again: ")


def test_a_full_disk_leaves_what_was_there(server, tmp_path, monkeypatch, caplog):
    path = tmp_path / "tinyshakespeare.txt"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert module.download(tmp_path) == TEXT.decode()
    assert "No space left" in caplog.text
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"old"]


def test_a_damaged_file_is_noticed_and_replaced(server, tmp_path):
    path = tmp_path / "tinyshakespeare.txt"
    path.write_bytes(TEXT[:-3])
    with pytest.raises(ValueError, match=r"tinyshakespeare.txt is not Tiny Shakespeare"):
        module.read_cached(tmp_path)
    module.download(tmp_path)
    assert path.read_bytes() == TEXT


def test_many_at_once_leave_one_whole_file(server, tmp_path):
    texts = []
    threads = [
        threading.Thread(target=lambda: texts.append(module.download(tmp_path))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for path in tmp_path.glob("tinyshakespeare.txt"):
            assert path.read_bytes() == TEXT
    assert texts == [TEXT.decode()] * 8
    assert [path.name for path in tmp_path.iterdir()] == ["tinyshakespeare.txt"]


def test_a_process_that_is_killed_leaves_no_half(server, tmp_path):
    """It is killed while half of the text is on its way."""
    halfway = threading.Event()

    def half(reply):
        reply.send(TEXT[:30], promised=len(TEXT))
        reply.wfile.flush()
        halfway.set()
        server.released.wait(20)

    server.answer = half
    code = (
        "import sys; from pathlib import Path\n"
        "from labml_nn.experiments import data as module\n"
        f"module.ADDRESS = {server.address!r}\n"
        f"module.download(Path({str(tmp_path)!r}))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    try:
        assert halfway.wait(30)
    finally:
        child.kill()
        child.wait()
    assert not list(tmp_path.iterdir())


def test_the_folder_is_where_caches_are(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.cache_folder() == tmp_path / "labml_nn"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unset in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert module.cache_folder() == tmp_path / "home" / ".cache" / "labml_nn"


def test_a_user_without_a_home_has_a_folder(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert module.cache_folder() == Path(tempfile.gettempdir()) / "labml_nn"
