r"""
---
title: Elman network
summary: >
  The simple recurrent network: the hidden state after one step is an input of the next.
  Cell, layer, network and language model on one page.
paper: https://doi.org/10.1207/s15516709cog1402_1
notebook: notebooks/elman.ipynb
---

A feed-forward network maps an input to an output and keeps nothing. To process a
sentence it needs all words at once, in a window of fixed length, with separate weights
for each position. A sentence longer than the window does not fit, and the same phrase,
shifted by one word, meets other weights: what was learned about the pattern at one
position has to be learned anew at the next.

![An Elman network unrolled over three steps. The hidden state of a step is copied to
the context units of the next.](figure:elman.network)

Elman ([-@elman1990finding]) gives the network a memory instead. After each step the
activations of the hidden units, the **hidden state**, are copied unchanged to **context
units**, and at the next step the copy is part of the input, with learned weights $U$.
In code the copy is the variable `h`. (Jordan's earlier network feeds back its *output*,
which holds only what the task asks for.) The weights are shared by all steps, so a
pattern has the same effect wherever it occurs, and a sequence may have any length.

Nothing tells the network what to store. It is trained to predict the next token, and
gradient descent finds which part of the past helps. In the paper the error on a stream
of letters is high at the beginning of a word and falls within it, and so shows where
words begin. The hidden states of another network, averaged for each word and clustered,
separate nouns from verbs: it has learned them from word order alone.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x_t` | `[B, C]` | input at step $t$; all steps are `x`, `[T, B, C]` |
| $h_t$ | `h` | `[B, N]` | hidden state after step $t$ |
| $h_0$ | `h_0` | `[N]` | hidden state before the first step |
| $h_t^l$ | `state` | `[L, B, N]` | the same for each layer $l$ |
| $W$ | `input.weight` | `[N, C]` | input weights |
| $b$ | `input.bias` | `[N]` | bias |
| $U$ | `recurrent.weight` | `[N, N]` | recurrent weights, from the context units |
| $f$ | `nonlinearity` | | activation function, tanh by default |
| $w_t$ | `tokens` | `[T, B]` | tokens of the language model |
| $E$ | `embedding.weight` | `[V, C]` | token embeddings |
| $P$, $r$ | `input_projection` | `[N, C]`, `[N]` | from embeddings to inputs |
| $Q$, $q$ | `output_projection` | `[C, N]`, `[C]` | from states to output features |
| $c$ | `output_bias` | `[V]` | output bias |
| $\hat z_t$ | `logits` | `[T, B, V]` | logits of the next token |

</details>
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_bool, check_known, check_probability, check_sizes
from labml_nn.kernels import reference
from labml_nn.language_model import LanguageModel, LanguageModelConfig

__all__ = ["Elman", "ElmanCell", "ElmanConfig", "ElmanLanguageModel", "ElmanLayer"]

# ## Activation functions
#
# The paper's $f$ is the logistic sigmoid, between 0 and 1. Tanh is the same curve from
# $-1$ to 1, $\tanh(z) = 2 \sigma(2 z) - 1$, with a slope at zero of 1, not 1/4, so that
# gradients shrink less. ReLU has the slope 1 for all $z > 0$, and unbounded states.
#
# Without any $f$ and from $h_0 = 0$, the state $h_t = \sum_{s \le t} U^{t-s} (W x_s +
# b)$ would be an affine function of the inputs, as in a stack of such layers, and could
# not compute an exclusive or ([exercise 1](#exercises)).
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


class ElmanCell(nn.Module):
    r"""
    ## One step

    $$h_t = f(W x_t + U h_{t-1} + b)$$

    $W$ reads the input, $U$ the previous hidden state. Both are the same at every step:
    the $N C + N^2 + N$ parameters do not depend on the length of the sequence, and a
    step costs $N C + N^2$ multiplications, at the first token as at the millionth.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        nonlinearity: str = "tanh",
        bias: bool = True,
    ) -> None:
        """
        * `d_model` is the number of input features, $C$
        * `d_hidden` is the number of hidden units, $N$
        * `nonlinearity` is the name of $f$: `tanh`, `sigmoid` or `relu`
        * `bias` is whether there is a $b$. One is enough; `torch.nn.RNN` has a second
          one beside $U$ for the interface of cuDNN, and only their sum counts
        """
        super().__init__()
        check_sizes(d_model=d_model, d_hidden=d_hidden)
        check_known("nonlinearity", nonlinearity, ACTIVATIONS)
        check_bool(bias=bias)
        self.input = nn.Linear(d_model, d_hidden, bias=bias)
        self.recurrent = nn.Linear(d_hidden, d_hidden, bias=False)
        self.nonlinearity = nonlinearity

        # An orthogonal $U$, a rotation with or without a reflection, neither shrinks
        # nor stretches the [gradient](#the-gradient-briefly) ([@saxe2014exact]). That
        # holds at initialisation only: training changes $U$ freely.
        nn.init.orthogonal_(self.recurrent.weight)

    def forward(
        self, x_t: Float[Tensor, "B _"], h: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N"]:
        """Takes $x_t$ and $h_{t-1}$, and returns $h_t$."""
        z = self.input(x_t) + self.recurrent(h)
        return ACTIVATIONS[self.nonlinearity](z)


class ElmanLayer(nn.Module):
    r"""
    ## All steps of a sequence

    The layer is a loop over the cell. The products $W x_t$ do not depend on the state:
    they could be computed for all steps at once, in one large product before the loop,
    and what follows the hidden states in one after it. $U h_{t-1}$ and $f$ cannot.
    They are $T$ sequential operations, however many cores there are, where a
    transformer processes all positions of a training sequence in parallel.

    In all that is $T (N C + N^2)$ multiplications per sequence, linear in the length
    (attention is quadratic). Training stores $T N$ activations, inference one state.

    The limit is the size of this state: $N$ numbers per layer, where new information
    overwrites old. A gated network ([@hochreiter1997long]) learns when to overwrite,
    and a [transformer](../../transformers/mha.py) stores every position.
    """

    h_0: Tensor

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        nonlinearity: str = "tanh",
        bias: bool = True,
        learn_h_0: bool = False,
    ) -> None:
        """
        * `d_model`, `d_hidden`, `nonlinearity` and `bias` are those of `ElmanCell`
        * `learn_h_0` is whether $h_0$ is a trained parameter
        """
        super().__init__()
        check_bool(learn_h_0=learn_h_0)
        self.cell = ElmanCell(d_model, d_hidden, nonlinearity=nonlinearity, bias=bias)

        # Before the first token nothing is known, and $h_0 = 0$ is a neutral start:
        # $U h_0 = 0$. It is a buffer, which is saved and moved to a device with the
        # parameters. As a parameter it is learned like them, from the first steps of
        # all sequences.
        h_0 = torch.zeros(d_hidden)
        if learn_h_0:
            self.h_0 = nn.Parameter(h_0)
        else:
            self.register_buffer("h_0", h_0)

    def initial(self, batch_size: int) -> Float[Tensor, "B N"]:
        """Returns $h_0$ for each of `batch_size` sequences."""
        return self.h_0.expand(batch_size, -1)

    # This is the definition. A [kernel](../../kernels/elman.py) computes the same with
    # the input products before the loop, in PyTorch or in one call of C++.
    @reference
    def forward(
        self,
        x: Float[Tensor, "T B _"],
        state: Float[Tensor, "B N"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], Float[Tensor, "B N"]]:
        r"""
        * `x` are the inputs, `[T, B, C]`
        * `state` is the hidden state before the first of them, `[B, N]`; `None` is
          $h_0$. Pass the state that was returned for the previous part of the same
          sequences, and start unrelated sequences with `None`: otherwise the end of one
          text leaks into the next. Inputs with the batch first, `[B, T, C]`, raise no
          error either: the loop then runs over the batch, and mixes the sequences
        * `mask` is `True` for tokens and `False` for padding, `[T, B]`

        Returns the hidden states of all steps, `[T, B, N]`, and the last one, `[B, N]`.
        """
        if state is None:
            state = self.initial(x.shape[1])
        h, states = state, []
        for t, x_t in enumerate(x):
            new = self.cell(x_t, h)

            # Padding must leave no trace: there $h_t = h_{t-1}$. So sequences of a
            # batch may be padded at the beginning, where the state stays $h_0$, or at
            # the end, where it stays that of the last token.
            if mask is not None:
                new = torch.where(mask[t, :, None], new, h.to(new))
            h = new
            states.append(h)
        return torch.stack(states), h


class Elman(nn.Module):
    r"""
    ## Several layers

    The hidden states of one layer are the inputs of the next:

    $$h_t^l = f(W^l h_t^{l-1} + U^l h_{t-1}^l + b^l), \qquad h_t^0 = x_t$$

    The paper has a single layer. All $L$ hidden states together are the state.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        n_layers: int = 1,
        dropout_prob: float = 0.0,
        *,
        nonlinearity: str = "tanh",
        bias: bool = True,
        learn_h_0: bool = False,
    ) -> None:
        """
        * `d_model` is the number of input features, $C$
        * `d_hidden` is the number of hidden units of each layer, $N$
        * `n_layers` is the number of layers, $L$
        * `dropout_prob` is the dropout probability between layers, in training. Nothing
          is dropped between *steps*: at a tenth per step, with a new mask each time, a
          unit would lose a value within 44 steps with a probability of 99 %
        * `nonlinearity`, `bias` and `learn_h_0` are those of `ElmanLayer`
        """
        super().__init__()
        check_sizes(d_model=d_model, d_hidden=d_hidden, n_layers=n_layers)
        check_probability(dropout_prob=dropout_prob)
        self.layers = nn.ModuleList(
            ElmanLayer(
                d_hidden if i else d_model,
                d_hidden,
                nonlinearity=nonlinearity,
                bias=bias,
                learn_h_0=learn_h_0,
            )
            for i in range(n_layers)
        )
        self.dropout = nn.Dropout(dropout_prob)

    def initial(self, batch_size: int) -> Float[Tensor, "L B N"]:
        """Returns $h_0$ of each layer for `batch_size` sequences."""
        layers = [cast(ElmanLayer, layer) for layer in self.layers]
        return torch.stack([layer.initial(batch_size) for layer in layers])

    def forward(
        self,
        x: Float[Tensor, "T B _"],
        state: Float[Tensor, "L B N"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], Float[Tensor, "L B N"]]:
        """
        * `x` are the inputs, `[T, B, C]`
        * `state` are the hidden states of all layers before them, `[L, B, N]`; `None`
          is $h_0$
        * `mask` is that of `ElmanLayer`, `[T, B]`

        Returns the hidden states of the last layer at all steps, `[T, B, N]`, and those
        of all layers after the last step, `[L, B, N]`. Both carry gradients.
        """
        final = []
        for i, layer in enumerate(self.layers):
            if i:
                x = self.dropout(x)
            x, h = layer(x, None if state is None else state[i], mask)
            final.append(h)
        return x, torch.stack(final)


@dataclass(frozen=True, kw_only=True)
class ElmanConfig(LanguageModelConfig):
    r"""
    ## Configuration of the language model

    * `d_model` is the number of features of a token embedding, $C$
    * `d_hidden` is the number of hidden units of a layer, $N$
    * `n_layers` is the number of layers, $L$
    * `dropout_prob` is the dropout probability of hidden states, between layers and
      before the output projection
    * `embedding_dropout_prob` is that of the embeddings, and `output_dropout_prob` that
      of the output features
    * `nonlinearity` is `tanh`, `sigmoid` or `relu`, in the layers
    * `tanh_projections` selects the classic model, with a tanh after each of the two
      projections
    * `tied` is whether the output reuses the embeddings, or has a matrix of its own
    * `learn_h_0` is whether $h_0$ is trained

    The fields that all models have are those of
    [`LanguageModelConfig`](../../language_model.py): label smoothing, padding, and
    `init_lower` and `init_upper`, with which every matrix is drawn uniformly from that
    range (then $U$ is not orthogonal). With `n_vocab=65` the defaults have 340,000
    parameters.
    """

    d_model: int = 128
    d_hidden: int = 256
    n_layers: int = 2
    dropout_prob: float = 0.1
    embedding_dropout_prob: float = 0.0
    output_dropout_prob: float = 0.0
    nonlinearity: str = "tanh"
    tanh_projections: bool = False
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
            output_dropout_prob=self.output_dropout_prob,
        )
        check_known("nonlinearity", self.nonlinearity, ACTIVATIONS)


class ElmanLanguageModel(LanguageModel[Float[Tensor, "L B N"]]):
    r"""
    ## Language model

    The network predicts the next token from its hidden state:

    \begin{align}
    x_t &= \phi(P \, s E_{w_t} + r) \\
    h_t &= \operatorname{Elman}(x_t, \; h_{t-1}) \\
    \hat z_t &= E \, \phi(Q h_t^L + q) + c \\
    p(w_{t+1} \mid w_0, \dots, w_t) &= \operatorname{softmax}(\hat z_t) \\
    \mathcal{L} &= -\tfrac{1}{T} \textstyle\sum_t
        \ln p(w_{t+1} \mid w_0, \dots, w_t)
    \end{align}

    In the **classic** model (`tanh_projections=True`) $\phi$ is tanh and $s = 1$. The
    default has linear projections, $\phi(a) = a$, and scales the embeddings by
    $s = \sqrt{C}$.

    The embeddings serve twice ([@press2017using]): a token is likely if its embedding
    points in the direction of the output features. What is learned about a token as an
    input helps to predict it, and $V C$ parameters are saved. The two projections lead
    from $C$ to $N$, the width of inputs and states here, and back, so $C$ can be small
    when $V$ is large.
    """

    name = "elman"
    Config = ElmanConfig
    config: ElmanConfig

    def __init__(self, config: ElmanConfig) -> None:
        """`config` are the hyperparameters."""
        super().__init__(config)
        d_model, d_hidden = config.d_model, config.d_hidden
        self.embedding = nn.Embedding(config.n_vocab, d_model)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout_prob)
        self.elman = Elman(
            d_hidden,
            d_hidden,
            config.n_layers,
            config.dropout_prob,
            nonlinearity=config.nonlinearity,
            learn_h_0=config.learn_h_0,
        )
        self.dropout = nn.Dropout(config.dropout_prob)
        self.output_dropout = nn.Dropout(config.output_dropout_prob)
        self.output_weight: nn.Parameter | None = None
        if not config.tied:
            self.output_weight = nn.Parameter(torch.empty(config.n_vocab, d_model))
        self.output_bias = nn.Parameter(torch.zeros(config.n_vocab))

        # Two linear maps in a row are one: a projection between equal sizes without an
        # activation function is left out.
        self.input_projection: nn.Module = nn.Identity()
        self.output_projection: nn.Module = nn.Identity()
        if d_model != d_hidden or config.tanh_projections:
            self.input_projection = nn.Linear(d_model, d_hidden)
            self.output_projection = nn.Linear(d_hidden, d_model)
        self.activation = nn.Tanh() if config.tanh_projections else nn.Identity()
        self.scale = 1.0 if config.tanh_projections else math.sqrt(d_model)

        # Entries of $E$ have variance $1 / C$. Scaled by $\sqrt{C}$ they are inputs of
        # variance 1, and unscaled they make small logits: before training the
        # prediction is nearly uniform, and its loss close to $\log V$ (4.21 for 65
        # characters, $\log 65 = 4.17$). With a standard deviation of 0.02 the loss on
        # Tiny Shakespeare after 250 steps was 2.3 instead of 1.6.
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=d_model**-0.5)
        self.init_uniform()

    def forward(
        self, tokens: Int[Tensor, "T B"], state: Float[Tensor, "L B N"] | None = None
    ) -> tuple[Float[Tensor, "T B V"], Float[Tensor, "L B N"]]:
        """
        ### Forward pass

        * `tokens` are the next tokens of each text, `[T, B]`
        * `state` is what was returned for the tokens before, `[L, B, N]`; `None` at the
          beginning of a text

        Returns logits, `[T, B, V]`, and the hidden states after the last token,
        `[L, B, N]`, detached.
        """
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding
        e = self.embedding_dropout(self.embedding(tokens) * self.scale)
        x = self.activation(self.input_projection(e))
        h, state = self.elman(x, state, mask)
        z = self.activation(self.output_projection(self.dropout(h)))
        tied = self.embedding.weight
        weight = tied if self.output_weight is None else self.output_weight
        logits = F.linear(self.output_dropout(z), weight, self.output_bias)

        # A long text is trained in chunks, and the state of one chunk starts the next.
        # With its graph attached, the backward pass of a chunk would run through all
        # chunks before it, and all their activations would have to be stored. `detach`
        # keeps the *value* of the state: the model still uses what it read long ago. It
        # loses the *gradient*: nothing teaches a chunk what to store for later ones.
        # This is truncated [backpropagation through time](bptt.py). A forgotten
        # `detach` shows at the second chunk: PyTorch refuses "to backward through the
        # graph a second time".
        return logits, state.detach()


# ## Try it
#
# A trained network of two layers runs in this page. See its hidden units along a text,
# how far the gradient reaches back, and what remains of a changed character.
#
# ![One unit marks the names of speakers, another one vowels.](figure:live.units)

# ## Training and generation
#
# To train on a long text, cut it into $B$ columns that are read side by side, chunk
# after chunk, each with the state of the chunk before. In generation the sampled token
# is the next input. Both loops are short:
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanConfig, ElmanLanguageModel
#
# text = "the cat sat on the mat and the dog sat on the cat " * 40
# characters = sorted(set(text))
# tokens = torch.tensor([characters.index(c) for c in text]).view(4, -1).t()  # [T, B]
#
# config = ElmanConfig(n_vocab=len(characters), d_model=16, d_hidden=32, n_layers=1)
# model = ElmanLanguageModel(config)
# optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
# state = None
# for t in range(0, 480, 20):
#     chunk, targets = tokens[t : t + 20], tokens[t + 1 : t + 21]
#     loss, state = model.loss(chunk, targets, state, return_state=True)
#     optimizer.zero_grad()
#     loss.backward()
#     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
#     optimizer.step()
# print(f"{loss.item():.2f} nats per character")
# assert loss < 1.0
#
# model.eval()  # no dropout
# with torch.inference_mode():
#     logits, state = model(tokens[:7, :1])  # the prompt, "the cat"
#     generated = []
#     for _ in range(30):
#         token = torch.distributions.Categorical(logits=logits[-1]).sample()
#         generated.append(characters[token])
#         logits, state = model(token[None], state)
# print("".join(generated))
# ```
#
# Each new token costs one step, whatever came before it: nothing is stored but the
# $L N$ numbers of the state. [`generate`](../../sampling.py) adds temperature, top-k
# and batches of prompts of different lengths.
#
# ## The gradient, briefly
#
# Unrolled in time, the network is $T$ copies of the cell. An error at $h_t$ has two
# sources: the prediction at step $t$, with the gradient $g_t$, and all later steps,
# through $h_{t+1}$. With $\delta_t$ for the gradient of $z_t = W x_t + U h_{t-1} + b$,
#
# $$\delta_t = f'(z_t) \odot \left(g_t + U^\top \delta_{t+1}\right), \qquad
#   \frac{\partial \mathcal{L}}{\partial U} = \sum_t \delta_t h_{t-1}^\top, \qquad
#   \frac{\partial \mathcal{L}}{\partial W} = \sum_t \delta_t x_t^\top$$
#
# So the gradient on its way from step $t$ back to step $s$ is multiplied $t - s$ times
# by $U$ and by the slope of $f$. For tanh:
#
# $$\frac{\partial h_t}{\partial h_s} = D_t U \, D_{t-1} U \cdots D_{s+1} U,
#   \qquad D_k = \operatorname{diag}(1 - h_k^2)$$
#
# If each factor shrinks vectors (it is sufficient that no singular value of $U$ reaches
# 1), the gradient *vanishes* exponentially ([@bengio1994learning]), and what happened
# long ago teaches nothing. If each factor stretches them (it is necessary that one
# exceeds 1), it *explodes*, and one update can ruin all weights, unless the norm of the
# gradient is clipped ([@pascanu2013difficulty]). An orthogonal $U$ does neither, but
# the slopes $1 - h_k^2 \le 1$ still shrink. `torch.nn.RNN` starts from $\mathcal{U}(\pm
# 1/\sqrt{N})$ instead, a matrix of spectral radius about $1/\sqrt{3}$: near zero, ten
# steps without input leave about 0.4 % of a state.
#
# The cell of an LSTM ([@hochreiter1997long]) adds instead: $k_t = \gamma_t \odot
# k_{t-1} + \iota_t \odot \tilde k_t$, with gates $\gamma_t$ and $\iota_t$ in $[0, 1]$.
# On this path $\partial k_t / \partial k_{t-1} = \operatorname{diag}(\gamma_t)$: where
# the network keeps $\gamma_t$ near 1, the gradient passes without $U$ and without a
# slope.
#
# [Backpropagation through time](bptt.py) derives this, and measures how fast it
# vanishes.
#
# ## Differences from the paper
#
# * **Activation function.** Tanh, where the paper has the sigmoid
#   (`nonlinearity="sigmoid"`), and $h_0 = 0$, where the context units start at 0.5. For
#   a sigmoid unit 0.5 is the neutral value.
# * **Gradients.** The paper treats the context units as an ordinary input, and the
#   gradient of step $t$ stops at $h_{t-1}$ (`detach` after each step). Here it
#   continues through all steps of the chunk.
# * **Inputs and outputs.** Hand-made bit vectors and squared errors in the paper;
#   learned embeddings, tied to the output, softmax and cross entropy here.
# * **Depth.** The paper has one layer and neither dropout nor label smoothing.
#
# ## Pseudo-code
#
# $$\begin{array}{l}
# \textbf{procedure } \text{ElmanLanguageModel}(w, \; h_0^1, \dots, h_0^L) \\
# \quad \textbf{for } t = 1, \dots, T \\
# \quad\quad h_t^0 \gets \phi(P \cdot \text{dropout}(s E_{w_t}) + r) \\
# \quad\quad \textbf{for } l = 1, \dots, L \\
# \quad\quad\quad i \gets h_t^0 \text{ if } l = 1
#     \text{, else } \text{dropout}(h_t^{l-1}) \\
# \quad\quad\quad h_t^l \gets f(W^l i + U^l h_{t-1}^l + b^l) \\
# \quad\quad o_t \gets \text{dropout}(\phi(Q \cdot \text{dropout}(h_t^L) + q)) \\
# \quad\quad \hat z_t \gets E o_t + c \\
# \quad \textbf{return } \hat z_1, \dots, \hat z_T, \; h_T^1, \dots, h_T^L
# \end{array}$$
#
# | Parameter | Shape | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | $E$ | `[V, C]` | | $s E_{w_t}$ | `[T, B, C]` |
# | $P$, $r$ | `[N, C]`, `[N]` | | $h_t^0$ | `[T, B, N]` |
# | $W^l$, $U^l$, $b^l$ | `[N, N]`, `[N, N]`, `[N]` | | $h_t^l$ | `[T, B, N]` |
# | $Q$, $q$ | `[C, N]`, `[C]` | | $o_t$ | `[T, B, C]` |
# | $c$ | `[V]` | | $\hat z_t$ | `[T, B, V]` |
#
# ## Exercises
#
# **1.** The first experiment of the paper: a stream of bits, two random ones and their
# exclusive or, then two more, `101 110 000 …`. Train a layer to predict the next bit.
# Which bits can it predict?
#
# <details><summary>Answer</summary>
#
# Every third one, from the two bits before it. The first of the two is available only
# in the hidden state. The other bits are random, and cost $\log 2 = 0.69$.
#
# ```python
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.recurrent.elman import ElmanLayer
#
# layer, read_out = ElmanLayer(d_model=1, d_hidden=16), nn.Linear(16, 1)
# optimizer = torch.optim.Adam([*layer.parameters(), *read_out.parameters()], lr=0.02)
# for _ in range(200):
#     pairs = torch.randint(2, (5, 2, 64))
#     xor = pairs.sum(1, keepdim=True) % 2
#     bits = torch.cat([pairs, xor], dim=1).flatten(0, 1).float()  # [T, B]
#     states, _ = layer(bits[:-1, :, None])
#     losses = F.binary_cross_entropy_with_logits(
#         read_out(states).squeeze(-1), bits[1:], reduction="none"
#     )
#     optimizer.zero_grad()
#     losses.mean().backward()
#     optimizer.step()
#
# by_step = losses.mean(1).tolist()
# print([round(loss, 2) for loss in by_step])  # 0.70, 0.02, 0.70, 0.70, 0.02, …
# assert max(by_step[1::3]) < 0.1
# assert min(by_step[0::3] + by_step[2::3]) > 0.6
# ```
#
# </details>
#
# **2.** `torch.nn.RNN` is an Elman network too. Convert a trained one. Then take one
# step of plain gradient descent in both. Which parameter differs afterwards?
#
# <details><summary>Answer</summary>
#
# The bias. The two biases of `nn.RNN` have the same gradient, that of our single bias,
# and both move, so their sum moves twice as far. The second bias doubles the learning
# rate of the first.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman import Elman
#
# def from_torch_rnn(rnn):
#     elman = Elman(
#         rnn.input_size, rnn.hidden_size, rnn.num_layers, rnn.dropout,
#         nonlinearity=rnn.nonlinearity, bias=rnn.bias,
#     )
#     weights = rnn.state_dict()
#     with torch.no_grad():
#         for i, layer in enumerate(elman.layers):
#             layer.cell.input.weight.copy_(weights[f"weight_ih_l{i}"])
#             layer.cell.recurrent.weight.copy_(weights[f"weight_hh_l{i}"])
#             if rnn.bias:
#                 bias = weights[f"bias_ih_l{i}"] + weights[f"bias_hh_l{i}"]
#                 layer.cell.input.bias.copy_(bias)
#     return elman
#
# rnn = nn.RNN(4, 6, num_layers=2)
# elman, x = from_torch_rnn(rnn), torch.randn(9, 3, 4)
# torch.testing.assert_close(elman(x), rnn(x))
#
# cell = elman.layers[0].cell
# before = cell.input.bias.detach().clone()
# for network in (elman, rnn):
#     optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
#     network(x)[0].square().mean().backward()
#     optimizer.step()
# torch.testing.assert_close(cell.input.weight, rnn.weight_ih_l0)
# moved = rnn.bias_ih_l0 + rnn.bias_hh_l0 - before
# torch.testing.assert_close(moved, 2 * (cell.input.bias - before))
# ```
#
# </details>
#
# **3.** A *leaky* unit changes slowly: its new state is nine tenths of the old one plus
# a tenth of what an Elman cell computes. Build such a layer.
#
# <details><summary>Answer</summary>
#
# Replace the cell. Such units remember for about ten steps, whatever $U$ is. In gated
# networks the two shares are learned and depend on the input.
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanCell, ElmanLayer
#
# class LeakyCell(ElmanCell):
#     def forward(self, x_t, h):
#         return 0.9 * h + 0.1 * super().forward(x_t, h)
#
# layer = ElmanLayer(4, 6)
# layer.cell = LeakyCell(4, 6)
# states, _ = layer(torch.randn(9, 2, 4))
# assert states.abs().max() < 1 - 0.9**9
# ```
#
# </details>
