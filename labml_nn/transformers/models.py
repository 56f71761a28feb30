r"""
---
title: Encoder and decoder
summary: >
  The Transformer itself. Attention and feed-forward networks become a layer, layers
  become an encoder and a decoder, and the two together translate one sequence into
  another.
paper: https://arxiv.org/abs/1706.03762
---

The Transformer (Vaswani et al. 2017, §3) reads one sequence and writes another: German
in, English out; a question in, an answer out. It has two halves. The **encoder** is a
stack of layers over the source, and every position may look at every other. The
**decoder** is a stack over the target whose layers also attend to the encoder's result.
It writes token after token, so it must not peek at those to come: in training, when the
whole target is there at once, a mask hides them. [The stacks](stacks.py) have a page of
their own; here they come together.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | the rows: one vector for each position and sequence |
| $m$ | `memory` | `[S, B, C]` | the encoder's result, read by the decoder |
| $M$ | `mask`, `src_mask` | `[T\|1, S, B\|1]` | who may attend to whom; `None`: all |
| $S$, $T$ | | | length of the source and of the target |
| $V$, $C$, $L$ | `n_vocab`, `d_model`, `n_layers` | | vocabulary, features, layers |
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

        # All matrices start after Glorot and Bengio (2010), uniform with variance
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
# The base model of the paper (Table 3): six layers on each side, 512 features, eight
# heads.
#
# ```python
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
# model = EncoderDecoder(
#     Encoder(layer(), n_layers=6),
#     Decoder(layer(attention()), n_layers=6),
#     EmbeddingsWithPositionalEncoding(512, n_vocab=37_000),
#     EmbeddingsWithPositionalEncoding(512, n_vocab=37_000),
#     Generator(n_vocab=37_000, d_model=512),
# )
# ```
#
# ## Differences from the paper
#
# * **Pre-norm**, with one normalisation after each stack; see `TransformerLayer`.
# * **No matrix is shared** between the embeddings and the generator (§3.4), as in
#   version 0.5.1; the first exercise shares them.
# * **A softmax** belongs to the loss here, not to the model: the generator ends in
#   logits.
#
# ## Exercises
#
# **1.** The paper uses one matrix for both embeddings and the generator. Do so with the
# model above, and count parameters: Table 3 says 65 million.
#
# <details><summary>Answer</summary>
#
# ```python
# model.src_embed.linear.weight = model.generator.projection.weight
# model.tgt_embed.linear.weight = model.generator.projection.weight
# print(sum(p.numel() for p in model.parameters()))
# ```
#
# It prints 63,121,544; untied there are 101,009,544. One row of the matrix is now used
# in two ways: as the vector of a token that is read, and as the direction in which the
# decoder must point to write it.
#
# </details>
#
# **2.** Let the model write: greedily, one token at a time, starting from the token
# `1`.
#
# <details><summary>Answer</summary>
#
# ```python
# @torch.no_grad()
# def write(model, src, length):
#     memory = model.encode(src, None)
#     tgt = src.new_ones(1, src.shape[1])
#     for _ in range(length):
#         rows = model.decode(memory, None, tgt, subsequent_mask(len(tgt)))
#         best = model.generator(rows[-1]).argmax(-1)
#         tgt = torch.cat([tgt, best[None]])
#     return tgt
# ```
#
# Call `model.eval()` first, or dropout makes every attempt a different one. The loop
# computes all rows again for each token; a cache of keys and values would save that.
#
# </details>
#
# **3.** Make a language model of an `Encoder`: one that predicts the next token of its
# own input.
#
# <details><summary>Answer</summary>
#
# Hide the future, and put a generator on top:
#
# ```python
# rows = encoder(embed(tokens), subsequent_mask(len(tokens)))
# logits = generator(rows)
# ```
#
# </details>
