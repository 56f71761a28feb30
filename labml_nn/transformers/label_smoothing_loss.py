r"""
---
title: Label smoothing
summary: >
  A loss whose target leaves a small probability to the wrong tokens, which
  regularises the model and keeps its logits finite.
paper: https://arxiv.org/abs/1512.00567
---

You train a model to predict the next word. After *the dog* the right one is *sleeps*,
and your model gives it the probability 0.9. Are you content? Cross entropy is not. The
loss falls until the probability is exactly 1. But a softmax never reaches 1 with finite
logits, so training pulls the logit of *sleeps* up and up. The model becomes surer of
itself than it has reason to be. After all, we would have accepted *barks*, too.

**Label smoothing** ([@szegedy2015rethinking, §7]) asks for less. The right word should
get $1 - \varepsilon$, and the others share $\varepsilon$. For example, take
$\varepsilon = 0.1$ and four words:

| word | without smoothing | with smoothing |
|:--|--:|--:|
| sleeps | 1 | 0.9 |
| barks | 0 | 0.0333 |
| the | 0 | 0.0333 |
| dog | 0 | 0.0333 |

Now 0.9 is the best that the model can do, and the logits stay finite: *sleeps* need
only be $\ln(0.9 / 0.0333) = 3.3$ larger than the others. The first Transformer was
trained with $\varepsilon = 0.1$. Its perplexity got worse, because it was less sure.
But its translations got better ([@vaswani2017attention, §5.4]).

How far is the prediction $p$ from what we ask for, which we call $q$? The loss is the
Kullback–Leibler divergence, summed over the tokens. It is zero if $p = q$, and positive
otherwise. Without smoothing it is the cross entropy:

$$\mathcal{L} = \sum_{t, b} \sum_v q_{tbv} \left( \log q_{tbv} - \log p_{tbv} \right)$$

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\varepsilon$ | `smoothing` | | probability mass of the wrong tokens |
| $s$ | `share` | | what each wrong token gets of it |
| $q$ | `target_distribution` | `[T, B, V]` | target distribution |
| $\log p$ | `x` | `[T, B, V]` | predicted log-probabilities |
| $y$ | `target` | `[T, B]` | right tokens |
| $V$ | `size` | | size of the vocabulary |

</details>
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_integer,
    check_probability,
    check_sizes,
    check_vocabulary,
)
from labml_nn.transformers.checks import check_log_probabilities


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
        * `size`: number of tokens in the vocabulary, $V$
        * `padding_idx`: the padding token, which is never a target and gets no share;
          `None` if there is none
        * `smoothing`: $\varepsilon$, from 0 to 1
        """
        super().__init__()
        check_sizes(size=size)
        check_probability(smoothing=smoothing)
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

        Without padding it is $V - 1$ in place of $V - 2$. Where the target itself is
        padding, $q$ is zero. You can look at this table, but `forward` does not need
        it.
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

        * `x`: log-probabilities, the `log_softmax` of the logits, `[T, B, V]` or with
          any other axes before the last
        * `target`: the right tokens, with the shape of `x` without its last axis

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

        # Do we need the whole table $q$? No. It has only two values other than zero:
        # $-\sum_v q_v \log p_v = -(1 - \varepsilon - s) \log p_y - s \sum_{v \ne
        # \text{padding}} \log p_v$.
        right = x.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        loss = -(self.confidence - self.share) * right

        # The negative entropy $\sum_v q_v \log q_v$ makes zero the lowest loss.
        if self.confidence:
            loss = loss + self.confidence * math.log(self.confidence)

        # We leave the column of padding out of the sum, and do not subtract it
        # afterwards. There $\log p$ may be $-\infty$, and $\infty - \infty$ is not a
        # number.
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
