r"""
---
title: What a sampler is
summary: >
  Logits in, a token out, by way of a distribution that can be looked at. The fair draw,
  the greedy one, and samplers one after the other.
---

A model returns logits, and somebody has to pick a token. All samplers do it in the same
two steps. They change the logits, in a way that is all their own; then they draw from
the softmax of what they got.

The parts that all of them share are on this page. What can be done to a distribution,
and why it should be, is on [the next one](__init__.py).

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $z$ | `logits` | `[B, V]` | what the model says; $-\infty$ for what cannot come |
| $q$ | `distribution(logits)` | `[B, V]` | what is drawn from, $\sum_v q_{bv} = 1$ |
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.evaluation import at_least_single


class Sampler:
    r"""
    ## A sampler

    Called by itself it draws from the distribution as it is,
    $q = \operatorname{softmax}(z)$. Subclasses override `adjust`, which takes logits
    and returns others. Logits are the natural place for changes: they need not sum to
    anything, and $-\infty$ takes a token out. The softmax makes the rest sum to one
    again.

    Samplers keep nothing. All randomness comes from the generator that they are given,
    so the same seed draws the same tokens.
    """

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """Logits of the distribution to draw from. Here they stay as they are."""
        return logits

    def distribution(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        r"""
        * `logits` are those of the model, one row for each sequence, `[B, V]`

        Returns the probabilities with which tokens are drawn, `[B, V]`, in single
        precision at least. Raises `ValueError` for a row from which nothing can be
        drawn: with NaN or $+\infty$, or with nothing but $-\infty$.
        """
        _check_logits(logits)
        return self.adjust(at_least_single(logits)).softmax(-1)

    def __call__(
        self, logits: Float[Tensor, "B V"], generator: torch.Generator | None = None
    ) -> Int[Tensor, " B"]:
        """
        * `logits` are those of the model, `[B, V]`
        * `generator` is where randomness comes from, on the device of the logits;
          `None` takes PyTorch's global one

        Returns a token for each sequence, `[B]`. Raises what `distribution` does.
        """
        drawn = torch.multinomial(self.distribution(logits), 1, generator=generator)
        return drawn.squeeze(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Greedy(Sampler):
    """
    ## The most probable

    No randomness: the same prompt is continued in the same way. It suits questions with
    one right answer, and tests. Of tokens that are equally probable it takes the one
    with the lowest number.
    """

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """All but one token become impossible."""
        return leave_only(logits, logits.argmax(-1, keepdim=True))

    def __call__(
        self, logits: Float[Tensor, "B V"], generator: torch.Generator | None = None
    ) -> Int[Tensor, " B"]:
        """Draws no random number, so the generator stays where it is."""
        _check_logits(logits)
        return logits.argmax(-1)


class Chain(Sampler):
    r"""
    ## One after the other

    `Chain(Temperature(0.8), Nucleus(0.95))` first cools and then cuts. The order
    matters: a nucleus of the cooled distribution is smaller than one of the original.

    * `samplers` are applied from left to right; none at all is a fair draw

    Raises `TypeError` for what is no `Sampler`.
    """

    def __init__(self, *samplers: Sampler) -> None:
        for sampler in samplers:
            if not isinstance(sampler, Sampler):
                raise TypeError(
                    f"`samplers` holds a {type(sampler).__name__} ({sampler!r}); "
                    "expected samplers, such as Temperature(0.8) and TopK(10)"
                )
        self.samplers = samplers

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """Each works on what the one before it left."""
        for sampler in self.samplers:
            logits = sampler.adjust(logits)
        return logits

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.samplers))})"


def leave_only(
    logits: Float[Tensor, "B V"], tokens: Int[Tensor, "B k"]
) -> Float[Tensor, "B V"]:
    r"""
    ## All but these become impossible

    * `tokens` are those to leave, `[B, k]`

    The others get a logit of $-\infty$ and a probability of $e^{-\infty} = 0$.
    """
    removed = torch.ones_like(logits, dtype=torch.bool).scatter_(-1, tokens, False)
    return logits.masked_fill(removed, -math.inf)


# The largest logit of a row tells all that can be wrong with it: it is NaN if one of
# them is, $+\infty$ if one is, and $-\infty$ if nothing is possible. A GPU is not
# asked, because each answer would keep it waiting; there the draw itself objects.
def _check_logits(logits: Tensor) -> None:
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise ValueError(
            f"`logits` has shape {list(logits.shape)}; expected [B, V], a row for each "
            "sequence: of what `forward` returns, take logits[-1]"
        )
    if not logits.is_floating_point():
        raise TypeError(
            f"`logits` has dtype {logits.dtype}; expected floating-point numbers"
        )
    if logits.device.type != "cpu":
        return
    for row, largest in enumerate(logits.amax(-1).tolist()):
        if math.isfinite(largest):
            continue
        hint = {
            math.inf: "; a logit is infinite",
            -math.inf: "; all tokens were ruled out",
        }.get(largest, "; did training diverge?")
        raise ValueError(
            f"row {row} of `logits` has the largest value {largest}, and no token can "
            f"be drawn from it{hint}"
        )


# ## Exercises
#
# **1.** Draw without `torch.multinomial`: add to each logit a number of its own, and
# take the largest sum. From which distribution must the numbers come?
#
# <details><summary>Answer</summary>
#
# From the Gumbel distribution, $g = -\log E$ with $E$ exponential. For then
# $z_v + g_v$ is largest where $E_v / e^{z_v}$ is smallest. That is an exponential
# variable with rate $e^{z_v}$, and of several of them each is the first with a
# probability proportional to its rate: the softmax.
#
# ```python
# import torch
#
# probabilities = torch.tensor([0.5, 0.3, 0.2])
# noise = -torch.empty(100_000, 3).exponential_().log()
# drawn = (probabilities.log() + noise).argmax(-1)
# shares = drawn.bincount() / len(drawn)
# torch.testing.assert_close(shares, probabilities, rtol=0, atol=0.01)
# ```
#
# </details>
#
# **2.** A model of Shakespeare must not write digits. Make a sampler that rules tokens
# out, for use in a `Chain`. Does it have to come first or last?
#
# <details><summary>Answer</summary>
#
# First. `TopK(10)` leaves ten tokens; if digits are ruled out after it, fewer than ten
# are left, and in the worst case none.
#
# ```python
# import math
# import torch
# from labml_nn.sampling import Chain, Sampler, TopK
#
# class Without(Sampler):
#     def __init__(self, *tokens):
#         self.tokens = tokens
#
#     def adjust(self, logits):
#         logits = logits.clone()
#         logits[:, list(self.tokens)] = -math.inf
#         return logits
#
# logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
# first = Chain(Without(0, 1), TopK(2)).distribution(logits)
# assert (first > 0).tolist() == [[False, False, True, True]]
# last = Chain(TopK(2), Without(0, 1)).distribution(logits)
# assert last.isnan().all()  # nothing is left to draw from
# ```
#
# </details>
#
# **3.** By how much does each sampler make a text more predictable? Compare the
# *entropies* of their distributions, $-\sum_v q_v \log q_v$.
#
# <details><summary>Answer</summary>
#
# Greedy: all the way, to zero. The entropy of a fair draw is the loss of a model that
# knows the truth; what a sampler takes from it, it takes from the variety of the text.
#
# ```python
# import torch
# from labml_nn.sampling import Greedy, Nucleus, Sampler, Temperature, TopK
#
# torch.manual_seed(0)
# logits = 3 * torch.randn(1, 65)
#
# def entropy(sampler):
#     q = sampler.distribution(logits)
#     return -torch.xlogy(q, q).sum().item()
#
# assert entropy(Greedy()) == 0
# for sampler in Temperature(0.8), TopK(10), Nucleus(0.9):
#     assert 0 < entropy(sampler) < entropy(Sampler())
# assert entropy(Temperature(1.2)) > entropy(Sampler())
# ```
#
# </details>
