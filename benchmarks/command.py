"""The flags that all benchmarks have, and the order of their tables."""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from benchmarks.device import Place, place_of
from benchmarks.growth import Rows
from benchmarks.record import record, show

#: Tables that come from one measurement: by what `--tables` calls it, a function that makes them.
Parts = Mapping[str, Callable[[], Mapping[str, Rows]]]
#: Of each table, what is printed: a title, and columns.
Shown = Mapping[str, tuple[str, Sequence[str]]]


def options(
    doc: str | None,
    arguments: list[str] | None = None,
    *,
    tables: Collection[str] = (),
    devices: Collection[str] = ("cpu",),
) -> argparse.Namespace:
    """Read the command line, and set the number of threads. `doc` is the benchmark's docstring.

    `tables` are those that can be measured alone, and `devices` where it can run. The answer's
    `place` is where it will.
    """
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--threads", type=_count, default=2, help="of PyTorch and the kernels")
    parser.add_argument("--rounds", type=_count, default=None, help="in which each form runs once")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it runs; records nothing"
    )
    parser.add_argument("--no-record", action="store_true", help="print, and write nothing")
    if tables:
        parser.add_argument("--tables", nargs="+", choices=list(tables), help="these, and no other")
    if len(devices) > 1:
        parser.add_argument("--device", choices=list(devices), default="cpu")
        parser.add_argument(
            "--tf32", action="store_true", help="products of a GPU with three digits, for speed"
        )
    chosen = parser.parse_args(arguments)
    if chosen.rounds is None:
        chosen.rounds = 2 if chosen.quick else 7
    chosen.no_record = chosen.no_record or chosen.quick
    torch.set_num_threads(chosen.threads)
    device, tf32 = getattr(chosen, "device", "cpu"), getattr(chosen, "tf32", False)
    chosen.place = place_of(device, threads=chosen.threads, tf32=tf32)
    return chosen


def go_through(name: str, chosen: argparse.Namespace, parts: Parts, shown: Shown) -> None:
    """Measure one part after the other. Its tables are printed, and kept, when it is done."""
    place: Place = chosen.place
    asked = getattr(chosen, "tables", None)
    for part, measure in parts.items():
        if asked and part not in asked:
            continue
        made = measure()
        for table, rows in made.items():
            title, columns = shown[table]
            show(title, rows, _filled(columns, rows))
        if not chosen.no_record:
            path = record(name, made, threads=chosen.threads, place=place)
            print(f"\nrecorded in {path}", flush=True)


def _filled(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those in which something stands: launches are of a GPU alone."""
    return [column for column in columns if any(row.get(column) is not None for row in rows)]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
