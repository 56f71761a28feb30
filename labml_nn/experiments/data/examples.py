r"""
---
title: Examples
summary: >
  What a model reads in one step of training, what it is asked for, and how many
  questions that makes. A batch can be cut and its loss put together again.
---

To train is to ask and to compare, thousands of times. One batch of questions is a value
here, the same for all models:

```text
            a text, to go on with        something said, to reply to

tokens      B u t , _ s o f t            G o o d - m o r r o w
targets     u t , _ s o f t !            I s _ t h e _ d a y ? (end)
```

(A column is drawn as a row.) A model that continues is asked for the same text, one
later. A model that replies reads one text and is asked for another. It knows by itself
[where a reply starts and ends](../../transformers/encoder_decoder/batches.py), so that
no special token stands here, and only the end is counted.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `tokens` | `[S, B]` | what is read |
| $y$ | `targets` | `[T, B]` | what is asked for; $S = T$ for a text |
| $n$ | `count` | | how many answers count |
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["Examples"]


@dataclass(frozen=True, eq=False)
class Examples:
    """
    ## A batch of examples

    * `tokens` is what is read, `[S, B]`
    * `targets` is what is asked for, `[T, B]`: a text one later, or a reply without
      special tokens, padded last
    * `count` says how many answers count: every target of a text; of replies all that
      is not padding, and an end for each
    * `padding_token` fills up replies; `None` where nothing was filled up, and each
      target is a token of a text

    `Examples.of` counts by itself.
    """

    tokens: Int[Tensor, "S B"]
    targets: Int[Tensor, "T B"]
    count: int
    padding_token: int | None = None

    @classmethod
    def of(
        cls,
        tokens: Int[Tensor, "S B"],
        targets: Int[Tensor, "T B"],
        padding_token: int | None = None,
    ) -> "Examples":
        """
        ### Counted

        An empty reply counts as well: its end has to be found, right at the start.
        """
        if padding_token is None:
            count = targets.numel()
        else:
            count = int((targets != padding_token).sum()) + targets.shape[1]
        return cls(tokens, targets, count, padding_token)

    def columns(self, start: int, stop: int) -> "Examples":
        r"""
        ### A part of the batch

        Two processes share a batch by its columns. So does one process that has no
        memory for all of it, and reads part after part before it takes a step.

        Each part has a mean loss $L_i$ of its own. Their plain mean is not the loss of
        the batch: a part with long replies holds more answers, and each of them would
        weigh less. Weighed by what they count, they give it exactly:

        $$L = \frac{1}{n} \sum_i n_i L_i \qquad n = \sum_i n_i$$

        * `start`, `stop` are columns, `stop` not included

        Returns the part, with its own count. Rows stay as they are: padding that only
        a longer neighbour made necessary is still there, and still means nothing.
        Raises `ValueError` for columns that the batch does not have.
        """
        size = self.targets.shape[1]
        if not 0 <= start < stop <= size:
            raise ValueError(
                f"there are no columns {start} to {stop} in a batch of {size}; "
                f"expected 0 <= start < stop <= {size}: a batch has at least as many "
                "columns as it is cut into parts"
            )
        tokens, targets = self.tokens[:, start:stop], self.targets[:, start:stop]
        return Examples.of(tokens, targets, self.padding_token)

    def to(self, device: torch.device | str) -> "Examples":
        r"""
        ### On another device

        A GPU has its own memory, and what it works on must be copied there. `device` is
        where to. The count is a number of Python's and is known on both sides: to ask a
        GPU for it would mean to wait until all that was ordered before is done.
        """
        tokens, targets = self.tokens.to(device), self.targets.to(device)
        return replace(self, tokens=tokens, targets=targets)


# ## Exercises
#
# **1.** Train on a batch in two parts of different size, and get the gradient of the
# whole. What comes out if both parts weigh the same?
#
# <details><summary>Answer</summary>
#
# Gradients add up where they are, as long as nobody sets them to zero in between. The
# weights are those of the equation; with equal ones the gradient is another. (Dropout
# is off here. It is drawn anew for each part, and the two ways would then agree only in
# the mean.)
#
# ```python
# import torch
# from labml_nn.experiments.data.examples import Examples
# from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel
#
# text = torch.randint(65, (12, 7))  # [T + 1, B]
# batch = Examples.of(text[:-1], text[1:])
# parts = batch.columns(0, 2), batch.columns(2, 7)
# model = ElmanLanguageModel(ElmanConfig(n_vocab=65, d_hidden=16)).eval()
#
# def gradient(weights, pieces):
#     model.zero_grad()
#     for weight, piece in zip(weights, pieces, strict=True):
#         (weight * model.loss(piece.tokens, piece.targets)).backward()
#     return torch.cat([p.grad.flatten() for p in model.parameters()])
#
# whole = gradient([1], [batch])
# shares = [part.count / batch.count for part in parts]
# assert torch.allclose(gradient(shares, parts), whole, atol=1e-6)
# assert not torch.allclose(gradient([0.5, 0.5], parts), whole, atol=1e-6)
# ```
#
# </details>
#
# **2.** A batch of replies: `"Ay."`, `"No, my good lord."` and one that is empty. How
# many answers are asked for?
#
# <details><summary>Answer</summary>
#
# Three, seventeen and none, and an end for each of the three: 23.
#
# ```python
# import torch
# from labml_nn.experiments.data.examples import Examples
#
# replies, padding = ["Ay.", "No, my good lord.", ""], 0
# targets = torch.full((17, 3), padding)
# for column, reply in enumerate(replies):
#     for row, letter in enumerate(reply):
#         targets[row, column] = ord(letter)
# batch = Examples.of(torch.ones(5, 3).long(), targets, padding)
# assert batch.count == 3 + 17 + 0 + 3
# assert batch.columns(2, 3).count == 1  # nothing but an end
# ```
#
# </details>
