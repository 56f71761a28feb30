"""The flags that all benchmarks have."""

import argparse

import torch


def options(doc: str | None, arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line, and set the number of threads. `doc` is the benchmark's docstring."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--threads", type=_count, default=2, help="of PyTorch and the kernels")
    parser.add_argument("--rounds", type=_count, default=None, help="in which each form runs once")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it runs; records nothing"
    )
    parser.add_argument("--no-record", action="store_true", help="print, and write nothing")
    chosen = parser.parse_args(arguments)
    if chosen.rounds is None:
        chosen.rounds = 2 if chosen.quick else 7
    chosen.no_record = chosen.no_record or chosen.quick
    torch.set_num_threads(chosen.threads)
    return chosen


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
