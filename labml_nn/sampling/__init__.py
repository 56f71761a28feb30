r"""
---
title: Sampling
summary: >
  From probabilities to a token: the most probable one, a fair draw, and three ways to
  draw with some care. Greedy, temperature, top-k and nucleus.
paper: https://arxiv.org/abs/1904.09751
---

A language model gives a probability to every token that may come next. Somebody has to
pick one. Why not always the most probable?

Because the most probable text is not a typical one. Ask for the likeliest next word
again and again, and you get *I don't know. I don't know. I don't know.* A text that
people write has a surprise every few words: [@holtzman2019curious, Figure 2] draw the
probabilities of words that people wrote beside those of a text made to be probable. The
second is nearly all certainty; the first jumps up and down. And each time that a phrase
comes again, a model finds it likelier to come once more (Figure 4), so greed feeds
itself.

Then why not draw from the probabilities as they are? That is fair, and for a perfect
model it would be right. A real one spreads a little probability over everything that
hardly ever follows, because it never has seen enough to rule it out. The **tail** is
thin and very long. If each of 10,000 unlikely tokens gets one part in 100,000, one draw
in ten ends up among them. In a text of 100 tokens that is ten blunders, and after each
the model goes on from something that no one would have written.

So samplers change the distribution a little before they draw:

| Sampler | What it does to the distribution |
|:--|:--|
| `Greedy` | leaves the most probable token alone |
| `Temperature` | makes likely tokens likelier (below 1), or less likely (above) |
| `TopK` | leaves the $k$ most probable |
| `Nucleus` | leaves the smallest set that has probability $p$ |
| `Chain` | does one after the other |

A sampler is called with logits and returns tokens. `distribution` shows what it draws
from, which is the best way to get to know it:

```python
import torch
from labml_nn.sampling import Chain, Nucleus, Temperature, TopK

logits = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()  # [B, V]
print(Temperature(0.5).distribution(logits))  # 0.72, 0.18, 0.07, 0.03
print(TopK(2).distribution(logits))  # 0.67, 0.33, 0, 0
print(Nucleus(0.8).distribution(logits))  # 0.56, 0.28, 0.17, 0
sampler = Chain(Temperature(0.8), Nucleus(0.95))
token = sampler(logits)  # [B]
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $z$ | `logits` | `[B, V]` | what the model says; $-\infty$ for what cannot come |
| $q$ | | `[B, V]` | what is drawn from, $\sum_v q_{bv} = 1$ |
| $\tau$ | `temperature` | | how even the distribution becomes |
| $k$ | `k` | | how many tokens are left |
| $p$ | `p` | | how much probability is left |
"""

import math
from dataclasses import dataclass
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor

from labml_nn.checks import check_sizes
from labml_nn.sampling.generation import generate
from labml_nn.sampling.sampler import Chain, Greedy, Sampler, leave_only

__all__ = [
    "Chain",
    "Greedy",
    "Nucleus",
    "Sampler",
    "Temperature",
    "TopK",
    "generate",
]


@dataclass(frozen=True)
class Temperature(Sampler):
    r"""
    ## Temperature

    $$q_v = \frac{e^{z_v / \tau}}{\sum_u e^{z_u / \tau}} \propto p_v^{1 / \tau}$$

    With $\tau = 1$ nothing changes. Below, differences between logits grow, and what is
    likely becomes likelier; above, they shrink. In the limit $\tau \to 0$ it is greedy,
    and for $\tau \to \infty$ all tokens are equally likely, nonsense included. At
    $\tau = 1/2$ probabilities are squared: a token that was ten times as likely as
    another is a hundred times as likely.

    ![What follows a "t" in the introduction of this page.](figure:sampling.temperature)

    The name comes from physics. In a gas, a state of energy $E$ has a probability
    proportional to $e^{-E / k_\mathrm{B} T}$; a hot gas is everywhere, a cold one where
    energy is lowest.

    * `temperature` is $\tau > 0$. Zero is an error: say `Greedy()`, which needs neither
      a division by zero nor a random number

    Raises `ValueError` for another number, `TypeError` for what is not a number.
    """

    temperature: float

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature)
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"`temperature` ({self.temperature}) must be above 0 and finite; use "
                "Greedy() for the limit 0"
            )

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        r"""
        The largest logit is subtracted first. The softmax does not notice, and near
        zero the others go to $-\infty$, not the largest to $+\infty$. A temperature too
        small for the precision of the logits would become zero; the smallest number
        above zero takes its place.
        """
        temperature = max(self.temperature, torch.finfo(logits.dtype).tiny)
        return (logits - logits.amax(-1, keepdim=True)) / temperature


MANY = 2048


@dataclass(frozen=True)
class TopK(Sampler):
    r"""
    ## The k most probable

    The tail is cut off: all but the $k$ most probable tokens become impossible, and
    those share the probability. With $k = 10$
    [@fan2018hierarchical] wrote stories.

    Exactly $k$ are left. Where tokens at the border are equally probable, those with
    lower numbers stay. (Comparing every logit with the $k$-th largest, as is often
    done, would keep all of them.) A token that was impossible before stays impossible,
    and if the vocabulary has no more than $k$ tokens, all are left.

    * `k` is a positive whole number

    Raises `ValueError` or `TypeError` for anything else.
    """

    k: int

    def __post_init__(self) -> None:
        check_sizes(k=self.k)

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """
        A *stable* sort keeps the order of equals. It takes its time over a large
        vocabulary, where `torch.topk` is ten times as fast, but does not say which of
        them it takes. So it is asked for the $k$-th largest alone. What lies above is
        in, and the first of its equals are, as long as there is room. (Of 50,257 tokens
        on one core: 0.4 ms instead of 4.2.)
        """
        size = logits.shape[-1]
        if size < MANY or self.k >= size:
            order = logits.sort(dim=-1, descending=True, stable=True).indices
            return leave_only(logits, order[:, : self.k])
        border = logits.topk(self.k).values[:, -1:]
        above, equal = logits > border, logits == border
        room = self.k - above.sum(-1, keepdim=True)
        left = above | (equal & (equal.cumsum(-1) <= room))
        return logits.masked_fill(~left, -math.inf)


@dataclass(frozen=True)
class Nucleus(Sampler):
    r"""
    ## The nucleus

    How many tokens are plausible? After *to be or not to* it is one, after *my name is*
    it is thousands. No $k$ is right for both: with $k = 10$ the first would let nine
    blunders in, the second would forget most names. The nucleus
    ([@holtzman2019curious, §3.1, eq. 2]), also called top-p, fixes the probability
    instead of the number. It is the smallest set $V^{(p)}$ of tokens that together have
    probability $p$:

    $$\sum_{v \in V^{(p)}} P(v \mid w_0, \dots, w_t) \ge p$$

    Take tokens from the most probable down until the sum reaches $p$; the one that
    reaches it is in. Of equally probable tokens at the border, those with lower numbers
    are taken first. Sums are rounded: a set that should reach $p$ exactly may be found
    a millionth short of it, and then gets one token more.

    * `p` is above 0, and at most 1, which leaves everything. The paper uses 0.95

    Raises `ValueError` for another number, `TypeError` for what is not a number.
    """

    p: float

    def __post_init__(self) -> None:
        _check_number("p", self.p)
        if not 0 < self.p <= 1:
            raise ValueError(
                f"`p` ({self.p}) must be above 0 and at most 1; 0.95 is usual, and "
                "Greedy() takes the most probable token alone"
            )

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """
        A token is in if those before it, together, have less than `p`. So the first one
        always is, and nothing is left without a choice.
        """
        if self.p == 1:
            return logits
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        reached = ordered.softmax(-1).cumsum(-1)
        before = reached.roll(1, dims=-1)
        before[:, 0] = 0
        kept = torch.zeros_like(logits, dtype=torch.bool)
        kept.scatter_(-1, order, before < self.p)
        return logits.masked_fill(~kept, -math.inf)


# A number of Python or NumPy, and not a truth value.
def _check_number(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"`{name}` ({value!r}) must be a number, not a {type(value).__name__}"
        )


# ## Differences from the papers
#
# * **Equals.** Neither paper says what happens where tokens at the border are equally
#   probable. Here lower numbers come first, so that a set is never larger than it has
#   to be.
# * **Smallest set.** Any order within the nucleus gives the same set, and the paper
#   defines the set alone. Taking tokens from the most probable down is how it is found.
#
# ## Exercises
#
# **1.** With which $k$, $p$ and $\tau$ do the other samplers do what `Greedy` does?
#
# <details><summary>Answer</summary>
#
# With $k = 1$; with any $p$ up to the probability of the most probable token; with
# $\tau$ close enough to 0 that the difference of the two largest logits, divided by it,
# leaves nothing for the second.
#
# ```python
# import torch
# from labml_nn.sampling import Greedy, Nucleus, Temperature, TopK
#
# logits = torch.tensor([[1.0, 3.0, 2.0]])
# greedy = Greedy().distribution(logits)
# for sampler in TopK(1), Nucleus(0.01), Temperature(0.001):
#     assert torch.equal(sampler.distribution(logits), greedy)
# ```
#
# </details>
#
# **2.** Does it matter whether temperature comes before or after `TopK`? Before or
# after `Nucleus`?
#
# <details><summary>Answer</summary>
#
# Temperature never changes which of two tokens is the more probable, so the $k$ most
# probable are the same before and after. It does change how much probability they have,
# and with it the size of the nucleus: cooled first, fewer tokens suffice.
#
# ```python
# import torch
# from labml_nn.sampling import Chain, Nucleus, Temperature, TopK
#
# torch.manual_seed(0)
# logits, cool = torch.randn(2, 65), Temperature(0.5)
# one, other = Chain(cool, TopK(10)), Chain(TopK(10), cool)
# torch.testing.assert_close(one.distribution(logits), other.distribution(logits))
#
# first, last = Chain(cool, Nucleus(0.9)), Chain(Nucleus(0.9), cool)
# size = lambda sampler: (sampler.distribution(logits) > 0).sum(-1)
# assert (size(first) < size(last)).all()
# ```
#
# </details>
#
# **3.** *Min-p* ([@nguyen2024turning]) leaves the tokens that have at least a given
# share of the probability of the most probable one. Write it as a sampler that works in
# a `Chain`.
#
# <details><summary>Answer</summary>
#
# A share of a probability is a distance between logits:
# $p_v \ge \alpha \, p_{\max}$ is the same as $z_v \ge z_{\max} + \log \alpha$. No
# softmax and no sorting is needed.
#
# ```python
# import math
# import torch
# from labml_nn.sampling import Chain, Sampler, Temperature
#
# class MinP(Sampler):
#     def __init__(self, share):
#         self.share = share
#
#     def adjust(self, logits):
#         least = logits.amax(-1, keepdim=True) + math.log(self.share)
#         return logits.masked_fill(logits < least, -math.inf)
#
# logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
# left = Chain(MinP(0.25), Temperature(1.5)).distribution(logits) > 0
# assert left.tolist() == [[True, True, True, False]]
# ```
#
# </details>
