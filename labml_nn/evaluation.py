r"""
---
title: Evaluation
summary: >
  To ask a model something without changing it: dropout off for a while, sums in enough
  precision, and answers from where each text ends.
---

In training a model is handicapped on purpose: dropout takes away parts of it at random.
To be judged, or to write, it should have all of them. PyTorch keeps the difference as a
switch in every module, and a switch that is turned has to be turned back. Here are the
three things that whoever asks a model has to think of.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """
    ## Dropout off, for a while

    ```python
    with evaluating(model):
        loss = model.loss(tokens, targets)
    ```

    On the way out every part of the model gets its own mode back, whatever happened
    inside: an exception, or Ctrl-C in the middle of a long text. `model.train()` would
    not do, because it also wakes the parts that somebody had switched off on purpose.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def at_least_single(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """
    ## Probabilities need more than half precision

    A number in bfloat16 has 8 significant bits. The sum of 10,000 losses would move in
    steps of 256, and in float16, which ends at 65,504, soon be infinite.
    """
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def ends_of(
    tokens: Int[Tensor, "T B"], padding_token: int | None
) -> Int[Tensor, " B"] | None:
    """
    ## Texts of a batch end at different places

    * `tokens` are texts, `[T, B]`, with padding anywhere
    * `padding_token` is what fills up; `None` if nothing does

    Returns how many rows each text takes up to its last real token, `[B]`, or `None`
    without a padding token: all of them. What follows a text is said at its last token.
    What is said at the padding behind it means nothing, and does not look like nothing:
    it is a distribution like any other.

    Raises `ValueError` for a text of nothing but padding, after which anything follows.
    """
    if padding_token is None:
        return None
    real = tokens != padding_token
    rows = torch.arange(1, len(tokens) + 1, device=tokens.device)
    ends = (real * rows[:, None]).amax(0)
    if tokens.device.type == "cpu" and not bool(real.any(0).all()):
        raise ValueError(
            f"sequence {int(ends.argmin())} is nothing but padding ({padding_token}); "
            "expected at least one token to go on from"
        )
    return ends


def at_ends(
    x: Float[Tensor, "T B V"], ends: Int[Tensor, " B"] | None
) -> Float[Tensor, "B V"]:
    """
    ### One row for each text

    The rows of `x`, `[T, B, V]`, at the last token of each text: those with the numbers
    `ends - 1`, or the last one of all.
    """
    if ends is None:
        return x[-1]
    return x[ends - 1, torch.arange(x.shape[1], device=x.device)]


# ## Exercises
#
# **1.** One model has a loss of 1.1 nats per character, another, which reads words, 4.5
# nats per word. A word with its space is 5.6 characters long on average. Which of them
# is better? How many bits does each need for a character, and what is meant by the
# *perplexity* of 3.0 and 90 that they are reported with?
#
# <details><summary>Answer</summary>
#
# Compare what they say of the same text: the second pays $4.5 / 5.6 = 0.80$ nats for a
# character, and is better. A bit is $\log 2$ nats, so that is 1.16 bits, and the first
# needs 1.59. Perplexity is $e^L$, the size of a fair die that would be as surprising.
# It depends on what is counted, a character or a word, and so do all three.
#
# ```python
# import math
#
# characters, words = 1.1, 4.5
# assert math.isclose(words / 5.6 / math.log(2), 1.16, abs_tol=0.005)
# assert math.isclose(characters / math.log(2), 1.59, abs_tol=0.005)
# assert round(math.exp(characters), 1) == 3.0 and round(math.exp(words)) == 90
# ```
#
# </details>
#
# **2.** A long validation text is evaluated in pieces, and the last one is mostly
# padding. Why is the mean of the losses not the loss of the text?
#
# <details><summary>Answer</summary>
#
# Each loss is a mean over its own targets, so the few tokens of the last piece count as
# much as the many of another. Weigh each mean by its number of targets.
#
# ```python
# import torch
# import labml_nn
# from labml_nn.evaluation import evaluating
#
# model = labml_nn.create("elman", n_vocab=65, padding_token=0)
# text = torch.randint(1, 65, (13, 2))
# text[8:] = 0  # ten targets in the first piece, four in the second
# with evaluating(model), torch.no_grad():
#     whole = model.loss(text[:-1], text[1:])
#     total, count, losses, state = 0.0, 0, [], None
#     for t in range(0, 12, 5):
#         targets = text[t + 1 : t + 6]
#         n = int((targets != 0).sum())
#         logits, state = model(text[t : t + len(targets)], state)
#         losses.append(model.loss_of(logits, targets))
#         total, count = total + n * losses[-1], count + n
# torch.testing.assert_close(total / count, whole)
# assert not torch.isclose(torch.stack(losses).mean(), whole)
# ```
#
# </details>
