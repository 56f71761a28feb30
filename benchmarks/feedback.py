"""What a feedback transformer costs beside others, to train and to read: time, memory, growth.

    python -m benchmarks.feedback
    python -m benchmarks.feedback --threads 1 --tables speed --no-record
    python -m benchmarks.feedback --device cuda

labml-nn 0.5.1 has two, one of which shares keys and values between its layers; ours has the same
parameters as that one, and its outputs and gradients are found equal before a clock is started. The
peer feedback-transformer-pytorch does the same recurrence with other parts. Training is forward,
backward and a step of AdamW.

It prints, and records for the page of the site:

* `models`: who takes part, with how many parameters
* `speed`: settings A and B, training and forward, and the share of the machine's limit
* `growth`: training steps over time steps, width and texts, and their exponents
* `memory`: forward and backward, over time steps

On a GPU, in files of its own, also tokens per second, launches of a step, and the `rates` of large
products, of half precision too.
"""

from functools import partial

from benchmarks.command import Parts, Shown, go_through, options
from benchmarks.contest import Run, contest
from benchmarks.device import CPU, Place
from benchmarks.feedback_models import (
    LUCIDRAINS,
    NAMES,
    PUBLISHED_KV,
    Size,
    check_equal,
    contenders,
    forget,
)
from benchmarks.growth import Axes, Rows, sweep
from benchmarks.machine import machine

A, B = Size(128, 4, 4, 128, 16), Size(256, 8, 6, 256, 8)
SETTINGS = {"A": A, "B": B}
TINY = {"A": Size(16, 2, 2, 12, 3), "B": Size(32, 4, 3, 10, 2)}
#: Those whose growth is worth the time.
GROWING = (
    *(PUBLISHED_KV, LUCIDRAINS, "ours, by hand"),
    *("ours, kernel", "ours, graphs", "ours, triton"),
)
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
TABLES = ("models", "speed", "growth", "memory", "rates")
TIMES = ("form", "ms", "ratio")
SHOWN: Shown = {
    "models": ("Parameters", ["setting", "form", "parameters"]),
    "speed": (
        "Milliseconds",
        [
            *("setting", "work", "form", "ms", "low", "high", "ratio", "processor_ms"),
            *("processor_ratio", "share", "tokens_s", "launches", "kernels"),
        ],
    ),
    "growth": ("Growth of a training step", ["axis", "size", *TIMES]),
    "exponents": ("Exponents", ["axis", "form", "exponent", "processor_exponent"]),
    "memory": ("MiB, forward and backward", ["length", "form", "mib"]),
    "rates": ("Large products, GFLOP/s", ["type", "gflops"]),
}


def models(settings: dict[str, Size]) -> Rows:
    """Who takes part."""
    return [
        {"setting": setting, "form": name, "parameters": contender.parameters}
        for setting, size in settings.items()
        for name, contender in contenders(size).items()
    ]


def speed(settings: dict[str, Size], rounds: int, place: Place = CPU) -> Rows:
    """Each form, at each kind of work. The larger setting takes minutes: fewer rounds."""
    rows: Rows = []
    limit = place.gflops()
    for setting, size in settings.items():
        for work in WORK:
            forms = contenders(size, device=place.device)
            place.check(partial(check_equal, forms))
            runs = {name: getattr(contender, work)() for name, contender in forms.items()}
            least = 1000 * WORK[work] * size.operations() / (limit * 1e9)
            some = rounds if setting == "A" else max(1, rounds // 2)
            for row in contest(place.all_waiting(runs), first=next(iter(runs)), rounds=some):
                share = least / row["ms"] if row["name"] != LUCIDRAINS else None
                about = {"setting": setting, "work": work, "form": row["name"]}
                more = place.counted(runs[row["name"]], row["ms"], size.steps * size.texts)
                rows.append({**about, **row, "share": share, **more})
    return rows


def growth(base: Size, axes: Axes, rounds: int, place: Place = CPU) -> dict[str, Rows]:
    """Training steps while one size grows and the others stay, and the exponents that fit."""

    def runs(axis: str, number: int) -> dict[str, Run]:
        # A head has 32 features, however many there are.
        heads = {"heads": max(1, number // 32)} if axis == "width" else {}
        forms = contenders(base.but(**{axis: number}, **heads), GROWING, place.device)
        return place.all_waiting({name: form.train() for name, form in forms.items()})

    return sweep(axes, runs, first=GROWING[0], rounds=rounds)


def memory(size: Size, lengths: tuple[int, ...], place: Place = CPU) -> Rows:
    """The most that tensors take, forward and backward, at several lengths."""
    rows: Rows = []
    for length in lengths:
        for name in NAMES:
            # One peer keeps all that it read at every step: 8.6 GiB at 512 steps.
            if name == LUCIDRAINS and length > 256 and machine()["memory_gib"] < 12:
                continue
            # A model by itself: what an earlier one left behind is no memory of this one.
            forget()
            for form in contenders(size.but(steps=length), (name,), place.device).values():
                rows.append({"length": length, "form": name, "mib": place.peak(form.backward())})
    return rows


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__, tables=TABLES, devices=("cpu", "cuda"))
    settings, place = TINY if chosen.quick else SETTINGS, chosen.place
    few = max(1, chosen.rounds // 2)
    lengths = (6, 12) if chosen.quick else LENGTHS
    parts: Parts = {
        "models": lambda: {"models": models(settings)},
        "speed": lambda: {"speed": speed(settings, chosen.rounds, place)},
        "growth": lambda: growth(*(QUICK if chosen.quick else GROWTH), few, place),
        "memory": lambda: {"memory": memory(settings["A"], lengths, place)},
    }
    if place.is_gpu:
        parts = {**parts, "rates": lambda: {"rates": place.rates()}}
    go_through("feedback", chosen, parts, SHOWN)


if __name__ == "__main__":
    main()
