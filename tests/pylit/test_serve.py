"""The development server, over real HTTP, as a browser uses it."""

import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress

import pytest
from site_tools import REPOSITORY, cache, make_site, options, tree

from pylit.serve import serve


class Site:
    """A running ``pylit serve``."""

    def __init__(self, root):
        self.root = root
        command = [sys.executable, "-u", REPOSITORY / "build_site.py", "serve", root / "pkg"]
        command += ["--port", "0", "--out", root / "site", "--cache", cache(root)]
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen([str(c) for c in command], **pipe)
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.match(r"http://127\.0\.0\.1:\d+/", line):
                self.address = found[0]
                break
        self.listeners = []
        # What else it says must be read, or it stops at a full pipe.
        self.listen(lambda: self.said.extend(self.process.stdout))

    def listen(self, work):
        self.listeners.append(threading.Thread(target=work, daemon=True))
        self.listeners[-1].start()

    def get(self, path, host=""):
        """Status, headers and text; asked for by another name if `host` is one."""
        headers = {"Host": host} if host else {}
        request = urllib.request.Request(self.address + path, headers=headers)
        try:
            answer = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            endless = answer.headers["Content-Type"].startswith("text/event-stream")
            return answer.status, answer.headers, "" if endless else answer.read().decode()

    def events(self):
        """The states that a browser is told of, from now on."""
        states = queue.Queue()
        answer = urllib.request.urlopen(self.address + "__pylit__/events", timeout=60)

        def listen():
            with answer:
                for line in answer:
                    if line.startswith(b"data: "):
                        states.put(json.loads(line[6:]))

        self.listen(listen)
        return states

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(timeout=20)
        finally:
            self.process.kill()
        for listener in self.listeners:
            listener.join(timeout=20)
        self.process.stdout.close()
        return status


@pytest.fixture
def site(tmp_path):
    running = Site(make_site(tmp_path))
    yield running
    running.close()


def until(states, *, fault=False, after=""):
    """The first state with a fault or without one, of another version than `after`."""
    while True:
        state = states.get(timeout=60)
        if bool(state["fault"]) == fault and state["version"] != after:
            return state


def test_a_site_while_it_is_written(site):
    status, headers, home = site.get("")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    version = re.search(r'reload.js" data-version="(\w+)"', home)
    assert version and 'href="pkg/one.html"' in home
    assert site.get("__pylit__/reload.js")[1]["Content-Type"].startswith("text/javascript")
    assert site.get("assets/site.css")[1]["Content-Type"].startswith("text/css")
    status, _, missing = site.get("pkg/nowhere.html")
    assert status == 404 and "Page not found" in missing and "reload.js" in missing
    assert site.get("%2e%2e/%2e%2e/etc/passwd")[0] == 404
    assert site.get(".pylit-manifest.json")[0] == 404
    assert site.get("%00")[0] == site.get("x" * 5000)[0] == 404
    assert site.get("", host="localhost:1")[0] == 200
    status, _, refused = site.get("", host="drafts.example.org")
    assert status == 400 and "<html" not in refused
    assert site.get("pkg")[2] == site.get("pkg/")[2] == site.get("pkg/index.html")[2]
    for path in (site.root / "site").rglob("*.html"):
        assert "__pylit__" not in path.read_text(), "the reload script is never written"

    # Another site can neither include a draft's search index, which is a script, nor frame a page.
    scripts = "__pylit__/events", "__pylit__/reload.js", "assets/search-index.js"
    for path in ("", "nowhere", *scripts):
        headers = site.get(path)[1]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert site.get("", host="drafts.example.org")[1]["X-Frame-Options"] == "DENY"

    states = site.events()
    first = states.get(timeout=30)
    assert first == {"version": version[1], "fault": ""}
    one = site.root / "pkg/one.py"
    one.write_text(one.read_text().replace("More than none", "Fewer than two"))
    # Where the machine is busy, a build may find the file emptied and not yet written.
    told = until(states, after=first["version"])
    while "Fewer than two" not in site.get("pkg/one.html")[2]:
        told = until(states, after=told["version"])

    # The index of the search comes after the page.
    terms = site.root / "site/assets/search"
    while not any(b'"fewer"' in path.read_bytes() for path in terms.glob("terms-*.js")):
        time.sleep(0.02)
    # On a busy machine the other files may take their time.
    good: dict[str, str] = {}
    now: dict[str, str] | None = None
    while good != now:
        good = now or {}
        time.sleep(0.5)
        with suppress(FileNotFoundError):  # a file was moved to its place meanwhile
            now = tree(site.root / "site")
    # One change of the sources, or a busy machine builds the site between two.
    (site.root / "site/pkg/three.html").write_text("in the way")
    (site.root / "pkg/sub").mkdir()
    one.rename(site.root / "pkg/three.py")
    broken = until(states, fault=True)
    assert "in the way" in broken["fault"]
    (site.root / "site/pkg/three.html").unlink()
    assert tree(site.root / "site") == good, "the last good site stays"
    (site.root / "pkg/three.py").rename(one)
    until(states)

    assert site.close() == 0
    assert "Traceback" not in "".join(site.said)


def test_a_busy_port_is_said_clearly(tmp_path, capsys):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert serve(options(tmp_path), port, lambda: 0) == 1
    said = capsys.readouterr().err
    assert f"Port {port}" in said and "in use" in said and "--port 0" in said
