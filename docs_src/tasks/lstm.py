"""Is a bracket open? Brackets are opened and closed again, with letters at half of all steps.

A line opens 1 to 20 brackets and closes them all, one after the other. At each step it has a
bracket with probability 1/2, and a letter otherwise; letters follow to its end. A network should
say after each step whether a bracket is open. So at the last bracket it has to know that there was
one for each that was opened, up to 80 steps before on average. Inputs are one-hot: a letter, or one
of two brackets.

Training: 1,000 updates on 64 new lines of 100 steps, Adam with a learning rate that falls linearly
from 0.02 to 0.0004, gradients clipped to a length of 1. Testing: 200 lines of each depth; a line is
right if all answers are. Each network is trained alike and has a linear output:

* ``LSTM``: 16 cells, 1,280 weights and biases;
* ``Elman``: a layer of 16 units;
* ``Elman, 34 units``: as many weights and biases as the LSTM, within two in a hundred;
* ``GRU``: 16 cells.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.elman import Elman

MODELS = ("LSTM", "Elman", "Elman, 34 units", "GRU")
UNITS, STEPS, DEEPEST, UPDATES = 16, 100, 20, 1000
#: How many brackets are open in the middle of a line of the test.
TESTED = (1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 40)


def sample(depths: Tensor, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Lines, one-hot, `[T, B, 3]`, and how many brackets are open after each step, `[T, B]`."""
    is_bracket = torch.rand(steps, len(depths), generator=generator) < 0.5
    number = is_bracket.cumsum(0)
    opens, closes = is_bracket & (number <= depths), is_bracket & (number <= 2 * depths)
    kinds = torch.where(opens, 1, torch.where(closes, 2, 0))
    return F.one_hot(kinds, 3).float(), torch.minimum(number, (2 * depths - number).clamp(min=0))


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """The share of lines that are right: `trained` of 1 to 20 brackets, `by_depth` for `TESTED`."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    units = 34 if model == "Elman, 34 units" else UNITS
    reader: nn.Module = (
        LSTM(3, units, 1)
        if model == "LSTM"
        else GRU(3, units, 1)
        if model == "GRU"
        else Elman(3, units)
    )
    output = nn.Linear(units, 1)
    network = nn.ModuleList([reader, output])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.02, UPDATES)
    for _ in range(UPDATES):
        depths = torch.randint(1, DEEPEST + 1, (64,), generator=generator)
        x, count = sample(depths, STEPS, generator)
        logits = output(reader(x)[0])[..., 0]
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(logits, (count > 0).float()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    tests, by_depth = torch.Generator().manual_seed(1000), []
    with torch.no_grad():
        for depth in range(1, max(TESTED) + 1):
            # Long enough that nearly all lines end.
            x, count = sample(torch.full((200,), depth), 5 * depth + 20, tests)
            said = output(reader(x)[0])[..., 0] > 0
            by_depth.append((said == (count > 0)).all(0).float().mean().item())
    trained = sum(by_depth[:DEEPEST]) / DEEPEST
    tested = [round(by_depth[depth - 1], 3) for depth in TESTED]
    return {"trained": round(trained, 3), "by_depth": tested}
