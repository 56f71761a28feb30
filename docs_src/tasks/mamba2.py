"""Which digit was heard last? Between digits there is noise, a little or much, and it says nothing.

A sequence has digits, 1 to 8, and noise, 0. At each step the target is the last digit. How many
tokens are digits differs from sequence to sequence, from 2 to 52 %, and few have many; the first
token is a digit. Training: 300 updates on 16 new sequences of 64 tokens, Adam, learning rate 0.01,
gradients clipped to a length of 1. Testing: eight random digits in a row, then noise, in 1,000
sequences; the models answer after each number of noise tokens in `GAPS`. Each model is an embedding
of 16 features, a mixer of four heads with keys and values of 4 numbers and without convolution,
and a linear output:

* ``chosen``: Δ is computed from the token, as in Mamba-2;
* ``constant``: the weights that compute Δ from the token stay 0, so each head learns one Δ for all;
* ``no decay``: Δ is computed from the token, but A stays 0, so nothing fades.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.recurrent.mamba2 import Mamba2

MODELS = ("chosen", "constant", "no decay")
DIGITS, STEPS, HEADS, BEFORE = 8, 64, 4, 8
#: How many tokens of noise follow the last digit, where the tests look.
GAPS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def sample(steps: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens, `[T, B]`, and at each the last digit, counted from 0."""
    rate = 0.02 + 0.5 * torch.rand(count, generator=generator) ** 2
    heard = torch.rand(steps, count, generator=generator) < rate
    heard[0] = True
    tokens = torch.randint(1, DIGITS + 1, (steps, count), generator=generator) * heard
    last = torch.arange(steps)[:, None].where(heard, 0).cummax(0).values
    return tokens, tokens.gather(0, last) - 1


def run(model: str, seed: int) -> dict[str, float | list[float]]:
    """Right answers after each of `GAPS`, and what each head keeps at noise and at digits."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    embedding, mixer = nn.Embedding(DIGITS + 1, 16), Mamba2(16, HEADS, 4, 4, conv=1)
    output = nn.Linear(16, DIGITS)
    network = nn.ModuleList([embedding, mixer, output])
    weight = mixer.in_proj.weight
    if model == "constant":
        # The last rows compute Δ. They are 0, and without a gradient they stay so.
        rows = torch.ones(len(weight), 1)
        rows[-HEADS:] = 0
        weight.data.mul_(rows)
        weight.register_hook(rows.mul)
    if model == "no decay":
        nn.init.constant_(mixer.A_log, -torch.inf).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(300):
        tokens, targets = sample(STEPS, 16, generator)
        logits = output(mixer(embedding(tokens))[0])
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1000)
        digits = torch.randint(1, DIGITS + 1, (BEFORE, 1000), generator=generator)
        tokens = F.pad(digits, (0, 0, 0, GAPS[-1]))
        answers = output(mixer(embedding(tokens))[0]).argmax(-1)
        right = (answers[BEFORE - 1 :] == digits[-1] - 1).float().mean(1)
        deltas = F.softplus(F.linear(embedding.weight, weight[-HEADS:]) + mixer.dt_bias)
        kept = torch.exp(-mixer.A_log.exp() * deltas)
    by_gap = [round(right[gap].item(), 3) for gap in GAPS]
    measured: dict[str, float | list[float]] = {"at 64": by_gap[GAPS.index(64)], "by_gap": by_gap}
    measured["kept_by_noise"] = [round(one, 4) for one in kept[0].tolist()]
    measured["kept_by_digits"] = [round(one, 4) for one in kept[1:].mean(0).tolist()]
    return measured
