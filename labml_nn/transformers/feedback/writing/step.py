r"""
---
title: A lean step
summary: >
  From a token to the bets on the next one, with parameters that are folded once for a
  text, and a dozen operations a layer.
---

[The loop by hand](../by_hand/forward.py) has done away with what a step need not do: it
goes through a layer in a dozen operations on parameters that were
[folded](../by_hand/weights.py) before. A writer takes them from there. It has one step
to go at a time, and folds once for a whole text.

At both ends there is something to fold as well. The model normalises its output, with a
gain $g$ and a shift $\beta$, and bets with a table $E$. Both maps are one:

$$E \, (g \otimes \hat{x} + \beta) = (E \operatorname{diag}(g)) \, \hat{x} + E \beta$$

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[B]` | the token that is read |
| $E \operatorname{diag}(g)$, $E \beta$ | `bets`, `bets_bias` | `[V, C]`, `[V]` | bets |
| $z$ | | `[B, V]` | bets on the next |
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from labml_nn.transformers.feedback import by_hand
from labml_nn.transformers.feedback.by_hand.desk import Desk
from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.forward import (
    Memory,
    Seen,
    attend,
    conclude,
    mix,
    normalise,
    unstack,
)
from labml_nn.transformers.feedback.by_hand.weights import Weights, fold
from labml_nn.transformers.feedback.shared import FeedbackTransformerKV
from labml_nn.transformers.feedback.writing.memory import RollingMemory

if TYPE_CHECKING:
    from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel


class Parts(NamedTuple):
    r"""
    ## What a step needs of a model

    * `form`, `weights` are those of the loop by hand
    * `embed` is the table that is read from, `[V, C]`, and `scale` is $\sqrt{C}$
    * `bets`, `bets_bias` are above
    """

    form: Form
    weights: Weights
    embed: Tensor
    scale: float
    bets: Tensor
    bets_bias: Tensor

    @staticmethod
    @torch.no_grad()
    def of(model: "FeedbackLanguageModel") -> "Parts":
        r"""
        ### Fold
        """
        transformer = model.transformer
        assert isinstance(transformer, FeedbackTransformerKV)
        embed, norm = model.embed.weight.detach(), transformer.norm
        table = embed if model.output is None else model.output.weight.detach()
        return Parts(
            by_hand.form_of(transformer),
            fold(transformer, model.config.max_len, embed.dtype),
            embed,
            math.sqrt(model.config.d_model),
            table * norm.weight,
            table @ norm.bias,
        )


class Step:
    r"""
    ## The step
    """

    def __init__(self, parts: Parts, memory: RollingMemory) -> None:
        """
        * `parts` are those of the model
        * `memory` is what it reads and writes
        """
        self.parts, self.rows = parts, memory
        heads = parts.form.heads
        self.layers = unstack(parts.weights)
        self.desk = Desk.of(parts.embed, memory.keys.shape[1], heads, memory.head)
        self.memory = Memory.of(parts.weights, heads)

    def __call__(self, tokens: Tensor) -> Tensor:
        r"""
        * `tokens` are `[B]`

        Returns logits, `[B, V]`, and leaves a row in memory.
        """
        parts, form = self.parts, self.parts.form
        x = F.embedding(tokens, parts.embed) * parts.scale
        outputs, seen = [x], self._look()
        for number, layer in enumerate(self.layers):
            z = x + attend(x, number, layer, seen, self.desk, form)
            x = z + conclude(z, layer, form)
            outputs.append(x)
        row = mix(torch.stack(outputs), parts.weights.shares, self.memory, form)
        self._remember(row)
        return F.linear(normalise(x, form), parts.bets, parts.bets_bias)

    def _look(self) -> Seen:
        rows, weights = self.rows, self.parts.weights
        near = weights.distance.shape[2] - (rows.end - rows.first)
        seen = slice(rows.first, rows.end)
        return Seen(
            rows.keys.flatten(0, 1)[..., seen],
            rows.values.flatten(0, 1)[:, seen, : rows.head],
            weights.distance[:, :, near:].transpose(2, 3).unbind(),
            weights.distance_bias[:, :, None, near:].unbind(),
            rows.blank(),
        )

    def _remember(self, row: Tensor) -> None:
        rows = self.rows
        key, value = row.chunk(2)
        rows.keys[..., rows.end] = key
        rows.values[:, :, rows.end, : rows.head] = value
