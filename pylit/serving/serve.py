"""``build_site.py --serve``: build, show, watch, and build again what an edit touches.

One process, warm: what a build holds in memory and Node stay for the next one. The builds run in a
thread of their own, one after the other. An edit to the generator itself starts the process anew;
the listening socket goes over to the new one, so that a browser does not notice.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import uvicorn
from watchfiles import Change, awatch

from pylit.diagnostics import Report, Severity
from pylit.notebooks.pages import FOLDER
from pylit.pipeline.build import Builder, Options
from pylit.serving.live import Live
from pylit.site.config import load_config
from pylit.source.cpp import SUFFIXES as CPP

_GENERATOR = Path(__file__).resolve().parents[1]
#: How a restarted process learns of the socket that it inherits.
_INHERITED = "PYLIT_LISTENING"
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
        live = _Server(replace(options, jobs=1, serving=True), listening)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(live.run())
        if live.restart:
            os.set_inheritable(listening.fileno(), True)
            os.environ[_INHERITED] = str(listening.fileno())
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return 0


def _listen(port: int) -> socket.socket:
    inherited = os.environ.pop(_INHERITED, "")
    if inherited:
        return socket.socket(fileno=int(inherited))
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
        self.restart = False

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
        server = Server(config)
        watching = asyncio.create_task(self._watch(server))
        try:
            await server.serve(sockets=[self._listening.dup()])
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _watch(self, server: uvicorn.Server) -> None:
        loop = asyncio.get_running_loop()
        edits: asyncio.Queue[set[Path]] = asyncio.Queue()
        # Watching begins before the first build, so that no edit falls between the two.
        follower = asyncio.create_task(self._follow(edits))
        with ThreadPoolExecutor(1) as thread:
            try:
                await asyncio.sleep(0)
                self._live.tell(await loop.run_in_executor(thread, self._build))
                while not self.restart:
                    paths = await edits.get()
                    while not edits.empty():
                        paths |= edits.get_nowait()
                    if any(map(self._is_generator, paths)):
                        fault = await loop.run_in_executor(thread, _try_generator)
                        self.restart = server.should_exit = not fault
                    else:
                        fault = await loop.run_in_executor(thread, self._build)
                    self._live.tell(fault)
            finally:
                follower.cancel()
                await loop.run_in_executor(thread, self._close)

    async def _follow(self, edits: "asyncio.Queue[set[Path]]") -> None:
        """Put the paths of each edit in or below the folders of the site into `edits`."""
        changes = awatch(
            *self._watched(), watch_filter=self._concerns, debounce=_DEBOUNCE, step=_STEP
        )
        async for found in changes:
            edits.put_nowait({Path(path) for _, path in found})

    def _build(self) -> str:
        """Build, tell the terminal, and return what is wrong, for the browser."""
        from pylit.pipeline.summary import tell

        if self._builder is None:
            self._builder = Builder(self._options)
        try:
            outcome = self._builder.build()
        except Exception:  # A template or a stage in the middle of being edited.
            fault = traceback.format_exc()
            print(fault, file=sys.stderr, flush=True)
            return fault
        tell(outcome, self._options)
        errors = [d for d in outcome.report if d.severity is Severity.ERROR]
        return "\n\n".join(map(str, errors)) if outcome.report.failed else ""

    def _close(self) -> None:
        if self._builder is not None:
            self._builder.close()

    def _is_generator(self, path: Path) -> bool:
        """Whether an edit changes what this process runs or watches."""
        code = path.is_relative_to(_GENERATOR) and not path.is_relative_to(self._options.theme)
        return code or path == self._options.docs / "site.toml"

    def _watched(self) -> list[Path]:
        """Folders, each watched with all that is below it."""
        options = self._options
        sources = list(options.sources)
        if not sources:
            config = load_config(options.docs / "site.toml", "site.toml", Report())
            sources = [options.root / name for name in config.sources] if config else []
        folders = {p.resolve() if p.is_dir() else p.resolve().parent for p in sources}
        folders |= {_GENERATOR, options.theme, options.docs, options.root / FOLDER}
        folders = {path for path in folders if path.is_dir()}
        inside = {p for p in folders if any(p != q and p.is_relative_to(q) for q in folders)}
        return sorted(folders - inside)

    def _concerns(self, _: Change, path: str) -> bool:
        changed = Path(path)
        outputs = [folder for folder in (self._options.out, self._options.cache) if folder]
        if any(changed.is_relative_to(folder.resolve()) for folder in outputs):
            return False
        return changed.suffix in _SUFFIXES and not changed.name.startswith((".", "__pycache__"))


def _try_generator() -> str:
    """What is wrong with the edited generator; empty when it can be imported."""
    command = [sys.executable, "-c", "import pylit.cli, pylit.serving.serve"]
    result = subprocess.run(
        command, cwd=_GENERATOR.parent, capture_output=True, text=True, check=False
    )
    if result.returncode:
        print(result.stderr, file=sys.stderr, flush=True)
    return result.stderr if result.returncode else ""
