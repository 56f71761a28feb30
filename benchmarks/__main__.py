"""Run benchmarks, print their tables, and record them in docs_src/results/performance."""

import argparse
import importlib
import time

import torch

from benchmarks.harness import RESULTS, record, show

#: In this order. `training` takes an hour and is run by name only.
USUAL = ("feedback", "elman", "attention", "mixers", "generation", "build")
NAMES = (*USUAL, "training")


def main(arguments: list[str] | None = None) -> None:
    """Each benchmark module has `measure(quick, rounds)`, which yields tables: a name, and rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--threads", type=_count, default=2, help="of PyTorch and of the kernels")
    parser.add_argument("--rounds", type=_count, help="in each of which every candidate runs once")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; nothing is recorded")
    parser.add_argument("--no-record", action="store_true", help="print only")
    chosen = parser.parse_args(arguments)
    for name in chosen.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; choose from {', '.join(NAMES)}")
    torch.set_num_threads(chosen.threads)
    rounds = chosen.rounds or (2 if chosen.quick else 7)
    begun = time.monotonic()
    for name in chosen.names or USUAL:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n# {name}", flush=True)
        for table, rows in module.measure(chosen.quick, rounds):
            show(table, rows)
            if not (chosen.quick or chosen.no_record):
                record(name, table, rows, chosen.threads)
    print(f"\n{(time.monotonic() - begun) / 60:.1f} minutes.")
    if not (chosen.quick or chosen.no_record):
        print(f"Recorded in {RESULTS.name}/; `make site` shows it on the page Performance.")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    main()
