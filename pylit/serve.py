"""``pylit serve``: serve a site over HTTP, watch its sources, and rebuild after each edit.

A thread watches and builds; one process keeps Node and the cache in memory for the next build. A
script in the pages receives an event after each build. See decision 024.
"""

import asyncio
import html
import json
import os
import re
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
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from watchfiles import DefaultFilter, watch

from pylit.build import Builder
from pylit.cache import digest
from pylit.config import PYPROJECT, README, load_config
from pylit.diagnostics import Report, Severity
from pylit.outputs.folder import MANIFEST
from pylit.site.notebooks import FOLDER
from pylit.site.options import Options
from pylit.site.outcome import print_outcome

_SCRIPT = Path(__file__).with_name("reload.js")
_EVENTS, _RELOAD = "/__pylit__/events", "/__pylit__/reload.js"
#: Files that pages show nothing of; they are written after the pages.
_UNSEEN = re.compile(r"assets/(search(/|-index)|cards/)|.*\.(md|txt|inv|xml|zip)$")
#: Other names are refused: after DNS rebinding, a foreign page could read drafts.
_HOSTS = ["localhost", "127.0.0.1"]
#: No page of another site may include or frame what is served: the search index is a script, and
#: its texts are those of drafts.
_PRIVATE = [
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
]


def serve(options: Options, port: int, first: Callable[[], int]) -> int:
    """Serve until Ctrl-C. `first` builds the site before the first request."""
    try:
        # Drafts are for this machine only.
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
    except (OSError, OverflowError) as error:
        way = "try another --port, or --port 0 for any free one"
        print(f"Port {port} cannot be used ({error}); {way}", file=sys.stderr)
        return 1
    with listening:
        first()
        address = "http://{}:{}/".format(*listening.getsockname())
        print(f"{address} shows {options.out}; Ctrl-C ends it.", flush=True)
        live = DevelopmentServer(replace(options, serving=True))
        thread = threading.Thread(target=live.watch)
        thread.start()
        try:
            with suppress(KeyboardInterrupt):
                live.server.run(sockets=[listening])
        finally:
            live.stop.set()
            thread.join()
    return 0


class PrivateAnswers:
    """Adds the headers `_PRIVATE` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add to the beginning of its answer."""

        async def send_private(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_PRIVATE]
            await send(message)

        await self._app(scope, receive, send_private)


class DevelopmentServer(StaticFiles):
    """The output folder, rebuilt after each edit, and the faults of the last build."""

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
            routes=[Route(_EVENTS, self._events), reload, Mount("/", self)],
            middleware=[Middleware(PrivateAnswers), hosts],
        )
        self.server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=2)
        )

    def watch(self) -> None:
        """Build, and again after each edit, until `stop` is set."""
        options = self.options
        ignored = [f"{path.resolve()}{os.sep}" for path in (options.out, options.cache) if path]
        with Builder(options) as builder:
            while not self.stop.is_set():
                folders, pending, before = self._watched(), True, self._beside()
                # Watching begins before the build, so that no edit falls between the two.
                for edits in watch(
                    *folders,
                    watch_filter=DefaultFilter(ignore_paths=ignored),
                    debounce=40,  # An editor writes a file in several steps, which are one edit.
                    step=10,
                    rust_timeout=200,
                    yield_on_timeout=True,
                    stop_event=self.stop,
                ):
                    if edited := bool(edits) or before != self._beside():
                        before = self._beside()
                    if edited or pending:
                        self._build(builder)
                    pending = False
                    # An edit to the settings may have named another folder.
                    if edited and self._watched() != folders:
                        break

    def _build(self, builder: Builder) -> None:
        """Build twice, first the pages, then everything; show browsers the pages or the faults."""
        try:
            first = builder.build(quick=True)
            if not first.report.failed:
                self._show("")
            outcome = builder.build().after(first)
        except Exception:  # An error of the generator.
            fault = traceback.format_exc()
            print(fault, file=sys.stderr, flush=True)
            self._show(fault)
            return
        errors = [d for d in outcome.report if d.severity is Severity.ERROR]
        self._show("\n\n".join(map(str, errors)))
        print_outcome(outcome, self.options)

    def _show(self, fault: str) -> None:
        """Set the state for browsers: the version of the site, and the faults of the next."""
        manifest, version = self.options.out / MANIFEST, "none"
        if manifest.is_file():
            # What no page shows is no reason to reload one.
            files = json.loads(manifest.read_text(encoding="utf-8"))["files"].items()
            shown = [(path, digests) for path, digests in files if not _UNSEEN.match(path)]
            version = digest(repr(shown))[:16]
        self._state = (version, fault)

    def _watched(self) -> list[Path]:
        """The folders to watch, recursively."""
        options, sources = self.options, list(self.options.sources)
        if not sources:
            config = load_config(options.root, Report())
            sources = [options.root / name for name in config.sources] if config else []
        paths = (*sources, options.theme, options.docs, options.root / FOLDER)
        found = (path.resolve() for path in paths if path.exists())
        return sorted({path if path.is_dir() else path.parent for path in found})

    def _beside(self) -> list[int]:
        """The times of the files at the top of a project, of which all else is not watched."""
        paths = [self.options.root / name for name in (PYPROJECT, README)]
        return [path.stat().st_mtime_ns if path.is_file() else 0 for path in paths]

    async def _events(self, _: Request) -> Response:
        """Server-sent events: the state now, and at each change."""

        async def stream() -> AsyncIterator[str]:
            sent = None
            while not self.server.should_exit:
                if sent != self._state:
                    sent = self._state
                    state = json.dumps(dict(zip(("version", "fault"), sent, strict=True)))
                    yield f"retry: 300\ndata: {state}\n\n"
                await asyncio.sleep(0.02)

        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file of the site: a page with the script, the 404 page, or the faults."""
        try:
            # Hidden files are not served.
            response = await super().get_response(path.lstrip(".") or ".", scope)
        except HTTPException:
            fault = html.escape(self._state[1])
            return self._page(f"<!doctype html><pre>{fault}</pre></body>".encode(), 404)
        if isinstance(response, FileResponse) and response.media_type == "text/html":
            return self._page(Path(response.path).read_bytes(), response.status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response

    def _page(self, data: bytes, status: int) -> Response:
        script = f'<script src="{_RELOAD}" data-version="{self._state[0]}"></script>'
        data = data.replace(b"</body>", script.encode() + b"</body>")
        return Response(data, status, {"Cache-Control": "no-store"}, "text/html")
