"""``pylit serve``: build, show, watch, and build again what an edit touches.

One process, warm: what a build has read of the cache and Node stay for the next one. The builds run
in a thread of their own, one after the other.
"""

import asyncio
import contextlib
import os
import socket
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvicorn
from watchfiles import Change, awatch

from pylit.diagnostics import Report, Severity
from pylit.notebooks.pages import FOLDER
from pylit.pipeline.build import SEARCH, Builder, Options
from pylit.pipeline.outcome import tell
from pylit.serving.live import Live
from pylit.site.config import load_config
from pylit.site.write import Written
from pylit.source.cpp import SUFFIXES as CPP

_SUFFIXES = {"", ".py", *CPP, ".md", ".toml", ".html", ".css", ".js", ".mjs", ".json", ".svg"}
_SUFFIXES |= {".ipynb"}
#: Milliseconds: an editor writes a file in several steps, which are one edit.
_DEBOUNCE, _STEP = 40, 10


def serve(options: Options, port: int, first: Callable[[], int]) -> int:
    """Serve until Ctrl-C. `first` builds the site before anything is shown."""
    try:
        listening = _listen(port)
    except OSError as error:
        print(f"Port {port} cannot be used: {error.strerror}. {_another(port)}", file=sys.stderr)
        return 1
    with listening:
        first()
        host, actual = listening.getsockname()[:2]
        print(f"http://{host}:{actual}/ shows {options.out}; Ctrl-C ends it.", flush=True)
        # Other processes would have to be started from a process with threads; one edit needs none.
        server = _Server(replace(options, jobs=1, serving=True), listening)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(server.run())
    return 0


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # This machine only: drafts are nobody else's business.
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def _another(port: int) -> str:
    return f"Try --port {port + 1 if 1024 <= port < 65535 else 8000}, or --port 0 for any free one."


class _Server:
    """Builds and shows one site until it is told to stop."""

    def __init__(self, options: Options, listening: socket.socket) -> None:
        self._options = options
        self._listening = listening
        self._live = Live(options.out)
        self._builder: Builder | None = None

    async def run(self) -> None:
        """Serve, watch and build, side by side."""
        live = self._live

        class Server(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                live.close()
                await super().shutdown(sockets)

        config = uvicorn.Config(
            live.app(), log_level="warning", lifespan="off", timeout_graceful_shutdown=2
        )
        watching = asyncio.create_task(self._watch())
        try:
            await Server(config).serve(sockets=[self._listening.dup()])
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        loop, edited = asyncio.get_running_loop(), asyncio.Event()
        followers: dict[Path, asyncio.Task[None]] = {}
        with ThreadPoolExecutor(1) as thread:
            try:
                while True:
                    edited.clear()
                    # Watching begins before the build, so that no edit falls between the two. An
                    # edit to the settings may have named another folder.
                    for folder in self._watched():
                        if folder not in followers:
                            following = self._follow(folder, edited)
                            followers[folder] = asyncio.create_task(following)
                    await asyncio.sleep(0)
                    await loop.run_in_executor(thread, self._build, loop)
                    await edited.wait()
            finally:
                for follower in followers.values():
                    follower.cancel()
                await loop.run_in_executor(thread, self._close)

    async def _follow(self, folder: Path, edited: asyncio.Event) -> None:
        """Tell of each edit in a folder or below it."""
        changes = awatch(folder, watch_filter=self._concerns, debounce=_DEBOUNCE, step=_STEP)
        async for _ in changes:
            edited.set()

    def _build(self, loop: asyncio.AbstractEventLoop) -> None:
        """Build, tell the terminal, and show browsers the pages or what is wrong."""
        if self._builder is None:
            self._builder = Builder(self._options)
        early: list[Written] = []

        def show(fault: str) -> None:
            loop.call_soon_threadsafe(partial(self._live.tell, fault))

        def shown(written: Written) -> None:
            early.append(written)
            show("")

        try:
            outcome = self._builder.build(shown=shown)
        except Exception:  # A stage that met what nobody has thought of.
            fault = traceback.format_exc()
            print(fault, file=sys.stderr, flush=True)
            show(fault)
            return
        errors = [d for d in outcome.report if d.severity is Severity.ERROR]
        late = (*outcome.written.written, *outcome.written.deleted)
        # What only search has new is no reason to load a page again.
        if errors or not early or not all(path.startswith(SEARCH) for path in late):
            show("\n\n".join(map(str, errors)))
        for written in early:
            outcome.written.written[:0] = written.written
        tell(outcome, self._options)

    def _close(self) -> None:
        if self._builder is not None:
            self._builder.close()

    def _watched(self) -> list[Path]:
        """Folders, each watched with all that is below it."""
        options = self._options
        sources = list(options.sources)
        if not sources:
            config = load_config(options.docs / "site.toml", "site.toml", Report())
            sources = [options.root / name for name in config.sources] if config else []
        folders = {p.resolve() if p.is_dir() else p.resolve().parent for p in sources}
        folders |= {options.theme, options.docs, options.root / FOLDER}
        folders = {path for path in folders if path.is_dir()}
        inside = {p for p in folders if any(p != q and p.is_relative_to(q) for q in folders)}
        return sorted(folders - inside)

    def _concerns(self, _: Change, path: str) -> bool:
        changed = Path(path)
        outputs = [folder for folder in (self._options.out, self._options.cache) if folder]
        if any(changed.is_relative_to(folder.resolve()) for folder in outputs):
            return False
        return changed.suffix in _SUFFIXES and not changed.name.startswith((".", "__pycache__"))
