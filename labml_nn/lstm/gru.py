r"""
---
title: GRU (gated recurrent unit)
summary: >
  The simpler sister of the LSTM: one state instead of two, and two gates instead of
  three. What is kept and what is replaced add up to one.
paper: https://arxiv.org/abs/1406.1078
notebook: notebooks/gru.ipynb
compare: labml_nn.lstm
tones: >
  state: 5, hidden state: 5, update gate: 0, reset gate: 0, gate: 0, candidate: 2,
  gradient: 6, h: 5, z: 0, r: 0, g: 2
---

You read a line with quotation marks, such as `a"b"c"`. Are you inside a quotation now?
At a letter the answer stays. At a quotation mark it turns into its opposite. And at the
end of a line, `⏎`, you start anew, outside. Let one number be the answer, 1 for inside
and −1 for outside. At each token there is one choice: keep this number, or replace it.
The **GRU** ([@cho2014learning]), short for *gated recurrent unit*, is a network for
this choice. It is an [LSTM](__init__.py) with fewer gates.

![The line through one cell of a GRU. At a letter the valve is open, and the state
passes. At a quotation mark it is closed, and a new number comes from
below.](figure:gru.flow)

**Can an Elman unit do it?** Its new state is the tanh of a sum: the old state times a
weight $U$, plus what the token adds. With $U = 2$ it keeps its state at letters, where
nothing is added: $\tanh(2) = 0.96$ and $\tanh(-2) = -0.96$. Now comes a quotation mark.
To turn 1 into −1 it must add −4, since $\tanh(2 - 4) = -0.96$. But to turn −1 into 1 it
must add 4. The token is the same, so it cannot add both. (Several units together can
find a way.) A token cannot turn $U$ around. For that we need gates, which multiply.

![One token cannot add both numbers.](figure:gru.unit)

**Keep or replace.** A gate is a valve: a number from 0, closed, to 1, open, which the
network computes at each step. The LSTM has one gate for what stays and another one for
what is added. The GRU has one for both, the **update gate** $z_t$. It is the share of
the old **state** that stays, so its name is odd: open, it updates nothing. The rest,
$1 - z_t$, is the share of something new, the **candidate** $g_t$:

$$h_t = z_t \, h_{t-1} + (1 - z_t) \, g_t$$

So the new state always lies between the old one and the candidate.

![As one valve opens, the other one closes.](figure:gru.mix)

**What is the candidate?** It is a tanh again, of the token and the old state, with its
own weights. At a quotation mark it should be the opposite of the state. With $U = -10$
it is: $\tanh(-10 \cdot 1) = -1$ and $\tanh(-10 \cdot (-1)) = 1$, nearly.

![The candidate at a quotation mark.](figure:gru.opposite)

**And at the end of a line?** There we want −1, whatever was before. So a second gate,
the **reset gate** $r_t$, multiplies what the old state contributes:
$g_t = \tanh(W x_t + r_t \, U h_{t-1})$. At the end of a line the token adds
$W x_t = -10$, and the gate is closed: $\tanh(-10 + 0) = -1$.

![Twice −1: once from the old state, once from the token alone.](figure:gru.reset)

**Where is the rest of the LSTM?** There is none. A GRU has no second state and no
output gate: what it keeps is also what it shows. Only the reset gate is new.

![Left: all gates may be open at once. Right: *z* sets two valves, and never opens
both.](figure:gru.beside)

## A line by hand

We choose the weights of one cell. As in our LSTM, gates are sigmoids of sums, and the
token alone decides: a sum of 10 opens a gate, and one of −10 closes it. $W$ has a row
for each of three sums, and a column for each of three kinds of tokens. Only the
candidate has a $U$, −10.

![At a quotation mark the sums are −10, 10 and 0.](figure:gru.weights)

Read a line. Then turn its gates, or choose a line that begins without a `⏎`.

1. The end of the line before. Both gates are closed, and the candidate is −1. So the
   state is $0 \cdot 0 + 1 \cdot (-1) = -1$, outside.

2. The letter *a*. The update gate is open, and the state stays, whatever the candidate
   is: $1 \cdot (-1) + 0 \cdot 0 = -1$.

3. The first quotation mark. The reset gate is open, so the candidate is 1, the
   opposite, and all of it is written: $0 \cdot (-1) + 1 \cdot 1 = 1$, inside.

4. The second mark. The same token, the same gates. But the state was 1, and becomes
   $0 \cdot 1 + 1 \cdot (-1) = -1$.

5. The end of the line. A quotation is still open, and the state is 1. But the reset
   gate is closed, so the new state is −1 all the same.

![The gates of each token, its candidate, and the state. Sliders say how far a gate may
open. Numbers are rounded.](figure:gru.line_by_hand)

**In one formula.** A layer has $N$ such cells, and $r_t$, $z_t$, $g_t$ and $h_t$ are
vectors with one number for each. Each of the three sums has its own matrices $W$ and
$U$ and its own bias $b$. Now the gates see the old state, too. ($\sigma$ is the
sigmoid, and $\odot$ multiplies two vectors number by number. $d$ is the bias of $U_g$.)

\begin{align}
r_t &= \sigma(W_r x_t + U_r h_{t-1} + b_r) \\
z_t &= \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
g_t &= \tanh(W_g x_t + b_g + r_t \odot (U_g h_{t-1} + d)) \\
h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot g_t
\end{align}

![The same cell with all its inputs; h′ is the state after the step. Boxes lead to the
code.](figure:gru.formula)

## What one gate for two cannot do

Let a cell count the quotation marks. Its candidate is 1 at each mark. And its update
gate? At 1 nothing is written, and at 0 the count so far is forgotten. We try 0.5. The
first mark gives 0.5. At the second one $0.5 \cdot 0.5 = 0.25$ stays, 0.5 is added, and
the state is 0.75. The cell has forgotten a half of the first mark to write the second.
The LSTM opens both of its gates and simply adds.

![The same line in both: the LSTM counts its marks, and the GRU comes nearer to
1.](figure:gru.counting)

With 0.98 the state rises in nearly equal steps, to 0.02, 0.04, 0.06, so a GRU can count
for a while. But no state gets beyond 1, because it lies between the old one and a tanh.

![The new state never leaves the range from −1 to 1.](figure:gru.limit)

## When gates decide

In [the task of the LSTM](__init__.py#when-the-count-decides) a line opens 1 to 20
brackets and closes them all, with letters in between, and the network says at each step
whether one is still open. Elman networks hardly learn it. All five GRUs of 16 cells
read at least 99.8 % of the lines without a mistake. So one gate for two is enough, as
far as the training goes. At 25 brackets the LSTMs still read at least 99 % of the
lines, and the GRUs 8 to 65 %. At 30 the GRUs fail at nearly all.

![16 cells each, and Elman networks of 34 units. [How it was
measured](__init__.py#the-task-with-the-brackets).](figure:gru.by_depth)

## Gains and price

A GRU computes three sums where the LSTM has four, and keeps one vector where it has
two. With $C$ inputs and $N$ cells it has $3 N (C + N + 2)$ weights and biases, and our
LSTM $4 N (C + N + 1)$: in the task 1,008 and 1,280. (In the code, as in PyTorch, $W$
and $U$ both have biases. Where the two are only added, one would do.) The
[gradient](__init__.py#the-gradient) comes back through open update gates as through
open forget gates. The price: a cell cannot write without forgetting.

![What a step computes, and what it keeps.](figure:gru.price)

## The whole in code

The line for `h` is the GRU. The last lines set the weights by hand, and print the state
along `⏎a"b"c"⏎`. The module below computes the same, with layers, padding, dropout and
checks.

```python
import torch
from torch import nn


class GRU(nn.Module):
    def __init__(self, n_inputs, n_cells):
        super().__init__()
        self.W = nn.Linear(n_inputs, 3 * n_cells)  # three matrices in one
        self.U = nn.Linear(n_cells, 3 * n_cells)

    def forward(self, x, h):
        states = []
        for x_t in x:
            x_r, x_z, x_g = self.W(x_t).chunk(3, dim=-1)
            h_r, h_z, h_g = self.U(h).chunk(3, dim=-1)
            r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
            g = (x_g + r * h_g).tanh()
            h = z * h + (1 - z) * g
            states.append(h)
        return torch.stack(states), h


by_hand, zero = GRU(3, 1), torch.zeros(1, 1)
for parameter in by_hand.parameters():
    parameter.data.zero_()
sums = [[-10, 10, -10], [10, -10, -10], [0, 0, -10]]  # r, z, g
by_hand.W.weight.data = torch.tensor(sums).float()
by_hand.U.weight.data[2] = -10
kinds = torch.tensor([2, 0, 1, 0, 1, 0, 1, 2])  # ⏎ a " b " c " ⏎
line = torch.eye(3)[kinds][:, None]  # one-hot, [T, 1, 3]
print(by_hand(line, zero)[0].flatten())
```

## Try it

Two layers of 128 cells, [trained on Shakespeare](#training), run in this page. Watch
their gates while they read what you type. One cell keeps its state over fifty
characters, another one hardly at all.

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

    This is one step of the example. For example, the first quotation mark meets the
    state −1, and leaves 1.
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


# ## Symbols
#
# In the shapes, T is the number of steps and B that of sequences side by side. An input
# has C features, a layer N cells, and there are L layers.
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $x_t$ | `x` | `[B, C]` | input of a step; of all steps `[T, B, C]` |
# | $h_t$ | `h` | `[B, N]` | hidden state |
# | $r_t$, $z_t$ | `r`, `z` | `[B, N]` | reset gate, update gate |
# | $g_t$ | `g` | `[B, N]` | candidate, the state that may replace the old one |
# | $W$ | `input_lin.weight` | `[3N, C]` | input weights, in the order $r, z, g$ |
# | $b$ | `input_lin.bias` | `[3N]` | their biases |
# | $U$ | `hidden_lin.weight` | `[3N, N]` | recurrent weights |
# | $d$ | `hidden_lin.bias` | `[3N]` | its last N numbers; the others add to $b$ |
# | | `state` | `[L, B, N]` | hidden states of all layers |
# | $w_t$ | `tokens` | `[T, B]` | tokens of the language model |
# | | `logits` | `[T, B, V]` | logits of the next token |

# ## GRU and LSTM
#
# | | LSTM | GRU |
# |:--|:--|:--|
# | what stays of the old state | forget gate $f_t$ | update gate $z_t$ |
# | what is added | input gate $i_t$ | $1 - z_t$, the rest |
# | the old state in the candidate | $U h_{t-1}$ | $r_t \odot U h_{t-1}$, reset gate |
# | what is shown | $o_t \odot \tanh(c_t)$, output gate | the state itself |
# | range of what is kept | no bound | from −1 to 1 |
# | numbers that a layer keeps | $2 N$ | $N$ |
# | weights and biases of a layer | $4 N (C + N + 1)$ | $3 N (C + N + 2)$ |
#
# The counting cells above can do more with smaller steps. At a mark, let the update
# gate be 0.9 in place of 0.5. Then the states are 0.1, 0.19 and 0.27, and with 0.98
# they are 0.02, 0.04 and 0.06. These steps are nearly equal, but the limit is the same.
# An LSTM only adds, and its cell state may be 7.

# ## Training
#
# Does a network find the weights of the example by itself? This program makes random
# lines of letters and quotation marks. After each token a GRU with eight cells should
# tell whether a quotation is open. We train it on pieces of 30 tokens. Then we let it
# read 1,000 tokens, and count how often it is right.
#
# ```python
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.lstm.gru import GRU
#
# torch.manual_seed(1)
#
# def lines(steps, batch):
#     chances = torch.tensor([0.7, 0.2, 0.1])  # letter, quotation mark, end of line
#     kinds = torch.multinomial(chances, steps * batch, replacement=True)
#     kinds = kinds.view(steps, batch)
#     marks = (kinds == 1).cumsum(0)
#     # How many of these marks came before the line began?
#     before = torch.where(kinds == 2, marks, 0).cummax(0).values
#     return F.one_hot(kinds, 3).float(), (marks - before) % 2
#
# gru, output = GRU(3, 8, 1), nn.Linear(8, 1)
# optimizer = torch.optim.Adam([*gru.parameters(), *output.parameters()], lr=0.03)
# for _ in range(150):
#     x, is_open = lines(30, 64)
#     states, _ = gru(x)
#     logits = output(states)[..., 0]  # [T, B]
#     loss = F.binary_cross_entropy_with_logits(logits, is_open.float())
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# with torch.no_grad():
#     x, is_open = lines(1000, 8)
#     states, _ = gru(x)
# right = ((output(states)[..., 0] > 0) == is_open.bool()).float().mean().item()
# print(f"{100 * right:.1f} % right")  # here 100.0
# assert right > 0.99
# ```
#
# It is right at every token, although the text is more than thirty times as long as
# those of the training.
#
# **On Shakespeare** the GRU that you can [try above](#try-it) has a loss of 1.57 nats
# per character, on the part of the text that was held back. It had the updates, the
# learning rate and the seed of the [LSTM of that size](__init__.py#training), which
# reaches 1.65, and has 23 % fewer parameters. So on this text one gate for two is
# enough. The GRU writes like this:
#
# > Your pity has not I have did all. KING RICHARD III: My lord? CLARENCE: O where the
# > degreeds of my days with the lesst, Were your struck'd between anishrow it done:
# > Good time, you make death thine on

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
# * **Reset gate.** Here it multiplies the *product* with $U_g$ and its bias $d$, as in
#   PyTorch. Cho et al. ([-@cho2014learning, §2.3]) multiply the state *before* the
#   product, $U_g (r_t \odot h_{t-1})$. You can train both, but the weights of one do
#   not fit the other. Our order makes all products of a state one, as it need not wait
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
# **2.** Build the cell of the example. Is a quotation open at the end of `"a" or "b`?
# And what happens if no line has ended before the text?
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
