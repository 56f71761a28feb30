r"""
---
title: Distances in a feedback memory
summary: >
  What it means for a row of memory to lie three steps back: parameters for each
  distance, and what they add to the scores of attention.
paper: https://arxiv.org/abs/2002.09402
---

*The dog that chased the cat ran off.* Who ran off? Counted from the start of the text,
the answer stands at place 1 of this sentence, or at place 7,301 of a book. Counted back
from *ran* it is five words, wherever the sentence stands. Distance is what a sentence
is made of, so a feedback transformer has no positions, only distances: it asks how many
steps ago a row of memory was written ([@fan2020feedback, "Relative Positional
Embeddings"]).

Every head has two parameters for each distance $d$: a vector $E_d$ that a query can
look for, and a number $b_d$ that makes the distance more or less welcome to all
queries. To the score of row $j$, with $S$ rows in memory, they add

$$q^\top E_d + b_d, \qquad d = S - j$$

Two more terms of the score depend on what the row *says*, and
[attention](attention.py) has all four.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $q$ | `query` | `[B, H, K]` | what each head looks for |
| $E_d$ | `embeddings` | `[S, H, K]` | what distance $d$ offers to a query |
| $b_d$ | `bias` | `[S, H]` | what distance $d$ is worth to all |
| $S$ | `length` | | rows in memory |
| $P$ | | | rows of the tables: distances with parameters of their own |
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class RelativePositions(NamedTuple):
    r"""
    ## What each distance means

    Row $j$ of $S$ rows lies $d = S - j$ steps back; the last one is at distance 1.

    * `embeddings` holds $E_d$, of shape `[S, H, K]`
    * `bias` holds $b_d$, of shape `[S, H]`
    """

    embeddings: Float[Tensor, "S H K"]
    bias: Float[Tensor, "S H"]

    @staticmethod
    def look_up(
        embeddings: Float[Tensor, "P H K"], bias: Float[Tensor, "P H"], length: int
    ) -> "RelativePositions":
        r"""
        ### Out of a table that ends with distance 1

        A memory of $S$ rows takes the last $S$ rows of the table, a view of it.

        A table has an end, and a memory may be longer. Farther back than $P$ steps a
        row is treated like the farthest one that has parameters. The model knows
        nothing better, and "very long ago" is a fair thing to say about it.

        * `embeddings` and `bias` are the tables, of $P$ rows
        * `length` is $S$, 0 or more

        Returns the parameters of distances $S, \dots, 2, 1$.
        """
        first = embeddings.shape[0] - length
        if first >= 0:
            return RelativePositions(embeddings[first:], bias[first:])

        # Row 0 is the farthest distance; all that lie beyond it point there too.
        rows = torch.arange(first, embeddings.shape[0], device=bias.device)
        rows = rows.clamp(min=0)
        return RelativePositions(embeddings[rows], bias[rows])

    def last(self, length: int) -> "RelativePositions":
        r"""
        The nearest `length` distances, for a memory that is still that short.
        """
        first = self.embeddings.shape[0] - length
        return RelativePositions(self.embeddings[first:], self.bias[first:])

    def scores(self, query: Float[Tensor, "B H K"]) -> Float[Tensor, "S B H"]:
        r"""
        ### What distance alone contributes

        $q^\top E_d + b_d$ for each row, sequence and head. The row itself is not asked,
        so that this is the same however the rest of the score is computed.
        """
        by_query = torch.einsum("bhk,shk->sbh", query, self.embeddings)
        return by_query + self.bias.unsqueeze(1)


# ## Differences from the paper
#
# * **A number for each distance.** In
#   [the authors' code](https://github.com/facebookresearch/transformer-sequential) a
#   distance has a vector and no $b_d$, and one table serves all heads and layers. Here
#   every head of every layer has its own.
# * **Beyond the table.** Their memory is never longer than their table.
#
# ## Exercises
#
# **1.** How many steps back can a model look whose table has two rows?
#
# <details><summary>Answer</summary>
#
# As far as its memory goes. It can tell "one step ago" from "earlier", and nothing
# else: all earlier rows share one vector and one number.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.positions import RelativePositions
#
# embeddings, bias = torch.randn(2, 1, 4), torch.randn(2, 1)
# positions = RelativePositions.look_up(embeddings, bias, length=5)
# scores = positions.scores(torch.randn(1, 1, 4)).flatten()
# assert scores[:4].unique().numel() == 1
# assert scores[4] != scores[3]
# ```
#
# </details>
#
# **2.** Choose $b_d$ so that each step back halves the weight of a row.
#
# <details><summary>Answer</summary>
#
# A softmax turns sums into products: $b_d = -d \ln 2$ makes weights $2^{-d}$, before
# they are normalised. Attention divides all scores by $\sqrt{K}$ first, so $b_d$ has to
# be as much larger; here $K = 4$.
#
# ```python
# import math
# import torch
# from labml_nn.transformers.feedback.attention import FeedbackAttention
#
# attention = FeedbackAttention(1, 4, max_distance=6, store_attn=True)
# distance = torch.arange(6, 0, -1)  # the table ends with distance 1
# with torch.no_grad():
#     attention.key_pos_bias.copy_(-distance[:, None] * math.log(2) * math.sqrt(4))
# memory = torch.zeros(6, 1, 4)  # all rows say the same
# attention(query=torch.randn(1, 4), key=memory, value=memory)
# weights = attention.attn.flatten()
# assert torch.allclose(weights[1:] / weights[:-1], torch.full((5,), 2.0))
# ```
#
# Press et al. ([-@press2021train]) give every head such a slope, fixed instead of
# learned.
#
# </details>
#
# **3.** `look_up` is called once for a whole text, and `last` at each step. Why not
# call `look_up` at each step?
#
# <details><summary>Answer</summary>
#
# Both are views, and going forwards it makes no difference. Going backwards it does:
# the gradient of each view of a table is a tensor as large as the table, of zeros but
# for the rows that were used. With $P = 4096$ that is 4096 rows per step and layer. A
# view of a view hands its gradient to the short one first, which has as many rows as
# the memory can have, and that one is widened to the table once.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.positions import RelativePositions
#
# table, bias = torch.zeros(4096, 1, 4, requires_grad=True), torch.zeros(4096, 1)
# once = RelativePositions.look_up(table, bias, length=10)
# assert once.last(3).embeddings._base is table  # memory is shared all the way
# once.last(3).embeddings.sum().backward()
# assert table.grad[:-3].count_nonzero() == 0
# assert (table.grad[-3:] == 1).all()
# ```
#
# </details>
