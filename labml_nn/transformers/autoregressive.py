r"""
---
title: Autoregressive transformer (GPT)
summary: >
  A decoder-only language model, whole: next-token prediction with a causal mask,
  generation with a KV cache, and the options of GPT-2 and its successors.
paper: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
notebook: notebooks/autoregressive.ipynb
---

> *To be, or not to be, that is the questio*

**Next-token prediction** turns any text into training data without labels: the target
at every position is the token that follows. An *autoregressive* model predicts each
token from all tokens before it, which by the chain rule of probability gives the
probability of a whole sequence:

$$p(w_0, \dots, w_{T-1}) = \prod_{t=0}^{T-1} p(w_t \mid w_0, \dots, w_{t-1})$$

GPT is the [Transformer](models.py) reduced to one stack ([@liu2018generating, §4.2.3;
@radford2018improving]): there is no source, hence no encoder and no cross-attention.
Tokens are embedded, $L$ layers of self-attention and feed-forward network refine the
features of each position, and a linear map turns the last features $x^L_t$ into logits
for the token that follows.

![The autoregressive transformer, and its causal mask for five
tokens.](figure:autoregressive.diagram)

**Causal mask.** The logits at position $t$ must not depend on $w_{t+1}$, the token that
they predict. So query $t$ may attend to key $s$ only if $s \le t$. With this mask one
forward pass gives a prediction at every position, each from its own past: a sequence of
$T + 1$ tokens yields $T$ training examples computed in parallel, where a recurrent
network needs $T$ sequential steps.

**Loss.** The [average negative log-likelihood](../language_model.py) of the targets
$y_t = w_{t+1}$. A model that assigns equal probability to all $V$ tokens has
$\mathcal{L} = \ln V$, 4.17 nats per token for 65 characters.

**Generation and the KV cache.** In generation the next input is the token that was just
sampled, so tokens are computed one after the other. Because of the causal mask the keys
and values of old tokens [stay valid](mha.py) when the sequence grows. They are cached,
as the **state** that `forward` returns and accepts: a new token is one query against
$S$ keys.

```python
import math
import torch
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
)

model = AutoregressiveTransformer(AutoregressiveConfig(n_vocab=65)).eval()
tokens = torch.randint(65, (200, 2))  # [T, B]

loss = model.loss(tokens[:-1], tokens[1:])  # targets: the same sequence, shifted by one
assert abs(loss - math.log(65)) < 0.3

logits, state = model(tokens[:-1])
assert logits.shape == (199, 2, 65)  # [T, B, V]
last, state = model(tokens[-1:], state)  # one more token, with cached keys and values
torch.testing.assert_close(last, model(tokens)[0][-1:], rtol=1e-4, atol=1e-4)
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | input tokens, from 0 to $V - 1$ |
| $p$ | `positions` | `[T, B\|1]` | position of each token within the context |
| $E$ | `embedding.tokens.weight` | `[V, C]` | token embeddings |
| $P$ | `embedding.table` | `[max_len, C]` | position embeddings |
| $x^l$ | `x` of `run_layers` | `[T, B, C]` | features after $l$ layers |
| $M$ | `mask` of `run_layers` | `[T, S, B\|1]` | causal mask, `True` = may attend |
| $K^l$, $V^l$ | `state.layers[l]` | `[S, B, H, D]` | KV cache of layer $l$ |
| $z$ | `logits` | `[T, B, V]` | scores of the next token |
| $L$, $H$ | `config.n_layers`, `config.heads` | | layers, heads |
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

    Each position adds a vector of its own: [sinusoids](positional_encoding.py) or a
    learned table. Rotary positions add nothing here; [each attention](modern.py)
    rotates its queries and keys. With none, the causal mask still lets the model learn
    order ([@haviv2022transformer]).

    Positions are an argument: padding takes up none, cached tokens come first, and
    positions restart when the [window slides](sliding_window.py).
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
            table = get_positional_encoding(config.d_model, config.max_len)
            self.register_buffer("table", table.view(size), persistent=False)
        else:
            self.table = None

        # The factor $\sqrt{C}$ is that of the original Transformer, where it brings the
        # embeddings to the size of the sinusoids.
        self.scale = math.sqrt(config.d_model)
        self.norm: nn.Module = nn.Identity()
        if config.embedding_norm:
            self.norm = NORMS[config.norm](config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)

    def reset_tables(self) -> None:
        """Computes the sinusoids again, after `to_empty` has left other numbers."""
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

    A [layer of an encoder](models.py), pre-norm as in GPT-2: self-attention and
    feed-forward network. Rotary positions and QK-norm are subclasses of
    `MultiHeadAttention`.
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

    * `d_model` is the number of features of a position, $C$
    * `heads` is the number of attention heads, $H$
    * `d_k`, `d_v` are the features of a head for queries and keys, and for values;
      $C / H$ by default
    * `d_ff` is the number of hidden features of the feed-forward networks, $F$; $4 C$
      by default
    * `n_layers` is the number of layers, $L$
    * `max_len` is the length of the context. Longer sequences use a
      [sliding window](sliding_window.py)
    * `positions` is the positional encoding: `"sinusoidal"`, `"learned"`, `"rotary"` or
      `"none"`
    * `dropout_prob` is the dropout probability of embeddings, attention weights, hidden
      features, and the output of each sub-layer
    * `norm_first` selects pre-norm layers, `False` the post-norm of the Transformer
    * `norm` is `"layer"` or `"rms"`
    * `qk_norm` is whether queries and keys are normalised
    * `activation` is `"relu"`, `"gelu"`, `"silu"` or `"squared_relu"`
    * `bias` is whether the linear maps of the layers have biases
    * `embedding_norm` is whether the embedded tokens are normalised
    * `tied` is whether the embedding and the output share their matrix
    * `zero_init` is whether the last matrix of each sub-layer starts at zero

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

    Training, saving, loading and [generation](../sampling.py) are those of
    every [language model](../language_model.py); this class adds the network.
    """

    name = "autoregressive"
    Config = AutoregressiveConfig
    config: AutoregressiveConfig

    def __init__(self, config: AutoregressiveConfig) -> None:
        super().__init__(config)
        self.embedding = TokenAndPositionEmbedding(config)

        # Without a source, the layers are those of an [encoder](models.py);
        # "decoder-only" means the causal mask. Pre-norm layers leave their sum
        # unnormalised, so one normalisation follows the last.
        self.stack = Encoder(
            build_layer(config),
            config.n_layers,
            final_norm=config.norm_first,
            norm=NORMS[config.norm],
        )

        # ### Weight tying
        #
        # The output scores each token $v$ by how well the last features match a vector
        # for $v$, which can be its embedding ([@vaswani2017attention, §3.4;
        # @press2017using]):
        #
        # $$z_{tv} = x^L_t \cdot E_v + b_v$$
        #
        # This saves $V C$ parameters, and trains every embedding at every position.
        self.generator = Generator(config.n_vocab, config.d_model)
        if config.tied:
            self.generator.projection.weight = self.embedding.tokens.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""
        ### Initialisation

        Matrices and tables are normal with standard deviation 0.02, biases are zero
        ([@radford2018improving, §4.1]). All logits are then small, and the first loss
        is close to $\ln V$.

        The last matrix of each sub-layer is scaled by $1 / \sqrt{2 L}$
        ([@radford2019language, §2.3]): the variances of $2 L$ independent outputs add
        up to the same sum for every depth. With `zero_init` these matrices start at
        zero, and every layer as the identity ([@zhang2019fixup]). With `init_lower` and
        `init_upper` all other matrices and tables are uniform in that range.
        """
        config = self.config
        for name, parameter in self.named_parameters():
            last = name.endswith(
                ("self_attn.output.weight", "feed_forward.layer2.weight")
            )
            if name.endswith("bias") or (last and config.zero_init):
                nn.init.zeros_(parameter)
            elif parameter.dim() < 2:
                continue  # gains of the normalisations stay 1
            elif config.init_lower is not None and config.init_upper is not None:
                nn.init.uniform_(parameter, config.init_lower, config.init_upper)
            else:
                std = 0.02 / math.sqrt(2 * config.n_layers) if last else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: SlidingWindow | None = None
    ) -> tuple[Float[Tensor, "T B V"], SlidingWindow]:
        r"""
        ### Forward pass

        * `tokens` continue where `state` ends, `[T, B]`, any number of them
        * `state` is what the previous call returned, `None` at the beginning. It is a
          value and can be used again

        Returns the logits of the token after each position, `[T, B, V]`, and the state
        after the last one, detached. How a sequence is cut into calls makes no
        difference. The context of one longer than `max_len` is a
        [sliding window](sliding_window.py). `padding_token` may occur anywhere, and has
        no influence on the other tokens of a context; logits at padding are
        meaningless.
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

        * `tokens`, `positions` are the new tokens and where they stand
        * `real` is `False` for padding among all $S$ tokens of the context, cached and
          new; `None` if the vocabulary has no padding token
        * `caches` holds one cache per layer, which appends the new keys and values

        Training (no cached tokens, $S = T$) and generation ($T = 1$) are the same code.
        """
        # $M_{ts} = [\, s \le t \,]$, where the new tokens are the last $T$ of $S$. A
        # single new token may attend to everything and needs no mask.
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
# Attention adds $2 S C$ multiplications per token and layer, so it dominates only if
# the context is longer than $6 C$.
#
# | $T$ tokens | Sequential steps | Multiplications |
# |:--|--:|:--|
# | training | 1 | $L \, (12 T C^2 + 2 T^2 C)$ |
# | generation, recomputed | $T$ | $L \sum_t (12 t C^2 + 2 t^2 C)$ |
# | generation, KV cache | $T$ | $L \sum_t (12 C^2 + 2 t C)$ |
#
# The cache reduces the cost of token $t$ by a factor of about $t$, for $2 L C$ numbers
# of memory per token. [A compiled step](../kernels/decoding.py) generates faster.
#
# ## Differences from GPT-2
#
# Compared with [@radford2019language, §2.3] and the authors'
# [code](https://github.com/openai/gpt-2):
#
# * **Scaled embeddings.** The factor $\sqrt{C}$ is the Transformer's; GPT-2 adds tokens
#   and positions as they are.
# * **Sinusoidal positions** by default. GPT-2 learns them, from an initial standard
#   deviation of 0.01, not 0.02.
# * **ReLU** by default, where GPT-2 has GELU, and a **bias** in the output layer.
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
# import labml_nn
#
# tokens = torch.randint(65, (200, 4))
# for tied in (True, False):
#     config = {"n_vocab": 65, "tied": tied, "positions": "learned"}
#     logits, _ = labml_nn.create("autoregressive", **config).eval()(tokens)
#     repeated = logits.softmax(-1).gather(-1, tokens[:, :, None]).mean()
#     assert (repeated > 4 / 65) if tied else (repeated < 2 / 65)
# ```
#
# </details>
