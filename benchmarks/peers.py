"""The packages that people would use instead, each in a folder of its own.

    python -m benchmarks.peers               # installs what is missing, as make bench does
    python -m benchmarks.peers pdoc pycco    # these two

A peer and what it needs are named below, each with its version, and nothing else is installed: no
peer can bring a torch of its own. They lie outside `.venv`, so that nothing of ours can come to
depend on them. For the time of an import a peer's folder is on the path, so that it and we take
turns in one process, with one torch, its threads and its allocator.
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "peers"
#: labml-nn 0.5.1, put there by `make install`: the tests compare with it as well.
PUBLISHED = ROOT / ".cache" / "oracle"
PYGMENTS, JINJA = "pygments==2.21.0", ("jinja2==3.1.6", "markupsafe==3.0.4")
PEERS: dict[str, tuple[str, ...]] = {
    "feedback_transformer_pytorch": ("feedback-transformer-pytorch==0.0.11", "einops==0.8.2"),
    "pycco": (
        *("pycco==0.6.0", "markdown==3.11.3", PYGMENTS),
        *("pystache==0.6.8", "smartypants==2.0.2"),
    ),
    "pdoc": ("pdoc==16.0.0", *JINJA, "markdown2==2.5.5", PYGMENTS),
}
#: labml-nn calls an experiment tracker while it computes; a stub with any name will do.
STUBS = ("labml", "labml.logger", "labml.utils", "labml_nn.transformers.configs")

_published: dict[str, ModuleType] = {}


class MissingPeer(RuntimeError):
    """It is not installed: its rows are left out."""


def peer(name: str) -> ModuleType:
    """A peer's package, imported."""
    with _first_on_path(peer_folder(name)):
        return importlib.import_module(name)


def peer_folder(name: str) -> Path:
    """Where a peer is installed, for one that runs in a process of its own."""
    if name not in PEERS:
        raise ValueError(f"{name!r} is no peer; there are {', '.join(PEERS)}")
    if not _installed(name):
        raise MissingPeer(
            f"{name} is not installed; `make bench` does it, where there is a network"
        )
    return FOLDER / name


def published(name: str) -> ModuleType:
    """A module of the published labml-nn 0.5.1, say `labml_nn.transformers.feedback`.

    It has the import name of ours. Ours steps aside while it is imported, and is there again
    afterwards; the published module keeps its own parts, and both can be used side by side.
    """
    if not (PUBLISHED / "labml_nn").is_dir():
        raise MissingPeer("labml-nn 0.5.1 is not installed; `make install` does it")
    ours = _take_out()
    sys.modules.update(_published or {stub: MagicMock(name=stub) for stub in STUBS})
    try:
        with _first_on_path(PUBLISHED), _plain_imports():
            module = importlib.import_module(name)
        assert PUBLISHED in Path(str(module.__file__)).parents, module.__file__
    finally:
        _published.update(_take_out())
        sys.modules.update(ours)
    return module


def _take_out() -> dict[str, ModuleType]:
    """The modules of labml and labml_nn, which are then imported no more."""
    names = [name for name in sys.modules if name.partition(".")[0] in ("labml", "labml_nn")]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _plain_imports() -> Iterator[None]:
    """Leave out what tools have put before Python's own way to find a module.

    An editable install says that `labml_nn` is ours, and the tests check shapes at each call.
    """
    finders = sys.meta_path[:]
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, PathFinder]
    try:
        yield
    finally:
        sys.meta_path[:] = finders


# Installing.


def install(name: str, command: Sequence[str] = (sys.executable, "-m", "pip")) -> str:
    """Put a peer into its folder, if it is not there. What hindered it, or nothing."""
    if _installed(name):
        return ""
    call = [*command, "install", "--quiet", "--no-deps", "--no-compile", "--upgrade"]
    call += ["--disable-pip-version-check", "--target", str(FOLDER / name), *PEERS[name]]
    try:
        told = subprocess.run(call, check=False, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if told.returncode:
        return _last_error(told.stderr) or f"pip ended with {told.returncode}"
    # Written last: a folder without it was not finished.
    _mark(name).write_text("\n".join(PEERS[name]) + "\n", encoding="utf-8")
    return ""


def _installed(name: str) -> bool:
    """Whole, and of the version that is asked for."""
    mark = _mark(name)
    return mark.exists() and mark.read_text(encoding="utf-8").split() == list(PEERS[name])


def _mark(name: str) -> Path:
    return FOLDER / name / ".installed"


def _last_error(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    return errors[-1].removeprefix("ERROR: ") if errors else ""


def main() -> None:
    """Install them. One that cannot be had is no failure: a line says so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    names = parser.parse_args().names or list(PEERS)
    for name in names:
        if name not in PEERS:
            parser.error(f"{name!r} is no peer; there are {', '.join(PEERS)}")
        hindered = install(name)
        if hindered:
            print(f"{name} cannot be installed, its rows will be missing: {hindered}")


if __name__ == "__main__":
    main()
