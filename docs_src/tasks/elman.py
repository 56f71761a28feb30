"""Is the lamp on? At each step its switch is pressed or left alone, and each press turns the lamp.

No step says whether the lamp is on, and no window of steps does, as it does not say how the lamp
was before. Inputs are one-hot, a press has probability 1/2, and a sequence starts with the lamp
off. Training: 400 updates on 64 new sequences of 16 steps, Adam, learning rate 0.02, gradients
clipped to a length of 1. Testing: 1,000 sequences of 1,000 steps. Each model is trained alike:

* ``recurrence``: an Elman layer of 16 units and a linear output;
* ``window``: 16 tanh units that read the last four steps, and a linear output;
* ``no recurrence``: the Elman layer with recurrent weights that stay 0.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.recurrent.elman import ElmanLayer

MODELS = ("recurrence", "window", "no recurrence")
UNITS, WINDOW, STEPS = 16, 4, 16
#: The steps after which the tests look.
TESTED = (*range(1, 33), *range(40, 101, 10), *range(200, 1001, 100))


class Window(nn.Module):
    """Hidden units that read the last steps, and nothing before them."""

    def __init__(self) -> None:
        super().__init__()
        self.units = nn.Linear(2 * WINDOW, UNITS)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Takes `[T, B, 2]` and returns `[T, B, N]`; steps before the first are zeros."""
        x = F.pad(x, (0, 0, 0, 0, WINDOW - 1, 0))
        return self.units(x.unfold(0, WINDOW, 1).flatten(2)).tanh(), None


def sample(steps: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Presses, one-hot, `[T, B, 2]`, and whether the lamp is on after each step, `[T, B]`."""
    presses = torch.randint(2, (steps, count), generator=generator)
    return F.one_hot(presses, 2).float(), presses.cumsum(0) % 2


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """The share of right answers: `last` at step 1,000, `by_step` at those of `TESTED`."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    reader = Window() if model == "window" else ElmanLayer(2, UNITS)
    output = nn.Linear(UNITS, 2)
    if isinstance(reader, ElmanLayer) and model == "no recurrence":
        nn.init.zeros_(reader.cell.recurrent.weight).requires_grad_(False)
    network = nn.ModuleList([reader, output])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(400):
        x, lamp = sample(STEPS, 64, generator)
        logits = output(reader(x)[0])
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), lamp.flatten()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        x, lamp = sample(TESTED[-1], 1000, torch.Generator().manual_seed(1000))
        right = (output(reader(x)[0]).argmax(-1) == lamp).float().mean(1)
    by_step = [round(right[step - 1].item(), 3) for step in TESTED]
    return {"last": by_step[-1], "by_step": by_step}
