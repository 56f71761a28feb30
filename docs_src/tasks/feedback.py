"""Programs: who knows `x` and `y` after each line, with feedback and without?

A program has 16 lines, one token each: ``x = …``, ``y = …``, then 14 updates, such as
``if y > 2: x = x + 3``, drawn from six. Numbers are counted modulo 6. No update makes one
state of two, so each line counts for all later ones. After each line a model names `x` and `y`, one
of 36 pairs.

All models have 64 features and 4 heads, the Transformers with rotary positions. 1,500 updates of
AdamW on 64 new programs each, learning rate up to 0.003 (one cycle), gradients clipped to norm 1,
no dropout. Programs begin with 4 lines and reach 16 after 900 updates. Tested on 2,000 programs of
32 lines.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import labml_nn
from labml_nn.language_model import LanguageModel

#: Layers and whether they have feedback.
MODELS = ("feedback 1", *(f"transformer {layers}" for layers in (1, 2, 3, 4)))
NAMES = {"feedback": "feedback", "transformer": "autoregressive"}
MODULUS, LENGTH, LONGER = 6, 16, 32
#: Updates of a variable: whether the other one must be above 2 or below 3, and what is added.
KINDS = (("> 2", 1), ("< 3", 2), ("> 2", 3))
#: The lines: first ``x = …``, then ``y = …``, then these.
UPDATES = [
    f"if {other} {condition}: {name} = {name} + {added}"
    for name, other in (("x", "y"), ("y", "x"))
    for condition, added in KINDS
]
LINES = [f"{name} = {value}" for name in "xy" for value in range(MODULUS)] + UPDATES
STEPS, GROWING, BATCH, RATE = 1500, 900, 64, 3e-3


def programs(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens and right answers, `[T, B]` each: the answer after a line is 6 x + y.

    The first line sets x, the second sets y (which is 0 before), and the others are updates.
    """
    x, y = torch.randint(MODULUS, (2, count), generator=generator)
    tokens, answers = [x, MODULUS + y], [MODULUS * x, MODULUS * x + y]
    for _ in range(length - 2):
        update = torch.randint(len(UPDATES), (count,), generator=generator)
        added = update % 3 + 1
        # A line changes one of the two, and depends on the other. We add 2 if it is small.
        changes_x, is_large = update < 3, torch.where(update < 3, y, x) > 2
        more = torch.where(is_large == (added != 2), added, 0)
        x = torch.where(changes_x, x + more, x) % MODULUS
        y = torch.where(changes_x, y, y + more) % MODULUS
        tokens.append(2 * MODULUS + update)
        answers.append(MODULUS * x + y)
    return torch.stack(tokens), torch.stack(answers)


def build(model: str) -> LanguageModel[Any]:
    """One of `MODELS`."""
    kind, layers = model.split()
    config: dict[str, Any] = {
        "n_vocab": MODULUS**2,
        "d_model": 64,
        "heads": 4,
        "n_layers": int(layers),
    }
    config |= {"max_len": 64, "dropout_prob": 0.0}
    if kind == "transformer":
        config["positions"] = "rotary"
    return labml_nn.create(NAMES[kind], **config)


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """`lines` is the share of programs with the right answer after each of 32 lines.

    `accuracy` is that after line 15, the last that occurs in training.
    """
    torch.manual_seed(seed)
    network, generator = build(model), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS)
    for step in range(STEPS):
        length = min(LENGTH, 4 + (LENGTH - 4) * step // GROWING)
        tokens, answers = programs(BATCH, length, generator)
        loss = F.cross_entropy(network(tokens)[0].flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    tokens, answers = programs(2000, LONGER, torch.Generator().manual_seed(0))
    with torch.no_grad():
        right = network.eval()(tokens)[0].argmax(-1) == answers
    lines = [round(line, 4) for line in right.double().mean(1).tolist()]
    return {"accuracy": lines[LENGTH - 1], "lines": lines}
