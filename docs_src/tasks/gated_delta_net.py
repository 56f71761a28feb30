"""What does a name have in this chapter? New chapters begin now and then, and nothing old counts.

At each step one of 8 names gets one of 16 numbers, and with probability 1/8 a mark says that a new
chapter begins with it. Then a name is asked: for its last number, or for "none" if it has got none
in this chapter. All choices are random, with equal probabilities. Training: 300 updates on 32 new
sequences of 32 steps, Adam, learning rate 0.02. Testing: 500 sequences of 256 steps. Each model has
one memory for keys and values of 16 features. It learns keys, values and β, for each token of a
name, a number and perhaps a mark, and a linear output:

* ``with α``: a Gated DeltaNet, which also learns α for each token;
* ``without α``: a DeltaNet.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.recurrent.gated_delta_net import gated_delta_rule_chunks

MODELS = ("with α", "without α")
NAMES, NUMBERS, FEATURES, STEPS, LONG = 8, 16, 16, 32, 256
#: Pairs of the chapter so far, where the tests look.
PAIRS = tuple(range(1, 17))


class Memory(nn.Module):
    """A memory for pairs of a name and a number, which are one-hot, with the mark of a chapter."""

    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.gated = gated
        token = NAMES + NUMBERS + 1
        self.query = nn.Linear(NAMES, FEATURES, bias=False)
        self.key = nn.Linear(token, FEATURES, bias=False)
        self.value = nn.Linear(token, FEATURES, bias=False)
        self.beta, self.alpha = nn.Linear(token, 1), nn.Linear(token, 1)
        self.output = nn.Linear(FEATURES, NUMBERS + 1)

    def forward(self, names: Tensor, numbers: Tensor, marks: Tensor, asked: Tensor) -> Tensor:
        """Takes names, numbers and marks, `[T, B]`; returns logits, `[T, B, numbers + 1]`."""
        both = F.one_hot(names, NAMES), F.one_hot(numbers, NUMBERS), marks[..., None]
        token = torch.cat(both, dim=-1).float()
        q = F.normalize(self.query(F.one_hot(asked, NAMES).float()), dim=-1)[:, :, None]
        k = F.normalize(self.key(token), dim=-1)[:, :, None]
        v, beta = self.value(token)[:, :, None], self.beta(token).sigmoid()
        # At first nearly all is kept: the sigmoid of 3 is 0.95.
        kept = F.logsigmoid(self.alpha(token) + 3) if self.gated else torch.zeros_like(beta)
        empty = v.new_zeros(names.shape[1], 1, FEATURES, FEATURES)
        return self.output(gated_delta_rule_chunks(q, k, v, beta, kept, empty)[0][:, :, 0])


def sample(steps: int, count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Names, numbers, marks, names that are asked, answers, and pairs of the chapter so far."""
    names = torch.randint(NAMES, (steps, count), generator=generator)
    numbers = torch.randint(NUMBERS, (steps, count), generator=generator)
    marks = torch.rand(steps, count, generator=generator) < 1 / 8
    asked = torch.randint(NAMES, (steps, count), generator=generator)
    # What each name has got in this chapter, step by step.
    has, pairs = torch.full((count, NAMES), NUMBERS), torch.zeros(count).long()
    answers, ages = [], []
    for t in range(steps):
        has[marks[t]] = NUMBERS
        has[torch.arange(count), names[t]] = numbers[t]
        pairs = torch.where(marks[t], 1, pairs + 1)
        answers.append(has.gather(1, asked[t, :, None])[:, 0])
        ages.append(pairs)
    return names, numbers, marks, asked, torch.stack(answers), torch.stack(ages)


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """Shares of right answers: of `all`, of names that `have` a number in this chapter, of `none`.

    Those of the last two also by the pairs of the chapter so far, and the share of questions whose
    answer is "none".
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    memory = Memory(model == "with α")
    optimizer = torch.optim.Adam(memory.parameters(), lr=0.02)
    for _ in range(300):
        *given, answers, _ = sample(STEPS, 32, generator)
        optimizer.zero_grad()
        F.cross_entropy(memory(*given).flatten(0, 1), answers.flatten()).backward()
        optimizer.step()
    with torch.no_grad():
        *given, answers, pairs = sample(LONG, 500, torch.Generator().manual_seed(1000))
        right = (memory(*given).argmax(-1) == answers).float()
        # In the first chapter there is nothing old.
        later, none = given[2].cumsum(0) > 0, answers == NUMBERS

    def share(where: Tensor) -> float:
        return round(right[where & later].mean().item(), 3)

    return {
        "all": share(later),
        "have": share(~none),
        "none": share(none),
        "have_by_pairs": [share(~none & (pairs == n)) for n in PAIRS],
        "none_by_pairs": [share(none & (pairs == n)) for n in PAIRS],
        "nothing": round(none[later].float().mean().item(), 3),
    }
