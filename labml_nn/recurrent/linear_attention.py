r"""
---
title: Linear attention and fast weights
summary: >
  Attention without its softmax is a recurrent network whose state is a matrix. It
  remembers by adding pairs of a key and a value, and recalls with one product.
paper: https://arxiv.org/abs/2006.16236
notebook: notebooks/linear_attention.ipynb
compare: labml_nn.transformers.mha(MultiHeadAttention.attend=linear_attention_table)
tones: {query: 3, key: 1, value: 2, fast weight: 5, weight: 0, memory: 5, state: 5}
---

*Ann has 3 apples and 1 pear. Ben has 2 apples and 4 pears.* What does Ann have? You
look up *Ann*. So does [attention](../transformers/mha.py). It keeps a key and a value
for each token, and compares a query with all the keys. **Linear attention** looks
things up, too, but all that it keeps is one matrix ([@katharopoulos2020transformers]).

![Two sentences, one memory. Two people have a row each; below, three share two
rows.](figure:linear_attention.memory)

**What is wrong with keeping all keys and values?** The list grows, and each new token
is compared with all of it. An [LSTM](../lstm/__init__.py) has a state of fixed size,
but nothing in it has an address: you cannot ask it for Ann. Let us build a memory of
fixed size that you can ask.

![Orange: keys. Green: values. Above, a square is a whole vector; below, a number of the
memory.](figure:linear_attention.growth)

## A memory by hand

**Write.** Give each person a **key**, a vector of two numbers: (1, 0) for Ann, (0, 1)
for Ben. Their **values** are what they have, apples and pears: (3, 1) and (2, 4). (In a
network, three learned matrices make key, value and query of a token.) Now multiply each
number of the key by each number of the value. This gives a matrix, the **outer
product** of the two. To write a pair is to add its outer product to the memory $S$, at
first zero.

![Each cell is the number of the key in its row times the number of the value in its
column.](figure:linear_attention.written)

**Read.** A **query** says what you look for. Multiply each row of $S$ by one number of
the query, and add up the rows. The query (1, 0) asks for Ann, and 1 · (3, 1) + 0 · (2,
4) = (3, 1) is what she has.

![The query weighs the rows.](figure:linear_attention.read)

**A third pair.** Cleo has 5 apples and no pears. There is no third row for her. But a
key may have any direction, so let hers be (0.6, 0.8), which has length 1 like the other
two. Her outer product goes into both rows.

![Nothing grows: three pairs in two rows.](figure:linear_attention.third)

Ask for Ann again, and you get 1 · (6, 1) + 0 · (6, 4) = (6, 1). That is 3 apples too
many. Why? The dot product of Ann's query and Cleo's key is 1 · 0.6 + 0 · 0.8 = 0.6, and
0.6 · (5, 0) = (3, 0). So a read returns *all* values, and each of them counts as much
as its key agrees with the query. These dot products are **weights**, as in attention.

![The framed row is Ann's: 1 · (3, 1) + 0 · (2, 4) + 0.6 · (5, 0) = (6,
1).](figure:linear_attention.asked)

**How much fits in?** Ann and Ben do not disturb each other, because their keys are
**orthogonal**: they stand at a right angle, and their dot product is 0. Vectors of
$d_k$ numbers have at most $d_k$ such directions. So if you ask with the keys
themselves, a memory keeps at most $d_k$ pairs exactly apart.

![Dashed: the dot products of Cleo's key with the two
others.](figure:linear_attention.directions)

**This is attention.** What does a read return? Each token $s$ has written a pair of a
key $k_s$ and a value $v_s$. All vectors are rows here, and $k_s^\top$ is a key as a
column:

\begin{align}
S &= \sum_s k_s^\top v_s \\
q \, S &= \sum_s q \, (k_s^\top v_s) \\
&= \sum_s (q \, k_s^\top) \, v_s
\end{align}

From the second line to the third only the brackets move. In the second, keys and values
are multiplied first, and their sum is the memory. In the third, the query meets each
key first, and the values are added up with these weights. This is attention without its
softmax. With it a weight is $\exp(q \, k_s^\top)$, so each query must meet each key.

![The same for three tokens at once; $Q$, $K$ and $V$ have a row for each of
them.](figure:linear_attention.brackets)

## The average

**Divide.** The softmax does one more thing. Its weights sum to one, so attention
returns an average of values. Our sum grows with every pair: Cleo's query finds 8.4
apples, more than anybody has. So let us divide by the sum of the weights. For Ann they
are 1, 0 and 0.6. We divide (6, 1) by 1.6 and get (3.75, 0.625). That is still not (3,
1), but between what Ann and Cleo have.

![What Ann's query finds: the sum is outside, the average on the dashed line from Ann to
Cleo.](figure:linear_attention.average)

**How do we find the sum of the weights?** It is what a read would return if all values
were 1. So give each value one more number, a 1. Then $S$ has one more column, which we
call $z$. It is the sum of all keys, and a read finds in it the sum of all weights.

![The same read, with one more column.](figure:linear_attention.normaliser)

**Keep the weights positive.** A dot product can be negative, and with the weights 1 and
−1 we would divide by 0. So each number of queries and keys is made positive first, by
the **feature map** $\phi(x) = \operatorname{elu}(x) + 1$. It is $x + 1$ if $x$ is
positive, and $e^x$ if not. Can positive keys be orthogonal? Nearly: where one is large,
the other must be close to 0. (Ann · Ann is now 36, but we divide, and 36 / 36.08 is
nearly 1.)

![φ, and what it makes of two keys.](figure:linear_attention.positive)

**In formulas.** Each token $t$ writes a pair, and then its query reads:

\begin{align}
S_t &= S_{t-1} + \phi(k_t)^\top v_t \\
z_t &= z_{t-1} + \phi(k_t) \\
y_t &= \frac{\phi(q_t) \, S_t}{\phi(q_t) \cdot z_t}
\end{align}

And $q \, S$ is what a linear layer with the matrix $S$ computes. Usually training
changes such a matrix, slowly. But $S$ is written while a text is read, so its numbers
are called **fast weights**. (They are not the weights from above, query · key.)

![The memory has $z$ beside $S$. Boxes lead to the
code.](figure:linear_attention.diagram)

## One computation, three forms

A layer reads a whole text, and a token may see only what came up to it. Let *Ann*,
*Ben*, *Cleo* and *Ann* be four tokens, each with its key as its query. The second *Ann*
has eaten two apples, and writes (1, 1). (Our keys have no negative numbers, so we leave
out φ.) There are three ways to compute what they find:

* the **table** has the weights of all queries and keys, as attention with a causal
  mask;
* the **loop** has one memory, into which each token writes before it reads;
* **chunks** are pieces of the text, here of two tokens. A token reads the memory of all
  chunks before its own, and for its own chunk there is a small table.

Compare, token by token.

1. *Ann* finds only herself, with the weight 1: (3, 1).

2. *Ben* finds (2, 4). His weight for Ann is 0.

3. *Cleo* begins a chunk. Her query reads (3.4, 3.8) from the memory of the first two
   tokens, and (5, 0) in her own chunk. The sum is (8.4, 3.8), as in the other forms.
   Her weights sum to 2.4, so the average is (3.5, 1.58).

4. *Ann* again finds both of her own values and a part of Cleo's: (7, 2). The average is
   (2.69, 0.77), and she has (1, 1). Nothing in this memory is ever *replaced*.

Turn Cleo's key to 0, so that it is Ben's. Chunks of one token are the loop, and one of
four is the table.

![Three forms, one result. The third column of values is the 1, that of the memory is
$z$.](figure:linear_attention.stage)

**Which one, and when?** With $T$ tokens the work of the table grows with $T^2$. But
nothing in it waits, so it is good for short texts. That of loop and chunks grows with
$T$ alone, hence the name *linear*. In the loop each step waits for the one before, as
in **generation**, where the next token is not there yet. Chunks are right for long
texts, and so for training. They multiply more, here five times as much as the loop, but
in a few large matrix products. A processor does those faster than many small steps that
wait.

![Twelve tokens, a row each, in chunks of 4: weights (blue), a write and a read of the
memory (narrow columns). The curves: all multiplications of a head, with keys of 16
numbers and chunks of 64 tokens.](figure:linear_attention.forms)

**Which key belongs to which value?** Until here a token brought both. But in *Ann 3 Ben
2* name and number are two tokens, and the 3 must be written under the key of *Ann*, the
token **before**. A **short convolution** can do that. It mixes the keys of the last
four tokens, with four learned numbers for each feature: 0, 0, 1 and 0 take the key of
the token before. So *3* writes its value under the key of *Ann*, and *2* under that of
*Ben*. *Ben* writes, too, under the key of *3*, for which nobody asks. Queries and
values go through such numbers as well. For them 0, 0, 0 and 1 are right: a later *Ann*
asks with its own query.

![What three of the tokens write, and numbers that do
it.](figure:linear_attention.neighbours)

## When the memory decides

You read a telephone book, once, and then you are asked for one of its names. Names and
digits are new in each book.

![One of the books.](figure:linear_attention.book)

We train three small networks on books of 1 to 32 pairs. They differ in the layer that
reads. Attention keeps a list. Linear attention keeps a matrix of 16 × 17 numbers (keys
and values have 16; then comes the 1), and an LSTM just as many, in two vectors of 136.
The matrix finds 76 to 81 % of the answers in books of eight pairs, and the two vectors
26 to 29 %. Why not all eight, when 16 keys could be orthogonal? There are 64 names, so
their keys overlap. The more pairs, the more they mix: with 32 pairs it finds 36 to
46 %. Attention finds at least 99.8 % in all books.

![Five seeds each. A guess finds one in ten. [How it was
measured](#the-task-with-the-book).](figure:linear_attention.found_by_pairs)

## Gains and price

What does one more token cost, in a layer of 64 features with four **heads**, four
memories side by side? Attention keeps another key and value, 512 bytes. Linear
attention keeps the same 6,656 bytes after ten tokens and after a million: 4 · 16 · 17
numbers of the memories, and 3 · 3 · 64 for the convolution, the last three queries,
keys and values, each of 4 bytes. For a short list attention is faster, but its time
grows, and that of a write and a read hardly grows.

![Measured on one computer, for one sequence.](figure:linear_attention.cost)

The price is that pairs mix. And an old value is never replaced. The second *Ann* had
(1, 1), and found (2.69, 0.77). Even without Cleo it would be (2, 1). To replace a
value, we would have to take it out first. That is the [delta rule](delta_net.py).

![With equal weights the average is the mean of old and
new.](figure:linear_attention.never_replaced)

## The whole in code

The loop is two lines, a write and a read. Here they are with the numbers of Ann, Ben
and Cleo:

```python
import torch

keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
values = torch.tensor([[3.0, 1.0, 1.0], [2.0, 4.0, 1.0], [5.0, 0.0, 1.0]])
S = torch.zeros(2, 3)
for k, v in zip(keys, values):
    S = S + k[:, None] * v[None, :]  # write: a column times a row
    y = k @ S  # read, with the key as query
    print(y[:2] / y[2])  # at the end (3.5, 1.58), as in the stage
```

A layer does this for several texts and heads, with projections, the short convolution,
φ and the 1. The module below computes the same, by chunks.

```python
import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, C, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(C, 3 * C, bias=False)  # three projections in one
        # Four numbers for each feature alone (`groups`). Three zeros at both ends.
        self.conv = nn.Conv1d(3 * C, 3 * C, 4, groups=3 * C, padding=3, bias=False)
        self.output = nn.Linear(C, C, bias=False)

    def forward(self, x):  # [T, B, C]: T tokens of B texts, with C features
        # `Conv1d` wants tokens last, and gives T + 3 sums. The first T look back only.
        mixed = self.conv(self.qkv(x).permute(1, 2, 0))[..., : len(x)].permute(2, 0, 1)
        # Three parts, each cut into heads: [T, B, heads, C / heads].
        q, k, v = mixed.unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1  # φ
        v = F.pad(v, (0, 1), value=1.0)  # one more number, the 1
        S, found = 0.0, []
        for q_t, k_t, v_t in zip(q, k, v):
            S = S + k_t[..., :, None] * v_t[..., None, :]  # write
            found.append((q_t[..., None, :] @ S)[..., 0, :])  # read
        y = torch.stack(found)
        y = y[..., :-1] / (y[..., -1:] + 1e-6)  # never by 0
        return self.output(y.flatten(2))  # heads side by side


print(Layer(C=64, heads=4)(torch.randn(10, 2, 64)).shape)  # [10, 2, 64]
```

## Try it

Type, and watch a memory fill up. Each map is coloured up to its own largest number, and
leaves out $z$. Two layers of four heads, with keys of 24 numbers, trained for about two
minutes of one CPU core, write like this:

> First Shall well. Who gold desurcy, Shall I she is you will resent me the let's stook
> lifess seek.

![The memory of a head after this text, without $z$, and how much each character counts
for its last query: none more than twice an equal share.](figure:live.matrix)"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_heads, check_sizes
from labml_nn.language_model import at_least_single
from labml_nn.recurrent.language_model import RecurrentConfig, RecurrentLanguageModel

__all__ = [
    "LinearAttention",
    "LinearAttentionConfig",
    "LinearAttentionLanguageModel",
    "LinearAttentionState",
    "ShortConvolution",
    "feature_map",
    "linear_attention_chunks",
    "linear_attention_loop",
    "linear_attention_table",
]


def linear_attention_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The loop

    We begin with the form of the example: write a pair, then read. There are $H$
    memories, one for each head, and they are independent.

    * `q`, `k`: queries and keys, `[T, B, H, D]`
    * `v`: values, `[T, B, H, Dv]`
    * `memory`: what was written before, `[B, H, D, Dv]`

    Returns what each query found, `[T, B, H, Dv]`, and the memory after the last pair.
    """
    found = []
    for q_t, k_t, v_t in zip(q, k, v, strict=True):
        # **Write**: add the outer product of key and value. The key becomes a column
        # and the value a row, so that each number of one meets each number of the
        # other. Why not `+=`? It would change the old matrix, which may still be
        # needed, by a gradient or by a caller who goes on from there twice.
        memory = memory + k_t[..., :, None] * v_t[..., None, :]

        # **Read**: the query times the matrix. It reads after the pair is written, so a
        # token also finds its own value. Attention does the same.
        found.append((q_t[..., None, :] @ memory)[..., 0, :])
    return torch.stack(found), memory


def linear_attention_table(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The table

    The same as attention: $Y = \operatorname{tril}(Q K^\top) \, V$. Nothing waits, but
    all $T^2$ products are computed, and about half of them are then set to 0.
    """
    # Each query `t` meets each key `s`. (In `einsum` letters name axes: products are
    # summed over those that are missing behind the arrow, here over the features `d` of
    # a key.) `tril` keeps the lower triangle, diagonal included: a token reads what was
    # written up to now. Attention sets the other scores to $-\infty$, because a softmax
    # follows. Without one they become 0.
    scores = torch.einsum("tbhd,sbhd->bhts", q, k).tril()
    found = torch.einsum("bhts,sbhe->tbhe", scores, v)

    # What was written before this sequence is found with one product. And the memory
    # behind it is the sum of all pairs, once more by one product.
    found = found + torch.einsum("tbhd,bhde->tbhe", q, memory)
    return found, memory + torch.einsum("sbhd,sbhe->bhde", k, v)


def linear_attention_chunks(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    memory: Float[Tensor, "B H D Dv"],
    chunk: int = 64,
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## Chunks

    The text is cut into chunks of 64 tokens. Inside a chunk we compute the table, which
    is small. What lies before the chunk is in the memory. So the work grows with $T$
    and not with $T^2$, and nearly nothing has to wait.
    """
    # The last chunk may be too short. Zeros fill it up: a key of zeros writes nothing.
    # Now there are `n` chunks, `[n, chunk, B, H, D]`.
    length, chunk = len(q), min(chunk, len(q))
    n = -(-length // chunk)
    padding = (0, 0) * 3 + (0, n * chunk - length)
    q, k, v = (
        torch.unflatten(F.pad(part, padding), 0, (n, chunk)) for part in (q, k, v)
    )

    # What each chunk writes, for all chunks at once. Then the memory before a chunk is
    # a running sum: what was there at the beginning, and all chunks so far.
    written = torch.einsum("nsbhd,nsbhe->nbhde", k, v)
    memories = torch.cat([memory[None], written]).cumsum(0)

    # Each token finds what was written in its own chunk, with a table, …
    scores = torch.einsum("ntbhd,nsbhd->nbhts", q, k).tril()
    found = torch.einsum("nbhts,nsbhe->ntbhe", scores, v)

    # … and what was written before its chunk, in the memory.
    found = found + torch.einsum("ntbhd,nbhde->ntbhe", q, memories[:-1])
    return found.flatten(0, 1)[:length], memories[-1].clone()


def feature_map(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""
    ## Feature map

    $\phi(x) = \operatorname{elu}(x) + 1$ is $x + 1$ for a positive $x$, and $e^x$
    otherwise. It is never negative, and it has a gradient everywhere. With a ReLU a key
    whose numbers are all negative could not learn any more
    ([@katharopoulos2020transformers, §3.2.1]).
    """
    return F.elu(x) + 1


class ShortConvolution(nn.Module):
    r"""
    ## Short convolution

    It lets a token see its neighbours before it. Each feature is replaced by a weighted
    sum of that feature at the last $W$ positions, with weights $w$ of its own:

    $$y_{t,f} = \sum_{j=0}^{W-1} w_{f,j} \; x_{t-(W-1)+j,\,f}$$

    Features are not mixed ("depthwise"), so there are only $W$ weights for each of
    them. For the key of the token before alone, with $W = 4$, the weights would be 0,
    0, 1 and 0.
    """

    def __init__(self, features: int, width: int = 4) -> None:
        """
        * `features`: features of a position, $F$
        * `width`: positions that a sum covers, $W$
        """
        super().__init__()
        check_sizes(features=features, width=width)
        self.features, self.width = features, width

        # The weights have the shape of those of `nn.Conv1d(features, features, width,
        # groups=features)`, and begin in the same way.
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(features, 1, width))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(
        self,
        x: Float[Tensor, "T B F"],
        before: Float[Tensor, "before B F"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B F"], Float[Tensor, "before B F"]]:
        """
        * `x`: vectors of the positions, `[T, B, F]`
        * `before`: the $W - 1$ vectors before them, `[W-1, B, F]`; `None` is zero
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns the sums, `[T, B, F]`, and the last $W - 1$ vectors, `[W-1, B, F]`,
        which are `before` for the next chunk.
        """
        if before is None:
            before = x.new_zeros(self.width - 1, *x.shape[1:])
        padded = torch.cat([before, x])

        # $y_t$ needs $x_{t-W+1}$ to $x_t$. In `padded` these are the rows from $t$ on.
        y: Tensor = self.weight[:, 0, 0] * padded[: len(x)]
        for j in range(1, self.width):
            y = y + self.weight[:, 0, j] * padded[j : j + len(x)]

        # Behind the last token there may be padding, which is not remembered.
        if mask is None:
            return y, padded[len(x) :].clone()
        last = mask.sum(0) + torch.arange(self.width - 1, device=x.device)[:, None]
        return y, padded.gather(0, last[..., None].expand(-1, -1, self.features))


class LinearAttentionState(NamedTuple):
    """
    ## State

    * `memory`: the sum of all pairs so far, `[B, H, D, Dv]`
    * `recent`: the last queries, keys and values, for the short convolution,
      `[W-1, B, 3C]`
    """

    memory: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B F"]


class LinearAttention(nn.Module):
    r"""
    ## Linear attention

    Now we join the parts into a layer that can stand where attention stood. In the
    [language model](language_model.py) such a layer is called a mixer.
    """

    def __init__(self, d_model: int, heads: int, *, conv: int = 4) -> None:
        """
        * `d_model`: features of a position, $C$
        * `heads`: memories side by side, $H$, each with keys of $C / H$ numbers
        * `conv`: positions that the short convolution covers, $W$; 1 is only the own
        """
        super().__init__()
        check_heads(heads, d_model)
        check_sizes(conv=conv)
        self.heads = heads

        # As in attention, queries, keys and values are projections of the input, for
        # all heads in one product.
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.conv = ShortConvolution(3 * d_model, conv)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: tuple[Float[Tensor, "B H D Dv"], Float[Tensor, "before B F"]]
        | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], LinearAttentionState]:
        r"""
        * `x`: vectors of the positions, `[T, B, C]`
        * `state`: what was returned for the chunk before; `None` at the beginning
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns what the heads found, `[T, B, C]`, and the next state. It is attached to
        the graph: detach it before you pass it to the next chunk.
        """
        memory, recent = (None, None) if state is None else state

        # The key under which a value is written comes from the token before it. The
        # convolution can learn that. Queries and values go through it as well, side by
        # side, because their neighbours help them, too.
        qkv = torch.cat([self.query(x), self.key(x), self.value(x)], dim=-1)
        qkv, recent = self.conv(qkv, recent, mask)

        # Split into heads. The memory is a sum of very many small numbers, so all of it
        # is computed with at least 32 bits.
        q, k, v = (
            torch.unflatten(at_least_single(part), -1, (self.heads, -1))
            for part in qkv.chunk(3, dim=-1)
        )

        # From here on, products of queries and keys are positive.
        q, k = feature_map(q), feature_map(k)

        # Padding writes nothing.
        if mask is not None:
            k = k * mask[..., None, None]

        # Each value gets one more number, a 1. All sums treat it as the others, so in
        # this place stands $z$, the sum of the keys, and what is found there is the sum
        # of all weights.
        v = F.pad(v, (0, 1), value=1.0)
        if memory is None:
            memory = v.new_zeros(*v.shape[1:3], q.shape[-1], v.shape[-1])

        # A single token, as in generation, is one step of the loop. A longer text takes
        # the chunks.
        attend: Callable[..., tuple[Tensor, Tensor]] = (
            linear_attention_loop if len(x) == 1 else linear_attention_chunks
        )
        found, memory = attend(q, k, v, memory)

        # The sum becomes an average. A tiny number keeps us from dividing by 0, where
        # all weights are so small that they are rounded to 0.
        y = found[..., :-1] / (found[..., -1:] + 1e-6)
        return self.output(y.flatten(-2).to(qkv.dtype)), LinearAttentionState(
            memory, recent
        )


@dataclass(frozen=True, kw_only=True)
class LinearAttentionConfig(RecurrentConfig):
    """
    ## Configuration

    * `heads`: memories of a layer, $H$
    * `conv`: positions that the short convolution covers, $W$; 1 is only the own

    [`RecurrentConfig`](language_model.py#RecurrentConfig) has the fields that all
    models of this kind share.
    """

    heads: int = 4
    conv: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.d_model)
        check_sizes(conv=self.conv)


class LinearAttentionLanguageModel(RecurrentLanguageModel):
    """
    ## Language model

    Embedding, layers, logits: all but the mixer stands on [the page that three models
    share](language_model.py).
    """

    name = "linear_attention"
    Config = LinearAttentionConfig
    config: LinearAttentionConfig

    def mixer(self) -> LinearAttention:
        """One for each layer."""
        sizes = self.config
        return LinearAttention(sizes.d_model, sizes.heads, conv=sizes.conv)


# ## Symbols
#
# In the shapes, T is the number of tokens and B that of sequences side by side. A token
# has C features. There are H heads, with keys of D numbers and values of Dv.
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $x$ | `x` | `[T, B, C]` | what the layer reads |
# | $q$, $k$ | `q`, `k` | `[T, B, H, D]` | queries and keys, after the feature map |
# | $v$ | `v` | `[T, B, H, Dv]` | values, with a 1 at the end |
# | $S$ | `memory` | `[B, H, D, Dv]` | the memory, with $z$ as its last column |
# | $y$ | `y`, `found` | `[T, B, H, Dv]` | what the queries find |
# | $\phi$ | `feature_map` | | makes numbers positive |
# | $w$ | `conv.weight` | `[3C, 1, W]` | weights of the short convolution |

# ## How much a memory holds
#
# Each head has a memory. If you ask with the keys themselves, $d_k$ pairs at most are
# found exactly, and their keys must be orthogonal. With other queries it is enough that
# the keys are linearly independent. For example, (1, −0.75) finds exactly what stands
# under (1, 0) and nothing of (0.6, 0.8), and (0, 1.25) the other way round.
#
# How bad is it to write more? In the figure, keys are random and of length 1. A value
# is one of 64 words, written as a 1 among 63 zeros. What you read is disturbed, but if
# the largest number still stands in the right place, the word is found. So a memory
# holds more than $d_k$ pairs if a few mistakes do no harm.
#
# ![The share of values that are found, by the number of pairs, for keys of 4, 8, 16 and
# 32 numbers.](figure:linear_attention.capacity)

# ## Why not with a softmax?
#
# Could $\exp(q \cdot k)$ be the dot product of longer vectors? Each term of
# $\exp(x) = 1 + x + \tfrac12 x^2 + \dots$ would need numbers of its own, and the terms
# never end.
#
# And why not compute all $S_t$ at once, as a running sum of the outer products? PyTorch
# has `cumsum`. But this would store $T$ matrices for a text of $T$ tokens, and the gain
# was that one is enough.

# ## Fast weights
#
# $y = q \, S$ is also what a linear layer computes, whose weights are $S$. The weights
# of a layer change slowly, in training. But these change while the network reads, with
# every token. So the projections that make $q$, $k$ and $v$ are the **slow weights**,
# and $S$, which the sequence writes, are the **fast weights**. The idea of a network
# that writes the weights of another one is more than thirty years old
# ([@schmidhuber1992learning]), and linear attention is one ([@schlag2021linear]).

# ## Why the forms are equal
#
# The loop adds up $S_t = S_0 + \sum_{s \le t} k_s^\top v_s$. Multiply by $q_t$ from the
# left, and move the brackets:
#
# $$q_t S_t = q_t S_0 + \sum_{s \le t} (q_t \cdot k_s) \, v_s$$
#
# The second sum is row $t$ of the table. For the chunks, cut this sum at $r$, the last
# token before the chunk in which $t$ lies. All pairs up to $r$ are in $S_r$, and what
# remains is the table of one chunk:
#
# $$q_t S_t = q_t S_r + \sum_{r < s \le t} (q_t \cdot k_s) \, v_s$$
#
# With chunks of one token this is the loop, and with a single chunk it is the table.
# The tests compare all three, with random sizes, with chunks that do not divide $T$,
# and with a memory that is not empty.
#
# **When is which the cheapest?** A head computes $d_k d_v$ products for a write and as
# many for a read. So the loop takes $2 T d_k d_v$ of them, and the table
# $T^2 (d_k + d_v)$. If $d_v = d_k$, the table has fewer up to $T = d_k$. With chunks of
# $c$ tokens there are $T c \, (d_k + d_v) + 2 T d_k d_v$. But products are not all. In
# the loop each step waits for the one before, and starts several small operations for
# very few numbers. The table takes only a few large ones, so it stays ahead for longer.
#
# So the loop is for a single token, as in generation. The table is for short texts, and
# the chunks are for all others. This is what layers with 64 features and 4 heads take,
# so $d_k$ is 16:
#
# ![A layer of attention, and the three forms of linear
# attention.](table:performance.linear_attention)

# ## The trained model
#
# Two layers of four memories, with 96 features, were trained on Shakespeare for about
# two minutes of one CPU core. The loss is 1.76 nats per character, on the part of the
# text that was held back. An [LSTM](../lstm/__init__.py) with as many parameters has
# 1.70 after as many updates, 1,250.
#
# Why does a matrix not do better than a vector? Let us look at the weights that it
# stands for. How much does the character just before get? A head of the
# [Transformer](../transformers/mha.py) gives it 65 % on average, and here no head more
# than 5 %. (In a text of 89 characters, equal weights, $1/t$ for each of $t$
# characters, would give it 3 %, on average from the sixth character on.) The softmax
# can single out one character, because $\exp$ turns a small lead into a large one.
# Without it, weights differ much only if keys are nearly orthogonal. On this text the
# model did not learn such keys. Its weights stay nearly equal, and what is found is
# close to a mean of all that was read.
#
# So this model finds the last few characters through its convolution. If only the keys
# go through one, the loss after 250 updates is 2.30, and 2.04 if all three do. In
# [recall](../experiments/memory.py) each key has a value of its own, and there the
# memory itself is needed.

# ## The task with the book
#
# A book has 1 to 32 of 64 names, each with a random digit. Then one of these names
# comes with a question mark. A token is the sum of two embeddings, of its name and of
# its digit or question mark. The networks have 16 features, a layer that reads the
# book, the sum of what it returns at the last token and of that token, and a
# feed-forward network with 128 features to ten digits. The layers are one head of
# attention, one head of linear attention without its convolution (a token has its own
# name and digit), and an LSTM of 136 cells with a projection back to 16 features. Each
# is trained for 800 updates on 64 new books, by AdamW with a learning rate of 0.003.
# The books of an update have the same number of pairs. A run takes 4 to 15 seconds of
# CPU time. All models and seeds are tested on the same 1,000 books of each length. With
# another training the LSTM may find more.

# ## Common mistakes
#
# * **Good loss, bad text.** `tril` is missing in the table, so that a token reads what
#   is written later. To find this, change a token. No *earlier* output may change.
# * **NaN or huge numbers.** Queries or keys are not positive, and the sum of the
#   weights comes close to 0. Check that both go through the feature map.
# * **Recall stays at chance.** The keys come from the token itself. Without the short
#   convolution and without positions, nothing says which token stands before another.
# * **Two calls do not give what one gives.** What the convolution has to remember was
#   not passed on. The state has two parts.
# * **Long texts go wrong in half precision.** A sum in bfloat16 stops growing when a
#   new pair is 256 times smaller than it. Keep the memory in float32.

# ## Differences from the papers
#
# <details><summary>Convolution, normaliser, feature maps, kernels</summary>
#
# * **Convolution.** Katharopoulos et al. ([-@katharopoulos2020transformers]) have none,
#   and add positions to the embeddings. Short convolutions came later
#   ([@fu2022hungry]).
# * **Projections** of queries, keys and values have no bias here.
# * **The order** of writing and reading, the feature map, and the division by the sum
#   of the weights are those of the paper (§3.4, eq. 18 to 20). Its code also adds
#   $10^{-6}$ to the divisor.
# * **Gradients.** The authors wrote a kernel that computes them by a second loop, with
#   memory for one $S$. Here PyTorch keeps one memory for each chunk.
# * **Other feature maps.** Schlag et al. ([-@schlag2021linear]) multiply pairs of
#   features, so that more keys are orthogonal, and also replace values: this is the
#   [fast weights Transformer](../transformers/fast_weights/__init__.py). Many later
#   models leave out $\phi$ and the division, and normalise what is found instead.
#
# </details>

# ## Exercises
#
# **1.** Write pairs with orthogonal keys into a memory of 8 rows, one after the other.
# All are found exactly, up to how many? Then write one more.
#
# <details><summary>Answer</summary>
#
# Eight. The rows of an orthogonal matrix are such keys. A ninth key has a part in the
# direction of at least one of them.
#
# ```python
# import torch
#
# torch.manual_seed(0)
# keys, _ = torch.linalg.qr(torch.randn(8, 8))  # eight orthogonal rows
# values = torch.randn(8, 3)
# memory = keys.T @ values
# torch.testing.assert_close(keys @ memory, values)
#
# ninth = torch.nn.functional.normalize(torch.randn(8), dim=0)
# memory = memory + torch.outer(ninth, torch.randn(3))
# wrong = (keys @ memory - values).abs().amax(dim=1)
# print(wrong)
# assert wrong.max() > 0.1
# ```
#
# </details>
#
# **2.** Generate with a state. Let the layer read 9 tokens, and then a tenth with the
# state. How do you check the result? How many numbers does the state have?
#
# <details><summary>Answer</summary>
#
# The tenth output has to equal the one that you get from all ten tokens at once. The
# memory has $H \cdot d_k (d_k + 1)$ numbers. The convolution keeps three queries, keys
# and values.
#
# ```python
# import torch
# from labml_nn.recurrent.linear_attention import LinearAttention
#
# layer, x = LinearAttention(d_model=64, heads=4), torch.randn(10, 2, 64)
# first, state = layer(x[:9])
# tenth, state = layer(x[9:], state)
# whole, _ = layer(x)
# torch.testing.assert_close(tenth, whole[9:])
# assert state.memory[0].numel() == 4 * 16 * 17
# assert state.recent[:, 0].numel() == 3 * 3 * 64
# ```
#
# </details>
#
# **3.** A key is written twice, with two values. What does the layer find, with the
# division and without? And what if the second value is written ten times?
#
# <details><summary>Answer</summary>
#
# With the division it is the mean of the two, and without their sum. After ten times
# the mean is close to the second value: the memory can outvote an old value, but it
# cannot replace one.
#
# ```python
# import torch
# from labml_nn.recurrent.linear_attention import linear_attention_loop
#
# def find(values):
#     key = torch.tensor([6.0, 0.0]).expand(len(values), 1, 1, 2)
#     values = torch.tensor(values).view(-1, 1, 1, 1)
#     values = torch.cat([values, torch.ones_like(values)], dim=-1)
#     found, _ = linear_attention_loop(key, key, values, torch.zeros(1, 1, 2, 2))
#     total, weights = found[-1].flatten()
#     return (total / weights).item(), (total / 36).item()
#
# print(find([3.0, 1.0]))  # mean and sum
# assert find([3.0, 1.0]) == (2.0, 4.0)
# assert abs(find([3.0] + [1.0] * 10)[0] - 13 / 11) < 1e-6
# ```
#
# </details>
#
# **4.** Leave out the causal mask and write *all* pairs before you read. Which form
# becomes simpler, and for which model is this right?
#
# <details><summary>Answer</summary>
#
# The loop and the chunks become two products, $S = K^\top V$ and $Y = Q S$. This is
# right for an encoder, where each token may see all others.
#
# ```python
# import torch
# from labml_nn.recurrent.linear_attention import feature_map
#
# torch.manual_seed(0)
# q, k, v = torch.randn(3, 20, 8)
# q, k = feature_map(q), feature_map(k)
# weights = q @ k.T
# table = (weights / weights.sum(1, keepdim=True)) @ v
# fast = (q @ (k.T @ v)) / (q @ k.sum(0))[:, None]
# torch.testing.assert_close(table, fast)
# ```
#
# </details>
