"""What a feedback transformer costs beside others, to train and to read: time, memory, growth.

    python -m benchmarks.feedback
    python -m benchmarks.feedback --threads 1 --rounds 5 --no-record

labml-nn 0.5.1 has two, one of which shares keys and values between its layers; ours has the same
parameters as that one, and its outputs and gradients are found equal before a clock is started. The
peer feedback-transformer-pytorch does the same recurrence with other parts. Training is forward,
backward and a step of AdamW.

It prints, and records for the page of the site:

* `models`: who takes part, with how many parameters
* `speed`: settings A and B, training and forward, and the share of the machine's limit
* `growth`: training steps over time steps, width and texts, and their exponents
* `memory`: forward and backward, over time steps
"""

from benchmarks.command import options
from benchmarks.contest import Run, contest
from benchmarks.feedback_models import (
    LUCIDRAINS,
    NAMES,
    PUBLISHED_KV,
    Size,
    check_equal,
    contenders,
)
from benchmarks.growth import Axes, Rows, sweep
from benchmarks.machine import machine, matmul_gflops
from benchmarks.memory import peak
from benchmarks.record import record, show

A, B = Size(128, 4, 4, 128, 16), Size(256, 8, 6, 256, 8)
SETTINGS = {"A": A, "B": B}
TINY = {"A": Size(16, 2, 2, 12, 3), "B": Size(32, 4, 3, 10, 2)}
#: Those whose growth is worth the time.
GROWING = (PUBLISHED_KV, LUCIDRAINS, "ours, by hand", "ours, kernel")
LENGTHS = (128, 256, 512)
#: What grows, one at a time, from what.
GROWTH: tuple[Size, Axes] = (
    Size(128, 4, 2, 64, 8),
    {"steps": (32, 64, 128, 256), "width": (64, 128, 256, 512), "texts": (2, 8, 32)},
)
QUICK: tuple[Size, Axes] = (
    Size(32, 1, 2, 6, 2),
    {"steps": (4, 8), "width": (32, 64), "texts": (1, 2)},
)
#: A training step computes forward, and two gradients for each product.
WORK = {"train": 3, "forward": 1}


def models(settings: dict[str, Size]) -> Rows:
    """Who takes part."""
    return [
        {"setting": setting, "form": name, "parameters": contender.parameters}
        for setting, size in settings.items()
        for name, contender in contenders(size).items()
    ]


def speed(settings: dict[str, Size], rounds: int, threads: int) -> Rows:
    """Each form, at each kind of work. The larger setting takes minutes: fewer rounds."""
    rows: Rows = []
    limit = matmul_gflops(threads)
    for setting, size in settings.items():
        for work in WORK:
            forms = contenders(size)
            check_equal(forms)
            runs = {name: getattr(contender, work)() for name, contender in forms.items()}
            least = 1000 * WORK[work] * size.operations() / (limit * 1e9)
            some = rounds if setting == "A" else max(1, rounds // 2)
            for row in contest(runs, first=next(iter(runs)), rounds=some):
                share = least / row["ms"] if row["name"] != LUCIDRAINS else None
                rows.append(
                    {"setting": setting, "work": work, "form": row["name"], **row, "share": share}
                )
    return rows


def growth(base: Size, axes: Axes, rounds: int) -> tuple[Rows, Rows]:
    """Training steps while one size grows and the others stay, and the exponents that fit."""

    def runs(axis: str, number: int) -> dict[str, Run]:
        # A head has 32 features, however many there are.
        heads = {"heads": max(1, number // 32)} if axis == "width" else {}
        forms = contenders(base.but(**{axis: number}, **heads), GROWING)
        return {name: contender.train() for name, contender in forms.items()}

    return sweep(axes, runs, first=GROWING[0], rounds=rounds)


def memory(size: Size, lengths: tuple[int, ...]) -> Rows:
    """The most that tensors take, forward and backward, at several lengths."""
    rows: Rows = []
    for length in lengths:
        for name in NAMES:
            # One peer keeps all that it read at every step: 8.6 GiB at 512 steps.
            if name == LUCIDRAINS and length > 256 and machine()["memory_gib"] < 12:
                continue
            # A model by itself: what an earlier one left behind is no memory of this one.
            for contender in contenders(size.but(steps=length), (name,)).values():
                rows.append({"length": length, "form": name, "mib": peak(contender.backward())})
    return rows


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__)
    settings = TINY if chosen.quick else SETTINGS
    tables: dict[str, Rows] = {"models": models(settings)}
    show("Parameters", tables["models"], ["setting", "form", "parameters"])
    tables["speed"] = speed(settings, chosen.rounds, chosen.threads)
    columns = ["setting", "work", "form", "ms", "low", "high", "ratio", "processor_ms"]
    show("Milliseconds", tables["speed"], [*columns, "processor_ratio", "share"])
    few = max(1, chosen.rounds // 2)
    tables["growth"], tables["exponents"] = growth(*(QUICK if chosen.quick else GROWTH), few)
    show("Growth of a training step", tables["growth"], ["axis", "size", "form", "ms", "ratio"])
    exponents = ["axis", "form", "exponent", "processor_exponent"]
    show("Exponents", tables["exponents"], exponents)
    if chosen.threads > 1 or chosen.quick:  # it is the same with one
        tables["memory"] = memory(settings["A"], (6, 12) if chosen.quick else LENGTHS)
        show("MiB, forward and backward", tables["memory"], ["length", "form", "mib"])
    if not chosen.no_record:
        print(f"\nrecorded in {record('feedback', tables, threads=chosen.threads)}")


if __name__ == "__main__":
    main()
