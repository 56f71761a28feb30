r"""
---
title: Linear attention and fast weights
summary: >
  Attention without its softmax is a recurrent network whose state is a matrix. It
  remembers by adding pairs of a key and a value, and recalls with one product.
paper: https://arxiv.org/abs/2006.16236
notebook: notebooks/linear_attention.ipynb
compare: labml_nn.transformers.mha(MultiHeadAttention.attend=linear_attention_table)
---

*Ann has 3 apples and 1 pear. Ben has 2 apples and 4 pears.* What does Ann have? To
answer, you look up *Ann*. [Attention](../transformers/mha.py) does the same. It stores
a key and a value for each token that it has read, compares a query with all the keys,
and collects the values of those that match. Nothing is lost. But the list grows with
every token, and each new token is compared with the whole list. After ten thousand
tokens it holds ten thousand keys and ten thousand values.

Can we look something up without such a list? An [LSTM](../lstm/__init__.py) has a state
of fixed size. But its cells are counters, and you cannot ask them for Ann. Let us build
a memory of fixed size in which you can look things up.

## A memory by hand

Give each of the two a **key**, a vector of two numbers: (1, 0) for Ann and (0, 1) for
Ben. Their **values** are what they have, apples and pears. Now write both into a table:

| | apples | pears |
|:--|--:|--:|
| Ann | 3 | 1 |
| Ben | 2 | 4 |

This table is the whole memory, a matrix $S$ of 2 × 2 numbers. How did we **write** it?
We began with zeros, and added a matrix for each of the two. What a pair adds is the
**outer product** of its key and its value: each number of the key times each number of
the value.

$$S = \begin{pmatrix} 1 \\ 0 \end{pmatrix} \begin{pmatrix} 3 & 1 \end{pmatrix}
    + \begin{pmatrix} 0 \\ 1 \end{pmatrix} \begin{pmatrix} 2 & 4 \end{pmatrix}
    = \begin{pmatrix} 3 & 1 \\ 0 & 0 \end{pmatrix}
    + \begin{pmatrix} 0 & 0 \\ 2 & 4 \end{pmatrix}
    = \begin{pmatrix} 3 & 1 \\ 2 & 4 \end{pmatrix}$$

To **read**, multiply a query by the matrix. The query (1, 0) asks for Ann, and
$1 \cdot (3, 1) + 0 \cdot (2, 4) = (3, 1)$. That is exactly what she has.

**A third pair.** Cleo has 5 apples and no pears. There is no third row for her. But a
key need not select a row. Any direction will do, so let her key be (0.6, 0.8), which
has length 1 like the other two. Her outer product is added as well:

$$\begin{pmatrix} 3 & 1 \\ 2 & 4 \end{pmatrix}
    + \begin{pmatrix} 0.6 \\ 0.8 \end{pmatrix} \begin{pmatrix} 5 & 0 \end{pmatrix}
    = \begin{pmatrix} 6 & 1 \\ 6 & 4 \end{pmatrix}$$

Now ask for all three:

| asked for | query | found | right |
|:--|:--|:--|:--|
| Ann | (1, 0) | (6, 1) | (3, 1) |
| Ben | (0, 1) | (6, 4) | (2, 4) |
| Cleo | (0.6, 0.8) | (8.4, 3.8) | (5, 0) |

All three answers are wrong. Ann has 3 apples too many. Where do they come from? The dot
product of her query with the key of Cleo is $1 \cdot 0.6 + 0 \cdot 0.8 = 0.6$, and
$0.6 \cdot (5, 0) = (3, 0)$. So the memory returns *all* values, and each of them counts
as much as its key agrees with the query. Try it for Cleo:
$1 \cdot (5, 0) + 0.6 \cdot (3, 1) + 0.8 \cdot (2, 4) = (8.4, 3.8)$.

Ann and Ben did not disturb each other, because their keys are **orthogonal**. They
stand at a right angle, and their dot product is 0. This is what limits the memory. In a
plane there are not more than two directions at right angles, and among vectors of $d_k$
numbers not more than $d_k$. So a memory whose keys have $d_k$ numbers can keep at most
$d_k$ pairs exactly apart. If you ask with the key itself, the keys must be orthogonal.
Other keys mix, a little or much. (With other queries it is enough that the keys are
linearly independent. For example, (1, −0.75) finds exactly what stands under (1, 0) and
nothing of (0.6, 0.8), and (0, 1.25) the other way round.)

## This is attention

We have just found what a read returns. Let us write it down for any number of pairs.
Call their keys $k_s$, their values $v_s$, and the query $q$. All of them are rows, and
$k_s^\top$ is a key as a column. Each sum runs over all pairs that were written:

$$q \, S \;=\; q \sum_s k_s^\top v_s \;=\; \sum_s (q \cdot k_s) \, v_s$$

Look at the right side first. It compares the query with each key by a dot product, and
adds up the values with these weights. This is attention. Only the softmax is missing.
Now look at the left side. It needs no list of keys and values, because the matrix $S$
is all that it needs. We have only moved a pair of brackets, from $(q \, k_s^\top) \,
v_s$ to $q \, (k_s^\top v_s)$, and the list has become a matrix of fixed size. With a
softmax this fails. Brackets can be moved only between products, and in $\exp(q \cdot
k_s)$ the exp stands around the product. Could it be the dot product of longer vectors?
Each term of $\exp(x) = 1 + x + \tfrac12 x^2 + \dots$ would need numbers of its own, and
the terms never end.

So we can compute the same in two ways. One is a table of scores, one for each query and
each key up to it, as in attention with a causal mask. The other is a loop. For each
token $t$ it writes a pair, and then it reads:

$$S_t = S_{t-1} + k_t^\top v_t, \qquad y_t = q_t \, S_t$$

This is a recurrent network whose state is a matrix ([@katharopoulos2020transformers]).
A layer has several heads, and each has such a matrix of its own.

Why not compute all $S_t$ at once, as a running sum of the outer products? PyTorch has
`cumsum`. But this would store $T$ matrices for a text of $T$ tokens, and the gain was
that one is enough. The table is for short texts, [chunks](#linear_attention_chunks) are
for training, and the loop is for generation, one token after the other.

![The loop. The outer product of a key and a value is added to the memory, and the
product with a query reads from it.](figure:linear_attention.diagram)

```python
import torch

q = k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])  # Ann, Ben, Cleo
v = torch.tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0]])

memory = torch.zeros(2, 2)
for k_t, v_t in zip(k, v):
    memory = memory + torch.outer(k_t, v_t)
print(q @ memory)  # what is found for Ann, Ben and Cleo, after all are written
torch.testing.assert_close(q @ memory, (q @ k.T) @ v)
```

**Why "fast weights"?** $y = q \, S$ is also what a linear layer computes, whose weights
are $S$. The weights of a layer change slowly, in training. But these change while the
network reads, with every token. So the projections that make $q$, $k$ and $v$ are the
**slow weights**, and $S$, which the sequence writes, are the **fast weights**. The idea
of a network that writes the weights of another one is more than thirty years old
([@schmidhuber1992learning]), and linear attention is one ([@schlag2021linear]).

## The average

If we get along without a softmax, why does attention have one? It turns the scores into
weights that are positive and sum to one. So what attention returns is an average of
values, which is as large as a value, however long the text is. Our sums grow with every
pair. Cleo got 8.4 apples, more than anybody has.

**Divide by the sum of the weights.** For Ann the weights are 1, 0 and 0.6, so we divide
(6, 1) by 1.6 and get (3.75, 0.625). This is still wrong, because Cleo's key is so near.
But it lies between what she has and what Cleo has. Where do we get the sum of the
weights from? It is what the same read would return if all values were 1. So each value
gets one more number, a 1, and $S$ one more column. We call this column $z$. It is the
sum of all keys.

**Make the weights positive.** A dot product can be negative or zero, and a division by
such a sum makes no sense. But if all numbers of queries and keys are positive, so are
their products. So each of them goes through a function first, the **feature map**
$\phi$. The paper takes $\phi(x) = \operatorname{elu}(x) + 1$, which is $x + 1$ if $x$
is positive, and $e^x$ if not. In one formula:

\begin{align}
S_t &= S_{t-1} + \phi(k_t)^\top v_t \\
z_t &= z_{t-1} + \phi(k_t) \\
y_t &= \frac{\phi(q_t) \, S_t}{\phi(q_t) \cdot z_t}
\end{align}

Can positive keys be orthogonal? Nearly. Where one of them is large, the other must be
close to 0, and $\phi$ makes that of negative numbers. For example, $\phi(5, -5) = (6,
0.007)$ and $\phi(-5, 5) = (0.007, 6)$. The product of each with itself is 36, and with
the other one 0.08. With these as the keys of Ann and Ben, and without Cleo, Ann gets
(2.998, 1.007), which is nearly right. The network can learn such keys.

## Which key belongs to which value?

Read `Ann 3 Ben 2`, token by token. The value 3 must be written together with the key of
*Ann*. But when the network reads *3*, it has the vector of *3* in its hand, and *Ann*
is the token **before**. So the key must not come from the token itself. It must come
from its neighbour.

A **short convolution** repairs this. It makes a key out of the keys of the last four
tokens, as a weighted sum, and the network learns the weights. The last weight belongs
to the token itself. So 0, 0, 1 and 0 take the key of the token before, and 0, 0, 0 and
1 change nothing. That is right for the query, because when *Ann* is asked, *Ann* is the
current token. (At *Ben* a pair is written, too: the value of *Ben* under the key of
*3*. It does no harm if that key is orthogonal to those of the names.)

## Training

Two layers of four memories, with 96 features, were trained on Shakespeare for about two
minutes of one CPU core. The model writes like this:

> First Shall well. Who gold desurcy, Shall I she is you will resent me the let's stook
> lifess seek.

Its loss is 1.76 nats per character, on the part of the text that was held back. An
[LSTM](../lstm/__init__.py) with as many parameters has 1.70 after as many updates,
1,250. Why does a matrix not do better than a vector? Let us look at the weights that it
stands for. How much does the character just before get? A head of the
[Transformer](../transformers/mha.py) gives it 65 % on average, and here no head more
than 5 %. (In a text of 89 characters, equal weights, $1/t$ for each of $t$ characters,
would give it 3 %, on average from the sixth character on.) The softmax can single out
one character, because $\exp$ turns a small lead into a large one. Without it, weights
differ much only if keys are nearly orthogonal. On this text the model did not learn
such keys. Its weights stay nearly equal, and what is found is close to a mean of all
that was read.

So this model finds the last few characters through its convolution. If only the keys go
through one, the loss after 250 updates is 2.30, and 2.04 if all three do. In
[recall](../experiments/memory.py) each key has a value of its own, and there the memory
itself is needed.

## Try it

The trained model runs in this page. Type, and watch the memory of a head fill up.

![The memory of a head after the name, and after a few more words.](figure:live.matrix)

## What it gains, and what it costs

A new token costs the same after ten tokens and after ten thousand. If a value has $d_v$
numbers, a head writes $d_k \cdot d_v$ of them and reads as many, and the state stays as
large as it is. A whole text costs $T$ times that, and not $T^2$. In training, nothing
has to wait: with [chunks](#linear_attention_chunks), most of the work is a few products
of matrices.

The price: in each head at most $d_k$ pairs are found exactly, while attention has room
for all. How bad is it to write more? In the figure, keys are random and of length 1. A
value is one of 64 words, written as a 1 among 63 zeros. What you read is disturbed, but
if the largest number still stands in the right place, the word is found. So a memory
holds more than $d_k$ pairs if a few mistakes do no harm:

![The share of values that are found, by the number of pairs, for keys of 4, 8, 16 and
32 numbers.](figure:linear_attention.capacity)

And nothing in it is ever replaced. Take Ann and Ben alone, with the keys (1, 0) and (0,
1). Suppose that Ann eats two apples, and has (1, 1). We write this with her key, and
ask for her. The sum is (3, 1) + (1, 1) = (4, 2), and the average is (2, 1). Neither is
(1, 1). To replace a value, we would have to take out the old one first. That is the
[delta rule](delta_net.py), the next lesson.

<details><summary>Symbols, their code and shapes</summary>

In the shapes, T is the number of tokens and B that of sequences side by side. A token
has C features. There are H heads, with keys of D numbers and values of Dv.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | what the layer reads |
| $q$, $k$ | `q`, `k` | `[T, B, H, D]` | queries and keys, after the feature map |
| $v$ | `v` | `[T, B, H, Dv]` | values, with a 1 at the end |
| $S$ | `memory` | `[B, H, D, Dv]` | the memory, with $z$ as its last column |
| $y$ | `y`, `found` | `[T, B, H, Dv]` | what the queries find |
| $\phi$ | `feature_map` | | makes numbers positive |
| $w$ | `conv.weight` | `[3C, 1, W]` | weights of the short convolution |

</details>
"""

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

    The same as attention: $Y = \operatorname{tril}(Q K^\top) \, V$. Nothing waits for
    anything, but the table has $T^2$ numbers.
    """
    # Each query meets each key, and `d`, which is missing behind the arrow, is summed
    # over. `tril` keeps the lower triangle, diagonal included: a token reads what was
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
# ![Which pairs of a query and a key meet directly, and which by way of the
# memory.](figure:linear_attention.forms)
#
# So the loop is for a single token, as in generation. The table is for short texts, and
# the chunks are for all others. This is what layers with 64 features and 4 heads take,
# so $d_k$ is 16:
#
# ![A layer of attention, and the three forms of linear
# attention.](table:performance.linear_attention)

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
