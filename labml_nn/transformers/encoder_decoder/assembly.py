r"""
---
title: The parts of a model that replies
summary: >
  Two stacks, two embeddings and a map to the vocabulary, put together as a
  configuration says; and how long the vectors of tokens may be before training.
paper: https://arxiv.org/abs/1706.03762
---

All the parts have pages of their own; here they meet. Three decisions are left, and
each is a field of the [configuration](config.py): where positions come from, in which
order a layer normalises, and whether a token has one vector for all its uses.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $y$ | `tokens` | `[T, B]` | tokens of what was said, or of the reply |
| $E$ | `generator.projection.weight` | `[V, C]` | one vector per token; $e$ is a row |
| $PE$ | `positions.positional_encodings` | `[max_len, 1, C]` | one per position |
| $\sigma$ | | | standard deviation of the numbers in $E$ at the start |
"""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.transformers.encoder_decoder.config import EncoderDecoderConfig
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import EncoderDecoder, Generator
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
)
from labml_nn.transformers.stacks import Decoder, Encoder


class PlacedTokens(nn.Module):
    r"""
    ## Tokens become vectors, and get their places

    $$\operatorname{Dropout}\big(\sqrt{C} \, E_{y_t} + PE_t\big)$$

    That is §3.4, §3.5 and §5.4 of the paper in one line.
    """

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        table = (
            PositionalEncoding
            if config.positions == "sinusoidal"
            else LearnedPositionalEncoding
        )
        self.tokens = nn.Embedding(config.n_vocab, config.d_model)
        self.positions = table(config.d_model, config.dropout_prob, config.max_len)

    def forward(
        self,
        tokens: Int[Tensor, "T B"],
        positions: Int[Tensor, "T #B"] | None = None,
    ) -> Float[Tensor, "T B C"]:
        """
        * `tokens` have shape `[T, B]`
        * `positions` are their places, `[T, B|1]`. A source does without: its places
          are 0, 1, 2, …, as many as it has. In a reply padding takes no place, and a
          [window](../window.py) that has slid begins at 0 again

        Returns vectors, `[T, B, C]`.
        """
        vectors: Tensor = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        if positions is None:
            placed: Tensor = self.positions(vectors)
        else:
            rows = self.positions.positional_encodings[positions].squeeze(2)
            placed = self.positions.dropout(vectors + rows)
        return placed


# ## One layer, of either side
#
# A decoder's layer asks the source between its two other parts.
def _layer(
    config: EncoderDecoderConfig, *, reads_source: bool = False
) -> TransformerLayer:
    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(config.heads, config.d_model, config.dropout_prob)

    return TransformerLayer(
        d_model=config.d_model,
        self_attn=attention(),
        src_attn=attention() if reads_source else None,
        feed_forward=FeedForward(
            config.d_model, config.feed_forward_size, config.dropout_prob
        ),
        dropout_prob=config.dropout_prob,
        norm_first=config.norm_first,
    )


def assemble(config: EncoderDecoderConfig) -> EncoderDecoder:
    """
    ## All together

    Returns an [`EncoderDecoder`](../models.py), ready to be trained.
    """
    read, written = PlacedTokens(config), PlacedTokens(config)
    generator = Generator(config.n_vocab, config.d_model)

    # One matrix in three places (§3.4): a token is read, on either side, by the same
    # vector to which the decoder must point to write it. It pays when both sides speak
    # the same language, and saves $2 V C$ parameters.
    if config.tied:
        read.tokens.weight = generator.projection.weight
        written.tokens.weight = generator.projection.weight

    # Post-norm layers end in a normalisation, and need no last one.
    transformer = EncoderDecoder(
        Encoder(
            _layer(config),
            config.n_encoder_layers or config.n_layers,
            final_norm=config.norm_first,
        ),
        Decoder(
            _layer(config, reads_source=True),
            config.n_decoder_layers or config.n_layers,
            final_norm=config.norm_first,
        ),
        read,
        written,
        generator,
    )

    # ### No parrots
    #
    # With one vector $e$ for all uses of a token, a fresh pre-norm model would repeat
    # whatever it reads. A row still contains what it was made of, $\sqrt{C} \, e$, and
    # agrees with no vector as well as with $e$ itself. If the entries of $e$ have a
    # standard deviation of $\sigma$, and those of the row one of about 1, the token
    # scores about $C \cdot \sqrt{C} \sigma \cdot \sigma = C^{3/2} \sigma^2$ just for
    # having been there.
    #
    # With Glorot's $\sigma$, 512 features, four layers and 68 tokens, the first loss is
    # 15 nats, where a guess costs $\log 68 = 4.2$. With $\sigma = C^{-3/4}$ the score
    # is 1 at any width, and the loss 4.2. It shows later, too: a model of 128 features
    # and two layers turned six letters round with a loss of 0.23 after 80 steps of
    # training, and of 1.69 where it had started after Glorot.
    if config.tied:
        nn.init.normal_(generator.projection.weight, std=config.d_model**-0.75)
    return transformer


# ## Differences from the paper
#
# * **Pre-norm** and 128 features by default; `norm_first=False` is the paper's order.
# * **Where it starts.** The paper does not say how parameters are drawn. Here matrices
#   follow Glorot, and a shared one has $\sigma = C^{-3/4}$, for the reason given above.
# * **Dropout** falls on attention weights and inside the feed-forward networks too; see
#   [the layer](../layer.py).
# * **The map to the vocabulary** has a bias.
#
# ## Exercises
#
# **1.** Build an untrained model with Glorot's $\sigma$ in its shared matrix, and show
# that it is a parrot. Why is the same model without sharing none?
#
# <details><summary>Answer</summary>
#
# It bets on the token that it has just read. Without sharing, the vector by which a
# token is read and the one to which a row must point are drawn independently, and agree
# no better than any two.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.encoder_decoder import (
#     EncoderDecoderConfig,
#     EncoderDecoderLanguageModel,
# )
#
# def repeats(tied, glorot):
#     torch.manual_seed(0)
#     config = EncoderDecoderConfig(n_vocab=68, d_model=256, n_layers=2, tied=tied)
#     model = EncoderDecoderLanguageModel(config).eval()
#     if glorot:
#         nn.init.xavier_uniform_(model.transformer.generator.projection.weight)
#     state, start, _ = model.prepare_prompt(torch.randint(3, 68, (5, 8)))
#     tokens = torch.cat([start, torch.randint(3, 68, (20, 8))])
#     logits, _ = model(tokens, state)
#     return (logits.argmax(-1) == tokens).float().mean()
#
# assert repeats(tied=True, glorot=True) > 0.95
# assert repeats(tied=False, glorot=True) < 0.1
# ```
#
# </details>
#
# **2.** Table 3 of the paper says 65 million parameters for the base model. How many
# are there here, and how many does sharing save?
#
# <details><summary>Answer</summary>
#
# On the device `meta` nothing is computed and no memory is taken.
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder import EncoderDecoderConfig
# from labml_nn.transformers.encoder_decoder.assembly import assemble
#
# def count(tied):
#     config = EncoderDecoderConfig(
#         n_vocab=37_000, d_model=512, heads=8, n_layers=6, norm_first=False, tied=tied
#     )
#     with torch.device("meta"):
#         return sum(parameter.numel() for parameter in assemble(config).parameters())
#
# assert count(tied=True) == 63_119_496
# assert count(tied=False) - count(tied=True) == 2 * 37_000 * 512
# ```
#
# The vocabulary of the paper had "about 37000" tokens (§5.1), so the last digits are
# not to be had. One matrix of it weighs 19 million, nearly a third of the model.
#
# </details>
#
# **3.** You may have twelve layers in all. How do you divide them between encoder and
# decoder, if the model shall write quickly?
#
# <details><summary>Answer</summary>
#
# Most of them into the encoder. It runs once, on all positions side by side; the
# decoder runs for each token, one after the other. Translation hardly suffers from a
# decoder of a single layer ([@kasai2020deep]). And a layer of the encoder is smaller,
# by the attention to the source:
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder import EncoderDecoderConfig
# from labml_nn.transformers.encoder_decoder.assembly import assemble
#
# def count(encoder, decoder):
#     config = EncoderDecoderConfig(
#         n_vocab=68, n_encoder_layers=encoder, n_decoder_layers=decoder
#     )
#     with torch.device("meta"):
#         return sum(parameter.numel() for parameter in assemble(config).parameters())
#
# attention, norm = 4 * (128 * 128 + 128), 2 * 128
# assert count(6, 6) - count(11, 1) == 5 * (attention + norm)
# ```
#
# </details>
