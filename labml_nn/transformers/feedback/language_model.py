r"""
---
title: Feedback language model
summary: >
  An autoregressive language model around a Feedback Transformer: token embeddings,
  logits from the same table, and a state that holds a fixed number of memory slots.
paper: https://arxiv.org/abs/2002.09402
---

Suppose that you have read "To be, or not to b". Which character comes next? A [Feedback
Transformer](index.html) maps vectors to vectors. To make it answer, we need two more
maps: one from characters to vectors, and one from its outputs to **logits**, a score
for each character of the vocabulary. The softmax of these scores is the prediction.

Both maps can use the same table $E$ (*tied* embeddings). Row $v$ of it has two jobs. It
is the vector that token $v$ enters with, its embedding. And it is the direction in
which an output must point to predict $v$. For example, an output that points along the
row of *e* gives *e* a high logit, because a logit is the dot product of output and row:

\begin{align}
x_t^0 &= \sqrt{C} \; E_{w_t} \\
y_t, \; m &= \operatorname{FeedbackTransformer}(x_t^0, \; m) \\
z_t &= E \, y_t, \qquad p(w_{t+1} \mid w_0, \dots, w_t) = \operatorname{softmax}(z_t)
\end{align}

Do we need to add a positional encoding? No, because attention already knows how far
back each slot lies.

**The state is the memory.** When you continue a text, you pass on the memory that the
model returned. We keep the last $\tau$ slots, which the paper calls the *horizon* and
all models here call `max_len`. So the work for a token stays the same, however long the
text is.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | token ids of $B$ texts |
| $E$ | `embed.weight` | `[V, C]` | one embedding for each token |
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

    * `d_model`: features of a vector, $C$
    * `heads`: attention heads, $H$; their number divides `d_model`
    * `d_ff`: hidden features of the feed-forward networks, $F$; by default $4 C$
    * `n_layers`: layers, $L$
    * `dropout_prob`: dropout probability of embeddings, attention weights, hidden
      features, and what each sub-layer adds
    * `max_len`: memory slots, $\tau$, and distances with their own parameters
    * `shared_kv`: share one projection of memory to keys and values among all layers
      (`FeedbackTransformerKV`), or give each layer its own (`FeedbackTransformer`)
    * `norm_memory`: normalise memory vectors
    * `tied`: use the embeddings for the logits, too, instead of another matrix

    The other fields are those of `LanguageModelConfig`.
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
        super().__init__(config)

        # $E$, and the matrix of the logits, which is $E$ again unless `tied=False`.
        self.embed = nn.Embedding(config.n_vocab, config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)
        self.transformer = feedback_transformer(config)
        self.output = nn.Linear(config.d_model, config.n_vocab, bias=False)
        if config.tied:
            self.output.weight = self.embed.weight
        self.reset_parameters()
        self.init_uniform()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        r"""
        ### Initialisation

        All matrices are normal with standard deviation 0.02, and biases are zero. A
        step adds up $2 L$ outputs of sub-layers. So the last matrix of each is divided
        by $\sqrt{2 L}$, and their sum has the variance of a single one
        ([@radford2019language, §2.3]).

        Does it matter? With $C = 64$, $L = 2$ and 200 updates on 48 characters of
        Shakespeare at a time, the validation loss was 2.36 with this initialisation. It
        was 2.56 with PyTorch's own and embeddings of variance 1.
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

        * `tokens`: a batch of texts, or of their next chunks, `[T, B]`; padding may be
          anywhere
        * `state`: what was returned with the chunks before; `None` at the beginning

        Returns the logits of the token after each position, `[T, B, V]`, and the memory
        after the last one.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, FeedbackMemory, tokens)
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding

        # The entries of $E$ are small, which suits logits. As inputs they should be
        # larger, so we multiply by $\sqrt{C}$.
        x_seq: Tensor = self.dropout(
            self.embed(tokens) * math.sqrt(self.config.d_model)
        )

        # The Feedback Transformer continues the memory. It does not remember padding,
        # whose outputs and logits are zero.
        memory = state or FeedbackMemory()
        outputs, memory = self.transformer(x_seq, memory=memory, mask=mask)

        # Now we compute a logit for each token of the vocabulary.
        logits: Tensor = self.output(outputs)

        # Without `detach` the backward pass of the next chunk would run through this
        # one again. So a chunk learns to use what earlier chunks remember, and not to
        # remember for later ones.
        return logits, memory.detach()


def feedback_transformer(config: FeedbackConfig) -> FeedbackTransformer:
    r"""
    ## Transformer of a configuration

    Here we put the parts of [the lesson](index.html) together.
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


# ## Training
#
# Can a single layer follow the [programs of the lesson](index.html)? A token is a line,
# and after each line the model must say what `x` and `y` are now. This takes two
# seconds:
#
# ```python
# import torch
# from torch.nn import functional as F
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# def programs(count, length=6):
#     "Lines as tokens, `[T, B]`: x = 0 … 3, then y = 0 … 3, then one of two updates."
#     x, y = torch.randint(4, (2, count))
#     tokens, answers = [x, 4 + y], [4 * x, 4 * x + y]
#     for _ in range(length - 2):
#         update = torch.randint(2, (count,))
#         more_x = (update == 0) & (x < y)  # if x < y: x = x + 2
#         more_y = (update == 1) & (y < x)  # if y < x: y = y + 1
#         x, y = (x + 2 * more_x) % 4, (y + 1 * more_y) % 4  # small numbers
#         tokens.append(8 + update)
#         answers.append(4 * x + y)
#     return torch.stack(tokens), torch.stack(answers)
#
# model = FeedbackLanguageModel.from_config(
#     {"n_vocab": 16, "d_model": 32, "n_layers": 1, "max_len": 8, "dropout_prob": 0.0}
# )
# optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
# for _ in range(300):
#     tokens, answers = programs(64)
#     logits, _ = model(tokens)
#     loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten())
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# tokens, answers = programs(500)
# right = model(tokens)[0].argmax(-1) == answers
# print([round(line, 2) for line in right.double().mean(1).tolist()])
# assert right.double().mean() > 0.9
# ```
#
# A text is its own answer: there the targets are the next tokens, and `model.loss` does
# the rest.
