r"""
---
title: What is not a tensor
summary: >
  The choices of a feedback transformer that decide what its loop does, and the spans of
  steps in which the way back is worked through, with the dropout of each.
---

Beside its [weights](weights.py), the loop of a feedback transformer has to know a few
plain things: how many heads there are, how far back memory goes, what is dropped. They
are gathered in `Form`. And it goes through a text in **spans** of some steps each,
because [on the way back](backward.py) everything that need not wait for its turn is
done for a whole span at once.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\tau$ | `horizon` | | rows that a step sees at most, if not all |
| | `steps` | | steps of a span |
| | `rows` | | rows of memory that some step of a span sees |
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

#: Steps of a span. More make larger products, and need more memory for them.
STEPS = 16


@dataclass(frozen=True)
class Dropout:
    r"""
    ## What is dropped, and how often

    * `attention` is the probability to drop an attention weight
    * `branch` is that of a feature of what attention, or the network, adds
    * `hidden` is that of a hidden feature of the network
    * `seed` begins the random numbers
    """

    attention: float = 0.0
    branch: float = 0.0
    hidden: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Form:
    r"""
    ## Choices

    * `heads` is the number of heads, $H$
    * `eps` is the $\epsilon$ of all norms
    * `horizon` is $\tau$, `None` for all rows
    * `norm_memory` is whether rows of memory are normalised
    * `activation` is $f$, which maps each number by itself
    * `is_gated` is whether the network has a gate
    * `dropout` is what is dropped, `None` for nothing
    """

    heads: int
    eps: float
    horizon: int | None
    norm_memory: bool
    activation: Callable[[Tensor], Tensor]
    is_gated: bool
    dropout: Dropout | None = None


@dataclass(frozen=True)
class Span:
    r"""
    ## A span of steps

    * `start`, `stop` are its steps, $t =$ `start`, …, `stop` $- 1$
    * `before` is how many rows of memory there were before step 0
    * `low` is the first row that its first step sees; no later step sees an older one

    Row `before` $+ t$ is the one that step $t$ writes.
    """

    start: int
    stop: int
    before: int
    low: int

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return self.stop - self.start

    @property
    def old(self) -> int:
        """How many rows its first step sees."""
        return self.before + self.start - self.low

    @property
    def rows(self) -> int:
        """How many rows some step of it sees."""
        return self.old + self.steps - 1

    def distances(self, device: torch.device) -> Tensor:
        r"""
        How far back each row is for each step, $d = S_t - j$, `[steps, rows]`. What a
        step has not written yet is at distance 0 or less.
        """
        step = torch.arange(self.steps, device=device)[:, None]
        return self.old + step - torch.arange(self.rows, device=device)


def spans(
    length: int, before: int, horizon: int | None, longer: int = 1
) -> Iterator[Span]:
    r"""
    ## The spans of a text

    * `length` is $T$
    * `before` is how many rows of memory there are at the beginning
    * `horizon` is $\tau$
    * `longer` is how many times as long they shall be: who draws no masks is free to
      choose
    """
    steps = STEPS * longer
    for start in range(0, length, steps):
        low = 0 if horizon is None else max(0, before + start - horizon)
        yield Span(start, min(length, start + steps), before, low)


class Masks(NamedTuple):
    r"""
    ## Dropout of a span

    What is kept, as factors: 0, or $1 / (1 - p)$, which makes up for what is missing.
    `None` where nothing is dropped.

    * `attention` is for weights, `[H·B, steps·L, rows]`
    * `attended`, `concluded` are for what the two branches of a layer add,
      `[L, steps, B, C]`
    * `hidden` is for hidden features, `[L, steps, B, F]`
    """

    attention: Tensor | None = None
    attended: Tensor | None = None
    concluded: Tensor | None = None
    hidden: Tensor | None = None


@dataclass(frozen=True)
class Drawn(Dropout):
    r"""
    ### Drawn before

    Who [records](../gpu/graphs.py) what a GPU does cannot draw while it is recorded.

    * `masks` are those of each span, by its first step
    """

    masks: Mapping[int, Masks] = field(default_factory=dict)


def draw(
    form: Form, span: Span, like: Tensor, n_layers: int, batch: int, d_ff: int
) -> Masks:
    r"""
    ### Drawn twice alike

    The way back needs the masks that the way there had. Kept, those of attention alone
    would be as large as all attention weights. But random numbers of a computer are not
    random: from the same seed come the same ones. So nothing is kept but the seed, and
    each span draws its masks again.

    * `like` is a tensor of the type and on the device that they shall have, `[..., C]`
    """
    dropout = form.dropout
    if dropout is None:
        return Masks()
    if isinstance(dropout, Drawn):
        return dropout.masks[span.start]
    generator = torch.Generator(like.device)
    generator.manual_seed(dropout.seed + span.start)

    def mask(probability: float, *shape: int) -> Tensor | None:
        if probability == 0:
            return None
        kept = 1 - probability
        drawn = like.new_empty(shape).bernoulli_(kept, generator=generator)
        return drawn.div_(kept) if kept else drawn

    steps, width = span.steps, like.shape[-1]
    weights = (form.heads * batch, steps * n_layers, span.rows)
    return Masks(
        mask(dropout.attention, *weights),
        mask(dropout.branch, n_layers, steps, batch, width),
        mask(dropout.branch, n_layers, steps, batch, width),
        mask(dropout.hidden, n_layers, steps, batch, d_ff),
    )
