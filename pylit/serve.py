"""``pylit serve``: build, show over HTTP, watch, and build again what an edit touches.

One process, warm: what a build has read of the cache and Node stay for the next one. A thread
watches and builds; the server shows what stands, and tells a script in its pages of each build.
"""

import asyncio
import html
import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from watchfiles import DefaultFilter, watch

from pylit.build import SEARCH, Builder
from pylit.cache import digest
from pylit.config import load_config
from pylit.diagnostics import Report, Severity
from pylit.notebooks.pages import FOLDER
from pylit.outcome import Options, tell
from pylit.write import MANIFEST

_SCRIPT = Path(__file__).with_name("reload.js")
_EVENTS, _RELOAD = "/__pylit__/events", "/__pylit__/reload.js"
#: A page elsewhere whose name was made to lead here must not read drafts.
_HOSTS = ["localhost", "127.0.0.1"]


def serve(options: Options, port: int, first: Callable[[], int]) -> int:
    """Serve until Ctrl-C. `first` builds the site before anything is shown."""
    try:
        # This machine only: drafts are nobody else's business.
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        way = "Try another --port, or --port 0 for any free one."
        print(f"Port {port} cannot be used: {error.strerror}. {way}", file=sys.stderr)
        return 1
    with listening:
        first()
        host, actual = listening.getsockname()[:2]
        print(f"http://{host}:{actual}/ shows {options.out}; Ctrl-C ends it.", flush=True)
        # Other processes would have to be started from a process with threads; one edit needs none.
        live = Live(replace(options, jobs=1, serving=True))
        thread = threading.Thread(target=live.watch)
        thread.start()
        try:
            with suppress(KeyboardInterrupt):
                live.server.run(sockets=[listening])
        finally:
            live.stop.set()
            thread.join()
    return 0


class Live(StaticFiles):
    """One output folder, kept up to date, and what is wrong with its last build."""

    def __init__(self, options: Options) -> None:
        super().__init__(directory=options.out, html=True, check_dir=False)
        # There may be no site yet.
        self.config_checked = True
        self.options = options
        self.stop = threading.Event()
        self._show("")
        reload = Route(_RELOAD, lambda _: FileResponse(_SCRIPT))
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)
        app = Starlette(
            routes=[Route(_EVENTS, self._events), reload, Mount("/", self)], middleware=[hosts]
        )
        self.server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=2)
        )

    def watch(self) -> None:
        """Build, and again after each edit, until `stop` is set."""
        options = self.options
        ours = [f"{path.resolve()}{os.sep}" for path in (options.out, options.cache) if path]
        with Builder(options, shown=lambda: self._show("")) as builder:
            folders, stale = self._watched(), True
            while not self.stop.is_set():
                # Watching begins before the build, so that no edit falls between the two.
                for edits in watch(
                    *folders,
                    watch_filter=DefaultFilter(ignore_paths=ours),
                    debounce=40,  # An editor writes a file in several steps, which are one edit.
                    step=10,
                    rust_timeout=200,
                    yield_on_timeout=True,
                    stop_event=self.stop,
                ):
                    if edits or stale:
                        self._build(builder)
                    before, folders = folders, self._watched() if edits else folders
                    # An edit to the settings may have named another folder.
                    if stale := folders != before:
                        break

    def _build(self, builder: Builder) -> None:
        """Build, tell the terminal, and show browsers the pages or what is wrong."""
        try:
            outcome = builder.build()
        except Exception:  # A stage that met what nobody has thought of.
            fault = traceback.format_exc()
            print(fault, file=sys.stderr, flush=True)
            self._show(fault)
            return
        errors = [d for d in outcome.report if d.severity is Severity.ERROR]
        self._show("\n\n".join(map(str, errors)))
        tell(outcome, self.options)

    def _show(self, fault: str) -> None:
        """Browsers hear of the version that stands, and what is wrong with the next."""
        manifest, version = self.options.out / MANIFEST, "none"
        if manifest.is_file():
            # What only search has new is no reason to load a page again.
            files = json.loads(manifest.read_text(encoding="utf-8"))["files"].items()
            shown = [(path, digests) for path, digests in files if not path.startswith(SEARCH)]
            version = digest(repr(shown))[:16]
        self._state = (version, fault)

    def _watched(self) -> list[Path]:
        """Folders, each with all that is below it."""
        options, sources = self.options, list(self.options.sources)
        if not sources:
            config = load_config(options.docs / "site.toml", "site.toml", Report())
            sources = [options.root / name for name in config.sources] if config else []
        paths = (*sources, options.theme, options.docs, options.root / FOLDER)
        found = (path.resolve() for path in paths if path.exists())
        return sorted({path if path.is_dir() else path.parent for path in found})

    async def _events(self, _: Request) -> Response:
        """Server-sent events: the state now, and at each change."""

        async def stream() -> AsyncIterator[str]:
            told = None
            while not self.server.should_exit:
                if told != self._state:
                    told = self._state
                    state = json.dumps({"version": told[0], "fault": told[1]})
                    yield f"retry: 300\ndata: {state}\n\n"
                await asyncio.sleep(0.02)

        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file of the site: a page with the script, its 404 page, or what is wrong."""
        try:
            # Hidden files are ours alone.
            response = await super().get_response(path.lstrip(".") or ".", scope)
        except HTTPException:
            fault = html.escape(self._state[1])
            text = f"<!doctype html><title>No page</title><body><pre>{fault}</pre></body>"
            return self._page(text.encode(), 404)
        if isinstance(response, FileResponse) and response.media_type == "text/html":
            return self._page(Path(response.path).read_bytes(), response.status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response

    def _page(self, data: bytes, status: int) -> Response:
        script = f'<script src="{_RELOAD}" data-version="{self._state[0]}"></script>'.encode()
        body, end, rest = data.rpartition(b"</body>")
        data = body + script + end + rest
        return Response(data, status, {"Cache-Control": "no-store"}, "text/html")
