r"""
---
title: Embeddings
summary: >
  Where tokens become vectors. Each token of the vocabulary has a learned vector, and
  each position adds one of its own.
paper: https://arxiv.org/abs/1706.03762
---

A model of language computes with vectors; a text is a row of numbers that stand for
words or letters. The bridge is a table with one row per token of the vocabulary. To
embed a text is to look its rows up. The rows are parameters: training moves tokens that
are used alike to places that are alike.

Looking up says *what* each token is. *Where* it stands is added as a second vector,
which comes from a formula or from training. [Positional
encodings](positional_encoding.py) has both, and explains why.

$$x_p = \sqrt{C} \; E_{w_p} + PE_p$$

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `x`, the argument | `[T, B]` | tokens, from 0 to $V - 1$ |
| $E$ | `linear.weight` | `[V, C]` | one vector per token |
| $PE$ | `positional_encodings` | `[max_len, 1, C]` | one vector per position |
| $V$, $C$ | `n_vocab`, `d_model` | | size of the vocabulary, features per token |
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_sizes, check_tokens
from labml_nn.transformers.positional_encoding import (
    fixed_positions,
    get_positional_encoding,
    learned_positions,
)


class EmbeddingsWithPositionalEncoding(nn.Module):
    r"""
    ## Tokens, at fixed positions

    The factor $\sqrt{C}$ ([@vaswani2017attention, §3.4]) keeps tokens and positions of
    comparable size. A sinusoid varies with a root mean square of $1 / \sqrt{2}$,
    whatever the width. The table of an `EncoderDecoder`, initialised after Glorot, has
    entries of $\sqrt{2 / (V + C)}$: with 10,000 tokens and 512 features that is 0.014,
    and without the factor, which makes it 0.31, the position would drown the token.
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        r"""
        * `d_model` is the number of features per token, $C$
        * `n_vocab` is the number of tokens in the vocabulary, $V$
        * `max_len` is the length of the table of positions; longer sequences work too
        """
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)

        # The name `linear` is as old as the checkpoints: looking a token up is the same
        # as multiplying a one-hot vector with a matrix.
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model

        # Checkpoints of this class have always held the table, so this one does.
        table = get_positional_encoding(d_model, max_len)
        self.register_buffer("positional_encodings", table)

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        r"""
        * `x` holds tokens, of shape `[T, B]`
        * `offset` is the position of the first of them, for text that comes in pieces

        Returns vectors of shape `[T, B, C]`. Raises `TypeError` for tokens that are not
        integers; `ValueError` for another shape, an empty sequence, a token outside the
        vocabulary, or a negative offset.
        """
        embedded = _embed(self.linear, x)
        return embedded + fixed_positions(self.positional_encodings, offset, x.shape[0])


class EmbeddingsWithLearnedPositionalEncoding(nn.Module):
    r"""
    ## Tokens, at learned positions

    The same sum with a table of positions that is trained, and therefore ends.
    """

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        r"""
        * `d_model` and `n_vocab` are those of `EmbeddingsWithPositionalEncoding`
        * `max_len` is the number of positions that can be learned, and the longest
          sequence
        """
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        r"""
        Arguments, result and errors are those of
        `EmbeddingsWithPositionalEncoding.forward`; besides, a sequence that goes on
        after `max_len` is a `ValueError`.
        """
        embedded = _embed(self.linear, x)
        return embedded + learned_positions(
            self.positional_encodings, offset, x.shape[0]
        )


# Both embeddings look up and scale in the same way, and refuse the same mistakes. One
# of them was silent before: a single sequence `[T]`, met by positions `[T, 1, C]`, made
# `[T, T, C]`, a batch of $T$ strange texts.
def _embed(table: nn.Embedding, tokens: Tensor) -> Tensor:
    check_tokens(tokens, table.num_embeddings, name="x")
    embedded: Tensor = table(tokens)
    return embedded * math.sqrt(table.embedding_dim)


# ## Differences from the paper
#
# * **Dropout.** The paper drops features of the sum (§5.4); these two classes, like
#   those of version 0.5.1, do not. `PositionalEncoding` does.
# * **Sharing.** The paper uses one matrix for source, target and output (§3.4). Here
#   each has its own until you join them; the exercises of [the models](models.py) show
#   how.
#
# ## Exercises
#
# **1.** Looking a token up is the same as multiplying a one-hot vector with the table.
# Show it, for the result and for the gradient. Why does nobody do it?
#
# <details><summary>Answer</summary>
#
# The product costs $V C$ multiplications per token, all but $C$ of them with zero. The
# gradient shows what it means to share a table: only rows of tokens that were read are
# moved, and a token that was read twice collects from both places.
#
# ```python
# import torch
# from torch.nn import functional as F
# from labml_nn.transformers.embeddings import EmbeddingsWithPositionalEncoding
#
# embed = EmbeddingsWithPositionalEncoding(d_model=12, n_vocab=7)
# tokens = torch.tensor([[2], [5], [2]])  # [T, B]
# x = embed(tokens)
#
# one_hot = F.one_hot(tokens, 7).float()  # [T, B, V]
# table = embed.linear.weight
# product = 12**0.5 * one_hot @ table + embed.positional_encodings[:3]
# torch.testing.assert_close(x, product)
#
# (looked_up,) = torch.autograd.grad(x.sum(), table)
# (multiplied,) = torch.autograd.grad(product.sum(), table)
# torch.testing.assert_close(looked_up, multiplied)
# counts = torch.tensor([0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0])
# torch.testing.assert_close(looked_up, 12**0.5 * counts[:, None].expand(7, 12))
# ```
#
# </details>
#
# **2.** Used alone, `nn.Embedding` draws its entries from a normal distribution of
# variance 1. How large are tokens beside positions at the start of training, with
# $C = 512$?
#
# <details><summary>Answer</summary>
#
# An entry has a root mean square of $\sqrt{512} \approx 22.6$, a sinusoid $0.71$: the
# tokens are 32 times as large. A model that starts like this first has to find out that
# order matters. With entries of variance $1 / C$ the two are of comparable size:
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.embeddings import EmbeddingsWithPositionalEncoding
#
# embed = EmbeddingsWithPositionalEncoding(d_model=512, n_vocab=1000)
# tokens = torch.randint(1000, (100, 1))
# positions = embed.positional_encodings[:100]
#
# def ratio():
#     words = embed(tokens) - positions
#     return words.square().mean().sqrt() / positions.square().mean().sqrt()
#
# assert abs(ratio() - 32) < 1
# nn.init.normal_(embed.linear.weight, std=512**-0.5)
# assert abs(ratio() - 2**0.5) < 0.1
# ```
#
# </details>
#
# **3.** The paper uses the table a second time, as the matrix of the generator. Which
# variance of its entries suits both uses, and what has the factor $\sqrt{C}$ to do with
# it? What does a model lose at the start whose table has variance 1?
#
# <details><summary>Answer</summary>
#
# The logit of a token is the product of its row with a normalised row of the decoder,
# of length $\sqrt{C}$. Entries of variance $1 / C$ make logits of variance 1. Looked up
# as they are, such rows would be a tiny start; the factor gives them variance 1, and
# one matrix does for both. With entries of variance 1 the logits have variance $C$, and
# the untrained model is sure of something, nearly always wrong:
#
# ```python
# import math
# import torch
# from torch import nn
# from labml_nn.transformers.embeddings import EmbeddingsWithPositionalEncoding
#
# V, C = 1000, 512
# embed = EmbeddingsWithPositionalEncoding(C, V)
# rows = nn.functional.layer_norm(torch.randn(200, C), (C,))
# targets = torch.randint(V, (200,))
#
# def loss_and_size(std):
#     nn.init.normal_(embed.linear.weight, std=std)
#     logits = rows @ embed.linear.weight.T
#     words = embed(targets[:, None]) - embed.positional_encodings[:200]
#     return nn.functional.cross_entropy(logits, targets), words.std()
#
# loss, size = loss_and_size(C**-0.5)
# assert abs(size - 1) < 0.05
# assert math.log(V) < loss < math.log(V) + 1  # 7.4 beside 6.9
# loss, size = loss_and_size(1.0)
# assert loss > 50
# ```
#
# </details>
