r"""
---
title: Elman language model
summary: >
  An Elman network between an embedding and its mirror image. It reads and writes with
  a state of fixed size in mind, however long the text.
paper: https://doi.org/10.1207/s15516709cog1402_1
---

The networks of [Elman (1990)](__init__.py) predict the next letter, or the next word of
a small grammar: they are language models, among the first there were. This one has what
later years added: embeddings that input and output share, layers on top of each other,
dropout.

```text
                            state before
                                 ▼
   tokens ─► embedding ─► Elman layers ─► embedding, transposed ─► logits
                                 ▼
                            state after
```

All that it remembers of a text is its state, $L \cdot N$ numbers per sequence. The next
token costs as much after a million tokens as after one, in time and in memory, and
there is no longest text.

\begin{align}
x_t &= \sqrt{C} \, E_{w_t} \\
h_t &= \operatorname{Elman}(P x_t + p, \; h_{t-1}) \\
z_t &= E \, (Q h_t^L + q) + c
\end{align}

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` | `[T, B]` | the tokens |
| $E$ | `embedding.weight` | `[V, C]` | one vector per token, on the way in and out |
| $P$, $p$ | `input_projection` | `[N, C]`, `[N]` | from tokens to states |
| $h_t$ | `state` | `[L, B, N]` | the states of all layers |
| $Q$, $q$ | `output_projection` | `[C, N]`, `[C]` | and back |
| $c$ | `output_bias` | `[V]` | how frequent a token is anyway |
| $z_t$ | | `[T, B, V]` | what may follow each token |
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import (
    check_choices,
    check_known,
    check_probability,
    check_sizes,
    check_tokens,
)
from labml_nn.configuration import LanguageModelConfig
from labml_nn.language_model import DecodingStep, LanguageModel
from labml_nn.recurrent.elman import Elman
from labml_nn.recurrent.elman.bptt import ACTIVATIONS
from labml_nn.recurrent.elman.writing import Parts, can_write, writer_of


@dataclass(frozen=True, kw_only=True)
class ElmanConfig(LanguageModelConfig):
    r"""
    ## Configuration

    * `d_model` is the number of features of a token, $C$
    * `d_hidden` is the number of units of a layer, $N$
    * `n_layers` is the number of layers, $L$
    * `dropout_prob` is the probability of dropping a feature of the states, on their
      way from layer to layer and to the output
    * `embedding_dropout_prob` is the same for features of embedded tokens
    * `nonlinearity` is `tanh`, `sigmoid`, which is the paper's, or `relu`
    * `tied` is whether $E$ serves for input and output; without it the output has a
      matrix of its own
    * `learn_h_0` is whether the state before the first token is trained, or zero

    With `n_vocab=65` the defaults make a model of 340,000 parameters. Raises
    `ValueError` or `TypeError` for what cannot be.
    """

    d_model: int = 128
    d_hidden: int = 256
    n_layers: int = 2
    dropout_prob: float = 0.1
    embedding_dropout_prob: float = 0.0
    nonlinearity: str = "tanh"
    tied: bool = True
    learn_h_0: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(
            d_model=self.d_model, d_hidden=self.d_hidden, n_layers=self.n_layers
        )
        check_probability(
            dropout_prob=self.dropout_prob,
            embedding_dropout_prob=self.embedding_dropout_prob,
        )
        check_known("nonlinearity", self.nonlinearity, ACTIVATIONS)
        check_choices(tied=self.tied, learn_h_0=self.learn_h_0)


class ElmanLanguageModel(LanguageModel[Float[Tensor, "L B N"]]):
    r"""
    ## The model

    Its doors are those of all [language models](../../language_model.py).
    """

    name = "elman"
    Config = ElmanConfig
    config: ElmanConfig

    def __init__(self, config: ElmanConfig) -> None:
        """`config` says how large it is, and the rest."""
        super().__init__(config)
        d_model, d_hidden = config.d_model, config.d_hidden

        # Tokens are many and states are wide: with 10,000 tokens and 1,000 units a
        # table of full width would have ten million entries. Projections let it be
        # narrow. Where the widths are equal there are none.
        self.embedding = nn.Embedding(config.n_vocab, d_model)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout_prob)
        self.input_projection = _projection(d_model, d_hidden)
        self.elman = Elman(
            d_hidden,
            d_hidden,
            config.n_layers,
            config.dropout_prob,
            nonlinearity=config.nonlinearity,
            learn_h_0=config.learn_h_0,
        )
        self.dropout = nn.Dropout(config.dropout_prob)
        self.output_projection = _projection(d_hidden, d_model)

        # A token is likely when its vector points where the output points. These can be
        # the vectors that it was read with
        # ([@press2017using]): what is alike when read is alike when written, and both
        # places learn from both. How frequent a token is in any context is not a
        # direction, so it has a number of its own.
        self.output_weight: nn.Parameter | None = None
        if not config.tied:
            self.output_weight = nn.Parameter(torch.empty(config.n_vocab, d_model))
        self.output_bias = nn.Parameter(torch.zeros(config.n_vocab))
        self.reset_embeddings()

    @torch.no_grad()
    def reset_embeddings(self) -> None:
        r"""
        ### Where the embeddings begin

        Entries of $E$ come from a normal distribution of variance $1 / C$. Times
        $\sqrt{C}$ the layers get features of variance 1. As output weights the same
        entries make small logits: before training, the model bets almost evenly, and
        its loss is close to $\log V$ (4.21 for 65 characters, where $\log V = 4.17$).

        Smaller ones would make the first loss still more even, and training worse.
        After 250 steps of 32 × 64 characters of Tiny Shakespeare, with a standard
        deviation of 0.02 instead of $1 / \sqrt{128} = 0.09$, the training loss was 2.3
        where here it was 1.6.

        The projections begin as any `nn.Linear`, the layers as
        [their page](layer.py) says.
        """
        std = self.config.d_model**-0.5
        nn.init.normal_(self.embedding.weight, std=std)
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=std)

    def forward(
        self,
        tokens: Int[Tensor, "T B"],
        state: Float[Tensor, "L B N"] | None = None,
    ) -> tuple[Float[Tensor, "T B V"], Float[Tensor, "L B N"]]:
        r"""
        ### Read on

        * `tokens` goes on where `state` ends, `[T, B]`
        * `state` is what was returned with the tokens before, `[L, B, N]`; `None` at
          the beginning of a text

        Returns logits, `[T, B, V]`, and the state after the last token, `[L, B, N]`.

        The state has left its gradients behind, so that training on a long text piece
        by piece is [truncated backpropagation](bptt.py). Raises `ValueError` for tokens
        outside the vocabulary, an empty text or a state of another shape, `TypeError`
        for dtypes.
        """
        check_tokens(tokens, self.config.n_vocab)
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        x = self.input_projection(self.embedding_dropout(x))

        # The state waits at padding. So texts may be filled up at the end, and the
        # state is that of their last token; or at the beginning, and it is still $h_0$
        # when the first token comes. The logits at padding say what follows the token
        # before it.
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding
        x, state = self.elman(x, state, mask)

        x = self.output_projection(self.dropout(x))
        return F.linear(x, self._vectors_out(), self.output_bias), state.detach()

    def _vectors_out(self) -> Tensor:
        own = self.output_weight
        return self.embedding.weight if own is None else own

    def decoding_step(self, state: Float[Tensor, "L B N"]) -> DecodingStep:
        """
        ### Write on

        `state` is that of the text so far. Returns the [fast writer](writing.py), or,
        if there is anything about this model that it does not know, the one that
        [all models](../../language_model.py) have.
        """
        parts = self.parts()
        if type(self) is ElmanLanguageModel and can_write(self, parts, state):
            return writer_of(parts, state)
        return super().decoding_step(state)

    def parts(self) -> Parts:
        """What a writer needs to know of the model."""
        return Parts(
            embedding=self.embedding.weight,
            projection=self.input_projection,
            cells=[layer.cell for layer in self.elman.stack()],
            output_projection=self.output_projection,
            output_weight=self._vectors_out(),
            output_bias=self.output_bias,
            padding=self.config.padding_token,
        )


def _projection(d_in: int, d_out: int) -> nn.Module:
    return nn.Identity() if d_in == d_out else nn.Linear(d_in, d_out)


# ## Differences from the paper
#
# * **Tokens** are rows of a learned table; the paper gives letters as a few bits each
#   that say what they have in common, such as being a vowel, and words as one-hot
#   vectors.
# * **Outputs.** A softmax with cross entropy, where the paper has sigmoid units and
#   squared errors.
# * **Dropout, tied embeddings, several layers, label smoothing** came later.
# * **Gradients** go back through a whole piece of text; in the paper they go one step.
#
# ## Exercises
#
# **1.** $P$ is a linear map, and so is the $W$ of the first layer that comes after it.
# Take the projection out of a trained model without changing what it computes.
#
# <details><summary>Answer</summary>
#
# $W (P x + p) + b = (W P) \, x + (W p + b)$: two linear maps in a row are one. The
# projection adds nothing to what the model can express; it makes all layers alike, and
# has a say in how training goes.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman import ElmanLayer
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# model = ElmanLanguageModel.from_config({"n_vocab": 65, "d_model": 12}).eval()
# tokens = torch.randint(65, (9, 2))
# before, _ = model(tokens)
#
# projection, first = model.input_projection, model.elman.layers[0].cell.input
# folded = nn.Linear(12, 256)
# with torch.no_grad():
#     folded.weight.copy_(first.weight @ projection.weight)
#     folded.bias.copy_(first.weight @ projection.bias + first.bias)
# model.elman.layers[0].cell.input = folded
# model.elman.d_model = model.elman.layers[0].d_model = 12
# model.input_projection = nn.Identity()
# after, _ = model(tokens)
# torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)
# ```
#
# </details>
#
# **2.** Train it on a long text, piece after piece, so that it never begins anew.
#
# <details><summary>Answer</summary>
#
# Cut the text into $B$ columns that are read side by side, each from top to bottom. The
# state of one piece begins the next.
#
# ```python
# import torch
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# text = "the cat sat on the mat and the dog sat on the cat " * 40
# letters = sorted(set(text))
# numbers = torch.tensor([letters.index(letter) for letter in text])
# columns = numbers.view(4, -1).t()  # [500, 4]
#
# model = ElmanLanguageModel.from_config(
#     {"n_vocab": len(letters), "d_model": 16, "d_hidden": 32, "n_layers": 1}
# )
# optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
# state = None
# for t in range(0, 480, 20):
#     logits, state = model(columns[t : t + 20], state)
#     loss = model.loss_of(logits, columns[t + 1 : t + 21])
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
# print(f"{loss.item():.2f} nats per letter")
# assert loss < 1.0
# ```
#
# </details>
#
# **3.** Try two endings for the same beginning, and read the beginning only once.
#
# <details><summary>Answer</summary>
#
# A state is a value. Reading on makes a new one and leaves the old as it was.
#
# ```python
# import torch
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# model = ElmanLanguageModel.from_config({"n_vocab": 65}).eval()
# beginning, ending, other = torch.randint(65, (3, 7, 2))
# _, state = model(beginning)
# one, another = model(ending, state)[0], model(other, state)[0]
#
# whole, _ = model(torch.cat([beginning, ending]))
# torch.testing.assert_close(one, whole[7:])
# whole, _ = model(torch.cat([beginning, other]))
# torch.testing.assert_close(another, whole[7:])
# ```
#
# </details>
