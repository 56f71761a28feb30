r"""
---
title: Positional encoding
summary: >
  Attention does not see the order of the tokens. Sinusoidal or learned position
  vectors, added to the token embeddings, provide it; and an overview of relative
  schemes.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/positional_encoding.ipynb
---

Self-attention without a mask is **permutation equivariant**: if the tokens of a
sequence are shuffled, the outputs are the same vectors, shuffled in the same way. To
attention, *dog bites man* and *man bites dog* are the same set of words. A recurrent
network reads the tokens in order, and a convolution has a weight for each offset; but
attention is a sum over keys, and a sum has no order. A transformer therefore adds a
**positional encoding** to every token embedding $x_p$, a vector $PE_p$ that depends
only on the position $p$ ([-@vaswani2017attention, §3.5]):

$$y_p = \operatorname{Dropout}(x_p + PE_p)$$

![Left: the sum at the bottom of encoder and decoder, after Figure 1 of the paper.
Right: the matrix of the encodings.](figure:positional_encoding.diagram)

The original transformer uses sinusoids. The $C$ features are taken in pairs, and pair
$i$ oscillates with the frequency $\omega_i$:

\begin{align}
\omega_i &= 10000^{-2i / C} \\
PE_{p, 2i} &= \sin(\omega_i \, p) \\
PE_{p, 2i + 1} &= \cos(\omega_i \, p)
\end{align}

Pair 0 completes a cycle in $2 \pi \approx 6.3$ positions. Every following pair is
slower by the same factor, and with $C = 512$ the last one takes 60,611 positions. The
fast pairs tell neighbouring positions apart, but repeat within a few tokens. The slow
pairs hardly change between neighbours, but tell the beginning of a sequence from its
end. Only together do they identify a position, just as the hands of a clock do ([drawn
below](#properties-of-the-sinusoids)). The cycles are a geometric sequence, from $2 \pi$
to nearly $10000 \cdot 2 \pi$, so that there are as many pairs for distances of tens of
tokens as of thousands; with evenly spaced frequencies almost all pairs would repeat
within a few dozen. The paper does not derive 10000: it has to be so large that the
slowest pairs do not repeat within a sequence.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | token embeddings |
| $p$ | `positions` | `[T]` | position of a token, counted from 0 |
| $\omega_i$ | `frequencies` | `[⌈C/2⌉]` | radians per position of feature pair $i$ |
| $PE$ | `encodings` | `[T, C]` | one vector per position |
| $C$ | `d_model` | | features per token |
| $T$, $B$ | | | length of the sequence, batch size |

</details>
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sizes


def get_positional_encoding(
    d_model: int,
    max_len: int = 5000,
    *,
    first: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "T 1 C"]:
    r"""
    ## Sinusoidal encoding

    * `d_model` is the number of features, $C$, even or odd
    * `max_len` is the number of positions, $T$
    * `first` is the first position
    * `dtype`, `device` are those of the result

    Returns `[T, 1, C]`; the axis of length one is the batch's.
    """
    check_sizes(d_model=d_model, max_len=max_len)

    # One frequency for each even feature, `[⌈C/2⌉]`, with
    # $10000^{-2i/C} = e^{-2i \ln(10000) / C}$.
    #
    # > [!WARNING]
    # > It is a common mistake to forget the division by $C$. With $C = 512$ only **2**
    # > features then vary by more than 0.01 within 1,000 positions, where 503 should:
    # > the second pair would need 628 million positions for a cycle. See [common
    # > mistakes](../../faults.md).
    even = torch.arange(0, d_model, 2, dtype=dtype, device=device)
    frequencies = torch.exp(-even * math.log(10000.0) / d_model)

    # The angle $\omega_i \, p$ of every pair at every position, `[T, ⌈C/2⌉]`.
    positions = torch.arange(first, first + max_len, dtype=dtype, device=device)
    angles = positions.unsqueeze(1) * frequencies

    # Even features are sines and odd features cosines. With an odd $C$ the last sine
    # has no cosine.
    encodings = torch.empty(max_len, d_model, dtype=dtype, device=device)
    encodings[:, 0::2] = torch.sin(angles)
    encodings[:, 1::2] = torch.cos(angles[:, : d_model // 2])
    return encodings.unsqueeze(1)


def fixed_positions(
    table: Float[Tensor, "max_len 1 C"], offset: int, length: int
) -> Float[Tensor, "T 1 C"]:
    r"""
    ### Encodings of a sequence

    * `table` is the result of `get_positional_encoding`, in any dtype
    * `offset` is the position of the first token
    * `length` is the number of tokens, $T$

    Returns the rows of the table, `[T, 1, C]`. The formula is defined for every
    position: rows beyond the end of the table are computed when they are needed.
    """
    end = offset + length
    if end <= table.shape[0]:
        return table[offset:end]

    # Computed in 32 bits and then rounded, as the table was: bfloat16 cannot even count
    # to 257.
    first = max(offset, table.shape[0])
    beyond = get_positional_encoding(
        table.shape[2], end - first, first=first, device=table.device
    )
    return torch.cat([table[offset:], beyond.to(table.dtype)])


class PositionalEncoding(nn.Module):
    r"""
    ## Sinusoidal positions as a module

    The same $PE_p$ is added in every sequence of the batch. In an encoder–decoder both
    stacks need one at their input, and both count their positions from 0. The layers
    above need none: the residual connections carry the sum upwards.

    The table is a **buffer**: it moves with the module from device to device and from
    dtype to dtype, but it is no parameter. No gradient is computed for it, the
    optimizer does not change it, and checkpoints do not contain it, since it can be
    recomputed.
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, dropout_prob: float, max_len: int = 5000) -> None:
        r"""
        * `d_model` is the number of features, $C$
        * `dropout_prob` is the dropout probability of the sum (§5.4: the paper applies
          dropout to the sums in both stacks)
        * `max_len` is the number of precomputed positions, and no limit
        """
        super().__init__()
        check_probability(dropout_prob=dropout_prob)
        self.dropout = nn.Dropout(dropout_prob)
        table = get_positional_encoding(d_model, max_len)
        self.register_buffer("positional_encodings", table, persistent=False)

    def reset_tables(self) -> None:
        """Computes the table again, after `to_empty` has left its memory as it was."""
        max_len, _, d_model = self.positional_encodings.shape
        self.positional_encodings.copy_(get_positional_encoding(d_model, max_len))

    def forward(
        self, x: Float[Tensor, "T B C"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        r"""
        `offset` is the position of the first vector of `x`: in generation, the number
        of tokens that came before. If it is forgotten, each new token stands at
        position 0: nothing raises an error, and the text gets worse. A test: outputs
        with a cache and without must be equal.
        """
        encodings = fixed_positions(self.positional_encodings, offset, x.shape[0])
        encoded: Tensor = self.dropout(x + encodings)
        return encoded


def learned_positions(
    table: Float[Tensor, "max_len 1 C"], offset: int, length: int
) -> Float[Tensor, "T 1 C"]:
    r"""
    ### Learned positions of a sequence

    Arguments and result are those of `fixed_positions`. There is no formula for the
    position after the last: a sequence that ends beyond the table is a `ValueError`.
    """
    max_len, end = table.shape[0], offset + length
    if end > max_len:
        raise ValueError(
            f"the sequence needs {end} positions, but only max_len = {max_len} were "
            f"learned; build the model with max_len={end}, or use fixed positions"
        )
    return table[offset:end]


class LearnedPositionalEncoding(nn.Module):
    r"""
    ## Learned positions

    Here $PE$ is a parameter: training finds a vector for each position, as in BERT and
    GPT-2. Vaswani et al. tried both and found "nearly identical results" (§3.5, Table
    3, row E); they chose sinusoids in the hope of extrapolation to longer sequences. A
    learned table costs $\text{max\_len} \cdot C$ parameters.

    Arguments and errors are those of `PositionalEncoding`, but `max_len` is the length
    of the longest sequence.
    """

    def __init__(self, d_model: int, dropout_prob: float, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, max_len=max_len)
        check_probability(dropout_prob=dropout_prob)
        self.dropout = nn.Dropout(dropout_prob)

        # There is no symmetry to break by random numbers, since every position receives
        # a gradient of its own.
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Float[Tensor, "T B C"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        "Arguments and result are those of `PositionalEncoding.forward`."
        encodings = learned_positions(self.positional_encodings, offset, x.shape[0])
        encoded: Tensor = self.dropout(x + encodings)
        return encoded


# ## Properties of the sinusoids
#
# **Clocks.** A pair of sine and cosine is a point on the unit circle, so we draw it as
# the hand of a clock. (The picture is ours and not the paper's.) A position is what all
# hands show together.
#
# ![Choose one of 12 pairs and a position: the waves of this pair, and the hands of all
# pairs.](figure:positional_encoding.clocks)
#
# **Size.** All values lie between $-1$ and $1$, at every position, and for an even $C$
# every $PE_p$ has the same length $\sqrt{C/2}$. The position's number itself, $0, 1, 2,
# \dots$, would outgrow the embedding; divided by the length of the sequence, it would
# give neighbours another distance in every sequence.
#
# **Width.** The encoding has $C$ features because it is added. Concatenation would need
# more features: the first projection computes $(x_p + PE_p) W = x_p W + PE_p W$, the
# same as a projection of the concatenation with $W$ in both halves. In $C$ dimensions
# the model can keep both apart, by storing them in nearly orthogonal directions.
# Embeddings are scaled by $\sqrt{C}$ before the sum (§3.4, without a reason); else the
# encoding, with a root mean square of $1 / \sqrt{2}$ at any width, would dominate them:
# an embedding drawn with variance $1 / C$ has 0.044 at $C = 512$, and 1 when it is
# scaled. The module here only adds; the [model](models.py) scales.
#
# ![Sine and cosine of two of the 32 pairs, $C = 64$.](figure:positional_encoding.waves)
#
# ![The encoding for $C = 8$: one row per feature, one column per
# position.](figure:positional_encoding.heat)
#
# **Shift.** Each pair has a sine *and* a cosine, because a shift of the position is
# then a rotation of the pair, the same for all $p$:
#
# $$
# \begin{pmatrix} PE_{p + k, 2i} \\ PE_{p + k, 2i + 1} \end{pmatrix} =
# \begin{pmatrix} \cos \omega_i k & \sin \omega_i k \\
#                -\sin \omega_i k & \cos \omega_i k \end{pmatrix}
# \begin{pmatrix} PE_{p, 2i} \\ PE_{p, 2i + 1} \end{pmatrix}
# $$
#
# So one matrix maps every $PE_p$ to $PE_{p + k}$. That this lets the model *easily
# learn to attend by relative positions* is the paper's hypothesis ("we hypothesized",
# §3.5), not a result.
#
# ![Heads that were set by hand: the query projection holds the rotation by 0, 1 or 4
# positions. Here they have all 32 features each, and the inputs are encodings without
# tokens.](figure:heads.by_hand)
#
# **Length.** The formula is defined for any position. That does not mean that a trained
# model works there: beyond its training lengths it meets combinations of angles, and
# distances, that it has never seen, and its loss soon rises. Press et al.
# ([-@press2021train]) measured how soon, and proposed a scheme that extrapolates.
#
# ## Try it
#
# Choose a length and a width and see the matrix, its dot products and its rotations.
# Then switch the positions of a trained model off.
#
# ![The loss of each character, with positions and
# without.](figure:live.positions)

# ## Relative schemes
#
# Sinusoids and learned vectors are **absolute**: they are added to the embeddings,
# once, and the layers above must derive distances from them. Later schemes put the
# *distance* between query $t$ and key $s$ into every attention layer.
#
# | Scheme | Learned | Score of query $t$ and key $s$ |
# |:--|:--|:--|
# | [@shaw2018self] | a vector per clipped distance | $q_t \cdot (k_s + a_{t-s})$ |
# | [@dai2019transformerxl] | $W$, $u$, $v$ | $(q_t + u) k_s + (q_t + v) W r_{t-s}$ |
# | T5 [@raffel2019exploring] | numbers $b$ per head | $q_t \cdot k_s + b_{t-s}$ |
# | ALiBi [@press2021train] | nothing | $q_t \cdot k_s - m_h (t - s)$ |
# | RoPE [@su2021roformer] | nothing | $R_t q_t \cdot R_s k_s$ |
# | none [@haviv2022transformer] | nothing | $q_t \cdot k_s$, causal mask |
#
# The factor $1 / \sqrt{d_k}$ is left out. $r$ are sinusoids of the distance, and $m_h$
# is a fixed slope for each head. T5 has one $b$ for a range of distances, and $R_p$
# rotates each pair of features by an angle proportional to $p$. All but the last make
# scores depend on $t - s$, so that a sequence moved by a hundred positions has the same
# scores. [Modern components](modern.py) has RoPE, and the [Feedback
# Transformer](feedback/__init__.py) a learned vector per distance. The last row works
# because a causal mask is not permutation equivariant: the number of visible keys
# reveals the position, and decoders learn to use it.
#
# ## Differences from the paper
#
# * **Odd widths.** The models of the paper have an even $C$. Here the last sine of an
#   odd width has no cosine.
# * **Precision.** The table is computed in 32 bits, as in version 0.5.1 of this
#   package, so that models trained with it see the encodings they know. With $C = 512$
#   the largest error is $7 \cdot 10^{-6}$ in the first 128 positions and $4 \cdot
#   10^{-4}$ in the first 5,000; `dtype=torch.float64` gives the exact formula.
#
# ## Pseudo-code
#
# $$\begin{array}{l}
# \textbf{procedure } \text{PositionalEncoding}(x) \\
# \quad \textbf{for } 0 \le p < T \textbf{ and } 0 \le 2i < C \\
# \quad\quad \omega_i \gets 10000^{-2i/C} \\
# \quad\quad PE_{p, 2i}, PE_{p, 2i + 1} \gets \sin(\omega_i p), \cos(\omega_i p) \\
# \quad \textbf{return } \operatorname{Dropout}(x + PE)
# \end{array}$$
#
# | Tensor | Shape | Kind |
# |:--|:--|:--|
# | `positional_encodings`, sinusoidal | `[max_len, 1, C]` | buffer, not saved |
# | `positional_encodings`, learned | `[max_len, 1, C]` | parameter |
# | $x$, $x + PE$ | `[T, B, C]` | activations |
#
# ## Exercises
#
# **1.** Show that the dot product of $PE_p$ and $PE_{p + k}$ depends on the distance
# $k$ and not on $p$ (for an even $C$). Can it tell before from after?
#
# <details><summary>Answer</summary>
#
# Each pair contributes $\cos \omega_i k$, so the dot product is $\sum_i \cos \omega_i
# k$, with its maximum $C / 2$ at $k = 0$. It falls with the distance on the whole, but
# not steadily, because each cosine oscillates. It is the same for $k$ and $-k$: without
# projections it cannot tell before from after.
#
# ![Dot products of one position with all others, $C =
# 128$.](figure:positional_encoding.products)
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
# **2.** Why do learned positions not extrapolate, even if `max_len` is large enough?
#
# <details><summary>Answer</summary>
#
# A row receives a gradient only from sequences that are long enough to reach it. After
# training with 128 tokens the rows from 128 on are still the zeros of initialisation.
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
#
# **3.** Self-attention without a mask treats a sequence as a set. Show that positional
# encodings end this.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
# from labml_nn.transformers.positional_encoding import PositionalEncoding
#
# attention = MultiHeadAttention(heads=3, d_model=12).eval()
# x, order = torch.randn(7, 2, 12), torch.tensor([3, 0, 6, 1, 5, 2, 4])
# for encode, is_set in ((torch.clone, True), (PositionalEncoding(12, 0.0), False)):
#     shuffled, whole = (
#         attention(query=y, key=y, value=y) for y in (encode(x[order]), encode(x))
#     )
#     assert torch.allclose(shuffled, whole[order], atol=1e-3) == is_set
# ```
#
# </details>
