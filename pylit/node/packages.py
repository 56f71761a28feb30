"""What comes from npm: mathematics, fonts and the search. It is set up once, for all sites.

The packages lie in the user's cache, in a folder named by the content of the lock file: two
versions of the generator with the same lock file share it, and two with different ones do not mix.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pylit.cache import digest
from pylit.node.executable import NodeError, find_node, npm_command

#: The scripts that Node runs, and what npm is told to install.
SCRIPTS = Path(__file__).resolve().parent
_ORDERS = ("package.json", "package-lock.json", ".npmrc")


def user_cache() -> Path:
    """The folder ``PYLIT_CACHE``, else ``pylit`` where this system keeps its users' caches."""
    given = os.environ.get("PYLIT_CACHE")
    if given:
        return Path(given).absolute()
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "pylit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "pylit"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "pylit"


#: Where the packages lie, once they are set up.
FOLDER = user_cache() / "npm" / digest(*((SCRIPTS / name).read_bytes() for name in _ORDERS))[:16]
MODULES = FOLDER / "node_modules"


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
    npm = npm_command()
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
    files = {path.name: path.read_bytes() for path in sorted(SCRIPTS.glob("*.mjs"))}
    place = FOLDER / f"scripts-{digest(*files, *files.values())[:16]}"
    if not place.is_dir():
        new = Path(tempfile.mkdtemp(dir=FOLDER))
        for script, text in files.items():
            (new / script).write_bytes(text)
        try:
            new.rename(place)
        except OSError:  # Another process was faster.
            shutil.rmtree(new)
    return place / name
