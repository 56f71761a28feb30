"""The site of the real modules, built once, and a Chromium that looks at it."""

import fcntl
import functools
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser_tools import Open, Visit, Windows
from playwright.sync_api import Browser

from pylit.cli import main


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the finished site, built once for all the processes that run tests."""
    beside = tmp_path_factory.getbasetemp()
    # Each process of pytest-xdist has a folder of its own, in one that belongs to all.
    shared = beside.parent if "PYTEST_XDIST_WORKER" in os.environ else beside
    folder = shared / "built" / "site"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            assert main(["build", "--run", "--out", str(folder)]) == 0
    return folder


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder as GitHub's pages do: what is not there is answered with ``404.html``."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory, "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[str]:
    """The address of the site's root."""
    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def java(required: Callable[..., str]) -> str:
    return required("java")


@pytest.fixture(scope="session")
def windows(browser: Browser, server: str) -> Windows:
    return Windows(browser, server)


@pytest.fixture
def visit(windows: Windows) -> Iterator[Open]:
    """Opens a page of the site in a window of its own; faults of the page fail the test."""

    def open_page(url: str, width: int = 1440, theme: str = "light", **options: object) -> Visit:
        visit = windows.open(width, theme, **options)
        visit.open(url)
        return visit

    yield open_page
    assert windows.close() == []
