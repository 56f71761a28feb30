"""What the next token costs: reading all again, or going on from what is kept.

    python -m benchmarks.generation
    python -m benchmarks.generation --threads 1 --tables tokens --no-record
    python -m benchmarks.generation --device cuda

All forms of a model have the same parameters, and what they say of the next token is found equal
before a clock is started. (The peer feedback-transformer-pytorch has other parts.)

It prints, and records for the page of the site:

* `tokens`: milliseconds for a token, by model, context and number of texts
* `growth`: with which power of the context that grows
* `state`: what is kept of a text, and what a token takes besides, in MiB
* `written`: a text of 200 tokens with everything that a user waits for, sampling included
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import labml_nn
from benchmarks.command import Parts, Shown, go_through, options
from benchmarks.contest import Run, contest
from benchmarks.device import CPU, Place
from benchmarks.growth import Rows, exponent
from benchmarks.writers import Ways, check_equal, elman, feedback, gpt, replies
from labml_nn.sampling import Chain, Temperature, TopK, generate

MODELS: dict[str, Callable[..., Ways]] = {
    "GPT": gpt,
    "feedback": feedback,
    "Elman": elman,
    "encoder–decoder": replies,
}
CONTEXTS, QUICK_CONTEXTS = (64, 128, 256), (4, 9)
TEXTS = (1, 8)
#: A token takes a tenth of a millisecond, and a clock wants more: a run makes several.
TOKENS = 10
SAMPLER = Chain(Temperature(0.8), TopK(40))
TABLES = ("tokens", "state", "written")
TIMES = ("ms", "low", "high", "ratio", "processor_ms", "processor_ratio")
SHOWN: Shown = {
    "tokens": (
        "Milliseconds for a token",
        ["model", "context", "texts", "form", *TIMES, "tokens_s", "launches", "kernels"],
    ),
    "growth": (
        "Exponents of the context",
        ["model", "form", "exponent", "processor_exponent"],
    ),
    "state": ("MiB that a token takes", ["model", "context", "form", "mib"]),
    "written": ("A text, for each token", ["model", "texts", *TIMES]),
}


def several(way: Callable[[], Tensor], number: int) -> Run:
    """A run of some tokens."""

    def run() -> None:
        for _ in range(number):
            way()

    return run


@torch.inference_mode()
def tokens(
    contexts: tuple[int, ...], texts: tuple[int, ...], rounds: int, place: Place = CPU
) -> Rows:
    """Each form of each model, at each context."""
    rows: Rows = []
    for model, make in MODELS.items():
        for context in contexts:
            for batch in texts:
                with torch.inference_mode(False), torch.no_grad():
                    ways = make(context, batch, device=place.device)
                place.check(partial(check_equal, ways))
                # Those that read all again are slow enough for a clock as they are.
                numbers = {name: 1 if "again" in name else TOKENS for name in ways}
                numbers["labml-nn, KV"] = 1
                runs = {name: several(way, numbers[name]) for name, way in ways.items()}
                first = next(iter(runs))
                for row in contest(place.all_waiting(runs), first=first, rounds=rounds):
                    about = {"model": model, "context": context, "texts": batch}
                    one = per_token(row, numbers, first)
                    more = place.counted(several(ways[row["name"]], 1), one["ms"], batch)
                    rows.append({**about, "form": row["name"], **one, **more})
    return rows


def per_token(row: Any, numbers: dict[str, int], first: str) -> dict[str, Any]:
    """A row of a contest between runs of different numbers of tokens, for one token."""
    own = numbers[row["name"]]
    share = own / numbers[first]
    each = {key: row[key] / own for key in ("ms", "low", "high", "processor_ms")}
    return {**row, **each, **{key: row[key] * share for key in ("ratio", "processor_ratio")}}


def growth(rows: Rows) -> Rows:
    """The exponents of the context that fit, for one text."""
    fits: Rows = []
    pairs = {(row["model"], row["form"]): None for row in rows}
    for model, form in pairs:
        own = [r for r in rows if (r["model"], r["form"], r["texts"]) == (model, form, 1)]
        sizes = [r["context"] for r in own]
        fits.append(
            {
                "model": model,
                "form": form,
                "contexts": sizes,
                "exponent": exponent(sizes, [r["ms"] for r in own]),
                "processor_exponent": exponent(sizes, [r["processor_ms"] for r in own]),
            }
        )
    return fits


@torch.no_grad()
def state(contexts: tuple[int, ...], place: Place = CPU) -> Rows:
    """What tensors a token takes, beyond those that are there before and after it."""
    return [
        {"model": model, "context": context, "form": form, "mib": place.peak(way)}
        for model, make in MODELS.items()
        for context in contexts
        for form, way in make(context, 1, device=place.device).items()
    ]


def written(number: int, rounds: int, place: Place = CPU) -> Rows:
    """`generate`, as it is called."""
    rows: Rows = []
    for texts in TEXTS:
        runs: dict[str, Run] = {}
        for name in ("autoregressive", "encoder_decoder", "feedback", "elman"):
            torch.manual_seed(0)
            model = labml_nn.create(name, n_vocab=68).eval().to(place.device)
            prompt = torch.randint(3, 65, (16, texts)).to(place.device)
            runs[name] = writing(model, prompt, number)
        for row in contest(place.all_waiting(runs), first="autoregressive", rounds=rounds):
            each = {key: row[key] / number for key in ("ms", "low", "high", "processor_ms")}
            rows.append({"model": row["name"], "texts": texts, **row, **each})
    return rows


def writing(model: Any, prompt: Tensor, number: int) -> Run:
    """A text of some tokens, not one less."""
    return lambda: generate(model, prompt, number, SAMPLER, seed=0, stop=())


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__, tables=TABLES, devices=("cpu", "cuda"))
    contexts, place = QUICK_CONTEXTS if chosen.quick else CONTEXTS, chosen.place
    number = 12 if chosen.quick else 200

    def each_token() -> dict[str, Rows]:
        rows = tokens(contexts, TEXTS, chosen.rounds, place)
        return {"tokens": rows, "growth": growth(rows)}

    parts: Parts = {
        "tokens": each_token,
        "state": lambda: {"state": state(contexts, place)},
        "written": lambda: {"written": written(number, chosen.rounds, place)},
    }
    go_through("generation", chosen, parts, SHOWN)


if __name__ == "__main__":
    main()
