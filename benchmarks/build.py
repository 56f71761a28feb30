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

import rich

from benchmarks.command import Shown, go_through, options
from benchmarks.contest import Row, Run, contest
from benchmarks.growth import Rows, exponent
from benchmarks.peers import PUBLISHED, ROOT, MissingPeer, peer_folder
from pylit.pipeline.build import Builder, Options

PACKAGE, RICH = PUBLISHED / "labml_nn", Path(rich.__file__).parent
PYCCO, PDOC = "pycco", "pdoc"
FIRST, NEXT, AGAIN = "pylit, first build", "pylit, new pages", "pylit, nothing changed"
DOES = {
    PYCCO: "notes beside code",
    PDOC: "signatures and docstrings, links between them, search",
    FIRST: "notes beside code, mathematics, links in code, search, an audit of every link",
}
GROWTH = (28, 55, 110, 221)
#: A build takes seconds, and there are dozens of them.
ROUNDS = 3
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


def tell(what: str, made: Sequence[Row]) -> None:
    """What was found, while the rest is measured."""
    times = (f"{row['name']} {row['ms'] / 1000:.2f} s" for row in made)
    print(f"{what}: {', '.join(times)}", flush=True)


class Foreign:
    """Generators at work on a package, each build in a folder that is new."""

    def __init__(self, folder: Path, package: Path, jobs: int, kept: Path | None = None) -> None:
        self.folder = folder
        #: The cache of the builds that begin with one.
        self.kept = kept or folder / "kept"
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
        self.pylit(AGAIN, self.kept)
        return found | {
            FIRST: self.first,
            NEXT: self.next,
            AGAIN: partial(self.pylit, AGAIN, self.kept),
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
        """As on a new clone after `make install`: formulas to set, nothing is kept."""
        self.pylit(FIRST, self.folder / f"cache{next(self.number)}")

    def next(self) -> None:
        """As after an edit to the generator: all pages anew, formulas are kept."""
        shutil.rmtree(self.kept / "pages", ignore_errors=True)
        self.pylit(NEXT, self.kept)


def measure_foreign(folder: Path, rounds: int, jobs: int, package: Path) -> dict[str, Rows]:
    """The package, by each generator, and what came of it."""
    foreign = Foreign(folder, package, jobs)
    runs = foreign.runs()
    modules = sum(1 for _ in package.rglob("*.py"))
    first = next(iter(runs))
    setting = f"{package.name}, {modules} modules"
    made = contest(runs, first=first, rounds=rounds, warm_up=0)
    tell(setting, made)
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
        # One cache for all sizes: a formula is set once.
        foreign = Foreign(folder / f"of{size}", package, jobs, folder / "kept")
        runs = foreign.runs()
        ours = {form: runs[form] for form in (NEXT, AGAIN)}
        made = contest(ours, first=NEXT, rounds=rounds, warm_up=0)
        tell(f"{size} modules", made)
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


#: What is edited -> where, how, and in how many rounds: some edits run half of the figures again.
EDITS: Mapping[str, tuple[str, Callable[[Path, int], None] | None, int]] = {
    "nothing": (TRUNK, None, ROUNDS),
    "a note": (TRUNK, note_edited, ROUNDS),
    "a function that no other module uses": (LEAF, code_edited, 2),
    "a function that most models use": (TRUNK, code_edited, 1),
}


def measure_own(folder: Path, rounds: int, jobs: int) -> Rows:
    """Our own site after edits, by a new process and by one that serves it."""
    with clone(folder) as at:
        command = partial(run, ["build_site.py", "--jobs", str(jobs)], at)
        once = contest({"all": command}, first="all", rounds=1, warm_up=0)
        rows: Rows = [{"edited": "all of it is new", "form": "new process", **once[0]}]
        tell("all of it is new", once)
        # Each has a cache of its own; the second begins with what is in the first.
        cache = folder / "served-cache"
        shutil.copytree(at / ".cache" / "pylit", cache)
        settings = Options(root=at, out=folder / "served", cache=cache, jobs=1)
        with Builder(settings) as builder:
            serve = partial(_serve, builder)
            serve()
            builds: dict[str, Run] = {"new process": command, "process that serves": serve}
            for what, (where, edit, most) in EDITS.items():
                rows += _edited(
                    what, builds, partial(edit, at / where) if edit else None, rounds, most
                )
    return rows


def _serve(builder: Builder) -> None:
    """A build of the process that serves; one that fails measures nothing."""
    report = builder.build().report
    if report.failed:
        raise RuntimeError("\n".join(map(str, report))[:2000])


#: No edit is made twice.
_NUMBERS = count(1)


def _edited(
    what: str,
    builds: Mapping[str, Run],
    edit: Callable[[int], None] | None,
    rounds: int,
    most: int,
) -> Rows:
    """Builds after an edit, which each of them makes for itself."""

    def run_one(build: Run) -> None:
        if edit is not None:
            edit(next(_NUMBERS))
        build()

    runs = {form: partial(run_one, build) for form, build in builds.items()}
    # The first build after another kind of edit has more to do, unless all of it is long.
    warm_up = int(most == ROUNDS)
    made = contest(runs, first="new process", rounds=min(rounds, most), warm_up=warm_up)
    tell(what, made)
    return [{"edited": what, "form": row["name"], **row} for row in made]


TIMES = ("ms", "low", "high", "processor_ms", "ratio")
SHOWN: Shown = {
    "speed": ("Packages of others", ["setting", "form", *TIMES]),
    "sites": ("What came of it", ["setting", "form", "pages", "mb", "pages_a_second", "does"]),
    "growth": (
        "Growth, and its exponent over the lines",
        ["form", "modules", "lines", "ms", "processor_ms", "exponent"],
    ),
    "own": ("Our own site", ["edited", "form", *TIMES]),
}
#: What `--tables` may ask for.
TABLES = ("packages", "growth", "own")


def measure_packages(
    folder: Path, rounds: int, jobs: int, packages: Sequence[Path]
) -> dict[str, Rows]:
    """All packages, by each generator."""
    tables: dict[str, Rows] = {"speed": [], "sites": []}
    for package in packages:
        for table, rows in measure_foreign(folder / package.name, rounds, jobs, package).items():
            tables[table] += rows
    return tables


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__, tables=TABLES)
    rounds, jobs = min(chosen.rounds, ROUNDS), chosen.threads
    packages = [PACKAGE / "transformers/feedback"] if chosen.quick else [PACKAGE, RICH]
    sizes = (4, 8) if chosen.quick else GROWTH
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], Mapping[str, Rows]]] = {
            "packages": lambda: measure_packages(folder, rounds, jobs, packages),
            "growth": lambda: {"growth": measure_growth(folder / "growth", rounds, jobs, sizes)},
            "own": lambda: {"own": measure_own(folder / "own", rounds, jobs)},
        }
        if chosen.quick and not chosen.tables:
            del parts["own"]
        go_through("build", chosen, parts, SHOWN)


if __name__ == "__main__":
    main()
