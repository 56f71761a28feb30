"""Transformers with and without feedback follow programs: who knows x and y after each line?

``python -m docs_src.results.programs`` trains all models and writes ``programs.json`` beside it, in
about seven minutes of one CPU thread. The page about the Feedback Transformer shows the results.
"""

import json
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import labml_nn

KEPT = Path(__file__).with_suffix(".json")
#: Numbers are counted modulo this, so that they stay small.
MODULUS = 6
#: The lines, one token each: first `x = …`, then `y = …`, then these.
UPDATES = [
    f"if {one} < {other}: {one} = {one} + {added}"
    for one, other in (("x", "y"), ("y", "x"))
    for added in (1, 2, 3)
]
LINES = [f"{name} = {value}" for name in "xy" for value in range(MODULUS)] + UPDATES

MODELS = [("feedback", 1), ("feedback", 2), *(("autoregressive", n) for n in (1, 2, 4))]
SEEDS, UPDATE_STEPS, LENGTH, LONGER = (1, 2, 3), 1500, 16, 32


def programs(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens and right answers, `[T, B]` each: the answer after a line is 6 x + y.

    The first line sets x, the second sets y (which is 0 before), and the others are updates.
    """
    x, y = torch.randint(MODULUS, (2, count), generator=generator)
    tokens, answers = [x, MODULUS + y], [MODULUS * x, MODULUS * x + y]
    for _ in range(length - 2):
        update = torch.randint(len(UPDATES), (count,), generator=generator)
        changes_x, added = update < 3, update % 3 + 1
        more_x, more_y = changes_x & (x < y), ~changes_x & (y < x)
        x = torch.where(more_x, x + added, x) % MODULUS
        y = torch.where(more_y, y + added, y) % MODULUS
        tokens.append(2 * MODULUS + update)
        answers.append(MODULUS * x + y)
    return torch.stack(tokens), torch.stack(answers)


def train(name: str, layers: int, seed: int) -> dict[str, object]:
    """One model on new programs of 16 lines; accuracy of each line of programs of 32."""
    torch.manual_seed(seed)
    config = {"n_vocab": MODULUS**2, "d_model": 64, "heads": 4, "n_layers": layers}
    config |= {"max_len": 64, "dropout_prob": 0.0}
    model = labml_nn.create(
        name, **config, **{"autoregressive": {"positions": "rotary"}}.get(name, {})
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, UPDATE_STEPS)
    generator, begun = torch.Generator().manual_seed(seed), time.perf_counter()
    for _ in range(UPDATE_STEPS):
        tokens, answers = programs(64, LENGTH, generator)
        loss = F.cross_entropy(model(tokens)[0].flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    tokens, answers = programs(2000, LONGER, torch.Generator().manual_seed(0))
    with torch.no_grad():
        right = model.eval()(tokens)[0].argmax(-1) == answers
    return {
        "model": name,
        "layers": layers,
        "seed": seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": round(time.perf_counter() - begun, 1),
        "accuracy": [round(line, 4) for line in right.double().mean(1).tolist()],
    }


def main() -> None:
    """All models and seeds."""
    torch.set_num_threads(1)
    runs = []
    for seed in SEEDS:
        for name, layers in MODELS:
            runs.append(train(name, layers, seed))
            print(runs[-1], flush=True)
    KEPT.write_text(json.dumps({"runs": runs}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
