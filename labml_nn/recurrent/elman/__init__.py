r"""
---
title: Elman network
summary: >
  A network that remembers: each step reads one token and its own hidden state from the
  step before. Cell, layer, network and language model on one page.
paper: https://doi.org/10.1207/s15516709cog1402_1
notebook: notebooks/elman.ipynb
---

You read *hel*. Which letter comes next? Probably an *l*. You read on, *hell*, and now
you expect an *o*. Both times the letter in front of you was an *l*, and yet your two
answers differ, because you remember what came before it. On this page we build a
network that remembers too.

Its task is to predict, after each letter of *hello*, the next one. So its inputs are
*h e l l*, and the right answers, the **targets**, are *e l l o*: the same word, shifted
by one letter. Notice that we need no one to write down these answers. A text is its
own label.

**Why not the network that you know?** A feed-forward network computes hidden units
$h = f(W x + b)$ from its input and remembers nothing. It receives the same *l* twice
and must give the same answer twice, but one of the two would be wrong. Could we show it
a window of several letters at once, with separate weights for each position in the
window? That helps, but it has two faults. Whatever lies before the window is lost. And
if you shift a phrase by one letter, it meets different weights, so what the network has
learned about it at one position must be learned again at every other.

**One term more.** Elman ([-@elman1990finding]) reads one letter at a time, and gives
the hidden units a second input: their own values after the letter before.

$$h = f(W x + b) \qquad \longrightarrow \qquad h_t = f(W x_t + U h_{t-1} + b)$$

The vector $h_t$ is the **hidden state** after step $t$. It is all that the network
remembers. $W$ weighs the letter, $U$ weighs the memory, and $f$ is an activation
function. Here it is tanh, which squeezes any number into the range from −1 to 1.

![The word hello through an Elman network: at each step the hidden state is computed
from a letter and from the state before it.](figure:elman.network)

$W$, $U$ and $b$ are the same at every step. So a word may have any length, and what
the network learns at one position is available at all others. But the *effect* of a
letter is not always the same, because it depends on the state that the letter meets.
That is the point. The second *l* of *hello* meets a state that has already seen an *l*.

**How does a letter become a vector?** A **token** is what the model reads in one step,
here a letter. Numbers such as h = 1, e = 2, l = 3 would claim that *e* lies between the
other two. Instead we use a vector with one component for each token of the vocabulary.
The component of our token is 1, and all others are 0. In this **one-hot** vector for
the vocabulary h, e, l, o, the letter *l* is (0, 0, 1, 0), and the product $W x_t$
simply picks the third column of $W$. So you may think of $W$ as a table with one column
for each letter.

## A word by hand

Two hidden units are enough for *hello*. We choose their weights by hand, so that you
can check each step. (Training will find weights of its own.)

$$W = \begin{pmatrix} 0 & 0 & 0 & 0 \\ -1 & 0 & 2 & 0 \end{pmatrix}, \qquad
  U = \begin{pmatrix} 0 & 2 \\ 0 & 0 \end{pmatrix}, \qquad b = 0$$

Unit 2 looks only at the letter: its weight is −1 for *h*, 0 for *e* and 2 for *l*. Unit
1 looks only at the memory: it receives twice what unit 2 was one step before. The state
before the first letter is zero.

| step | letter | its $W x_t$ | state adds $U h_{t-1}$ | tanh of the sum, $h_t$ |
|--:|:--|:--|:--|:--|
| 1 | h | (0, −1) | (0, 0) | (0, −0.76) |
| 2 | e | (0, 0) | (−1.52, 0) | (−0.91, 0) |
| 3 | l | (0, 2) | (0, 0) | (0, 0.96) |
| 4 | l | (0, 2) | (1.93, 0) | (0.96, 0.96) |

Look at the last two rows. The letter is the same, and so is $W x_t$. But the states
differ, because unit 1 now says: "the letter before this one was an *l*, too".

One more matrix leads from the state to a prediction. We call it $R$, because it *reads*
the state. It gives one score for each letter, and these scores are called **logits**:

$$R = \begin{pmatrix} 0 & 0 \\ 0 & -4 \\ -4 & 4 \\ 4 & 0 \end{pmatrix}
  \begin{matrix} \text{h} \\ \text{e} \\ \text{l} \\ \text{o} \end{matrix}$$

For example, *o* gets four times unit 1. The **softmax** turns logits into
probabilities. It raises $e$ to each of them and divides the results by their sum:

| after | logits of h, e, l, o | target | its probability $p$ | loss $-\ln p$ |
|:--|:--|:--|--:|--:|
| h | 0, 3.05, −3.05, 0 | e | 0.91 | 0.09 |
| he | 0, 0, 3.64, −3.64 | l | 0.95 | 0.05 |
| hel | 0, −3.86, 3.86, 0 | l | 0.96 | 0.04 |
| hell | 0, −3.86, 0.02, 3.83 | o | 0.96 | 0.04 |

(Only what is printed is rounded. For example, 3.86 is 4 · 0.964. If you start from the
rounded 0.96, you get 3.84.)

Take the third row. The powers of $e$ are 1, 0.02, 47.28 and 1, and their sum is 49.30.
So the target has the probability 47.28 / 49.30 = 0.96, and the **loss** of this step is
$-\ln 0.96 = 0.04$. The unit of the loss is the **nat**, because the logarithm is the
natural one. A certain and right prediction would cost 0 nats. A network that knows
nothing gives each of the four letters the probability 1/4, and pays $\ln 4 = 1.39$ nats
a letter. Ours pays 0.06, the mean of the last column.

What would we lose without memory? Set $U = 0$. Both *l*s then lead to the state (0,
0.96), and after *hell* the network predicts another *l*. It gives the *o* a probability
of 0.02 and pays 3.90 nats. The best that any network without memory can do is to give
*l* and *o* one half each, and to pay $\ln 2 = 0.69$ nats twice.

**In one formula.** You have just run a whole language model, a model that predicts the
next token. Write $w_t$ for the token at step $t$, $y_t$ for its target and $T$ for the
number of steps. $\mathcal{L}$ is the mean loss. There is also a bias $c$ of the logits,
which was zero in our example. Then the model is

\begin{align}
h_t &= f(W x_t + U h_{t-1} + b), & z_t &= R h_t + c \\
p_t &= \operatorname{softmax}(z_t), &
  \mathcal{L} &= -\tfrac{1}{T} \textstyle\sum_t \ln p_t(y_t), \qquad y_t = w_{t+1}
\end{align}

## Training

We do not choose weights by hand. We start from random ones. For each weight we compute
how the loss would change with it. All these derivatives together are the **gradient**
of the loss. Then we move each weight a little to the side on which the loss falls, and
repeat. Four things are new in this program:

1. An `Embedding` replaces the one-hot vector. It looks up a vector of any width, the
   **embedding** of the token, which is learned like every weight. So $W$ no longer
   picks a column. It multiplies the embedding.
2. The text is read in chunks of ten letters, and the state after one chunk is passed to
   the next.
3. PyTorch remembers how each number was computed (its *graph*), to find derivatives.
   `detach` makes it forget that for the state. Otherwise the backward pass of the
   second chunk would run into the first, and PyTorch would [raise an
   error](#common-mistakes).
4. The gradient is **clipped**: if it is too long, we make it shorter. The reason
   [follows below](#the-gradient).

```python
import torch
from torch import nn
from torch.nn import functional as F
from labml_nn.recurrent.elman import Elman

text = "hello yellow fellow, " * 100
letters = sorted(set(text))
# Four equal pieces of the text, one in each column: T = 525 steps, B = 4 pieces.
tokens = torch.tensor([letters.index(c) for c in text]).view(4, -1).t()

class Model(nn.Module):
    def __init__(self, n_vocab, d_model, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, d_model)
        self.elman = Elman(d_model, d_hidden)
        self.output = nn.Linear(d_hidden, n_vocab)

    def forward(self, tokens, state=None):
        h, state = self.elman(self.embedding(tokens), state)
        return self.output(h), state

model = Model(len(letters), d_model=8, d_hidden=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
state = None
for t in range(0, 500, 10):
    logits, state = model(tokens[t : t + 10], state)
    targets = tokens[t + 1 : t + 11]  # the same text, one letter later
    # The softmax, and the mean of -ln p over all steps and pieces.
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    state = state.detach()  # keep its value, drop its graph

for prompt in ("hel", "hell"):
    logits, _ = model(torch.tensor([[letters.index(c)] for c in prompt]))
    p = logits[-1, 0].softmax(-1)
    print(prompt, letters[p.argmax()], f"{p.max():.2f}")  # about 0.98 each
assert letters[p.argmax()] == "o"
```

After 50 updates the model has learned what we built by hand.

**What does a state learn to store?** Our program does not say. The hidden units have
two jobs: to produce the prediction of this step, and to keep what later predictions
will need. Gradient descent has to find out what that is. Elman trained one network on a
stream of letters without spaces. Its error is high at the first letter of a word and
falls towards the last, so the error alone marks where words begin. He trained another
on sentences, averaged the hidden states in which each word left it, and clustered the
averages. Nouns separated from verbs, and animate nouns from inanimate ones. It had
learned this from word order alone.

Are the first letters of words the hard ones for a network of ours, too? The one that
you can [try below](#try-it) has read Shakespeare, letter by letter. Give it a verse
that it has not seen. The first letter of a word costs it 2.67 nats on average, and each
later one 0.74, if we count the space behind the word among them:

![The loss of each letter of a verse. The first letters of words stand
out.](figure:trained.surprise_of_elman)

This network has two layers of 256 units and was trained for a little more than two
minutes of one CPU core. It writes like this:

> You not dies thee. But a hate.' If is the queen, I have not leave thee, and we should
> me comes the better 'shapen being with God's straight better

In our [comparison of small models](../../../results.md), this network is ahead of the
transformer, at equal updates and at equal time. Its recurrence is that of 1990. But it
has two layers and learned embeddings, and it is trained [in a newer
way](#differences-from-the-paper).

**What it gains, and what it costs.** Each step costs the same, whether it reads the
first token or the millionth. And with $N$ hidden units, all that a layer keeps is $N$
numbers. But they must do for everything, and new information overwrites old. A
[transformer](../../transformers/mha.py) stores every token instead. The steps must also
wait for each other. And to learn from something long ago, the gradient must come back
over all steps since, and [little of it does](#the-gradient).

<details><summary>Symbols, their code and shapes</summary>

In the shapes, T is the number of steps and B that of sequences side by side. An input
has C features, a layer N hidden units. There are L layers, and V tokens in the
vocabulary.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x_t` | `[B, C]` | input at step $t$; all steps are `x`, `[T, B, C]` |
| $h_t$ | `h` | `[B, N]` | hidden state after step $t$ |
| $h_0$ | `h_0` | `[N]` | hidden state before the first step |
| $h_t^l$ | `state` | `[L, B, N]` | the same for each layer $l$ |
| $W$ | `input.weight` | `[N, C]` | input weights |
| $b$ | `input.bias` | `[N]` | bias |
| $U$ | `recurrent.weight` | `[N, N]` | recurrent weights |
| $a_t$ | `a` | `[B, N]` | the sum before the activation function |
| $f$ | `nonlinearity` | | activation function, tanh by default |
| $w_t$ | `tokens` | `[T, B]` | tokens of the language model |
| $y_t$ | | `[T, B]` | targets: $y_t = w_{t+1}$ |
| $E$ | `embedding.weight` | `[V, C]` | token embeddings |
| $s$ | `scale` | | factor of the embeddings as inputs |
| $P$, $r$ | `input_projection` | `[N, C]`, `[N]` | from embeddings to inputs |
| $Q$, $q$ | `output_projection` | `[C, N]`, `[C]` | from states to output features |
| $\phi$ | `activation` | | activation function after both projections, or none |
| $o_t$ | `o` | `[T, B, C]` | output features |
| $c$ | `output_bias` | `[V]` | output bias |
| $z_t$ | `logits` | `[T, B, V]` | logits of the next token |
| $g_t$, $\delta_t$ | | `[N]` | gradients with respect to $h_t$ and $a_t$ |
| $D_t$ | | `[N, N]` | slopes of $f$ at step $t$, on the diagonal |

</details>

## Try it

The network that wrote the lines above runs in this page. Watch its hidden units while
it reads, see how far back the gradient reaches, and change one letter to see how soon
it is forgotten.

![One unit marks the names of speakers, another one vowels.](figure:live.units)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import (
    check_bool,
    check_known,
    check_probability,
    check_sequence,
    check_sizes,
    check_state,
    check_tokens,
)
from labml_nn.kernels import reference
from labml_nn.language_model import LanguageModel, LanguageModelConfig

__all__ = ["Elman", "ElmanCell", "ElmanConfig", "ElmanLanguageModel", "ElmanLayer"]


class ElmanCell(nn.Module):
    r"""
    ## One step

    $$h_t = f(W x_t + U h_{t-1} + b)$$

    This is one row of the table for *hello*: a letter and a state go in, and the next
    state comes out. For example, the second *l* and (0, 0.96) give (0.96, 0.96).
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
        * `d_model`: features of an input, $C$ (4 in the example)
        * `d_hidden`: hidden units, $N$ (2 in the example)
        * `nonlinearity`: the name of $f$, which is `tanh`, `sigmoid` or `relu`
        * `bias`: whether to add $b$
        """
        super().__init__()
        check_sizes(d_model=d_model, d_hidden=d_hidden)
        check_known("nonlinearity", nonlinearity, ACTIVATIONS)
        check_bool(bias=bias)

        # $W$ and $b$ are one linear layer, and $U$ is another. One bias is enough, as
        # both products are added. `torch.nn.RNN` has two, because cuDNN does, and only
        # their sum matters.
        self.input = nn.Linear(d_model, d_hidden, bias=bias)
        self.recurrent = nn.Linear(d_hidden, d_hidden, bias=False)
        self.nonlinearity = nonlinearity

        # $U$ starts as an orthogonal matrix, a rotation with or without a reflection
        # ([@saxe2014exact]). Multiplying by it changes the length of no vector, so at
        # the start only the slopes of $f$ shrink [the gradient](#the-gradient).
        # Training then changes $U$ freely.
        nn.init.orthogonal_(self.recurrent.weight)

    def forward(
        self, x_t: Float[Tensor, "B _"], h: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N"]:
        """Takes $x_t$ and $h_{t-1}$, and returns $h_t$."""
        # We add what the letter and the state contribute, and only then apply $f$. So
        # the same letter can have another effect in another state.
        a = self.input(x_t) + self.recurrent(h)
        return ACTIVATIONS[self.nonlinearity](a)


# ## Activation functions
#
# The paper's $f$ is the sigmoid $\sigma(a) = 1 / (1 + e^{-a})$, which lies between 0
# and 1. Tanh has the same shape, but it is twice as high and twice as narrow, and it
# lies between −1 and 1, $\tanh(a) = 2 \sigma(2 a) - 1$. Its slope at zero is 1 instead
# of 1/4, so gradients shrink less. The slope of the ReLU is 1 for every positive $a$,
# but its states can grow without bound.
#
# Why an $f$ at all? Without it the recurrence unrolls to a sum of linear maps of the
# inputs, and a constant. Stacking such layers would not help, and no such sum computes
# an exclusive or, for example ([exercise 1](#exercises)).
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


class ElmanLayer(nn.Module):
    r"""
    ## All steps of a sequence

    The layer is a loop over the cell. For *hello* it goes down the rows of the table,
    as you did. It reads a batch of $B$ sequences side by side.
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
        * `d_model`, `d_hidden`, `nonlinearity` and `bias`: as in `ElmanCell`
        * `learn_h_0`: train $h_0$; otherwise it is zero
        """
        super().__init__()
        check_bool(learn_h_0=learn_h_0)
        self.cell = ElmanCell(d_model, d_hidden, nonlinearity=nonlinearity, bias=bias)

        # Before the first token there is nothing to remember, and zeros are neutral:
        # $U h_0 = 0$. As a buffer, $h_0$ moves to the GPU with the model and is saved
        # with it. As a parameter it is trained, by the first steps of every sequence.
        h_0 = torch.zeros(d_hidden)
        if learn_h_0:
            self.h_0 = nn.Parameter(h_0)
        else:
            self.register_buffer("h_0", h_0)

    def initial(self, batch_size: int) -> Float[Tensor, "B N"]:
        """Returns $h_0$ for each of `batch_size` sequences."""
        return self.h_0.expand(batch_size, -1)

    @reference
    def forward(
        self,
        x: Float[Tensor, "T B _"],
        state: Float[Tensor, "B N"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], Float[Tensor, "B N"]]:
        r"""
        * `x`: the inputs, `[T, B, C]`. Careful: inputs with the batch first, `[B, T,
          C]`, raise no error. The loop then runs over the batch and mixes the sequences
        * `state`: the hidden state before the first of them, `[B, N]`; `None` is $h_0$.
          Pass what was returned for the previous chunk of the *same* sequences.
          Otherwise the end of one text leaks into the next
        * `mask`: `True` for tokens and `False` for padding, `[T, B]`

        Returns the hidden states of all steps, `[T, B, N]`, and the last one, `[B, N]`.
        """
        if x.dim() != 3 or len(x) == 0 or state is not None:
            check_sequence(x, state, *self.h_0.shape)

        # Before the first step, $h$ is $h_0$, or the state in which the chunk before
        # this one ended.
        h = self.initial(x.shape[1]) if state is None else state
        states = []
        for t, x_t in enumerate(x):
            # This line is the recurrence. The state that the cell returned for one
            # letter goes in again with the next, through the same weights. Because each
            # call needs the result of the one before it, you cannot run them in
            # parallel.
            new = self.cell(x_t, h)

            # At padding, tokens without meaning that fill up short sequences, the state
            # is kept. So a sequence may be padded at the beginning, where the state
            # remains $h_0$, or at the end, where it remains that after the last token.
            if mask is not None:
                new = torch.where(mask[t, :, None], new, h.to(new))
            h = new
            states.append(h)
        return torch.stack(states), h


class Elman(nn.Module):
    r"""
    ## Several layers

    The hidden states of one layer can be the inputs of another:

    $$h_t^l = f(W^l h_t^{l-1} + U^l h_{t-1}^l + b^l), \qquad h_t^0 = x_t$$

    Each layer has its own weights and its own memory. Elman's network has a single one.
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
        * `d_model`: features of an input, $C$
        * `d_hidden`: hidden units of each layer, $N$
        * `n_layers`: layers, $L$
        * `dropout_prob`: probability that a value between two layers is dropped, in
          training
        * `nonlinearity`, `bias` and `learn_h_0`: as in `ElmanLayer`
        """
        super().__init__()
        check_sizes(d_model=d_model, d_hidden=d_hidden, n_layers=n_layers)
        check_probability(dropout_prob=dropout_prob)

        # Only the first layer reads inputs of width $C$. The others read hidden states.
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

        # Dropout acts between layers. There is none between *steps*: if every step
        # dropped a tenth of the units, only 1 % of the values would survive 44 steps.
        self.dropout = nn.Dropout(dropout_prob)
        self.d_hidden = d_hidden

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
        * `x`: the inputs, `[T, B, C]`
        * `state`: the hidden states of all layers before them, `[L, B, N]`; `None` is
          $h_0$
        * `mask`: as in `ElmanLayer`, `[T, B]`

        Returns the hidden states of the last layer at all steps, `[T, B, N]`, and those
        of all layers after the last step, `[L, B, N]`. Both are attached to the graph:
        `detach` the state before you pass it to the next chunk.
        """
        if state is not None:
            check_sequence(x, state, self.d_hidden, len(self.layers))
        final = []
        for i, layer in enumerate(self.layers):
            if i:
                x = self.dropout(x)

            # The first layer reads the whole sequence before the second begins. It may,
            # because a layer never needs anything from the layers above it.
            x, h = layer(x, None if state is None else state[i], mask)
            final.append(h)

        # The state of the network is the stack of its $L$ hidden states.
        return x, torch.stack(final)


@dataclass(frozen=True, kw_only=True)
class ElmanConfig(LanguageModelConfig):
    r"""
    ## Configuration of the language model

    * `d_model`: features of a token embedding, $C$
    * `d_hidden`: hidden units of a layer, $N$
    * `n_layers`: layers, $L$
    * `dropout_prob`: dropout probability of hidden states, between layers and before
      the output projection
    * `embedding_dropout_prob`: dropout probability of the embeddings
    * `output_dropout_prob`: dropout probability of the output features
    * `nonlinearity`: `tanh`, `sigmoid` or `relu`, in the layers
    * `tanh_projections`: put a tanh after each of the projections $P$ and $Q$ (see the
      model below)
    * `tied`: use the embeddings in the output, too, instead of another matrix
    * `learn_h_0`: train $h_0$; otherwise it is zero

    [`LanguageModelConfig`](../../language_model.py) has the fields that all models
    share. If you set its `init_lower` and `init_upper`, every matrix starts uniform in
    that range, and $U$ is not orthogonal. With `n_vocab=65` the defaults have 337,000
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

    You know [the plainest model](#training): embedding, recurrence, linear output. This
    one adds three refinements: projections $P$ and $Q$ around the recurrence,
    embeddings that serve the output, too, and a scale $s$.

    \begin{align}
    x_t &= \phi(P \, s E_{w_t} + r) \\
    h_t &= \operatorname{Elman}(x_t, \; h_{t-1}) \\
    o_t &= \phi(Q h_t^L + q) \\
    z_t &= E \, o_t + c
    \end{align}

    By default there is no $\phi$, and $s = \sqrt{C}$. With `tanh_projections=True`,
    $\phi$ is tanh and $s = 1$.
    """

    name = "elman"
    Config = ElmanConfig
    config: ElmanConfig

    def __init__(self, config: ElmanConfig) -> None:
        """`config`: the hyperparameters."""
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

        # **Tied embeddings.** The output compares its $C$ features $o_t$ with each
        # embedding, and a token is likely if both point in the same direction
        # ([@press2017using]). Then what is learned about a token as an input helps to
        # predict it, and the $V C$ parameters of another matrix are saved.
        self.output_weight: nn.Parameter | None = None
        if not config.tied:
            self.output_weight = nn.Parameter(torch.empty(config.n_vocab, d_model))
        self.output_bias = nn.Parameter(torch.zeros(config.n_vocab))

        # **Projections.** $P$ widens embeddings from $C$ to $N$ features, and $Q$
        # narrows the states again. So embeddings may be narrower than states. With a
        # large vocabulary this saves most of the parameters. Between equal widths and
        # without $\phi$ they are left out, because two linear maps in a row could be
        # one.
        self.input_projection: nn.Module = nn.Identity()
        self.output_projection: nn.Module = nn.Identity()

        # Are $P$ and the $W$ of the first layer not two such maps as well? By default
        # they are, and one matrix of 256 × 128 could replace them, with 32,768 weights
        # instead of 98,304. We keep both, so that all layers have one shape and $\phi$
        # is the only difference between the variants.
        # [Generation](../../kernels/elman.py#ElmanStep) multiplies them in advance.
        if d_model != d_hidden or config.tanh_projections:
            self.input_projection = nn.Linear(d_model, d_hidden)
            self.output_projection = nn.Linear(d_hidden, d_model)
        self.activation = nn.Tanh() if config.tanh_projections else nn.Identity()

        # **Two uses, two scales.** Entries of $E$ have variance $1 / C$. Multiplied by
        # $\sqrt{C}$, embeddings are inputs of variance 1. In the output they are not
        # multiplied, so logits are small, and the first prediction is nearly uniform:
        # for 65 characters its loss is about 4.2 nats, and $\ln 65 = 4.17$.
        self.scale = 1.0 if config.tanh_projections else math.sqrt(d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=d_model**-0.5)
        self.init_uniform()

    def forward(
        self, tokens: Int[Tensor, "T B"], state: Float[Tensor, "L B N"] | None = None
    ) -> tuple[Float[Tensor, "T B V"], Float[Tensor, "L B N"]]:
        """
        ### Forward pass

        * `tokens`: the next chunk of each text, `[T, B]`
        * `state`: what was returned for the chunk before, `[L, B, N]`; `None` at the
          beginning of a text

        Returns logits, `[T, B, V]`, and the hidden states after the last token,
        `[L, B, N]`, detached.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, Tensor, tokens)
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding

        # Look up the embeddings, and project them. None of this depends on the state,
        # so it is computed for all steps at once.
        e = self.embedding_dropout(self.embedding(tokens) * self.scale)
        x = self.activation(self.input_projection(e))

        # Only this line runs step by step.
        h, state = self.elman(x, state, mask)

        # From states to output features, again for all steps at once. Compared with
        # each embedding, they give the logits.
        o = self.activation(self.output_projection(self.dropout(h)))
        tied = self.embedding.weight
        weight = tied if self.output_weight is None else self.output_weight
        logits = F.linear(self.output_dropout(o), weight, self.output_bias)

        # A long text is trained in chunks, and the state of one chunk starts the next.
        # If the state stayed attached to its graph, the backward pass of a chunk would
        # run through all chunks before it, and all their activations would have to be
        # stored. `detach` keeps the *value* of the state: the model still uses what it
        # read long ago. It loses the *gradient*: nothing teaches a chunk what to store
        # for later ones. This is truncated [backpropagation through time](bptt.py). If
        # you forget `detach`, you notice at the second chunk, where PyTorch says
        # "Trying to backward through the graph a second time".
        return logits, state.detach()


# ## The gradient
#
# Why did we clip the gradient, and why is it hard to learn what to remember for long?
#
# **With one number.** Take one unit without inputs and without $f$: $h_t = u h_{t-1}$.
# After 50 steps $h_{50} = u^{50} h_0$, so a small change of $h_0$ changes $h_{50}$ by
# $u^{50}$ times as much. For $u = 0.9$ that is 0.005, and for $u = 1.1$ it is 117. In
# the first case the network can hardly learn from what happened 50 steps ago, because
# the gradient has **vanished**. In the second the gradient **explodes**, and one update
# can ruin all weights. Only $u = \pm 1$ does neither.
#
# **With a vector.** The gradient at $h_t$ has two sources: the prediction at step $t$,
# and all later predictions, because $h_t$ changes them, too. Write $g_t$ for the part
# that comes from the prediction at step $t$ alone. Write $\delta_t$ for the gradient of
# the whole loss with respect to the sum $a_t = W x_t + U h_{t-1} + b$. What do the
# later steps send back? If unit $j$ changes by a little, the sum of unit $i$ at the
# next step changes by $U_{ij}$ times as much. So unit $j$ gets back $U_{ij}$ times the
# gradient of that sum, added up over all sums. For all units together that is $U^\top
# \delta_{t+1}$. We add both parts, and multiply by the slope $f'(a_t)$ of each unit.
# ($\odot$ multiplies number by number.)
#
# $$\delta_t = f'(a_t) \odot \left(g_t + U^\top \delta_{t+1}\right), \qquad
#   \frac{\partial \mathcal{L}}{\partial U} = \sum_t \delta_t h_{t-1}^\top, \qquad
#   \frac{\partial \mathcal{L}}{\partial W} = \sum_t \delta_t x_t^\top$$
#
# The weights are used at every step, so their gradients are sums over all steps. And
# with each step back, the gradient is multiplied by $U^\top$ and by the slope of $f$,
# which takes the place of the factor $u$. The slope of tanh is one minus the square of
# its value. The derivative of a vector by another one is a matrix, which holds the
# derivative of each component by each. Here it is a product, in which *diag* writes the
# slopes on the diagonal of a matrix of zeros:
#
# $$\frac{\partial h_t}{\partial h_{t-k}} = D_t U \, D_{t-1} U \cdots D_{t-k+1} U,
#   \qquad D_t = \operatorname{diag}(1 - h_t^2)$$
#
# **How fast?** A product of many factors rarely keeps its size. Multiply a vector by
# $U$, and its length changes by some factor. The largest and the smallest factor that
# any vector can get are the largest and the smallest *singular value* of the matrix. No
# slope of tanh is above 1. So if all singular values are below 1, each step shrinks the
# gradient, and it vanishes exponentially with the distance ([@bengio1994learning]). To
# explode, it needs a singular value above 1 ([@pascanu2013difficulty]).
#
# What does our orthogonal $U$ achieve? All its singular values are 1, but the slopes
# still shrink the gradient. `torch.nn.RNN` instead draws each number of $U$ at random
# from the range $\pm 1/\sqrt{N}$. A singular value says what *one* product with $U$ can
# do. In such a matrix the largest is above 1, so one step may still stretch. What
# *many* products do depends on the eigenvalues, roughly, the factors by which $U$
# stretches a vector that it does not turn. The largest of them in absolute value, the
# *spectral radius* ρ, is here about $1/\sqrt 3 \approx 0.58$. So ten steps without
# input keep only 0.4 % of a small state.
#
# ![How long a gradient is after so many steps back: in new networks, whose $U$ is an
# orthogonal matrix times ρ, and in the trained one.](figure:elman.vanishing)
#
# The curve ρ = 1.0 is that of an orthogonal $U$. About a thousandth of its gradient is
# left after 30 steps. Larger inputs would leave less, because they move the units to
# where tanh is flatter. At ρ = 1.5 each step stretches by nearly as much as the slopes
# shrink, but only for inputs of this size. At ρ = 2.0 the slopes cannot keep up, and
# the gradient explodes.
#
# **In a trained network** you cannot read this off $U$. In the one above, the two
# matrices have spectral radii of 3.2 and 2.7. Does its gradient explode? It vanishes:
# after 30 steps 0.000005 of it is left. Two thirds of its units are *saturated*, which
# means beyond ±0.95. There tanh is nearly flat, and half of all slopes are below 0.02.
# The network has learned to store its state in units near −1 or 1, where small
# disturbances do not harm. But such a unit also passes hardly any gradient.
#
# **Clipping.** Before each update we scale the gradient $G$ of all parameters down if
# its length exceeds a threshold $\theta$ (1 in the program):
#
# $$G \leftarrow \min\left(1, \frac{\theta}{\|G\|}\right) G$$
#
# Its direction stays the same, but no single update can be too large. So explosion does
# no harm any more. But what has vanished does not come back, because clipping can only
# make a gradient shorter.
#
# **Gates.** An Elman network sends its whole state through $U$ and $f$ at every step.
# An [LSTM](../../lstm/__init__.py) has a second state, its cell $c_t$. At each step it
# keeps a part of the old cell and *adds* something new, $\tilde c_t$, for which the
# page on the LSTM writes $g_t$:
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot \tilde c_t$$
#
# The *forget gate* $f_t$ says how much of the old cell stays, and the *input gate*
# $i_t$ how much of the new is added. Both are vectors of numbers from 0 to 1, which the
# network computes at each step. (This $f_t$ is not our $f$, and $c_t$ is not our $c$.)
# On this path $\partial c_t / \partial c_{t-1} = \operatorname{diag}(f_t)$, if we leave
# out that the gates depend on the past, too. Where the forget gate is near 1, the
# gradient passes without $U$ and without a slope. The LSTM of 1997
# ([@hochreiter1997long]) had a fixed 1 in its place. The gate was added later, so that
# a cell can also forget ([@gers2000learning]). A [GRU](../../lstm/gru.py)
# ([@cho2014learning]) has the same idea with fewer gates.
#
# The page on [backpropagation through time](bptt.py) derives all this, and measures how
# fast the gradient vanishes.

# ## Cost
#
# A layer has $N C + N^2 + N$ parameters, whatever the length of the sequence. A step
# costs $N C + N^2$ multiplications, and a sequence $T$ times as many. That is linear in
# its length, where attention is quadratic. Training must keep all $T$ states for the
# backward pass, but generation keeps only the last.
#
# What can run in parallel? The products $W x_t$ do not depend on the state, so they can
# be computed for all steps at once, in one large product before the loop. The same
# holds for the output layer, after it. Only $U h_{t-1}$ and $f$ must wait for the step
# before. That leaves $T$ operations in sequence, however many cores there are, whereas
# a transformer processes all positions of a training sequence in parallel.
#
# Is there no shortcut? Without $f$ there would be one. The recurrence would be linear,
# $h_t = \sum_{k=0}^{t-1} U^k (W x_{t-k} + b)$ from $h_0 = 0$. Such a sum can be
# computed for all $t$ in about $\log T$ parallel rounds ([@martin2017parallelizing]).
# Recent recurrent networks make exactly this trade: a linear recurrence that is fast to
# train, with the nonlinear functions between the layers instead of between the steps.

# ## Training and generation
#
# All [language models](../../language_model.py) of this library compute their loss
# themselves, and so does this one. In generation each predicted token becomes the next
# input. Here the model learns *hello*, and writes it:
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanConfig, ElmanLanguageModel
#
# letters = "helo"
# tokens = torch.tensor([[letters.index(c)] for c in "hello"])  # [T, B]
# config = ElmanConfig(n_vocab=4, d_model=8, d_hidden=16, n_layers=1)
# model = ElmanLanguageModel(config)
# optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
# for _ in range(50):
#     loss = model.loss(tokens[:-1], tokens[1:])
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# model.eval()  # no dropout
# token, state, word = tokens[:1], None, "h"
# with torch.inference_mode():
#     for _ in range(4):
#         logits, state = model(token, state)
#         token = logits.argmax(-1)  # or draw one from their softmax
#         word += letters[token]
# print(word)
# assert word == "hello"
# ```
#
# Each new token costs one step, whatever came before it, and nothing is stored but the
# $L N$ numbers of the state. [`generate`](../../sampling.py) draws tokens, with a
# temperature and top-k, for batches of prompts of different lengths.
#
# For a long text, cut it into $B$ equal parts and read them side by side, a chunk of
# each at a time. Each chunk starts from the state in which the one before it ended:
# `loss, state = model.loss(chunk, targets, state, return_state=True)`.

# ## Common mistakes
#
# * **"Trying to backward through the graph a second time"** at the second chunk: the
#   state is still attached to the first. Pass `state.detach()`.
# * **The loss jumps and does not come back**: the gradient exploded. Clip it, or lower
#   the learning rate.
# * **The loss stays high, without any error**: check the axes. Inputs with the batch
#   first mix the sequences.
# * **The start of one text continues another**: a state was passed on between unrelated
#   texts. Start with `state=None`.
# * **Little is remembered beyond a chunk**: no gradient has ever reached farther than
#   its beginning. Try longer chunks or a gated network.

# ## Differences from the paper
#
# <details><summary>Activation function, gradients, inputs, depth</summary>
#
# * **Context units.** Elman draws the state before a step as *context units*, into
#   which the hidden units are copied unchanged after each step. In code the copy is the
#   variable `h`. An earlier network by Jordan ([-@jordan1997serial], a report of 1986)
#   feeds its *output* to such units, which also keep a share of their own old value. An
#   output holds only the answer, but a hidden state can also hold what will be needed
#   later.
# * **Activation function.** We use tanh and $h_0 = 0$. The paper has the sigmoid
#   (`nonlinearity="sigmoid"`), and its context units start at 0.5, the middle of the
#   sigmoid's range.
# * **Gradients.** The paper treats the context units as an ordinary input, so the
#   gradient of step $t$ stops at $h_{t-1}$ (`detach` after each step). Here it
#   continues through all steps of the chunk.
# * **Inputs and outputs.** The paper's inputs differ by experiment: single bits,
#   hand-made features of consonants and vowels, random codes of five bits for letters,
#   and one unit for each word. Its loss is the squared error. Here embeddings are
#   learned and tied to the output, with softmax and cross entropy.
# * **Depth.** The paper has one layer, and neither dropout nor label smoothing.
#
# </details>

# ## Exercises
#
# **1.** The first experiment of the paper is a stream of bits: two random bits, then
# their exclusive or (which is 1 if just one of them is 1), then two more random bits,
# and so on, `101 110 000 …`. Train a layer to predict the next bit. Which bits can it
# predict?
#
# <details><summary>Answer</summary>
#
# Every third one, from the two bits before it. You need both, and the first of them is
# available only in the hidden state. The other bits are random, and cost $\ln 2 = 0.69$
# nats each.
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
# **2.** `torch.nn.RNN` is an Elman network too. Write a function that converts one.
# Then take one step of plain gradient descent in both. Which parameter differs
# afterwards?
#
# <details><summary>Answer</summary>
#
# The bias. Both biases of `nn.RNN` have the gradient of our single one, and both move,
# so their sum moves twice as far. A second bias doubles the learning rate of the bias.
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
# a tenth of what an Elman cell computes. Build such a layer. How much of a state is
# left after ten steps, if $U = 0$ and there is no input? And if $U = 2 I$?
#
# <details><summary>Answer</summary>
#
# Replace the cell. With $U = 0$ a state shrinks by a tenth per step, and $0.9^{10} =
# 0.35$ of it is left. With $U = 2 I$ the cell feeds itself: a unit that starts at 0.8
# is at 0.96 after 200 steps, and one that starts at −0.8 is at −0.96. It remembers its
# sign for ever. In gated networks the two shares are learned and depend on the input.
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanCell, ElmanLayer
#
# class LeakyCell(ElmanCell):
#     def forward(self, x_t, h):
#         return 0.9 * h + 0.1 * super().forward(x_t, h)
#
# layer = ElmanLayer(4, 2, bias=False)
# layer.cell = LeakyCell(4, 2, bias=False)
# nothing, state = torch.zeros(200, 1, 4), torch.tensor([[0.8, -0.8]])
# with torch.no_grad():
#     layer.cell.recurrent.weight.zero_()
#     states, _ = layer(nothing, state)
#     torch.testing.assert_close(states[9], 0.9**10 * state)
#
#     layer.cell.recurrent.weight.copy_(2 * torch.eye(2))
#     _, last = layer(nothing, state)
#     expected = torch.tensor([[0.9575, -0.9575]])
#     torch.testing.assert_close(last, expected, atol=1e-4, rtol=0)
# ```
#
# </details>
