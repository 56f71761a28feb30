r"""
---
title: A model that replies
summary: >
  The encoder reads what was said, the decoder writes the reply. How the Transformer of
  the paper becomes a language model: trained with the reply shifted by one, and writing
  with everything it has worked out before kept at hand.
paper: https://arxiv.org/abs/1706.03762
---

> BENVOLIO: Good-morrow, cousin.
>
> ROMEO: Is the day so young?

One line answers the other. A model that only continues texts would have to be told
where the first line ends and the second begins. Here the two have a half of the model
each ([Encoder and decoder](../models.py)). The **encoder** reads the line that was
said, all of it at once and in both directions, for it is all there. The **decoder**
writes the reply, and at every token it may look at the whole line and at what it has
written so far. It was made for translation, where what is said is German and the reply
is English.

What the model learns is the probability of a reply $y$ to a saying $x$, token by token:

$$p(y \mid x) = \prod_{t=1}^{n + 1} p(y_t \mid y_0, \dots, y_{t-1}, \; x)$$

Two tokens stand for no letter. $y_0$ is the **start**: it is there so that the first
real token has something to follow. $y_{n+1}$ is the **end**: a model that could not say
"I have finished" would never stop. With the **padding** of [batches](batches.py) they
are three, and part of the vocabulary.

**In training** the reply is known, so all of its factors are computed at once. A mask
keeps position $t$ from reading later ones. This is *teacher forcing*: whatever the
model would have said, the next position goes on from the true token.

**In writing** there is one token after the other, and nearly everything stays what it
was: what the source offers to each layer of the decoder, and what each token of the
reply offers to those after it. We keep both, as keys and values, and a step computes
one row. With three layers on each side, 256 features, a source of 128 tokens and one
thread of a processor, the 200th token of a reply takes @@CACHED@@ ms instead of
@@WHOLE@@ ms.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `source` | `[S, B]` | what was said, padded |
| $y$ | `tokens`, `target` | `[T, B]` | the reply |
| $n$ | `lengths` | `[B]` | real tokens of a sequence |
| $m$ | `memory` | `[S, B, C]` | the encoder's result |
| $K$, $V$ | `sources[l]` | `[S, B, H, K]` | what layer $l$ of the decoder reads of it |
| | `reply.layers[l]` | `[T, B, H, K]` | what it reads of the reply |
| $E$ | `projection.weight` | `[V, C]` | one vector per token |
"""

import math
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_tokens
from labml_nn.language_model import LanguageModel
from labml_nn.transformers.encoder_decoder.batches import (
    Batch,
    collate,
    shift,
    to_front,
)
from labml_nn.transformers.encoder_decoder.checks import (
    check_reply,
    check_targets,
    fit_learned_positions,
)
from labml_nn.transformers.encoder_decoder.config import EncoderDecoderConfig
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import KeysValues, MultiHeadAttention
from labml_nn.transformers.models import Decoder, Encoder, EncoderDecoder, Generator
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
)
from labml_nn.transformers.window import Window, read_by_halves

__all__ = [
    "Batch",
    "EncoderDecoderConfig",
    "EncoderDecoderLanguageModel",
    "EncoderDecoderState",
    "PlacedTokens",
    "collate",
]


class EncoderDecoderState(NamedTuple):
    """
    ## What a reply goes on from

    A value: nothing in it is ever changed, so one can go on from the same point twice.
    Every tensor in it has the batch as its second axis.

    * `sources` are keys and values of what was said, a pair for each layer of the
      decoder, `[S, B, H, K]` each. They are the same at every step
    * `real` is `True` where they belong to a token and not to padding, `[S, B]`
    * `reply` is the [window](../window.py) of the reply so far, with its keys and
      values; `None` before its first token
    """

    sources: tuple[KeysValues, ...]
    real: Bool[Tensor, "S B"]
    reply: Window | None = None

    def detach(self) -> "EncoderDecoderState":
        """The same state without gradients."""
        sources = tuple(KeysValues(k.detach(), v.detach()) for k, v in self.sources)
        reply = None if self.reply is None else self.reply.detach()
        return EncoderDecoderState(sources, self.real, reply)


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
        * `positions` are their places, `[T, B|1]`, if they are others than 0, 1, 2, …

        Returns vectors, `[T, B, C]`.
        """
        vectors: Tensor = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        if positions is None:
            placed: Tensor = self.positions(vectors)
        else:
            rows = self.positions.positional_encodings[positions].squeeze(2)
            placed = self.positions.dropout(vectors + rows)
        return placed


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


class EncoderDecoderLanguageModel(LanguageModel[EncoderDecoderState]):
    r"""
    ## The model

    Its mathematics is that of `EncoderDecoder`, which it holds. What it adds are the
    doors of a [language model](../../language_model.py).

    ```python
    import torch
    from labml_nn.transformers.encoder_decoder import (
        EncoderDecoderConfig,
        EncoderDecoderLanguageModel,
        collate,
    )

    config = EncoderDecoderConfig(n_vocab=68, d_model=32, n_layers=2)
    model = EncoderDecoderLanguageModel(config)
    batch = collate([([4, 5, 6], [7, 8]), ([9], [10, 11, 12])], config.padding_token)
    model.loss(batch.source, batch.target).backward()

    state, reply, _ = model.begin(batch.source)
    for _ in range(5):
        logits, state = model(reply[-1:], state)
        reply = torch.cat([reply, logits.argmax(-1)])
    assert reply.shape == (6, 2)
    ```
    """

    name: ClassVar[str] = "encoder_decoder"
    Config = EncoderDecoderConfig
    config: EncoderDecoderConfig

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.config = config
        read, written = PlacedTokens(config), PlacedTokens(config)
        generator = Generator(config.n_vocab, config.d_model)

        # One matrix in three places (§3.4): a token is read, on either side, by the
        # same vector to which the decoder must point to write it. It pays when both
        # sides speak the same language, and saves $2 V C$ parameters.
        if config.tied:
            read.tokens.weight = generator.projection.weight
            written.tokens.weight = generator.projection.weight

        # Post-norm layers end in a normalisation, and need no last one.
        self.transformer = EncoderDecoder(
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

        # With one vector $e$ for all uses of a token, a fresh pre-norm model would be a
        # parrot. A row still contains what it was read from, $\sqrt{C} \, e$, and
        # agrees with no vector as well as with $e$ itself. If the entries of $e$ have a
        # standard deviation of $\sigma$, and those of the row one of about 1, the token
        # scores about $C^{3/2} \sigma^2$ just for having been there. With Glorot's
        # $\sigma$, 512 features and 68 tokens, the first loss is 15 nats, where a guess
        # costs $\log 68 = 4.2$. With $\sigma = C^{-3/4}$ the score is 1 at any width,
        # and the loss 4.2. (A small model, of 128 features, turned six letters round
        # with a loss of 0.23 after 80 steps. Started after Glorot, it had 1.69.)
        if config.tied:
            nn.init.normal_(generator.projection.weight, std=config.d_model**-0.75)

    def encode(
        self, source: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> EncoderDecoderState:
        r"""
        ### Hear what is said

        * `source` is what was said, `[S, B]`, padded with `padding_token`, last or
          first
        * `lengths` says how many tokens of each sequence are real, `[B]`, if they come
          first and are followed by anything; without it the padding token tells

        The layers of the decoder see the encoder's result each through matrices of its
        own, $K = m W^K_l$ and $V = m W^V_l$. The result never changes while the reply
        is written, so the products are formed here, once.

        Returns the state of an empty reply, with gradients. Raises `ValueError` for a
        shape other than `[S, B]`, a token outside the vocabulary, padding in the
        middle, or a source longer than a learned table of positions; `TypeError` for
        tokens that are not integers.
        """
        config = self.config
        check_tokens(source, config.n_vocab, name="source")
        source, lengths = to_front(source, config.padding_token, lengths, name="source")
        if config.positions == "learned":
            source = fit_learned_positions(source, lengths, config.max_len)
        real = source != config.padding_token
        memory = self.transformer.encode(source, real.unsqueeze(0))
        return EncoderDecoderState(
            self.transformer.decoder.project_source(memory), real
        )

    def forward(
        self, tokens: Int[Tensor, "T B"], state: EncoderDecoderState | None = None
    ) -> tuple[Float[Tensor, "T B V"], EncoderDecoderState]:
        r"""
        ### Reply

        * `tokens` are the reply so far, or its next piece, `[T, B]`. A reply begins
          with `start_token`; padding, before or after it, is seen by nobody
        * `state` comes from `encode` or `begin`, or from the call before

        Returns logits of what may follow each token, `[T, B, V]`, and the state to go
        on from. Raises `ValueError` without a state, or with one of another model or
        batch, for a reply that begins with another token and for tokens outside the
        vocabulary; `TypeError` for tokens that are not integers.
        """
        if state is None:
            raise ValueError(
                "`state` is None, so there is nothing to reply to; read what was said "
                "first: state = model.encode(source), then model(tokens, state)"
            )
        if not isinstance(state, EncoderDecoderState):
            raise TypeError(
                f"`state` is a {type(state).__name__}; expected the state of an empty "
                "reply, from `encode` or `begin`, or the one that came with the last "
                "logits"
            )
        check_tokens(tokens, self.config.n_vocab)
        check_reply(
            tokens,
            batch=state.real.shape[1],
            start_token=self.config.start_token,
            padding_token=self.config.padding_token,
            begins=state.reply is None,
        )
        decoder, source_mask = self.transformer.decoder, state.real.unsqueeze(0)

        # The reply slides through its window, and every row of it sees the whole
        # source: that is never let go of.
        def read(
            tokens: Tensor,
            positions: Tensor,
            mask: Tensor | None,
            past: tuple[KeysValues, ...] | None,
        ) -> tuple[Tensor, tuple[KeysValues, ...]]:
            x = self.transformer.tgt_embed(tokens, positions)
            return decoder.extend(x, mask, past, state.sources, source_mask)

        rows, reply = read_by_halves(
            tokens,
            state.reply,
            read,
            max_len=self.config.max_len,
            padding_token=self.config.padding_token,
        )
        logits: Tensor = self.transformer.generator(rows)
        return logits, state._replace(reply=reply).detach()

    def loss(
        self,
        tokens: Int[Tensor, "S B"],
        targets: Int[Tensor, "T B"],
        state: EncoderDecoderState | None = None,
    ) -> Float[Tensor, ""]:
        r"""
        ### How surprising was the reply?

        $$-\frac{1}{\sum_b (n_b + 1)} \sum_b \sum_{t=1}^{n_b + 1}
            \log p(y_{tb} \mid y_{0b}, \dots, y_{t-1, b}, \; x_b)$$

        * `tokens` is what was said, `[S, B]`
        * `targets` is the reply *without* start and end, `[T, B]`. They are added here,
          see `shift`: the decoder reads the start and the reply, and is asked for the
          reply and the end
        * `state` is there because all language models have it, and must be `None`: what
          was said is read anew in each step, for the encoder learns too

        Both are padded with `padding_token`, last or first; nobody is asked for it.
        Returns the mean cross entropy in nats per token, the end being one. Raises what
        `encode` and `forward` raise, and `ValueError` for special tokens in `targets`.
        """
        if state is not None:
            raise ValueError(
                "`state` must be None: the loss reads what was said by itself. Give "
                "logits of `forward` to `loss_of` to go on from a state"
            )
        config = self.config
        ends = {"start_token": config.start_token, "end_token": config.end_token}
        check_tokens(targets, config.n_vocab, name="targets")
        check_targets(tokens, targets, **ends)
        targets, lengths = to_front(targets, config.padding_token, name="targets")
        read, asked = shift(
            targets, lengths, padding_token=config.padding_token, **ends
        )
        logits, _ = self(read, self.encode(tokens))
        return self.loss_of(logits, asked)

    def begin(
        self, prompt: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[EncoderDecoderState, Int[Tensor, "T B"], None]:
        """
        ### Before writing

        `prompt` and `lengths` are what was said, as in `encode`. Returns the state of
        an empty reply, a start token for each sequence, `[1, B]`, and no lengths: the
        replies are equally long so far.
        """
        state = self.encode(prompt, lengths).detach()
        start = prompt.new_full((1, prompt.shape[1]), self.config.start_token)
        return state, start, None
