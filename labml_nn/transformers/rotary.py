r"""
---
title: Rotary positions
summary: >
  Turn every query and every key by an angle that grows with its position. Their dot
  product then knows how far apart they stand, and nothing else of where they are.
paper: https://arxiv.org/abs/2104.09864
---

Attention compares a query with a key, and both come from words. Where the words stand
has to be put into them first. [Positional encodings](positional_encoding.py) are added
to the vectors at the bottom of the model, and every layer above has to find them again
among everything else that the vectors say.

Rotary positions ([@su2021roformer]) leave the vectors alone. They act in each
attention, at the one place where order matters: between the query and the key.

Take two features of a query as a point in the plane. At position $t$ turn it by the
angle $t \theta$; turn the key at position $s$ by $s \theta$. To turn both by the same
angle would change nothing, since a dot product is lengths and the angle in between. So
what is left is the *difference*, $(t - s) \, \theta$:

$$(R_t \, q) \cdot (R_s \, k) = q \cdot R_{s - t} \, k$$

Each of the two knows only its own position, and together they know their distance
([@su2021roformer, §3.2.2, eq. 16]). Move the whole text by a hundred places and all
scores stay what they were.

One angle is not enough: a hand that goes round once in six positions shows the same at
distance 6 and 12. As in the sinusoidal encoding there is a slower hand for every
further pair of features, $i = 0, \dots, K/2 - 1$ (eq. 15):

$$\theta_i = 10000^{-2 i / K}$$

![What pairs of features add to the score of two equal vectors, by their
distance.](figure:rotary.distances)

The fast pairs tell neighbours apart. The slowest hardly move within a context, and can
compare *what* is there without asking where. Values are not turned: a weighted mean
of them should say what was found, not where.

Nothing is learned, and nothing is added. Lengths stay as they are, so no query gets
louder or softer by its place. And a key, once turned, can be [kept](keys_values.py):
its own position never changes while it is in the window.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $q$, $k$ | `x` of `rotate` | `[T, B, H, K]` | queries, or keys, of all heads |
| $p$ | `positions` | `[T, B\|1]` | where each of them stands, from 0 |
| $\theta$ | `speeds` | `[K/2]` | the angle from one position to the next |
| $p \, \theta$ | `angles` | `[max_len, K/2]` | how far each pair has turned |
| | `cos`, `sin` | `[T, B\|1, 1, K/2]` | its cosine and sine, for all heads |
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_sizes


class Rotation(NamedTuple):
    r"""
    ## Where things stand, as angles

    What all layers of a model share in one pass: cosine and sine of the angle by which
    each pair of features is turned, `[T, B, 1, K/2]`, or `[T, 1, 1, K/2]` where all
    texts count alike. The axis of length one stands for the heads.
    """

    cos: Float[Tensor, "T #B 1 half"]
    sin: Float[Tensor, "T #B 1 half"]


def rotate(
    x: Float[Tensor, "T B H K"], rotation: Rotation | None
) -> Float[Tensor, "T B H K"]:
    r"""
    ## Turn

    Feature $i$ and feature $i + K/2$ are the two coordinates of point $i$:

    \begin{align}
    x'_i &= x_i \cos p\theta_i - x_{i + K/2} \sin p\theta_i \\
    x'_{i + K/2} &= x_i \sin p\theta_i + x_{i + K/2} \cos p\theta_i
    \end{align}

    This is a multiplication with a matrix of $2 \times 2$ blocks, of which all other
    entries are zero, without the zeros (eq. 34).

    * `x` holds queries or keys, `[T, B, H, K]`
    * `rotation` is by how much, from `RotaryPositions`; `None` leaves `x` as it is

    Returns the same shape and dtype. Raises `ValueError` for a rotation of another
    length, batch or width.
    """
    if rotation is None:
        return x
    _check(x, rotation)
    first, second = x.chunk(2, dim=-1)
    cos, sin = rotation
    turned = torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    # Under autocast queries come in 16 bits and the table in 32. What goes out is what
    # came in, as the values that go with it are.
    return turned.to(x.dtype)


class RotaryPositions(nn.Module):
    r"""
    ## All angles, once

    A table of cosines and sines for the positions of a context. Anybody can compute it
    again, so it stays out of files.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, d_k: int, max_len: int, *, base: float = 10_000.0) -> None:
        r"""
        * `d_k` is the number of features of a query in one head, $K$, an even number
        * `max_len` is the number of positions, from 0
        * `base` is 10,000 in the formula: the slowest hand takes nearly $2 \pi$ times
          as many positions to go round once

        Raises `ValueError` or `TypeError` for sizes that cannot be.
        """
        super().__init__()
        check_sizes(d_k=d_k, max_len=max_len)
        check_pairs(d_k)
        if not base > 1:
            raise ValueError(f"`base` ({base}) must be more than 1; 10000.0 is usual")

        # Angles grow to thousands, where 32 bits no longer tell a small turn; so they
        # are computed in 64. Their sines need no more than the model has.
        pairs = torch.arange(0, d_k, 2, dtype=torch.float64)
        speeds = base ** (-pairs / d_k)
        angles = torch.arange(max_len, dtype=torch.float64)[:, None] * speeds
        dtype = torch.get_default_dtype()
        self.register_buffer("cos", angles.cos().to(dtype), persistent=False)
        self.register_buffer("sin", angles.sin().to(dtype), persistent=False)

    def forward(self, positions: Int[Tensor, "T #B"]) -> Rotation:
        """
        * `positions` are from 0 to `max_len - 1`, `[T, B]`, or `[T, 1]` if all texts
          count alike

        Returns what `rotate` needs. Look it up once and use it in all layers.
        """
        cos, sin = F.embedding(positions, self.cos), F.embedding(positions, self.sin)
        return Rotation(cos.unsqueeze(2), sin.unsqueeze(2))


def check_pairs(d_k: int) -> None:
    """
    ### Features come in pairs

    Raises `ValueError` if `d_k` is odd: the last one would have nobody to turn with.
    """
    if d_k % 2:
        raise ValueError(
            f"`d_k` ({d_k}) must be even, for rotary positions turn pairs of features; "
            f"try {d_k + 1}"
        )


def _check(x: Tensor, rotation: Rotation) -> None:
    length, batch, _, d_k = x.shape
    shape = list(rotation.cos.shape)
    expected = [length, batch, 1, d_k // 2]
    if len(shape) != 4 or shape not in (expected, [length, 1, 1, d_k // 2]):
        raise ValueError(
            f"`rotation` has shape {shape} and queries or keys {list(x.shape)}; "
            f"expected [T, B or 1, 1, K / 2] = {expected}"
        )


# ## Differences from the paper
#
# * **Which features are a pair.** The paper pairs neighbours, $2i$ and $2i + 1$. Here
#   the first half is paired with the second, as in GPT-NeoX and LLaMA's descendants.
#   The columns of the maps that make queries and keys are in another order, and that is
#   all; but a checkpoint means one of the two.
# * **Longer texts.** The paper has them go on counting. Here the window
#   [slides](window.py), and positions begin again.
#
# ## Exercises
#
# **1.** Show that only the distance counts: move queries and keys by 100 positions and
# compare all dot products.
#
# <details><summary>Answer</summary>
#
# Each position alone changes every vector, and no score.
#
# ```python
# import torch
# from labml_nn.transformers.rotary import RotaryPositions, rotate
# from labml_nn.transformers.scaled_dot_product import dot_products
#
# query, key = torch.randn(2, 7, 2, 3, 8)  # [T, B, H, K] each
# table = RotaryPositions(d_k=8, max_len=200)
#
# def turned(offset):
#     rotation = table(torch.arange(offset, offset + 7)[:, None])
#     return rotate(query, rotation), rotate(key, rotation)
#
# here, there = turned(0), turned(100)
# assert not torch.allclose(here[0], there[0], atol=0.1)
# scores = dot_products(*here), dot_products(*there)
# torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)
# ```
#
# </details>
#
# **2.** A pair of features is a complex number, and to turn it is to multiply it with
# $e^{\mathrm{i} p \theta}$. Write `rotate` so.
#
# <details><summary>Answer</summary>
#
# The real part is the first coordinate. This is how the authors derive it (§3.2.1), and
# how the code of LLaMA is written.
#
# ```python
# import torch
# from labml_nn.transformers.rotary import RotaryPositions, rotate
#
# x = torch.randn(7, 2, 3, 8)
# rotation = RotaryPositions(d_k=8, max_len=7)(torch.arange(7)[:, None])
# angle = torch.arange(7)[:, None] * 10_000 ** (-torch.arange(4) / 4)  # [T, K/2]
#
# point = torch.complex(x[..., :4], x[..., 4:])
# point = point * torch.polar(torch.ones(7, 4), angle)[:, None, None]
# by_hand = torch.cat([point.real, point.imag], dim=-1)
# torch.testing.assert_close(by_hand, rotate(x, rotation), rtol=1e-4, atol=1e-5)
# ```
#
# </details>
#
# **3.** Sinusoids that are added can say the same thing: the dot product of two
# encodings depends on their distance alone. What is the difference? Take two words,
# with and without positions, and multiply out.
#
# <details><summary>Answer</summary>
#
# $(q + p_t) \cdot (k + p_s)$ has four terms. One compares the words and one the
# positions. The other two compare a word with a position, so that a score depends on
# where the text begins. When turned there is one term, in which word and distance stand
# together: a head can ask for *this word, three places back*.
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import get_positional_encoding
# from labml_nn.transformers.rotary import RotaryPositions, rotate
#
# query, key = torch.randn(2, 64)
# added = get_positional_encoding(64, 200)[:, 0]
# table = RotaryPositions(d_k=64, max_len=200)
#
# def turn(x, position):
#     return rotate(x.view(1, 1, 1, 64), table(torch.tensor([[position]]))).flatten()
#
# def spread(score):
#     """How much the score of two words, three places apart, depends on the place."""
#     return torch.stack([score(t) for t in range(0, 190, 10)]).std()
#
# assert spread(lambda t: (query + added[t]) @ (key + added[t + 3])) > 0.3
# assert spread(lambda t: turn(query, t) @ turn(key, t + 3)) < 1e-4
# ```
#
# </details>
#
# **4.** Let query and key be the same word. How does its score fall with distance,
# averaged over words? Compare widths $K$ of 4 and 64.
#
# <details><summary>Answer</summary>
#
# For random features the mean is $\sum_i 2 \cos(d \, \theta_i)$: all hands agree at
# distance 0 and lose each other on the way ([@su2021roformer, §3.4.3] has a bound). Two
# hands come together again soon, 32 do not.
#
# ```python
# import torch
# from labml_nn.transformers.rotary import RotaryPositions
#
# def similarity(d_k):
#     cos = RotaryPositions(d_k, 101).cos
#     return 2 * cos.sum(1) / d_k  # [max_len], 1 at distance 0
#
# narrow, wide = similarity(4), similarity(64)
# assert narrow[6] > 0.95 and wide[6] < 0.8
# assert narrow[10:].max() > 0.9 and wide[10:].max() < 0.75
# ```
#
# </details>
