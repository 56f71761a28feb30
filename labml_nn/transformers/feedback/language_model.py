r"""
---
title: Feedback language model
summary: >
  An autoregressive language model around a feedback transformer: token embeddings,
  logits from the same table, and a state that holds a fixed number of memory slots.
paper: https://arxiv.org/abs/2002.09402
---

A [feedback transformer](index.html) maps vectors to vectors. A language model needs two
more maps: from tokens to vectors, and from outputs to logits of the next token. Both
use the same table $E$ here (*tied* embeddings): row $v$ is the embedding of token $v$,
and the direction in which an output must point to predict it.

\begin{align}
x_t^0 &= \sqrt{C} \; E_{w_t} \\
y_t, \; m &= \operatorname{FeedbackTransformer}(x_t^0, \; m) \\
z_t &= E \, y_t, \qquad p(w_{t+1} \mid w_0, \dots, w_t) = \operatorname{softmax}(z_t)
\end{align}

There is no positional encoding: attention knows the distance of each memory slot, which
is sufficient.

**The state is the memory.** The model keeps the last $\tau$ slots, which the paper
calls the *horizon* and all models here `max_len`. Hence the work per token is constant.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | token ids of $B$ sequences |
| $E$ | `embed.weight` | `[V, C]` | one embedding per token |
| $x^0$ | `x_seq` | `[T, B, C]` | embedded tokens |
| $y$ | `outputs` | `[T, B, C]` | outputs of the transformer |
| $z$ | `logits` | `[T, B, V]` | logits of the next token |
| $m$ | `state` | | memory, at most $\tau$ slots |
| $\tau$ | `max_len` | | number of slots |
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import (
    check_heads,
    check_probability,
    check_sizes,
    check_state,
    check_tokens,
)
from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)


@dataclass(frozen=True, kw_only=True)
class FeedbackConfig(LanguageModelConfig):
    r"""
    ## Configuration

    The defaults give a small model of characters.

    * `d_model` is the number of features, $C$
    * `heads` is the number of heads, $H$; it divides `d_model`
    * `d_ff` is the number of hidden features of the feed-forward networks, $F$; `None`
      makes it $4 C$
    * `n_layers` is the number of layers, $L$
    * `dropout_prob` is the dropout probability of embeddings, attention weights, hidden
      features and what each sub-layer adds
    * `max_len` is the number of memory slots, $\tau$, and of distances with parameters
    * `shared_kv` is whether all layers share one projection of memory to keys and
      values (`FeedbackTransformerKV`) or have their own (`FeedbackTransformer`)
    * `norm_memory` is whether memory vectors are normalized
    * `tied` is whether embeddings and logits share one table
    * `n_vocab`, `padding_token`, `label_smoothing`, `init_lower` and `init_upper` are
      those of all models
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


class FeedbackLanguageModel(LanguageModel[FeedbackMemory]):
    r"""
    ## Language model

    It has the interface of [all language models](../../language_model.py) here.
    """

    name = "feedback"
    Config = FeedbackConfig
    config: FeedbackConfig

    def __init__(self, config: FeedbackConfig) -> None:
        "`config` holds all hyperparameters."
        super().__init__(config)
        self.embed = nn.Embedding(config.n_vocab, config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)
        self.transformer = feedback_transformer(config)
        self.output: nn.Linear | None = None
        if not config.tied:
            self.output = nn.Linear(config.d_model, config.n_vocab, bias=False)
        self.reset_parameters()
        self.init_uniform()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        r"""
        ### Initialization

        All matrices are normal with standard deviation 0.02, and biases zero. The last
        map of each sub-layer is divided by $\sqrt{2 L}$, because a step adds up $2 L$
        of their outputs: the sum is then no larger than one of them
        ([@radford2019language, §2.3]).

        With $C = 64$, $L = 2$ and 200 updates on 48 characters of Shakespeare at a
        time, the validation loss was 2.36 with this initialization, and 2.56 with
        PyTorch's own and embeddings of variance 1.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for layer in self.transformer.layers:
            assert isinstance(layer, FeedbackTransformerLayer)
            assert isinstance(layer.feed_forward, FeedForward)
            for last in (layer.attn.output, layer.feed_forward.layer2):
                last.weight.div_(math.sqrt(2 * self.config.n_layers))

    def forward(
        self, tokens: Int[Tensor, "T B"], state: FeedbackMemory | None = None
    ) -> tuple[Float[Tensor, "T B V"], FeedbackMemory]:
        r"""
        ### Logits

        * `tokens` is a batch of sequences, or of their next chunks, `[T, B]`. Padding
          may be anywhere: it is not remembered, and its own logits are zero
        * `state` is what was returned with the chunks before; `None` at the beginning

        Returns the logits of the token after each position, `[T, B, V]`, and the memory
        after the last one, detached.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, FeedbackMemory, tokens)
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding

        x_seq: Tensor = self.dropout(
            self.embed(tokens) * math.sqrt(self.config.d_model)
        )
        outputs, memory = self.transformer.scan(x_seq, state, mask=mask)
        table = self.embed if self.output is None else self.output
        logits = F.linear(outputs, table.weight)
        return logits, memory.detach()


def feedback_transformer(config: FeedbackConfig) -> FeedbackTransformer:
    r"""
    ## The transformer of a configuration
    """
    d_model, heads = config.d_model, config.heads
    d_ff = 4 * d_model if config.d_ff is None else config.d_ff
    layer = FeedbackTransformerLayer(
        d_model=d_model,
        attn=FeedbackAttention(
            heads,
            d_model,
            config.dropout_prob,
            is_kv_precomputed=config.shared_kv,
            max_distance=config.max_len,
        ),
        feed_forward=FeedForward(d_model, d_ff, config.dropout_prob),
        dropout_prob=config.dropout_prob,
    )
    horizon, norm_memory = config.max_len, config.norm_memory
    if not config.shared_kv:
        return FeedbackTransformer(
            layer, config.n_layers, horizon=horizon, norm_memory=norm_memory
        )
    return FeedbackTransformerKV(
        layer, config.n_layers, d_model, heads, horizon=horizon, norm_memory=norm_memory
    )
