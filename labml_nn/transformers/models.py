r"""
---
title: Encoder and decoder
summary: >
  The Transformer itself. Attention and feed-forward networks become a layer, layers
  become an encoder and a decoder, and the two together translate one sequence into
  another.
paper: https://arxiv.org/abs/1706.03762
---

The Transformer ([@vaswani2017attention, §3]) reads one sequence and writes another:
German in, English out; a question in, an answer out. It has two halves. The **encoder**
is a stack of layers over the source, and every position may look at every other. The
**decoder** is a stack over the target whose layers also attend to the encoder's result.
It writes token after token, so it must not peek at those to come: in training, when the
whole target is there at once, a mask hides them. [The stacks](stacks.py) have a page of
their own; here they come together.

![A model like the paper's base, but with three tables of tokens; and the work for two
sentences of 32 tokens.](figure:counts.encoder_decoder)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | the rows: one vector for each position and sequence |
| $m$ | `memory` | `[S, B, C]` | the encoder's result, read by the decoder |
| $M$ | `src_mask`, `tgt_mask` | `[T\|1, S, B\|1]` | who may see whom; `None`: all |
| $S$, $T$ | | | length of the source and of the target |
| $V$, $C$ | `n_vocab`, `d_model` | | vocabulary, features |
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_features, check_sizes
from labml_nn.transformers.embeddings import (
    EmbeddingsWithLearnedPositionalEncoding,
    EmbeddingsWithPositionalEncoding,
)
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.stacks import Decoder, Encoder

# The layer, the stacks and the embeddings have pages of their own; code written for
# version 0.5.1 imports them from here, and still can.
__all__ = [
    "Decoder",
    "EmbeddingsWithLearnedPositionalEncoding",
    "EmbeddingsWithPositionalEncoding",
    "Encoder",
    "EncoderDecoder",
    "Generator",
    "TransformerLayer",
]


class Generator(nn.Module):
    r"""
    ## Generator: from rows to logits

    One score per token of the vocabulary, for every position: $x W^\top + b$. They are
    logits, not yet logarithms of probabilities; `torch.nn.CrossEntropyLoss` wants them
    so, and `LabelSmoothingLoss` wants their `log_softmax`.
    """

    def __init__(self, n_vocab: int, d_model: int) -> None:
        r"""
        * `n_vocab` is the number of tokens, $V$
        * `d_model` is the number of features, $C$
        """
        super().__init__()
        check_sizes(n_vocab=n_vocab, d_model=d_model)
        self.projection = nn.Linear(d_model, n_vocab)

    def forward(self, x: Float[Tensor, "*T C"]) -> Float[Tensor, "*T V"]:
        r"""
        `x` has any shape that ends in $C$; the result ends in $V$ instead. Raises
        `ValueError` for another width and `TypeError` for another dtype.
        """
        check_features("x", x, self.projection.in_features, self.projection.weight)
        logits: Tensor = self.projection(x)
        return logits


class EncoderDecoder(nn.Module):
    r"""
    ## The whole model

    Training calls `logits` once for all positions of the target ("teacher forcing"):
    the mask lets position $t$ see the true tokens up to $t$, and from them it predicts
    token $t + 1$. Writing calls `encode` once and then `decode` for each new token.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ) -> None:
        r"""
        * `encoder` and `decoder` are the two stacks
        * `src_embed` and `tgt_embed` make vectors `[T, B, C]` of tokens `[T, B]`
        * `generator` makes logits of the decoder's result
        """
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator

        # All matrices start after [@glorot2010understanding], uniform with variance
        # $2 / (\text{fan}_{in} + \text{fan}_{out})$. A layer then neither swells nor
        # shrinks what passes through it, forwards or backwards. A learned table of
        # positions is drawn too, and starts close to zero.
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### As far as the decoder

        The call of version 0.5.1, which stops before the generator.

        * `src` and `tgt` are tokens, `[S, B]` and `[T, B]`
        * `src_mask` hides padding in the source, `[1, S, B]`. It serves the encoder,
          with $S$ queries, and the decoder, with $T$, so its first axis is 1
        * `tgt_mask` hides what comes later, `[T, T, 1]`, and padding, `[T, T, B]`

        Returns the decoder's rows, `[T, B, C]`. Raises `ValueError` or `TypeError` for
        shapes, dtypes and tokens that do not fit.
        """
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)

    def logits(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B V"]:
        r"""
        ### All the way

        Arguments and errors are those of `forward`. Returns logits, `[T, B, V]`:
        position $t$ scores what may follow `tgt[: t + 1]`.
        """
        logits: Tensor = self.generator(self(src, tgt, src_mask, tgt_mask))
        return logits

    def encode(
        self, src: Int[Tensor, "S B"], src_mask: Bool[Tensor, "#S S #B"] | None
    ) -> Float[Tensor, "S B C"]:
        """Read the source: tokens `[S, B]` become the memory, `[S, B, C]`."""
        encoded: Tensor = self.encoder(self.src_embed(src), src_mask)
        return encoded

    def decode(
        self,
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T S #B"] | None,
        tgt: Int[Tensor, "T B"],
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        """Read the target so far, and the memory; return the target's `[T, B, C]`."""
        embedded = self.tgt_embed(tgt)
        decoded: Tensor = self.decoder(embedded, memory, src_mask, tgt_mask)
        return decoded


# ## Putting it together
#
# The base model of the paper (§3.1 to §3.4, Table 3): six layers on each side, 512
# features, eight heads, and one matrix for both embeddings and the generator. On the
# device `meta` tensors have shapes and no numbers, so there is nothing to wait for.
#
# ```python
# import torch
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.mha import MultiHeadAttention
# from labml_nn.transformers.models import (
#     Decoder,
#     EmbeddingsWithPositionalEncoding,
#     Encoder,
#     EncoderDecoder,
#     Generator,
#     TransformerLayer,
# )
#
# def attention():
#     return MultiHeadAttention(heads=8, d_model=512, dropout_prob=0.1)
#
# def layer(src_attn=None):
#     return TransformerLayer(
#         d_model=512,
#         self_attn=attention(),
#         src_attn=src_attn,
#         feed_forward=FeedForward(d_model=512, d_ff=2048, dropout=0.1),
#         dropout_prob=0.1,
#     )
#
# with torch.device("meta"):
#     model = EncoderDecoder(
#         Encoder(layer(), n_layers=6),
#         Decoder(layer(attention()), n_layers=6),
#         EmbeddingsWithPositionalEncoding(512, n_vocab=37_000),
#         EmbeddingsWithPositionalEncoding(512, n_vocab=37_000),
#         Generator(n_vocab=37_000, d_model=512),
#     )
# assert sum(p.numel() for p in model.parameters()) == 101_009_544
#
# matrix = model.generator.projection.weight
# model.src_embed.linear.weight = model.tgt_embed.linear.weight = matrix
# assert sum(p.numel() for p in model.parameters()) == 63_121_544
# ```
#
# A row of the matrix is now used in two ways: as the vector of a token that is read,
# and as the direction in which the decoder must point to write it.
#
# ## Differences from the paper
#
# * **Pre-norm**, with one normalisation after each stack; see `TransformerLayer`.
# * **No matrix is shared** between the embeddings and the generator (§3.4) unless you
#   join them, as above. Version 0.5.1 shares none.
# * **A softmax** belongs to the loss here, not to the model: the generator ends in
#   logits.
#
# ## Exercises
#
# **1.** Where do the 63,121,544 parameters of the model above lie? Find a formula for
# any $L$, $C$ and $V$, with $F = 4C$. Table 3 of the paper says 65 million for this
# model and 213 million for the big one, which has $C = 1024$ and 16 heads. How close do
# you come?
#
# <details><summary>Answer</summary>
#
# A layer of the encoder has $12 C^2 + 13 C$ and one of the decoder $16 C^2 + 19 C$, as
# counted in the exercises of [the layer](layer.py). There are $L$ of each, two last
# norms of $2C$, the shared matrix $V C$ and the biases of the generator, $V$:
#
# $$L \, (28 C^2 + 32 C) + 4 C + V C + V$$
#
# The number of heads does not appear: they share the width. The two counts are 3 %
# below and 1 % above the table, which does not say what it counts, or with which
# vocabulary; "about 37000" tokens is all there is (§5.1).
#
# ```python
# import torch
# from labml_nn.transformers import Decoder, Encoder, EncoderDecoder, Generator
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
#
# def formula(L, C, V):
#     return L * (28 * C**2 + 32 * C) + 4 * C + V * C + V
#
# def counted(L, C, V, heads):
#     def layer(src_attn=None):
#         return TransformerLayer(
#             d_model=C,
#             self_attn=MultiHeadAttention(heads, C),
#             src_attn=src_attn,
#             feed_forward=FeedForward(C, 4 * C),
#             dropout_prob=0.1,
#         )
#
#     def embed():
#         return EmbeddingsWithPositionalEncoding(C, V, max_len=1)
#
#     with torch.device("meta"):
#         stacks = Encoder(layer(), L), Decoder(layer(MultiHeadAttention(heads, C)), L)
#         model = EncoderDecoder(*stacks, embed(), embed(), Generator(V, C))
#     matrix = model.generator.projection.weight
#     model.src_embed.linear.weight = model.tgt_embed.linear.weight = matrix
#     return sum(p.numel() for p in model.parameters())
#
# assert formula(6, 512, 37_000) == counted(6, 512, 37_000, heads=8) == 63_121_544
# assert formula(6, 1024, 37_000) == counted(6, 1024, 37_000, heads=16) == 214_286_472
# ```
#
# </details>
#
# **2.** Teach a small model to turn sequences of four digits round, and let it write:
# greedily, one token at a time, starting from a token that means "begin".
#
# <details><summary>Answer</summary>
#
# The target goes in shifted by one: to predict digit $t$ the decoder reads "begin" and
# the digits before it. Writing does for one token after the other what training does
# for all at once. Here it computes all rows anew for each token; `Decoder.extend` keeps
# keys and values instead.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers import Decoder, Encoder, EncoderDecoder, Generator
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
# from labml_nn.transformers.utils import subsequent_mask
#
# def layer(decoder):
#     return TransformerLayer(
#         d_model=32,
#         self_attn=MultiHeadAttention(4, 32, 0.0),
#         src_attn=MultiHeadAttention(4, 32, 0.0) if decoder else None,
#         feed_forward=FeedForward(32, 64, 0.0),
#         dropout_prob=0.0,
#     )
#
# def embed():
#     return EmbeddingsWithPositionalEncoding(32, n_vocab=11)
#
# stacks = Encoder(layer(decoder=False), 1), Decoder(layer(decoder=True), 1)
# model = EncoderDecoder(*stacks, embed(), embed(), Generator(11, 32))
# optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
# BEGIN = torch.full((1, 64), 10)
#
# for _ in range(80):
#     src = torch.randint(10, (4, 64))
#     tgt = src.flip(0)
#     shifted = torch.cat([BEGIN, tgt[:-1]])
#     logits = model.logits(src, shifted, None, subsequent_mask(4))
#     loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt.flatten())
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# @torch.no_grad()
# def write(model, src, length):
#     memory, text = model.encode(src, None), BEGIN
#     for _ in range(length):
#         rows = model.decode(memory, None, text, subsequent_mask(len(text)))
#         best = model.generator(rows[-1]).argmax(-1)
#         text = torch.cat([text, best[None]])
#     return text[1:]
#
# src = torch.randint(10, (4, 64))
# right = write(model.eval(), src, 4) == src.flip(0)
# assert right.float().mean() > 0.8  # by chance it would be 0.1
# ```
#
# </details>
#
# **3.** Make a language model of an `Encoder`: one that predicts the next token of its
# own input. Which loss do you expect before any training, and why check it?
#
# <details><summary>Answer</summary>
#
# Hide the future, and put a generator on top. A model that knows nothing should find
# all $V$ tokens about equally likely, which costs $\ln V$ nats. Much more than that
# means that it starts with wrong opinions, and has to unlearn them first.
#
# ```python
# import math
# import torch
# from torch import nn
# from labml_nn.transformers import Encoder, Generator
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
# from labml_nn.transformers.utils import subsequent_mask
#
# layer = TransformerLayer(
#     d_model=64,
#     self_attn=MultiHeadAttention(heads=4, d_model=64),
#     feed_forward=FeedForward(d_model=64, d_ff=256),
#     dropout_prob=0.1,
# )
# embed = EmbeddingsWithPositionalEncoding(64, n_vocab=65)
# encoder, generator = Encoder(layer, n_layers=3), Generator(65, 64)
#
# text = torch.randint(65, (33, 8))
# rows = encoder(embed(text[:-1]), subsequent_mask(32))
# logits = generator(rows)
# loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[1:].flatten())
# assert math.log(65) < loss < math.log(65) + 0.5
# ```
#
# A normalised row has 64 features of variance 1, and the weights of `nn.Linear` the
# variance $1 / (3 \cdot 64)$. So logits have a variance of $1/3$, and that costs about
# half as much, $1/6$, beyond $\ln 65 = 4.17$.
#
# </details>
