"""Makes the runs of the lessons' tasks: ``python -m docs_src.tasks attention --jobs 2``.

Without names it makes those of all tasks. A run that is kept is not repeated as long as its program
is the same; ``--again`` repeats it. ``--check`` repeats the first seed of each model, keeps nothing
and fails where it gives something else than what is kept.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context

from docs_src.tasks import FOLDER, Measured, Result, digest, kept, load, measure, names, seeds


def jobs(name: str) -> Iterator[tuple[str, int]]:
    """All runs of a task."""
    yield from ((model, seed) for model in load(name).MODELS for seed in seeds(name))


def write(name: str, found: dict[tuple[str, int], Result]) -> None:
    """Keep the results of a task; those of models and seeds that it no longer has go."""
    lines = [json.dumps(asdict(found[run])) for run in jobs(name) if run in found]
    path = FOLDER / f"{name}.jsonl"
    beside = path.with_suffix(".tmp")
    beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    beside.replace(path)


def other(kept: Measured, fresh: Measured) -> list[str]:
    """The measures in which a fresh run differs from the kept one by more than a thousandth."""

    def same(a: float | Sequence[float], b: float | Sequence[float]) -> bool:
        if isinstance(a, Sequence) and isinstance(b, Sequence):
            return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
        if isinstance(a, Sequence) or isinstance(b, Sequence):
            return False
        return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3)

    return [name for name in kept if name not in fresh or not same(kept[name], fresh[name])]


def check(name: str) -> bool:
    """Whether the first seed of each model gives what is kept of it."""
    found = {(result.model, result.seed): result for result in kept(name)}
    good = True
    for model in load(name).MODELS:
        run = model, seeds(name)[0]
        differ = other(found[run].measured, measure(name, *run).measured)
        good = good and not differ
        print(f"{name} {model}: {', '.join(differ) + ' differ' if differ else 'as it is kept'}")
    return good


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names())}")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--again", action="store_true", help="repeat what is kept")
    parser.add_argument("--check", action="store_true", help="compare, and keep nothing")
    given = parser.parse_args()
    for name in given.names:
        if name not in names():
            parser.error(f"there is no task {name!r}; known: {', '.join(names())}")
    # Each process computes on one thread.
    os.environ["OMP_NUM_THREADS"] = "1"
    if given.check:
        good = [check(name) for name in given.names or names()]
        sys.exit(not all(good))
    for name in given.names or names():
        found = {(result.model, result.seed): result for result in kept(name)}
        now = digest(name)
        missing = [
            run for run in jobs(name) if given.again or run not in found or found[run].digest != now
        ]
        print(f"{name}: {len(missing)} runs to make, {len(found)} kept")
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            waiting = {pool.submit(measure, name, *run): run for run in missing}
            for done in as_completed(waiting):
                result = done.result()
                found[waiting[done]] = result
                write(name, found)
                numbers = {k: v for k, v in result.measured.items() if isinstance(v, int | float)}
                print(f"{name} {result.model}, seed {result.seed}, {result.seconds} s: {numbers}")
        write(name, found)


if __name__ == "__main__":
    main()
