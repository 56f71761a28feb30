r"""
---
title: Positional encodings
summary: >
  Attention sees a set of vectors, not a sequence. Adding a vector that depends only on
  the position tells it what comes where. Here are the sinusoids of the original
  transformer, for any width and any length, and learned positions.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/positional_encoding.ipynb
---

Shuffle the tokens of a sentence, and attention gives back the same vectors, shuffled in
the same way: nothing in it knows that one token stands before another. *Dog bites man*
and *man bites dog* would be one and the same. So before the first layer each token's
vector gets a second vector added to it, which says where the token stands.

Vaswani et al. ([-@vaswani2017attention, §3.5]) write the position as a row of clock
hands. Each pair of features is one hand; it points to
$(\sin \omega_i p, \cos \omega_i p)$ at position $p$.

![Turn the knobs: one of 12 hands, and all of them at one
position.](figure:positional_encoding.clocks)

The first hand goes round once in $2 \pi \approx 6.3$ positions, each next one is slower
by the same factor, and with 512 features the last one takes 60,611 positions for a
turn. The fast hands tell neighbours apart, the slow ones the beginning of a text from
its end.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $p$ | `positions` | `[T]` | position of a token, counted from 0 |
| $\omega_i$ | `frequencies` | `[⌈C/2⌉]` | radians that hand $i$ turns per position |
| $PE$ | `encodings` | `[T, C]` | one vector per position |
| $C$ | `d_model` | | features per token |
| $T$, $B$ | | | length, batch size |
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sequence, check_sizes


def get_positional_encoding(
    d_model: int,
    max_len: int = 5000,
    *,
    first: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "T 1 C"]:
    r"""
    ## The table of sinusoids

    \begin{align}
    \omega_i &= 10000^{-2i / C} \\
    PE_{p, 2i} &= \sin(\omega_i \, p) \\
    PE_{p, 2i + 1} &= \cos(\omega_i \, p)
    \end{align}

    ![Two of the 32 hands of $C = 64$ features.](figure:positional_encoding.waves)

    Why sine *and* cosine? Because then a shift is a rotation. The hands of position
    $p + k$ are those of position $p$, each turned by an angle that does not depend on
    $p$:

    $$
    \begin{pmatrix} PE_{p + k, 2i} \\ PE_{p + k, 2i + 1} \end{pmatrix} =
    \begin{pmatrix} \cos \omega_i k & \sin \omega_i k \\
                   -\sin \omega_i k & \cos \omega_i k \end{pmatrix}
    \begin{pmatrix} PE_{p, 2i} \\ PE_{p, 2i + 1} \end{pmatrix}
    $$

    One fixed matrix says "three tokens back", wherever you stand, and a linear layer
    such as the query projection can learn that matrix.

    ![The table for $C = 8$.](figure:positional_encoding.heat)

    * `d_model` is the number of features $C$, even or odd
    * `max_len` is the number of positions $T$
    * `first` is the first position
    * `dtype`, `device`: where and how exactly to compute; see the end of this page

    Returns a tensor of shape `[T, 1, C]`; the axis of size 1 is the batch's.
    Raises `ValueError` if a size is not positive.
    Source: [@vaswani2017attention, §3.5].
    """
    # A width of 0 would give an empty table, and fail far from here.
    check_sizes(d_model=d_model, max_len=max_len)

    # $\omega_i = 10000^{-2i/C} = \exp(-2i \cdot \ln 10000 / C)$, one for each even
    # feature, `[⌈C/2⌉]`.
    #
    # > [!WARNING]
    # > Some tutorials forget to divide by $C$. Then the second hand needs 628 million
    # > positions for a turn, and of $C = 512$ features **2** move in a text of 1,000
    # > positions, where 503 should. Only the first hand is left, and it comes round: in
    # > the first 100 positions there are two that lie 0.018 apart, and in 1,000 two at
    # > a distance of 0.00006. Divided by $C$, no two of them come nearer than 3.7.
    # > Found by `test_every_position_looks_different`;
    # > [five more faults](../../faults.md).
    even = torch.arange(0, d_model, 2, dtype=dtype, device=device)
    frequencies = torch.exp(even * -(math.log(10000.0) / d_model))

    # The angle of every hand at every position, $\omega_i \, p$, of shape `[T, ⌈C/2⌉]`.
    positions = torch.arange(first, first + max_len, dtype=dtype, device=device)
    angles = positions.unsqueeze(1) * frequencies

    # Sines go to the even features and cosines to the odd ones. With an odd $C$ there
    # is one even feature more: the slowest hand shows its sine only.
    encodings = torch.empty(max_len, d_model, dtype=dtype, device=device)
    encodings[:, 0::2] = torch.sin(angles)
    encodings[:, 1::2] = torch.cos(angles[:, : d_model // 2])
    return encodings.unsqueeze(1)


def fixed_positions(
    table: Float[Tensor, "max_len 1 C"], offset: int, length: int
) -> Float[Tensor, "T 1 C"]:
    r"""
    ## Rows of the table, and past its end

    The formula has no last position; the table is only there to save work. Rows beyond
    it are computed when a sequence needs them and are not kept, so that a checkpoint
    stays the same whatever a model has read. A row costs one sine or cosine per
    feature, which is little beside the $C^2$ products of a single projection.

    * `table` comes from `get_positional_encoding`, in any dtype
    * `offset` is the position of the first token
    * `length` is the number of tokens $T$

    Returns `[T, 1, C]` in the table's dtype, the same rows that a longer table would
    hold. Raises `ValueError` for a negative offset.
    """
    _check_offset(offset)
    end = offset + length
    if end <= table.shape[0]:
        return table[offset:end]

    # Computed in 32 bits and then converted, as the table was. Counting positions in
    # bfloat16 itself would go wrong at 257, which it cannot represent.
    first = max(offset, table.shape[0])
    beyond = get_positional_encoding(
        table.shape[2], end - first, first=first, device=table.device
    )
    return torch.cat([table[offset:], beyond.to(table.dtype)])


def learned_positions(
    table: Float[Tensor, "max_len 1 C"], offset: int, length: int
) -> Float[Tensor, "T 1 C"]:
    r"""
    ## Rows of a learned table

    A learned table does end: nothing was ever learned about the positions after it.
    Reading on would need a guess, so it is an error instead.

    Arguments and result are those of `fixed_positions`.
    Raises `ValueError` if a token stands beyond the table or before it.
    """
    _check_offset(offset)
    max_len, end = table.shape[0], offset + length
    if end > max_len:
        raise ValueError(
            f"the sequence needs {end} positions, but only max_len = {max_len} were "
            f"learned; shorten it, build the model with max_len={end}, or use fixed "
            "(sinusoidal) positions, which have no end"
        )
    return table[offset:end]


def _check_offset(offset: int) -> None:
    # A slice would silently count a negative position from the end of the table.
    if offset < 0:
        raise ValueError(
            f"`offset` ({offset}) must be 0 or more: it is the position of the first "
            "token"
        )


class PositionalEncoding(nn.Module):
    r"""
    ## Add fixed positions

    $$y_p = \operatorname{Dropout}(x_p + PE_p)$$

    Every sequence of the batch gets the same row $PE_p$ at position $p$. Values lie
    between $-1$ and $1$ at every position, so that a long text does not drown its
    tokens in large numbers, which counting $0, 1, 2, \dots$ would do.
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, dropout_prob: float, max_len: int = 5000) -> None:
        r"""
        * `d_model` is the number of features $C$
        * `dropout_prob` is the probability to drop a feature of the sum (§5.4)
        * `max_len` is the length of the table; longer sequences work too
        """
        super().__init__()
        check_probability(dropout_prob=dropout_prob)
        self.dropout = nn.Dropout(dropout_prob)

        # A buffer moves with the model from device to device but is not trained. This
        # one stays out of checkpoints: anybody can compute it again.
        table = get_positional_encoding(d_model, max_len)
        self.register_buffer("positional_encodings", table, persistent=False)

    def forward(
        self, x: Float[Tensor, "T B C"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        r"""
        * `x` has shape `[T, B, C]`
        * `offset` is the position of its first vector, for text that comes piece by
          piece

        Returns `[T, B, C]`. Raises `ValueError` for another shape, an empty sequence or
        a negative offset, and `TypeError` for tokens that were not embedded yet.
        """
        check_sequence("x", x, self.positional_encodings.shape[2])
        rows = fixed_positions(self.positional_encodings, offset, x.shape[0])
        placed: Tensor = self.dropout(x + rows)
        return placed


class LearnedPositionalEncoding(nn.Module):
    r"""
    ## Add learned positions

    The other way is to let training find a vector for each position, as BERT and GPT-2
    do. Vaswani et al. tried both and found them "nearly identical" (Table 3, row E).
    The price is the end of the table, and $\text{max\_len} \cdot C$ more parameters.
    """

    def __init__(self, d_model: int, dropout_prob: float, max_len: int = 5000) -> None:
        r"""
        * `d_model` is the number of features $C$
        * `dropout_prob` is the probability to drop a feature of the sum
        * `max_len` is the number of positions that can be learned
        """
        super().__init__()
        check_sizes(d_model=d_model, max_len=max_len)
        check_probability(dropout_prob=dropout_prob)
        self.dropout = nn.Dropout(dropout_prob)

        # Zeros say "no position stands out yet". Nothing needs to be random here: each
        # row has its own gradient from the first step on.
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Float[Tensor, "T B C"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        r"""
        Arguments, result and errors are those of `PositionalEncoding.forward`; besides,
        a sequence that ends after `max_len` is a `ValueError`.
        """
        check_sequence("x", x, self.positional_encodings.shape[2])
        rows = learned_positions(self.positional_encodings, offset, x.shape[0])
        placed: Tensor = self.dropout(x + rows)
        return placed


# ## Differences from the paper
#
# * **Odd widths.** The paper's formula pairs features, and its models have even widths.
#   Here the last sine of an odd width stays without its cosine.
# * **No end.** Positions past the table are computed when they are needed.
# * **Exactness.** The table is computed in 32-bit numbers, as in version 0.5.1 of this
#   package, so that models trained then see the positions they know. A 32-bit angle of
#   some thousand radians is a little off: with $C = 512$ the largest error of an entry
#   is $7 \cdot 10^{-6}$ in the first 128 positions and $4 \cdot 10^{-4}$ in the first
#   5,000. `get_positional_encoding(..., dtype=torch.float64)` gives the formula to full
#   precision.
#
# ## Exercises
#
# **1.** How similar are two positions? Show that the dot product of $PE_p$ and
# $PE_{p + k}$ depends on the distance $k$ only, and not on $p$ (for an even $C$).
#
# <details><summary>Answer</summary>
#
# Each hand gives
#
# $$\sin \omega_i p \, \sin \omega_i (p + k) + \cos \omega_i p \, \cos \omega_i (p + k)
# = \cos \omega_i k,$$
#
# so the whole product is $\sum_i \cos \omega_i k$. It is largest, $C / 2$, at $k = 0$.
# It is also the same for $k$ and $-k$: by itself it cannot tell before from after.
#
# ![One position and all others, for $C = 128$.](figure:positional_encoding.products)
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import get_positional_encoding
#
# table = get_positional_encoding(32, 100, dtype=torch.float64)[:, 0]
# products = table @ table.T  # [T, T]
# for k in range(100):
#     same = products.diagonal(k)
#     torch.testing.assert_close(same, same[:1].expand(100 - k))
# assert (products.diagonal() - 16).abs().max() < 1e-9
# ```
#
# </details>
#
# **2.** Which positions look alike if only the first hand is there, $C = 2$? Try
# $p = 0$ and $p = 710$.
#
# <details><summary>Answer</summary>
#
# 710 is nearly 113 turns, because $355 / 113$ is nearly $\pi$. A second, slower hand
# tells them apart, just as the hour hand does when the minute hand comes round again.
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import get_positional_encoding
#
# one, two = (get_positional_encoding(d_model, 711, dtype=torch.float64)
#             for d_model in (2, 4))
# assert (one[710] - one[0]).abs().max() < 6.1e-5
# assert (two[710] - two[0]).abs().max() > 0.3
# ```
#
# </details>
#
# **3.** "Three tokens back" is one matrix for all positions, says the note on the
# table. Write it down for $C = 6$, and move a whole table with it.
#
# <details><summary>Answer</summary>
#
# Each hand has a block of two rows and columns, turned by $-3 \omega_i$.
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import get_positional_encoding
#
# table = get_positional_encoding(6, 50, dtype=torch.float64)[:, 0]
# angles = -3 * 10000 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
# blocks = [torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angles]
# back = torch.block_diag(*blocks).double()
# torch.testing.assert_close(table[3:] @ back.T, table[:-3], rtol=0, atol=1e-6)
# ```
#
# </details>
#
# **4.** Why are learned positions a poor choice for a model that should read texts
# longer than those it was trained on, even if `max_len` is large enough?
#
# <details><summary>Answer</summary>
#
# A row is trained only when a training text is long enough to reach it. With texts of
# 128 tokens the rows from 128 on are still the zeros they began with: to the model,
# those tokens stand nowhere. Fixed positions at least go on by the rule that it knows.
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import LearnedPositionalEncoding
#
# positions = LearnedPositionalEncoding(d_model=8, dropout_prob=0.0, max_len=512)
# positions(torch.randn(128, 2, 8)).square().sum().backward()
# learned = positions.positional_encodings.grad.abs().amax(dim=(1, 2)) > 0
# assert learned[:128].all() and not learned[128:].any()
# ```
#
# </details>
