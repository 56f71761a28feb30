r"""
---
title: One update
summary: >
  Loss, gradient, step: what happens between two versions of a model. In pieces where
  memory is short, on several processes, in mixed precision, and never with numbers that
  are none.
---

This is all that learning is:

1. read a batch and say how surprising it was: the **loss** $L$
2. ask each parameter how the loss would change with it: the **gradient** $g$
3. move all parameters a little against it: the **step**

Steps 1 and 2 are `loss` and `backward()`, step 3 belongs to the
[optimizer](optimizer.py). What this page adds are the five things that make it work
outside of examples.

**Pieces.** A batch that does not fit into memory is read piece after piece, and the
gradients add up. They are those of the whole batch if each piece weighs as much as it
has targets, $n_i$ of $n$:

$$\nabla L = \sum_i \frac{n_i}{n} \, \nabla L_i$$

With texts of one length all weights are equal. Replies are long and short, and a plain
mean would let a word in a short one count more. [Processes](../distributed.py) that
share a batch are weighed in the same way.

**Clipping.** Now and then a batch is so odd, or the ground so steep, that the gradient
is a hundred times as long as usual. Its direction may be right; a step as long would
undo the work of hours. So a gradient longer than $c$ is shortened to $c$
([@pascanu2013difficulty]):

$$g \leftarrow g \cdot \min \Bigl( 1, \frac{c}{\lVert g \rVert} \Bigr)$$

**Mixed precision** is explained with the [devices](devices.py).

**Numbers that are none.** One infinite loss makes all gradients NaN, one step along
them all parameters, and nothing ever heals that. So the length of the gradient is
looked at before the step is taken. If it is no number, the step is not taken, and the
training ends with the model that it had.

**Chance.** Dropout draws random numbers. Each update starts with a seed of its own,
made of the seed of the run, its number and that of the process. So update 1,234 is the
same whether there was an interruption before it or not, whoever else has drawn numbers
in between, and no state of a generator has to be kept.

| Symbol | Code | Meaning |
|:--|:--|:--|
| $n_i$, $n$ | `piece.count`, `batch.count` | targets of a piece, and of the batch |
| $L_i$ | `loss` | mean loss of a piece |
| $\lVert g \rVert$ | `norm` | length of the gradient, all parameters together |
| $c$ | `config.clip_norm` | the longest that is followed as it is |
"""

import math
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from labml_nn.experiments.data.examples import Examples
from labml_nn.experiments.distributed import World
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.devices import Computing
from labml_nn.experiments.training.optimizer import Optimizers
from labml_nn.language_model import LanguageModel

__all__ = ["NotFiniteError", "Update", "trouble"]


class NotFiniteError(Exception):
    """
    ## A loss or a gradient is no number

    * `made` is the number of updates since `clear` that were made before. The model is
      as they left it
    * `what` was no number
    """

    def __init__(self, made: int, what: str = "the loss or the gradient") -> None:
        super().__init__(made, what)
        self.made, self.what = made, what


def trouble(
    what: str,
    step: int,
    config: TrainingConfig,
    rate: float,
    saved_at: int,
    mixed: bool,
) -> str:
    """
    ### What to do about it

    * `what` was no number after `step` updates, at a learning rate of `rate`
    * `saved_at` is the step of the last checkpoint, or -1
    * `mixed` is whether the precision was mixed

    Returns a sentence with the ways out. Nearly always steps were too long.
    """
    ways = [f"a lower `learning_rate` than {config.learning_rate:g}"]
    if config.optimizer == "muon":
        ways.append(f"a lower `muon_learning_rate` than {config.muon_learning_rate:g}")
    if config.clip_norm != 1:
        ways.append(f"`clip_norm` 1.0 instead of {config.clip_norm:g}")
    if mixed:
        ways.append("`precision` float32")
    last = f" The checkpoint of step {saved_at} is in order." if saved_at >= 0 else ""
    return (
        f"{what} was no finite number after {step} updates, at a learning rate of "
        f"{rate:.3g}; the model is as it was before.{last} Try {', or '.join(ways)}"
    )


class Update:
    """
    ## From one version of a model to the next

    What an update has to know of its training is given once. Then it is called with
    one batch after the other.

    Three things are counted since the last `clear`: how many updates were `made`, the
    sum of their losses, and whether all was `good`. On a GPU they are tensors, for it
    counts by itself.
    """

    made: int | Tensor
    loss_sum: float | Tensor
    good: bool | Tensor

    def __init__(
        self,
        model: LanguageModel[Any],
        config: TrainingConfig,
        computing: Computing,
        world: World,
    ) -> None:
        """
        * `model` is on its device already
        * `computing` says in which precision, and whether compiled
        * `world` are the processes that share each batch
        """
        self.config, self.computing, self.world = config, computing, world
        self.wrapped = world.wrap(model)
        self.loss = computing.prepare(self.wrapped)
        self.optimizers = Optimizers(model, config, computing.device)
        self.parameters = list(self.optimizers.parameters)
        self.scaler = computing.scaler()
        self.norm = torch.zeros(())

        # Only AdamW has a kernel that can leave a step out, and PyTorch's scaler uses
        # it for itself.
        alone = len(self.optimizers.all) == 1 and not self.scaler.is_enabled()
        self.decides_alone = computing.device.type == "cuda" and alone
        self.clear()

    def __call__(self, step: int, batch: Examples, share: float) -> None:
        """
        ### The update

        * `step` is its number, from 0
        * `batch` is what to learn from, for all processes together
        * `share` is that of the learning rates

        Raises `NotFiniteError` if it cannot be made. A GPU tells that later: see
        `look`.
        """
        _reseed(_seed(self.config.seed, step, self.world.rank), self.computing.device)
        self.optimizers.follow(share)
        self.optimizers.forget()

        # Processes send each other the gradients of the last piece, and with them those
        # of the others, which have waited.
        *others, last = self._pieces(batch)
        parts = []
        for piece in others:
            with self.world.alone(self.wrapped):
                parts.append(self._learn(piece, batch.count))
        parts.append(self._learn(last, batch.count))
        self._step(sum(parts[1:], start=parts[0]))

    def _pieces(self, batch: Examples) -> list[Examples]:
        accumulate, size = self.config.accumulate, batch.targets.shape[1]
        start, stop = self.world.share(size, accumulate)
        width = (stop - start) // accumulate
        if width == size:
            return [batch]
        return [batch.columns(i, i + width) for i in range(start, stop, width)]

    def _learn(self, piece: Examples, count: int) -> Tensor:
        """
        ### A piece of it

        * `count` is how many targets the whole batch has

        Returns what the piece adds to the loss of the batch. Several processes take the
        *mean* of their gradients, so each of them is multiplied by their number.
        """
        piece = piece.to(self.computing.device)
        with self.computing.autocast():
            loss = self.loss(piece.tokens, piece.targets)
        part: Tensor = loss * (piece.count / count)
        self.scaler.scale(part * self.world.size).backward()  # type: ignore[no-untyped-call]
        return part.detach()

    def _step(self, loss: Tensor) -> None:
        r"""
        ### The step, if its numbers are numbers

        A processor can look at once. To ask a GPU would make it wait for the answer,
        and stand idle meanwhile. So it decides by itself: AdamW's kernel takes a
        number, `found_inf`, and does nothing if that is not zero. Once a gradient was
        no number nothing moves any more, and when somebody looks, the model is as it
        was before.

        In float16 gradients may be infinite because the scaler has tried too large a
        factor. Then the scaler leaves the step out, and tries a smaller one.
        """
        for optimizer in self.optimizers.all:
            if self.scaler.is_enabled():
                self.scaler.unscale_(optimizer)
        longest = self.config.clip_norm or math.inf
        self.norm = norm = clip_grad_norm_(self.parameters, longest)

        # Processes have the same gradient, but losses of their own, and must decide
        # alike. What a scaler may do is not yet a fault.
        seen = torch.zeros(()) if self.scaler.is_enabled() else norm
        if self.world.size == 1:
            seen = seen.to(loss.device) + loss
        if self.decides_alone:
            self.good = good = torch.isfinite(seen) & self.good
            setattr(self.optimizers.all[0], "found_inf", (~good).float())  # noqa: B010
            self.made = self.made + good
            self.loss_sum = self.loss_sum + torch.where(good, loss, 0.0)
        elif math.isfinite(seen.item()):
            self.made += 1
            self.loss_sum += loss.item()
        else:
            raise NotFiniteError(int(self.made))
        for optimizer in self.optimizers.all:
            self.scaler.step(optimizer)
        self.scaler.update()

    def look(self) -> float:
        """
        ### What has become of it

        Returns the sum of the losses of all updates since `clear`, over all processes.
        Raises `NotFiniteError` if one of them could not be made, on a GPU as well.
        """
        total = self.world.sum(float(self.loss_sum))[0]
        if not self.good or not math.isfinite(total) or self._has_collapsed():
            raise NotFiniteError(int(self.made))
        return total

    def clear(self, loss_sum: float = 0.0, made: int = 0) -> None:
        """Count anew, or from the sum and the number in a checkpoint."""
        self.loss_sum = loss_sum if self.world.main else 0.0
        self.made, self.good = made, True

    def _has_collapsed(self) -> bool:
        # A factor that gets smaller and smaller has never found a finite gradient.
        return self.scaler.is_enabled() and self.scaler.get_scale() < 2**-10

    def state(self) -> dict[str, Any]:
        """What it remembers of the past, for a checkpoint."""
        return {
            "optimizers": self.optimizers.state(),
            "scaler": self.scaler.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """And back."""
        self.optimizers.restore(state["optimizers"])
        self.scaler.load_state_dict(state["scaler"])


def _seed(seed: int, step: int, rank: int) -> int:
    # Neighbouring numbers become seeds that have nothing in common.
    digest = blake2b(f"{seed} {step} {rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _reseed(seed: int, device: torch.device) -> None:
    # `torch.manual_seed` asks every kind of device whether it is there, at every step.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type != "cpu":
        torch.manual_seed(seed)


# ## Exercises
#
# **1.** How much does it cost to look at every loss, on a GPU? Find the line that would
# make it wait, and the one that does not.
#
# <details><summary>Answer</summary>
#
# `loss.item()` asks for a number that the GPU may not have computed yet, and Python
# stands still until it has; meanwhile nobody orders the next operations, so that the
# GPU stands still after. `torch.isfinite(loss)` is an order like any other. Whoever
# wants to read a loss at every step can keep the tensors and read them all at the end.
#
# </details>
#
# **2.** Clip by value instead of by length: cut each number of the gradient to
# $[-c, c]$. What is lost?
#
# <details><summary>Answer</summary>
#
# The direction. Long gradients come out as corners of a cube, in which small and large
# slopes count nearly the same.
#
# ```python
# import torch
# from torch.nn.functional import cosine_similarity
#
# torch.manual_seed(0)
# gradient = torch.randn(1000) ** 3  # a few large numbers, and many small ones
# by_length = gradient * (1 / gradient.norm()).clamp(max=1)
# by_value = gradient.clamp(-0.1, 0.1)
# assert cosine_similarity(gradient, by_length, dim=0) > 0.999
# assert cosine_similarity(gradient, by_value, dim=0) < 0.7
# ```
#
# </details>
#
# **3.** Why is a step left out if a single number of the gradient is infinite? Would it
# not be enough to set that one to zero?
#
# <details><summary>Answer</summary>
#
# The others were computed with it. If one activation overflows, everything below it in
# the network has been multiplied by infinity, or by a number that stands for it, and
# what still looks finite is no slope of the loss. To leave one step of thousands out
# costs nothing; to follow a wrong one may cost all of them.
#
# </details>
