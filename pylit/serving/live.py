"""The site over HTTP while its author works: pages with a reload script, and a stream of events."""

import asyncio
import html
import json
import mimetypes
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from pylit.cache import digest
from pylit.site.write import MANIFEST

_SCRIPT = Path(__file__).with_name("reload.js")
_EVENTS = "/__pylit__/events"
_RELOAD = "/__pylit__/reload.js"
#: A page elsewhere whose name was made to lead here must not read drafts.
_HOSTS = ["localhost", "127.0.0.1"]


class Live:
    """One output folder, what is wrong with its last build, and who wants to know."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._listeners: set[asyncio.Queue[str | None]] = set()
        self._closed = False
        self.fault = ""
        self.version = self._read_version()

    def tell(self, fault: str) -> None:
        """After a build: what is wrong (empty when nothing is); browsers hear of it at once."""
        self.fault, self.version = fault, self._read_version()
        for queue in self._listeners:
            queue.put_nowait(self._state())

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        for queue in self._listeners:
            queue.put_nowait(None)

    def _state(self) -> str:
        return json.dumps({"version": self.version, "fault": self.fault})

    def _read_version(self) -> str:
        """The manifest holds a digest of every file, so its own digest is that of the site."""
        try:
            return digest((self._out / MANIFEST).read_bytes())[:16]
        except OSError:
            return "none"

    async def events(self, _: Request) -> Response:
        """Server-sent events: the state now, and at each change."""
        return StreamingResponse(
            self._stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _stream(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            state: str | None = None if self._closed else self._state()
            while state is not None:
                yield f"retry: 300\ndata: {state}\n\n"
                state = await queue.get()
        finally:
            self._listeners.discard(queue)

    async def file(self, request: Request) -> Response:
        """A file of the site, or its 404 page."""
        path = request.path_params["path"]
        file = self._out / path
        try:
            inside = file.resolve().is_relative_to(self._out.resolve())
            is_folder = file.is_dir()
        except (OSError, ValueError):  # A name that no file can have.
            return self._missing()
        if not inside:
            return self._missing()
        if is_folder:
            if path and not path.endswith("/"):
                # Relative links of a folder's page count from inside the folder.
                return RedirectResponse(f"/{path}/")
            file /= "index.html"
        if path.startswith(".") or not file.is_file():
            return self._missing()
        return self._response(file, 200)

    def _missing(self) -> Response:
        page = self._out / "404.html"
        if page.is_file():
            return self._response(page, 404)
        text = f"<!doctype html><title>No site yet</title><pre>{html.escape(self.fault)}</pre>"
        return self._page(text.encode(), 404)

    def _response(self, file: Path, status: int) -> Response:
        data = file.read_bytes()
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if kind == "text/html":
            return self._page(data, status)
        return Response(data, status, {"Cache-Control": "no-cache"}, kind)

    def _page(self, data: bytes, status: int) -> Response:
        script = f'<script src="{_RELOAD}" data-version="{self.version}"></script>'.encode()
        body, end, rest = data.rpartition(b"</body>")
        data = body + script + end + rest if end else data + script
        return Response(data, status, {"Cache-Control": "no-store"}, "text/html")

    @staticmethod
    async def reload_script(_: Request) -> Response:
        """The script that `_page` names."""
        text = _SCRIPT.read_text(encoding="utf-8")
        return Response(text, 200, {"Cache-Control": "no-cache"}, "text/javascript")

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(
            routes=[
                Route(_EVENTS, self.events),
                Route(_RELOAD, self.reload_script),
                Route("/{path:path}", self.file),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)],
        )
