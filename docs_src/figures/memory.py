"""What each model remembers: answers on the tasks of memory, and the size of its state."""

import sys
from functools import cache
from pathlib import Path
from statistics import median

import torch

import labml_nn
from pylit.figures.draw import Table

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "results")]

from results import MISSING, NAMES, RESULTS  # noqa: E402
from studies import BEST_MEMORY_RATE, CHOSEN_ON, MEMORY, MEMORY_RATES, results_of  # noqa: E402

#: Tokens after which a state is measured, and the bytes of a number.
LENGTHS, BYTES = (48, 1024, 8192), 4


def _answers(task):
    """The share of right answers of each model and seed, in percent."""
    found = results_of(task, RESULTS)
    return {name: [100 * run.result["accuracy"] for run in runs] for name, runs in found.items()}


def bench():
    """The tasks of memory and a text, at equal parameters."""
    on_tasks = [_answers(task) for task in CHOSEN_ON]
    on_text = results_of("models", RESULTS)
    rows = []
    for name in MEMORY:
        losses = [run.loss for run in on_text[name]]
        answers = (_spread(of[name], ".0f") for of in on_tasks)
        rows.append([NAMES[name], *answers, _spread(losses, ".2f")])
    notes = [
        "Tasks: right answers in percent, with 115,000 to 121,000 parameters. Tiny Shakespeare: "
        "the loss in nats per character, where less is better, with about 204,000 parameters. "
        "Median of five seeds, with the lowest and the highest where they differ."
    ]
    return Table(["model", *CHOSEN_ON, "Tiny Shakespeare"], rows, notes=notes)


def state():
    """The bytes of one sequence's state after so many tokens."""
    rows = []
    for name in MEMORY:
        sizes = _sizes(name)
        rows.append([NAMES[name], *(f"{size:,}" for size in sizes)])
    head = ["model", *(f"after {length:,} tokens" for length in LENGTHS)]
    notes = [
        "Bytes of the state of one sequence, with numbers of 4 bytes: the models of the tasks, "
        "with two layers. The feedback memory and the cache of the transformer are as long as "
        "the text here."
    ]
    return Table(head, rows, notes=notes)


def rates():
    """Right answers after half of the updates, for three learning rates."""
    found = results_of("memory_rates", RESULTS)
    rows = []
    for name in MEMORY:
        row = [NAMES[name]]
        for task, best in BEST_MEMORY_RATE.items():
            for rate in MEMORY_RATES:
                runs = found[f"{task}-{name}-{rate:g}"]
                mark = " ✓" if rate == best[name] else ""
                row.append((f"{100 * runs[0].result['accuracy']:.0f}" if runs else MISSING) + mark)
        rows.append(row)
    head = ["model", *(f"{task}, {rate:g}" for task in BEST_MEMORY_RATE for rate in MEMORY_RATES)]
    notes = [
        "Right answers in percent after half of the updates, one seed that is not used again. ✓ is "
        "the rate with the lowest loss, which was taken."
    ]
    return Table(head, rows, notes=notes)


@cache
def _sizes(name):
    """
    A state has a fixed size or grows with the text, by as much at each token. So two short texts
    are enough.
    """
    run = MEMORY[name]
    longest = {"max_len": 16} if name in ("autoregressive", "feedback") else {}
    model = labml_nn.create(run.experiment, n_vocab=130, **run.model, **longest).eval()
    sizes = []
    with torch.no_grad(), labml_nn.kernels.disabled():
        for length in (8, 12):
            _, after = model(torch.zeros(length, 1, dtype=torch.long))
            sizes.append(sum(part.numel() for part in _tensors(after)))
    short, long = sizes
    return [BYTES * (short + (long - short) // 4 * (length - 8)) for length in LENGTHS]


def _tensors(value):
    """Tensors of floating-point numbers in tuples and dataclasses."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    parts = value if isinstance(value, tuple | list) else getattr(value, "__dict__", {}).values()
    return [one for part in parts for one in _tensors(part)]


def _spread(values, digits):
    if not values:
        return MISSING
    low, middle, high = (f"{x:{digits}}" for x in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} – {high})"
