"""What does a name have now? Names get new numbers again and again, and only the last one counts.

At each step one of 8 names gets one of 16 numbers, and then the number of a name is asked: any of
those that have one. All choices are random, with equal probabilities. Training: 300 updates on 32
new sequences of 32 steps, Adam, learning rate 0.02. Testing: 500 sequences of 256 steps. Each model
has one memory for keys and values of 16 features. It learns a key for each name, a value for each
number, β for each pair, and a linear output, before which what is found is normalised:

* ``delta rule``: writes β times the error;
* ``addition``: writes β times the value, as linear attention does.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.recurrent.delta_net import delta_rule_chunks
from labml_nn.recurrent.linear_attention import linear_attention_chunks

MODELS = ("delta rule", "addition")
NAMES, NUMBERS, FEATURES, STEPS, LONG = 8, 16, 16, 32, 256
#: How often the name that is asked has got a number, where the tests look.
TIMES = tuple(range(1, 25))


class Memory(nn.Module):
    """A memory for pairs of a name and a number, which are one-hot."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule = rule
        self.key = nn.Linear(NAMES, FEATURES, bias=False)
        self.value = nn.Linear(NUMBERS, FEATURES, bias=False)
        self.beta = nn.Linear(NAMES + NUMBERS, 1)
        self.norm = nn.RMSNorm(FEATURES)
        self.output = nn.Linear(FEATURES, NUMBERS)

    def forward(self, names: Tensor, numbers: Tensor, asked: Tensor) -> Tensor:
        """Takes numbers of names and values, `[T, B]`, and returns logits, `[T, B, numbers]`."""
        name, number = F.one_hot(names, NAMES).float(), F.one_hot(numbers, NUMBERS).float()
        k = F.normalize(self.key(name), dim=-1)[:, :, None]
        q = F.normalize(self.key(F.one_hot(asked, NAMES).float()), dim=-1)[:, :, None]
        v = self.value(number)[:, :, None]
        beta = self.beta(torch.cat([name, number], dim=-1)).sigmoid()
        empty = v.new_zeros(names.shape[1], 1, FEATURES, FEATURES)
        if self.rule == "delta rule":
            found, _ = delta_rule_chunks(q, k, v, beta, empty)
        else:
            found, _ = linear_attention_chunks(q, k, beta[..., None] * v, empty)
        return self.output(self.norm(found[:, :, 0]))


def sample(steps: int, count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Names, numbers, names that are asked, their last numbers, and how many each of them got."""
    names = torch.randint(NAMES, (steps, count), generator=generator)
    numbers = torch.randint(NUMBERS, (steps, count), generator=generator)
    got = F.one_hot(names, NAMES).cumsum(0)
    known = (got > 0).float().flatten(0, 1)
    asked = torch.multinomial(known, 1, generator=generator).view(steps, count)
    # The last step at which each name got a number.
    at = torch.where(F.one_hot(names, NAMES) > 0, torch.arange(steps)[:, None, None], 0)
    last = at.cummax(0).values.gather(2, asked[..., None])[..., 0]
    return names, numbers, asked, numbers.gather(0, last), got.gather(2, asked[..., None])[..., 0]


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """Shares of right answers: `by_times` that a name was written, and `last` after 256 steps."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    memory = Memory(model)
    optimizer = torch.optim.Adam(memory.parameters(), lr=0.02)
    for _ in range(300):
        *given, answers, _ = sample(STEPS, 32, generator)
        optimizer.zero_grad()
        F.cross_entropy(memory(*given).flatten(0, 1), answers.flatten()).backward()
        optimizer.step()
    with torch.no_grad():
        *given, answers, times = sample(LONG, 500, torch.Generator().manual_seed(1000))
        right = (memory(*given).argmax(-1) == answers).float()
    by_times = [round(right[times == n].mean().item(), 3) for n in TIMES]
    return {"last": round(right[-1].mean().item(), 3), "by_times": by_times}
