r"""
---
title: DeltaNet
summary: >
  Linear attention that replaces instead of adding: it reads what its memory answers to
  a key, and writes the error.
paper: https://arxiv.org/abs/2406.06484
notebook: notebooks/delta_net.ipynb
compare: labml_nn.recurrent.linear_attention
tones: {query: 3, q: 3, key: 1, k: 1, value: 2, v: 2, memory: 5, error: 6, loss: 6}
---

*Ann has 3 apples and 1 pear. Ben has 2 apples and 4 pears. Ann eats two apples, so she
has 1 apple and 1 pear.* What does Ann have? One apple and one pear. You have not added
the third sentence to the first. You have *replaced* what you knew about Ann, and left
alone what you knew about Ben.

![What is known after each sentence: rows are people, columns
fruits.](figure:delta_net.sentences)

**A memory that adds.** [Linear attention](linear_attention.py) remembers in a matrix
$S$, which begins with zeros. Each sentence comes as two vectors: a **key** says whom it
is about, and a **value** what is to be remembered. Let the key of Ann be (1, 0), and
that of Ben (0, 1). To *write* such a pair, multiply the value by each number of the
key, and add the results to the rows: the first to row 1, the second to row 2. So Ann
has the first row of the memory, and Ben the second.

![The first two sentences: key times value.](figure:delta_net.writing)

To *read*, multiply each row by its number of a key, and add them up. For Ann this is
$1 \cdot (3, 1) + 0 \cdot (2, 4) = (3, 1)$. A key with which we only read is called a
**query**.

![A query reads.](figure:delta_net.reading)

**Adding fails.** The third sentence has Ann's key and the value (1, 1), which is added
to her row. Ask for Ann, and you get 4 apples and 2 pears, the old value plus the new
one. Adding never removes anything.

![Rows are Ann and Ben, columns apples and pears.](figure:delta_net.adding)

## Read, error, write

What should we write instead, so that (1, 1) stands in Ann's row? The *difference* to
what is there. Follow the third sentence. Then change its key or its value.

1. **Read.** What does the memory answer to this key now? Ann's key finds (3, 1).

2. **Error.** The memory should answer (1, 1). The value minus the answer is $(1, 1) -
   (3, 1) = (-2, 0)$: two apples too many. This difference is the **error**.

3. **Write.** The error is written, and not the value, under the same key. In Ann's row
   $(3, 1) + (-2, 0) = (1, 1)$. For Ben's row the error is multiplied by 0, so nothing
   is added there.

4. **Ask.** Now Ann finds (1, 1), and Ben still finds (2, 4). Let Ben come, and only his
   row changes.

![A red frame is a wrong answer. β says which share of the error is written, and Cleo
has a key between those of Ann and Ben: leave both until you have read on. A key of
length 1 is given by its second number.](figure:delta_net.rule)

The idea is much older than attention. It is called the **delta rule**, as *delta* is
the letter for a difference ([@widrow1960adaptive]). In a memory of keys and values it
came up in 2021 ([@schlag2021linear]), and a network that is built from it is a
**DeltaNet** ([@yang2024parallelizing]).

![What is written, by the old rule and by the new one.](figure:delta_net.rules)

## When only replacing helps

Does it matter in a network that learns? Here is a task in which the last number counts.
Names get numbers, again and again. After each pair the number of a name is asked.

![Pale numbers have been replaced.](figure:delta_net.asked)

We train two small networks. Both learn a key for each of 8 names, and a value for each
of 16 numbers. A key has 16 numbers here, so there is room for 8 keys at right angles.
The networks differ only in what they write, the error or the value. In training they
read 32 pairs, and in the test 256. Each is trained five times, from other random
numbers. With the delta rule, all five are always right, even when a name has got its
24th number. With addition they know a first number, too. After the second they are
right about half of the time, because nothing in a sum says which of the two came last.
After the 24th they are right in 16 or 17 % of the tests, and a guess among 16 numbers
in 6 %.

![[How it was measured](#the-task-of-overwriting).](figure:delta_net.overwriting)

## Similar keys

**What if keys are not at right angles?** Let Cleo come in, with 5 apples. A plane has
no third direction at right angles to both, so let her key be (0.6, 0.8). It has length
1, as the others. Cleo has no row of her own. She reads and writes 0.6 of Ann's row, and
0.8 of Ben's.

![Left: first number of a key to the right, second upwards. Right: before Cleo is
written.](figure:delta_net.directions)

The error is the value minus the answer. For Cleo, 0.6 times the error is added to the
first row of the memory, and 0.8 times to the second:

| pair | answer before | error | memory after, row 1 | row 2 |
|:--|:--|:--|:--|:--|
| Ann, (3, 1) | (0, 0) | (3, 1) | (3, 1) | (0, 0) |
| Ben, (2, 4) | (0, 0) | (2, 4) | (3, 1) | (2, 4) |
| Ann, (1, 1) | (3, 1) | (−2, 0) | (1, 1) | (2, 4) |
| Cleo, (5, 0) | (2.2, 3.8) | (2.8, −3.8) | (2.68, −1.28) | (4.24, 0.96) |

Cleo now finds $0.6 \cdot (2.68, -1.28) + 0.8 \cdot (4.24, 0.96) = (5, 0)$, exactly what
she has. Why exactly? Her key finds what she has just written $0.6 \cdot 0.6 + 0.8 \cdot
0.8 = 1$ time. That is the square of its length. So her old answer plus the error is
what she finds, and that is the value. But Ann and Ben have been disturbed, because
their keys are similar to hers. So the *last* pair can always be found, if its key has
length 1 and the whole error is written. Older ones are found as far as later keys are
at right angles to theirs. Keys of two numbers (**features**) have room for two people.

![Red: not what they have.](figure:delta_net.disturbed)

**How much does a larger memory hold?** Take keys and values of 16 features, in random
directions, and write 64 pairs, each once. Of 64 directions at most 16 can be at right
angles, so these are too many for any such memory. A value counts as found if the answer
is nearer to it than to the other 63. A memory that adds finds 27 % of all pairs, old
ones as well as new ones. With the delta rule it is less, 18 %, but these are the new
ones. The last is always found, and the first hardly ever. So replacing does not make a
memory larger. It [makes room](#random-pairs) for what is new.

![400 memories of each kind. A guess finds 1.6 %.](figure:delta_net.first_and_last)

## How much to write

**Not all that is read brings news.** A full stop says nothing about anybody's apples.
So the network computes a number $\beta$ for each **token** (what it reads in one
step), from 0 to 1, and writes $\beta$ times the error. With 1 the answer is replaced,
with 0 nothing is written, and with 0.5 it moves half of the way. Try it
[above](#read-error-write).

![Where Ann's apples are after the third sentence.](figure:delta_net.believe)

**This is how networks learn.** Look at one number of the memory, $S = 3$, Ann's apples.
The third sentence says 1. As a measure of how wrong $S$ is, the **loss**, take half of
the squared error, $\frac12 (1 - S)^2 = 2$. How does it change with $S$? Its slope is
$-(1 - S) = 2$, which is minus the error. So we go down if we step *against* the slope.
A step of $\beta$ times the error leads from 3 to $3 - 2 \beta$, and with $\beta = 1$ to
the lowest point. Learning by such steps is called **gradient descent**, and $\beta$ is
its learning rate. So each token is one step in which the large network teaches a small
one, its memory. Linear attention takes steps, too. But its loss would be $-S \cdot 1$,
a slope that never ends. So what stands in the memory grows and grows.

![The loss of Ann's apples, while her key comes with 1.](figure:delta_net.descent)

<details><summary>For the whole memory</summary>

The memory is a network with one layer, $v \approx k S$, whose weights are $S$. The
gradient of $\frac12 |v - k S|^2$ is $-k^\top (v - k S)$, minus each number of the key
times the error ([exercise 1](#exercises)). That of $-k S \cdot v$ is $-k^\top v$.

</details>

**In one formula.** With the key $k_t$, the value $v_t$ and the query $q_t$ of token $t$
as rows, the error is written, and then the query reads:

\begin{align}
S_t &= S_{t-1} + \beta_t \, k_t^\top (v_t - k_t S_{t-1}) \\
y_t &= q_t S_t
\end{align}

($y_t$ is what the query finds. $k_t^\top$ is the key as a column. Each of its numbers
multiplies the row beside it, which is called an **outer product**.)

![With Ann's numbers, and β = 1. Boxes lead to the code.](figure:delta_net.chain)

Multiplied out, the first line has two parts, a **transition** of the old memory and a
**write**. $I$ is the matrix that changes nothing:

$$S_t = (I - \beta_t \, k_t^\top k_t) \, S_{t-1} + \beta_t \, k_t^\top v_t$$

With keys of length 1, the transition multiplies what $k_t$ reads by $1 - \beta_t$. What
keys at right angles to it read stays as it is. Ann's key reads a row. Cleo's reads a
bit of both, and $k^\top k$ has the rows (0.36, 0.48) and (0.48, 0.64). So her
transition changes both.

![Ann's third sentence once more, and Cleo, both with β =
0.5.](figure:delta_net.transition)

**A layer** has a few such memories side by side, its **heads**, each with keys, values
and $\beta$ of its own. Learned matrices compute them from each token. Until here a
whole sentence was a token. In a text of words, *3* alone does not say whose it is. So a
*short convolution* mixes in the three tokens before: at the 3, the key can come from
*Ann*, and the value from *3*. Then keys and queries are divided by their length, so
that it is 1.

![From below: conv is the convolution, SiLU an activation function, L2 divides by the
length, σ is the sigmoid, which makes β a number from 0 to 1. Norm brings what was found
to a usual size.](figure:delta_net.layer)

## Gains and price

What does it gain? The memory has the same size after ten tokens and after ten thousand,
as in linear attention, and now it can be corrected. But it is still a small matrix, and
cannot hold everything. So large models add a few layers of attention. And on a text of
characters, which hardly asks for a good memory, the delta rule alone [gains
little](#training).

![Attention keeps keys and values.](figure:delta_net.price)

The price is the answer, $k_t S_{t-1}$: a token must know it before it can write. So in
the loop each token waits for the one before. Must it? Let $\beta$ be 1. The memory is a
sum: each error, under its key. So what a key finds is a sum, too: each earlier error,
times the dot product of the two keys. For Cleo this is

$$u_4 = v_4 - 0.6 \, u_1 - 0.8 \, u_2 - 0.6 \, u_3$$

with the four errors $u$. There is such a line for each token. The values, and the dot
products, most of the work, are known for all tokens at once. Only the errors are
unknown. So the lines are *one system of linear equations*, with zeros above the
diagonal. It is [solved by one call](#delta_rule_chunk), for a block of tokens.

![Left: how much of an error each later key finds. Right: the same as a
system.](figure:delta_net.at_once)

## The whole in code

The loop has three lines: read and take the error, write, read with the query. The names
of axes are T tokens, C features, H heads and D = C / H features of a head.

* `einsum("hd,hde->he", k, S)`: in each head `h`, row `d` of the memory times number `d`
  of the key, added up over `d`, which is not to the right of the arrow. This is how we
  read Ann's row. `"h,hd,he->hde"` adds nothing up: all products of $\beta$, key and
  error.

* `F.pad(…, (3, 0))` puts three zeros before the first token. `unflatten` and `unbind`
  cut a long vector into queries, keys and values of heads.

The module below computes the same, in blocks of tokens (**chunks**), and for several
texts at once.

```python
import torch
from torch import nn
from torch.nn import functional as F


class DeltaNet(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        wide = 3 * d_model  # queries, keys and values side by side
        self.qkv = nn.Linear(d_model, wide, bias=False)
        self.conv = nn.Conv1d(wide, wide, kernel_size=4, groups=wide, bias=False)
        self.beta = nn.Linear(d_model, heads, bias=False)
        self.norm = nn.RMSNorm(d_model // heads, eps=1e-5)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):  # one text, [T, C]
        mixed = F.silu(self.conv(F.pad(self.qkv(x).T, (3, 0)))).T
        q, k, v = mixed.unflatten(1, (3, self.heads, -1)).unbind(1)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        S, found = torch.zeros(self.heads, q.shape[-1], q.shape[-1]), []
        for q_t, k_t, v_t, beta_t in zip(q, k, v, self.beta(x).sigmoid()):
            error = v_t - torch.einsum("hd,hde->he", k_t, S)  # read
            S = S + torch.einsum("h,hd,he->hde", beta_t, k_t, error)  # write
            found.append(torch.einsum("hd,hde->he", q_t, S))  # ask
        return self.output(self.norm(torch.stack(found)).flatten(1))


print(DeltaNet(d_model=8, heads=2)(torch.randn(5, 8)).shape)  # torch.Size([5, 8])
```

## Try it

This DeltaNet of two layers was trained on our task, with 26 letters for names and ten
digits. At a digit, the key of layer 1, head 2 is made from the letter before it. So the
three keys of a are nearly the same, and almost at right angles to that of c. Write your
own pairs. Then let the memory write values, and see which digits it mixes up:

![At the digits of six pairs, in layer 1, head 2. With a frame: keys of the same
letter.](figure:live.deltas)

<details><summary>Symbols, their code and shapes</summary>

In the shapes, T is the number of tokens and B that of sequences side by side. There are
H heads, each with a memory. A key has D features and a value Dv.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | input of the layer |
| $q_t$ | `q` | `[T, B, H, D]` | queries, of length 1 |
| $k_t$ | `k` | `[T, B, H, D]` | keys, of length 1 |
| $v_t$ | `v` | `[T, B, H, Dv]` | values |
| $\beta_t$ | `beta` | `[T, B, H]` | which share of the error is written |
| $S$ | `memory` | `[B, H, D, Dv]` | the memory, a matrix for each head |
| $y_t$ | `found` | `[T, B, H, Dv]` | what the queries find |

</details>
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_attention, check_bool, check_sizes
from labml_nn.language_model import at_least_single
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.recurrent.language_model import RecurrentConfig, RecurrentLanguageModel

__all__ = [
    "DeltaNet",
    "DeltaNetConfig",
    "DeltaNetLanguageModel",
    "DeltaNetState",
    "ShortConvolution",
    "delta_rule_chunk",
    "delta_rule_chunks",
    "delta_rule_loop",
]


def delta_rule_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The loop

    This is the table above, line by line, for all heads and sequences at once.

    * `q`, `k`: queries and keys, of length 1, `[T, B, H, D]`
    * `v`: values, `[T, B, H, Dv]`
    * `beta`: which share of the error is written, `[T, B, H]`
    * `memory`: what was written before, `[B, H, D, Dv]`

    Returns what each query found, `[T, B, H, Dv]`, and the memory after the last token.
    """
    found = []
    for q_t, k_t, v_t, beta_t in zip(q, k, v, beta, strict=True):
        # **Read** what the memory answers to this key. When Ann comes for the second
        # time, this is (3, 1).
        answer = (k_t[..., None, :] @ memory)[..., 0, :]

        # **Write** the error, under the same key. For Ann it is (−2, 0). Why does her
        # key find exactly (1, 1) now? It has length 1, so it finds exactly once what
        # was just written under it: $(3, 1) + 1 \cdot (-2, 0)$.
        error = v_t - answer
        written = beta_t[..., None] * error
        memory = memory + k_t[..., :, None] * written[..., None, :]

        # **Answer** the query. It may be similar to any key so far, this one included.
        found.append((q_t[..., None, :] @ memory)[..., 0, :])
    return torch.stack(found), memory


def delta_rule_chunk(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## All tokens at once

    The loop is slow, because each step is small and waits for the one before. What does
    it wait for? For the answer of the memory. But this memory is a sum of what was
    written before, each under its own key. So the *errors* before are enough, and we
    never need the matrix itself. In our table $\beta$ is 1, so the four errors are
    written as they are. Let us call them $u_1$ to $u_4$. The fourth key, that of Cleo,
    has the dot product 0.6 with the key of Ann, and 0.8 with that of Ben. So Cleo finds
    0.6 times both errors of Ann, the first and the third, and 0.8 times that of Ben:

    $$u_4 = v_4 - 0.6 \, u_1 - 0.8 \, u_2 - 0.6 \, u_3$$

    With numbers, $(5, 0) - 0.6 \cdot (3, 1) - 0.8 \cdot (2, 4) - 0.6 \cdot (-2, 0) =
    (2.8, -3.8)$, the same as in the table. No memory was needed. The numbers in front
    are dot products of keys, $k_4 \cdot k_1$ and so on. The same holds for all four:

    $$\begin{pmatrix} 1 & & & \\ 0 & 1 & & \\ 1 & 0 & 1 & \\ 0.6 & 0.8 & 0.6 & 1
      \end{pmatrix}
      \begin{pmatrix} u_1 \\ u_2 \\ u_3 \\ u_4 \end{pmatrix}
    = \begin{pmatrix} v_1 \\ v_2 \\ v_3 \\ v_4 \end{pmatrix}$$

    This is a system of linear equations, and an easy one. The matrix is **unit lower
    triangular**: ones on the diagonal and nothing above it, since no error depends on a
    later one. The first line says $u_1 = v_1$. Put that into the second, then both into
    the third, and so on. That is still one after the other. But a line takes only a few
    numbers times short vectors, no product with the memory, and one call does all
    lines. The rest are products of matrices, for all tokens together.

    The arguments are those of the loop, and so is the result.
    """
    # Tokens and features become the last two axes, for products of matrices. `beta`
    # becomes a column.
    q, k, v = (part.permute(1, 2, 0, 3) for part in (q, k, v))
    beta = beta.permute(1, 2, 0)[..., None]

    # With any $\beta$, and a memory $S_0$ before the first token, line $t$ says
    # $u_t = \beta_t \big( v_t - k_t S_0 - \sum_{s<t} (k_t \cdot k_s) \, u_s \big)$.
    # If the sum stands on the left, $\beta_t$ multiplies its dot products and the right
    # side, but not $u_t$ itself. So `unitriangular` puts ones on the diagonal, and of
    # `overlaps` only what lies below is used. It is the table of
    # [attention](../transformers/mha.py), with keys in place of queries.
    overlaps = beta * (k @ k.mT)

    # The right side: values, minus what the keys find in the memory before this chunk.
    right = beta * (v - k @ memory)

    # This line replaces the loop. It finds all that is written.
    written = torch.linalg.solve_triangular(
        overlaps, right, upper=False, unitriangular=True
    )

    # Once the errors are known, the rest is linear attention with errors in place of
    # values. A query finds what was in the memory before, and the errors up to now.
    # `tril` keeps the lower triangle: nothing is read before it is written.
    found = q @ memory + (q @ k.mT).tril() @ written
    memory = memory + k.mT @ written
    return found.permute(2, 0, 1, 3), memory


def delta_rule_chunks(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
    chunk: int = 32,
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## Chunks

    All tokens at once need a table of $T \times T$ overlaps, which is too much for a
    long text. So we take 32 tokens at once, and hand the memory on. Now only every 32nd
    token waits.
    """
    found = []
    for t in range(0, len(k), chunk):
        now = slice(t, t + chunk)
        answers, memory = delta_rule_chunk(q[now], k[now], v[now], beta[now], memory)
        found.append(answers)
    return torch.cat(found), memory


class ShortConvolution(nn.Module):
    r"""
    ## Short convolution

    In *Ann 3*, the value comes after its key. To be written as a pair, both must come
    together. So each feature becomes a weighted sum of that feature at the last $W$
    tokens, with weights of its own:

    $$y_{t,f} = \sum_{j=0}^{W-1} w_{f,j} \; x_{t-(W-1)+j,\,f}$$

    The weights are learned. With $W = 4$ and the weights 0, 0, 1 and 0 it is the
    feature of the token before. [Linear
    attention](linear_attention.py#ShortConvolution) has the same convolution.
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


class DeltaNetState(NamedTuple):
    """
    ## State

    * `memory`: a matrix for each head, `[B, H, D, Dv]`
    * `recent`: the last projections, for the short convolution, `[W-1, B, F]`
    """

    memory: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B F"]


class DeltaNet(nn.Module):
    r"""
    ## The layer

    Where do queries, keys, values and $\beta$ come from? All of them are computed from
    the input of a token, and all but $\beta$ also from the tokens just before it. This
    is the layer of the figure. It is a mixer, which stands where attention stood in the
    [language model](language_model.py).
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        conv: int = 4,
        allow_neg_eigval: bool = False,
    ) -> None:
        r"""
        * `d_model`: features of a position, $C$
        * `heads`: memories side by side, $H$
        * `d_k`, `d_v`: features of a key and of a value in one head; by default $C / H$
        * `conv`: positions that a key, a query and a value are made of, $W$
        * `allow_neg_eigval`: whether $\beta$ may be as large as 2
        """
        super().__init__()
        check_attention(heads, d_model, 0.0, d_k, d_v)
        check_sizes(conv=conv)
        check_bool(allow_neg_eigval=allow_neg_eigval)
        self.heads, self.allow_neg_eigval = heads, allow_neg_eigval
        self.d_k = d_k or d_model // heads
        self.d_v = d_v or d_model // heads

        # As in attention, queries, keys and values of all heads are three projections.
        # Then the short convolution lets each of them see the tokens just before.
        self.query = nn.Linear(d_model, heads * self.d_k, bias=False)
        self.key = nn.Linear(d_model, heads * self.d_k, bias=False)
        self.value = nn.Linear(d_model, heads * self.d_v, bias=False)
        self.conv = ShortConvolution(heads * (2 * self.d_k + self.d_v), conv)

        # One number for each head and token: how much of the error to write.
        self.beta = nn.Linear(d_model, heads, bias=False)

        # What a query finds may be large or small, for nothing divides by a sum of
        # weights, as the softmax does. So it is normalised, in each head.
        self.norm = nn.RMSNorm(self.d_v, eps=1e-5)
        self.output = nn.Linear(heads * self.d_v, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: tuple[Float[Tensor, "B H D Dv"], Float[Tensor, "before B F"]]
        | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], DeltaNetState]:
        r"""
        * `x`: vectors of the positions, `[T, B, C]`
        * `state`: what was returned for the chunk before; `None` at the beginning
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns what the heads found, `[T, B, C]`, and the next state. It is attached to
        the graph: detach it before you pass it to the next chunk.
        """
        memory, recent = (None, None) if state is None else state

        # Queries, keys and values side by side, so that one convolution is enough. The
        # activation function is the SiLU, $z \, \sigma(z)$.
        qkv = torch.cat([self.query(x), self.key(x), self.value(x)], dim=-1)
        qkv, recent = self.conv(qkv, recent, mask)
        qkv = F.silu(at_least_single(qkv))

        # Split into the three, and into heads. From here on there are at least 32 bits,
        # because the memory is a sum of very many small numbers.
        sizes = [self.heads * self.d_k, self.heads * self.d_k, self.heads * self.d_v]
        q, k, v = (
            torch.unflatten(part, -1, (self.heads, -1))
            for part in torch.split(qkv, sizes, dim=-1)
        )

        # A key must have length 1, as in the example. With length 2 it would find four
        # times what was written under it. The next error would be three times as large,
        # with the other sign, and the memory would explode.
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)

        # The sigmoid lies between 0 and 1. Is more of use? Look at what a token does to
        # the part of the memory along its key: $k S = (1 - \beta) \, k S_{t-1} + \beta
        # v$. The old answer is multiplied by $1 - \beta$, which is never negative. With
        # $\beta$ up to 2 it reaches −1, and a token can *flip the sign* of what it
        # finds. That is what a network needs to tell odd from even, as in [exercise
        # 3](#exercises) ([@grazzi2024unlocking]). The factor is an eigenvalue of the
        # transition $I - \beta k^\top k$, hence the name `allow_neg_eigval`. All
        # other eigenvalues are 1.
        beta = torch.sigmoid(at_least_single(self.beta(x)))
        if self.allow_neg_eigval:
            beta = 2 * beta

        # Padding writes nothing.
        if mask is not None:
            beta = beta * mask[..., None]

        # A single token, as in generation, is one step of the loop. A longer text takes
        # the chunks.
        if memory is None:
            memory = v.new_zeros(x.shape[1], self.heads, self.d_k, self.d_v)
        rule: Callable[..., tuple[Tensor, Tensor]] = (
            delta_rule_loop if len(x) == 1 else delta_rule_chunks
        )
        found, memory = rule(q, k, v, beta, memory)

        # Normalise what was found, and mix the heads.
        y = self.norm(found.to(x.dtype))
        return self.output(y.flatten(-2)), DeltaNetState(memory, recent)


@dataclass(frozen=True, kw_only=True)
class DeltaNetConfig(RecurrentConfig):
    r"""
    ## Configuration

    * `heads`: memories of a layer, $H$
    * `d_k`: features of a key in one head; by default $C / H$
    * `d_v`: features of a value in one head; by default $C / H$
    * `conv`: positions that a key, a query and a value are made of, $W$
    * `gated`: whether the layers are those of a [Gated DeltaNet](gated_delta_net.py)
    * `allow_neg_eigval`: whether $\beta$ may be as large as 2

    [`RecurrentConfig`](language_model.py#RecurrentConfig) has the fields that all
    models of this kind share.
    """

    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    conv: int = 4
    gated: bool = False
    allow_neg_eigval: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attention(self.heads, self.d_model, 0.0, self.d_k, self.d_v)
        check_sizes(conv=self.conv)


class DeltaNetLanguageModel(RecurrentLanguageModel):
    """
    ## Language model

    Embedding, layers, logits: all but the mixer stands on [the page that three models
    share](language_model.py).
    """

    name = "delta_net"
    Config = DeltaNetConfig
    config: DeltaNetConfig

    def mixer(self) -> DeltaNet | GatedDeltaNet:
        """One for each layer."""
        return (GatedDeltaNet if self.config.gated else DeltaNet)(
            self.config.d_model,
            self.config.heads,
            self.config.d_k,
            self.config.d_v,
            conv=self.config.conv,
            allow_neg_eigval=self.config.allow_neg_eigval,
        )


# ## The example as a program
#
# The four pairs of the table, by the loop and in chunks.
#
# ```python
# import torch
# from labml_nn.recurrent.delta_net import delta_rule_chunks, delta_rule_loop
#
# names = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0), "Cleo": (0.6, 0.8)}
# who = ["Ann", "Ben", "Ann", "Cleo"]
# what = [[3.0, 1.0], [2.0, 4.0], [1.0, 1.0], [5.0, 0.0]]
# k = torch.tensor([names[name] for name in who]).view(4, 1, 1, 2)  # [T, B, H, D]
# v = torch.tensor(what).view(4, 1, 1, 2)
# beta, empty = torch.ones(4, 1, 1), torch.zeros(1, 1, 2, 2)
#
# found, memory = delta_rule_loop(k, k, v, beta, empty)
# print(memory[0, 0])
# torch.testing.assert_close(found, v)  # each token finds what it wrote
# torch.testing.assert_close(delta_rule_chunks(k, k, v, beta, empty), (found, memory))
# ```

# ## The task of overwriting
#
# At each step one of 8 names gets one of 16 numbers, and then one of the names that
# have a number is asked for its last one. All choices are random and equally likely.
# Both networks have one memory for keys and values of 16 features. They learn a key for
# each name, a value for each number, $\beta$ for each pair, and a linear output of what
# is found, after a norm. One writes $\beta$ times the error, and the other $\beta$
# times the value. (The norm takes out the length of a sum, so its average would not do
# better.) Each is trained for 300 updates on 32 new sequences of 32 steps, by Adam with
# a learning rate of 0.02. A run takes two to four seconds of CPU time. All are tested
# on the same 500 sequences of 256 steps.
#
# Larger models have the same task on the page on [recall and
# overwriting](../experiments/memory.py).

# ## Random pairs
#
# How much does a memory hold for keys and values of 16 features? We write random pairs
# of vectors of length 1, and count how often the answer to a key is nearer to its last
# value than to all others that were ever written. These are 8 to 64 values on the left.
# On the right they are 64, and a guess would find 1.6 %:
#
# ![How often the value of a key is found, in a memory for keys of 16 features. Left:
# eight random keys get new values again and again. Right: 64 random keys are written
# once.](figure:delta_net.recall)
#
# On the left, the sum is even a little better than the delta rule while each key has
# one value. When all of them are written for the second time, it finds less than half
# of the values, because the old ones are still there. The delta rule hardly suffers.
#
# On the right there are too many pairs for either memory. The sum knows a quarter of
# them, the first as well as the last. The delta rule knows the last ones best. A memory
# with $\beta = 0.3$ keeps older pairs for longer. But on the left it ends at 0.69, and
# the delta rule at 0.85. (This depends on the values, too. Values of 64 features are
# easier to tell apart. With them the sum finds about three quarters on the right, and
# on the left the memory with $\beta = 0.3$ ends ahead of the delta rule.)

# ## Training
#
# How good is the delta rule alone? On Shakespeare, at equal parameters and updates,
# linear attention has a loss of 1.915 nats per character and DeltaNet 1.886
# ([results](../../results.md#ten-models-at-equal-parameters)). The ranges of their
# seeds overlap. The rule changes the memory only along keys that come. When a story is
# over, it cannot clear all at once. A [Gated DeltaNet](gated_delta_net.py), the next
# page, can. It has 1.835.
#
# So we trained a gated one for longer. Two layers with 64 features and four heads each
# write like this, after 3,000 updates in less than three minutes of one CPU core:
#
# > Why not recess deserved to joy you thungs thou art. SICINIUS: Do see the country and
# > means and no sound with the first, good great strengthen unjurbon'd and cares
#
# Their loss is 1.64, on the part of the text that was held back. The
# [LSTM](../lstm/__init__.py#training) reaches 1.65 after 2,000 updates, with twice as
# many parameters. A text of characters hardly asks for a good memory. [Recall and
# overwriting](../experiments/memory.py) do.

# ## Cost
#
# With $d_k = d_v = C / H$ a DeltaNet has about $4 C^2$ parameters, as many as
# multi-head attention. The memory has $H d_k d_v = C^2 / H$ numbers in a layer. The
# cache of attention grows by $2 C$ numbers for each token, so it is larger after
# $C / (2H)$ tokens. With 64 features and 4 heads these are 8.
#
# In the loop a token costs three products with the memory, to read the old answer, to
# write, and to answer the query. Each has $C^2 / H$ multiplications. In chunks the same
# products take place for 32 tokens at once, and tables of $32 \times 32$ are added to
# them. The work of both grows with $T$, and that of attention with $T^2$. This is what
# layers with 64 features and 4 heads take, in milliseconds:
#
# ![A layer of attention, and the two forms of DeltaNet and of Gated
# DeltaNet.](table:performance.delta_net)
#
# So on a CPU a short text costs more than with attention. With 4,096 tokens, training
# takes about as long, and a forward pass half as long. (PyTorch's attention is faster
# still.) A single token, in generation, takes the same time after any number of tokens.

# ## Chunks before their memory is known
#
# You can skip this section, unless you want to read a program for GPUs. Our chunks are
# solved one after the other, because `right` contains the memory. For a GPU this is too
# slow. Let $A$ be the `overlaps` below the diagonal, and $I$ the ones on it. Then we
# solved $(I + A) \, u = \beta V - \beta K S_0$. The equations are linear, so we may
# solve for each part of the right side alone, and subtract:
#
# $$u = \underbrace{(I + A)^{-1} \beta V}_{\text{of the values}}
#     - \underbrace{(I + A)^{-1} \beta K}_{\text{of the keys}} \, S_0$$
#
# ($(I + A)^{-1}$ stands for solving.) The memory only multiplies the second part
# afterwards. So both parts can be solved for *all* chunks at once. What remains to be
# done in order are a few products. [Exercise 4](#exercises) does it. On one CPU core it
# gains nothing: solving for the keys as well costs what waiting less saves. In papers
# you find this under the names *UT transform* and *WY representation*
# ([@yang2024parallelizing, §3.2]).

# ## Common mistakes
#
# * **Keys are not normalised**: the loss is fine for a while and then NaN. A write
#   multiplies the old answer by $1 - \beta |k|^2$, which must not be below −1.
# * **The memory has 16 bits**: small errors are rounded away, and the network stops
#   learning what is far back.
# * **The state of the convolution is not passed on**: the first three tokens of each
#   chunk are read as if they began the text. You notice it only in generation.

# ## Differences from the papers
#
# <details><summary>Feature maps, shapes, scaling</summary>
#
# * **2021.** Schlag, Irie and Schmidhuber ([-@schlag2021linear]) map keys and queries
#   by a fixed function to more features, and divide them by the sum of these. There is
#   no convolution. The SiLU and the division by the length came later
#   ([-@yang2024parallelizing]).
# * **Shapes.** The papers write vectors as columns, and the memory is transposed.
# * **Scaling.** Other implementations divide queries by $\sqrt{d_k}$. The norm that
#   follows would take it out again.
#
# </details>

# ## Exercises
#
# **1.** Is a write really one step of gradient descent? Take the loss $\frac12 |v - k
# S|^2$, compute its gradient with autograd, and go one step with the learning rate
# $\beta$. Compare with `delta_rule_loop`.
#
# <details><summary>Answer</summary>
#
# The gradient is $-k^\top (v - k S)$. So the step adds $\beta$ times the outer product
# of key and error.
#
# ```python
# import torch
# from labml_nn.recurrent.delta_net import delta_rule_loop
#
# torch.manual_seed(0)
# k = torch.nn.functional.normalize(torch.randn(1, 1, 1, 5), dim=-1)
# v, memory = torch.randn(1, 1, 1, 3), torch.randn(1, 1, 5, 3)
# beta = torch.tensor([[[0.3]]])
# _, written = delta_rule_loop(k, k, v, beta, memory)
#
# weight = memory.clone().requires_grad_()
# optimizer = torch.optim.SGD([weight], lr=0.3)
# loss = (v[0] - (k[0, :, :, None] @ weight)[..., 0, :]).square().sum() / 2
# loss.backward()
# optimizer.step()
# torch.testing.assert_close(written, weight.detach())
# ```
#
# </details>
#
# **2.** When is the delta rule the same as linear attention? Find keys for which
# `delta_rule_loop` and `linear_attention_loop` return the same.
#
# <details><summary>Answer</summary>
#
# Where the memory answers 0 to each new key, the error is the value. So with $\beta =
# 1$ they agree if all keys are at right angles. Only as many keys as features can be.
#
# ```python
# import torch
# from labml_nn.recurrent.delta_net import delta_rule_loop
# from labml_nn.recurrent.linear_attention import linear_attention_loop
#
# torch.manual_seed(0)
# rotation, _ = torch.linalg.qr(torch.randn(6, 6))
# k, v = rotation.view(6, 1, 1, 6), torch.randn(6, 1, 1, 3)
# one, empty = torch.ones(6, 1, 1), torch.zeros(1, 1, 6, 3)
# delta = delta_rule_loop(k, k, v, one, empty)
# added = linear_attention_loop(k, k, v, empty)
# torch.testing.assert_close(delta, added)
# # A seventh key must be similar to some of them, and the two differ.
# k, v = torch.cat([k, k[:1]]), torch.cat([v, v[1:2]])
# delta = delta_rule_loop(k, k, v, torch.ones(7, 1, 1), empty)
# assert not torch.allclose(delta[1], linear_attention_loop(k, k, v, empty)[1])
# ```
#
# </details>
#
# **3.** You read zeros and ones, and want to know whether the number of ones so far is
# odd. Do it by hand with a memory of a *single* number, and $\beta$ up to 2.
#
# <details><summary>Hint</summary>
#
# Let 1 stand for even and −1 for odd. What does a token do to the memory whose value is
# 0 and whose $\beta$ is 2?
#
# </details>
#
# <details><summary>Answer</summary>
#
# It replaces $S$ by $S + 2 \, (0 - S) = -S$. So each one flips the sign, and a zero has
# $\beta = 0$. With $\beta \le 1$ the factor $1 - \beta$ is at least 0, and no sign ever
# changes. Can it be learned? We trained two layers of 32 features for 600 updates on
# the task [`parity`](../experiments/memory.py), with one seed. With `allow_neg_eigval`
# all answers were right, and without it 64 %.
#
# ```python
# import torch
# from labml_nn.recurrent.delta_net import delta_rule_loop
#
# bits = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1])
# k, v = torch.ones(9, 1, 1, 1), torch.zeros(9, 1, 1, 1)
# beta = 2.0 * bits.view(9, 1, 1)
# found, _ = delta_rule_loop(k, k, v, beta, torch.ones(1, 1, 1, 1))
# odd = (found.flatten() < 0).long()
# print(odd.tolist())
# assert odd.tolist() == (bits.cumsum(0) % 2).tolist()
# ```
#
# </details>
#
# **4.** Solve for all chunks before any memory is known, as in the section above.
# Compare with `delta_rule_chunks`.
#
# <details><summary>Answer</summary>
#
# One call solves for values and keys, side by side, in all chunks. The loop that is
# left has four products and no equations.
#
# ```python
# import torch
# from labml_nn.recurrent.delta_net import delta_rule_chunks
#
# def all_chunks(q, k, v, beta, memory, chunk):
#     # Chunks become an axis of their own, [n, B, H, chunk, features].
#     q, k, v, beta = (
#         part.unflatten(0, (-1, chunk)).permute(0, 2, 3, 1, 4)
#         for part in (q, k, v, beta[..., None])
#     )
#     overlaps, right = beta * (k @ k.mT), beta * torch.cat([v, k], dim=-1)
#     solved = torch.linalg.solve_triangular(
#         overlaps, right, upper=False, unitriangular=True
#     )
#     of_values, of_keys = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
#     scores, found = (q @ k.mT).tril(), []
#     for n in range(len(q)):
#         error = of_values[n] - of_keys[n] @ memory
#         found.append(q[n] @ memory + scores[n] @ error)
#         memory = memory + k[n].mT @ error
#     return torch.stack(found).permute(0, 3, 1, 2, 4).flatten(0, 1), memory
#
# torch.manual_seed(0)
# q, k = torch.nn.functional.normalize(torch.randn(2, 24, 2, 3, 5), dim=-1)
# v, beta = torch.randn(24, 2, 3, 7), torch.rand(24, 2, 3)
# memory = torch.randn(2, 3, 5, 7)
# expected = delta_rule_chunks(q, k, v, beta, memory)
# torch.testing.assert_close(all_chunks(q, k, v, beta, memory, 8), expected)
# ```
#
# </details>
