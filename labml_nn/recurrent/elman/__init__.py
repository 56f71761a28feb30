r"""
---
title: Elman network
summary: >
  A network that reads one step after the other and keeps in mind what it made of the
  steps before: the simplest recurrent network, and the ancestor of the others.
paper: https://doi.org/10.1207/s15516709cog1402_1
notebook: notebooks/elman.ipynb
---

You understand this sentence one word at a time. When you come to *time*, the other
words are gone from your eye, but not from your mind: what you made of them is still
there, and *time* is added to it.

A plain network has no such mind. It maps an input to an output and forgets both. To
read a text, it would have to get all words at once, each through weights of its own,
and what it learned about the third word would be of no use when the same word came
fourth. Elman ([-@elman1990finding]) gave it a memory in the simplest way there is: what
the hidden units did at the last step is copied, and at the next step the copy is part
of the input.

```text
   output      y₁           y₂           y₃
               ▲            ▲            ▲
   hidden      h₁ ──copy──► h₂ ──copy──► h₃ ──►  …
               ▲            ▲            ▲
   input       x₁           x₂           x₃
```

Nobody tells the network what to put into the copy. It has to predict what comes next,
and whatever of the past helps with that is worth keeping. The paper shows what networks
find out in this way: where words begin in a stream of letters, and, from the order of
words in simple sentences, which of them are nouns and verbs.

As an equation, with the input $x_t$ and the **state** $h_t$ as columns:

$$h_t = \tanh(W x_t + U h_{t-1} + b)$$

$W$ says what an input does to the state, $U$ what the state does to the next one. Both
are the same at each step: the network has as many parameters for a word as for a novel,
and a step of the novel costs no more than one of the word.

That is its charm, and its limit. Everything there is to know about the text so far must
fit into $N$ numbers, each new word writes over them, and a gradient has to come back
through every one of those overwritings. [Backpropagation through time](bptt.py) shows
how it does, and how little of it arrives. Gates ([@hochreiter1997long]) help it
through. Attention gave the problem up: a [transformer](../../transformers/mha.py) keeps
all steps and looks back at any of them directly. It also needs no step before the next
one can begin, so that it learns from all positions of a text at the same time, while a
recurrent network has to go through it. But its memory grows with the text, and that of
an Elman network never does.

![What arrives of a gradient that is sent back from the last
state.](figure:elman.unrolled)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x` | `[T, B, C]` | the inputs |
| $h_t^l$ | `state` | `[L, B, N]` | the states of all layers after step $t$ |
| $h_0$ | `h_0` of `ElmanLayer` | `[N]` | the state before the first step |
| $W$, $U$, $b$ | of a [layer](layer.py) | | what makes the next state |

## Try it: exclusive or, in time

The first experiment of the paper. Take two random bits and their exclusive or, then two
more, and so on: `101 110 000 011 …`. Every third bit can be predicted, if you remember
the bit before the last; the others cannot. The network is only asked for the next bit.
It is not told that there are triples.

```python
import torch
from torch import nn
from torch.nn import functional as F
from labml_nn.recurrent.elman import ElmanLayer

def triples(n, batch_size):
    pairs = torch.randint(2, (n, 2, batch_size))
    xor = pairs.sum(1, keepdim=True) % 2
    return torch.cat([pairs, xor], dim=1).flatten(0, 1).float()  # [3 n, B]

layer, read_out = ElmanLayer(d_model=1, d_hidden=16), nn.Linear(16, 1)
parameters = [*layer.parameters(), *read_out.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.02)
for _ in range(200):
    bits = triples(5, 64)
    states, _ = layer(bits[:-1, :, None])
    errors = F.binary_cross_entropy_with_logits(
        read_out(states).squeeze(-1), bits[1:], reduction="none"
    )
    optimizer.zero_grad()
    errors.mean().backward()
    optimizer.step()

by_step = errors.mean(1).tolist()
print([round(error, 2) for error in by_step])
assert max(by_step[1::3]) < 0.1  # the third of each triple
assert min(by_step[0::3] + by_step[2::3]) > 0.6  # a coin: log 2 = 0.69
```

It takes a fraction of a second, and prints `0.70, 0.02, 0.70, 0.70, 0.02, …`. The
pattern of errors shows the structure that was found: where it drops, something could
be known. In the paper the errors of a network that reads letters fall within each word
and jump where the next one begins.
"""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sequence, check_sizes
from labml_nn.recurrent.elman.cell import ElmanCell
from labml_nn.recurrent.elman.checks import check_state
from labml_nn.recurrent.elman.layer import ElmanLayer

__all__ = ["Elman", "ElmanCell", "ElmanLayer"]


class Elman(nn.Module):
    r"""
    ## Layers on top of each other

    The states of one layer are the inputs of the next:

    $$h_t^l = f(W^l h_t^{l-1} + U^l h_{t-1}^l + b^l), \qquad h_t^0 = x_t$$

    The lowest layer follows the letters, and those above it what the lower ones make of
    them. The states of all layers together are the state of the network.
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
        r"""
        * `d_model` is the number of features of an input, $C$
        * `d_hidden` is the number of units of each layer, $N$
        * `n_layers` is the number of layers, $L$
        * `dropout_prob` is the probability of dropping a feature on its way from one
          layer to the next, in training. On the way from one *step* to the next nothing
          is dropped: a memory that loses a tenth of itself at every step has lost 99 %
          after 44
        * `nonlinearity`, `bias` and `learn_h_0` are those of `ElmanLayer`

        Raises `ValueError` or `TypeError` for what cannot be.
        """
        super().__init__()
        check_sizes(d_model=d_model, d_hidden=d_hidden, n_layers=n_layers)
        check_probability(dropout_prob=dropout_prob)
        self.layers = nn.ModuleList(
            ElmanLayer(
                d_hidden if above else d_model,
                d_hidden,
                nonlinearity=nonlinearity,
                bias=bias,
                learn_h_0=learn_h_0,
            )
            for above in range(n_layers)
        )
        self.dropout = nn.Dropout(dropout_prob)
        self.d_model = d_model
        self.d_hidden = d_hidden

    def initial(self, batch_size: int) -> Float[Tensor, "L B N"]:
        """
        ### Before the first step

        Returns $h_0$ of all layers for `batch_size` sequences, `[L, B, N]`.
        """
        return torch.stack([layer.initial(batch_size) for layer in self.stack()])

    def stack(self) -> list[ElmanLayer]:
        """The layers, from the lowest to the highest."""
        return [cast(ElmanLayer, layer) for layer in self.layers]

    @property
    def backend(self) -> str:
        """
        ### Which form runs

        A name out of `BACKENDS` of [the layer](layer.py), for all layers. If they
        differ, that of the lowest is returned.
        """
        return self.stack()[0].backend

    @backend.setter
    def backend(self, name: str) -> None:
        for layer in self.stack():
            layer.backend = name

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: Float[Tensor, "L B N"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], Float[Tensor, "L B N"]]:
        r"""
        * `x` is a batch of sequences, `[T, B, C]`
        * `state` is what all layers had in mind before it, `[L, B, N]`; `None` is $h_0$
        * `mask` is that of `ElmanLayer`

        Returns the states of the last layer at each step, `[T, B, N]`, and the states
        of all layers after the last step, `[L, B, N]`, with their gradients. Raises
        what `ElmanLayer` does.
        """
        check_sequence("x", x, self.d_model, self.stack()[0].h_0)
        if state is not None:
            check_state(state, x, (len(self.layers), x.shape[1], self.d_hidden))
        last = []
        for above, layer in enumerate(self.stack()):
            if above:
                x = self.dropout(x)
            x, h = layer(x, None if state is None else state[above], mask)
            last.append(h)
        return x, torch.stack(last)


# ## Differences from the paper
#
# * **Tanh.** The paper's units lie between 0 and 1: the logistic sigmoid,
#   `nonlinearity="sigmoid"`. An exercise of [the cell](cell.py) shows that the two
#   are the same family of networks. Tanh begins around zero, where it is steepest, with
#   a slope of 1 where a sigmoid has 1/4, and that is what a gradient needs.
# * **Gradients.** The paper treats the copy as an input like any other: the error of
#   step $t$ trains $U$ with what is in the copy, and goes no further back. Here
#   gradients go all the way back, unless you cut them: see exercise 1.
# * **Layers.** The networks of the paper have one hidden layer.
# * **Outputs.** What is made of the states is left to others: to the `read_out` of the
#   example, or to the [language model](language_model.py).
#
# ## Exercises
#
# **1.** Train the exclusive or like the paper: cut the gradient after every step. Does
# the network still learn to remember?
#
# <details><summary>Answer</summary>
#
# Here it does. Nobody teaches the state at step $t$ to keep what step $t + 1$ will
# need. But $U$ is a rotation, so the last bit is in the state anyway, and it is enough
# to learn what to make of it. What has to be kept for longer needs gradients that reach
# back.
#
# ```python
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.recurrent.elman import ElmanLayer
#
# layer, read_out = ElmanLayer(1, 16), nn.Linear(16, 1)
# parameters = [*layer.parameters(), *read_out.parameters()]
# optimizer = torch.optim.Adam(parameters, lr=0.02)
# for _ in range(200):
#     pairs = torch.randint(2, (3, 2, 64))
#     bits = torch.cat([pairs, pairs.sum(1, keepdim=True) % 2], dim=1)
#     bits = bits.flatten(0, 1).float()
#     state, errors = None, []
#     for bit, following in zip(bits[:-1], bits[1:], strict=True):
#         _, state = layer(bit[None, :, None], state)
#         logit = read_out(state).squeeze(-1)
#         error = F.binary_cross_entropy_with_logits(logit, following)
#         errors.append(error)
#         state = state.detach()
#     optimizer.zero_grad()
#     torch.stack(errors).mean().backward()
#     optimizer.step()
# assert errors[1] < 0.2 and errors[4] < 0.2 and errors[0] > 0.6
# ```
#
# </details>
#
# **2.** The second experiment of the paper: letters. Each consonant brings vowels with
# it, *ba*, *dii*, *guuu*, and the words follow each other at random, without spaces.
# Which letters can be predicted?
#
# <details><summary>Answer</summary>
#
# The vowels, and how many of them: to know that *guuu* is over, the network must count.
# The consonants are a choice of three, which costs $\log 3 = 1.10$. So a jump of the
# error says that a word begins. Nobody put spaces between the words; they are found
# where prediction fails.
#
# ```python
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.recurrent.elman import ElmanLayer
#
# words, letters = ["ba", "dii", "guuu"], "bdgaiu"
# def text():
#     chosen = "".join(words[i] for i in torch.randint(3, (20,)).tolist())
#     return [letters.index(letter) for letter in chosen[:31]]
#
# layer, read_out = ElmanLayer(6, 20), nn.Linear(20, 6)
# parameters = [*layer.parameters(), *read_out.parameters()]
# optimizer = torch.optim.Adam(parameters, lr=0.01)
# for _ in range(100):
#     tokens = torch.tensor([text() for _ in range(16)]).t()  # [T, B]
#     states, _ = layer(F.one_hot(tokens[:-1], 6).float())
#     logits = read_out(states)
#     errors = F.cross_entropy(
#         logits.flatten(0, 1), tokens[1:].flatten(), reduction="none"
#     )
#     optimizer.zero_grad()
#     errors.mean().backward()
#     optimizer.step()
#
# vowel = tokens[1:].flatten() >= 3
# assert errors[vowel].max() < 0.3
# assert 0.8 < errors[~vowel].mean() < 1.4
# ```
#
# </details>
#
# **3.** Two networks have 200,000 weights in $W$ and $U$ together, with inputs as wide
# as the state. One has a single layer, the other two of them. How many units does each
# have, and whose memory holds more numbers?
#
# <details><summary>Answer</summary>
#
# A layer has $2 N^2$ weights. One layer: $N = 316$, a state of 316 numbers. Two layers:
# $N = 224$, and 448 numbers in mind, of which 224 can be a function of functions of
# what was read. The second takes two steps, one after the other, where the first takes
# one.
#
# ```python
# from labml_nn.recurrent.elman import Elman
#
# for n_layers, width in ((1, 316), (2, 224)):
#     network = Elman(width, width, n_layers, bias=False)
#     weights = sum(p.numel() for p in network.parameters())
#     assert abs(weights / 200_000 - 1) < 0.01
# assert 1 * 316 < 2 * 224
# ```
#
# </details>
