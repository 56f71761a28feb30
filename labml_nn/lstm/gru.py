r"""
---
title: GRU (gated recurrent unit)
summary: >
  The simpler sister of the LSTM: one state instead of two, and two gates instead of
  three. What is kept and what is replaced add up to one.
paper: https://arxiv.org/abs/1406.1078
notebook: notebooks/gru.ipynb
compare: labml_nn.lstm
---

The [LSTM](__init__.py) has two states, one that it keeps and one that it shows. And it
has three gates, which decide what is kept, what is added and what is shown. Do we need
all of them? Often a network has only one choice to make. It keeps what it knows, or it
replaces it by something new. One gate is enough for that.

Take a line of text with quotation marks, such as `a "b" c`. Are we inside a quotation?
At a letter the answer stays as it was. At a quotation mark it changes into its
opposite. And at the end of a line we start anew, outside. Let a single number be the
answer, 1 for inside and −1 for outside.

**Why is this hard for an Elman unit?** Its state is $h_t = \tanh(W x_t + U h_{t-1})$.
For a single unit $U$ is a number, and $W x_t$ is another one, which depends on the
token. At a letter the state should stay. We get that with $U = 2$ and $W x_t = 0$,
because $\tanh(2)$ is 0.96 and $\tanh(-2)$ is −0.96. Now a quotation mark is read. To
turn 1 into −1 we need $W x_t = -4$, since $\tanh(-4 + 2) = -0.96$. But to turn −1 into
1 we need $W x_t = 4$. The token is the same, so it cannot be both. A token can add
something to the sum, and it cannot turn $U$ around. For that we need gates, which
multiply.

**Keep or replace.** The **update gate** $z_t$ is a number from 0 to 1, computed from
the token and from the state, like the gates of an LSTM. It is the share of the old
state that stays. The rest, $1 - z_t$, is the share of something new, the **candidate**
$g_t$. For example, let the old state be −1 and the candidate 1. At $z_t = 1$ the state
stays −1, and at $z_t = 0$ it becomes 1. At $z_t = 0.9$ it moves only a little, to
$0.9 \cdot {(-1)} + 0.1 \cdot 1 = -0.8$. As a formula:

$$h_t = z_t \, h_{t-1} + (1 - z_t) \, g_t$$

An LSTM would have two gates here, the forget gate in place of $z_t$ and the input gate
in place of $1 - z_t$. There is no output gate either. So the state that we keep is also
the one that we show.

**What is the candidate?** A tanh of a sum again, from the token and from the old state.
Its weights $W$ and $U$ are not those of the gates. With $U = -10$ and nothing from the
token, the candidate is the opposite of the state, since $\tanh(-10) = -1$ and
$\tanh(10) = 1$, nearly. That is right for a quotation mark. But at the end of a line we
want −1, whatever was before, so the old state should play no part. Therefore a second
gate, the **reset gate** $r_t$, multiplies what the old state contributes:

$$g_t = \tanh(W x_t + r_t \, U h_{t-1})$$

![A cell of a GRU. The upper line leads from the old state to the new one, h′. The
update gate z multiplies the old state, and 1 − z the candidate g. The reset gate r
multiplies what the old state contributes to the candidate.](figure:lstm.gru)

## A line by hand

There are three kinds of tokens: letters, quotation marks and the end of the line. The
gates depend on the token alone, as on the page of the LSTM. We choose their sums by
hand, and $U = -10$ for the candidate. A sum of 10 opens a gate, and a sum of −10 closes
it.

| sum for | letter | quotation mark | end of line |
|:--|--:|--:|--:|
| update gate | 10 | −10 | −10 |
| reset gate | −10 | 10 | −10 |
| candidate, $W x_t$ | 0 | 0 | −10 |

Let us read the end of a line, `⏎`, and then the whole line `a"b"c"⏎`. Its last
quotation is never closed.

| read | ⏎ | a | " | b | " | c | " | ⏎ |
|:--|--:|--:|--:|--:|--:|--:|--:|--:|
| update gate $z_t$ | 0 | 1 | 0 | 1 | 0 | 1 | 0 | 0 |
| reset gate $r_t$ | 0 | 0 | 1 | 0 | 1 | 0 | 1 | 0 |
| candidate $g_t$ | −1 | 0 | 1 | 0 | −1 | 0 | 1 | −1 |
| state $h_t$ | −1 | −1 | 1 | 1 | −1 | −1 | 1 | −1 |

(All numbers are rounded.) You can check each column with the two formulas. For example,
the second quotation mark meets the state 1. The candidate is
$\tanh(0 + 1 \cdot {(-10)} \cdot 1) = -1$, and the new state is
$0 \cdot 1 + 1 \cdot {(-1)} = -1$. At the first mark the token is the same, and so are
the gates. But the old state is −1 there, so the candidate is 1. At the ends of lines
the reset gate is closed. There the candidate is −1, whether we were inside or not.

**In one formula.** A layer has $N$ such cells, and $z_t$, $r_t$, $g_t$ and $h_t$ are
vectors with one number for each. Each of the three sums has its own matrices $W$ and
$U$ and its own bias $b$. ($\sigma$ is the sigmoid, and $\odot$ multiplies two vectors
number by number.)

\begin{align}
r_t &= \sigma(W_r x_t + U_r h_{t-1} + b_r) \\
z_t &= \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
g_t &= \tanh(W_g x_t + b_g + r_t \odot (U_g h_{t-1} + d)) \\
h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot g_t
\end{align}

The reset gate multiplies the *product* with $U_g$ and its bias $d$. PyTorch computes it
so, too. In the paper ([@cho2014learning, §2.3]) it multiplies the state *before* the
product, $U_g (r_t \odot h_{t-1})$. You can train both, but the weights of one do not
fit the other.

## Counting: GRU and LSTM

What do we lose with one gate for two? Let a second cell count the quotation marks of
the line. Its candidate is 1 at each mark. How large should the update gate be there? At
1 nothing is written, and at 0 the count so far is forgotten. We try 0.5. Below it is
the cell of an LSTM, whose forget gate and input gate are both 1 at a mark:

| read | ⏎ | a | " | b | " | c | " | ⏎ |
|:--|--:|--:|--:|--:|--:|--:|--:|--:|
| state of the GRU | 0 | 0 | 0.5 | 0.5 | 0.75 | 0.75 | 0.88 | 0 |
| cell state of the LSTM | 0 | 0 | 1 | 1 | 2 | 2 | 3 | 0 |

At the second mark the GRU keeps $0.5 \cdot 0.5 = 0.25$ and adds $0.5 \cdot 1$. It has
forgotten a half of the first mark to write the second. So each mark adds less than the
one before, and after many marks the state is nearly 1. With 0.9 in place of 0.5 the
states are 0.1, 0.19 and 0.27. Now the steps are smaller and nearly equal, but the limit
is the same. The new state of a GRU always lies between the old one and the candidate,
so it never leaves the range from −1 to 1. An LSTM only adds, and its cell state may be
7.

## Training

Does a network find such weights by itself? This program makes random lines of letters
and quotation marks. After each token a GRU with eight cells should tell whether a
quotation is open. We train it on pieces of 30 tokens. Then we let it read 1,000 tokens,
and count how often it is right.

```python
import torch
from torch import nn
from torch.nn import functional as F
from labml_nn.lstm.gru import GRU

torch.manual_seed(1)

def lines(steps, batch):
    chances = torch.tensor([0.7, 0.2, 0.1])  # letter, quotation mark, end of line
    kinds = torch.multinomial(chances, steps * batch, replacement=True)
    kinds = kinds.view(steps, batch)
    marks = (kinds == 1).cumsum(0)
    # How many of these marks came before the line began?
    before = torch.where(kinds == 2, marks, 0).cummax(0).values
    return F.one_hot(kinds, 3).float(), (marks - before) % 2

gru, output = GRU(3, 8, 1), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*gru.parameters(), *output.parameters()], lr=0.03)
for _ in range(150):
    x, is_open = lines(30, 64)
    states, _ = gru(x)
    logits = output(states)[..., 0]  # [T, B]
    loss = F.binary_cross_entropy_with_logits(logits, is_open.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.no_grad():
    x, is_open = lines(1000, 8)
    states, _ = gru(x)
right = ((output(states)[..., 0] > 0) == is_open.bool()).float().mean().item()
print(f"{100 * right:.1f} % right")  # here 100.0
assert right > 0.99
```

It is right at every token, although the text is more than thirty times as long as those
of the training.

Two layers of 128 cells, trained on Shakespeare with the updates, the learning rate and
the seed of the [LSTM of that size](__init__.py#training), write like this:

> Your pity has not I have did all. KING RICHARD III: My lord? CLARENCE: O where the
> degreeds of my days with the lesst, Were your struck'd between anishrow it done: Good
> time, you make death thine on

Their loss is 1.57 nats per character, on the part of the text that was held back, with
23 % fewer parameters. The LSTM reaches 1.65. So on this text one gate for two is
enough.

**What it gains, and what it costs.** We compute three sums where the LSTM has four, and
keep one vector where it has two. [The gradient](__init__.py#the-gradient) comes back
through open update gates as it does through open forget gates. But a GRU cannot write
without forgetting, and its state stays between −1 and 1. So it cannot count without a
bound, as an LSTM does. (With steps of 0.02 it keeps a count for a while.)

<details><summary>Symbols, their code and shapes</summary>

In the shapes, T is the number of steps and B that of sequences side by side. An input
has C features, a layer N cells, and there are L layers.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x` | `[B, C]` | input of a step; of all steps `[T, B, C]` |
| $h_t$ | `h` | `[B, N]` | hidden state |
| $r_t$, $z_t$ | `r`, `z` | `[B, N]` | reset gate, update gate |
| $g_t$ | `g` | `[B, N]` | candidate, the state that may replace the old one |
| $W$ | `input_lin.weight` | `[3N, C]` | input weights, in the order $r, z, g$ |
| $b$ | `input_lin.bias` | `[3N]` | their biases |
| $U$ | `hidden_lin.weight` | `[3N, N]` | recurrent weights |
| $d$ | `hidden_lin.bias` | `[3N]` | its last N numbers; the others add to $b$ |
| | `state` | `[L, B, N]` | hidden states of all layers |
| $w_t$ | `tokens` | `[T, B]` | tokens of the language model |
| | `logits` | `[T, B, V]` | logits of the next token |

</details>

## Try it

The network that wrote the lines above runs in this page. Watch the gates of its cells
while they read what you type. One cell keeps its state over fifty characters, another
one hardly at all.

![A cell whose state falls along a line, and is set to 1 again for the next
one.](figure:live.line)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_probability,
    check_sequence,
    check_sizes,
    check_state,
    check_tokens,
)
from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.reference import reference

__all__ = ["GRU", "GRUCell", "GRUConfig", "GRULanguageModel"]


class GRUCell(nn.Module):
    r"""
    ## One step

    This is one column of the table above. For example, the third quotation mark meets
    the state −1, and leaves 1.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        """
        * `input_size`: features of an input, $C$ (3 in the example)
        * `hidden_size`: cells, $N$ (1 in the example)
        """
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size)

        # One product computes what the state contributes to all three sums, and another
        # one what the input does. Both have a bias. For the gates only the sum of the
        # two matters. But in the candidate the reset gate stands between them.
        self.hidden_lin = nn.Linear(hidden_size, 3 * hidden_size)
        self.input_lin = nn.Linear(input_size, 3 * hidden_size)

        # A new network should remember, so the update gates begin at about
        # $\sigma(1) = 0.73$, like the [forget gates](__init__.py#one-step) of an LSTM.
        with torch.no_grad():
            self.hidden_lin.bias[hidden_size : 2 * hidden_size] = 1.0

    def forward(
        self, x: Float[Tensor, "B _"], h: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N"]:
        """Takes $x_t$ and $h_{t-1}$, and returns $h_t$."""
        # Three parts of the input, and three of the state. We do not add them yet,
        # because the reset gate acts on one of them alone.
        x_r, x_z, x_g = self.input_lin(x).chunk(3, dim=-1)
        h_r, h_z, h_g = self.hidden_lin(h).chunk(3, dim=-1)

        # The two gates are sigmoids, from 0 to 1. At a quotation mark of our example
        # the reset gate is 1 and the update gate 0.
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)

        # Where the reset gate is closed, the candidate depends on the input alone. The
        # tanh keeps it between −1 and 1.
        g = torch.tanh(x_g + r * h_g)

        # This line is the GRU. The two shares add up to 1, so the new state lies
        # between the old one and the candidate. To store something new, a cell must
        # forget as much of the old.
        return z * h + (1 - z) * g


class GRU(nn.Module):
    r"""
    ## All steps, and several layers

    The cell runs over the steps of a sequence. With several layers, the hidden states
    of one are the inputs of the next.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        n_layers: int,
        *,
        dropout_prob: float = 0.0,
    ) -> None:
        """
        * `input_size`: features of an input, $C$
        * `hidden_size`: cells of each layer, $N$
        * `n_layers`: layers, $L$
        * `dropout_prob`: probability that a value between two layers is dropped, in
          training
        """
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size, n_layers=n_layers)
        check_probability(dropout_prob=dropout_prob)
        self.hidden_size, self.n_layers = hidden_size, n_layers

        # Only the first layer reads inputs of width $C$. The others read hidden states.
        self.cells = nn.ModuleList(
            GRUCell(hidden_size if i else input_size, hidden_size)
            for i in range(n_layers)
        )
        self.dropout = nn.Dropout(dropout_prob)

    def initial(self, x: Float[Tensor, "T B _"]) -> Float[Tensor, "L B N"]:
        """The state before the first step is zero."""
        return x.new_zeros(self.n_layers, x.shape[1], self.hidden_size)

    @reference
    def forward(
        self,
        x: Float[Tensor, "T B _"],
        state: Float[Tensor, "L B N"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], Float[Tensor, "L B N"]]:
        r"""
        * `x`: the inputs, `[T, B, C]`
        * `state`: the hidden states of all layers before them, `[L, B, N]`; `None` is
          zero
        * `mask`: `True` for tokens and `False` for padding, `[T, B]`

        Returns the hidden states of the last layer at all steps, `[T, B, N]`, and those
        of all layers after the last step. Both are attached to the graph: detach the
        state before you pass it to the next chunk.
        """
        if x.dim() != 3 or len(x) == 0 or state is not None:
            check_sequence(x, state, self.hidden_size, self.n_layers)
        state = self.initial(x) if state is None else state

        last: list[Tensor] = []
        for i, cell in enumerate(self.cells):
            if i:
                x = self.dropout(x)

            # A layer reads the whole sequence before the next one begins.
            h, shown = state[i], []
            for t, x_t in enumerate(x):
                new_h = cell(x_t, h)

                # At padding, tokens that only fill up short sequences, the state is
                # kept.
                if mask is not None:
                    new_h = torch.where(mask[t, :, None], new_h, h.to(new_h))
                h = new_h
                shown.append(h)
            x = torch.stack(shown)
            last.append(h)
        return x, torch.stack(last)


@dataclass(frozen=True, kw_only=True)
class GRUConfig(LanguageModelConfig):
    r"""
    ## Configuration of the language model

    * `d_model`: features of a token embedding, $C$
    * `d_hidden`: cells of a layer, $N$
    * `n_layers`: layers, $L$
    * `dropout_prob`: dropout probability of embeddings and of hidden states

    [`LanguageModelConfig`](../language_model.py) has the fields that all models share.
    """

    d_model: int = 128
    d_hidden: int = 256
    n_layers: int = 2
    dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(
            d_model=self.d_model, d_hidden=self.d_hidden, n_layers=self.n_layers
        )
        check_probability(dropout_prob=self.dropout_prob)


class GRULanguageModel(LanguageModel[Float[Tensor, "L B N"]]):
    r"""
    ## Language model

    The [model of the LSTM](__init__.py#LSTMLanguageModel) with another layer in it:
    embedding, GRU, linear output. Its state is a single tensor.
    """

    name = "gru"
    Config = GRUConfig
    config: GRUConfig

    def __init__(self, config: GRUConfig) -> None:
        """`config`: the hyperparameters."""
        super().__init__(config)
        self.embedding = nn.Embedding(config.n_vocab, config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)
        self.gru = GRU(
            config.d_model,
            config.d_hidden,
            config.n_layers,
            dropout_prob=config.dropout_prob,
        )
        self.output = nn.Linear(config.d_hidden, config.n_vocab)
        self.init_uniform()

    def forward(
        self, tokens: Int[Tensor, "T B"], state: Float[Tensor, "L B N"] | None = None
    ) -> tuple[Float[Tensor, "T B V"], Float[Tensor, "L B N"]]:
        """
        ### Forward pass

        * `tokens`: the next chunk of each text, `[T, B]`
        * `state`: what was returned for the chunk before, `[L, B, N]`; `None` at the
          beginning of a text

        Returns logits, `[T, B, V]`, and the state after the last token, detached.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, Tensor, tokens)
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding

        # Only the second line runs step by step. A new state needs the one before, but
        # no logits. So embeddings and logits are computed for all steps at once.
        x = self.dropout(self.embedding(tokens))
        h, after = self.gru(x, state, mask)
        logits = self.output(self.dropout(h))

        # The next chunk starts from the values of the state, and its gradient ends
        # here.
        return logits, after.detach()


# ## Cost
#
# A layer has $3 N (C + N + 2)$ parameters, and a step costs $3 N (C + N)$
# multiplications, three quarters of those of an LSTM with as many cells. Generation
# stores the $L N$ numbers of the state. `torch.nn.GRU` computes the same values in one
# operation, and [our kernel](../kernels/gated.py) calls that operation with the weights
# of this page. [Exercise 1](#exercises) converts one.

# ## Common mistakes
#
# * **The gates are in another order**: nothing raises an error if you load weights in
#   the order $z, r, g$. Here and in PyTorch it is $r, z, g$.
# * **$z$ is turned around**: some texts and libraries write $1 - z_t$ for our $z_t$.
#   There an open update gate replaces the state. Compare the last equation.
# * **The reset gate is in another position**: weights that were trained with
#   $U_g (r_t \odot h_{t-1})$ give wrong states here, and no error.
# * **The two biases are added**: this is right for both gates, and wrong for the
#   candidate, where the reset gate multiplies only one of them. The states are then a
#   little off, and no error is raised.

# ## Differences from the paper
#
# <details><summary>Reset gate, biases, encoder and decoder</summary>
#
# * **Reset gate.** Cho et al. ([-@cho2014learning]) apply it before the recurrent
#   product, as said above. Here all products of a state are one, as it need not wait
#   for the gate.
# * **Biases.** The equations of the paper show none. We have those of PyTorch.
# * **Use.** In the paper two such networks form an encoder and a decoder for
#   translation. Here a layer reads any sequence.
# * **Start.** The bias of 1 that opens new update gates is ours.
#
# </details>

# ## Exercises
#
# **1.** Write a function that converts a `torch.nn.GRU`.
#
# <details><summary>Answer</summary>
#
# The order of the gates is the same, and both have two biases. So we copy.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.lstm.gru import GRU
#
# def from_torch_gru(theirs):
#     sizes = theirs.input_size, theirs.hidden_size, theirs.num_layers
#     ours, weights = GRU(*sizes, dropout_prob=theirs.dropout), theirs.state_dict()
#     with torch.no_grad():
#         for i, cell in enumerate(ours.cells):
#             cell.input_lin.weight.copy_(weights[f"weight_ih_l{i}"])
#             cell.input_lin.bias.copy_(weights[f"bias_ih_l{i}"])
#             cell.hidden_lin.weight.copy_(weights[f"weight_hh_l{i}"])
#             cell.hidden_lin.bias.copy_(weights[f"bias_hh_l{i}"])
#     return ours
#
# theirs, x = nn.GRU(4, 6, num_layers=2), torch.randn(9, 3, 4)
# torch.testing.assert_close(from_torch_gru(theirs)(x), theirs(x))
# ```
#
# </details>
#
# **2.** Build the cell of the table. Is a quotation open at the end of `"a" or "b`? And
# what happens if no line has ended before the text?
#
# <details><summary>Answer</summary>
#
# It is open. Without a `⏎` before the text the state begins at 0, and stays there,
# because the opposite of 0 is 0.
#
# ```python
# import torch
# from labml_nn.lstm.gru import GRU
#
# gru = GRU(3, 1, 1)
# cell = gru.cells[0]
# with torch.no_grad():
#     cell.input_lin.weight.copy_(
#         torch.tensor([[-10, 10, -10], [10, -10, -10], [0, 0, -10]])  # r, z, g
#     )
#     cell.hidden_lin.weight.copy_(torch.tensor([[0], [0], [-10]]))
#     cell.input_lin.bias.zero_()
#     cell.hidden_lin.bias.zero_()
#
# def is_open(text):
#     kinds = {'"': 1, "\n": 2}
#     tokens = torch.tensor([[kinds.get(one, 0)] for one in text])
#     one_hot = torch.nn.functional.one_hot(tokens, 3).float()  # [T, 1, 3]
#     return gru(one_hot)[1].item()
#
# for text in ('\n"a" or "b', '\n"a" or "b"', '"a" or "b'):
#     print(repr(text), f"{is_open(text):.2f}")
# assert is_open('\n"a" or "b') > 0.99 and is_open('\n"a" or "b"') < -0.99
# assert is_open('"a" or "b') == 0
# ```
#
# </details>
#
# **3.** Write the cell of the paper, where the reset gate multiplies the state before
# the product. With the same weights and $d = 0$, for which $N$ does it compute the same
# as ours?
#
# <details><summary>Answer</summary>
#
# For $N = 1$, because numbers can be multiplied in any order. With more cells our $r_t$
# scales the rows of $U_g$, and the paper's scales its columns. Note that the product
# with $U_g$ now has to wait for the gate.
#
# ```python
# import torch
# from torch.nn import functional as F
# from labml_nn.lstm.gru import GRUCell
#
# class CellOf2014(GRUCell):
#     def forward(self, x, h):
#         x_r, x_z, x_g = self.input_lin(x).chunk(3, dim=-1)
#         h_r, h_z, _ = self.hidden_lin(h).chunk(3, dim=-1)
#         r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
#         g = torch.tanh(x_g + F.linear(r * h, self.hidden_lin.weight.chunk(3)[2]))
#         return z * h + (1 - z) * g
#
# for n in (1, 5):
#     ours, paper = GRUCell(4, n), CellOf2014(4, n)
#     with torch.no_grad():
#         ours.hidden_lin.bias.zero_()
#         paper.load_state_dict(ours.state_dict())
#         x, h = torch.randn(3, 4), torch.randn(3, n)
#         difference = (ours(x, h) - paper(x, h)).abs().max().item()
#     print(n, f"{difference:.3f}")
#     assert (difference < 1e-6) == (n == 1)
# ```
#
# </details>
