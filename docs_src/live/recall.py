"""Trains the six models of the recall game and writes their weights.

`python -m docs_src.live.recall` trains all, with names as arguments only these. A line has pairs
of a letter and a digit, and then each letter once more, as a question. A letter may come several
times; its last digit counts.
"""

import json
import string
import sys
from dataclasses import asdict
from typing import Any

import numpy
import torch

from docs_src.live.export import HERE, delivered, model_as_delivered, round_model
from labml_nn import create
from labml_nn.experiments.data import Examples, Vocabulary, random_numbers
from labml_nn.experiments.memory import RecallTask
from labml_nn.experiments.presets import TrainingConfig
from labml_nn.experiments.trainer import Trainer
from labml_nn.language_model import LanguageModel

PAIRS, STEPS = 20, 800
SIZES: dict[str, Any] = {"d_model": 32, "n_layers": 2, "dropout_prob": 0.0}
HEADS: dict[str, Any] = {**SIZES, "heads": 2}
#: Names of the registry, what differs from the defaults, and the learning rate.
MODELS: dict[str, tuple[str, dict[str, Any], float]] = {
    "elman": ("elman", {**SIZES, "d_hidden": 68}, 1e-3),
    "lstm": ("lstm", {**SIZES, "d_hidden": 40}, 1e-2),
    "attention": (
        "autoregressive",
        {
            **HEADS,
            "d_ff": 104,
            "max_len": 3 * PAIRS + 1,
            "positions": "rotary",
            "tied": False,
            "init_lower": -0.15,
            "init_upper": 0.15,
        },
        3e-3,
    ),
    "linear_attention": ("linear_attention", {**HEADS, "d_ff": 104}, 1e-2),
    "mamba2": ("mamba2", {**HEADS, "d_k": 16, "d_v": 16, "d_ff": 100}, 1e-2),
    "delta_net": ("delta_net", {**HEADS, "d_ff": 104}, 1e-2),
}


class RecallGame(RecallTask):
    """Lines of a random length, in which a random share of the letters comes again."""

    keys, values = 26, 10

    @classmethod
    def words(cls) -> Vocabulary:
        """Digits, then letters."""
        return Vocabulary(string.digits + string.ascii_lowercase)

    def draw(self, random: numpy.random.Generator, seq_len: int) -> Examples:
        """A batch of lines of a random length, with a random number of letters."""
        pairs = int(random.integers(1, seq_len // 3, endpoint=True))
        share = random.uniform(0.5, 1.0)
        return self.lines(random, pairs, int(numpy.ceil(pairs * share)))

    def lines(self, random: numpy.random.Generator, pairs: int, n: int) -> Examples:
        """A batch of lines of so many pairs with `n` different letters."""
        B = self.batch_size
        alphabet = numpy.tile(numpy.arange(self.keys), (B, 1))
        letters = self.values + random.permuted(alphabet, axis=1)[:, :n]
        again = random.integers(n, size=(B, pairs - n))
        which = numpy.concatenate([numpy.tile(numpy.arange(n), (B, 1)), again], axis=1)
        which = random.permuted(which, axis=1)
        digits = random.integers(self.values, size=(B, pairs))
        last = numpy.empty((B, n), dtype=digits.dtype)
        for j in range(pairs):
            numpy.put_along_axis(last, which[:, j : j + 1], digits[:, j : j + 1], 1)
        asked = random.permuted(numpy.tile(numpy.arange(n), (B, 1)), axis=1)

        read = numpy.stack([numpy.take_along_axis(letters, which, 1), digits], axis=2)
        questions = numpy.take_along_axis(letters, asked, 1)
        tokens = numpy.concatenate([read.reshape(B, -1), questions], axis=1)
        padding = len(self.vocabulary)
        targets = numpy.full_like(tokens, padding)
        targets[:, -n:] = numpy.take_along_axis(last, asked, 1)
        return Examples.of(
            *(torch.from_numpy(rows).t().contiguous() for rows in (tokens, targets)), padding
        )


#: Lines with so many pairs are counted, for the picture on the page.
COUNTED = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)


@torch.no_grad()
def right_answers(model: LanguageModel[Any], pairs: int, n: int) -> float:
    """The share of right answers to the first question, in 1,024 lines with `n` letters."""
    game = RecallGame(batch_size=1024, seq_len=3 * PAIRS)
    lines = game.lines(random_numbers(7, pairs), pairs, n)
    logits = model(lines.tokens[: 2 * pairs + 1])[0][-1]
    return (logits.argmax(-1) == lines.targets[2 * pairs]).float().mean().item()


def train(name: str) -> None:
    """Trains a model, writes its weights, and prints what it remembers."""
    kind, sizes, rate = MODELS[name]
    training = TrainingConfig(
        steps=STEPS,
        batch_size=64,
        seq_len=3 * PAIRS,
        initial_seq_len=6,
        grow_steps=STEPS * 4 // 5,
        learning_rate=rate,
        warmup_steps=50,
        evaluate_every=0,
        sample_every=0,
        save_every=0,
        sample_tokens=1,
        device="cpu",
        precision="float32",
        compile="no",
    )
    task = RecallGame(batch_size=training.batch_size, seq_len=training.seq_len, seed=1)
    torch.manual_seed(1)
    model = create(kind, **task.model_fields, **sizes)
    Trainer(model, task, training).train()
    tensors = round_model(model.eval())
    data = {
        "config": asdict(model.config),
        "characters": task.vocabulary.texts,
        "parameters": sum(p.numel() for p in model.parameters()),
        "right": {
            "pairs": COUNTED,
            "once": [round(right_answers(model, n, n), 3) for n in COUNTED],
            "again": [round(right_answers(model, n, n // 2), 3) for n in COUNTED],
        },
        "tensors": tensors,
    }
    path = HERE / "weights" / f"recall_{name}.js"
    path.write_text(f'pylit.live.weights("recall_{name}", {json.dumps(data)});\n', encoding="utf-8")
    print(
        f"{name}: {data['parameters']:,} parameters, {path.stat().st_size:,} bytes, {data['right']}"
    )


def read(name: str) -> dict[str, Any]:
    """What is delivered for a model."""
    return delivered(f"recall_{name}")


def delivered_model(name: str) -> LanguageModel[Any]:
    """A model as the page runs it."""
    return model_as_delivered(f"recall_{name}", MODELS[name][0])[0]


if __name__ == "__main__":
    for chosen in sys.argv[1:] or MODELS:
        train(chosen)
