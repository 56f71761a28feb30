r"""
---
title: Elman network (recurrent neural network, RNN)
summary: >
  A network that remembers: each step reads one token and its own hidden state from the
  step before. This is the recurrent neural network (RNN) in its plainest form.
paper: https://doi.org/10.1207/s15516709cog1402_1
notebook: notebooks/elman.ipynb
tones: {hidden state: 5, state: 5, weight: 0, gradient: 6, loss: 6, losses: 6}
---

You read *hel*. Which letter comes next? Probably an *l*. You read on, *hell*, and now
you expect an *o*. Both times the letter in front of you was an *l*, and yet your two
answers differ, because you remember what came before it. A **recurrent neural
network**, or **RNN**, remembers too. We build the plainest one, that of Elman
([-@elman1990finding]).

![*Hello* goes through the network of this page. Each state, two numbers, is made of a
letter and the state before, and predicts the next letter.](figure:elman.network)

Its task is to predict, after each letter of *hello*, the next one. So its inputs are *h
e l l*, and the right answers, the **targets**, are *e l l o*: the same word, shifted by
one letter. A text is its own label.

![Each letter is the target of the one before it.](figure:elman.targets)

**Why not the network that you know?** A feed-forward network computes its hidden units
$f(W x + b)$ from the input $x$ and remembers nothing. It receives the same *l* twice
and must give the same answer twice, but one of the two would be wrong. Could we show it
a window of several letters at once, with separate weights for each position in the
window? That helps, but what lies before the window is lost. And
if you shift a phrase by one letter, it meets different weights, so it must be learned
again at every position.

![Left: the best answer without memory. Right: shifted by one letter, *e* meets other
weights.](figure:elman.forgetful)

**One term more.** Elman reads one letter at a time, and gives the hidden units a second
input: their own values after the letter before.

$$f(W x + b) \quad \to \quad h_t = f(W x_t + U h_{t-1} + b)$$

The vector $h_t$ is the **hidden state** after step $t$ (not the letter *h*, which has
no index). It is all that the network remembers. $W$ weighs the letter,
$U$ weighs the memory, and $b$ is a bias. $f$ is an activation function, here tanh,
which squeezes any number into the range from −1 to 1.

$W$, $U$ and $b$ are the same at every step. So a word may have any length, and what
the network learns at one position is available at all others. But the *effect* of a
letter is not always the same, because it depends on the state that the letter meets.

![The second *l* of *hello* meets the state of the first. The weights follow
below.](figure:elman.one_step)

**How does a letter become a vector?** A **token** is what the model reads in one step,
here a letter. If we numbered *h*, *e* and *l* as 1, 2 and 3, we would claim that *e*
lies between the other two. Instead we use a **one-hot** vector, with one component for
each token of the vocabulary. It is 1 for our token, and 0 for all others. Then the
product $W x_t$ simply picks a column of $W$.

![The letter *l* picks the third column.](figure:elman.one_hot)

## A word by hand

Two hidden units are enough for *hello*. We choose their weights by hand, so that you
can check each step. (Training will find weights of its own.) Unit 2 looks only at the
letter. Unit 1 looks only at the memory: it receives twice what unit 2 was one step
before. The state before the first letter is zero.

![The bias is zero.](figure:elman.matrices)

Read the word with the network. (Bars are probabilities of the next letter, explained
below.) Then choose another word, or turn its memory down.

1. The letter *h* gives −1 to unit 2, and tanh makes −0.76 of it. Unit 1 gets nothing,
   because there is nothing to remember yet.

2. The letter *e* gives nothing. But the memory does: unit 2 was −0.76, and twice that
   is −1.52 for unit 1. The state is (−0.91, 0), which says: "there was an *h*".

3. The first *l* gives 2 to unit 2. The memory gives nothing, because unit 2 was 0. The
   state is (0, 0.96).

4. The second *l* gives the same 2. But now unit 1 gets twice 0.96, which is 1.93. (Only
   what is printed is rounded.) The state is (0.96, 0.96). Unit 1 says: "the letter
   before this one was an *l*". Of *h* and *e* nothing is left: what is new overwrites
   what is old.

![From below: letter, state, probabilities of the next letter.](figure:elman.hello)

**From a state to a prediction.** One more matrix, $R$, also chosen by hand, *reads* the
state. It gives one score for each letter, and these scores are called **logits**. The
**softmax** turns them into probabilities. It takes the exponential of each, exp, and
divides the results by their sum. For example, after *hel* the target *l* gets 47.28 /
49.30 = 0.96.

![The prediction after *hel*.](figure:elman.logits)

**How good is that?** The **loss** of a step is $-\ln p$, where $p$ is the probability
of the target, here $-\ln 0.96 = 0.04$. Its unit is the **nat**. A certain and right
prediction would cost 0 nats. If you know nothing, you give each of the four letters the
probability 1/4, and pay $\ln 4 = 1.39$ nats a letter. Our network pays 0.06, the mean
of its four losses.

What would we lose without memory? Set $U = 0$. Both *l*s then lead to the state
(0, 0.96), and after *hell* the network predicts another *l*. It gives the *o* a
probability of 0.02 and pays 3.90 nats. The best that any network without memory can do
is to give *l* and *o* one half each, and to pay $\ln 2 = 0.69$ nats twice: 0.35 a
letter, and not 0.06.

![Bars are losses.](figure:elman.losses)

**In one formula.** You have just run a whole **language model**, a model that predicts
the next token. Write $w_t$ for the token at step $t$, $y_t$ for its target and $T$ for
the number of steps. $\mathcal{L}$ is the mean loss, and $c$ a bias of the logits, which
was zero in our example. Then the model is

\begin{align}
h_t &= f(W x_t + U h_{t-1} + b) \\
z_t &= R h_t + c, \qquad p_t = \operatorname{softmax}(z_t) \\
\mathcal{L} &= -\tfrac{1}{T} \textstyle\sum_t \ln p_t(y_t), \qquad y_t = w_{t+1}
\end{align}

![Boxes lead to the code.](figure:elman.model)

## Training

We start from random weights. For each of them we compute how the loss would change with
it. All these derivatives together are the **gradient** of the loss. Then we move each
weight a little to the side on which the loss falls, and repeat.

But how does the loss change with $U$, which was used at every step? We **unroll** the
network. We draw one copy of the cell for each step, and the state of one copy is an
input of the next. All copies share their weights. So this is a feed-forward network, as
deep as the text is long. To compute its ordinary gradient is called **backpropagation
through time**. The gradient comes back from copy to copy, and what all copies say about
a weight is added up.

![Networks with random weights. The thicker the line, the longer the gradient of the
loss for a state, which is a vector. The numbers are its lengths, the last one being
1.](figure:elman.backward)

**Why does the gradient shrink or grow?** Take one unit without inputs and without $f$:
$h_t = u h_{t-1}$. After 50 steps $h_{50} = u^{50} h_0$, so a small change of $h_0$
changes $h_{50}$ by $u^{50}$ times as much. For $u = 0.9$ that is 0.005. The gradient
has **vanished**, and the network can hardly learn from what happened 50 steps ago. For
$u = 1.1$ you get 117. The gradient **explodes**. Only $u = \pm 1$ does neither. In a
network, each step back multiplies the gradient by $U$, which stretches or shrinks it as
$u$ does, and by [the slopes of $f$](#the-gradient), which are 1 at most.

![What becomes of a change of size 1, steps later.](figure:elman.powers)

**Clipping.** One update with an exploded gradient can ruin all weights. So we shorten
the gradient $G$ of all weights, if it is longer than a threshold $\theta$:

$$G \leftarrow \min\left(1, \frac{\theta}{\|G\|}\right) G$$

Its direction stays the same, but no update is too large. This does not bring back what
has vanished. Nor does it help if the gradient is infinite: then the factor is 0, and
$0 \cdot \infty$ is NaN, not a number.

![Right: one unit with $h_0 = 1$, which should have $h_{50} = 0.5$; one update from the
weight 1.05, learning rate 0.01.](figure:elman.clipping)

**Long texts.** We read them in chunks. The state after one chunk starts the next, so
the network still uses what it read long ago. But we let the gradient stop at the
beginning of the chunk, and nothing teaches a chunk what to store for later ones.
Otherwise each update would go back through the whole text.

![Truncated backpropagation through time.](figure:elman.chunks)

Let us try it: [40 lines](#training-and-generation) train 16 units to continue *hello
yellow fellow,* which has nine different characters, with the comma. One-hot vectors
give way to **embeddings**, vectors of any width that are learned like every weight.
After 50 updates the model has learned what we built by hand.

![Its training.](figure:elman.learning)

## When memory decides

You see at each step whether a switch is pressed, and each press turns a lamp on or off.
Is it on now? It was off at first. A window that misses a press cannot tell you.

![Each step is a press or a dot. The last four are the same.](figure:elman.lamp)

We train three small networks on 16 steps, and test them on 1,000. The first has a state
of 16 numbers. The second sees the last four steps. The third is like the first, but $U$
stays 0, so it can only guess. From step 5 on, so must the second: its window no longer
reaches back to the beginning. (At steps 3 and 4 it sees all, and yet not all of the
five are right.) With memory, all five networks are right at step 1,000 in each of 1,000
tests. They have learned what to do at *one* step, and that works at any. A network
needs a gradient that reaches back to learn this, but not to use it.

![Equal distances, equal factors. [How it was
measured](#the-task-with-the-lamp).](figure:elman.lamp_by_step)

**What does a state learn to store?** Our program does not say. A state must help to
predict now, and keep what later predictions will need. Gradient descent has to find out
what that is. Elman trained a network on a stream of letters without spaces. Its error
is high at the first letter of a word and falls towards the last. The network that you
can [try below](#try-it) has read Shakespeare, with spaces. On a verse that it has not
seen, the first letter of a word costs it 2.67 nats on average, and each later one 0.74.

![The loss of each letter; brown: first letters of
words.](figure:trained.surprise_of_elman)

## Gains and price

Each step costs the same, whether it reads the first token or the millionth. And with
$N$ hidden units, all that a layer keeps is $N$ numbers. But they must do for
everything. A [transformer](../../transformers/mha.py) stores every token instead. The
steps must also wait for each other. And what was long ago has come through every step
since, and the gradient must go back through them all. The
[LSTM](../../lstm/__init__.py) was invented for that.

![The paler a state, the less of a gradient at the sixth letter arrives
there.](figure:elman.price)

## The whole in code

The recurrence is one line. The module below computes the same. It adds layers,
padding, dropout, checks, and the shapes of all tensors.

```python
import torch
from torch import nn


class RNN(nn.Module):
    def __init__(self, n_vocab, d_model, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, d_model)
        self.W = nn.Linear(d_model, d_hidden)  # with the bias b
        self.U = nn.Linear(d_hidden, d_hidden, bias=False)
        self.R = nn.Linear(d_hidden, n_vocab)  # with the bias c

    def forward(self, tokens, h):
        logits = []
        for x_t in self.embedding(tokens):
            h = torch.tanh(self.W(x_t) + self.U(h))
            logits.append(self.R(h))
        return torch.stack(logits), h


model, tokens = RNN(4, 8, 16), torch.tensor([[0], [1], [2], [2]])  # h e l l
print(model(tokens, h=torch.zeros(1, 16))[0].softmax(-1))
```

## Try it

A network of two layers of 256 units, trained for a little more than two minutes of one
CPU core, runs in this page. It writes like this:

> You not dies thee. But a hate.' If is the queen, I have not leave thee, and we should
> me comes the better 'shapen being with God's straight better

Watch its hidden units while it reads, see how far back the gradient reaches, and change
one letter to see how soon it is forgotten.

![Above a unit that is negative in names, below one that is positive at vowels, and at
some other letters.](figure:live.units)"""

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
from labml_nn.language_model import (
    LanguageModel,
    LanguageModelConfig,
    at_least_single,
)
from labml_nn.reference import reference

__all__ = ["Elman", "ElmanCell", "ElmanConfig", "ElmanLanguageModel", "ElmanLayer"]


class ElmanCell(nn.Module):
    r"""
    ## One step

    $$h_t = f(W x_t + U h_{t-1} + b)$$

    A letter and a state go in, and the next state comes out. For example, the second
    *l* of *hello* and (0, 0.96) give (0.96, 0.96).
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
        # (PyTorch computes one in 32 or 64 bits only.)
        weight = self.recurrent.weight.detach()
        weight.copy_(nn.init.orthogonal_(at_least_single(weight)))

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

    The layer is a loop over the cell. For *hello* it takes four steps, as you did. It
    reads a batch of $B$ sequences side by side.
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
      the output projection, but not before the first layer
    * `embedding_dropout_prob`: dropout probability of the embeddings
    * `output_dropout_prob`: dropout probability of the output features
    * `nonlinearity`: `tanh`, `sigmoid` or `relu`, in the layers
    * `tanh_projections`: put a tanh after each of the projections $P$ and $Q$ (see the
      model below)
    * `tied`: use the embeddings in the output, too, instead of another matrix
    * `learn_h_0`: train $h_0$; otherwise it is zero

    [`LanguageModelConfig`](../../language_model.py) has the fields that all models
    share. By default there is no range for the initial weights: $U$ starts orthogonal,
    embeddings are normal, and the other linear layers start as PyTorch starts them. If
    you set `init_lower` and `init_upper`, every matrix starts uniform between them, and
    $U$ is not orthogonal. With `n_vocab=65` the defaults have 337,000 parameters.
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

    You know [the plainest model](#the-whole-in-code): embedding, recurrence, linear
    output. This one adds three refinements: projections $P$ and $Q$ around the
    recurrence, embeddings that serve the output, too, and a scale $s$.

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


# ## Symbols
#
# In the shapes, T is the number of steps and B that of sequences side by side. An input
# has C features, a layer N hidden units. There are L layers, and V tokens in the
# vocabulary. For example, our batch of one *hell* has T = 4, B = 1, C = V = 4, N = 2.
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $x_t$ | `x_t` | `[B, C]` | input at step $t$; all steps are `x`, `[T, B, C]` |
# | $h_t$ | `h` | `[B, N]` | hidden state after step $t$ |
# | $h_0$ | `h_0` | `[N]` | hidden state before the first step |
# | $h_t^l$ | `state` | `[L, B, N]` | the same for each layer $l$ |
# | $W$ | `input.weight` | `[N, C]` | input weights |
# | $b$ | `input.bias` | `[N]` | bias |
# | $U$ | `recurrent.weight` | `[N, N]` | recurrent weights |
# | $a_t$ | `a` | `[B, N]` | the sum before the activation function |
# | $f$ | `nonlinearity` | | activation function, tanh by default |
# | $w_t$ | `tokens` | `[T, B]` | tokens of the language model |
# | $y_t$ | | `[T, B]` | targets: $y_t = w_{t+1}$ |
# | $E$ | `embedding.weight` | `[V, C]` | token embeddings |
# | $s$ | `scale` | | factor of the embeddings as inputs |
# | $P$, $r$ | `input_projection` | `[N, C]`, `[N]` | from embeddings to inputs |
# | $Q$, $q$ | `output_projection` | `[C, N]`, `[C]` | from states to output features |
# | $\phi$ | `activation` | | activation function after both projections, or none |
# | $o_t$ | `o` | `[T, B, C]` | output features |
# | $c$ | `output_bias` | `[V]` | output bias |
# | $R$ | | `[V, N]` | output weights of the first reading |
# | $z_t$ | `logits` | `[T, B, V]` | logits of the next token |
# | $g_t$, $\delta_t$ | | `[N]` | gradients with respect to $h_t$ and $a_t$ |
# | $D_t$ | | `[N, N]` | slopes of $f$ at step $t$, on the diagonal |

# ## The gradient
#
# The one unit [above](#training) multiplies the gradient by $u$ at each step. What
# takes the place of $u$ in a network?
#
# **With a vector.** The gradient at $h_t$ has two sources: the prediction at step $t$,
# and all later predictions, because $h_t$ changes them, too. Write $g_t$ for the part
# that comes from the prediction at step $t$ alone. Write $\delta_t$ for the gradient of
# the whole loss with respect to the sum $a_t = W x_t + U h_{t-1} + b$. The sum at the
# next step depends on $h_t$ through $U$, $\partial a_{t+1} / \partial h_t = U$, so the
# later steps send back $U^\top \delta_{t+1}$. We add both parts, and multiply by the
# slope $f'(a_t)$ of each unit. ($\odot$ multiplies number by number.)
#
# \begin{align}
# \frac{\partial \mathcal{L}}{\partial h_t} &= g_t + U^\top \delta_{t+1}, &
#   \delta_t &= f'(a_t) \odot \frac{\partial \mathcal{L}}{\partial h_t} \\
# \frac{\partial \mathcal{L}}{\partial U} &= \sum_t \delta_t h_{t-1}^\top, &
#   \frac{\partial \mathcal{L}}{\partial W} &= \sum_t \delta_t x_t^\top
# \end{align}
#
# We use the weights at every step, so their gradients are sums over all copies. And
# with each step back, the gradient is multiplied by $U^\top$ and by the slope of $f$.
# The slope of tanh is one minus the square of its value. Here *diag* writes the slopes
# on the diagonal of a matrix of zeros:
#
# $$\frac{\partial h_t}{\partial h_{t-k}} = D_t U \, D_{t-1} U \cdots D_{t-k+1} U,
#   \qquad D_t = \operatorname{diag}(1 - h_t^2)$$
#
# **How fast?** A product of many factors rarely keeps its size. If you multiply a
# vector by $U$, its length changes by some factor. The largest and the smallest factor
# that any vector can get are the largest and the smallest *singular value* of the
# matrix. No slope of tanh is above 1. So if all singular values are below 1, each step
# shrinks the gradient, and it vanishes exponentially with the distance
# ([@bengio1994learning]). To explode, it needs a singular value above 1
# ([@pascanu2013difficulty]).
#
# **At the start.** Our $U$ is orthogonal: all its singular values are 1, but the slopes
# still shrink the gradient. `torch.nn.RNN` instead draws each number of $U$ at random
# from the range $\pm 1/\sqrt{N}$. A singular value says what *one* product with $U$ can
# do. In such a matrix the largest is above 1, so one step may still stretch. What
# *many* products do to a vector depends on the eigenvalues of $U$. Most of them are
# complex numbers: a pair of them turns a plane and stretches it. After $k$ steps the
# length has changed like the $k$-th power of the largest absolute value, the *spectral
# radius* ρ. It is here about $1/\sqrt 3 \approx 0.58$. So ten steps without input keep
# only 0.4 % of a small state.
#
# The curve ρ = 1.0 is that of an orthogonal $U$. About a thousandth of its gradient is
# left after 30 steps. Larger inputs would leave less, because they move the units to
# where tanh is flatter. At ρ = 1.5 each step stretches by nearly as much as the slopes
# shrink, but only for inputs of this size. At ρ = 2.0 the slopes cannot keep up, and
# the gradient explodes.
#
# ![How long a gradient is after so many steps back: in new networks, whose $U$ is an
# orthogonal matrix times ρ, and in the trained one.](figure:elman.vanishing)
#
# **In a trained network** you cannot read this off $U$. In the one that has read
# Shakespeare, the two matrices have spectral radii of 3.2 and 2.7. Does its gradient
# explode? It vanishes: after 30 steps 0.000005 of it is left. Two thirds of its units
# are *saturated*, which means beyond ±0.95. There tanh is nearly flat, and half of all
# slopes are below 0.02. The network has learned to store its state in units near −1 or
# 1, where small disturbances do not harm. But such a unit also passes hardly any
# gradient.
#
# How can the network of the [lamp](#when-memory-decides) be right after 1,000 steps, if
# gradients vanish? It was trained on 16. A rule for one step that holds its state near
# −1 or 1 needs no gradient from far away to last.
#
# **What clipping does not do.** It makes a gradient shorter and never longer, so what
# has vanished does not come back. A clipped gradient still has the direction of the
# long one, which may be useless: behind a wall of the loss the slope says little about
# where to go. And an infinite gradient becomes NaN, because its length is infinite as
# well: the factor $\theta / \infty$ is 0, and $0 \cdot \infty$ is no number. Its weight
# is NaN after the update, and so is the next loss. `clip_grad_norm_` raises an error
# instead if you pass `error_if_nonfinite=True`, and a training program can skip such an
# update.
#
# **Gates.** An Elman network sends its whole state through $U$ and $f$ at every step.
# An [LSTM](../../lstm/__init__.py) has a second state, its cell. At each step it keeps
# a part of the old cell and *adds* something new. How much it keeps is a vector of
# numbers from 0 to 1, the *forget gate*, which the network computes at each step. Where
# it is near 1, the gradient passes without $U$ and without a slope. The LSTM of 1997
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
# $P$ and the $W$ of the first layer are two linear maps in a row, if there is no $\phi$
# between them. One matrix of 256 × 128 could replace them, with 32,768 weights instead
# of 98,304. We keep both, so that all layers have one shape and $\phi$ is the only
# difference between the variants. [Generation](../../kernels/elman.py#ElmanStep)
# multiplies them in advance.
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
# Four things in this program are not in the example by hand. An `Embedding` replaces
# the one-hot vector, so $W$ no longer picks a column but multiplies the embedding. The
# text is read in chunks of ten letters, and the state after one chunk is passed to the
# next. PyTorch remembers how each number was computed (its *graph*), to find
# derivatives, and `detach` makes it forget that for the state. Otherwise the backward
# pass of the second chunk would run into the first, and PyTorch would [raise an
# error](#common-mistakes). And the gradient is [clipped](#training).
#
# ```python
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.recurrent.elman import Elman
#
# text = "hello yellow fellow, " * 100
# letters = sorted(set(text))
# # Four equal pieces of the text, one in each column: T = 525 steps, B = 4 pieces.
# tokens = torch.tensor([letters.index(c) for c in text]).view(4, -1).t()
#
# class Model(nn.Module):
#     def __init__(self, n_vocab, d_model, d_hidden):
#         super().__init__()
#         self.embedding = nn.Embedding(n_vocab, d_model)
#         self.elman = Elman(d_model, d_hidden)
#         self.output = nn.Linear(d_hidden, n_vocab)
#
#     def forward(self, tokens, state=None):
#         h, state = self.elman(self.embedding(tokens), state)
#         return self.output(h), state
#
# model = Model(len(letters), d_model=8, d_hidden=16)
# optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
# state, losses = None, []
# for t in range(0, 500, 10):
#     logits, state = model(tokens[t : t + 10], state)
#     targets = tokens[t + 1 : t + 11]  # the same text, one letter later
#     # The softmax, and the mean of -ln p over all steps and pieces.
#     loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
#     losses.append(loss.item())
#     optimizer.zero_grad()
#     loss.backward()
#     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
#     optimizer.step()
#     state = state.detach()  # keep its value, drop its graph
#
# for prompt in ("hel", "hell"):
#     logits, _ = model(torch.tensor([[letters.index(c)] for c in prompt]))
#     p = logits[-1, 0].softmax(-1)
#     print(prompt, letters[p.argmax()], f"{p.max():.2f}")  # about 0.98 each
# assert letters[p.argmax()] == "o"
# ```
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

# ## The task with the lamp
#
# At each step the switch is pressed with probability 1/2, and the lamp starts off. An
# input is a one-hot vector, pressed or not, and the target is on or off after this
# step. Three models have 16 tanh units and a linear output: an Elman layer; a
# feed-forward network that reads the last four steps; an Elman layer whose $U$ is 0 and
# stays so. Each is trained for 400 updates on 64 new sequences of 16 steps, by Adam
# with a learning rate of 0.02, and gradients are clipped to a length of 1. A run takes
# about two seconds of CPU time. All models and seeds are tested on the same 1,000
# sequences of 1,000 steps. As long as its window reaches back to the beginning, the
# second network can know the answer; from the fifth step on it guesses.

# ## Comparison with other models
#
# In our [comparison of small models](../../../results.md), each with about 204,000
# parameters, the Elman network has a lower loss on Shakespeare than the transformer:
# 1.81 against 1.95 nats a character after 800 updates, and 1.82 against 2.09 after 13
# seconds of one CPU core. This holds for models of this size, after training as short
# as that, on one core. There most of a character follows from the few before it. It
# says nothing about large models or long training. On a GPU the loop over steps is
# slow. And what stood far back is hard for a recurrent network: see [what a sequence
# model remembers](../../../memory.md).
#
# In that comparison the recurrence is that of 1990, but it has two layers and learned
# embeddings, and it is trained [in a newer way](#differences-from-the-paper).
#
# **What the states of 1990 stored.** Elman trained a network on sentences, one word at
# a step. He averaged the hidden states in which each word left it, and clustered the
# averages. Nouns separated from verbs, and animate nouns from inanimate ones. It had
# learned this from word order alone.

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
