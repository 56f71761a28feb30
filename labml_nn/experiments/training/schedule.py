r"""
---
title: How large a step
summary: >
  The learning rate rises at first, falls like a cosine, and is small at the end. Why it
  is not simply constant; and sequences that grow.
---

The gradient says in which direction the loss falls, here and now. How far one may
follow it is another question, and the answer changes while the model learns.

**At the beginning** nothing is known. AdamW divides each step by the size that
gradients usually have, and after three updates there is no "usually": its means hang on
a handful of batches. The first gradients are also the largest, for the model has still
to learn how frequent each letter is. Full steps now would throw the parameters to where
they are hard to get back from. So the learning rate grows from next to nothing over the
first `warmup_steps` updates.

**At the end** the model lies near the bottom of a valley, and each batch pulls it
somewhere else. With steps of constant size it keeps jumping from one wall to the other.
Smaller steps average these pulls out, and it sinks. A good part of the loss falls in
this last part of the training.

In between anything will do that is high first and low later. A cosine is usual
([@loshchilov2016sgdr]): it stays high for long and has no corners.

$$r_s = \begin{cases}
    \dfrac{s + 1}{W} & s < W \\[1.5ex]
    f + (1 - f) \, \dfrac{1 + \cos \pi p_s}{2},
    \quad p_s = \dfrac{s - W + 1}{N - W} & s \ge W
\end{cases}$$

![Up in 50 updates, down in the other 450.](figure:schedule.shares)

| Symbol | Code | Meaning |
|:--|:--|:--|
| $s$ | `step` | which update this is, from 0 |
| $N$ | `config.steps` | how many there are |
| $W$ | `config.warmup_steps` | how many of them the rate rises |
| $f$ | `config.final_learning_rate` | what is left of it in the last |
| $r_s$ | `share_at` | the share of the highest rate in this one |
"""

import math

from labml_nn.experiments.training.config import TrainingConfig

__all__ = ["seq_len_at", "share_at"]


def share_at(step: int, config: TrainingConfig) -> float:
    r"""
    ## The share of the highest rate

    Returns $r_s$, which multiplies the learning rates of all optimizers. It is 1 in
    the last update of the warm-up, and $f$ in the very last.

    ```python
    from labml_nn.experiments.training.config import TrainingConfig
    from labml_nn.experiments.training.schedule import share_at

    config = TrainingConfig(steps=100, warmup_steps=10, final_learning_rate=0.1)
    shares = [share_at(step, config) for step in range(100)]
    assert shares[0] == 0.1 and max(shares) == shares[9] == 1.0
    assert abs(shares[54] - 0.55) < 0.001 and abs(shares[99] - 0.1) < 1e-9
    ```
    """
    warmup, final = config.warmup_steps, config.final_learning_rate
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup + 1) / max(config.steps - warmup, 1)
    return final + (1 - final) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def seq_len_at(step: int, config: TrainingConfig) -> int:
    r"""
    ## How much text in one piece

    The feedback transformer reads step by step, so an update on short sequences is
    quick. And what follows from the last few letters has to be learned before what
    follows from the last hundred. So one may begin with short sequences and let them
    grow, from `initial_seq_len` to `seq_len` in `grow_steps` updates.

    ![Windows that grow from 8 letters to 32 in the first 300 of 750
    updates.](figure:schedule.lengths)

    Returns a whole number of tokens: `seq_len`, if nothing was said about growing.
    """
    if config.initial_seq_len is None or step >= config.grow_steps:
        return config.seq_len
    longer = config.seq_len - config.initial_seq_len
    return config.initial_seq_len + longer * step // config.grow_steps


# ## Exercises
#
# **1.** How much of the whole way is made after warm-up, in the first half of the
# updates, and how much in the second? (The way is the sum of the rates.)
#
# <details><summary>Answer</summary>
#
# The mean of a cosine over its first quarter turn is $2 / \pi$, so with $f = 0$ the
# first half has a share of $1/2 + 1/\pi = 82$ %. What remains is the part in which the
# pulls of single batches are averaged out.
#
# ```python
# import math
# from labml_nn.experiments.training.config import TrainingConfig
# from labml_nn.experiments.training.schedule import share_at
#
# config = TrainingConfig(steps=2000, warmup_steps=0, final_learning_rate=0.0)
# shares = [share_at(step, config) for step in range(2000)]
# first = sum(shares[:1000]) / sum(shares)
# assert abs(first - (1 / 2 + 1 / math.pi)) < 0.001
# ```
#
# </details>
#
# **2.** Steps of constant size do not come to rest. Show it for the simplest loss, a
# parabola whose slope is known only with noise; then let the steps shrink.
#
# <details><summary>Answer</summary>
#
# With a rate $r$ the position keeps a variance of about $r / 2$ times that of the
# noise. A rate that falls takes the variance with it.
#
# ```python
# import torch
# from labml_nn.experiments.training.config import TrainingConfig
# from labml_nn.experiments.training.schedule import share_at
#
# def end(rate):
#     torch.manual_seed(0)
#     x = torch.zeros(2000)  # as many descents side by side
#     for step in range(300):
#         slope = x + torch.randn(2000)
#         x = x - rate(step) * slope
#     return x.square().mean().item()
#
# config = TrainingConfig(steps=300, warmup_steps=0, final_learning_rate=0.0)
# constant = end(lambda step: 0.2)
# falling = end(lambda step: 0.2 * share_at(step, config))
# assert 0.09 < constant < 0.13 and falling < constant / 5
# ```
#
# </details>
#
# **3.** Which lengths does a feedback model read that begins with 16 tokens and grows
# to 64 in 96 updates? When does it read 40?
#
# <details><summary>Answer</summary>
#
# One token more every other update. Half of the way, and half of the updates.
#
# ```python
# from labml_nn.experiments.training.config import TrainingConfig
# from labml_nn.experiments.training.schedule import seq_len_at
#
# config = TrainingConfig(steps=200, seq_len=64, initial_seq_len=16, grow_steps=96)
# lengths = [seq_len_at(step, config) for step in range(200)]
# assert lengths[:4] == [16, 16, 17, 17] and set(lengths[96:]) == {64}
# assert lengths.index(40) == 48
# ```
#
# </details>
