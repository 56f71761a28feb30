r"""
---
title: A model that replies
summary: >
  The encoder reads what was said, the decoder writes the reply: the Transformer of the
  paper as a language model, which keeps at hand what it has worked out before.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/encoder_decoder.ipynb
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
thread of a processor, the 200th token of a reply takes 2.7 ms. Reading everything anew
for it takes 31 ms, 11 of them for the source. With a [writer](../writing/__init__.py),
which makes no new state for each token, it is 0.3 ms.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `source` | `[S, B]` | what was said, padded |
| $y$ | `tokens`, `targets` | `[T, B]` | the reply |
| $n$ | `lengths` | `[B]` | real tokens of a sequence |
| $m$ | `memory` | `[S, B, C]` | the encoder's result |
| $K$, $V$ | `state.sources[l]` | `[S, B, H, K]` | what layer $l$ reads of it |
| | `state.reply.layers[l]` | `[T, B, H, K]` | what it reads of the reply |
"""

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.checks import check_tokens
from labml_nn.language_model import DecodingStep, LanguageModel
from labml_nn.transformers.encoder_decoder.assembly import assemble
from labml_nn.transformers.encoder_decoder.batches import (
    Batch,
    collate,
    shift,
    to_front,
)
from labml_nn.transformers.encoder_decoder.checks import (
    check_reply,
    check_state,
    check_targets,
    fit_learned_positions,
)
from labml_nn.transformers.encoder_decoder.config import EncoderDecoderConfig
from labml_nn.transformers.encoder_decoder.state import EncoderDecoderState
from labml_nn.transformers.encoder_decoder.writing import writer_of
from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.window import Window, read_by_halves

__all__ = [
    "Batch",
    "EncoderDecoderConfig",
    "EncoderDecoderLanguageModel",
    "EncoderDecoderState",
    "collate",
]


class EncoderDecoderLanguageModel(LanguageModel[EncoderDecoderState]):
    r"""
    ## The model

    Its mathematics is that of `EncoderDecoder`, which it holds. What it adds are the
    doors of a [language model](../../language_model.py).

    ```python
    import torch
    from labml_nn.sampling import generate
    from labml_nn.transformers.encoder_decoder import (
        EncoderDecoderConfig,
        EncoderDecoderLanguageModel,
        collate,
    )

    config = EncoderDecoderConfig(n_vocab=68, d_model=32, n_layers=2)
    model = EncoderDecoderLanguageModel(config)
    pairs = [([4, 5, 6], [7, 8]), ([9], [10, 11, 12])]  # tokens of (said, reply)
    batch = collate(pairs, config.padding_token)
    model.loss(batch.source, batch.target).backward()

    replies = generate(model, batch.source, 5, lengths=batch.source_lengths)
    assert replies.shape[1] == 2  # a column for each, up to the end token
    ```
    """

    name: ClassVar[str] = "encoder_decoder"
    Config = EncoderDecoderConfig
    config: EncoderDecoderConfig

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.transformer = assemble(config)

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
        sources = self.transformer.decoder.project_source(memory)
        return EncoderDecoderState(sources, real)

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
        state = check_state(state, EncoderDecoderState)
        check_tokens(tokens, self.config.n_vocab)
        check_reply(
            tokens,
            batch=state.real.shape[1],
            start_token=self.config.start_token,
            padding_token=self.config.padding_token,
            begins=state.reply is None,
        )
        rows, reply = self.read_on(tokens, state)
        logits: Tensor = self.transformer.generator(rows)
        return logits, state._replace(reply=reply).detach()

    def read_on(
        self, tokens: Tensor, state: EncoderDecoderState
    ) -> tuple[Float[Tensor, "T B C"], Window]:
        """
        The reply slides through its window, and every row of it sees the whole source:
        that is never let go of. Returns the decoder's rows.
        """
        decoder, source_mask = self.transformer.decoder, state.real.unsqueeze(0)

        def read(
            tokens: Tensor,
            positions: Tensor,
            mask: Tensor | None,
            past: tuple[KeysValues, ...] | None,
        ) -> tuple[Tensor, tuple[KeysValues, ...]]:
            x = self.transformer.tgt_embed(tokens, positions)
            return decoder.extend(x, mask, past, state.sources, source_mask)

        return read_by_halves(
            tokens,
            state.reply,
            read,
            max_len=self.config.max_len,
            padding_token=self.config.padding_token,
        )

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

    def prepare_prompt(
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

    def decoding_step(self, state: EncoderDecoderState) -> DecodingStep:
        """
        ### Write on

        `state` is that of the reply so far. Returns [a writer](writing.py).
        """
        plain = super().decoding_step
        if type(self) is not EncoderDecoderLanguageModel or state.reply is None:
            return plain(state)
        return writer_of(self, state, lambda reply: plain(state._replace(reply=reply)))


# ## Differences from the paper
#
# * **Parts** differ in what [their page](assembly.py) says.
# * **Long replies** slide through a [window](../window.py) of `max_len` tokens. What
#   was said stays in view as a whole.
# * **Search.** The paper writes with beam search, four candidates and a penalty for
#   short ones (§6.1). Here tokens are picked one by one, by a
#   [sampler](../../sampling/__init__.py).
#
# ## Exercises
#
# **1.** Which of three replies does the model think the most probable? Compute
# $\log p(y \mid x)$ of each, all at once.
#
# <details><summary>Answer</summary>
#
# Repeat what was said for each reply, and add up the log-probabilities of what is asked
# for. `loss` is their mean over everything, so it cannot tell the replies apart.
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder import (
#     EncoderDecoderConfig,
#     EncoderDecoderLanguageModel,
#     collate,
# )
# from labml_nn.transformers.encoder_decoder.batches import shift
#
# config = EncoderDecoderConfig(n_vocab=20, d_model=32, n_layers=1)
# model = EncoderDecoderLanguageModel(config).eval()
# said, replies = [5, 6, 7], [[8, 9], [10], [11, 12, 13, 14]]
# batch = collate([(said, reply) for reply in replies], 0)
# special = {"padding_token": 0, "start_token": 1, "end_token": 2}
# read, asked = shift(batch.target, batch.target_lengths, **special)
#
# logits, _ = model(read, model.encode(batch.source))
# each = logits.log_softmax(-1).gather(-1, asked[..., None])[..., 0]
# score = each.masked_fill(asked == 0, 0.0).sum(0)
# best = replies[score.argmax()]
#
# mean = model.loss(batch.source, batch.target)
# torch.testing.assert_close(-score.sum() / (asked != 0).sum(), mean)
# ```
#
# An untrained model prefers the shortest, since every token costs about $\log 20$. A
# trained one does too, more than it should: that is what the penalty is for.
#
# </details>
#
# **2.** What does the state weigh? Compare what is kept of the source and of the reply,
# and say what grows while the model writes.
#
# <details><summary>Answer</summary>
#
# Keys and values of $C$ features in each layer of the decoder: $2 L C S$ numbers per
# sequence for the source, from the first moment on, and $2 L C$ more for each token of
# the reply, until the window is full.
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder import (
#     EncoderDecoderConfig,
#     EncoderDecoderLanguageModel,
# )
#
# C, L, S, W = 32, 3, 50, 8
# config = EncoderDecoderConfig(n_vocab=20, d_model=C, n_layers=L, max_len=W)
# model = EncoderDecoderLanguageModel(config).eval()
#
# def numbers(layers):
#     return sum(part.numel() for pair in layers for part in pair)
#
# state, token, _ = model.prepare_prompt(torch.randint(3, 20, (S, 1)))
# assert numbers(state.sources) == 2 * L * C * S
# for t in range(20):
#     logits, state = model(token, state)
#     token = logits.argmax(-1)
#     if t < W:
#         assert numbers(state.reply.layers) == 2 * L * C * (t + 1)
#     assert numbers(state.reply.layers) <= 2 * L * C * W
# ```
#
# </details>
#
# **3.** Asked anything at all, models trained on conversations like to answer *I don't
# know*. They were trained to make $p(y \mid x)$ large. Where does it come from, and
# what could a better question be?
#
# <details><summary>Answer</summary>
#
# A reply that fits every saying is probable after every saying, and a model that is in
# doubt about $x$ can do no better. What we want is a reply that fits *this* saying
# better than others: choose the $y$ with the largest
# $\log p(y \mid x) - \lambda \log p(y)$, where $p(y)$ is how often people say it anyway
# ([@li2016diversity]).
#
# The same model can tell $p(y)$, if now and then in training nothing was said: a source
# of nothing but padding is silence, and the decoder is left to what is usual.
#
# ```python
# import torch
# from labml_nn.transformers.encoder_decoder import (
#     EncoderDecoderConfig,
#     EncoderDecoderLanguageModel,
# )
#
# config = EncoderDecoderConfig(n_vocab=20, d_model=32, n_layers=1)
# model = EncoderDecoderLanguageModel(config).eval()
#
# def log_probability(source, reply):
#     tokens = len(reply) + 1  # with the end
#     return -tokens * model.loss(source, torch.tensor(reply)[:, None])
#
# said = torch.tensor([[5], [6], [7]])
# silence = torch.zeros_like(said)
# replies = [[8, 9], [10], [11, 12, 13]]
# fit = [log_probability(said, reply) for reply in replies]
# usual = [log_probability(silence, reply) for reply in replies]
# gain = torch.stack(fit) - torch.stack(usual)  # with lambda = 1
# best = replies[gain.argmax()]
# assert gain.abs().max() > 0  # what was said makes a difference
# ```
#
# </details>
