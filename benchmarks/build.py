"""What it costs to build pages: a package that nobody here wrote, and our own site.

    python -m benchmarks.build
    python -m benchmarks.build --threads 1 --rounds 3 --no-record

The packages are labml-nn 0.5.1, 221 modules, and rich. Beside our generator run two others, each in
a process of its own, as a user starts it. They do less, and say so in their rows: pycco sets notes
beside code; pdoc imports a package and writes down its signatures. It cannot show labml-nn, whose
experiments import half a dozen packages that are not installed here. Times are of whole processes,
the start of Python included; `--threads` says how many processes our generator may use.

It prints, and records for the page of the site:

* `speed`: the packages, by each generator
* `sites`: what came of it, in pages and megabytes
* `growth`: the first modules of the package, more and more of them, and the exponents
* `own`: our own site, after edits of several kinds
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import rich

from benchmarks.command import options
from benchmarks.contest import Run, contest
from benchmarks.growth import Rows, exponent
from benchmarks.peers import PUBLISHED, ROOT, MissingPeer, peer_folder
from benchmarks.record import record, show
from pylit.pipeline.build import Builder, Options

PACKAGE, RICH = PUBLISHED / "labml_nn", Path(rich.__file__).parent
PYCCO, PDOC = "pycco", "pdoc"
FIRST, NEXT, AGAIN = "pylit, first build", "pylit, new pages", "pylit, nothing changed"
DOES = {
    PYCCO: "notes beside code",
    PDOC: "signatures and docstrings, links between them, search",
    FIRST: "notes beside code, mathematics, links in code, search, an audit of every link",
}
GROWTH = (14, 28, 55, 110, 221)
#: Of our own sources: where each edit is made.
LEAF = "labml_nn/transformers/label_smoothing_loss.py"
TRUNK = "labml_nn/transformers/mha.py"


def run(command: Sequence[str | Path], cwd: Path = ROOT, path: Path | None = None) -> None:
    """A process to its end. `path` is where it finds its packages first."""
    environment = dict(os.environ) | ({"PYTHONPATH": str(path)} if path else {})
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr[-2000:]}")


class Foreign:
    """Generators at work on a package, each build in a folder that is new."""

    def __init__(self, folder: Path, package: Path, jobs: int) -> None:
        self.folder = folder
        self.package = package
        self.jobs = jobs
        self.number = count()
        #: Form -> the folder of its latest site.
        self.latest: dict[str, Path] = {}

    def runs(self) -> dict[str, Run]:
        """What there is to compare; peers that are not installed are left out."""
        found: dict[str, Run] = {}
        for name, build in {PYCCO: self.pycco, PDOC: self.pdoc}.items():
            if name == PDOC and self.package.is_relative_to(PUBLISHED):
                continue
            try:
                found[name] = partial(build, peer_folder(name))
            except MissingPeer as missing:
                print(missing)
        kept = self.folder / "kept"
        self.pylit(AGAIN, kept)
        return found | {
            FIRST: self.first,
            NEXT: partial(self.next, kept),
            AGAIN: partial(self.pylit, AGAIN, kept),
        }

    def new(self, form: str) -> Path:
        """A folder for one site."""
        self.latest[form] = folder = self.folder / f"site{next(self.number)}"
        return folder

    def pycco(self, at: Path) -> None:
        """Notes beside code."""
        files = sorted(self.package.rglob("*.py"))
        main = "from pycco.main import main; main()"
        run(["-c", main, "--paths", "--directory", self.new(PYCCO), *files], path=at)

    def pdoc(self, at: Path) -> None:
        """It imports what it shows, and whatever that imports has to be installed."""
        run(["-P", "-m", "pdoc", "--output-directory", self.new(PDOC), self.package], path=at)

    def pylit(self, form: str, cache: Path) -> None:
        """Ours; the output of an unchanged build is the one that stands."""
        again = form == AGAIN and form in self.latest
        out = self.latest[form] if again else self.new(form)
        where: list[str | Path] = ["--source", self.package, "--out", out, "--cache", cache]
        run(["build_site.py", *where, "--jobs", str(self.jobs)])

    def first(self) -> None:
        """As on a new clone: fonts to cut, formulas to set, nothing is kept."""
        self.pylit(FIRST, self.folder / f"cache{next(self.number)}")

    def next(self, kept: Path) -> None:
        """As after an edit to the generator: all pages anew, fonts and formulas are kept."""
        shutil.rmtree(kept / "pages", ignore_errors=True)
        self.pylit(NEXT, kept)


def measure_foreign(folder: Path, rounds: int, jobs: int, package: Path) -> dict[str, Rows]:
    """The package, by each generator, and what came of it."""
    foreign = Foreign(folder, package, jobs)
    runs = foreign.runs()
    modules = sum(1 for _ in package.rglob("*.py"))
    first = next(iter(runs))
    setting = f"{package.name}, {modules} modules"
    made = contest(runs, first=first, rounds=rounds, warm_up=0)
    sites: Rows = []
    for row in made:
        form = row["name"]
        if form in DOES:
            pages, size = weigh(foreign.latest[form])
            what = {
                "setting": setting,
                "form": form,
                "pages": pages,
                "mb": size,
                "does": DOES[form],
            }
            sites.append(what | {"pages_a_second": 1000 * pages / row["ms"]})
    speed: Rows = [{"setting": setting, "form": row["name"], **row} for row in made]
    return {"speed": speed, "sites": sites}


def weigh(site: Path) -> tuple[int, float]:
    """How many pages a site has, and its megabytes."""
    files = [path for path in site.rglob("*") if path.is_file()]
    return sum(path.suffix == ".html" for path in files), sum(f.stat().st_size for f in files) / 1e6


def measure_growth(folder: Path, rounds: int, jobs: int, sizes: Sequence[int]) -> Rows:
    """Packages of the first modules, more and more of them, and the exponents of their times."""
    rows: Rows = []
    everything = sorted(PACKAGE.rglob("*.py"))
    for size in sizes:
        package = folder / f"part{size}" / "labml_nn"
        for file in everything[:size]:
            copy = package / file.relative_to(PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        foreign = Foreign(folder / f"of{size}", package, jobs)
        runs = foreign.runs()
        ours = {form: runs[form] for form in (NEXT, AGAIN)}
        made = contest(ours, first=NEXT, rounds=rounds, warm_up=0)
        lines = sum(len(file.read_bytes().splitlines()) for file in everything[:size])
        rows += [{"form": row["name"], "modules": size, "lines": lines, **row} for row in made]
    for row in rows:
        same = [one for one in rows if one["form"] == row["form"]]
        # Of the lines: modules are not alike.
        row["exponent"] = exponent([one["lines"] for one in same], [one["ms"] for one in same])
    return rows


# Our own site.


@contextmanager
def clone(folder: Path) -> Iterator[Path]:
    """A copy of what our site is made of, to edit."""
    at = folder / "clone"
    for name in ("docs_src", "labml_nn", "notebooks", "pylit", "benchmarks"):
        skipped = shutil.ignore_patterns("node_modules", "__pycache__")
        shutil.copytree(ROOT / name, at / name, ignore=skipped)
    for name in ("build_site.py", "setup.py", "constraints.txt"):
        shutil.copy(ROOT / name, at / name)
    (at / "docs_src/node_modules").symlink_to(ROOT / "docs_src/node_modules")
    yield at


def note_edited(path: Path, number: int) -> None:
    """Another word in a comment."""
    _edit(path, r"(?m)^( +# [A-Z][^\n]*?)(?: Edit \d+\.)?$", rf"\g<1> Edit {number}.")


def code_edited(path: Path, number: int) -> None:
    """Another statement in a function."""
    _edit(path, r"(?m)^(?: +edited = \d+\n)?( +)(return )", rf"\g<1>edited = {number}\n\g<1>\g<2>")


def _edit(path: Path, pattern: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    edited, found = re.subn(pattern, new, text, count=1)
    assert found and edited != text, path
    path.write_text(edited, encoding="utf-8")


#: What is edited -> where, and how.
EDITS: Mapping[str, tuple[str, Callable[[Path, int], None]] | None] = {
    "nothing": None,
    "a note": (TRUNK, note_edited),
    "a function that no other module uses": (LEAF, code_edited),
    "a function that most models use": (TRUNK, code_edited),
}


def measure_own(folder: Path, rounds: int, jobs: int) -> Rows:
    """Our own site after edits, by a new process and by one that serves it."""
    rows: Rows = []
    numbers = count(1)
    with clone(folder) as at:
        command = ["build_site.py", "--jobs", str(jobs)]
        settings = Options(root=at, out=folder / "served", cache=folder / "served-cache", jobs=1)
        once = contest({"all": partial(run, command, at)}, first="all", rounds=1, warm_up=0)
        rows += [{"edited": "all of it is new", "form": "new process", **row} for row in once]
        with Builder(settings) as builder:
            builder.build()
            for what, edit in EDITS.items():

                def change(build: Callable[[], object], edit: Any = edit) -> None:
                    if edit is not None:
                        edit[1](at / edit[0], next(numbers))
                    build()

                runs: dict[str, Run] = {
                    "new process": partial(change, partial(run, command, at)),
                    "process that serves": partial(change, builder.build),
                }
                made = contest(runs, first="new process", rounds=rounds, warm_up=1)
                rows += [{"edited": what, "form": row["name"], **row} for row in made]
    return rows


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__)
    rounds, jobs = min(chosen.rounds, 5), chosen.threads
    packages = [PACKAGE / "transformers/feedback"] if chosen.quick else [PACKAGE, RICH]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables: dict[str, Rows] = {"speed": [], "sites": []}
        for package in packages:
            found = measure_foreign(folder / package.name, rounds, jobs, package)
            for table, rows in found.items():
                tables[table] += rows
        sizes = (4, 8) if chosen.quick else GROWTH
        tables["growth"] = measure_growth(folder / "growth", min(rounds, 3), jobs, sizes)
        if not chosen.quick:
            tables["own"] = measure_own(folder / "own", rounds, jobs)
    times = ["ms", "low", "high", "processor_ms", "ratio"]
    show("Packages of others", tables["speed"], ["setting", "form", *times])
    show(
        "What came of it",
        tables["sites"],
        ["setting", "form", "pages", "mb", "pages_a_second", "does"],
    )
    growing = ["form", "modules", "lines", "ms", "processor_ms", "exponent"]
    show("Growth, and its exponent over the lines", tables["growth"], growing)
    if "own" in tables:
        show("Our own site", tables["own"], ["edited", "form", *times])
    if not chosen.no_record:
        print(record("build", tables, threads=chosen.threads))


if __name__ == "__main__":
    main()
