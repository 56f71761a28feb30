r"""
---
title: Label smoothing
summary: >
  A loss whose target leaves a small probability to the wrong tokens, which
  regularises the model and keeps its logits finite.
paper: https://arxiv.org/abs/1512.00567
---

Cross entropy with the right token as the target is lowest at a predicted probability of
exactly one, and no finite logits reach it. Training keeps increasing the differences
between logits, and the model becomes overconfident. **Label smoothing**
([@szegedy2015rethinking, §7]) is a regularisation: the target gives the right token
$1 - \varepsilon$ and distributes $\varepsilon$ over the wrong ones. The original
transformer was trained with $\varepsilon = 0.1$, which made its perplexity worse, but
its accuracy and BLEU score better ([@vaswani2017attention, §5.4]).

The loss is the Kullback–Leibler divergence from the target distribution $q$ to the
prediction $p$, summed over the tokens. It is zero where $p = q$, and positive
otherwise; without smoothing it is the cross entropy:

$$\mathcal{L} = \sum_{t, b} \sum_v q_{tbv} \left( \log q_{tbv} - \log p_{tbv} \right)$$

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\varepsilon$ | `smoothing` | | probability mass of the wrong tokens |
| $s$ | `share` | | what each wrong token gets of it |
| $q$ | `target_distribution` | `[T, B, V]` | target distribution |
| $\log p$ | `x` | `[T, B, V]` | predicted log-probabilities |
| $y$ | `target` | `[T, B]` | right tokens |
| $V$ | `size` | | size of the vocabulary |
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_fraction,
    check_integer,
    check_log_probabilities,
    check_sizes,
    check_vocabulary,
)


class LabelSmoothingLoss(nn.Module):
    r"""
    ## Label smoothing loss
    """

    def __init__(
        self,
        size: int,
        padding_idx: int | None,
        smoothing: float = 0.0,
    ) -> None:
        r"""
        * `size` is the number of tokens in the vocabulary, $V$
        * `padding_idx` is the padding token, which is never a target and has a target
          probability of zero; `None` if there is none
        * `smoothing` is $\varepsilon$, at least 0 and less than 1
        """
        super().__init__()
        check_sizes(size=size)
        check_fraction(smoothing=smoothing)
        if padding_idx is not None:
            check_integer("padding_idx", padding_idx)
            if not 0 <= padding_idx < size:
                raise ValueError(
                    f"`padding_idx` ({padding_idx}) must be from 0 to {size - 1}"
                )
        self.size = size
        self.padding_idx = padding_idx
        self.smoothing = smoothing
        self.confidence = 1.0 - smoothing

        # All tokens are wrong but the right one and, if there is one, the padding.
        wrong = size - (1 if padding_idx is None else 2)
        if smoothing and wrong < 1:
            raise ValueError(
                f"`size` ({size}) must be at least {size + 1 - wrong}; or use "
                "smoothing=0"
            )
        self.share = smoothing / wrong if smoothing else 0.0
        self._target: Tensor | None = None

    def target_distribution(
        self, target: Int[Tensor, "*axes"], *, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*axes V"]:
        r"""
        ### Target distribution

        $$
        q_v = \begin{cases}
            1 - \varepsilon & v = y, \text{ the right token} \\
            0 & v \text{ is padding} \\
            s = \varepsilon / (V - 2) & \text{otherwise}
        \end{cases}
        $$

        with $V - 1$ in place of $V - 2$ without padding. Where the target itself is
        padding, $q$ is zero. This table is for looking at; `forward` does not make it.
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
        The target distribution of the last call, as in version 0.5.1, which stored the
        table. It is computed from the stored targets when it is read.
        """
        return None if self._target is None else self.target_distribution(self._target)

    def forward(
        self, x: Float[Tensor, "*axes V"], target: Int[Tensor, "*axes"]
    ) -> Float[Tensor, ""]:
        r"""
        ### Loss

        * `x` holds log-probabilities, `[T, B, V]` or with any other axes before the
          last: the `log_softmax` of the logits
        * `target` holds the right tokens, with the shape of `x` without its last axis

        Returns the sum over all targets.
        """
        if x.shape != (*target.shape, self.size):
            raise ValueError(
                f"`x` has shape {list(x.shape)} and `target` {list(target.shape)}; "
                f"expected the shape of `target` and then `size` ({self.size}) for `x`"
            )
        if target.is_floating_point():
            raise TypeError(
                f"`target` has dtype {target.dtype}; expected integers, the right "
                "tokens: try target.long()"
            )
        check_vocabulary(target, self.size, name="target")
        check_log_probabilities(x)
        self._target = target

        # $q$ has only two values other than zero. So the cross entropy needs no table
        # of the size of the logits: $-\sum_v q_v \log p_v =
        # -(1 - \varepsilon - s) \log p_y - s \sum_{v \ne \text{padding}} \log p_v$.
        right = x.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        loss = -(self.confidence - self.share) * right

        # The negative entropy $\sum_v q_v \log q_v$ makes zero the lowest loss.
        loss = loss + self.confidence * math.log(self.confidence)

        # The column of padding is left out of the sum, and not subtracted afterwards:
        # $\log p$ may be $-\infty$ there, and $\infty - \infty$ is not a number.
        if self.share:
            padding = self.size if self.padding_idx is None else self.padding_idx
            others = x[..., :padding].sum(-1) + x[..., padding + 1 :].sum(-1)
            loss = loss - self.share * others + self.smoothing * math.log(self.share)

        # Padding has no loss and no gradient.
        if self.padding_idx is not None:
            loss = loss.masked_fill(target == self.padding_idx, 0.0)
        return loss.sum()


# ## Differences from `label_smoothing`
#
# The field [`label_smoothing`](../language_model.py) of the language models follows
# Szegedy et al. and PyTorch's `cross_entropy`, this class follows version 0.5.1.
#
# | | `LabelSmoothingLoss` | `label_smoothing` of the models |
# |:--|:--|:--|
# | $\varepsilon$ is distributed over | wrong tokens without padding | all $V$ tokens |
# | right token | $1 - \varepsilon$ | $1 - \varepsilon + \varepsilon / V$ |
# | padding as a prediction | 0 | $\varepsilon / V$ |
# | lowest loss | 0 (divergence) | entropy of $q$ (cross entropy) |
# | reduction | sum | mean over the tokens that are not padding |
# | evaluation | the same loss | without smoothing, to be comparable |
#
# Without padding the gradients are equal if the field is $\varepsilon V / (V - 1)$
# (exercise 1): for a large vocabulary the difference is negligible.
#
# ## Exercises
#
# **1.** Obtain the same gradient from PyTorch's own loss.
#
# <details><summary>Answer</summary>
#
# PyTorch gives the right token a share as well. Of its $\varepsilon'$ the wrong tokens
# get $\varepsilon' (V - 1) / V$, which has to be $\varepsilon$.
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
