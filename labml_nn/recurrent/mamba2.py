r"""
---
title: Mamba-2 (state-space duality)
summary: >
  A recurrent network that decides from its input how long it remembers. The same
  numbers come out of a loop, or of a table as in attention without a softmax.
paper: https://arxiv.org/abs/2405.21060
notebook: notebooks/mamba2.ipynb
tones: {query: 3, key: 1, value: 2, state: 5, q: 3, k: 1, v: 2, h: 5, delta: 0}
---

*Your train leaves from platform 7. Er, well, so … sorry, from platform 9. Er …* Where
do you go? To platform 9. You kept the 7 in mind while somebody said *er*, and when the
9 came, you let the 7 go. The words themselves told you how long to remember.

![What you have in mind after each word.](figure:mamba2.station)

The memory of [linear attention](linear_attention.py) adds whatever it reads. That of
[DeltaNet](delta_net.py) replaces what one key finds, and all the rest stays. Can we
build one that fades, as fast as each word decides?

![Left: all words stay. Right: Ann eats two apples, and only her row
changes.](figure:mamba2.others)

## A bucket with a hole

Let us begin with a single number, $h$, the **state** (hence the name *state space
models*). It is the water in a bucket. Above is a tap, and below a drain. One handle
opens both, and each word opens it for a time, $\Delta$ (*delta*).

![The handle opens both valves.](figure:mamba2.apparatus)

**The old water runs out.** Our bucket loses the same *share* of its water in each
second: if a half is left after one second, a quarter is left after two. So the share
that is left after $\Delta$ seconds is a power, $e^{\Delta A}$. The number $A$ is
negative and says how wide the drain is: $e^{-0.69}$ is a half. We choose $A = -3$.
After one second, $e^{-3} = 0.05$ of the water is left.

**The new water runs in.** How much? The time $\Delta$ multiplied by the strength of the
stream, $s$. The strength depends on the word: 7 for the *7*, 9 for the *9*, and 1 for a
word such as *er*. For example, let 7 be in the bucket, and let *er* open the handle for
one second. In one formula:

$$h \leftarrow e^{\Delta A} \, h + \Delta \, s$$

![One step by hand. (That the old runs out first is a
[simplification](#differences-from-the-paper).)](figure:mamba2.bucket)

With a large $\Delta$ the old water runs out, and the new has time to run in. With a
small $\Delta$ hardly anything happens.

![The same Δ, for the old water and for the new, with $A = -3$.](figure:mamba2.handle)

**The same time for all words?** Let each take 1 second. Then a single *er* washes the 7
away. Now let each take 0.1 seconds, so that 0.74 of the water is left. But now the old
water stays, too. When the *9* has come, there is 1.28 in the bucket, and 0.38 of it is
still from before. Neither will do.

![Pink: water from before. Green, on top of it: the water of this
word.](figure:mamba2.constant)

**Let each word choose its time.** A number shall open the handle for 1 second, and any
other word for 0.01. Go through the sentence, then turn the handle yourself.

1. The *7* opens the handle for 1 second. The bucket was empty, and 1 · 7 = 7 runs in.

2. *Er* opens it for 0.01 seconds, leaves 0.97 of the water, and adds 0.01. After *er*,
   *well* and *so* there is 6.43 in the bucket, and 6.40 of it is of the 7.

3. The *9* opens it for 1 second. That leaves 0.05 of the 6.43, which is 0.32, and adds
   9. Nearly all of the 7 is gone.

4. The last *er* changes little. The 9 stays.

![A bar across a pipe means closed, along it open.](figure:mamba2.tap)

This is the idea of Mamba ([@gu2023mamba]): **the model computes $\Delta$ from the
word**. It takes a weighted sum of the numbers in the word's vector, $x$, with weights
$w$ that are learned. Because the memory now selects what it keeps, it is called
*selective*.

**Two signs must be right.** A time is positive, but a sum may be negative. So the
*softplus*, $\log(1 + e^{\dots})$, makes the sum positive, to which a learned bias $b$
was added (`dt_bias` in the code). And $A$ must be negative, or the water would grow. So
$A$ is minus a power of $e$, with a learned $a$ (`A_log`):

$$\Delta = \log(1 + e^{w \cdot x + b}), \qquad A = -e^a$$

![The sums (with $b$) that give our two times, and the $a$ that gives our
$A$.](figure:mamba2.positive)

## A line by hand

One number cannot hold much. So we take the memory of linear attention, a matrix, and
let it leak. Each step has a **key**, which says where to write, and a **value**, which
says what:

*Ann has 3 apples and 1 pear. A night passes. Ben has 2 apples and 4 pears.*

The key of Ann is (1, 0), so she gets the first row of the matrix. That of Ben is (0,
1), and he gets the second. The columns are apples and pears. The night writes nothing,
so its key and its value are zeros. But it takes long. A large $\Delta$ with something
to write means *replace*: the old is gone, and $\Delta$ times the value is there. With
nothing to write it means *forget*. (Here we choose these numbers, and a narrow drain,
$A = -0.1$.)

![Key, value and time of the three steps.](figure:mamba2.pairs)

Each step does what the bucket did. First multiply the whole matrix by the share that is
left, $e^{\Delta A}$. For the night that is $e^{-0.1 \cdot 30} = 0.05$, and little is
left of Ann. Then add $\Delta$ times the **outer product** of key and value. It has each
number of the key times each number of the value.

![Each column is a step: the old matrix (at first zeros), what is written, the new
matrix.](figure:mamba2.leaking)

To read, multiply a **query** by the matrix. The query for Ann is her key, (1, 0), and
it finds the first row.

![Asking for Ann after step 3.](figure:mamba2.reading)

**In one formula.** Key, value and query of step $t$ are the rows $k_t$, $v_t$ and
$q_t$. $k_t^\top$ is the key as a column, and $\Delta_t$ and $A$ are single numbers:

$$h_t = e^{\Delta_t A} \, h_{t-1} + \Delta_t \, k_t^\top v_t, \qquad
  y_t = q_t \, h_t$$

![The matrix goes from step to step. Above it, what the query for Ann
finds.](figure:mamba2.loop)

A layer has several such memories side by side, its **heads**. Each has its own $A$, so
that some forget fast and others slowly.

![Three heads with the same Δ.](figure:mamba2.heads)

## The same from a table

What does step 3 find for Ann? Her value has passed the night, which left 0.05, and then
Ben's step, which left 0.90. So 0.05 · 0.90 = 0.045 of it is left.

![Each step on the way takes its share.](figure:mamba2.path)

Write what is left as a table, $L$. A row stands for a step that reads, and a column for
a step that wrote. On the diagonal is a 1: what a step writes, it can read at once.
Above it is nothing, because nobody reads what is not yet written.

A value also counts only as much as its key agrees with the query. That is their dot
product, $q \cdot k$, a number for each cell. Here all three steps ask for Ann. So it is
1 in the column of Ann, and 0 in the others. Multiply each cell of $L$ by it. Then take
the last row, multiply it by what was written, $\Delta v$, and add up. This is what the
loop had found.

![Left: $L$. Right: weights, if each step asks for Ann.](figure:mamba2.table)

In letters, $L_{ts}$ is row $t$ and column $s$ of $L$.

$$y_t = \sum_{s \le t} L_{ts} \, (q_t \cdot k_s) \, \Delta_s v_s$$

$$L_{ts} = e^{(\Delta_{s+1} + \dots + \Delta_t) \, A}$$

For Ann's 0.045 that is $e^{(30 + 1) \cdot (-0.1)}$. (To multiply powers of $e$, add
their exponents. What is written fades only in later steps, so they begin at $s + 1$.)

Such a table is a **fading triangle**. Here are three for the words at the station. If
$A = 0$, nothing fades. Then $L$ is the causal mask of attention, and the model is
linear attention of the values $\Delta v$. With one $\Delta$ for all words, only the
distance counts. If each word chooses, the 9 closes a chapter: hardly anything from
before it is found any more.

![The stronger the colour, the more is left. Red: from before the
9.](figure:mamba2.triangles)

The dot products of all queries and keys are those of
[attention](../transformers/mha.py). So the same model is a recurrent network, *and*
attention without a softmax, whose weights are $(q \cdot k)$ times $L$. The paper calls
this **state-space duality** ([@dao2024transformers], §5). The loop waits at each step,
but its work grows only with the length. The table waits for nothing, and its work grows
with the square.

![The same numbers from a loop and from a table.](figure:mamba2.two_ways)

We can have both. Cut the text into **chunks**, compute a table inside each of them, and
hand the matrix $h$ from one chunk to the next. It is enough, because all that a later
query finds of the past stands in $h$, and [fades as one](#from-mamba-to-mamba-2). In
training, when all tokens are there, we take chunks, and in generation the loop.

![A table for each chunk. Pink: what it reads from the matrix of the chunk
before.](figure:mamba2.chunks)

## When Δ decides

A small model reads digits from 1 to 8, and between them noise. After each token it must
say which digit came last. So it has to drop an old digit at once, and to keep the last
one over long noise.

![Two texts, and the right answers. A dot is noise.](figure:mamba2.noise)

We train it on texts of 64 tokens. In the test it hears eight digits, then noise, and we
count right answers. If $\Delta$ comes from the word, all five runs are right in all
1,000 tests, up to 64 tokens of noise. If each head has only one $\Delta$ for all words,
the first noise already costs a fifth of the answers or more. Without decay, $A = 0$, it
costs two thirds.

![Dashed line: the length of the texts in training. In longer noise the blue runs
forget, too: even of 0.99 only $0.99^{512} = 0.006$ is left. [How it was
measured](#the-task-with-noise).](figure:mamba2.by_gap)

At noise, 18 of the 20 heads keep 0.92 or more of their memory. And at a digit, one head
in each run keeps 0.02 or less. One is enough.

![Each dot is one of four heads, in a run with Δ from the word.](figure:mamba2.learned)

## The layer

Around the memory, Mamba-2 has a few more parts.

* A *short convolution* mixes into each token the three before it. In *platform 7*, the
  key can come from *platform*, and the value from *7*.
* A *skip* leads a share $D$ of the value around the memory, so that a token knows
  itself.
* A *gate*, computed from the token alone, decides how much is shown.
* A *norm* brings sums over many steps to a usual size.

![From below. SiLU is an activation function, $z \cdot \sigma(z)$, with the sigmoid
σ.](figure:mamba2.mixer)

## Gains and price

The memory has a fixed size, and a new token costs the same after ten words or ten
thousand. But the decay is blind. When Ben is written, *all* rows of a head fade, also
that of Ann. A [Gated DeltaNet](gated_delta_net.py) can do both, fade and replace one
row. And a decay lies between 0 and 1, so it never changes a sign. A layer cannot keep a
state that flips at each 1 that it reads ([exercise 4](#exercises)).

![Left: with $A = -0.1$ and Δ = 1. Right: what Mamba-2 cannot do, as no decay is
−1.](figure:mamba2.limits)

## The whole in code

The lines follow the picture of the layer from below.

* `in_proj` makes everything at once, and `split` cuts it. All heads share key and
  query.
* `delta` and `kept` are $\Delta$ and $e^{\Delta A}$.
* In the loop stands the formula, with the key as a column.

The module below computes the same, in chunks.

```python
import torch
from torch import nn
from torch.nn import functional as F


class Mamba2(nn.Module):
    def __init__(self, d_model, heads, d_k, d_v):
        super().__init__()
        n, vkq = heads * d_v, heads * d_v + 2 * d_k
        self.parts, self.widths = [n, vkq, heads], [n, d_k, d_k]
        self.in_proj = nn.Linear(d_model, n + vkq + heads, bias=False)
        self.conv1d = nn.Conv1d(vkq, vkq, 4, padding=3, groups=vkq)
        self.dt_bias, self.A_log, self.D = map(nn.Parameter, torch.rand(3, heads))
        self.norm, self.out_proj = nn.RMSNorm(n, 1e-5), nn.Linear(n, d_model, False)

    def forward(self, x):  # one text, [T, C]
        gate, vkq, delta = self.in_proj(x).split(self.parts, -1)
        v, k, q = F.silu(self.conv1d(vkq.T)[:, : len(x)].T).split(self.widths, -1)
        v, h, y = v.unflatten(-1, (len(self.D), -1)), 0.0, []  # v: [T, H, Dv]
        delta = F.softplus(delta + self.dt_bias)[..., None, None]  # [T, H, 1, 1]
        kept = torch.exp(-self.A_log.exp()[:, None, None] * delta)  # e^(ΔA)
        for t in range(len(x)):
            h = kept[t] * h + delta[t] * k[t, :, None] * v[t, :, None]  # leak, write
            y.append(q[t] @ h)  # read: [H, Dv]
        y = torch.stack(y) + self.D[:, None] * v  # skip
        return self.out_proj(self.norm(y.flatten(1) * F.silu(gate)))


print(Mamba2(d_model=8, heads=2, d_k=3, d_v=4)(torch.randn(5, 8)).shape)  # [5, 8]
```

## Try it

A model of two layers was trained on Shakespeare for three minutes. One of its heads
keeps 28 % at punctuation, and 68 % elsewhere. Another keeps 60 % at the end of a line,
and 89 % elsewhere. Watch them read what you type:

![What two heads keep at each character. Dark: all of it.](figure:live.decays)"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_attention, check_bool, check_divisible, check_sizes
from labml_nn.language_model import at_least_single
from labml_nn.recurrent.language_model import RecurrentConfig, RecurrentLanguageModel

__all__ = [
    "Mamba2",
    "Mamba2Config",
    "Mamba2LanguageModel",
    "Mamba2State",
    "ShortConvolution",
    "ssd_chunks",
    "ssd_loop",
    "ssd_table",
]


def ssd_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    log_decay: Float[Tensor, "T B H"],
    h: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The loop

    We begin with the form of the example: leak, write, read. `SSD` is short for
    state-space duality.

    * `q`, `k`: queries and keys, `[T, B, H, D]`
    * `v`: what is written, $\Delta_t v_t$, `[T, B, H, Dv]`
    * `log_decay`: $\Delta_t A$, the logarithm of what a step keeps, `[T, B, H]`
    * `h`: the matrix of each head before the first step, `[B, H, D, Dv]`

    Returns what each query found, `[T, B, H, Dv]`, and the matrices after the last
    step.
    """
    found = []
    for q_t, k_t, v_t, log_decay_t in zip(q, k, v, log_decay, strict=True):
        # **Leak**: all numbers of a head are multiplied by the same number from 0 to 1.
        # For the night of the example it is $e^{30 \cdot (-0.1)} = 0.05$.
        h = log_decay_t.exp()[..., None, None] * h

        # **Write**: add the outer product of key and value, for Ben (0, 1) and (2, 4).
        h = h + k_t[..., :, None] * v_t[..., None, :]

        # **Read**: the query times the matrix. It reads after the writing, so a step
        # also finds its own value.
        found.append((q_t[..., None, :] @ h)[..., 0, :])
    return torch.stack(found), h


def ssd_table(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    log_decay: Float[Tensor, "T B H"],
    h: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The table

    Takes and returns the same as the loop, but without a loop: $Y = (L \odot Q K^\top)
    \, V$. Here $\odot$ multiplies two tables cell by cell, and the rows of $V$ are
    $\Delta_t v_t$.
    """
    # How much of what step $s$ wrote is left at step $t$? For that we need the sum of
    # $\Delta A$ over the steps *after* $s$, up to $t$. `past` says where $t > s$, and
    # `cumsum(0)` adds from top to bottom in each column. Then $e$ to these sums is $L$.
    # Above the diagonal the sums are 0 and would give 1, so `causal` puts zeros there.
    # A step that forgets all has the logarithm $-\infty$. It is selected by `where`,
    # because $0 \cdot (-\infty)$ is no number.
    #
    # One running sum of $\Delta A$ would need less work: take its value at $t$, minus
    # that at $s$. But 32 bits have about seven digits. After a night of −3000, a step
    # of −0.1 comes out as −0.1001 or −0.0999. So each column is added up by itself.
    causal = log_decay.new_ones(len(q), len(q)).tril()
    past = causal.tril(-1).bool()[..., None, None]
    log_table = torch.where(past, log_decay[:, None], 0.0).cumsum(0)
    decay = causal[..., None, None] * log_table.exp()

    # Each query meets each key, as in attention. The mask $L$ takes the place of the
    # softmax. These weights do not sum to 1, and they may be negative.
    scores = decay * torch.einsum("tbhd,sbhd->tsbh", q, k)
    y = torch.einsum("tsbh,sbhe->tbhe", scores, v)

    # What was written before the first step has faded in all steps up to this one. Each
    # query finds the rest of it in $h$.
    left = log_decay.cumsum(0).exp()[..., None]
    y = y + left * torch.einsum("tbhd,bhde->tbhe", q, h)

    # The matrix after the last step: what is left of the old one, and what is left of
    # each pair. That is the last row of the table $L$.
    v = decay[-1, ..., None] * v
    h = left[-1, ..., None] * h + torch.einsum("sbhd,sbhe->bhde", k, v)
    return y, h


def ssd_chunks(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    log_decay: Float[Tensor, "T B H"],
    h: Float[Tensor, "B H D Dv"],
    chunk: int = 32,
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    """
    ## Chunks

    Both at once. Inside a chunk of 32 tokens a table is cheap, because it is small.
    What lies before the chunk is in $h$. So the work grows with $T$ and not with $T^2$,
    and only one step in 32 has to wait ([@dao2024transformers, §6]).

    The paper computes the tables of all chunks at the same time, and then hands the
    matrices on. On a large GPU this is faster ([exercise 3](#exercises)).
    """
    found = []
    for t in range(0, len(q), chunk):
        now = slice(t, t + chunk)
        y, h = ssd_table(q[now], k[now], v[now], log_decay[now], h)
        found.append(y)
    return torch.cat(found), h


class ShortConvolution(nn.Module):
    r"""
    ## Short convolution

    *Platform* comes before its number, and so does a key often come before its value.
    To be written as a pair, both must come together. So each feature becomes a weighted
    sum of that feature at the last $W$ tokens, with weights of its own, and a bias:

    $$y_{t,f} = b_f + \sum_{j=0}^{W-1} w_{f,j} \; x_{t-(W-1)+j,\,f}$$

    The weights are learned. With $W = 4$ and the weights 0, 0, 1 and 0 it is the
    feature of the token before.
    """

    def __init__(self, features: int, width: int = 4) -> None:
        """
        * `features`: features of a position, $F$
        * `width`: positions that a sum covers, $W$
        """
        super().__init__()
        check_sizes(features=features, width=width)
        self.features, self.width = features, width
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(features, 1, width))
        nn.init.uniform_(self.weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(features))

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
        y = y + self.bias

        # Behind the last token there may be padding, which is not remembered.
        if mask is None:
            return y, padded[len(x) :].clone()
        last = mask.sum(0) + torch.arange(self.width - 1, device=x.device)[:, None]
        return y, padded.gather(0, last[..., None].expand(-1, -1, self.features))


class Mamba2State(NamedTuple):
    """
    ## State

    * `h`: the matrix of each head, `[B, H, D, Dv]`
    * `recent`: the last inputs of the convolution, `[W-1, B, F]`
    """

    h: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B F"]


class Mamba2(nn.Module):
    r"""
    ## The mixer

    The layer of the drawing above. Each of its parts has its reason at its line below.

    The parameters have the names of those in the `transformers` package. So its weights
    [can be copied](#exercises) as they are.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        groups: int = 1,
        conv: int = 4,
        bias: bool = False,
    ) -> None:
        """
        * `d_model`: features of a position, $C$
        * `heads`: memories side by side, $H$
        * `d_k`, `d_v`: rows and columns of a memory, the numbers of a key and of a
          value; by default $2 C / H$
        * `groups`: how many keys and queries there are; the heads of a group share one
        * `conv`: positions that a sum of the convolution covers, $W$
        * `bias`: whether the two projections add a bias
        """
        super().__init__()
        check_attention(heads, d_model, 0.0, d_k, d_v)
        check_divisible(heads=heads, groups=groups)
        check_sizes(conv=conv)
        check_bool(bias=bias)
        self.heads, self.groups = heads, groups
        self.d_k = 2 * d_model // heads if d_k is None else d_k
        self.d_v = 2 * d_model // heads if d_v is None else d_v

        # One product computes all that a step needs: the gate, then values, keys and
        # queries, and at last one number for each head, from which $\Delta$ will come.
        # Values have $H$ heads. But one key and one query often serve all of them
        # (`groups` is 1). That saves parameters, and the heads still differ in what
        # they write and in how fast they leak.
        self.widths = [heads * self.d_v, groups * self.d_k, groups * self.d_k]
        sums = self.widths[0] + sum(self.widths) + heads
        self.in_proj = nn.Linear(d_model, sums, bias=bias)
        self.conv1d = ShortConvolution(sum(self.widths), conv)

        # How long should a new head remember? Nobody knows what the text will ask for,
        # so the heads begin with very different answers. A step takes from 0.001 to
        # 0.1, and a head leaks at a rate from 1 to 16. The fastest head has forgotten
        # half of what it knew within a token, the slowest after 700 tokens. `dt_bias`
        # is that number of which the softplus below makes the step.
        dtype = torch.get_default_dtype()
        start = torch.empty(heads, dtype=torch.promote_types(dtype, torch.float32))
        delta = start.uniform_(math.log(0.001), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(delta.expm1().log().to(dtype))

        # $A$ must stay negative, or the memory would grow without end. So we write
        # $A = -e^a$ and learn $a$ (`A_log`), which may be any number.
        self.A_log = nn.Parameter(start.uniform_(1, 16).log().to(dtype))

        self.D = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(heads * self.d_v, eps=1e-5)
        self.out_proj = nn.Linear(heads * self.d_v, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: tuple[Float[Tensor, "B H D Dv"], Float[Tensor, "before B F"]]
        | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], Mamba2State]:
        r"""
        * `x`: vectors of the positions, `[T, B, C]`
        * `state`: what was returned for the chunk before; `None` at the beginning
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns vectors, `[T, B, C]`, and the next state. It is attached to the graph:
        detach it before you pass it to the next chunk.
        """
        h, recent = (None, None) if state is None else state
        widths = [self.widths[0], sum(self.widths), self.heads]
        gate, vkq, delta = torch.split(self.in_proj(x), widths, dim=-1)

        # **Convolution.** Each token first collects what the three tokens before it
        # had. The activation SiLU, $z \cdot \sigma(z)$, makes this more than a sum.
        vkq, recent = self.conv1d(vkq, recent, mask)
        v, k, q = torch.split(at_least_single(F.silu(vkq)), self.widths, dim=-1)

        # Split into heads and groups. Then each head gets the key and the query of its
        # group.
        v = torch.unflatten(v, -1, (self.heads, self.d_v))
        k, q = (torch.unflatten(a, -1, (self.groups, self.d_k)) for a in (k, q))
        k, q = (a.repeat_interleave(self.heads // self.groups, dim=2) for a in (k, q))

        # **$\Delta$: how long does this step take?** A time is positive, so the sum
        # passes the softplus, $\log(1 + e^a)$. This is the line that selects. If the
        # input has no say here, you get a memory that always fades at the same rate.
        delta = F.softplus(at_least_single(delta) + self.dt_bias)

        # Padding takes no time at all. So it changes nothing: $e^{0 \cdot A} = 1$, and
        # it writes 0.
        if mask is not None:
            delta = delta.masked_fill(~mask[..., None], 0.0)

        # **$A$: how fast does this head leak?** The model learns this number, but it
        # does not depend on the input. It need not, because it only ever occurs in the
        # product with $\Delta$ ([@gu2023mamba, §3.5.2]).
        log_decay = -at_least_single(self.A_log).exp() * delta

        # A single token, as in generation, is one step of the loop. A longer text takes
        # the chunks.
        if h is None:
            h = v.new_zeros(x.shape[1], self.heads, self.d_k, self.d_v)
        ssd = ssd_loop if len(x) == 1 else ssd_chunks
        y, h = ssd(q, k, delta[..., None] * v, log_decay, h)

        # **$D$: the skip.** What a token says itself need not pass the memory, where
        # it counts only if its query agrees with its key, and if $\Delta$ is large.
        y = y + self.D[:, None] * v

        # **Gate.** The gate is computed from the token alone. It decides how much of
        # each feature is shown, as the output gate of an [LSTM](../lstm/__init__.py)
        # does. After it comes the norm: sums over many steps may be large or small, and
        # the next layer should not notice.
        y = (y.flatten(-2) * F.silu(gate)).to(self.norm.weight.dtype)
        return self.out_proj(self.norm(y)), Mamba2State(h, recent)


@dataclass(frozen=True, kw_only=True)
class Mamba2Config(RecurrentConfig):
    r"""
    ## Configuration

    * `heads`: memories of a layer, $H$
    * `d_k`, `d_v`: numbers of a key and of a value in one head; by default $2 C / H$
    * `groups`: how many keys and queries a layer has; the heads of a group share one
    * `conv`: positions that a sum of the convolution covers, $W$

    [`RecurrentConfig`](language_model.py#RecurrentConfig) has the fields that all
    models of this kind share.
    """

    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    groups: int = 1
    conv: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attention(self.heads, self.d_model, 0.0, self.d_k, self.d_v)
        check_divisible(heads=self.heads, groups=self.groups)
        check_sizes(conv=self.conv)


class Mamba2LanguageModel(RecurrentLanguageModel):
    """
    ## Language model

    Embedding, layers, logits: all but the mixer stands on [the page that three models
    share](language_model.py).
    """

    name = "mamba2"
    Config = Mamba2Config
    config: Mamba2Config

    def mixer(self) -> Mamba2:
        """One for each layer."""
        sizes = self.config
        return Mamba2(
            sizes.d_model,
            sizes.heads,
            sizes.d_k,
            sizes.d_v,
            groups=sizes.groups,
            conv=sizes.conv,
        )


# ## Symbols
#
# The paper has other letters. In our shapes, as on all pages, B is the batch, C the
# width of the model and D the numbers of a key. The skip is another $D$.
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $q_t$ | `q` | `[T, B, H, D]` | query, where to read (paper: $C_t$) |
# | $k_t$ | `k` | `[T, B, H, D]` | key, where to write (paper: $B_t$) |
# | $v_t$ | `v` | `[T, B, H, Dv]` | value, what to write (paper: $x_t$) |
# | $\Delta_t$ | `delta` | `[T, B, H]` | how long the step takes |
# | $A$ | `A_log` | `[H]` | how fast a head leaks; the code has $a = \log(-A)$ |
# | $b$ | `dt_bias` | `[H]` | bias of $\Delta$ before the softplus |
# | $\Delta_t A$ | `log_decay` | `[T, B, H]` | log of what stays (paper: $\log a_t$) |
# | $L$ | `decay` | `[T, T, B, H]` | what is left of each step at each other |
# | $h_t$ | `h` | `[B, H, D, Dv]` | state: a matrix for each head (paper: $h_t^\top$) |
# | $D$ | `D` | `[H]` | skip: how much of a value passes the state |
# | | `gate` | `[T, B, H*Dv]` | gate, what is shown (paper: $z_t$) |
# | $y_t$ | `y` | `[T, B, H, Dv]` | what was found |

# ## Numbers that stay finite
#
# **Three rules for the decays.** We add their logarithms, $\Delta_t A$, and take exp of
# differences, because products of many small numbers become 0. We do so in float32,
# even if the model has 16 bits, because small errors add up over a sum of many steps.
# And we mask *before* exp: above the diagonal the differences are positive, exp may be
# infinite there, and an infinite number times the zero of a mask is NaN.
#
# **No division.** [Linear attention](linear_attention.py) often divides what it finds
# by the sum of the weights, and then the weights must be positive. Here nothing is
# divided, and weights may be negative. The sum does not grow without end, because it
# fades.

# ## Training
#
# Will a network find such a $\Delta$ by itself? Let us try it with a program that you
# can run. The tokens are the digits 1 to 9, and 0 for *er*. At each step the model
# shall say which digit it has heard last. Nothing tells it that 0 is unimportant.
#
# ```python
# import torch
# from torch import nn
# from torch.nn import functional as F
# from labml_nn.recurrent.mamba2 import Mamba2
#
# torch.manual_seed(1)
#
# class Model(nn.Module):
#     def __init__(self, n_vocab, d_model):
#         super().__init__()
#         self.embedding = nn.Embedding(n_vocab, d_model)
#         self.mamba = Mamba2(d_model, heads=1, d_k=4, conv=1)
#         self.output = nn.Linear(d_model, n_vocab)
#
#     def forward(self, tokens):
#         y, _ = self.mamba(self.embedding(tokens))
#         return self.output(y)
#
# def batch(T, B):
#     tokens = torch.randint(1, 10, (T, B)) * (torch.rand(T, B) < 0.15)
#     steps = torch.arange(T)[:, None]
#     last = steps.where(tokens > 0, 0).cummax(0).values  # where the last digit stands
#     return tokens, tokens.gather(0, last)
#
# model = Model(10, d_model=8)
# optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
# for _ in range(200):
#     tokens, targets = batch(T=48, B=32)
#     loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# with torch.no_grad():
#     tokens, targets = batch(T=1000, B=8)
#     right = (model(tokens).argmax(-1) == targets).float().mean()
#     sums = model.mamba.in_proj(model.embedding.weight)[:, -1]  # the last row is for Δ
#     delta = F.softplus(sums + model.mamba.dt_bias)  # makes it positive
#     kept = torch.exp(-model.mamba.A_log.exp() * delta)
# print(f"{right:.1%}, er: {delta[0]:.3f}, digits: {delta[1:].min():.2f} or more")
# print(f"kept by er: {kept[0]:.2f}, by digits: {kept[1:].max():.2f} or less")
# assert right > 0.99 and delta[1:].min() > 10 * delta[0]
# ```
#
# After 200 updates all answers are right, even in texts that are twenty times longer
# than those of the training. And look at $\Delta$: it is 0.006 for *er*, and at least
# 0.12 for a digit. With the $A$ that was learned, *er* keeps 0.95 of the memory, and a
# digit 0.33 or less. The network has found by itself that digits matter and *er* does
# not.
#
# The model [of Shakespeare](#try-it) has two layers of width 64, with four heads each.
# It writes like this:
#
# > HENRY BOLINGBROKE MARGARET: But, our queen, that good tempt? CLARENCE: He was he was
# > great. LUCIO: The child, if is friends, back in her better
#
# It has a loss of 1.63 nats per character, on the part of the text that was held back.
# After as many updates, 2,000, the [LSTM](../lstm/__init__.py#training) reaches 1.65,
# with twice as many parameters.

# ## The task with noise
#
# In each sequence a token is a digit, 1 to 8, with a probability that is drawn for this
# sequence: 0.02 + 0.5 $r^2$, with $r$ uniform between 0 and 1. All others are noise,
# one and the same token. The first token is a digit. A model has an embedding of 16
# features, a mixer of four heads, whose keys and values have 4 numbers each and which
# has no convolution, and a linear output. It is trained for 300 updates on 16 new
# sequences of 64 tokens, by Adam with a learning rate of 0.01, and gradients are
# clipped to a length of 1. A run takes about eight seconds of CPU time. *One Δ for all*
# is the same model, but the weights that compute $\Delta$ from the token are 0 and stay
# so, and it learns `dt_bias` and `A_log` of each head. *No decay* computes $\Delta$
# from the token, but $A$ is 0. All models and seeds are tested on the same 1,000
# sequences of eight random digits and 512 tokens of noise. After 128 of them also
# models with a $\Delta$ for each word begin to err: none has learned to keep *all*.

# ## Where you meet it
#
# Today's models put such layers beside attention. Nemotron-H-8B has 4 layers of
# attention, and 24 of these ([@blakeman2025nemotron]). Falcon-H1 has both side by side
# in every layer ([@zuo2025falcon]). A few layers with attention can look up a single
# word from long ago, and all the others cost the same for each new token. What a decay
# cannot do is flip, and [the parity of bits](../experiments/memory.py) would need that.

# ## From Mamba to Mamba-2
#
# Engineers describe a thing that changes, such as a spring or a bucket, by its state
# $h$, by what pushes it, $x$, and by what one sees of it, $y$: $h' = A h + B x$ and
# $y = C h + D x$. There $A$ is a matrix. The letters of the paper come from here.
#
# **S4** ([@gu2021efficiently]) made layers of this, for long signals such as sound.
# Neither $\Delta$ nor $B$ nor $C$ depended on the input. So how much an input counted
# depended only on how long ago it came, and the whole layer was one very long
# convolution. But such a layer cannot select.
#
# **Mamba** ([@gu2023mamba]) let the input compute $\Delta$, $B$ and $C$. Each feature
# of a value had its own $\Delta$, and each number of a state its own $A$. Then decays
# differ inside a matrix, and no table $L$ serves for all of it. The loop remained, as a
# special program for GPUs. This *parallel scan* joins two neighbouring steps into one,
# then two such pairs, and so on.
#
# **Mamba-2** ([@dao2024transformers]) has a single $A$ and a single $\Delta$ for a
# whole head. That is less, and it makes the table possible. With products of matrices
# in place of a scan, the paper could afford states of 128 rows. Mamba had 16 of them.
#
# **Why is a single matrix between two chunks enough?** Cut a text in two. How much is
# left of a word before the cut, at a word behind it? What is left up to the cut, times
# what is left from there on. The first factor is already in $h$, and the second is the
# same for all words before the cut. So later words need only $h$. In $L$, the numbers
# of such pairs are a column times a row, or a matrix of rank 1. The paper calls such an
# $L$ *1-semiseparable*.

# ## Cost
#
# A mixer has about $6 C^2 + 2 C d_k$ parameters, where attention has $4 C^2$, because
# its values are twice as wide. A state has $H d_k d_v$ numbers, whatever was read. A
# step of the loop costs $3 H d_k d_v$ multiplications. In chunks of $c$ tokens a step
# also costs $H c (d_k + d_v)$ for the table, and the products are large.
#
# How long does that take? One layer with $C = 128$, $H = 4$ and $d_k = d_v = 64$, for
# one sequence, forward and backward, in milliseconds of one CPU core:
#
# | tokens | loop | table | chunks | [attention](../transformers/mha.py) |
# |--:|--:|--:|--:|--:|
# | 256 | 58 | 18 | 15 | 5 |
# | 1,024 | 359 | 229 | 65 | 32 |
# | 4,096 | 1,498 | | 442 | 335 |
#
# The loop takes as many steps as there are tokens, and the backward pass stores a
# matrix for each. Attention still wins here, because its layer is smaller and its
# kernel is one call. But from 1,024 to 4,096 tokens its time grows to ten times as
# much, and that of the chunks to seven times. (The work of the chunks grows only four
# times; we do not know where the rest of the time goes.) Without a backward pass, 4,096
# tokens take 68 ms in chunks, and 106 ms with attention. (The table was not timed at
# 4,096 tokens, where each of its tensors has 268 MB.)

# ## Common mistakes
#
# * **Nothing is remembered**: look at $e^{\Delta A}$ of the new layer. If `dt_bias`
#   begins at 0, $\Delta$ is 0.7, and a head with $A = -8$ keeps 0.4 % in a step.
# * **The loss becomes NaN, or the memory explodes**: $A$ is positive. It must be
#   $-e^a$, with the sign.
# * **The model is right in training and writes nonsense**: in generation, the inputs of
#   the convolution belong to the state, too. If you keep only $h$, each new token sees
#   zeros before it.
# * **Padding disturbs**: it must have $\Delta = 0$. A value of 0 is not enough, because
#   the memory would still fade. And it may not stand before a token, whose convolution
#   would see it.
# * **NaN in the gradient of the table**: $e$ to the sums above the diagonal may be
#   infinite if you compute them as differences, and infinity times zero is NaN. Set
#   them to $-\infty$ before, or as here never compute them.
# * **A weight decay on `A_log`, `dt_bias` or `D`** pulls the rates to 1, the steps to
#   0.7 and the skip to 0. Our [trainer](../experiments/trainer.py) spares vectors.

# ## Differences from the paper
#
# <details><summary>Layers, norm, discretisation, chunks</summary>
#
# * **Layers.** The published models have no feed-forward networks, but twice as many
#   mixers. Here a mixer stands where attention stood, with a feed-forward network
#   behind it, as in the hybrid models of today.
# * **Norm.** As in `transformers`, one norm spans all heads. The authors' program
#   normalises each group on its own, which is the same for one group.
# * **Discretisation.** In a bucket some of the new water runs out while the tap is
#   open. The exact solution of $h' = A h + k^\top v$ over a time $\Delta$ writes
#   $(e^{\Delta A} - 1) / A$ times the product. The paper uses $\Delta$, and so do we.
#   For small steps that is nearly the same, and for large ones it is not: with $A = -3$
#   the exact factor is 0.32 for $\Delta = 1$. It would only weaken the stream of a
#   word, and how strong a stream is will be learned.
# * **Limits of $\Delta$** are an option of both programs, and left out here.
# * **Chunks** of 32 tokens, one after the other, are best on a CPU. The published
#   kernels take 256, all at once.
#
# </details>

# ## Exercises
#
# **1.** `Mamba2Mixer` of the `transformers` package has the same parameters under the
# same names. Write a function that makes a `Mamba2` of its `state_dict`. Which argument
# can you not find in the shapes?
#
# <details><summary>Answer</summary>
#
# The number of groups. The shapes only give its product with $d_k$.
#
# ```python
# import torch
# from labml_nn.recurrent.mamba2 import Mamba2
#
# def from_transformers(weights, groups):
#     heads, values = len(weights["A_log"]), len(weights["norm.weight"])
#     features, _, conv = weights["conv1d.weight"].shape
#     mixer = Mamba2(
#         d_model=len(weights["out_proj.weight"]),
#         heads=heads,
#         d_k=(features - values) // (2 * groups),
#         d_v=values // heads,
#         groups=groups,
#         conv=conv,
#         bias="in_proj.bias" in weights,
#     )
#     mixer.load_state_dict(weights)
#     return mixer
#
# # What Mamba2Mixer has for hidden_size=12, num_heads=3, head_dim=8, state_size=5,
# # n_groups=1 and conv_kernel=4.
# shapes = {
#     "dt_bias": [3], "A_log": [3], "D": [3], "norm.weight": [24],
#     "in_proj.weight": [61, 12], "out_proj.weight": [12, 24],
#     "conv1d.weight": [34, 1, 4], "conv1d.bias": [34],
# }
# mixer = from_transformers({n: torch.randn(s) for n, s in shapes.items()}, groups=1)
# assert (mixer.heads, mixer.d_k, mixer.d_v) == (3, 5, 8)
# y, _ = mixer(torch.randn(7, 2, 12))
# assert y.shape == (7, 2, 12)
# ```
#
# </details>
#
# **2.** Compute the bucket of the first example with `ssd_loop` and with `ssd_table`.
#
# <details><summary>Hint</summary>
#
# A memory of 1 × 1. Key and query are 1 at each step.
#
# </details>
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.recurrent.mamba2 import ssd_loop, ssd_table
#
# words = torch.tensor([7.0, 1, 1, 1, 9, 1])  # 7 er well so 9 er
# delta = torch.where(words > 1, 1.0, 0.01)
# ones = torch.ones(6, 1, 1, 1)  # [T, B, H, D]
# write = (delta * words).view(6, 1, 1, 1)
# log_decay = (-3 * delta).view(6, 1, 1)
# for ssd in (ssd_loop, ssd_table):
#     h, _ = ssd(ones, ones, write, log_decay, torch.zeros(1, 1, 1, 1))
#     found = [round(number, 2) for number in h.flatten().tolist()]
#     print(found)
#     assert found == [7, 6.8, 6.61, 6.43, 9.32, 9.05]
# ```
#
# </details>
#
# **3.** Compute the tables of all chunks at the same time, as the paper does. Then hand
# the matrices from chunk to chunk, and let each chunk read what came before it.
#
# <details><summary>Hint</summary>
#
# Put the chunks side by side, as if they were sequences of a larger batch. Then one
# call of `ssd_table` with an empty memory serves all of them. It also returns what each
# chunk has written.
#
# </details>
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.recurrent.mamba2 import ssd_chunks, ssd_loop
#
# def ssd_at_once(q, k, v, log_decay, h, chunk=32):
#     n = len(q) // chunk  # without a rest, to keep it short
#     q, k, v, log_decay = (  # [T, B, ...] -> [chunk, n B, ...]
#         x.unflatten(0, (n, chunk)).transpose(0, 1).flatten(1, 2)
#         for x in (q, k, v, log_decay)
#     )
#     y, written = ssd_chunks(q, k, v, log_decay, h.new_zeros(n * len(h), *h.shape[1:]))
#     left = log_decay.cumsum(0).exp()[..., None]
#
#     before = []
#     chunks = zip(left[-1].unflatten(0, (n, -1)), written.unflatten(0, (n, -1)))
#     for decay, new in chunks:
#         before.append(h)
#         h = decay[..., None] * h + new
#
#     y = y + left * torch.einsum("tbhd,bhde->tbhe", q, torch.cat(before))
#     return y.unflatten(1, (n, -1)).transpose(0, 1).flatten(0, 1), h
#
# q, k = torch.randn(2, 128, 3, 4, 5).double()  # T = 128, B = 3, H = 4, D = 5
# v, log_decay = torch.randn(128, 3, 4, 6).double(), -torch.rand(128, 3, 4).double()
# h = torch.randn(3, 4, 5, 6).double()
# for a, b in zip(ssd_at_once(q, k, v, log_decay, h), ssd_loop(q, k, v, log_decay, h)):
#     torch.testing.assert_close(a, b)
# ```
#
# </details>
#
# **4.** Why can a layer not keep the parity of the bits that it reads? What would a
# decay have to be?
#
# <details><summary>Answer</summary>
#
# Parity needs a state that changes its sign at each 1. A decay $e^{\Delta A}$ is always
# positive, so a state keeps its sign until something else is written. A layer can add
# up all ones, but then the layers behind it would have to tell whether a large number
# is odd. A factor of −1 at each 1 would do. A [DeltaNet](delta_net.py) whose $\beta$
# reaches up to 2 has such factors.
#
# ```python
# import torch
#
# bits, sign = torch.randint(2, (100,)), 1
# for t, bit in enumerate(bits):
#     sign = (1 - 2 * bit) * sign
#     assert (sign == -1) == (bits[: t + 1].sum() % 2 == 1)
# ```
#
# </details>
