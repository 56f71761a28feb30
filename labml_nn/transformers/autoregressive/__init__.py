r"""
---
title: Autoregressive transformer
summary: >
  A model that reads a text and bets on what comes next, after every token of it at
  once; and that writes, one token after the other, without reading it all again. A GPT,
  whole, on one page.
paper: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
notebook: notebooks/autoregressive.ipynb
---

> *To be, or not to be, that is the questio*

You know the next letter. To know it you needed English spelling, and a bit of
Shakespeare. A model that is asked for the next letter, millions of times, has to learn
both. Nobody has to label anything: **the text is its own answer**, moved by one place,
and every letter of it is another question:

```text
 T            what follows?   o
 To           what follows?   _
 To_          what follows?   b
 To_b         what follows?   e
```

This is the model that GPT made famous: half of the [Transformer](../models.py), the
decoder, with nothing to translate ([@liu2018generating, §4.2.3]). Tokens become
vectors, a stack of layers lets each of them look back, and a last map turns every
vector into a bet:

```text
 text      T   o   _   b          w   [T, B]
           │   │   │   │              embedding · √C, plus positions
           ▼   ▼   ▼   ▼          x   [T, B, C]
 L times   look back, think           one TransformerLayer after the other
           │   │   │   │
           ▼   ▼   ▼   ▼              normalise, then the embedding again
 bets      o   _   b   e          z   [T, B, V]
```

*Autoregressive* means: predicted from its own past. The probability of a text is a
product, with one factor for each question,

$$p(w_0, \dots, w_{T-1}) = \prod_{t} p(w_t \mid w_0, \dots, w_{t-1})$$

and all that has to be seen to is that **no position sees a later one**. A mask does it.
Then row $t$ depends on $w_0, \dots, w_t$ alone, and one pass answers all the questions
of a text side by side, each with a past of another length. A recurrent network has to
go through the text step by step; this one learns from all positions at once.

**Writing** does go step by step, for the next token has to be drawn before anyone can
think about the one after it. But by the same mask, nothing that was computed for the
past will ever change. All that a new token needs of an old one are the keys and values
that the layers have offered, and those we keep. They are the **state**, which `forward`
hands out and takes back. With the state, a step reads one token; without it, the whole
text again. On one processor core and with 256 tokens of context that is 0.8 ms against
14 ms for the default configuration, and 55 ms against 1,270 ms for 12 layers of 768
features, the size of the smallest GPT-2. The price is memory: $2 L C$ numbers for each
token, 4 KiB in the first model and 72 KiB in the second. A
[writer](../writing/__init__.py), which makes no new state for each token, takes 0.09 ms
with the first model.

```python
import torch
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
)

model = AutoregressiveTransformer(AutoregressiveConfig(n_vocab=65)).eval()
text = torch.randint(65, (300, 2))  # [T, B]

logits, state = model(text[:-1])
assert logits.shape == (299, 2, 65)  # [T, B, V]: after each token, what follows?
last, state = model(text[-1:], state)  # one token more, and only that one is read
assert torch.allclose(last, model(text)[0][-1:], atol=1e-5)

loss = model.loss(text[:-1], text[1:])  # the answers are the text, moved by one
assert loss < 5  # nats per token; blind guessing has log(65) = 4.17
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the text, numbers from 0 to $V - 1$ |
| | `positions` | `[T, B\|1]` | where in the context each token stands |
| $E$ | `embedding.tokens.weight` | `[V, C]` | one vector per token |
| $P$ | `embedding.table` | `[max_len, C]` | one vector per position |
| $x^l$ | `rows` | `[T, B, C]` | the text after $l$ layers |
| $K^l$, $V^l$ | `state.layers[l]` | `[S, B, H, K]` | keys and values of what was read |
| $z$ | `logits` | `[T, B, V]` | scores of what may follow |
| $L$ | `config.n_layers` | | layers |
| $H$ | `config.heads` | | attention heads in each |
"""

from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.checks import check_tokens
from labml_nn.language_model import DecodingStep, LanguageModel
from labml_nn.transformers.autoregressive.blocks import NORMS, build_layer, initialise
from labml_nn.transformers.autoregressive.config import AutoregressiveConfig
from labml_nn.transformers.autoregressive.embedding import PlacedEmbedding
from labml_nn.transformers.autoregressive.writing import writer_of
from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.models import Generator
from labml_nn.transformers.rotary import RotaryPositions
from labml_nn.transformers.stacks import Encoder
from labml_nn.transformers.window import Window, read_by_halves

__all__ = [
    "AutoregressiveConfig",
    "AutoregressiveTransformer",
    "PlacedEmbedding",
    "Window",
]


class AutoregressiveTransformer(LanguageModel[Window]):
    r"""
    ## The model

    Three parts in a row: an [embedding](embedding.py), a [stack](../stacks.py), and a
    map to the vocabulary. What is hard was done on other pages; here it comes together.
    How to train it, ask it and save it, it has from the [language
    models](../../language_model.py).
    """

    name = "autoregressive"
    Config = AutoregressiveConfig
    config: AutoregressiveConfig

    def __init__(self, config: AutoregressiveConfig) -> None:
        """`config` describes the model; each field is explained with it."""
        super().__init__(config)
        self.embedding = PlacedEmbedding(config)

        # Where positions are rotations, nothing is added below: each attention is told
        # by how much to turn.
        self.rotary: RotaryPositions | None = None
        if config.positions == "rotary":
            self.rotary = RotaryPositions(config.query_size, config.max_len)

        # A stack whose mask hides the future, of [layers](blocks.py) as the
        # configuration asks for them. Pre-norm layers leave their sum as it is, and one
        # normalisation follows at the end; post-norm layers end in one each.
        self.stack = Encoder(
            build_layer(config),
            config.n_layers,
            final_norm=config.norm_first,
            norm=NORMS[config.norm],
        )

        # ### One matrix at both ends
        #
        # To read a token is to take its row of $E$. To bet on a token is to ask how
        # well the last vector agrees with a row that stands for it. It may be the same
        # row ([@vaswani2017attention, §3.4; @press2017using]):
        #
        # $$z_{tv} = x^L_t \cdot E_v + b_v$$
        #
        # That saves $V C$ parameters, and a row learns from both of its uses. A rare
        # token is seldom read, but bet against at every position. The bias $b$ is free
        # to say how frequent each token is.
        self.generator = Generator(config.n_vocab, config.d_model)
        if config.tied:
            self.generator.projection.weight = self.embedding.tokens.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """
        ### How it begins

        With small random numbers, as GPT-2 does, or [otherwise](blocks.py).
        """
        initialise(self, self.config)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: Window | None = None
    ) -> tuple[Float[Tensor, "T B V"], Window]:
        r"""
        ### Read on

        * `tokens` go on where `state` ends, `[T, B]`; any number of them, of which
          `padding_token` is none
        * `state` is what the call before returned; `None` at the beginning of a text.
          It is a value: it can be used again

        Returns logits, `[T, B, V]`, for what follows each token, and the state after
        the last one, without gradients. It does not matter how a text is cut into
        calls, and texts may be longer than `max_len`: then the context [slides by
        halves](../window.py), on a page that also makes the mask and counts positions.
        Padding may stand anywhere, and changes nothing. Logits there mean nothing.

        Raises `TypeError` or `ValueError` for tokens outside the vocabulary, for an
        empty text, and for the state of another model or of another batch.
        """
        check_tokens(tokens, self.config.n_vocab)
        rows, state = self.read_on(tokens, state)
        logits: Tensor = self.generator(rows)
        return logits, state

    def read_on(
        self, tokens: Int[Tensor, "T B"], state: Window | None
    ) -> tuple[Float[Tensor, "T B C"], Window]:
        """The same as far as the last rows, of tokens that were looked at."""
        return read_by_halves(
            tokens,
            state,
            self._read,
            max_len=self.config.max_len,
            padding_token=self.config.padding_token,
        )

    def _read(
        self,
        tokens: Int[Tensor, "T B"],
        positions: Int[Tensor, "T #B"],
        mask: Tensor | None,
        past: tuple[KeysValues, ...] | None,
    ) -> tuple[Float[Tensor, "T B C"], tuple[KeysValues, ...]]:
        """
        ### Embed, and up through the layers

        Whole texts in training and single tokens in writing take the same way: with the
        past, or without one.
        """
        rotation = None if self.rotary is None else self.rotary(positions)
        x = self.embedding(tokens, positions)
        return self.stack.extend(x, mask, past, rotation)

    def decoding_step(self, state: Window) -> DecodingStep:
        """
        ### Write on

        `state` is that of the text so far. Returns [a writer](writing.py).
        """
        plain = super().decoding_step
        if type(self) is not AutoregressiveTransformer:
            return plain(state)
        return writer_of(self, state, plain)


# ## Differences from GPT-2
#
# GPT-2 ([@radford2019language, §2.3]; and its [code](https://github.com/openai/gpt-2),
# where the paper is silent) is the nearest relative.
#
# * **Scaled embeddings.** The factor $\sqrt{C}$ is that of the original Transformer.
#   GPT-2 adds tokens and positions as they are.
# * **Sinusoids** by default. GPT-2 learns its positions, as `positions="learned"` does,
#   from numbers that start with a standard deviation of 0.01, not 0.02.
# * **ReLU**, where GPT-2 has GELU, and a **bias** in the output, where it has none.
# * **Longer texts** slide through the context. GPT-2's end at 1,024 tokens.
#
# ## Differences from the paper of the Transformer
#
# * **One stack.** Nothing is translated, so there is no encoder and nobody asks it.
# * **Pre-norm** by default. `norm_first=False` is the paper's.
# * **Dropout** falls on attention weights and hidden features, too.
# * **How it begins** is GPT-2's; the paper does not say.
#
# ## Exercises
#
# **1.** Let the model write, greedily, until there are `n` tokens more. Each call may
# read one token only. What goes wrong if you forget `model.eval()`?
#
# <details><summary>Answer</summary>
#
# Read the prompt, then feed each best guess back with the state. With dropout the guess
# is drawn by a model that is damaged in another way at each step, and what is kept was
# computed by damaged ones too. (`labml_nn.sampling` has a `generate` for all models,
# which takes care of that and of much more.)
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# @torch.no_grad()
# def write(model, prompt, n):
#     logits, state = model(prompt)
#     text = [prompt]
#     for _ in range(n):
#         text.append(logits[-1:].argmax(-1))
#         logits, state = model(text[-1], state)
#     return torch.cat(text)
#
# config = AutoregressiveConfig(n_vocab=65, d_model=32, n_layers=2, max_len=16)
# model = AutoregressiveTransformer(config).eval()
# prompt = torch.randint(65, (5, 2))
# text = write(model, prompt, 10)
# assert text.shape == (15, 2)
# assert (model(text)[0][4:-1].argmax(-1) == text[5:]).all()  # each is the best guess
# ```
#
# </details>
#
# **2.** The first loss of a new model lies a little *above* $\ln V$, if its weights are
# tied, and hardly at all, if not. What does a tied model bet on, before it has learned
# anything?
#
# <details><summary>Answer</summary>
#
# On hearing the last token again. The layers add little at first, so that the last
# vector still points where it pointed when it was embedded: along $E_{w_t}$. And its
# score for a token $v$ is how well it agrees with $E_v$. With learned positions, which
# start small, the last token is thought ten times as likely as blind guessing would
# have it; with sinusoids, which outweigh the young embedding, twice.
#
# ```python
# import math
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# text = torch.randint(65, (200, 4))
# for tied in (True, False):
#     config = AutoregressiveConfig(n_vocab=65, tied=tied, positions="learned")
#     logits, _ = AutoregressiveTransformer(config).eval()(text)
#     again = logits.softmax(-1).gather(-1, text[:, :, None]).mean()
#     assert (again > 4 / 65) if tied else (again < 2 / 65)
# ```
#
# </details>
#
# **3.** Attention does not fade with distance: what stands at the beginning of the
# context can change the bet at its end. How far back can *one* layer look, and how far
# a model of $L$ layers, when the context slides? Find out with gradients.
#
# <details><summary>Answer</summary>
#
# As far as the context goes, and not one token further, whatever $L$ is: after a slide
# everything was read anew. Had the keys been kept when the window moved, what they knew
# of tokens long gone would come through, and $L$ layers would look back $L$ windows.
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# config = AutoregressiveConfig(n_vocab=40, n_layers=3, max_len=8, tied=False)
# model = AutoregressiveTransformer(config).eval()
# text = torch.arange(40)[:, None]  # each token once, so that its row is its gradient
# for t in (7, 8, 11, 12, 39):
#     logits, _ = model(text[: t + 1])
#     (gradient,) = torch.autograd.grad(logits[-1].sum(), model.embedding.tokens.weight)
#     begin = 4 * max(0, (t - 8) // 4 + 1)
#     seen = gradient.abs().sum(1).nonzero().flatten()
#     assert seen.tolist() == list(range(begin, t + 1))
# ```
#
# </details>
#
# **4.** Count the parameters without looking at them, for $V$ tokens, $L$ layers of $C$
# features, $F = 4 C$ and `max_len` learned positions. Which part is the largest in the
# default configuration, and in GPT-2 with 50,257 tokens, 12 layers, 768 features and
# 1,024 positions?
#
# <details><summary>Answer</summary>
#
# Attention has four $C \times C$ maps and the feed-forward network two of
# $4 C \times C$, so a layer has $12 C^2$ weights, and $13 C$ numbers in biases and
# normalisations. Around the layers there are $V C$ for tokens, $V$ biases, $C$ for each
# position and $2 C$ for the last normalisation. By default the layers hold 95 % of
# 834,497 (99 % with sinusoids); in GPT-2 85 million of 124, and the tokens 39 million.
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# def count(V, L, C, max_len):
#     return L * (12 * C**2 + 13 * C) + V * C + V + max_len * C + 2 * C
#
# config = AutoregressiveConfig(n_vocab=65, positions="learned")
# with torch.device("meta"):  # shapes without numbers
#     model = AutoregressiveTransformer(config)
# assert sum(p.numel() for p in model.parameters()) == count(65, 4, 128, 256) == 834_497
# gpt_2 = count(50_257, 12, 768, 1024) - 50_257  # no bias in the output
# assert gpt_2 == 124_439_808
# ```
#
# </details>
