r"""
---
title: Gated DeltaNet
summary: >
  A DeltaNet that can also forget: before each token, its whole memory fades as much as
  the token says. What it finds passes a gate.
paper: https://arxiv.org/abs/2412.06464
compare: labml_nn.recurrent.delta_net
notebook: notebooks/gated_delta_net.ipynb
tones: {query: 3, q: 3, key: 1, k: 1, value: 2, v: 2, memory: 5, error: 6, loss: 6}
---

*Ann has 3 apples and 1 pear. Ben has 2 apples and 4 pears. Chapter two begins.* What
does Cleo have? We have not heard of her. But a [DeltaNet](delta_net.py) answers. Its
memory is still full of chapter one, and Cleo's key, (0.6, 0.8), is similar to those of
Ann, (1, 0), and Ben, (0, 1). So it finds ${0.6 \cdot (3, 1)} + {0.8 \cdot (2, 4)} =
(3.4, 3.8)$, more than three apples and nearly four pears that nobody has. The delta
rule could remove such old numbers only key by key. It is simpler to let the whole
memory fade.

![Rows are people, columns fruits. In chapter two Cleo is
asked.](figure:gated_delta_net.chapters)

**Multiply it by a number.** Before each token, the memory is multiplied by $\alpha$,
from 0 to 1, which the network computes from the token. Near 1 nearly all is kept. Near
0 the page is turned. With $\alpha = 0.1$ a tenth is left, and Cleo's key finds (0.34,
0.38). Is this "nothing"? It is a tenth of an answer, and what is written from now on
has ten times its strength. A small network, as that of the task below, can learn to
take a weak answer for none. (In a whole layer a norm brings any answer to a usual size.
There it counts how much of it is old, and how much is new.)

![All numbers shrink alike.](figure:gated_delta_net.fading)

## Fade, read, error, write

Now we hear of her: *In chapter two, Cleo has 5 apples.* Each of our three sentences is
a token. This one begins a chapter, so let its $\alpha$ be 0.1. The two before it have
$\alpha = 1$. Follow the third. Then let more or less be kept.

1. **Fade.** A tenth of all numbers is left: (0.3, 0.1) of Ann, and (0.2, 0.4) of Ben.

2. **Read.** Cleo's key finds ${0.6 \cdot (0.3, 0.1)} + {0.8 \cdot (0.2, 0.4)} = (0.34,
   0.38)$.

3. **Error.** She has (5, 0), so the error is ${(5, 0)} - {(0.34, 0.38)} = (4.66,
   -0.38)$.

4. **Write.** To the rows we add 0.6 times and 0.8 times the error, as in DeltaNet.

![Numbers are rounded to two digits. All of the error is written, β =
1.](figure:gated_delta_net.rule)

Here are the three tokens, with all digits. The answer is that of the faded memory:

| token | share kept, $\alpha$ | answer | error | memory after, row 1 | row 2 |
|:--|:--|:--|:--|:--|:--|
| Ann, (3, 1) | 1 | (0, 0) | (3, 1) | (3, 1) | (0, 0) |
| Ben, (2, 4) | 1 | (0, 0) | (2, 4) | (3, 1) | (2, 4) |
| Cleo, (5, 0) | 0.1 | (0.34, 0.38) | (4.66, −0.38) | (3.096, −0.128) | (3.928, 0.096) |

Asked again, Cleo finds ${0.6 \cdot (3.096, -0.128)} + {0.8 \cdot (3.928, 0.096)} = (5,
0)$. This is no merit of $\alpha$: what was written last is found in any case. But look
at the others. In a memory that has heard of nobody but Cleo, Ann's key finds (3, 0):
these are Cleo's apples, 0.6 times 5, because the keys are similar. Chapter two should
find no more. In the memory that has faded she finds nearly this, and otherwise (3.96,
−1.28), a mixture of both chapters.

![The memory after Cleo, three times; the left one is what it should be. Ann's key finds
the first row, and Ben's the second.](figure:gated_delta_net.fresh)

## When a chapter ends

Does a network learn to turn the page? Again names get numbers. Now and then a new
chapter begins, which a mark on its first pair tells. After each pair a name is asked
for its last number *in this chapter*. If it has none there, the answer is "none".

![Pale numbers are of an earlier chapter.](figure:gated_delta_net.asked)

There are 8 names and 16 numbers. Of two small networks only one has an $\alpha$. All
else is alike: both learn keys, values and $\beta$ of each token, which may depend on
the mark. Each is trained five times. With $\alpha$ all five are right in at least 99 %
of the tests.

Without it they are right in 64 to 68 %. What do they do? A mark stands on one pair, and
the delta rule can replace only what *its* key finds. All other names keep their old
numbers, which look like new ones. So these networks mostly answer "none". That is right
in 91 to 97 % of the cases in which a name has nothing, and these are about half of all
cases. But if it *has* a number, they find it in only 35 to 47 %.

![[How it was measured](#the-task-of-chapters). Tested from the second chapter on. Who
always says "none" has 0 on the left, and 1 on the
right.](figure:gated_delta_net.by_chapter)

## The formula and the layer

**In one formula.** The memory fades, the error is written, and the query reads:

\begin{align}
S'_t &= \alpha_t \, S_{t-1} \\
S_t &= S'_t + \beta_t \, k_t^\top (v_t - k_t S'_t) \\
y_t &= q_t S_t
\end{align}

With $\alpha_t = 1$ this is DeltaNet.

![With the numbers of Cleo's sentence. Boxes lead to the
code.](figure:gated_delta_net.chain)

So there are now two ways to lose something. $\beta$ replaces what *one* key finds, and
$\alpha$ fades *all* of it. The transition of the memory is $\alpha_t (I - \beta_t
k_t^\top k_t)$. This is **Gated DeltaNet** ([@yang2024gated]). [Mamba-2](mamba2.py), the
next lesson, has only the fading.

![Left: Ann's key comes with the value (0, 0), and only her row
changes.](figure:gated_delta_net.two_ways)

**How slowly must a memory fade?** If each token keeps 0.9 of it, then after ten tokens
$0.9^{10} = 0.35$ is left, and with 0.99 it is 0.90. So to keep something for long, a
network needs an $\alpha$ very near to 1, except where a page is turned. A head may also
want less. The one that you can [try below](#try-it) keeps 0.86 at a letter. So half is
gone after five letters, and all at a space. It remembers a word.

![Three memories that fade.](figure:gated_delta_net.left_over)

**How is α computed?** As for $\beta$, there is a sum $z$ of the token's features, times
learned weights. It says how much to *forget*. So a sigmoid of $-z$ makes it the share
that is kept, $\sigma(-z)$, from 0 to 1. But heads should have paces of their own: one
remembers a word, and another a page. So each raises the share to a power that it
learns, $\alpha = \sigma(-z)^a$. Let $\sigma(-z)$ be 0.9. With $a = 0.1$ the head keeps
$0.9^{0.1} = 0.99$, and with $a = 16$ only $0.9^{16} = 0.19$. (The paper, and the code
below, write the same number as $e^{-a \Delta}$, with $\Delta = -\log \sigma(-z)$.)

![Four heads with different powers. At the dashed line σ(−z) is
0.9.](figure:gated_delta_net.powers)

**A second gate.** A factor that decides how much passes is called a **gate**, and
$\alpha$ is one. There is another at the output, a factor for each number that the heads
found. It is the SiLU of a sum, $z \cdot \sigma(z)$: nearly $z$ if $z$ is large, and
nearly 0 if it is negative. (So it can enlarge, too.) Let a head have found (2, −1), and
let the two sums be 2 and −4. Then the first number passes, and of the second nearly
nothing. So a token that needs nothing from the memory lets nothing through.

![The gate with these numbers.](figure:gated_delta_net.second_gate)

**The layer** is that of DeltaNet, with two more projections, for α and for the gate.

![The input goes up through learned matrices, the convolution and activation functions
to the memory, and past it to the gate.](figure:delta_net.gated_layer)

**Where you meet it.** In Qwen3-Next three of four layers are Gated DeltaNets, and the
fourth has attention. Kimi Linear has a finer variant, with an $\alpha$ for each feature
of a key ([@kimi2025linear]). In the Olmo models most layers had an attention that sees
only the last tokens, and Olmo Hybrid has Gated DeltaNets in place of them
([@olmo2026hybrid]). On [small models](#is-forgetting-a-gain) there is a section in the
reference part.

![A mixture of both.](figure:gated_delta_net.mixed)

## The whole in code

The line `# fade` is new to [DeltaNet](delta_net.py#the-whole-in-code), and the last
line has the gate. `alpha` is $\sigma(-z)^a$ for all tokens, and `keep` that of one.
`rate` is $\beta$. `A_log` is the logarithm of $a$, so that $a$ is always positive.
`linear` makes a learned matrix that is as wide as it is told. The module below computes
the same.

```python
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F


class GatedDeltaNet(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        linear, wide = partial(nn.Linear, d_model, bias=False), 3 * d_model
        self.qkv, self.gate, self.output = map(linear, (wide, d_model, d_model))
        self.beta, self.alpha = linear(heads), linear(heads, bias=True)
        self.A_log = nn.Parameter(torch.zeros(heads))
        self.norm = nn.RMSNorm(d_model // heads, eps=1e-5)
        self.conv = nn.Conv1d(wide, wide, kernel_size=4, groups=wide, bias=False)

    def forward(self, x):  # one text, [T, C]
        mixed = F.silu(self.conv(F.pad(self.qkv(x).T, (3, 0)))).T
        q, k, v = mixed.unflatten(1, (3, len(self.A_log), -1)).unbind(1)  # [T, H, D]
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        alpha, S, y = torch.sigmoid(-self.alpha(x)) ** self.A_log.exp(), 0.0, []
        for q_t, k_t, v_t, keep, rate in zip(q, k, v, alpha, self.beta(x).sigmoid()):
            S = keep[:, None, None] * S  # fade
            error = v_t - torch.einsum("hd,hde->he", k_t, S)  # read
            S = S + torch.einsum("h,hd,he->hde", rate, k_t, error)  # write
            y.append(torch.einsum("hd,hde->he", q_t, S))  # ask
        return self.output(self.norm(torch.stack(y)).flatten(1) * F.silu(self.gate(x)))


print(GatedDeltaNet(d_model=8, heads=2)(torch.randn(5, 8)).shape)  # torch.Size([5, 8])
```

## Try it

What does a trained head still have of each character? The product of the $\alpha$ of
all characters from there to here. In the first layer, head 1 has learned to turn the
page at each space. Let it forget more slowly, or not at all, and watch the loss: the
mean of $-\log$ of the probabilities that the model gave to the right characters (its
unit is the **nat**). The model was trained with forgetting, so it is no fair comparison
with a DeltaNet, but it shows what the model relies on:

![What is left, row by row: the product of α up to the character of the
row.](figure:live.forgets)

<details><summary>Symbols, their code and shapes</summary>

Those of [DeltaNet](delta_net.py), and three more:

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $q_t$ | `q` | `[T, B, H, D]` | queries, of length 1 |
| $k_t$ | `k` | `[T, B, H, D]` | keys, of length 1 |
| $v_t$ | `v` | `[T, B, H, Dv]` | values |
| $\beta_t$ | `beta` | `[T, B, H]` | which share of the error is written |
| $\log \alpha_t$ | `log_alpha` | `[T, B, H]` | logarithm of the share that is kept |
| $\gamma_t$ | `gamma` | `[B, H, T, 1]` | share that is left of the memory before |
| $S$ | `memory` | `[B, H, D, Dv]` | the memory, a matrix for each head |
| $S'$ | `memory` | `[B, H, D, Dv]` | the same, faded |
| $y_t$ | `found` | `[T, B, H, Dv]` | what the queries find |

</details>
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_attention, check_bool, check_sizes
from labml_nn.language_model import at_least_single

__all__ = [
    "GatedDeltaNet",
    "GatedDeltaNetState",
    "ShortConvolution",
    "gated_delta_rule_chunk",
    "gated_delta_rule_chunks",
    "gated_delta_rule_loop",
]


def gated_delta_rule_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The loop

    The arguments are those of [DeltaNet](delta_net.py#delta_rule_loop), and one more:

    * `q`, `k`: queries and keys, of length 1, `[T, B, H, D]`
    * `v`: values, `[T, B, H, Dv]`
    * `beta`: which share of the error is written, `[T, B, H]`
    * `log_alpha`: the logarithm of the share of the memory that is kept, `[T, B, H]`; 0
      keeps all of it; the [next section](#gated_delta_rule_chunk) needs logarithms
    * `memory`: what was written before, `[B, H, D, Dv]`

    Returns what each query found, `[T, B, H, Dv]`, and the memory after the last token.
    """
    found = []
    steps = zip(q, k, v, beta, log_alpha, strict=True)
    for q_t, k_t, v_t, beta_t, log_alpha_t in steps:
        # **Forget**: the whole memory fades. This must come first. An answer of the old
        # memory would be larger than what is still there.
        memory = log_alpha_t.exp()[..., None, None] * memory

        # **Read** what is left of the answer to this key. For Cleo it is (0.34, 0.38).
        answer = (k_t[..., None, :] @ memory)[..., 0, :]

        # **Write** the error, under the same key. For Cleo it is (4.66, −0.38).
        error = v_t - answer
        written = beta_t[..., None] * error
        memory = memory + k_t[..., :, None] * written[..., None, :]

        # **Answer** the query.
        found.append((q_t[..., None, :] @ memory)[..., 0, :])
    return torch.stack(found), memory


def gated_delta_rule_chunk(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## All tokens at once

    As [without forgetting](delta_net.py#delta_rule_chunk), the errors $u_t$ solve a
    system of linear equations. Only now each error has faded until a later token finds
    it. For the third of our tokens, Cleo's, which turned the page:

    $$u_3 = v_3 - 0.1 \cdot 0.6 \, u_1 - 0.1 \cdot 0.8 \, u_2$$

    With numbers, $(5, 0) - 0.06 \cdot (3, 1) - 0.08 \cdot (2, 4) = (4.66, -0.38)$, the
    same as in the table. So each dot product of two keys is multiplied by what is left,
    and all else stays as it is.

    The arguments are those of the loop, and so is the result.
    """
    # Tokens and features become the last two axes, for products of matrices. `beta` and
    # `log_alpha` become columns.
    q, k, v = (part.permute(1, 2, 0, 3) for part in (q, k, v))
    beta, log_alpha = (part.permute(1, 2, 0)[..., None] for part in (beta, log_alpha))

    # With forgetting, what was written at token $s$ has faded by $\alpha_{s+1} \cdots
    # \alpha_t$ at token $t$. How do we get this product for all pairs? With $\gamma_t =
    # \alpha_1 \cdots \alpha_t$ it is $\gamma_t / \gamma_s$. But a long product of small
    # numbers is rounded to 0, and $0 / 0$ is no number. So we add *logarithms*. Why not
    # add them once, and take differences $\log \gamma_t - \log \gamma_s$ for all pairs?
    # After a token with $\log \alpha = -300$ the running sum has lost the digits in
    # which later ones differ. So each column $s$ is added up by itself, after token
    # $s$.
    after = k.new_ones(k.shape[-2], k.shape[-2], dtype=torch.bool).tril(-1)
    log_fading = torch.where(after, log_alpha, 0.0).cumsum(-2)

    # Nothing can be read before it is written. Above the diagonal the sums are empty,
    # $e^0 = 1$, and `tril` makes them 0.
    fading = log_fading.exp().tril()
    gamma = log_alpha.cumsum(-2).exp()

    # The matrix of the equations: how much of the error at $s$ is left at $t$, and
    # found by the key there.
    overlaps = beta * fading * (k @ k.mT)

    # The right side: values, minus what the keys find in the memory before this chunk.
    right = beta * (v - gamma * (k @ memory))

    # All that is written is
    # $u_t = \beta_t \big( v_t - \gamma_t \, k_t S_0
    #     - \sum_{s<t} \frac{\gamma_t}{\gamma_s} (k_t \cdot k_s) \, u_s \big)$.
    written = torch.linalg.solve_triangular(
        overlaps, right, upper=False, unitriangular=True
    )

    # A query finds what is left of the memory before, and of the errors up to now. In
    # `fading` all is 0 above the diagonal.
    found = gamma * (q @ memory) + (fading * (q @ k.mT)) @ written

    # The last row of `fading` says how much of each error is left at the end.
    left = fading[..., -1:, :].mT
    memory = gamma[..., -1:, :] * memory + (left * k).mT @ written
    return found.permute(2, 0, 1, 3), memory


def gated_delta_rule_chunks(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
    chunk: int = 32,
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## Chunks

    We take 32 tokens at once, and hand the memory on.
    """
    found = []
    for t in range(0, len(k), chunk):
        now = slice(t, t + chunk)
        answers, memory = gated_delta_rule_chunk(
            q[now], k[now], v[now], beta[now], log_alpha[now], memory
        )
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


class GatedDeltaNetState(NamedTuple):
    """
    ## State

    * `memory`: a matrix for each head, `[B, H, D, Dv]`
    * `recent`: the last projections, for the short convolution, `[W-1, B, F]`
    """

    memory: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B F"]


class GatedDeltaNet(nn.Module):
    r"""
    ## The layer

    This is the layer of the figure. Beside keys, values and $\beta$ each token now
    computes $\alpha$, and the gate. It is a mixer of the [language
    model](language_model.py), which `labml_nn.create("delta_net", gated=True)` makes.
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

        # How much to forget. We write $\alpha = e^{-a \Delta}$. The rate $a$ is learned
        # for the head, whatever it reads. The time $\Delta$ for which it acts is
        # computed from the token. Both must be positive. So $\log a$ is learned, and
        # $\Delta$ is the softplus of a sum $z$, $\log(1 + e^z)$. (`log(expm1)` undoes
        # it.) At the start $a$ lies between 0 and 16, without 0, and $\Delta$ between
        # about 0.001 and 0.1. So most heads keep more than 0.9 from one token to the
        # next, and a few forget nearly all within a few tokens. The names are those of
        # [Mamba-2](mamba2.py), where this gate comes from.
        self.alpha = nn.Linear(d_model, heads, bias=False)
        dtype = torch.get_default_dtype()
        wide = torch.promote_types(dtype, torch.float32)
        rate = 16 * (1 - torch.rand(heads, dtype=wide))
        self.A_log = nn.Parameter(rate.log().to(dtype))
        shortest, longest = math.log(0.001), math.log(0.1)
        duration = torch.empty(heads, dtype=wide).uniform_(shortest, longest).exp()
        self.dt_bias = nn.Parameter(duration.expm1().log().to(dtype))

        # What the heads show passes a gate as well, a factor for each feature.
        self.gate = nn.Linear(d_model, heads * self.d_v, bias=False)

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
    ) -> tuple[Float[Tensor, "T B C"], GatedDeltaNetState]:
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

        # Keys have length 1, or the memory would explode.
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)

        # Which share of the error is written. With $\beta$ up to 2 a token can [flip
        # the sign](delta_net.py#DeltaNet.forward) of what it finds.
        beta = torch.sigmoid(at_least_single(self.beta(x)))
        if self.allow_neg_eigval:
            beta = 2 * beta

        # Which share of the memory is kept: $\log \alpha = -a \Delta$.
        duration = F.softplus(at_least_single(self.alpha(x)) + self.dt_bias)
        log_alpha = -at_least_single(self.A_log).exp() * duration

        # Padding writes nothing, and lets nothing fade.
        if mask is not None:
            padding = ~mask[..., None]
            beta = beta.masked_fill(padding, 0.0)
            log_alpha = log_alpha.masked_fill(padding, 0.0)

        # A single token, as in generation, is one step of the loop. A longer text takes
        # the chunks.
        if memory is None:
            memory = v.new_zeros(x.shape[1], self.heads, self.d_k, self.d_v)
        rule: Callable[..., tuple[Tensor, Tensor]] = (
            gated_delta_rule_loop if len(x) == 1 else gated_delta_rule_chunks
        )
        found, memory = rule(q, k, v, beta, log_alpha, memory)

        # Normalise, let through what the gate lets through, and mix the heads.
        y = self.norm(found.to(x.dtype))
        y = y * F.silu(torch.unflatten(self.gate(x), -1, (self.heads, -1)))
        return self.output(y.flatten(-2)), GatedDeltaNetState(memory, recent)


# ## The example as a program
#
# ```python
# import torch
# from labml_nn.recurrent.gated_delta_net import (
#     gated_delta_rule_chunks, gated_delta_rule_loop
# )
#
# k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]).view(3, 1, 1, 2)
# v = torch.tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0]]).view(3, 1, 1, 2)
# beta = torch.ones(3, 1, 1)
# log_alpha = torch.tensor([1.0, 1.0, 0.1]).log().view(3, 1, 1)
# empty = torch.zeros(1, 1, 2, 2)
#
# found, memory = gated_delta_rule_loop(k, k, v, beta, log_alpha, empty)
# print(memory[0, 0])
# torch.testing.assert_close(
#     gated_delta_rule_chunks(k, k, v, beta, log_alpha, empty), (found, memory)
# )
# ```

# ## The task of chapters
#
# At each step one of 8 names gets one of 16 numbers, and with probability 1/8 a mark
# says that a chapter begins with it. Then one of the 8 names is asked. Both networks
# have one memory for keys and values of 16 features. Keys, values, $\beta$ and $\alpha$
# are linear maps of a one-hot vector of name, number and mark, and so is the query, of
# the name that is asked. A linear output has 17 answers. Each is trained for 300
# updates on 32 new sequences of 32 steps, by Adam with a learning rate of 0.02. A run
# takes two to four seconds of CPU time. All are tested on the same 500 sequences of 256
# steps, from the second chapter on.
#
# Why a mark, and not a token of its own? With such a token, which has a key of its own,
# a DeltaNet of this size learned the task nearly as well (99 % with one seed, and 100 %
# with $\alpha$). Its names can share a direction, under which the token writes.

# ## Is forgetting a gain?
#
# On Shakespeare it is. Trained from scratch, at equal parameters, a Gated DeltaNet has
# a loss of 1.835 nats per character, and a DeltaNet 1.886. The gate wins with every
# seed ([results](../../results.md#ten-models-at-equal-parameters)). Where everything
# has to be kept it is the other way round. In [recall](../experiments/memory.py) the
# median of the right answers is 58 %, and 100 % without the gate. The reason is only in
# part that the memory fades. [More is lost at the gate of the
# output](../../memory.md#does-it-show).
#
# The model [above](#try-it) relies on heads that turn the page. On three speeches that
# it was trained on its loss is 1.29, and 2.02 if you then set $\alpha$ to 1.

# ## Cost
#
# $\alpha$ and $\beta$ are a number for each head and token, and the gate is one more
# matrix of $C^2$ numbers. So the layer has about $5 C^2$ parameters where DeltaNet has
# $4 C^2$. The state is as large as there. The [table on that page](delta_net.py#cost)
# has the times of both.

# ## Common mistakes
#
# * **The answer is read before the memory fades**: no exception, and the loss falls.
#   But what is subtracted is more than what is still there. A test beside another
#   implementation finds it.
# * **The mask comes after the exponential**: the result is right and the gradient is
#   NaN, as infinity times 0 has no value.
# * **$\alpha$ is multiplied up**: with a strong decay the products become 0, and then
#   $0 / 0$. Add logarithms.
# * **Padding lets the memory fade**: its $\beta$ is 0, and its $\alpha$ is not 1. Both
#   must do nothing.

# ## Differences from the paper
#
# * **Heads.** In Qwen3-Next two value heads share a key. Here each head has its own.
# * **Scaling.** Other implementations divide queries by $\sqrt{d_k}$. The norm that
#   follows would take it out again.

# ## Exercises
#
# **1.** Which $\alpha$ makes a DeltaNet of it? Compare `gated_delta_rule_loop` with
# `delta_rule_loop`.
#
# <details><summary>Answer</summary>
#
# With $\alpha = 1$ nothing fades. Its logarithm is 0.
#
# ```python
# import torch
# from labml_nn.recurrent.delta_net import delta_rule_loop
# from labml_nn.recurrent.gated_delta_net import gated_delta_rule_loop
#
# torch.manual_seed(0)
# q, k = torch.nn.functional.normalize(torch.randn(2, 9, 2, 3, 5), dim=-1)
# v, beta = torch.randn(9, 2, 3, 7), torch.rand(9, 2, 3)
# memory = torch.randn(2, 3, 5, 7)
# gated = gated_delta_rule_loop(q, k, v, beta, torch.zeros(9, 2, 3), memory)
# torch.testing.assert_close(gated, delta_rule_loop(q, k, v, beta, memory))
# ```
#
# </details>
#
# **2.** A pair is written, and then come tokens that write nothing and have $\alpha =
# 0.9$. After how many of them is less than half of the value found? And with 0.99?
#
# <details><summary>Answer</summary>
#
# Of the value $0.9^t$ is left, which is less than a half from $t = 7$ on, and with 0.99
# from $t = 69$ on.
#
# ```python
# import torch
# from labml_nn.recurrent.gated_delta_net import gated_delta_rule_loop
#
# for alpha, expected in ((0.9, 7), (0.99, 69)):
#     k, v = torch.ones(100, 1, 1, 1), torch.ones(100, 1, 1, 1)
#     beta = torch.zeros(100, 1, 1)
#     beta[0] = 1.0  # only the first token writes
#     fades = torch.full((100, 1, 1), alpha).log()
#     found, _ = gated_delta_rule_loop(k, k, v, beta, fades, torch.zeros(1, 1, 1, 1))
#     below = (found.flatten() < 0.5).nonzero()[0].item()
#     print(alpha, below)
#     assert below == expected
# ```
#
# </details>
#
# **3.** What does Cleo find if the answer is read *before* the memory fades, and the
# error is written after it?
#
# <details><summary>Answer</summary>
#
# The old memory answers (3.4, 3.8), and only a tenth of that is still there. So nine
# tenths too much are subtracted: she finds $(5, 0) - 0.9 \cdot (3.4, 3.8) = (1.94,
# -3.42)$.
#
# ```python
# import torch
#
# memory = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
# key, value, alpha = torch.tensor([0.6, 0.8]), torch.tensor([5.0, 0.0]), 0.1
# error = value - key @ memory  # too early
# memory = alpha * memory + key[:, None] * error
# print(key @ memory)
# torch.testing.assert_close(key @ memory, torch.tensor([1.94, -3.42]))
# ```
#
# </details>
