r"""
---
title: Label smoothing
summary: >
  A loss that asks for less than certainty. A share of the probability goes to the wrong
  answers, which keeps logits finite and predictions honest.
paper: https://arxiv.org/abs/1512.00567
---

Cross entropy asks a model to give the right token a probability of exactly one. No
finite logits do that, so training never stops pushing them apart, and the model grows
more certain than it has reason to be. Label smoothing ([@szegedy2015rethinking, §7])
asks for a little less: probability $1 - \varepsilon$ for the right token, and
$\varepsilon$ spread over the wrong ones. That target can be reached. The original
transformer was trained with $\varepsilon = 0.1$, which made its perplexity worse and
its translations better ([@vaswani2017attention, §5.4]).

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\varepsilon$ | `smoothing` | | probability taken from the right token |
| $s$ | `share` | | what each wrong token gets of it |
| $q$ | `target_distribution` | `[N, V]` | the probabilities asked for |
| $\log p$ | `x` | `[N, V]` | the logarithms of those predicted |
| $V$ | `size` | | size of the vocabulary |
| $N$ | | | number of tokens; any number of axes |
"""

import math
from numbers import Integral, Real
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_sizes, check_vocabulary


class LabelSmoothingLoss(nn.Module):
    r"""
    ## Label smoothing loss

    The distance from the target $q$ to the prediction $p$ is the Kullback–Leibler
    divergence, summed over the tokens of the batch:

    $$L = \sum_n \sum_v q_{nv} \left( \log q_{nv} - \log p_{nv} \right)$$

    It is zero when $p = q$ and positive otherwise. Without smoothing it is the ordinary
    cross entropy.
    """

    def __init__(
        self,
        size: int,
        padding_idx: int | None,
        smoothing: float = 0.0,
        *,
        reduction: Literal["sum", "mean", "none"] = "sum",
    ) -> None:
        r"""
        * `size` is the number of tokens in the vocabulary, $V$
        * `padding_idx` is the token that fills up short sequences: nobody is asked to
          predict it, and it gets no share of $\varepsilon$. `None` means that there is
          none
        * `smoothing` is $\varepsilon$, from 0 up to, but not including, 1
        * `reduction` is `"sum"`; `"mean"`, over the tokens that are not padding; or
          `"none"`, one number per token

        Raises `ValueError` for a value outside these ranges, `TypeError` for another
        kind of value.
        """
        super().__init__()
        _check_arguments(size, padding_idx, smoothing, reduction)
        self.size = size
        self.padding_idx = padding_idx
        self.smoothing = smoothing
        self.confidence = 1.0 - smoothing
        self.reduction = reduction

        # The wrong tokens are all but the right one and, where there is one, the
        # padding.
        wrong = size - (1 if padding_idx is None else 2)
        self.share = smoothing / wrong if smoothing else 0.0

        self._target: Tensor | None = None

    def target_distribution(
        self, target: Int[Tensor, "*N"], *, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*N V"]:
        r"""
        ### What is asked for

        $$
        q_v = \begin{cases}
            1 - \varepsilon & v \text{ is the right token} \\
            0 & v \text{ is padding} \\
            s = \varepsilon / (V - 2) & \text{otherwise}
        \end{cases}
        $$

        with $V - 1$ in place of $V - 2$ when no token means padding. Rows of padding
        are zero. The table is for looking at; `forward` needs only its two numbers.

        * `target` holds tokens, in any shape

        Returns a tensor of that shape with one more axis, of size $V$.
        """
        shape = (*target.shape, self.size)
        q = torch.full(shape, self.share, dtype=dtype, device=target.device)
        q.scatter_(-1, target.long().unsqueeze(-1), self.confidence)
        if self.padding_idx is not None:
            q[..., self.padding_idx] = 0.0
            q[target == self.padding_idx] = 0.0
        return q

    @property
    def true_dist(self) -> Tensor | None:
        """
        The target distribution of the last call, made when you look at it.

        Code written for version 0.5.1 plots this attribute. There each call stored the
        whole table, `[N, V]`, and kept the graph of the logits alive with it; here a
        call stores its `[N]` targets.
        """
        return None if self._target is None else self.target_distribution(self._target)

    def forward(
        self, x: Float[Tensor, "*N V"], target: Int[Tensor, "*N"]
    ) -> Float[Tensor, "..."]:
        r"""
        ### The loss, without the table

        $q$ holds two numbers besides zero, so the sum over the vocabulary falls apart
        into the right token $y$ and a plain sum over all tokens but padding. No table
        as large as the logits has to be made. For 2,048 tokens and a vocabulary of
        10,000, forward and backward took less than half as long as with the table, on
        one processor core.

        $$
        -\sum_v q_v \log p_v =
        -(1 - \varepsilon - s) \log p_y - s \sum_{v \ne \text{padding}} \log p_v
        $$

        * `x` holds log-probabilities, the last axis over the vocabulary: give it
          `log_softmax` of what `Generator` returns
        * `target` holds the right tokens, in the shape of `x` without its last axis

        Returns a scalar, or a tensor of the shape of `target` for `reduction="none"`.
        Raises `ValueError` for shapes that do not match and tokens outside the
        vocabulary, `TypeError` for dtypes other than floating point and integer.
        """
        _check_input(x, target, self.size)
        self._target = target
        right = x.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        loss = -(self.confidence - self.share) * right

        # Slices around the padding, not the full sum less its column: a model that can
        # never predict padding has $\log p = -\infty$ there, and $\infty - \infty$ is
        # not a number.
        if self.share:
            loss = loss - self.share * self._sum_without_padding(x)

        # The entropy $\sum_v q_v \log q_v$ is the same number for every token. It moves
        # no gradient; it only makes zero the best possible loss.
        loss = loss + _x_log_x(self.confidence)
        if self.share:
            loss = loss + self.smoothing * math.log(self.share)
        return self._reduce(loss, target)

    def _sum_without_padding(self, x: Tensor) -> Tensor:
        if self.padding_idx is None:
            return x.sum(-1)
        before, after = x[..., : self.padding_idx], x[..., self.padding_idx + 1 :]
        return before.sum(-1) + after.sum(-1)

    # Nothing is asked of a model where the text has ended. A batch of nothing but
    # padding costs zero, not zero divided by zero.
    def _reduce(self, loss: Tensor, target: Tensor) -> Tensor:
        count = torch.tensor(loss.numel())
        if self.padding_idx is not None:
            padding = target == self.padding_idx
            loss = loss.masked_fill(padding, 0.0)
            count = (~padding).sum()
        if self.reduction == "none":
            return loss
        if self.reduction == "sum":
            return loss.sum()
        return loss.sum() / count.clamp(min=1)


# ## Small pieces
#
# $q \log q$ is zero at $q = 0$, its limit; a computer says that $\log 0$ is an error.
def _x_log_x(x: float) -> float:
    return x * math.log(x) if x > 0 else 0.0


def _check_arguments(
    size: int, padding_idx: int | None, smoothing: float, reduction: str
) -> None:
    check_sizes(size=size)
    if isinstance(smoothing, bool) or not isinstance(smoothing, Real):
        raise TypeError(
            f"`smoothing` ({smoothing!r}) must be a number from 0 up to 1, not a "
            f"{type(smoothing).__name__}"
        )
    if not isinstance(padding_idx, Integral | None) or isinstance(padding_idx, bool):
        raise TypeError(
            f"`padding_idx` ({padding_idx!r}) must be a token, a whole number, or "
            f"None, not a {type(padding_idx).__name__}"
        )
    if padding_idx is not None and not 0 <= padding_idx < size:
        raise ValueError(
            f"`padding_idx` must be a token, from 0 to size - 1 = {size - 1}, or None; "
            f"not {padding_idx}"
        )
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(
            f"`smoothing` must be at least 0 and less than 1, not {smoothing}; "
            "0.1 is usual"
        )
    least = 2 if padding_idx is None else 3
    if smoothing and size < least:
        raise ValueError(
            f"`size` must be at least {least}, not {size}, so that there is a wrong "
            "token to give a share to; or use smoothing=0"
        )
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(
            f'`reduction` must be "sum", "mean" or "none", not {reduction!r}'
        )


def _check_input(x: Tensor, target: Tensor, size: int) -> None:
    if not x.is_floating_point():
        raise TypeError(
            f"`x` must hold log-probabilities (floating point), not {x.dtype}"
        )
    if x.ndim == 0 or x.shape[-1] != size:
        raise ValueError(
            f"the last axis of `x` must be the vocabulary, size = {size}, but `x` has "
            f"shape {list(x.shape)}"
        )
    if target.shape != x.shape[:-1]:
        raise ValueError(
            f"`target` must have the shape of `x` without its last axis, "
            f"{list(x.shape[:-1])}, not {list(target.shape)}"
        )
    if target.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"`target` must hold tokens (int64 or int32), not {target.dtype}; convert "
            "with target.long()"
        )
    check_vocabulary(target, size, name="target")


# ## Differences from the paper
#
# * **Who gets a share.** Szegedy et al. mix the target with a uniform distribution over
#   all $K$ labels, the right one included; so does
#   `torch.nn.functional.cross_entropy(label_smoothing=...)`. Here, as in version 0.5.1,
#   the right token keeps exactly $1 - \varepsilon$. Where no token means padding, the
#   two agree if theirs is $\varepsilon V / (V - 1)$; PyTorch's gives padding a share.
# * **Zero point.** The divergence is the cross entropy less the entropy of $q$: a
#   constant, which makes zero the smallest possible loss.
#
# ## Exercises
#
# **1.** With $\varepsilon = 0.1$ and a vocabulary of 37,000 tokens and padding, by how
# much does the logit of the right token exceed the others when the loss is zero?
#
# <details><summary>Answer</summary>
#
# Where $p = q$, the gap is
# $\log \frac{1 - \varepsilon}{s} = \log \frac{0.9 \cdot 36\,999}{0.1} \approx 12.7$:
# wide, but finite. Going beyond it costs.
#
# ```python
# import math
# import torch
# from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
#
# loss = LabelSmoothingLoss(37_001, padding_idx=0, smoothing=0.1)
# gap = math.log(0.9 * 36_999 / 0.1)
# assert round(gap, 1) == 12.7
#
# def cost(gap):
#     logits = torch.zeros(1, 37_001, dtype=torch.float64)
#     logits[0, 0], logits[0, 3] = -math.inf, gap
#     return loss(logits.log_softmax(-1), torch.tensor([3])).item()
#
# assert abs(cost(gap)) < 1e-9
# assert cost(gap - 1) > 0.03 and cost(gap + 1) > 0.03
# ```
#
# </details>
#
# **2.** Get the same gradient from PyTorch's own loss.
#
# <details><summary>Answer</summary>
#
# PyTorch gives the right token a share as well. Of $\varepsilon'$, spread over all $V$,
# the wrong ones keep $\varepsilon' (V - 1) / V$, and that shall be $\varepsilon$.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
#
# logits = torch.randn(7, 5, requires_grad=True)
# target = torch.randint(5, (7,))
# ours = LabelSmoothingLoss(5, None, smoothing=0.2)
# theirs = nn.CrossEntropyLoss(label_smoothing=0.2 * 5 / 4, reduction="sum")
# (a,) = torch.autograd.grad(ours(logits.log_softmax(-1), target), logits)
# (b,) = torch.autograd.grad(theirs(logits, target), logits)
# torch.testing.assert_close(a, b)
# ```
#
# </details>
#
# **3.** What is the gradient with respect to the logits of one token, and what does it
# say about a model that is already sure of the right answer?
#
# <details><summary>Answer</summary>
#
# With $p = \operatorname{softmax}(z)$ it is $\partial L / \partial z = p - q$, as for
# any cross entropy. Where $p_y > 1 - \varepsilon$ the gradient of the right logit is
# positive: a descent step makes it *smaller*. Certainty is pulled back.
#
# ```python
# import torch
# from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
#
# target = torch.tensor([2])
#
# def gradient(smoothing):
#     logits = torch.tensor([[0.0, 0.0, 9.0, 0.0, 0.0]], requires_grad=True)
#     loss = LabelSmoothingLoss(5, None, smoothing)
#     loss(logits.log_softmax(-1), target).backward()
#     q = loss.target_distribution(target)
#     torch.testing.assert_close(logits.grad, logits.detach().softmax(-1) - q)
#     return logits.grad[0, 2]
#
# assert gradient(smoothing=0.1) > 0.09  # back to 0.9
# assert -0.001 < gradient(smoothing=0.0) < 0  # on and on, and ever more slowly
# ```
#
# </details>
#
# **4.** Why did smoothing make the paper's perplexity worse? How low can the cross
# entropy of a model be that has learned its targets perfectly, $p = q$?
#
# <details><summary>Answer</summary>
#
# Cross entropy counts only the right token, and such a model gives it
# $1 - \varepsilon$. That is $-\log 0.9 = 0.105$ nats for each token, a perplexity of
# $1 / 0.9$, even where there is no doubt at all. The paper pays this price for better
# accuracy and BLEU (§5.4).
#
# ```python
# import math
# import torch
# from torch.nn import functional as F
# from labml_nn.transformers.label_smoothing_loss import LabelSmoothingLoss
#
# target = torch.randint(11, (100,))
# loss = LabelSmoothingLoss(11, None, smoothing=0.1)
# perfect = loss.target_distribution(target, dtype=torch.float64).log()
# assert abs(loss(perfect, target)) < 1e-9
# cross_entropy = F.nll_loss(perfect, target)
# assert math.isclose(cross_entropy.exp(), 1 / 0.9, rel_tol=1e-9)
# ```
#
# </details>
