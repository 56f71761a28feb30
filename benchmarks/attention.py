"""What attention costs beside labml-nn's and PyTorch's: time, memory, and how both grow.

    python -m benchmarks.attention
    python -m benchmarks.attention --threads 1 --tables speed layer --no-record
    python -m benchmarks.attention --device cuda

All have the same weights, and before a clock is started their outputs and the gradients of what
they read are found equal. Training is forward and backward, to parameters and inputs. PyTorch's
`nn.MultiheadAttention` is told everything that makes it fast: `need_weights=False`, `is_causal`.

It prints, and records for the page of the site:

* `speed`: two large settings, training and forward, and the share of the machine's limit
* `anywhere`: ours beside PyTorch's alone, for lengths, batches and kinds of attention
* `dropout`: training with a tenth of the weights dropped
* `layer`: a whole transformer layer, training
* `growth` and `exponents`: training over length, width and texts
* `memory`: forward and backward, with dropout and without
* `forms`: the three forms of `labml_nn/transformers/scaled_dot_product.py`

On a GPU, in files of its own, `speed` has also tokens per second, and launches.
"""

import itertools
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.attention_models import (
    KINDS,
    OURS,
    PUBLISHED,
    TORCH,
    Contender,
    Size,
    attentions,
    check_equal,
    layers,
)
from benchmarks.command import Parts, Shown, go_through, options
from benchmarks.contest import Run, contest
from benchmarks.device import CPU, Place
from benchmarks.growth import Axes, Rows, sweep
from labml_nn.transformers.scaled_dot_product import (
    einsum_attention,
    fused_attention,
    matmul_attention,
)
from labml_nn.transformers.utils import share_among_heads, subsequent_mask

FORMS = {"einsum": einsum_attention, "matmul": matmul_attention, "fused": fused_attention}
SETTINGS = {"B 8, T 512": Size(256, 8, 512, 8), "B 1, T 2,048": Size(256, 8, 2048, 1)}
TINY = {"B 8, T 512": Size(32, 4, 24, 3), "B 1, T 2,048": Size(32, 4, 40, 1)}
#: A training step computes forward, and two gradients for each product.
WORK = {"train": 3, "forward": 1}
#: Lengths and batches, of which all pairs that are not larger than the settings are taken.
ANYWHERE = ((64, 256, 512, 2048), (1, 4, 16))
LARGEST = 4096
GROWTH = {"length": (128, 256, 512, 1024), "width": (64, 128, 256, 512), "texts": (1, 4, 16)}
TABLES = ("speed", "anywhere", "dropout", "layer", "growth", "forms", "memory")
TIMES = ("form", "ms", "low", "high", "ratio", "processor_ms", "processor_ratio")
SHOWN: Shown = {
    "speed": (
        "Milliseconds",
        ["setting", "work", *TIMES, "share", "tokens_s", "launches", "kernels"],
    ),
    "anywhere": ("Anywhere", ["kind", "length", "texts", "work", *TIMES]),
    "dropout": ("Training with dropout 0.1", ["setting", *TIMES]),
    "layer": ("Training of a layer", ["setting", "dropout", *TIMES]),
    "growth": ("Growth of training", ["axis", "size", *TIMES]),
    "exponents": ("Exponents", ["axis", "form", "exponent", "processor_exponent"]),
    "forms": ("Three forms", ["length", *TIMES, "mib"]),
    "memory": ("MiB, forward and backward", ["setting", "dropout", "form", "mib"]),
}


def speed(settings: dict[str, Size], rounds: int, place: Place = CPU) -> Rows:
    """Each form, at each kind of work."""
    rows: Rows = []
    limit = place.gflops()
    for setting, size in settings.items():
        place.check(partial(check_equal, attentions(size, device=place.device)))
        for work, times in WORK.items():
            forms: dict[str, Contender] = attentions(size, device=place.device)
            runs = {name: getattr(each, work)() for name, each in forms.items()}
            least = times * size.operations() / limit / 1e6
            for row in contest(place.all_waiting(runs), first=PUBLISHED, rounds=rounds):
                about = {"setting": setting, "work": work, "form": row["name"]}
                more = place.counted(runs[row["name"]], row["ms"], size.tokens)
                rows.append({**about, **row, "share": least / row["ms"], **more})
    return rows


def anywhere(
    size: Size,
    grid: tuple[tuple[int, ...], tuple[int, ...]],
    rounds: int,
    place: Place = CPU,
) -> Rows:
    """Ours and PyTorch's, in settings small and large. A ratio above 1: ours is faster."""
    rows: Rows = []
    for kind, length, texts in itertools.product(KINDS, *grid):
        if length * texts > LARGEST:
            continue
        here = size.but(kind=kind, length=length, texts=texts)
        place.check(partial(check_equal, attentions(here, (TORCH, OURS), place.device)))
        for work in WORK:
            forms: dict[str, Contender] = attentions(here, (TORCH, OURS), place.device)
            runs = {name: getattr(each, work)() for name, each in forms.items()}
            # Small ones are over soon, and shaken by everything that happens beside them.
            many = rounds * max(1, min(8, LARGEST // (2 * length * texts)))
            for row in contest(place.all_waiting(runs), first=TORCH, rounds=many):
                about = {"kind": kind, "length": length, "texts": texts, "work": work}
                rows.append({**about, "form": row["name"], **row})
    return rows


def dropout(settings: dict[str, Size], rounds: int, place: Place = CPU) -> Rows:
    """Training as these modules are trained: with a tenth of the weights dropped."""
    rows: Rows = []
    for setting, size in settings.items():
        forms: dict[str, Contender] = attentions(size.but(dropout=0.1), device=place.device)
        runs = {name: each.train() for name, each in forms.items()}
        for row in contest(place.all_waiting(runs), first=PUBLISHED, rounds=rounds):
            rows.append({"setting": setting, "form": row["name"], **row})
    return rows


def layer(settings: dict[str, Size], rounds: int, place: Place = CPU) -> Rows:
    """Training of a whole layer, with dropout and without."""
    rows: Rows = []
    for setting, size in settings.items():
        place.check(partial(check_equal, layers(size, place.device)))
        for probability in (0.0, 0.1):
            forms = layers(size.but(dropout=probability), place.device)
            runs = {name: each.train() for name, each in forms.items()}
            for row in contest(place.all_waiting(runs), first=PUBLISHED, rounds=rounds):
                about = {"setting": setting, "dropout": probability, "form": row["name"]}
                rows.append({**about, **row})
    return rows


def growth(base: Size, axes: Axes, rounds: int, place: Place = CPU) -> dict[str, Rows]:
    """Training while one size grows and the others stay, and the exponents that fit."""

    def runs(axis: str, number: int) -> dict[str, Run]:
        # A head has 32 features, however many there are.
        heads = {"heads": max(1, number // 32)} if axis == "width" else {}
        here = base.but(**{axis: number}, **heads)
        forms: dict[str, Contender] = attentions(here, device=place.device)
        return place.all_waiting({name: each.train() for name, each in forms.items()})

    return sweep(axes, runs, first=PUBLISHED, rounds=rounds)


def memory(settings: dict[str, Size], place: Place = CPU) -> Rows:
    """The most that tensors take, forward and backward."""
    rows: Rows = []
    for (setting, size), probability in itertools.product(settings.items(), (0.0, 0.1)):
        forms = attentions(size.but(dropout=probability), device=place.device)
        for name, each in forms.items():
            about = {"setting": setting, "dropout": probability, "form": name}
            rows.append({**about, "mib": place.peak(each.train())})
    return rows


def workload(
    form: Any, shape: tuple[int, int, int, int], device: torch.device | str = "cpu"
) -> Run:
    """Forward and backward of attention alone, between heads that are there."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(shape, device=device, requires_grad=True) for _ in range(3))
    mask = share_among_heads(subsequent_mask(shape[0])).to(device)
    cotangent = torch.randn(shape, device=device)

    def run() -> None:
        result: Tensor = form(query, key, value, mask)
        torch.autograd.grad(result, (query, key, value), cotangent)

    return run


def three_forms(
    lengths: tuple[int, ...],
    rounds: int,
    place: Place = CPU,
    *,
    heads: int = 8,
    d_k: int = 32,
) -> Rows:
    """The table of the page of the three forms: 2 sequences under a causal mask."""
    rows: Rows = []
    for length in lengths:
        shape = (length, 2, heads, d_k)
        runs = {name: workload(form, shape, place.device) for name, form in FORMS.items()}
        for row in contest(place.all_waiting(runs), first="einsum", rounds=rounds):
            about = {"length": length, "form": row["name"], "mib": place.peak(runs[row["name"]])}
            rows.append({**about, **row})
    return rows


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__, tables=TABLES, devices=("cpu", "cuda"))
    quick, rounds, few = chosen.quick, chosen.rounds, max(1, chosen.rounds // 2)
    settings, place = TINY if quick else SETTINGS, chosen.place
    base = next(iter(settings.values()))
    grid = ((12,), (1, 2)) if quick else ANYWHERE
    axes = {axis: sizes[:2] for axis, sizes in GROWTH.items()} if quick else GROWTH
    lengths = (16, 24) if quick else (128, 512, 1024)
    parts: Parts = {
        "speed": lambda: {"speed": speed(settings, rounds, place)},
        "anywhere": lambda: {"anywhere": anywhere(base, grid, rounds, place)},
        "dropout": lambda: {"dropout": dropout(settings, few, place)},
        "layer": lambda: {"layer": layer(settings, few, place)},
        "growth": lambda: growth(base.but(texts=2), axes, few, place),
        "forms": lambda: {"forms": three_forms(lengths, rounds, place)},
        "memory": lambda: {"memory": memory(settings, place)},
    }
    go_through("attention", chosen, parts, SHOWN)


if __name__ == "__main__":
    main()
