"""When does a network notice that a line is over? After the task of the LSTM's lesson.

Networks are trained on lines of brackets and letters as `docs_src.tasks.lstm` says, and asked after
each step whether a bracket is open. Here we look at the steps from the last closing bracket of a
line on, where the answer is no: the share of wrong answers, `LATER` steps behind it, in 200 lines
of each number of brackets from 1 to 20. `late` has a share for each of these steps.
"""

import torch
from torch import nn
from torch.nn import functional as F

from docs_src.tasks.lstm import DEEPEST, STEPS, UNITS, UPDATES, sample
from labml_nn.lstm import LSTM
from labml_nn.recurrent.elman import Elman

MODELS = ("LSTM", "Elman", "Elman, 34 units")
LATER = (0, 1, 2, 4, 8)


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """The share of wrong answers behind the last bracket."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    units = 34 if model == "Elman, 34 units" else UNITS
    reader = LSTM(3, units, 1) if model == "LSTM" else Elman(3, units)
    output = nn.Linear(units, 1)
    weights = [*reader.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.02, UPDATES)
    for _ in range(UPDATES):
        x, count = sample(
            torch.randint(1, DEEPEST + 1, (64,), generator=generator), STEPS, generator
        )
        logits = output(reader(x)[0])[..., 0]
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(logits, (count > 0).float()).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()

    tests, wrong, asked = torch.Generator().manual_seed(1000), [0] * len(LATER), [0] * len(LATER)
    with torch.no_grad():
        for depth in range(1, DEEPEST + 1):
            x, _ = sample(torch.full((200,), depth), 5 * depth + 20, tests)
            says_open = output(reader(x)[0])[..., 0] > 0
            # 1 at the last closing bracket, 2 at the step behind it, and so on.
            behind = (x[..., 2].cumsum(0) == depth).cumsum(0)
            for i, later in enumerate(LATER):
                there = behind == later + 1
                wrong[i] += int((says_open & there).sum())
                asked[i] += int(there.sum())
    return {"late": [round(w / n, 3) for w, n in zip(wrong, asked, strict=True)]}
