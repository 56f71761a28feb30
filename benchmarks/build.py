"""The generator of pages on packages that nobody here wrote, beside pycco and pdoc.

Every build is a process of its own, as a user starts it, and Python's start is part of the time.
The peers do less: pycco sets notes beside code; pdoc imports a package and lists its signatures (so
it cannot show labml-nn, whose experiments import packages that are not installed here).

Tables: `speed`, `own` (this site: everything new, and nothing changed).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import rich
import torch

from benchmarks.harness import ROOT, Rows, Run, Tables, compare
from benchmarks.peers import PUBLISHED, MissingPeer, peer_folder

FIRST, SAME = "pylit, first build", "pylit, nothing changed"


def run(command: Sequence[str | Path], path: Path | None = None) -> None:
    """A Python process to its end; `path` is where it finds packages first."""
    environment = dict(os.environ) | ({"PYTHONPATH": str(path)} if path else {})
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def builds(package: Path, folder: Path) -> dict[str, Run]:
    """Each generator at work on a package, into a new folder every time."""
    numbers, files = count(), sorted(package.rglob("*.py"))

    def new() -> Path:
        return folder / f"site{next(numbers)}"

    def pylit(out: Path, cache: Path) -> None:
        flags = ["--jobs", str(torch.get_num_threads())]
        source: list[str | Path] = [package, "--out", out, "--cache", cache]
        run(["build_site.py", "build", *source, *flags])

    def first() -> None:
        pylit(new(), new())

    found: dict[str, Run] = {FIRST: first}
    kept_site, kept_cache = new(), new()
    found[SAME] = lambda: pylit(kept_site, kept_cache)
    try:
        at = peer_folder("pycco")
        main = "from pycco.main import main; main()"
        found["pycco"] = lambda: run(["-c", main, "--paths", "--directory", new(), *files], path=at)
        if not package.is_relative_to(PUBLISHED):
            pdoc = peer_folder("pdoc")
            found["pdoc"] = lambda: run(
                ["-P", "-m", "pdoc", "--output-directory", new(), package], path=pdoc
            )
    except MissingPeer as missing:
        print(missing)
    return found


def own(folder: Path) -> dict[str, Run]:
    """This site, from nothing and once more."""
    numbers, kept = count(), folder / "kept"

    def build(out: Path, cache: Path) -> None:
        run(["build_site.py", "--out", out, "--cache", cache])

    def first() -> None:
        at = folder / f"own{next(numbers)}"
        build(at / "site", at / "cache")
        shutil.rmtree(at)

    return {FIRST: first, SAME: lambda: build(kept / "site", kept / "cache")}


def measure(quick: bool, rounds: int) -> Tables:
    """All tables; a build takes seconds, so there are at most three rounds."""
    rounds = min(rounds, 3)
    published = PUBLISHED / "labml_nn"
    packages = [published, Path(rich.__file__).parent]
    if quick:
        packages = [published / "transformers" / "feedback"]
    rows: Rows = []
    with tempfile.TemporaryDirectory() as name:
        for package in packages:
            modules = sum(1 for _ in package.rglob("*.py"))
            folder = Path(name) / package.name
            setting = f"{package.name}, {modules} modules"
            rows += compare(builds(package, folder), rounds=rounds, setting=setting)
        yield "speed", rows
        if not quick:
            yield "own", compare(own(Path(name) / "own"), rounds=rounds)
