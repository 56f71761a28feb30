r"""
---
title: LSTM (long short-term memory)
summary: >
  A recurrent network whose memory is added to instead of rewritten: gates decide what
  is stored, kept and shown. Cell, layers and language model on one page.
paper: https://doi.org/10.1162/neco.1997.9.8.1735
notebook: notebooks/lstm.ipynb
tones: >
  cell state: 5, hidden state: 3, input gate: 0, forget gate: 0, output gate: 0,
  gate: 0, candidate: 2, gradient: 6, c: 5, h: 3, i: 0, f: 0, o: 0, g: 2
---

You read a formula from left to right: `f(g(x` … How many brackets are still open? Two.
You did not look back. You kept a count: at each opening bracket you added one, at each
closing bracket you took one away, and at letters you left it alone. The **LSTM**
([@hochreiter1997long]) is a network that can do the same.

![*f(g(x))* through one cell of an LSTM, by weights that we choose below. A ring is a
valve: with a 1 it is open, with a 0 closed. At a bracket it is open, and 1 or −1 is
added to the count.](figure:lstm.flow)

Can the [Elman network](../recurrent/elman/__init__.py) keep such a count? It reads one
**token** after the other, here one character. What it remembers is its **hidden
state**, a vector of numbers, which it computes anew at each step, from the token and
from the state before. A tanh squeezes each number into the range from −1 to 1. Take one
such number, a *unit*, that begins at 0, adds 1 at an opening bracket and subtracts 1 at
a closing one, $h_t = \tanh(h_{t-1} \pm 1)$. The first bracket gives $\tanh(0 + 1) =
0.76$, and the second one $\tanh(0.76 + 1) = 0.94$.

![Three opening brackets.](figure:lstm.tanh)

This unit cannot count. Two and three open brackets look nearly the same, 0.94 and 0.96.
After three closing brackets the state should be back at 0, and it is at −0.94.

![The count, and what the unit makes of it.](figure:lstm.unit)

What if we add only 0.1? Near 0 the tanh hardly bends, and three brackets give 0.29,
nearly right. But the tanh also acts at letters. After a hundred of them 0.29 has become
0.11, which looks like a single bracket.

![A hundred letters wear the count down.](figure:lstm.fading)

**Do not rewrite the memory. Add to it.** Beside the hidden state $h_t$ an LSTM has a
second vector, the **cell state** $c_t$, which no tanh
squeezes from step to step. To begin with, let $c_t = c_{t-1} + 1$ at an opening
bracket, and $c_t = c_{t-1} - 1$ at a closing one. Now three brackets are 3.

![The same three brackets.](figure:lstm.lanes)

**When do we add?** What may be added is the **candidate** $g_t$. In our count it is −1
at a closing bracket, and 1 at any other token, even at a letter, where nothing may be
added. So a number from 0 to 1 multiplies the candidate, the **input gate** $i_t$. Think
of it as a valve, in all pictures a ring: at 1 a disc fills it, and the valve is open;
at 0 it is closed. The network computes it anew at each step.

![At the bracket 1 · 1 is added. At the letter 0 · 1 is, so the candidate does not
matter.](figure:lstm.input_gate)

**When do we forget?** At the end of a line the count should start anew. So there is a
valve in the line of the cell state itself, the **forget gate** $f_t$. Despite its name,
at 1 all of the old state stays, and at 0 it is forgotten.

![A count of 2 meets the forget gate.](figure:lstm.forget_gate)

**What is shown?** Of the two states, whatever comes after the cell, and the gates of
the next step, see only the *hidden* one. It is a copy of the cell state, squeezed by a
tanh and multiplied by the **output gate** $o_t$: $h_t = o_t \cdot \tanh(c_t)$. The tanh
is back, but in a side branch. Why hide anything? Because others act on what they see.
For example, a [trained cell](#try-it) that knows when a line should end is hidden at
the first letter of many words, where no line ends.

![Shown or not, the cell state stays 2.](figure:lstm.output_gate)

One number of the cell state, with its candidate and its three gates, is a **cell**. The
second bracket of `f(g(x))` meets the cell state 1. All gates are open. So $1 \cdot 1$
stays, $1 \cdot 1$ is added, and the new cell state 2 is shown as
$1 \cdot \tanh(2) = 0.96$.

![Thin lines: the token decides on the gates and on the candidate.](figure:lstm.cell)

## A line by hand

How is a gate computed? It begins like a state of the Elman network, with a sum, one of
the four in $W x_t + U h_{t-1} + b$. Here $x_t$ is the token as a vector, $h_{t-1}$ is
what was shown at the step before, and training finds $W$, $U$ and $b$. Then comes the
**sigmoid** $\sigma(a) = 1 / (1 + e^{-a})$, which lies between 0 and 1. So a sum of 10
opens a gate, and −10 closes it. A candidate may be negative, so it is the tanh of its
sum: nearly 1 for 10, and nearly −1 for −10.

![Sums and gates.](figure:lstm.sigmoid)

We choose weights by hand. In our count the token alone decides, so $U$ and $b$ are
zero. There are four kinds of tokens: letters, two brackets, and the end of a line, `⏎`.
As a vector a token has a 1 at its kind and zeros elsewhere (it is *one-hot*): an
opening bracket is $(0, 1, 0, 0)$. With this vector $W$ gives its second column. So it
has a column for each kind of token, and a row for each of the four sums.

![The framed column is that of the opening bracket: all four sums are
10.](figure:lstm.weights)

Read a line with this cell. Then choose another line, or set with a slider how far a
gate can open.

1. The first bracket. All gates are open, and the candidate is 1. The cell state becomes
   $1 \cdot 0 + 1 \cdot 1 = 1$. Shown is $\tanh(1) = 0.76$.

2. The second bracket, after the letter *g*. The gates are the same, but the cell state
   was 1. It becomes $1 \cdot 1 + 1 \cdot 1 = 2$.

3. The letter *x*. The input gate is closed, and $1 \cdot 2 + 0 \cdot 1 = 2$.

4. The last bracket. The candidate is −1, so $1 \cdot 1 + 1 \cdot (-1) = 0$. All
   brackets are closed.

5. The end of the line. The forget gate is closed, and the cell state is 0, whatever it
   was.

![From above: the gates of each token, its candidate, the cell state, and what is shown.
Numbers are rounded: an open gate is 0.99995, and a closed one
0.00005.](figure:lstm.line_by_hand)

**What is $U$ for?** With it a gate decides by what was shown before. Suppose that
brackets in a comment, after a `#`, should not count. A second cell adds 1 at `#`, a
fifth kind of token, so inside a comment it shows 0.76. Let $U$ put −30 times this
number into the sum of our input gate. At a bracket that sum is now $10 - 30 \cdot 0.76
= -12.8$, and the gate is closed. The bias $b$ is what a sum begins with.

![What a cell shows at one token reaches the sums at the next: −22.8 is −30 times the
0.76 of the row above.](figure:lstm.comment)

**Does the tanh not hide the count again?** Two brackets are shown as 0.96 and three as
0.995. But turn the input gate down to 0.3. Then two are 0.6, shown as 0.54, and three
are 0.9, shown as 0.72. In the Elman unit such small steps were worn down at each
letter; in a cell they stay. This only moves the limit: six and seven are shown as 0.95
and 0.97, and more need still smaller steps. But *whether* a bracket is open is seen at
any count.

![The same counts, with large steps and with small ones.](figure:lstm.shown_apart)

**In one formula.** A layer has $N$ such cells, and all these are vectors with one
number for each cell. $W_i$ is the part of $W$ for the input gates, now $N$ rows, and so
on. ($\odot$ multiplies two vectors number by number.)

\begin{align}
i_t &= \sigma(W_i x_t + U_i h_{t-1} + b_i) \\
f_t &= \sigma(W_f x_t + U_f h_{t-1} + b_f) \\
g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g) \\
o_t &= \sigma(W_o x_t + U_o h_{t-1} + b_o) \\
c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
h_t &= o_t \odot \tanh(c_t)
\end{align}

![The same cell; c′ and h′ are the states after the step. A valve multiplies. Boxes lead
to the code.](figure:lstm.formula)

## Learning over long gaps

Suppose that a bracket is needed a hundred letters later, and that the prediction there
is wrong. What should have been stored at the bracket? The network learns it from the
**gradient**, how much a small change of each number changes the loss. In the backward
pass it is multiplied at each step by how much one state changes the next. In our cell
at a letter, $c_t = f_t \, c_{t-1}$, this factor is the forget gate, and $0.99995^{100}
= 0.995$ arrives. In the Elman unit, $h_t = \tanh(h_{t-1})$, it is the slope of the
tanh, $1 - h_t^2$. After three brackets a letter makes 0.74 of 0.96, where the slope is
$1 - 0.74^2 = 0.45$. Three letters leave 0.18 of the gradient, and a hundred leave
0.002.

![From right to left: what is left of a gradient of 1.](figure:lstm.chain)

That cell had its gates open. In a new network $W$ and $U$ are small, so each forget
gate is near $\sigma$ of its bias: 0.5 for a bias of 0, 0.73 for 1, and 0.95 for 3. With
a bias of 0, about $0.5^{10} = 0.001$ of a gradient comes through the cell states of ten
steps. The graph has more, 0.004, because gradients take a second way, through hidden
states and $U$ ([more](#the-gradient)). That is *less* than in a new Elman network. With
a bias of 1, which we use, there is ten times *more* than in the Elman network after 30
steps, and with 3 about half is left after 50.

![New layers of 128 cells or units, random inputs; *bias* is that of the forget gates.
Both ways are in it.](figure:lstm.gradient)

## When the count decides

A line opens 1 to 20 brackets and closes them all again, with letters in between. After
every character the network should say whether a bracket is open. At the last of 20 it
must know that there was one for each that was opened, up to 80 steps before.

![A short line of this kind.](figure:lstm.task_line)

We train three networks on such lines, with five seeds each: an LSTM of 16 cells, an
Elman network of 16 units, and one of 34 units, which has as many weights as the LSTM. A
line is right only if all its answers are. All five LSTMs read all lines with up to 20
brackets right. The Elman networks manage one in ten at best. They fail even at a single
one, as training found a rule without a count: at the last bracket they mostly still
answer *open*, and notice a few letters later. At 25 brackets the LSTMs make hardly a
mistake. But a learned count is not exact, and at 40 most of them fail.

![Wrong answers: in lines of 1 to 20 brackets. Grey: Elman networks of 34 units. [How it
was measured](#the-task-with-the-brackets).](figure:lstm.by_depth)

## Gains and price

A cell keeps a number over many steps, adds to it, and nothing bounds the sum. But four
sums cost four times as much as the one of the Elman network. The steps must still wait
for each other. And a layer of $N$ cells has no more than $2N$ numbers to remember
everything with.

![What a step computes, and what it keeps.](figure:lstm.price)

## The whole in code

A line computes the four sums, still without σ and tanh, and the two below are the LSTM.
The last lines set the weights by hand, and print what is shown. The module below calls
`W` and `U` `input_lin` and `hidden_lin`.

```python
import torch
from torch import nn


class LSTM(nn.Module):
    def __init__(self, n_inputs, n_cells):
        super().__init__()
        # The matrices of the four sums, one below the other; U comes with the biases b.
        self.W = nn.Linear(n_inputs, 4 * n_cells, bias=False)
        self.U = nn.Linear(n_cells, 4 * n_cells)

    def forward(self, x, h, c):
        shown = []
        for x_t in x:
            i, f, g, o = (self.W(x_t) + self.U(h)).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            shown.append(h)
        return torch.stack(shown), h, c


by_hand = LSTM(4, 1)
sums = [[-10, 10, 10, -10], [10, 10, 10, -10], [10, 10, -10, 10], [10, 10, 10, 10]]
by_hand.W.weight.data = torch.tensor(sums).float()
by_hand.U.weight.data, by_hand.U.bias.data = torch.zeros(4, 1), torch.zeros(4)
kinds = torch.tensor([0, 1, 0, 1, 0, 2, 2, 3])  # f ( g ( x ) ) and the end of the line
line = nn.functional.one_hot(kinds, 4).float().view(8, 1, 4)  # 8 steps of one text
zero = torch.zeros(1, 1)  # nothing is shown and nothing is kept before
shown, *_ = by_hand(line, zero, zero)
print((100 * shown).round().int().flatten().tolist())  # in hundredths
# [0, 76, 76, 96, 96, 76, 0, 0]
```

## Try it

Two layers of 128 cells run in this page. Trained on Shakespeare for about two minutes
of one CPU core, they write like this:

> BUCKINGHAM: How cure of your great. LUCIO: The chirg, if is your pluck hath where not
> the city with me fear,--thish he shame.

One of these cells knows how much of a line of speech is left. (In a speaker's name it
rises, but at the colon, where the line ends anyway, its output gate closes.) Watch its
gates while they read what you type, and hold its forget gate open to see what it is
for. Another cell counts characters, in steps so large that its tanh hides the count.

![A cell that is filled at the beginning of a line of speech, keeps its state within
each word, and loses some at each space.](figure:live.clock)"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_bool,
    check_probability,
    check_sequence,
    check_sizes,
    check_state,
    check_tokens,
)
from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.reference import reference

__all__ = ["LSTM", "LSTMCell", "LSTMConfig", "LSTMLanguageModel", "LSTMState"]


class LSTMState(NamedTuple):
    """
    ## State

    What an LSTM knows after a step: $h_t$, which it shows, and $c_t$, which it keeps.
    Both have `N` numbers for each of `L` layers and of `B` texts side by side.
    """

    h: Float[Tensor, "L B N"]
    c: Float[Tensor, "L B N"]

    @property
    def batch_size(self) -> int:
        return self.h.shape[1]

    def detach(self) -> "LSTMState":
        """The same numbers, without how they were computed: no gradient passes."""
        return LSTMState(self.h.detach(), self.c.detach())


class LSTMCell(nn.Module):
    r"""
    ## One step

    This is one step of the example: a token and a state go in, and the next state
    comes out. For example, the second opening bracket meets the cell state 1, and
    leaves 2.
    """

    def __init__(
        self, input_size: int, hidden_size: int, layer_norm: bool = False
    ) -> None:
        """
        * `input_size`: features of an input, $C$ (4 in the example)
        * `hidden_size`: cells, $N$ (1 in the example)
        * `layer_norm`: whether to normalise the four sums, and the cell state where it
          is shown
        """
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size)
        check_bool(layer_norm=layer_norm)

        # The four sums have the same inputs, $x_t$ and $h_{t-1}$. So one product with a
        # matrix of $4N$ rows computes all of them. The first $N$ rows are those of the
        # input gates, then come forget gates, candidates and output gates. One bias is
        # enough, as both products are added.
        self.hidden_lin = nn.Linear(hidden_size, 4 * hidden_size)
        self.input_lin = nn.Linear(input_size, 4 * hidden_size, bias=False)

        # A new network should remember. With a bias of 0 a forget gate begins near
        # $\sigma(0) = 0.5$, and after ten steps about $0.5^{10} = 0.001$ of a cell
        # state is left. With a bias of 1 it begins near $\sigma(1) = 0.73$, which
        # leaves 0.04. That is enough for a [gradient](#the-gradient) to begin with
        # ([@jozefowicz2015empirical]).
        with torch.no_grad():
            self.hidden_lin.bias[hidden_size : 2 * hidden_size] = 1.0

        # Optionally, [layer normalisation](../transformers/layer_norm.py) shifts and
        # scales each of the four sums, so that a gate does not stay shut only because
        # its sum has drifted away ([@ba2016layer]).
        norms = [nn.LayerNorm(hidden_size) for _ in range(5 if layer_norm else 0)]
        self.layer_norm = nn.ModuleList(norms[:4] or [nn.Identity() for _ in range(4)])
        self.layer_norm_c: nn.Module = norms[4] if layer_norm else nn.Identity()

    def forward(
        self, x: Float[Tensor, "B _"], h: Float[Tensor, "B N"], c: Float[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]]:
        """Takes $x_t$, $h_{t-1}$ and $c_{t-1}$, and returns $h_t$ and $c_t$."""
        # The four sums, side by side. Each depends on the token and on what the layer
        # showed before. For the *x* in `f(g(x))` they are −10, 10, 10 and 10.
        sums = (self.hidden_lin(h) + self.input_lin(x)).chunk(4, dim=-1)
        i, f, g, o = (norm(a) for norm, a in zip(self.layer_norm, sums, strict=True))

        # From sums to gates. The sigmoid lies between 0 and 1, so it can say how much
        # of something passes. The tanh lies between −1 and 1, because what is added to
        # a cell may also make it smaller. A closing bracket needs that.
        i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
        g = torch.tanh(g)

        # This line is the LSTM. A share $f$ of the old cell state stays, and a share
        # $i$ of the candidate is added. There is no matrix, and no tanh around the
        # whole. So a cell may count to any number, and it changes only where its gates
        # let it.
        c = f * c + i * g

        # What is shown is squeezed, $\tanh(c_t)$, and multiplied by the output gate.
        # This does not change what is kept.
        h = o * torch.tanh(self.layer_norm_c(c))
        return h, c


class LSTM(nn.Module):
    r"""
    ## All steps, and several layers

    The cell runs over the steps of a sequence. With several layers, the hidden states
    of one are the inputs of the next. Cell states stay inside their layer.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        n_layers: int,
        *,
        dropout_prob: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        """
        * `input_size`: features of an input, $C$
        * `hidden_size`: cells of each layer, $N$
        * `n_layers`: layers, $L$
        * `dropout_prob`: probability that a value between two layers is dropped, in
          training
        * `layer_norm`: as in `LSTMCell`
        """
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size, n_layers=n_layers)
        check_probability(dropout_prob=dropout_prob)
        self.hidden_size, self.n_layers = hidden_size, n_layers

        # Only the first layer reads inputs of width $C$. The others read hidden states.
        self.cells = nn.ModuleList(
            LSTMCell(hidden_size if i else input_size, hidden_size, layer_norm)
            for i in range(n_layers)
        )

        # Dropout acts between layers, and never from step to step. A cell that should
        # keep a number would lose it there.
        self.dropout = nn.Dropout(dropout_prob)

    def initial(self, x: Float[Tensor, "T B _"]) -> LSTMState:
        """The state before the first step: nothing is shown and nothing is kept."""
        zeros = x.new_zeros(self.n_layers, x.shape[1], self.hidden_size)
        return LSTMState(zeros, zeros)

    @reference
    def forward(
        self,
        x: Float[Tensor, "T B _"],
        state: tuple[Float[Tensor, "L B N"], Float[Tensor, "L B N"]] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], LSTMState]:
        r"""
        * `x`: the inputs, `[T, B, C]`
        * `state`: the hidden states and the cell states of all layers before them, both
          `[L, B, N]`; `None` is zero
        * `mask`: `True` for tokens and `False` for padding, `[T, B]`

        Returns the hidden states of the last layer at all steps, `[T, B, N]`, and the
        state after the last step. Both are attached to the graph: detach the state
        before you pass it to the next chunk.
        """
        if x.dim() != 3 or len(x) == 0 or state is not None:
            for part in (None,) if state is None else state:
                check_sequence(x, part, self.hidden_size, self.n_layers)
        hidden, kept = self.initial(x) if state is None else state

        last: list[tuple[Tensor, Tensor]] = []
        for i, cell in enumerate(self.cells):
            if i:
                x = self.dropout(x)

            # The first layer reads the whole sequence before the second begins. It may,
            # because a layer never needs anything from the layers above it.
            h, c, shown = hidden[i], kept[i], []
            for t, x_t in enumerate(x):
                # These are the two lines of the drawing. $c$ passes from step to step,
                # and hardly anything happens to it. $h$ is what the gates of the next
                # step read.
                new_h, new_c = cell(x_t, h, c)

                # At padding, tokens without meaning that fill up short sequences, both
                # states are kept.
                if mask is not None:
                    new_h = torch.where(mask[t, :, None], new_h, h.to(new_h))
                    new_c = torch.where(mask[t, :, None], new_c, c.to(new_c))
                h, c = new_h, new_c
                shown.append(h)
            x = torch.stack(shown)
            last.append((h, c))

        h, c = (torch.stack(parts) for parts in zip(*last, strict=True))
        return x, LSTMState(h, c)


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(LanguageModelConfig):
    r"""
    ## Configuration of the language model

    * `d_model`: features of a token embedding, $C$
    * `d_hidden`: cells of a layer, $N$
    * `n_layers`: layers, $L$
    * `dropout_prob`: dropout probability of embeddings and of hidden states
    * `layer_norm`: normalise the sums of all gates, and the cell state where it is
      shown

    [`LanguageModelConfig`](../language_model.py) has the fields that all models share.
    """

    d_model: int = 128
    d_hidden: int = 256
    n_layers: int = 2
    dropout_prob: float = 0.1
    layer_norm: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(
            d_model=self.d_model, d_hidden=self.d_hidden, n_layers=self.n_layers
        )
        check_probability(dropout_prob=self.dropout_prob)


class LSTMLanguageModel(LanguageModel[LSTMState]):
    r"""
    ## Language model

    Embedding, LSTM, linear output, as in [the program below](#training). $E$ holds the
    token embeddings, $M$ is the output matrix and $q$ its bias.

    \begin{align}
    x_t &= E_{w_t} \\
    h_t, c_t &= \operatorname{LSTM}(x_t, h_{t-1}, c_{t-1}) \\
    z_t &= M h_t + q
    \end{align}
    """

    name = "lstm"
    Config = LSTMConfig
    config: LSTMConfig

    def __init__(self, config: LSTMConfig) -> None:
        """`config`: the hyperparameters."""
        super().__init__(config)
        self.embedding = nn.Embedding(config.n_vocab, config.d_model)
        self.dropout = nn.Dropout(config.dropout_prob)
        self.lstm = LSTM(
            config.d_model,
            config.d_hidden,
            config.n_layers,
            dropout_prob=config.dropout_prob,
            layer_norm=config.layer_norm,
        )
        self.output = nn.Linear(config.d_hidden, config.n_vocab)
        self.init_uniform()

    def forward(
        self, tokens: Int[Tensor, "T B"], state: LSTMState | None = None
    ) -> tuple[Float[Tensor, "T B V"], LSTMState]:
        """
        ### Forward pass

        * `tokens`: the next chunk of each text, `[T, B]`
        * `state`: what was returned for the chunk before; `None` at the beginning of a
          text

        Returns logits, `[T, B, V]`, and the state after the last token, detached.
        """
        check_tokens(tokens, self.config.n_vocab)
        check_state(state, LSTMState, tokens)
        padding = self.config.padding_token
        mask = None if padding is None else tokens != padding

        # A new state needs the one before, but no logits. So embeddings and logits are
        # computed for all steps at once. Only the line between them runs step by step.
        x = self.dropout(self.embedding(tokens))
        h, after = self.lstm(x, state, mask)
        logits = self.output(self.dropout(h))

        # A long text is trained in chunks. The next one starts from the numbers of this
        # state, but `detach` forgets how they were computed. Otherwise the backward
        # pass would go through all chunks before.
        return logits, cast(LSTMState, after).detach()


# ## Symbols
#
# In the shapes, T is the number of steps and B that of sequences side by side. An input
# has C features, a layer N cells. There are L layers, and V tokens in the vocabulary.
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $x_t$ | `x` | `[B, C]` | input of a step; of all steps `[T, B, C]` |
# | $h_t$ | `h` | `[B, N]` | hidden state, what a layer shows |
# | $c_t$ | `c` | `[B, N]` | cell state, what a layer keeps |
# | $i_t$ | `i` | `[B, N]` | input gate |
# | $f_t$ | `f` | `[B, N]` | forget gate |
# | $o_t$ | `o` | `[B, N]` | output gate |
# | $g_t$ | `g` | `[B, N]` | candidate, what may be added |
# | $W$ | `input_lin.weight` | `[4N, C]` | input weights, in the order $i, f, g, o$ |
# | $U$ | `hidden_lin.weight` | `[4N, N]` | recurrent weights |
# | $b$ | `hidden_lin.bias` | `[4N]` | bias |
# | | `state` | `[L, B, N]` twice | hidden states and cell states of all layers |
# | $w_t$ | `tokens` | `[T, B]` | tokens of the language model |
# | $z_t$ | `logits` | `[T, B, V]` | logits of the next token |

# ## The gradient
#
# **With one number.** Take our cell at a letter, $c_t = f_t \, c_{t-1}$. A small change
# of $c_{t-1}$ changes $c_t$ by $f_t$ times as much. If each factor were 0.5, then
# $0.5^{100}$ would be left after a hundred letters, which has thirty zeros behind the
# point. Nothing can be learned from that. At 0.99995 nearly all is left.
#
# **With a vector.** Along the cell state the gradient meets the forget gates, and
# nothing else. A cell has its own factor at each step, and no other cell mixes in, so
# the matrix of all factors is diagonal:
#
# $$\frac{\partial c_t}{\partial c_{t-k}} \approx
#   \operatorname{diag}(f_t \odot f_{t-1} \odot \dots \odot f_{t-k+1})$$
#
# This leaves out a second way. The gates and the candidate depend on $h_{t-1}$, and
# $h_{t-1}$ depends on $c_{t-1}$. The Elman network has nothing *but* such a way, in
# which each step multiplies by $U$ and by a slope.
#
# **How far does it reach?** The [measurement above](#learning-over-long-gaps) sends
# random inputs through new layers of 128 cells, and looks how much of a gradient at the
# last state arrives at earlier ones. With a bias of 0 a new LSTM is *worse* than our
# Elman layer, whose $U$ [begins as a
# rotation](../recurrent/elman/__init__.py#one-step). With a bias of 1 it is ten times
# better after 30 steps. With a bias of 3 half of the gradient is left after 50.
#
# **Is that the work of the forget gates alone?** With a bias of 3 they are near
# $\sigma(3) = 0.95$, and $\sigma(3)^{50} = 0.09$, not a half. If we cut the second way
# (`h.detach()` before each step), only 0.07 of the gradient arrives. With a bias of 1
# it is then no more than in the Elman layer. So the second way adds to what the gates
# carry.
#
# **Why a forget gate at all?** In 1997 there was none, as if it were fixed at 1, and a
# factor of 1 changes nothing. So nothing was ever forgotten, and over a long text cell
# states could grow without bound. You can try this in [exercise 3](#exercises). The
# gate was added so that a cell can also forget ([@gers2000learning]).
#
# **What about explosion?** A forget gate is at most 1, so the way along the cell state
# cannot explode. The other way, through $U$, still can. We go on clipping the gradient.

# ## Training
#
# Does a network find such weights by itself? This program makes lines such as `((x))`,
# with one to three brackets, and trains a small LSTM to predict the next character.
# After the *x* you can predict the rest of the line, but only if you have counted. So
# at the end we ask the trained model twice how probable another closing bracket is.
# After `(((x))` one is missing, and after `(((x)))` none is.
#
# ```python
# import random
#
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.lstm import LSTM
#
# random.seed(1)
# torch.manual_seed(1)
# characters = "x()\n"
# depths = random.choices((1, 2, 3), k=15000)
# text = "".join("(" * n + "x" + ")" * n + "\n" for n in depths)
# # Sixteen equal pieces of the text, one in each column, [T, B].
# tokens = torch.tensor([characters.index(c) for c in text[: len(text) // 16 * 16]])
# tokens = tokens.view(16, -1).t()
#
# class Model(nn.Module):
#     def __init__(self, n_vocab, d_model, d_hidden):
#         super().__init__()
#         self.embedding = nn.Embedding(n_vocab, d_model)
#         self.lstm = LSTM(d_model, d_hidden, 1)
#         self.output = nn.Linear(d_hidden, n_vocab)
#
#     def forward(self, tokens, state=None):
#         h, state = self.lstm(self.embedding(tokens), state)
#         return self.output(h), state
#
# model = Model(len(characters), d_model=8, d_hidden=16)
# optimizer = torch.optim.Adam(model.parameters())
# # The learning rate rises to 0.05, and falls again.
# schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=250)
# state = None
# for t in range(0, 250 * 20, 20):
#     logits, state = model(tokens[t : t + 20], state)
#     loss = F.cross_entropy(logits.flatten(0, 1), tokens[t + 1 : t + 21].flatten())
#     optimizer.zero_grad()
#     loss.backward()
#     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
#     optimizer.step()
#     schedule.step()
#     state = tuple(part.detach() for part in state)  # keep the values, drop the graph
#
# closing = []
# for prompt in ("\n(((x))", "\n(((x)))"):
#     logits, _ = model(torch.tensor([[characters.index(c)] for c in prompt]))
#     closing.append(logits[-1, 0].softmax(-1)[characters.index(")")].item())
# print([f"{p:.2f}" for p in closing])  # here 1.00 and 0.04
# assert closing[0] > 0.9 > 0.3 > closing[1]
# ```
#
#
# Three brackets need no gates: an Elman network of 16 units learns these lines as well.
# Gates pay where something must be kept for long, or where there is no bound on how
# much is counted, as [in the task above](#when-the-count-decides).
#
# The program reads its text in chunks of 20 characters, sixteen pieces of text side by
# side. The state after one chunk is passed to the next. It is a pair, $(h_t, c_t)$, and
# we detach both of its parts. Otherwise the backward pass of a chunk would run into the
# chunk before.
#
# **On Shakespeare** the LSTM that you can [try above](#try-it) has a loss of 1.65 nats
# per character, on the part of the text that was held back. (If all 65 characters were
# equally probable, it would be 4.17.) The [Elman
# network](../recurrent/elman/__init__.py#training) reaches 1.59 after as many updates,
# with 39 % more parameters. Are the gates in vain? Here they have little to do. The few
# characters before the next one say much about it, and this text hardly asks for a long
# memory. [Other tasks](../experiments/memory.py) ask for one.

# ## The task with the brackets
#
# At each step a line has a bracket with probability 1/2, and a letter otherwise. The
# number of brackets that it opens, from 1 to 20, is random. It opens all of them before
# it closes the first, and after the last one letters follow. Inputs are one-hot: a
# letter, or one of two brackets. The target is whether a bracket is open after the
# step, with a loss at every step.
#
# All networks have a linear output. The LSTM of 16 cells has 1,280 weights and biases
# without it, the Elman layer of 16 units 320, and that of 34 units 1,292. (Its $U$
# begins as a rotation, and the forget gates of the LSTM have a bias of 1.) Each is
# trained for 1,000 updates on 64 new lines of 100 steps, by Adam. The learning rate
# falls linearly from 0.02 to 0.0004, and gradients are clipped to a length of 1. A run
# takes 3 to 12 seconds of CPU time. The test has 200 lines of each number of brackets,
# long enough for all of them, and is the same for all networks and seeds.

# ## Cost
#
# A layer has $4 N (C + N + 1)$ parameters, four times those of an Elman layer. A step
# costs $4 N (C + N)$ multiplications, and a sequence $T$ times as many, so the work is
# linear in its length. Generation stores the $2 L N$ numbers of the state, whatever was
# read before.
#
# The products $W x_t$ of all steps can be computed at once, before the loop, and the
# small operations of a step can be fused. `torch.nn.LSTM` does both, and so does
# [our kernel](../kernels/gated.py), which calls the same operation of PyTorch with the
# weights of this page.
#
# The [GRU](gru.py) does with three sums and one state. But its new state is a mean of
# the old one and a tanh, so it stays between −1 and 1. With small steps it can count
# for a while, but not without a bound.

# ## Common mistakes
#
# * **State and output are mixed up**: the second value that `LSTM` returns is a pair,
#   $(h, c)$. If you pass $h$ alone to the next chunk, all that was kept is lost.
# * **"Trying to backward through the graph a second time"** at the second chunk: detach
#   both parts of the state.
# * **The gates are in another order**: the matrices of other libraries may be ordered
#   differently, and nothing raises an error. Here and in PyTorch it is $i, f, g, o$.
# * **Long dependencies are not learned**: look at the forget gates of the new network.
#   With a bias of 0 they begin half closed.
# * **Dropout between steps**: a cell that should keep a number loses it. Drop inputs
#   and outputs of layers instead.

# ## Differences from the paper
#
# <details><summary>Forget gate, cells, gradients, peepholes</summary>
#
# * **Forget gate.** Hochreiter and Schmidhuber ([-@hochreiter1997long]) have none. It
#   is by Gers, Schmidhuber and Cummins ([-@gers2000learning]).
# * **Blocks.** In the paper several cells may share one input gate and one output gate,
#   and form a *memory cell block*. Here each cell has gates of its own.
# * **Squashing.** In the paper, what is added passes a sigmoid that is scaled to the
#   range from −2 to 2, and what is shown one from −1 to 1. Here both are tanh.
# * **Gradients.** The paper cuts the gradient at the gates, and lets it flow back
#   through time along the cell states alone. Here it takes all ways, within a chunk.
# * **Peepholes**, by which gates see the cell state, came later. `torch.nn.LSTM` has
#   none either.
#
# </details>

# ## Exercises
#
# **1.** `torch.nn.LSTM` has the same gates in the same order, and two biases for our
# one. Write a function that converts one.
#
# <details><summary>Answer</summary>
#
# Copy the two matrices of each layer, and add the two biases.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.lstm import LSTM
#
# def from_torch_lstm(theirs):
#     sizes = theirs.input_size, theirs.hidden_size, theirs.num_layers
#     ours, weights = LSTM(*sizes, dropout_prob=theirs.dropout), theirs.state_dict()
#     with torch.no_grad():
#         for i, cell in enumerate(ours.cells):
#             cell.input_lin.weight.copy_(weights[f"weight_ih_l{i}"])
#             cell.hidden_lin.weight.copy_(weights[f"weight_hh_l{i}"])
#             bias = weights[f"bias_ih_l{i}"] + weights[f"bias_hh_l{i}"]
#             cell.hidden_lin.bias.copy_(bias)
#     return ours
#
# theirs, x = nn.LSTM(4, 6, num_layers=2), torch.randn(9, 3, 4)
# ours = from_torch_lstm(theirs)
# torch.testing.assert_close(ours(x)[0], theirs(x)[0])
# for a, b in zip(ours(x)[1], theirs(x)[1]):
#     torch.testing.assert_close(a, b)
# ```
#
# </details>
#
# **2.** Build the cell of the example by hand, and let it count the brackets of
# `((f(x)))`. What is the cell state after the *x*?
#
# <details><summary>Answer</summary>
#
# Three brackets are open, so it is 3. The weights of the input are the matrix $W$ of
# the example, and $U$ and $b$ are zero.
#
# ```python
# import torch
# from labml_nn.lstm import LSTM
#
# table = [[-10, 10, 10, -10], [10, 10, 10, -10], [10, 10, -10, 10], [10, 10, 10, 10]]
# lstm = LSTM(4, 1, 1)
# cell = lstm.cells[0]
# with torch.no_grad():
#     cell.input_lin.weight.copy_(torch.tensor(table))
#     cell.hidden_lin.weight.zero_()
#     cell.hidden_lin.bias.zero_()
#
# def count(text):
#     kinds = {"(": 1, ")": 2, "\n": 3}
#     tokens = torch.tensor([[kinds.get(one, 0)] for one in text])
#     one_hot = torch.nn.functional.one_hot(tokens, 4).float()  # [T, 1, 4]
#     _, (_, c) = lstm(one_hot)
#     return c.item()
#
# for text in ("((f(x", "((f(x)))", "((f(x)))\n"):
#     print(repr(text), f"{count(text):.2f}")
# assert round(count("((f(x"), 2) == 3 and abs(count("((f(x)))")) < 0.01
# ```
#
# </details>
#
# **3.** Take the forget gate away, as in 1997. Let random inputs of variance 1 run
# through a new layer for 1,000 steps. What happens to the cell states?
#
# <details><summary>Answer</summary>
#
# They grow without bound, here to 74 on average, and the tanh that shows them
# saturates. With a forget gate old values fade, and the average is 0.4.
#
# ```python
# import torch
# from labml_nn.lstm import LSTM, LSTMCell
#
# class CellOf1997(LSTMCell):
#     def forward(self, x, h, c):
#         i, _, g, o = (self.hidden_lin(h) + self.input_lin(x)).chunk(4, dim=-1)
#         c = c + torch.sigmoid(i) * torch.tanh(g)
#         return torch.sigmoid(o) * torch.tanh(c), c
#
# torch.manual_seed(1)
# lstm, x = LSTM(8, 16, 1), torch.randn(1000, 4, 8)
# with torch.no_grad():
#     _, (_, with_gate) = lstm(x)
#     lstm.cells[0] = CellOf1997(8, 16)
#     _, (_, without) = lstm(x)
# print(f"{with_gate.abs().mean():.1f} {without.abs().mean():.1f}")
# assert without.abs().mean() > 10 * with_gate.abs().mean()
# ```
#
# </details>
