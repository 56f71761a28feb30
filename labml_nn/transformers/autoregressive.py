r"""
---
title: Autoregressive transformer (GPT)
summary: >
  A model that continues texts, whole: it predicts the next token, looks only back, and
  keeps what it has read in a cache when it writes.
paper: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
notebook: notebooks/autoregressive.ipynb
---

You type *to be or not to*, and your phone suggests *be*. How does it know? On this page
we build a model that completes texts in this way, as GPT does. It is one half of the
[Transformer](models.py): it has no question to read, only a text to continue.

**A text is its own label.** The model reads **tokens**, which are words here. After
each token it has to predict the next one:

| position $t$ | 0 | 1 | 2 | 3 |
|:--|:--|:--|:--|:--|
| input | to | be | or | not |
| label | be | or | not | to |

The labels are the inputs, shifted by one. So nobody has to write them down, and every
text in the world is training data. A text of five tokens gives us four predictions.

**From predictions to a text.** Suppose the model gives the four labels the
probabilities 0.5, 0.1, 0.4 and 0.5. How probable is the whole text, once we have the
first word? Each prediction already knows all words before it, so we multiply: $0.5
\cdot 0.1 \cdot 0.4 \cdot 0.5 = 0.01$. This is the chain rule of probability. A model
that predicts each token from all tokens before it is called **autoregressive**:

$$p(w_1, \dots, w_T \mid w_0) = \prod_{t=0}^{T-1} p(w_{t+1} \mid w_0, \dots, w_t)$$

**How good is it?** A product of a thousand probabilities is too small for a computer.
So we take the logarithm, which turns the product into a sum, and divide by the number
of predictions. The [loss](../language_model.py) is the mean of $-\ln p$:

$$\frac{0.693 + 2.303 + 0.916 + 0.693}{4} = 1.151 \text{ nats}$$

It is the same as $-\ln(0.01) / 4$. And $e^{1.151} = 3.16$, so the model is as unsure as
if it had to choose among about three equally likely words. This is its **perplexity**.
What would guessing cost? With 65 tokens, as many as there are characters in our corpus,
each has the probability $1 / 65$, and the loss is $\ln 65 = 4.17$.

## What is inside

Each token becomes a vector of $C$ numbers, its **features**: a learned vector for the
token, the *embedding*, plus one for its [position](positional_encoding.py). Then $L$
**layers** work on the features. In each of them
[self-attention](mha.py) lets a token collect information from the tokens before it, and
a small [feed-forward network](feed_forward.py) works on what it has collected. At the
end we compare the features with each token of the vocabulary. That gives a number for
each, its **logit**. A softmax makes probabilities of them ([@liu2018generating, §4.2.3;
@radford2018improving]).

![The autoregressive transformer, and its causal mask for five
tokens.](figure:autoregressive.diagram)

**Is it allowed to look ahead?** In training the whole text lies before the model. At
*not* it must predict *to*, and *to* stands right beside it. If attention could see it,
the model would only learn to copy. So a **causal mask** hides everything that comes
later: position $t$ may attend to position $s$ only if $s \le t$. In the picture, each
row has only what stands to its left and itself. This is also why training is fast. One
pass gives all four predictions, and each of them has seen nothing but its own past. A
[recurrent network](../recurrent/elman/__init__.py) needs one step after the other for
that.

**How does it write?** It predicts, you [choose](../sampling.py) a token with these
probabilities, append it, and let the model predict again. But the old tokens would be
computed anew each time. Must they? No. Because of the mask, nothing that comes later
changes them. So we keep the keys and values of each layer in a **KV cache**, and each
new token is a single query that looks at them. Here the cache is the **state** that
`forward` returns and takes:

```python
import math
import torch
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
)

model = AutoregressiveTransformer(AutoregressiveConfig(n_vocab=65)).eval()
tokens = torch.randint(65, (200, 2))  # 200 tokens of two texts, [T, B]

loss = model.loss(tokens[:-1], tokens[1:])  # labels: the same texts, shifted by one
assert abs(loss - math.log(65)) < 0.3  # a new model guesses

logits, state = model(tokens[:-1])
assert logits.shape == (199, 2, 65)  # [T, B, V]
last, state = model(tokens[-1:], state)  # one more token, with the cache
torch.testing.assert_close(last, model(tokens)[0][-1:], rtol=1e-4, atol=1e-4)
```

**What it gains, and what it costs.** All positions are trained at once, and a token
reaches any earlier one in a single layer. But writing takes one pass for each token.
And attention compares every token with every earlier one, so a text twice as long costs
four times as much there. That is why the context has an end, `max_len`.

## Does it work?

Three layers, trained on the plays of Shakespeare for two minutes, character by
character, write like this:

> Must better like at the face is not,\
> And not will should the grace as in this

The loss fell from 4.17 to 1.62 nats. You see words and lines, and hardly any sense. The
[results](../../results.md) compare it with the other models of this site.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
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
from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.models import Encoder, Generator, TransformerLayer
from labml_nn.transformers.modern import (
    QKNormAttention,
    RMSNorm,
    RotaryMultiHeadAttention,
    RotaryQKNormAttention,
    check_pairs,
)
from labml_nn.transformers.positional_encoding import get_positional_encoding
from labml_nn.transformers.sliding_window import SlidingWindow, run_in_window
from labml_nn.transformers.utils import subsequent_mask

__all__ = [
    "AutoregressiveConfig",
    "AutoregressiveTransformer",
    "SlidingWindow",
    "TokenAndPositionEmbedding",
]


class TokenAndPositionEmbedding(nn.Module):
    r"""
    ## Embedding

    $$x^0_t = \operatorname{Dropout}\left(\sqrt{C} \; E_{w_t} + P_{p_t}\right)$$

    *To* becomes its row of the table $E$, and the vector of its position is added. You
    can choose [sinusoids](positional_encoding.py) or a learned table $P$. With rotary
    positions nothing is added here, because [each attention](modern.py) rotates its
    queries and keys. And with none? The model can still learn the order, because each
    token sees another number of tokens ([@haviv2022transformer]).

    Why are positions an argument? They are not always 0, 1, 2, and so on. Padding takes
    up no position, cached tokens come first, and positions begin again when the
    [window slides](sliding_window.py).
    """

    table: Tensor | None

    def __init__(self, config: "AutoregressiveConfig") -> None:
        """`config` has the sizes of both tables and the kind of positions."""
        super().__init__()
        size = config.max_len, config.d_model
        self.tokens = nn.Embedding(config.n_vocab, config.d_model)
        if config.positions == "learned":
            self.table = nn.Parameter(torch.zeros(size))
        elif config.positions == "sinusoidal":
            dtype = torch.get_default_dtype()
            table = get_positional_encoding(*reversed(size), dtype=dtype)
            self.register_buffer("table", table.view(size), persistent=False)
        else:
            self.table = None

        # The factor $\sqrt{C}$ comes from the first Transformer, where it brings the
        # embeddings to the size of the sinusoids. Here it does not: embeddings start
        # with a standard deviation of 0.02, so with $C = 128$ it makes them 0.23, and
        # sinusoids have 0.71. Training then changes the size of the embeddings.
        self.scale = math.sqrt(config.d_model)
        self.norm: nn.Module = nn.Identity()
        if config.embedding_norm:
            self.norm = NORMS[config.norm](config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)

    def reset_tables(self) -> None:
        """Fills the sinusoids again, after `to_empty` has given the table new
        memory."""
        if self.table is not None and not isinstance(self.table, nn.Parameter):
            max_len, d_model = self.table.shape
            self.table.copy_(get_positional_encoding(d_model, max_len).flatten(1))

    def forward(
        self, tokens: Int[Tensor, "T B"], positions: Int[Tensor, "T #B"]
    ) -> Float[Tensor, "T B C"]:
        x = self.tokens(tokens) * self.scale
        if self.table is not None:
            x = x + F.embedding(positions, self.table)
        embedded: Tensor = self.dropout(self.norm(x))
        return embedded


def build_layer(config: "AutoregressiveConfig") -> TransformerLayer:
    r"""
    ## One layer

    You know it from the [encoder](models.py#TransformerLayer): self-attention, then the
    feed-forward network, each added to its input and normalised first (pre-norm), as in
    GPT-2. Rotary positions and QK-norm are subclasses of `MultiHeadAttention`.
    """
    attention = QKNormAttention if config.qk_norm else MultiHeadAttention
    if config.positions == "rotary":
        attention = ROTARY[attention]
    return TransformerLayer(
        d_model=config.d_model,
        self_attn=attention(
            config.heads,
            config.d_model,
            config.dropout_prob,
            config.bias,
            d_k=config.d_k,
            d_v=config.d_v,
        ),
        feed_forward=FeedForward(
            config.d_model,
            config.feed_forward_size,
            config.dropout_prob,
            ACTIVATIONS[config.activation](),
            bias1=config.bias,
            bias2=config.bias,
        ),
        dropout_prob=config.dropout_prob,
        norm_first=config.norm_first,
        norm=NORMS[config.norm],
    )


# The values of the configuration's options, and the classes that they select.
Positions = Literal["sinusoidal", "learned", "rotary", "none"]
Norm = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "silu", "squared_relu"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "squared_relu": SquaredReLU,
}
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}
ROTARY: dict[type[MultiHeadAttention], type[MultiHeadAttention]] = {
    MultiHeadAttention: RotaryMultiHeadAttention,
    QKNormAttention: RotaryQKNormAttention,
}


@dataclass(frozen=True, kw_only=True)
class AutoregressiveConfig(LanguageModelConfig):
    r"""
    ## Configuration

    * `d_model`: features of a position, $C$
    * `heads`: attention heads, $H$
    * `d_k`, `d_v`: features of a head for queries and keys, and for values; by default
      $C / H$
    * `d_ff`: hidden features of the feed-forward networks, $F$; by default $4 C$
    * `n_layers`: layers, $L$
    * `max_len`: length of the context; longer sequences use a
      [sliding window](sliding_window.py)
    * `positions`: `"sinusoidal"`, `"learned"`, `"rotary"` or `"none"`
    * `dropout_prob`: dropout probability of embeddings, attention weights, hidden
      features, and the output of each sub-layer
    * `norm_first`: normalise before each sub-layer (pre-norm), or after each sum as in
      the first Transformer (`False`, post-norm)
    * `norm`: `"layer"` or `"rms"`
    * `qk_norm`: whether to normalise queries and keys
    * `activation`: `"relu"`, `"gelu"`, `"silu"` or `"squared_relu"`
    * `bias`: whether the linear maps of the layers have biases
    * `embedding_norm`: whether to normalise the embedded tokens
    * `tied`: whether the embedding and the output share their matrix
    * `zero_init`: whether the last matrix of each sub-layer starts at zero

    The other fields are those of `LanguageModelConfig`; without `init_lower` and
    `init_upper` parameters are initialised as in GPT-2. The defaults make a small
    character model with 0.8 million parameters.

    ![Parameters and multiplications of each component, with a full
    context.](figure:counts.autoregressive)
    """

    d_model: int = 128
    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    d_ff: int | None = None
    n_layers: int = 4
    max_len: int = 256
    positions: Positions = "sinusoidal"
    dropout_prob: float = 0.1
    norm_first: bool = True
    norm: Norm = "layer"
    qk_norm: bool = False
    activation: Activation = "relu"
    bias: bool = True
    embedding_norm: bool = False
    tied: bool = True
    zero_init: bool = False

    #
    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = ["d_model", "heads", "n_layers", "max_len"]
        sizes += [n for n in ("d_k", "d_v", "d_ff") if getattr(self, n) is not None]
        check_sizes(**{name: getattr(self, name) for name in sizes})
        if self.d_k is None or self.d_v is None:
            check_heads(self.heads, self.d_model)
        check_probability(dropout_prob=self.dropout_prob)
        if self.positions == "rotary":
            check_pairs(self.d_model // self.heads if self.d_k is None else self.d_k)

    @property
    def feed_forward_size(self) -> int:
        """Returns $F$."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff


class AutoregressiveTransformer(LanguageModel[SlidingWindow]):
    r"""
    ## Autoregressive transformer

    The three parts of the picture: embedding, layers, logits. How to train, save, load
    and [write](../sampling.py) is the same for every [language
    model](../language_model.py), and stands there.
    """

    name = "autoregressive"
    Config = AutoregressiveConfig
    config: AutoregressiveConfig

    def __init__(self, config: AutoregressiveConfig) -> None:
        super().__init__(config)
        self.embedding = TokenAndPositionEmbedding(config)

        # Why an `Encoder`, when everybody calls GPT a *decoder*? Without a source there
        # is no cross-attention, so its layers are those of an [encoder](models.py). It
        # is the causal mask that makes a decoder of it. Pre-norm layers never normalise
        # their sum, so one normalisation follows the last layer.
        self.stack = Encoder(
            build_layer(config),
            config.n_layers,
            final_norm=config.norm_first,
            norm=NORMS[config.norm],
        )

        # ### Weight tying
        #
        # How do we get a logit for *be*? We compare the last features with a vector
        # that stands for *be*, by a dot product. We already have such a vector: its
        # embedding. So both ends of the model can share one table
        # ([@vaswani2017attention, §3.4; @press2017using]):
        #
        # $$z_{tv} = x^L_t \cdot E_v + b_v$$
        #
        # This saves $V C$ parameters. And every embedding learns at every position, not
        # only where its token is read.
        self.generator = Generator(config.n_vocab, config.d_model)
        if config.tied:
            self.generator.projection.weight = self.embedding.tokens.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""
        ### Initialisation

        A new model should guess. So we draw matrices and tables with a small standard
        deviation, 0.02, and set biases to zero ([@radford2018improving, §4.1]). Then
        all logits are small, and the first loss is close to $\ln V$.

        A token passes $2 L$ sub-layers, and each adds something to its features. If the
        model is deep, that is a lot. So the last matrix of each sub-layer is divided by
        $\sqrt{2 L}$ ([@radford2019language, §2.3]), and the variances of all outputs
        add up to the same sum for every depth. With `zero_init` these matrices start at
        zero, and each layer begins by changing nothing ([@zhang2019fixup]). With
        `init_lower` and `init_upper` all other matrices and tables are uniform in that
        range, and with `init_biases` the biases, too.
        """
        config = self.config
        self.init_uniform()
        for name, parameter in self.named_parameters():
            last = name.endswith(
                ("self_attn.output.weight", "feed_forward.layer2.weight")
            )
            is_bias = name.endswith("bias") and not config.init_biases
            if is_bias or (last and config.zero_init):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1 and config.init_bounds is None:
                std = 0.02 / math.sqrt(2 * config.n_layers) if last else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: SlidingWindow | None = None
    ) -> tuple[Float[Tensor, "T B V"], SlidingWindow]:
        r"""
        ### Forward pass

        * `tokens`: any number of tokens, `[T, B]`; they continue where `state` ends
        * `state`: what the previous call returned, `None` at the beginning. You can
          continue from the same state twice

        Returns the logits of the token after each position, `[T, B, V]`, and the state
        after the last one, detached. You may pass *to be or not* at once or word by
        word, the logits are the same. For a text longer than `max_len` the context is a
        [sliding window](sliding_window.py). Padding may stand anywhere, and the other
        tokens do not notice it. The logits at padding mean nothing.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, SlidingWindow, tokens)
        x, state = run_in_window(
            self.run_layers,
            tokens,
            state,
            n_layers=self.config.n_layers,
            max_len=self.config.max_len,
            padding_token=self.config.padding_token,
        )
        logits: Tensor = self.generator(x)
        return logits, state

    def run_layers(
        self,
        tokens: Int[Tensor, "T B"],
        positions: Int[Tensor, "T #B"],
        real: Bool[Tensor, "S B"] | None,
        caches: list[KVCache],
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### Layers with a causal mask

        * `tokens`, `positions`: the new tokens and where they stand
        * `real`: `False` for padding among all $S$ tokens of the context, cached and
          new; `None` if the vocabulary has no padding token
        * `caches`: one for each layer, which appends the new keys and values

        Training and writing are the same code. In training nothing is cached, so $S =
        T$. In writing there is one new token, $T = 1$, and all others are in the cache.
        """
        # The new tokens are the last $T$ of $S$, so their rows are the last rows of the
        # causal mask, $M_{ts} = [\, s \le t \,]$. A single new token may attend to all
        # that came before it, and needs no mask.
        T, S = tokens.shape[0], tokens.shape[0]
        if caches[0].keys is not None:
            S += caches[0].keys.shape[0]
        mask: Tensor | None = None
        if T > 1:
            mask = subsequent_mask(S, device=tokens.device)
            mask = mask if T == S else mask[-T:]
        if real is not None:
            mask = real.unsqueeze(0) if mask is None else mask & real

        x = self.embedding(tokens, positions)
        output: Tensor = self.stack(x, mask, caches=caches)
        return output


# ## Symbols
#
# <details><summary>Symbols, their code and shapes</summary>
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $w$ | `tokens` | `[T, B]` | input tokens, from 0 to $V - 1$ |
# | $p$ | `positions` | `[T, B\|1]` | position of each token within the context |
# | $E$ | `embedding.tokens.weight` | `[V, C]` | token embeddings |
# | $P$ | `embedding.table` | `[max_len, C]` | position embeddings |
# | $x^l$ | `x` of `run_layers` | `[T, B, C]` | features after $l$ layers |
# | $M$ | `mask` of `run_layers` | `[T, S, B\|1]` | causal mask, `True` = may attend |
# | $K^l$, $V^l$ | `state.layers[l]` | `[S, B, H, D]` | KV cache of layer $l$ |
# | $z$ | `logits` | `[T, B, V]` | scores of the next token |
# | $L$, $H$ | `config.n_layers`, `config.heads` | | layers, heads |
#
# </details>
#
# ## Pseudo-code
#
# $$\begin{array}{l}
# \textbf{procedure } \text{Forward}(w_{0 \dots T-1}, (K^l, V^l)_{l = 1 \dots L}) \\
# \quad x \gets \sqrt{C} \, E_w + P_p \\
# \quad \textbf{for } l = 1, \dots, L \\
# \quad\quad q, k, v \gets \text{heads of } \text{norm}(x) W^Q_l,\; \text{norm}(x)
#       W^K_l,\; \text{norm}(x) W^V_l \\
# \quad\quad K^l, V^l \gets [K^l; k],\; [V^l; v] \\
# \quad\quad x \gets x + \text{softmax}\left(q {K^l}^\top / \sqrt{d_k} \text{ where }
#       M\right) V^l \, W^O_l \\
# \quad\quad x \gets x + f\left(\text{norm}(x) W^{(1)}_l\right) W^{(2)}_l \\
# \quad \textbf{return } \text{norm}(x) E^\top + b,\; (K^l, V^l)_{l = 1 \dots L}
# \end{array}$$
#
# | Parameter | Elements | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | token embeddings, tied | $V C$ | | $x$ | `[T, B, C]` |
# | learned positions | `max_len` $\cdot\, C$ | | $q$, $k$, $v$ | `[T, B, H, D]` |
# | attention, a layer | $4 C^2 + 4 C$ | | $K^l$, $V^l$ | `[S, B, H, D]` |
# | feed-forward, a layer | $2 C F + F + C$ | | scores | `[T, S, B, H]` |
# | normalisations | $2 C$ each, $2 L + 1$ of them | | hidden | `[T, B, F]` |
# | output bias | $V$ | | logits | `[T, B, V]` |
#
# ## Cost
#
# With $F = 4 C$ a layer has $12 C^2$ weights, and each is multiplied once per token.
# Attention adds $2 S C$ multiplications per token and layer. So it is the larger part
# only if the context is longer than $6 C$. For example, GPT-2 small has $C = 768$, so
# that would be more than 4,608 tokens, and it reads 1,024.
#
# | $T$ tokens | Layers, one after the other | Multiplications |
# |:--|--:|:--|
# | training | $L$ | $L \, (12 T C^2 + 2 T^2 C)$ |
# | generation, recomputed | $L \, T$ | $L \sum_t (12 t C^2 + 2 t^2 C)$ |
# | generation, KV cache | $L \, T$ | $L \sum_t (12 C^2 + 2 t C)$ |
#
# The cache makes token $t$ cheaper by a factor of $t$, and takes $2 L C$ numbers
# of memory per token. [A compiled step](../kernels/decoding.py) writes faster still.
#
# ## Differences from GPT-2
#
# Compared with [@radford2019language, §2.3] and the authors'
# [code](https://github.com/openai/gpt-2):
#
# * **Scaled embeddings.** The factor $\sqrt{C}$ is the Transformer's; GPT-2 adds tokens
#   and positions as they are. For that, set `model.embedding.scale = 1.0`.
# * **Sinusoidal positions** by default. GPT-2 learns them, from an initial standard
#   deviation of 0.01, not 0.02.
# * **ReLU** by default, where GPT-2 has GELU, and a **bias** in the output layer. It is
#   gone with `model.generator.projection.bias = None`.
# * **Longer sequences** use a sliding window. GPT-2 ends at 1,024 tokens.
# * **[Later models](modern.py)** have rotary positions, RMSNorm, QK-norm, SiLU or
#   squared ReLU, and no biases. Each can be selected independently.
#
# ## Exercises
#
# **1.** The first loss of a new model is slightly *above* $\ln V$ with tied weights,
# and hardly at all without. Which token does a tied model prefer before training?
#
# <details><summary>Answer</summary>
#
# The token it has just read. The layers add little at initialisation, so the last
# features still point in the direction of $E_{w_t}$, with which the output compares
# each $E_v$.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.mha import MultiHeadAttention
# from labml_nn.transformers.models import Encoder, Generator, TransformerLayer
# from labml_nn.transformers.utils import subsequent_mask
#
# layer = TransformerLayer(
#     d_model=128,
#     self_attn=MultiHeadAttention(4, 128),
#     feed_forward=FeedForward(128, 512),
#     dropout_prob=0.1,
# )
# stack, embedding = Encoder(layer, 4), nn.Embedding(65, 128)
# generator = Generator(65, 128)
# for parameter in nn.ModuleList([stack, embedding, generator]).eval().parameters():
#     if parameter.dim() == 2:
#         nn.init.normal_(parameter, std=0.02)
# tokens = torch.randint(65, (50, 4))
#
# def repeated():  # how probable is the token just read, compared with guessing?
#     x = stack(128**0.5 * embedding(tokens), subsequent_mask(50))
#     return 65 * generator(x).softmax(-1).gather(-1, tokens[:, :, None]).mean()
#
# assert repeated() < 2
# generator.projection.weight = embedding.weight
# assert repeated() > 4
# ```
#
# </details>
