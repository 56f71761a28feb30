"""All benchmarks, one after the other, each in a process of its own, with two threads and with one.

With one, only those tables that the page sets beside the others.

    make bench                                     # installs the peers before: 25 minutes
    make bench NAMES="attention elman"             # these two
    make bench FLAGS=--quick                       # tiny sizes: does it run?
    make bench NAMES=training FLAGS=--minutes=90   # the ablation of the training preset, hours
    make bench FLAGS="--device cuda"               # on a GPU, those that can

What one of them prints is shown as it comes. One that fails stops no other.
"""

import argparse
import importlib.util
import subprocess
import sys
import time

from benchmarks.record import RESULTS, ROOT

#: In this order. The training preset's takes hours, and has to be asked for by name.
USUAL = ("feedback", "elman", "attention", "generation", "build")
NAMES = (*USUAL, "training")
#: Those that choose their threads themselves. They are of a processor.
ONCE = ("build", "training")
#: Tables of which the page shows fewer threads too, beside the most.
FEWER = {
    "feedback": ("speed",),
    "elman": ("speed",),
    "attention": ("speed", "anywhere", "layer"),
    "generation": (),
}


def commands(arguments: list[str]) -> list[list[str]]:
    """The command lines that were asked for: a module's name, and its flags."""
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--threads", nargs="+", default=["2", "1"])
    parser.add_argument("--tables", nargs="+", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds")
    # All else is handed on.
    asked, flags = parser.parse_known_args(arguments)
    for name in asked.names:
        if name not in NAMES:
            parser.error(f"{name!r} is no benchmark; there are {', '.join(NAMES)}")
    if asked.rounds is not None:
        flags += ["--rounds", asked.rounds]
    is_gpu = asked.device != "cpu"
    if is_gpu:
        flags += ["--device", asked.device]
    names = asked.names or [name for name in USUAL if _exists(name)]
    made = []
    for name in names:
        if name in ONCE:
            tables = ["--tables", *asked.tables] if asked.tables and name == "build" else []
            made += [] if is_gpu else [[f"benchmarks.{name}", *tables, *flags]]
            continue
        for number, threads in enumerate(asked.threads[: 1 if is_gpu else None]):
            tables = asked.tables or ([] if number == 0 else list(FEWER[name]))
            if number == 0 or tables:
                own = ["--threads", threads, *(["--tables", *tables] if tables else [])]
                made.append([f"benchmarks.{name}", *own, *flags])
    return made


def _exists(name: str) -> bool:
    return importlib.util.find_spec(f"benchmarks.{name}") is not None


def main() -> int:
    """Run them. How many have failed."""
    begun, failed = time.monotonic(), []
    asked = commands(sys.argv[1:])
    for module, *flags in asked:
        print(f"\n## {' '.join([module, *flags])}", flush=True)
        done = subprocess.run([sys.executable, "-m", module, *flags], cwd=ROOT, check=False)
        if done.returncode:
            failed.append(module)
            print(f"{module} ended with {done.returncode}; the others go on", flush=True)
    print(f"\n{(time.monotonic() - begun) / 60:.0f} minutes.")
    if not {"--quick", "--no-record", "--table"} & set(asked[0]):
        print(f"Numbers are in {RESULTS.relative_to(ROOT)}; `make site` makes a page of them.")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
