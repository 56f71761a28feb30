r"""
---
title: A language model with feedback memory
summary: >
  Tokens in, bets on the next token out, and in between a feedback transformer whose
  memory is all that the model keeps of the text.
paper: https://arxiv.org/abs/2002.09402
---

A [feedback transformer](index.html) maps vectors to vectors. To make a language model
of it, put a table of embeddings in front and turn its outputs into bets on the next
token. The same table does both: row $v$ is the vector of token $v$ when it is read, and
the direction in which the output has to point to bet on it.

\begin{align}
x_t^0 &= \sqrt{C} \; E_{w_t} \\
y_t, \; m &= \operatorname{FeedbackTransformer}(x_t^0, \; m) \\
z_t &= E \, y_t
\end{align}

Nothing says where a token stands. The transformer knows how far back each row of memory
lies, and that is enough.

**Its state is the memory**, and it does not grow for ever: the model keeps the last
$\tau$ rows, which the paper calls the *horizon* ("Feedback Memory") and all models here
`max_len`. So a token of a text of any length costs the same work, and reading in pieces
gives what reading at once gives. Beyond its window the model is not deaf: what lies
there has left its mark on rows that are still kept.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the text |
| $E$ | `embed.weight` | `[V, C]` | one vector per token |
| $x^0$ | `x_seq` | `[T, B, C]` | embedded tokens |
| $y$ | `y_seq` | `[T, B, C]` | outputs of the transformer |
| $z$ | `logits` | `[T, B, V]` | bets on the next token |
| $m$ | `state` | | at most $\tau$ rows per text |
| $\tau$ | `max_len` | | how many steps back a layer sees |
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import (
    check_choices,
    check_heads,
    check_probability,
    check_sizes,
    check_tokens,
)
from labml_nn.language_model import DecodingStep, LanguageModel, LanguageModelConfig
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.feedback.writing import FeedbackWriter, can_write


@dataclass(frozen=True, kw_only=True)
class FeedbackConfig(LanguageModelConfig):
    r"""
    ## Configuration

    The defaults make a small model of characters.

    * `d_model` is the number of features, $C$
    * `heads` is the number of heads, $H$; it divides `d_model`
    * `d_ff` is the number of features inside the feed-forward networks, $F$; `None`
      makes it $4 C$
    * `n_layers` is the number of layers, $L$
    * `dropout_prob` is the probability to drop an embedded feature, an attention
      weight, or a feature of what a layer adds
    * `max_len` is how many rows memory keeps, $\tau$, and how many distances have
      parameters of their own
    * `shared_kv`: all layers share one projection of memory to keys and values
      (`FeedbackTransformerKV`), or each has its own (`FeedbackTransformer`)
    * `norm_memory` is whether rows of memory are normalised, which keeps them from
      growing
    * `tied` is whether reading and betting share one table
    * `n_vocab`, `padding_token` and `label_smoothing` are those of all models

    Raises `ValueError` or `TypeError` for what cannot be.
    """

    d_model: int = 128
    heads: int = 4
    d_ff: int | None = None
    n_layers: int = 4
    dropout_prob: float = 0.1
    max_len: int = 256
    shared_kv: bool = True
    norm_memory: bool = True
    tied: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.d_model)
        check_sizes(n_layers=self.n_layers, max_len=self.max_len)
        if self.d_ff is not None:
            check_sizes(d_ff=self.d_ff)
        check_probability(dropout_prob=self.dropout_prob)
        check_choices(
            shared_kv=self.shared_kv, norm_memory=self.norm_memory, tied=self.tied
        )


class FeedbackLanguageModel(LanguageModel[FeedbackMemory]):
    r"""
    ## Language model

    Its doors are those of [all language models](../../language_model.py) here.
    """

    name = "feedback"
    Config = FeedbackConfig
    config: FeedbackConfig

    def __init__(self, config: FeedbackConfig) -> None:
        """
        * `config` says everything, see `FeedbackConfig`
        """
        super().__init__(config)
        self.embed = nn.Embedding(config.n_vocab, config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)
        self.transformer = _transformer(config)
        self.output: nn.Linear | None = None
        if not config.tied:
            self.output = nn.Linear(config.d_model, config.n_vocab, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        r"""
        ### Where it starts

        All matrices are normal, with standard deviation 0.02, and biases zero. What the
        layers add is made smaller by $\sqrt{2 L}$, so that the sum of the $2 L$
        additions of a step begins no larger than one of them
        ([@radford2019language, §2.3]).

        With $C = 64$, $L = 2$ and 200 updates on 48 characters of Shakespeare at a
        time, the loss on unseen text was 2.36 like this, and 2.56 with embeddings that
        enter at variance 1 and PyTorch's own initialisation.

        Normalised memory forgives a poor start. Without it, and with embeddings at
        variance 1, what one step wrote a bit larger the next wrote larger still. After
        20 updates, values in the last of 48 rows were 700 times as large as in the
        first, and after 39 updates the loss was NaN.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for layer in self.transformer.layers:
            assert isinstance(layer, FeedbackTransformerLayer)
            for last in (layer.attn.output, layer.feed_forward.layer2):
                last.weight.div_(math.sqrt(2 * self.config.n_layers))

    def forward(
        self, tokens: Int[Tensor, "T B"], state: FeedbackMemory | None = None
    ) -> tuple[Float[Tensor, "T B V"], FeedbackMemory]:
        r"""
        ### Read on

        * `tokens` is a batch of texts, or of the next pieces of them, `[T, B]`
        * `state` is what was returned with the pieces before; `None` at the beginning

        Returns logits `[T, B, V]` of what follows each token, and the memory after the
        last one, without its gradients.

        Padding may stand anywhere in a text, and differently in each. Such steps are
        left out: the rest reads as if the padding were not there, and the logits in its
        place are zeros, which bet on nothing. Raises `ValueError` and `TypeError` for
        tokens that cannot be, and for the state of another model or batch.
        """
        check_tokens(tokens, self.config.n_vocab)
        if state is not None and not isinstance(state, FeedbackMemory):
            raise TypeError(
                f"`state` is a {type(state).__name__}; expected the FeedbackMemory "
                "that `forward` returned with the text before"
            )
        real = self._real(tokens)
        embedded: Tensor = self.embed(tokens)
        x_seq: Tensor = self.dropout(embedded * math.sqrt(self.config.d_model))
        y_seq, memory = self.transformer.scan(x_seq, state, real=real)
        table = self.embed if self.output is None else self.output
        logits = F.linear(y_seq, table.weight)
        return logits, memory.detach()

    def decoding_step(self, state: FeedbackMemory) -> DecodingStep:
        r"""
        ### Write on

        With memory that is [written over](writing/__init__.py), where nothing speaks
        against it. Arguments and result are those of all language models.
        """
        if type(self) is FeedbackLanguageModel and can_write(self, state):
            return FeedbackWriter(self, state)
        return self.plain_writer(state)

    def plain_writer(self, state: FeedbackMemory) -> DecodingStep:
        r"""
        The one that can be asked anything: `forward`, token after token.
        """
        return super().decoding_step(state)

    def _real(self, tokens: Tensor) -> Bool[Tensor, "T B"] | None:
        # A batch without padding takes the short way. The question splits a compiled
        # graph in two; a model without a padding token need not ask it.
        if self.config.padding_token is None or tokens.is_meta:
            return None
        real = tokens != self.config.padding_token
        return None if bool(real.all()) else real


def _transformer(config: FeedbackConfig) -> FeedbackTransformer:
    attention = FeedbackAttention(
        config.heads,
        config.d_model,
        config.dropout_prob,
        is_kv_precomputed=config.shared_kv,
        max_distance=config.max_len,
    )
    d_ff = 4 * config.d_model if config.d_ff is None else config.d_ff
    layer = FeedbackTransformerLayer(
        d_model=config.d_model,
        attn=attention,
        feed_forward=FeedForward(config.d_model, d_ff, config.dropout_prob),
        dropout_prob=config.dropout_prob,
    )
    if not config.shared_kv:
        return FeedbackTransformer(
            layer,
            config.n_layers,
            horizon=config.max_len,
            norm_memory=config.norm_memory,
        )
    return FeedbackTransformerKV(
        layer,
        config.n_layers,
        config.d_model,
        config.heads,
        horizon=config.max_len,
        norm_memory=config.norm_memory,
    )


# ## Exercises
#
# **1.** How many numbers does the model remember of a text of a million tokens? Let it
# read, and look at its state.
#
# <details><summary>Answer</summary>
#
# A key and a value of $C$ numbers for each of the last $\tau$ steps, $2 \tau C$, and
# not one more. A transformer of $L$ layers with a context as long keeps $2 \tau L C$.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 65, "d_model": 12, "heads": 3, "n_layers": 4, "max_len": 8}
# model = FeedbackLanguageModel.from_config(config).eval()
#
# def numbers(state):
#     return state.keys.rows.numel() + state.values.rows.numel()
#
# kept, state = [], None
# for piece in torch.randint(65, (24, 1)).split(6):
#     _, state = model(piece, state)
#     kept.append(numbers(state))
# assert kept == [2 * 6 * 12] + 3 * [2 * 8 * 12]
# ```
#
# </details>
#
# **2.** Measure the loss on a text that is too long to be read at once.
#
# <details><summary>Answer</summary>
#
# Read piece after piece, hand the state on, and add up losses, each times the number of
# its tokens: the last piece may be shorter. The sum is that of the whole text, to the
# last digits. Who forgets the state measures a model with a memory of one piece.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 65, "d_model": 12, "heads": 3, "n_layers": 2, "max_len": 8}
# model = FeedbackLanguageModel.from_config(config).double().eval()
# for parameter in model.parameters():
#     torch.nn.init.normal_(parameter, std=0.4)  # let it have opinions
# text = torch.randint(65, (18, 2))
# tokens, targets = text[:-1], text[1:]
#
# def in_pieces(keep_state):
#     total, state = 0.0, None
#     for piece, answer in zip(tokens.split(7), targets.split(7), strict=True):
#         logits, read = model(piece, state)
#         total += model.loss_of(logits, answer) * answer.numel()
#         state = read if keep_state else None
#     return total / targets.numel()
#
# torch.testing.assert_close(in_pieces(keep_state=True), model.loss(tokens, targets))
# assert (in_pieces(keep_state=False) - model.loss(tokens, targets)).abs() > 1e-3
# ```
#
# </details>
#
# **3.** How many parameters has the model with the default sizes and 65 tokens? What do
# the tables of distances add for each row that memory may have?
#
# <details><summary>Answer</summary>
#
# Each layer has two maps of attention, $2 C^2 + C$, the vector $u$, $C$, a network of
# $8 C^2 + 5 C$ and two norms. The model has $W_K$ and $W_V$ for all layers, a norm for
# memory and one for the output, $L + 1$ weights $w$, and $V C$ numbers in its table. A
# distance costs $C + H$ numbers in each layer: at $\tau = 256$ that is 16 % of the
# whole.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# def counted(max_len):
#     model = FeedbackLanguageModel.from_config({"n_vocab": 65, "max_len": max_len})
#     return sum(p.numel() for p in model.parameters())
#
# C, H, L, V = 128, 4, 4, 65
# layers = L * (10 * C**2 + 11 * C)
# around = 2 * C**2 + 4 * C + (L + 1) + V * C
# tables = 256 * L * (C + H)
# with torch.device("meta"):
#     assert counted(max_len=256) == layers + around + tables == 837_765
#     assert counted(max_len=257) - counted(max_len=256) == L * (C + H)
# assert round(tables / 837_765, 2) == 0.16
# ```
#
# </details>
