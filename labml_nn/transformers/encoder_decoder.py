r"""
---
title: Sequence-to-sequence language model
summary: >
  How to train the encoder–decoder Transformer on pairs of sequences, and how to let it
  write: batches, special tokens, padding and state.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/encoder_decoder.ipynb
---

You know [the architecture](models.py): *who sleeps ?* goes in, and *the dog* comes out.
This page is for the day after. You have a thousand such pairs, of different lengths.
How do you put them into one batch? Where do *start* and *end* come from? And what does
the model have to remember while it writes?

Take two pairs, *who sleeps ?* → *the dog* and *why ?* → *end*, an empty answer. A
tensor needs columns of equal length, so the shorter source is filled up with a
**padding token**, here written as a dot:

```text
source   who     why        target   the    .
         sleeps  ?                   dog    .
         ?       .
```

Nothing may depend on the dots. So they are masked in attention, they take up no
position, and they do not count in the loss. The target has no *start* and no *end*,
because the loss adds both ([shifted target](#shift)).

The probability of an answer is a product over its tokens, by the chain rule
([@sutskever2014sequence]). Each factor is a prediction of the decoder, from the source
$w$ and from the tokens before:

$$p(y \mid w) = \prod_{t=1}^{n + 1} p(y_t \mid y_0, \dots, y_{t-1}, \; w)$$

Here $y_0$ is the start token and $y_{n+1}$ the end token.

**To write**, you call `model(tokens, state)`. The tokens are the answer so far, and the
**state** is what the model remembers: the encoded source, and the [KV
caches](mha.py#KVCache) of source and target. `encode` makes the first state, and each
call returns the next one. So a new token costs the same, however long the answer is.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `source` | `[S, B]` | source tokens |
| $y$ | `tokens`, `targets` | `[T, B]` | target tokens |
| $n$ | `n` | `[1, B]` | number of real tokens of a target |
| $m$ | `memory` | `[S, B, C]` | the encoder's output |
| $M$ | `source_mask` | `[S, B]` | `True` at real tokens of the source |
| | `state.sources[l]` | `[S, B, H, D]` | keys, values of the source in layer $l$ |
| | `state.target.layers[l]` | `[T, B, H, D]` | keys, values of the target |
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_heads,
    check_lengths,
    check_probability,
    check_sizes,
    check_state,
    check_tokens,
)
from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.transformers.checks import (
    check_padding_last,
    check_pairs,
    check_plain_targets,
    check_special_tokens,
    check_start,
    no_source,
)
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
)
from labml_nn.transformers.sliding_window import SlidingWindow, run_in_window
from labml_nn.transformers.utils import subsequent_mask

__all__ = [
    "Batch",
    "EncoderDecoderConfig",
    "EncoderDecoderLanguageModel",
    "EncoderDecoderState",
    "collate",
    "shift",
    "to_front",
]


class Batch(NamedTuple):
    """
    ## Batches of pairs

    Your pairs in two tensors, one sequence per column, padded at the end. This is what
    the loss takes.
    """

    source: Int[Tensor, "S B"]
    target: Int[Tensor, "T B"]


def collate(
    pairs: Iterable[Sequence[Sequence[int] | Int[Tensor, "_"]]],
    padding_token: int,
) -> Batch:
    r"""
    ### Collate

    * `pairs`: pairs (source, target), each a list or a tensor of tokens. Targets come
      without start and end token, because the loss adds them. A target may be empty
    * `padding_token`: fills up short sequences, and must not occur in any of them
    """
    pairs = list(pairs)
    check_pairs(pairs, padding_token)
    sides = []
    for side in zip(*pairs, strict=True):
        # A tensor full of padding, as long as the longest sequence of this side. Each
        # sequence fills its column from the top.
        longest = max(1, *map(len, side))
        padded = torch.full((longest, len(pairs)), padding_token)
        for b, tokens in enumerate(side):
            padded[: len(tokens), b] = torch.as_tensor(tokens, dtype=torch.long)
        sides.append(padded)
    return Batch(*sides)


def to_front(
    tokens: Int[Tensor, "T B"], padding_token: int, *, name: str = "tokens"
) -> Int[Tensor, "T B"]:
    r"""
    ### Padding on either side

    Suppose that *why ?* comes as *(pad) why ?*. A mask hides the padding from
    attention. But *why* would stand at position 1, and not at 0, where training has
    seen it. So we rotate each column until its first real token, at index $f_b$, is in
    row 0:

    $$w'_{tb} = w_{(t + f_b) \bmod T, \, b}$$

    * `tokens`: have padding at one end
    * `name`: what errors call the tokens
    """
    real = tokens != padding_token
    rows = torch.arange(len(tokens), device=tokens.device)[:, None]
    first = real.int().argmax(0)  # the first maximum
    rotated = tokens.gather(0, (rows + first) % len(tokens))
    check_padding_last(rotated, padding_token, name)
    return rotated


def shift(
    target: Int[Tensor, "T B"], *, padding_token: int, start_token: int, end_token: int
) -> tuple[Int[Tensor, "T+1 B"], Int[Tensor, "T+1 B"]]:
    r"""
    ### Shifted target

    With [teacher forcing](models.py) we need the target twice. For example, *the dog*
    becomes the input *start the dog* and the label *the dog end*. The sequences of a
    batch end in different rows. So `scatter` writes each end token behind the last real
    token of its column.

    * `target`: sequences without special tokens, padding last
    """
    n = (target != padding_token).sum(0, keepdim=True)
    inputs = torch.cat([torch.full_like(target[:1], start_token), target])
    labels = torch.cat([target, torch.full_like(target[:1], padding_token)])
    return inputs, labels.scatter(0, n, torch.full_like(labels[:1], end_token))


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(LanguageModelConfig):
    r"""
    ## Configuration

    * `n_vocab`: target tokens, $V$, with the three special ones
    * `n_source_vocab`: source tokens, if the source has another vocabulary; by default
      both share one (§5.1)
    * `padding_token`, `start_token`, `end_token`: three different tokens of the
      target's vocabulary; in the source padding is the same token
    * `d_model`: features, $C$
    * `heads`: attention heads, $H$
    * `d_k`: features of a query and of a key in one head, $D$; by default $C / H$.
      Values always have $C / H$, so `heads` must divide `d_model` in any case
    * `d_ff`: hidden features of the feed-forward networks, $F$; by default $4 C$
    * `n_layers`: layers of each stack, $L$
    * `n_encoder_layers`, `n_decoder_layers`: layers of one stack, if they differ
    * `dropout_prob`: dropout probability of embeddings, sub-layer outputs, attention
      weights and hidden features
    * `embedding_dropout_prob`: dropout probability of the sums of embedding and
      position; by default `dropout_prob`
    * `attention_dropout_prob`: dropout probability of attention weights, after the
      softmax; by default `dropout_prob`
    * `feed_forward_dropout_prob`: dropout probability of the hidden features of the
      feed-forward networks; by default `dropout_prob`
    * `bias`: whether attention projections and feed-forward networks have biases
    * `activation`: `"relu"`, `"gelu"` or `"silu"`
    * `max_len`: length of the decoder's context; see [sliding
      window](sliding_window.py). With learned positions it also limits the source
    * `positions`: `"sinusoidal"` or `"learned"`
    * `norm_first`: normalise before each sub-layer (pre-norm), or after each sum as in
      the paper (`False`, post-norm)
    * `tied`: whether source embedding, target embedding and generator share one matrix
      (§3.4); with two vocabularies, only target embedding and generator do

    The other fields are those of `LanguageModelConfig`.
    """

    padding_token: int = 0
    start_token: int = 1
    end_token: int = 2
    n_source_vocab: int | None = None
    d_model: int = 128
    heads: int = 4
    d_k: int | None = None
    d_ff: int | None = None
    n_layers: int = 4
    n_encoder_layers: int | None = None
    n_decoder_layers: int | None = None
    dropout_prob: float = 0.1
    embedding_dropout_prob: float | None = None
    attention_dropout_prob: float | None = None
    feed_forward_dropout_prob: float | None = None
    bias: bool = True
    activation: Literal["relu", "gelu", "silu"] = "relu"
    max_len: int = 256
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    norm_first: bool = True
    tied: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_k is None:
            check_heads(self.heads, self.d_model)
        sizes = ["d_model", "heads", "n_layers", "max_len"]
        optional = ["n_source_vocab", "d_k", "d_ff"]
        optional += ["n_encoder_layers", "n_decoder_layers"]
        sizes += [name for name in optional if getattr(self, name) is not None]
        check_sizes(**{name: getattr(self, name) for name in sizes})
        check_probability(dropout_prob=self.dropout_prob)
        for part in ("embedding", "attention", "feed_forward"):
            check_probability(**{f"{part}_dropout_prob": self.dropout_of(part)})

        check_special_tokens(
            self.n_vocab,
            self.source_vocabulary,
            padding_token=self.padding_token,
            start_token=self.start_token,
            end_token=self.end_token,
        )

    @property
    def source_vocabulary(self) -> int:
        """The number of source tokens: `n_source_vocab`, or `n_vocab`."""
        return self.n_vocab if self.n_source_vocab is None else self.n_source_vocab

    @property
    def feed_forward_size(self) -> int:
        r"""$F$: `d_ff`, or $4 C$."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    def dropout_of(self, part: str) -> float:
        """The dropout probability of `"embedding"`, `"attention"`, `"feed_forward"`."""
        own: float | None = getattr(self, f"{part}_dropout_prob")
        return self.dropout_prob if own is None else own


class TokenEmbedding(nn.Module):
    r"""
    ## Embedding with positions and dropout

    $$x_t = \operatorname{Dropout}\big(\sqrt{C} \, E_{y_t} + PE_t\big)$$

    You can pass the positions, because they are not always 0, 1, 2, and so on. When the
    model writes, the tokens before are in the cache, and padding takes up no position.
    """

    def __init__(self, config: EncoderDecoderConfig, n_vocab: int) -> None:
        super().__init__()
        learned = config.positions == "learned"
        encoding = LearnedPositionalEncoding if learned else PositionalEncoding
        dropout_prob = config.dropout_of("embedding")
        self.d_model = config.d_model
        self.tokens = nn.Embedding(n_vocab, config.d_model)
        self.positions = encoding(config.d_model, dropout_prob, config.max_len)

    def forward(
        self, tokens: Int[Tensor, "T B"], positions: Int[Tensor, "T #B"] | None = None
    ) -> Float[Tensor, "T B C"]:
        """`positions` of shape `[T, B|1]` are 0, 1, 2, … if not given."""
        x: Tensor = self.tokens(tokens) * math.sqrt(self.d_model)
        if positions is None:
            encoded: Tensor = self.positions(x)
        else:
            rows = self.positions.positional_encodings[positions].squeeze(2)
            encoded = self.positions.dropout(x + rows)
        return encoded


class EncoderDecoderState(NamedTuple):
    r"""
    ## State

    What the model remembers between two calls. A call returns a new state and does not
    change the old one, so you can continue two different targets from the same state.

    * `memory`: the encoder's output, or empty, `[0, B, C]`, once the first call of the
      model has projected it into keys and values
    * `source_mask`: `True` at real tokens of the source
    * `sources`: keys and values of the source for each layer of the decoder,
      `[S, B, H, D]`; `()` before the first call
    * `target`: the [context](sliding_window.py) of the target, with KV caches; `None`
      before its first token
    """

    memory: Float[Tensor, "R B C"]
    source_mask: Bool[Tensor, "S B"]
    sources: tuple[tuple[Tensor, Tensor], ...] = ()
    target: SlidingWindow | None = None

    @property
    def batch_size(self) -> int:
        """The number of sequences, $B$."""
        return self.source_mask.shape[1]

    def detach(self) -> "EncoderDecoderState":
        """Returns the same state without gradients."""
        memory = self.memory.detach()
        sources = tuple((k.detach(), v.detach()) for k, v in self.sources)
        target = None if self.target is None else self.target.detach()
        return EncoderDecoderState(memory, self.source_mask, sources, target)


class EncoderDecoderLanguageModel(LanguageModel[EncoderDecoderState]):
    r"""
    ## Language model

    Here you see all of it at work, with numbers for words. We make a batch of two
    pairs, compute its loss, and let the model write two answers:

    ```python
    import labml_nn
    from labml_nn.sampling import generate
    from labml_nn.transformers.encoder_decoder import collate

    model = labml_nn.create("encoder_decoder", n_vocab=68, d_model=32, n_layers=2)
    pairs = [([4, 5, 6], [7, 8]), ([9], [10, 11, 12])]  # (source, target)
    batch = collate(pairs, model.config.padding_token)
    model.loss(batch.source, batch.target).backward()

    targets = generate(model, batch.source, 5)
    assert targets.shape[1] == 2  # one column for each, up to the end token
    ```
    """

    name: ClassVar[str] = "encoder_decoder"
    Config = EncoderDecoderConfig
    config: EncoderDecoderConfig

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        source = TokenEmbedding(config, config.source_vocabulary)
        target = TokenEmbedding(config, config.n_vocab)
        generator = Generator(config.n_vocab, config.d_model)

        # The paper uses one matrix in three places (§3.4), which saves $2 V C$
        # parameters.
        if config.tied:
            target.tokens.weight = generator.projection.weight
            if config.n_source_vocab is None:
                source.tokens.weight = generator.projection.weight

        n_encoder = config.n_encoder_layers or config.n_layers
        n_decoder = config.n_decoder_layers or config.n_layers

        # Post-norm layers end in a normalisation, so their stacks need no final one.
        final_norm = config.norm_first
        encoder = Encoder(self._layer(), n_encoder, final_norm=final_norm)
        layer = self._layer(self._attention())
        decoder = Decoder(layer, n_decoder, final_norm=final_norm)
        self.transformer = EncoderDecoder(encoder, decoder, source, target, generator)

        # ### Initialisation of a tied matrix
        #
        # What does a new model predict? With one vector $e$ for input and output, a
        # pre-norm model predicts the token that it has just received, for example *the*
        # after *the*. Residual connections carry $\sqrt{C} \, e$ to the output, and
        # there it meets $e$ again. How large is this logit? If $\sigma$
        # is the standard deviation of the entries of $e$, it is about $C^{3/2}
        # \sigma^2$ before the final normalisation. Glorot's $\sigma$ makes it large:
        # with 512 features, 68 tokens and one layer the first loss is more than 20
        # nats. With $\sigma = C^{-3/4}$ the logit is at most about 1. Positions and
        # sub-layers share in the final normalisation, so it is smaller the more layers
        # there are, and the first loss is about $\ln 68 = 4.2$ nats.
        if config.tied:
            nn.init.normal_(generator.projection.weight, std=config.d_model**-0.75)
        self.init_uniform()

    def _attention(self) -> MultiHeadAttention:
        config, dropout_prob = self.config, self.config.dropout_of("attention")
        return MultiHeadAttention(
            config.heads, config.d_model, dropout_prob, config.bias, d_k=config.d_k
        )

    def _layer(self, src_attn: MultiHeadAttention | None = None) -> TransformerLayer:
        config = self.config
        return TransformerLayer(
            d_model=config.d_model,
            self_attn=self._attention(),
            src_attn=src_attn,
            feed_forward=FeedForward(
                config.d_model,
                config.feed_forward_size,
                config.dropout_of("feed_forward"),
                ACTIVATIONS[config.activation](),
                bias1=config.bias,
                bias2=config.bias,
            ),
            dropout_prob=config.dropout_prob,
            norm_first=config.norm_first,
        )

    def encode(
        self, source: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> EncoderDecoderState:
        r"""
        ### Encode the source

        * `source`: source tokens, padded at one end
        * `lengths`: how many tokens of each source to read; what follows is ignored

        You encode *who sleeps ?* once, and then ask the decoder for as many tokens as
        you like. Returns the state before the first of them. Gradients flow through it
        into the encoder.
        """
        config = self.config
        check_tokens(source, config.source_vocabulary, name="source")
        if lengths is not None:
            check_lengths(lengths, len(source), count=source.shape[1])
            rows = torch.arange(len(source), device=source.device)[:, None]
            source = source.masked_fill(rows >= lengths, config.padding_token)
        source = to_front(source, config.padding_token, name="source")
        source_mask = source != config.padding_token

        # Learned positions end after `max_len`; beyond it there may only be padding.
        if config.positions == "learned" and len(source) > config.max_len:
            longest = max(config.max_len, int(source_mask.sum(0).max()))
            source, source_mask = source[:longest], source_mask[:longest]
        memory = self.transformer.encode(source, source_mask.unsqueeze(0))
        return EncoderDecoderState(memory, source_mask)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: EncoderDecoderState | None = None
    ) -> tuple[Float[Tensor, "T B V"], EncoderDecoderState]:
        r"""
        ### Decode

        * `tokens`: the target, or its next tokens. A target begins with `start_token`.
          Padding on either side is masked, and takes up no position
        * `state`: comes from `encode`, `prepare_prompt`, or the previous call

        Returns logits of the token after each position, and the next state, detached.
        """
        if not isinstance(state, EncoderDecoderState):
            raise no_source(state)
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, EncoderDecoderState, tokens)
        if state.target is None:
            check_start(tokens, self.config.padding_token, self.config.start_token)
        decoder = self.transformer.decoder
        source_mask, memory = state.source_mask.unsqueeze(0), state.memory
        pairs = state.sources or ((None, None),) * len(decoder.layers)
        src_caches = [KVCache(keys, values) for keys, values in pairs]

        def run(
            tokens: Tensor,
            positions: Tensor,
            real: Any,  # a tensor: there always is a padding token
            caches: list[KVCache],
        ) -> Tensor:
            # The new tokens are the last rows of the causal mask of the whole context.
            # `& real` also hides padding.
            nonlocal memory
            mask = subsequent_mask(len(real), device=real.device)[-len(tokens) :] & real
            x: Tensor = self.transformer.tgt_embed(tokens, positions)
            x = decoder(
                x, memory, source_mask, mask, caches=caches, src_caches=src_caches
            )

            # The caches now hold the keys and values of the source. An empty memory
            # makes sure that the next call does not append them again.
            memory = memory[:0]
            return x

        x, target = run_in_window(
            run,
            tokens,
            state.target,
            n_layers=len(decoder.layers),
            max_len=self.config.max_len,
            padding_token=self.config.padding_token,
        )
        logits: Tensor = self.transformer.generator(x)
        sources: Any = tuple((cache.keys, cache.values) for cache in src_caches)
        state = EncoderDecoderState(memory, state.source_mask, sources, target)
        return logits, state.detach()

    def loss(
        self,
        tokens: Int[Tensor, "S B"],
        targets: Int[Tensor, "T B"],
        state: EncoderDecoderState | None = None,
        *,
        return_state: bool = False,
    ) -> Any:
        r"""
        ### Loss

        $$\mathcal{L} = -\frac{1}{\sum_b (n_b + 1)} \sum_b \sum_{t=1}^{n_b + 1}
            \ln p(y_{tb} \mid y_{0b}, \dots, y_{t-1, b}, \; w_b)$$

        * `tokens`: the source. It is encoded here, because the encoder learns from the
          same loss
        * `targets`: the target *without* start and end token; `shift` adds them
        * `return_state`: return `(loss, state)`, with the state after the target

        Returns the mean cross-entropy in nats per token. End tokens count, padding does
        not.
        """
        config = self.config
        if state is not None:
            raise ValueError(
                "`state` must be None: the loss encodes the source itself. To continue "
                "from a state, give the logits of `forward` to `loss_of`"
            )
        check_tokens(targets, config.n_vocab, name="targets")
        special = {"start_token": config.start_token, "end_token": config.end_token}
        check_plain_targets(targets, **special)
        padding = config.padding_token
        targets = to_front(targets, padding, name="targets")
        inputs, labels = shift(targets, padding_token=padding, **special)
        logits, after = self(inputs, self.encode(tokens))
        loss = self.loss_of(logits, labels)
        return (loss, after) if return_state else loss

    def prepare_prompt(
        self, prompt: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[EncoderDecoderState, Int[Tensor, "1 B"], None]:
        """
        ### Before generation

        `prompt` and `lengths` are the source, as in `encode`. Returns the state and the
        prompt of the target, a start token for each sequence. The third result would
        be the lengths of these prompts. It is `None`, because all have one token.
        """
        state = self.encode(prompt, lengths).detach()
        start = prompt.new_full((1, prompt.shape[1]), self.config.start_token)
        return state, start, None


# ## Differences from the paper
#
# Besides those of [the architecture](models.py):
#
# * **Initialisation.** The paper does not describe it. Here matrices follow Glorot, and
#   a tied one has $\sigma = C^{-3/4}$.
# * **Long targets** slide through a [context](sliding_window.py) of `max_len` tokens.
#   The whole source stays visible.
# * **Decoding.** The paper uses beam search (§6.1). Here a [sampler](../sampling.py)
#   picks one token at a time.
