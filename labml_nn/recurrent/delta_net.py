r"""
---
title: DeltaNet and Gated DeltaNet
summary: >
  Linear attention that replaces instead of adding: it reads what its memory answers to
  a key, and writes the error. With a gate it also forgets.
paper: https://arxiv.org/abs/2406.06484
---

*Ann has 3 apples and 1 pear. Ben has 2 apples and 4 pears. Ann eats two apples, so she
has 1 apple and 1 pear.* What does Ann have? One apple and one pear, of course. You have
not added the third sentence to the first. You have *replaced* what you knew about Ann,
and left alone what you knew about Ben.

The memory of [linear attention](linear_attention.py) cannot do this. It is a matrix
$S$. Each token writes a pair into it, a **key** (whom it is about) and a **value**
(what is to be remembered). To write means to add the outer product of both. To read,
multiply a key by the matrix. Let the key of Ann be (1, 0), and that of Ben (0, 1). Then
Ann has the first row of the memory and Ben the second, and the three sentences leave

$$S = \begin{pmatrix} 3 & 1 \\ 0 & 0 \end{pmatrix}
    + \begin{pmatrix} 0 & 0 \\ 2 & 4 \end{pmatrix}
    + \begin{pmatrix} 1 & 1 \\ 0 & 0 \end{pmatrix}
    = \begin{pmatrix} 4 & 2 \\ 2 & 4 \end{pmatrix}$$

Ask for Ann, and you get 4 apples and 2 pears. That is the old value plus the new one.
Adding never removes anything.

**Read first, then write the difference.** Before the third sentence the memory answers
(3, 1) to Ann's key. It should answer (1, 1). The difference is (−2, 0): two apples too
many. This is what we write, the **error**, and not the value:

$$S = \begin{pmatrix} 3 & 1 \\ 2 & 4 \end{pmatrix}
    + \begin{pmatrix} 1 \\ 0 \end{pmatrix} \begin{pmatrix} -2 & 0 \end{pmatrix}
    = \begin{pmatrix} 1 & 1 \\ 2 & 4 \end{pmatrix}$$

Now Ann has (1, 1), and Ben still has (2, 4). The idea is much older than attention. It
is called the **delta rule**, as *delta* is the letter for a difference
([@widrow1960adaptive]). In a memory of keys and values it came up in 2021
([@schlag2021linear]), and a network that is built from it is a **DeltaNet**
([@yang2024parallelizing]).

**What if keys are not at right angles?** Let Cleo come in, with 5 apples. There is no
third direction at right angles to both, so let her key be (0.6, 0.8). You can check
each line of this table. The answer is the key times the memory of the line above, the
error is the value minus the answer, and each number of the key adds so many times the
error to a row of the memory:

| pair | answer before | error | memory after, row 1 | row 2 |
|:--|:--|:--|:--|:--|
| Ann, (3, 1) | (0, 0) | (3, 1) | (3, 1) | (0, 0) |
| Ben, (2, 4) | (0, 0) | (2, 4) | (3, 1) | (2, 4) |
| Ann, (1, 1) | (3, 1) | (−2, 0) | (1, 1) | (2, 4) |
| Cleo, (5, 0) | (2.2, 3.8) | (2.8, −3.8) | (2.68, −1.28) | (4.24, 0.96) |

Cleo now gets $0.6 \cdot (2.68, -1.28) + 0.8 \cdot (4.24, 0.96) = (5, 0)$, exactly what
she has. But Ann and Ben have been disturbed, because their keys are similar to hers. So
the *last* pair can always be found, and older ones only as far as later keys are at
right angles to theirs. With two features that is little. Here keys have 16 features,
and we write many random pairs:

![How often the value of a key is found, by how many pairs were written since, for
random keys of 16 features.](figure:delta_net.recall)

**How much to believe?** Not every token brings news. So the network computes a number
$\beta$ for each token, from 0 to 1, and writes $\beta$ times the error. With 1 the
answer is replaced, with 0 nothing is written, and with 0.5 it moves half of the way.

If you have trained a network, you have seen this before. The memory is a small network
with one layer, $v \approx k S$. Its loss for a pair is half of the squared error, and
the gradient of that loss is minus the outer product of key and error. So each token is
*one step of gradient descent*, and $\beta$ is its learning rate. While the large
network reads, it trains a small one.

## Forgetting

The story ends, and the next one is about other people. Nobody corrects Ann any more,
but what she had is still in the memory, and it disturbs all who have similar keys. The
delta rule could clear it only key by key. It is simpler to let the whole memory fade.
Before each token, multiply it by a number $\alpha$ from 0 to 1, which the network
computes as well. Near 1 nearly all is kept. Near 0 the page is turned. This is **Gated
DeltaNet** ([@yang2024gated]).

**In one formula.** With the key $k_t$, the value $v_t$ and the query $q_t$ of a token
as rows, the memory fades, the error is written, and the query reads:

\begin{align}
S'_t &= \alpha_t \, S_{t-1} \\
S_t &= S'_t + \beta_t \, k_t^\top (v_t - k_t S'_t) \\
y_t &= q_t S_t
\end{align}

With $\alpha_t = 1$ this is DeltaNet. So there are two ways to lose something. $\beta$
replaces what stands under *one* key, and $\alpha$ fades *all* of it.

![A layer. Each token computes a key, a value, a query, and two numbers, α and β. The
memory fades, and what it answers to the key is subtracted from the
value.](figure:delta_net.layer)

**What it gains, and what it costs.** The memory has the same size after ten tokens and
after ten thousand, as in linear attention, and now it can be corrected. The price is
the product $k_t S'_t$. A token must know what the memory answers before it can write,
so the tokens seem to wait for each other. Most of this page is about how they need
[not](#delta_rule_chunk). And the memory is still a small matrix. It cannot hold
everything, so large models add a few layers of attention. In Qwen3-Next three of four
layers are Gated DeltaNets. Kimi Linear has a finer variant, with an $\alpha$ for each
feature of a key ([@kimi2025linear]), and Olmo Hybrid has Gated DeltaNets in place of
its sliding windows ([@olmo2026hybrid]).

```python
import torch
from labml_nn.recurrent.delta_net import delta_rule_chunks, delta_rule_loop

names = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0), "Cleo": (0.6, 0.8)}
who = ["Ann", "Ben", "Ann", "Cleo"]
what = [[3.0, 1.0], [2.0, 4.0], [1.0, 1.0], [5.0, 0.0]]
k = torch.tensor([names[name] for name in who]).view(4, 1, 1, 2)  # [T, B, H, D]
v = torch.tensor(what).view(4, 1, 1, 2)
beta, log_alpha = torch.ones(4, 1, 1), torch.zeros(4, 1, 1)  # alpha is 1
empty = torch.zeros(1, 1, 2, 2)

found, memory = delta_rule_loop(k, k, v, beta, log_alpha, empty)
print(memory[0, 0])
torch.testing.assert_close(found, v)  # each token finds what it wrote
torch.testing.assert_close(
    delta_rule_chunks(k, k, v, beta, log_alpha, empty), (found, memory)
)
```

<details><summary>Symbols, their code and shapes</summary>

In the shapes, T is the number of tokens and B that of sequences side by side. There are
H heads, each with a memory. A key has D features and a value Dv.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | input of the layer |
| $q_t$, $k_t$ | `q`, `k` | `[T, B, H, D]` | queries and keys, of length 1 |
| $v_t$ | `v` | `[T, B, H, Dv]` | values |
| $\beta_t$ | `beta` | `[T, B, H]` | which share of the error is written |
| $\log \alpha_t$ | `log_alpha` | `[T, B, H]` | logarithm of the share that is kept |
| $S$ | `memory` | `[B, H, D, Dv]` | the memory, a matrix for each head |
| $y_t$ | `found` | `[T, B, H, Dv]` | what the queries find |

</details>
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_attention, check_bool, check_sizes
from labml_nn.language_model import at_least_single
from labml_nn.recurrent.language_model import RecurrentConfig, RecurrentLanguageModel
from labml_nn.recurrent.linear_attention import ShortConvolution

__all__ = [
    "DeltaNet",
    "DeltaNetConfig",
    "DeltaNetLanguageModel",
    "DeltaNetState",
    "delta_rule_chunk",
    "delta_rule_chunks",
    "delta_rule_loop",
]


def delta_rule_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The loop

    This is the table above, line by line, for all heads and sequences at once.

    * `q`, `k`: queries and keys, of length 1, `[T, B, H, D]`
    * `v`: values, `[T, B, H, Dv]`
    * `beta`: which share of the error is written, `[T, B, H]`
    * `log_alpha`: the logarithm of the share of the memory that is kept, `[T, B, H]`; 0
      keeps all of it
    * `memory`: what was written before, `[B, H, D, Dv]`

    Returns what each query found, `[T, B, H, Dv]`, and the memory after the last token.
    """
    found = []
    steps = zip(q, k, v, beta, log_alpha, strict=True)
    for q_t, k_t, v_t, beta_t, log_alpha_t in steps:
        # **Forget**: the whole memory fades.
        memory = log_alpha_t.exp()[..., None, None] * memory

        # **Read** what it answers to this key. When Ann comes for the second time, this
        # is (3, 1).
        answer = (k_t[..., None, :] @ memory)[..., 0, :]

        # **Write** the error, under the same key. For Ann it is (−2, 0). Why is the
        # answer exactly (1, 1) from now on? The key has length 1, so it finds exactly
        # once what was just written under it: $(3, 1) + 1 \cdot (-2, 0)$.
        error = beta_t[..., None] * (v_t - answer)
        memory = memory + k_t[..., :, None] * error[..., None, :]

        # **Answer** the query. It may be similar to any key so far, this one included.
        found.append((q_t[..., None, :] @ memory)[..., 0, :])
    return torch.stack(found), memory


def delta_rule_chunk(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## All tokens at once

    The loop is slow, because each step is small and waits for the one before. What does
    it wait for? For the error, and so for the memory, and so for the *errors* before.
    But not for the memory itself. Let us write $u_1$ to $u_4$ for the four errors of
    our table. Cleo's key, the fourth, is times (0.6) similar to Ann's and 0.8 times to
    Ben's. So her answer is made of the errors that were written under their keys:

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
    the third, and so on. One call does it for all tokens.

    The arguments are those of the loop, and so is the result.
    """
    # Tokens and features become the last two axes, for products of matrices. `beta` and
    # `log_alpha` become columns.
    q, k, v = (part.permute(1, 2, 0, 3) for part in (q, k, v))
    beta, log_alpha = (part.permute(1, 2, 0)[..., None] for part in (beta, log_alpha))

    # With forgetting, what was written at token $s$ has faded by $\alpha_{s+1} \cdots
    # \alpha_t$ at token $t$. How do we get this product for all pairs? With $\gamma_t =
    # \alpha_1 \cdots \alpha_t$ it is $\gamma_t / \gamma_s$. But a long product of small
    # numbers is rounded to 0, and $0 / 0$ is no number. So we add *logarithms*, and
    # take differences: $e^{\log \gamma_t - \log \gamma_s}$.
    log_gamma = log_alpha.cumsum(-2)
    fading = log_gamma - log_gamma.mT

    # Nothing can be read before it is written. The difference is positive there, and
    # its exponential might be infinite, so it is replaced *before* the exponential.
    later = torch.ones_like(fading, dtype=torch.bool).triu(1)
    fading = fading.masked_fill(later, -math.inf).exp()
    gamma = log_gamma.exp()

    # The matrix of the equations: how much of the error at $s$ is found by the key at
    # $t$. It is the table of [attention](../transformers/mha.py), with keys in place of
    # queries. Its diagonal is not looked at, because `unitriangular` says that it is 1.
    overlaps = beta * fading * (k @ k.mT)

    # The right side: values, minus what the keys find in the memory before this chunk.
    right = beta * (v - gamma * (k @ memory))

    # This line replaces the loop. Here are all errors,
    # $u_t = \beta_t \big( v_t - \gamma_t \, k_t S_0
    #     - \sum_{s<t} \frac{\gamma_t}{\gamma_s} (k_t \cdot k_s) \, u_s \big)$.
    error = torch.linalg.solve_triangular(
        overlaps, right, upper=False, unitriangular=True
    )

    # Once the errors are known, the rest is linear attention with errors in place of
    # values. A query finds what was in the memory before, and the errors up to now.
    found = gamma * (q @ memory) + (fading * (q @ k.mT)) @ error

    # The last row of `fading` says how much of each error is left at the end.
    left = fading[..., -1:, :].mT
    memory = gamma[..., -1:, :] * memory + (left * k).mT @ error
    return found.permute(2, 0, 1, 3), memory


def delta_rule_chunks(
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

    All tokens at once need a table of $T \times T$ overlaps, which is too much for a
    long text. So we take 32 tokens at once, and hand the memory on. Now only every 32nd
    token waits.
    """
    found = []
    for t in range(0, len(k), chunk):
        now = slice(t, t + chunk)
        answers, memory = delta_rule_chunk(
            q[now], k[now], v[now], beta[now], log_alpha[now], memory
        )
        found.append(answers)
    return torch.cat(found), memory


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

    Where do keys, values, $\beta$ and $\alpha$ come from? All of them are computed from
    the input of a token and those just before it. This is the layer of the figure. It
    is a mixer, which stands where attention stood in the
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
        gated: bool = False,
        allow_neg_eigval: bool = False,
    ) -> None:
        r"""
        * `d_model`: features of a position, $C$
        * `heads`: memories side by side, $H$
        * `d_k`, `d_v`: features of a key and of a value in one head; by default $C / H$
        * `conv`: positions that a key, a query and a value are made of, $W$
        * `gated`: whether the memory forgets and the output has a gate (Gated DeltaNet)
        * `allow_neg_eigval`: whether $\beta$ reaches up to 2, see below
        """
        super().__init__()
        check_attention(heads, d_model, 0.0, d_k, d_v)
        check_sizes(conv=conv)
        check_bool(gated=gated, allow_neg_eigval=allow_neg_eigval)
        self.heads, self.gated, self.allow_neg_eigval = heads, gated, allow_neg_eigval
        self.d_k = d_k or d_model // heads
        self.d_v = d_v or d_model // heads

        # As in attention, queries, keys and values of all heads are three projections.
        # Then a [short convolution](linear_attention.py#ShortConvolution) lets each of
        # them see the tokens just before. A value often follows its key, as *3* follows
        # *Ann*, and both must come together to be written as a pair.
        self.query = nn.Linear(d_model, heads * self.d_k, bias=False)
        self.key = nn.Linear(d_model, heads * self.d_k, bias=False)
        self.value = nn.Linear(d_model, heads * self.d_v, bias=False)
        self.conv = ShortConvolution(heads * (2 * self.d_k + self.d_v), conv)

        # One number for each head and token: how much of the error to write.
        self.beta = nn.Linear(d_model, heads, bias=False)
        if gated:
            # How much to forget. We write $\alpha = e^{-a \Delta}$. The rate $a$ is a
            # parameter of the head, and the time $\Delta$ for which it acts is computed
            # from the token. Both must be positive. So $\log a$ is learned, and
            # $\Delta$ is the softplus of a sum $z$, $\log(1 + e^z)$. It begins between
            # 0.001 and 0.1, so that a new network forgets slowly, and each head at
            # another pace. The names are those of [Mamba-2](mamba2.py), where this gate
            # comes from.
            self.alpha = nn.Linear(d_model, heads, bias=False)
            self.A_log = nn.Parameter((16 * (1 - torch.rand(heads))).log())
            step = torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp()
            self.dt_bias = nn.Parameter(step.expm1().log())

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
        # SiLU, $z \, \sigma(z)$, bends them.
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
        # 3](#exercises) ([@grazzi2024unlocking]).
        beta = torch.sigmoid(at_least_single(self.beta(x)))
        if self.allow_neg_eigval:
            beta = 2 * beta

        # $\log \alpha = -a \Delta$. Without a gate nothing fades, and $\log 1 = 0$.
        log_alpha = torch.zeros_like(beta)
        if self.gated:
            delta = F.softplus(at_least_single(self.alpha(x) + self.dt_bias))
            log_alpha = -self.A_log.exp() * delta

        # Padding writes nothing, and lets nothing fade.
        if mask is not None:
            beta, log_alpha = beta * mask[..., None], log_alpha * mask[..., None]

        # A single token, as in generation, is one step of the loop. A longer text takes
        # the chunks.
        if memory is None:
            memory = v.new_zeros(x.shape[1], self.heads, self.d_k, self.d_v)
        rule: Callable[..., tuple[Tensor, Tensor]] = (
            delta_rule_loop if len(x) == 1 else delta_rule_chunks
        )
        found, memory = rule(q, k, v, beta, log_alpha, memory)

        # Normalise, let through what the gate lets through, and mix the heads.
        y = self.norm(found.to(x.dtype))
        if self.gated:
            y = y * F.silu(torch.unflatten(self.gate(x), -1, (self.heads, -1)))
        return self.output(y.flatten(-2)), DeltaNetState(memory, recent)


@dataclass(frozen=True, kw_only=True)
class DeltaNetConfig(RecurrentConfig):
    r"""
    ## Configuration

    * `heads`: memories of a layer, $H$
    * `d_k`: features of a key in one head; by default $C / H$
    * `d_v`: features of a value in one head; by default $C / H$
    * `conv`: positions that a key, a query and a value are made of, $W$
    * `gated`: whether the memory forgets and the output has a gate (Gated DeltaNet)
    * `allow_neg_eigval`: whether $\beta$ reaches up to 2

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

    def mixer(self) -> DeltaNet:
        """One for each layer."""
        return DeltaNet(
            self.config.d_model,
            self.config.heads,
            self.config.d_k,
            self.config.d_v,
            conv=self.config.conv,
            gated=self.config.gated,
            allow_neg_eigval=self.config.allow_neg_eigval,
        )
