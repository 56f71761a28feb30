r"""
---
title: From a gradient to a step
summary: >
  AdamW and Muon, which parameters each of them gets, and why matrices are drawn to zero
  and vectors are not.
---

The gradient of a parameter is a number that says: more of me, and the loss changes by
so much. To subtract it, times a learning rate, is gradient descent. It works badly for
transformers, because the gradients of their parts differ by orders of magnitude. One
learning rate is too large for some and too small for the others.

**AdamW** ([@kingma2014adam]; [@loshchilov2017decoupled]) asks each number on its own
how large its gradients usually are, and divides by it. With the means $m$ of its
gradients and $v$ of their squares, both with their bias removed,

$$\theta \leftarrow \theta - \eta \, \Bigl( \frac{m}{\sqrt{v} + \epsilon}
    + \lambda \, \theta \Bigr)$$

So a number whose gradients keep their sign moves by about $\eta$ at each step, whatever
their size.

**Muon** sees a matrix as a matrix, and not as a bag of numbers. It takes the mean of
the gradients and makes all its singular values equal before it steps: directions in
which the loss is seldom steep get their share. That makes sense for matrices that map
vectors to vectors, in the middle of a model. A table of embeddings is a list of rows,
most of which have no gradient in a given batch. So tables, the output, and vectors stay
with AdamW.

**Weight decay**, $\lambda$, draws numbers to zero. In a matrix, one that does nothing
for the loss disappears, and the model stays simple. A vector of a layer norm is a
scale around *one*, and a bias has nothing to do with how complicated a function is. To
draw those to zero would only do harm.

| Symbol | Code | Meaning |
|:--|:--|:--|
| $\eta$ | `group["lr"]` | the learning rate, $r_s$ times its highest |
| $\lambda$ | `config.weight_decay` | how strongly numbers are drawn to zero |
| $r_s$ | `share` | of the [schedule](schedule.py) |
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.language_model import LanguageModel

__all__ = ["Optimizers", "Roles", "roles"]


# The output of a model is at its top, or belongs to a generator. The maps that end each
# attention are called `output` as well.
OUTPUT = re.compile(r"^(output|head)$|(^|\.)generator\.projection$")


class Roles(NamedTuple):
    """
    ## What a parameter is

    * `maps` are matrices inside the model, which take vectors to vectors
    * `tables` have a row for each token or place: embeddings, positions, the output
    * `vectors` are scales and biases
    """

    maps: list[nn.Parameter]
    tables: list[nn.Parameter]
    vectors: list[nn.Parameter]


def roles(model: LanguageModel[Any]) -> Roles:
    """
    ### Who is who

    A map is the weight of a linear layer, unless it gives a score to each token: that
    is the output, whose rows stand for tokens. (It is known by where it is, too. A
    layer may happen to be as wide as there are tokens.) What has one axis, or is called
    a bias, is a vector. The rest are tables.

    Each parameter comes once. A matrix that is both embedding and output has two names,
    but must be changed and drawn to zero only once. It is a table.
    """
    n_vocab = model.config.n_vocab
    maps = {
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and not (module.out_features == n_vocab and OUTPUT.search(name))
    }
    found = Roles([], [], [])
    for name, parameter in model.named_parameters():
        last = name.rpartition(".")[2]
        if not parameter.requires_grad:
            continue
        if parameter.dim() < 2 or "bias" in last:
            found.vectors.append(parameter)
        elif parameter in maps:
            found.maps.append(parameter)
        else:
            found.tables.append(parameter)
    return found


class Optimizers:
    """
    ## All that change parameters

    One for most models, two with Muon. Together they behave like one.
    """

    def __init__(
        self, model: LanguageModel[Any], config: TrainingConfig, device: torch.device
    ) -> None:
        """
        * `model` is on `device` already
        * `config` says which optimizers, and how fast
        """
        maps, tables, vectors = roles(model)
        self.all: list[Optimizer] = []
        if config.optimizer == "muon" and maps:
            from labml_nn.optimizers.muon import Muon

            self.all.append(
                Muon(
                    maps, lr=config.muon_learning_rate, weight_decay=config.weight_decay
                )
            )
            maps = []
        self.all.append(_adamw([*maps, *tables], vectors, config, device))
        self.highest = [
            group["lr"] for optimizer in self.all for group in optimizer.param_groups
        ]

    @property
    def parameters(self) -> Iterator[Tensor]:
        """Every number that is trained, each once."""
        for group in self._groups():
            yield from group["params"]

    @property
    def learning_rate(self) -> float:
        """AdamW's, as it is now."""
        return float(self.all[-1].param_groups[0]["lr"])

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.all:
            yield from optimizer.param_groups

    def follow(self, share: float) -> None:
        """All learning rates at this share of their highest."""
        for group, highest in zip(self._groups(), self.highest, strict=True):
            group["lr"] = highest * share

    def forget(self) -> None:
        """Without gradients, for the next batch."""
        for optimizer in self.all:
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, Any]]:
        """What they remember of the past, for a checkpoint."""
        return [optimizer.state_dict() for optimizer in self.all]

    def restore(self, states: list[Mapping[str, Any]]) -> None:
        """And back. `states` are those of optimizers made in the same way."""
        for optimizer, state in zip(self.all, states, strict=True):
            optimizer.load_state_dict(dict(state))


def _adamw(
    decayed: list[nn.Parameter],
    vectors: list[nn.Parameter],
    config: TrainingConfig,
    device: torch.device,
) -> AdamW:
    """
    ### AdamW in one kernel

    Written plainly, AdamW goes over all parameters a dozen times: for each mean, for
    the root, for the quotient. The *fused* form does all of it for one number while it
    is at hand, and goes over memory once.
    """
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        fused=device.type in ("cpu", "cuda", "mps"),
    )


# ## Exercises
#
# **1.** AdamW's step does not depend on how large gradients are. Multiply the loss by
# 1,000. What changes?
#
# <details><summary>Answer</summary>
#
# Nothing but rounding: mean and root grow by the same factor. With plain gradient
# descent the step would be 1,000 times as long. (It is the *clipping* that notices.)
#
# ```python
# import torch
# from torch import nn
# from torch.optim import SGD, AdamW
#
# def step(optimizer, factor):
#     weight = nn.Parameter(torch.tensor([1.0, -2.0]))
#     used = optimizer([weight], lr=0.01)
#     (factor * weight.square().sum()).backward()
#     used.step()
#     return weight.detach() - torch.tensor([1.0, -2.0])
#
# assert torch.allclose(step(AdamW, 1), step(AdamW, 1000), atol=1e-6)
# assert torch.allclose(1000 * step(SGD, 1), step(SGD, 1000))
# ```
#
# </details>
#
# **2.** With weight decay $\lambda$ and a learning rate $\eta$, after how many updates
# is half of a weight gone that the loss does not need?
#
# <details><summary>Answer</summary>
#
# Each update leaves $1 - \eta \lambda$ of it, so after $\ln 2 / (\eta \lambda)$: with
# 0.001 and 0.1 about 6,900. In a run of 2,000 updates the decay hardly shows; in one of
# 100,000 it decides how large weights can be.
#
# ```python
# import math
#
# eta, decay = 0.001, 0.1
# updates = math.log(2) / (eta * decay)
# assert 6900 < updates < 6950
# assert abs((1 - eta * decay) ** round(updates) - 0.5) < 1e-4
# ```
#
# </details>
#
# **3.** Who is a map and who is a table in an autoregressive transformer? Which of the
# two holds most of the parameters?
#
# <details><summary>Answer</summary>
#
# Six maps in each layer, four of attention and two of the feed-forward network. They
# are what Muon trains, and nearly all there is.
#
# ```python
# import labml_nn
# from labml_nn.experiments.training.optimizer import roles
#
# model = labml_nn.create("autoregressive", n_vocab=65)
# maps, tables, vectors = roles(model)
# assert len(maps) == 6 * 4 and len(tables) == 1
# sizes = [sum(p.numel() for p in part) for part in (maps, tables, vectors)]
# assert sizes[0] > 0.97 * sum(sizes)
# ```
#
# </details>
