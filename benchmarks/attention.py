"""What attention costs beside labml-nn's and PyTorch's: time, memory, and how both grow.

    python -m benchmarks.attention
    python -m benchmarks.attention --threads 1 --rounds 5 --no-record

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
"""

import itertools
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
from benchmarks.command import options
from benchmarks.contest import Run, contest
from benchmarks.growth import Axes, Rows, sweep
from benchmarks.machine import matmul_gflops
from benchmarks.memory import peak
from benchmarks.record import record, show
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


def speed(settings: dict[str, Size], rounds: int, threads: int) -> Rows:
    """Each form, at each kind of work."""
    rows: Rows = []
    limit = matmul_gflops(threads)
    for setting, size in settings.items():
        check_equal(attentions(size))
        for work, times in WORK.items():
            forms: dict[str, Contender] = attentions(size)
            runs = {name: getattr(each, work)() for name, each in forms.items()}
            least = times * size.operations() / limit / 1e6
            for row in contest(runs, first=PUBLISHED, rounds=rounds):
                about = {"setting": setting, "work": work, "form": row["name"]}
                rows.append({**about, **row, "share": least / row["ms"]})
    return rows


def anywhere(size: Size, grid: tuple[tuple[int, ...], tuple[int, ...]], rounds: int) -> Rows:
    """Ours and PyTorch's, in settings small and large. A ratio above 1: ours is faster."""
    rows: Rows = []
    for kind, length, texts in itertools.product(KINDS, *grid):
        if length * texts > LARGEST:
            continue
        here = size.but(kind=kind, length=length, texts=texts)
        check_equal(attentions(here, (TORCH, OURS)))
        for work in WORK:
            forms: dict[str, Contender] = attentions(here, (TORCH, OURS))
            runs = {name: getattr(each, work)() for name, each in forms.items()}
            # Small ones are over soon, and shaken by everything that happens beside them.
            many = rounds * max(1, min(8, LARGEST // (2 * length * texts)))
            for row in contest(runs, first=TORCH, rounds=many):
                about = {"kind": kind, "length": length, "texts": texts, "work": work}
                rows.append({**about, "form": row["name"], **row})
    return rows


def dropout(settings: dict[str, Size], rounds: int) -> Rows:
    """Training as these modules are trained: with a tenth of the weights dropped."""
    rows: Rows = []
    for setting, size in settings.items():
        forms: dict[str, Contender] = attentions(size.but(dropout=0.1))
        runs = {name: each.train() for name, each in forms.items()}
        for row in contest(runs, first=PUBLISHED, rounds=rounds):
            rows.append({"setting": setting, "form": row["name"], **row})
    return rows


def layer(settings: dict[str, Size], rounds: int) -> Rows:
    """Training of a whole layer, with dropout and without."""
    rows: Rows = []
    for setting, size in settings.items():
        check_equal(layers(size))
        for probability in (0.0, 0.1):
            forms = layers(size.but(dropout=probability))
            runs = {name: each.train() for name, each in forms.items()}
            for row in contest(runs, first=PUBLISHED, rounds=rounds):
                about = {"setting": setting, "dropout": probability, "form": row["name"]}
                rows.append({**about, **row})
    return rows


def growth(base: Size, axes: Axes, rounds: int) -> tuple[Rows, Rows]:
    """Training while one size grows and the others stay, and the exponents that fit."""

    def runs(axis: str, number: int) -> dict[str, Run]:
        # A head has 32 features, however many there are.
        heads = {"heads": max(1, number // 32)} if axis == "width" else {}
        forms: dict[str, Contender] = attentions(base.but(**{axis: number}, **heads))
        return {name: each.train() for name, each in forms.items()}

    return sweep(axes, runs, first=PUBLISHED, rounds=rounds)


def memory(settings: dict[str, Size]) -> Rows:
    """The most that tensors take, forward and backward."""
    rows: Rows = []
    for (setting, size), probability in itertools.product(settings.items(), (0.0, 0.1)):
        for name, each in attentions(size.but(dropout=probability)).items():
            about = {"setting": setting, "dropout": probability, "form": name}
            rows.append({**about, "mib": peak(each.train())})
    return rows


def workload(form: Any, length: int, texts: int, heads: int, d_k: int) -> Run:
    """Forward and backward of attention alone, between heads that are there."""
    torch.manual_seed(0)
    shape = (length, texts, heads, d_k)
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    mask, cotangent = share_among_heads(subsequent_mask(length)), torch.randn(shape)

    def run() -> None:
        result: Tensor = form(query, key, value, mask)
        torch.autograd.grad(result, (query, key, value), cotangent)

    return run


def three_forms(lengths: tuple[int, ...], rounds: int, *, heads: int = 8, d_k: int = 32) -> Rows:
    """The table of the page of the three forms: 2 sequences under a causal mask."""
    rows: Rows = []
    for length in lengths:
        runs = {name: workload(form, length, 2, heads, d_k) for name, form in FORMS.items()}
        for row in contest(runs, first="einsum", rounds=rounds):
            about = {"length": length, "form": row["name"], "mib": peak(runs[row["name"]])}
            rows.append({**about, **row})
    return rows


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__)
    quick, rounds, few = chosen.quick, chosen.rounds, max(1, chosen.rounds // 2)
    settings = TINY if quick else SETTINGS
    base = next(iter(settings.values()))
    columns = ["form", "ms", "low", "high", "ratio", "processor_ms", "processor_ratio"]
    tables: dict[str, Rows] = {"speed": speed(settings, rounds, chosen.threads)}
    show("Milliseconds", tables["speed"], ["setting", "work", *columns, "share"])
    tables["anywhere"] = anywhere(base, ((12,), (1, 2)) if quick else ANYWHERE, rounds)
    show("Anywhere", tables["anywhere"], ["kind", "length", "texts", "work", *columns])
    tables["dropout"] = dropout(settings, few)
    show("Training with dropout 0.1", tables["dropout"], ["setting", *columns])
    tables["layer"] = layer(settings, few)
    show("Training of a layer", tables["layer"], ["setting", "dropout", *columns])
    axes = {axis: sizes[:2] for axis, sizes in GROWTH.items()} if quick else GROWTH
    tables["growth"], tables["exponents"] = growth(base.but(texts=2), axes, few)
    show("Growth of training", tables["growth"], ["axis", "size", *columns])
    show("Exponents", tables["exponents"], ["axis", "form", "exponent", "processor_exponent"])
    tables["forms"] = three_forms((16, 24) if quick else (128, 512, 1024), rounds)
    show("Three forms", tables["forms"], ["length", *columns, "mib"])
    if chosen.threads > 1 or quick:  # it is the same with one
        tables["memory"] = memory(settings)
        show("MiB, forward and backward", tables["memory"], ["setting", "dropout", "form", "mib"])
    if not chosen.no_record:
        print(f"\nrecorded in {record('attention', tables, threads=chosen.threads)}")


if __name__ == "__main__":
    main()
