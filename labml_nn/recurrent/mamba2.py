r"""
---
title: Mamba-2 (state-space duality)
summary: >
  A recurrent network that decides from its input how long it remembers. The same
  numbers come out of a loop, or of a table as in attention without a softmax.
paper: https://arxiv.org/abs/2405.21060
---

The memory of [linear attention](linear_attention.py) never lets anything go. That of
Mamba-2 fades, and each token decides how fast.
"""

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
from labml_nn.recurrent.linear_attention import ShortConvolution

__all__ = [
    "Mamba2",
    "Mamba2Config",
    "Mamba2LanguageModel",
    "Mamba2State",
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

    Takes and returns the same as the loop, and has none: $Y = (L \odot Q K^\top) \, V$.
    """
    # How much of what step $s$ wrote is left at step $t$? For that we need the sum of
    # $\Delta A$ over the steps *after* $s$, up to $t$. `past` is 1 where $t > s$, and
    # `cumsum` adds along the rows. Then $e$ to these sums is $L$. Above the diagonal
    # the sums are 0 and would give 1, so `causal` puts zeros there.
    #
    # Two running sums and their difference would need less work. But after a night of
    # −3000 that difference has lost its last digits, and we want to know what is left
    # since breakfast.
    causal = log_decay.new_ones(len(q), len(q)).tril()
    past = causal.tril(-1)[..., None, None]
    decay = causal[..., None, None] * (past * log_decay[:, None]).cumsum(0).exp()

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
    and only one step in 32 has to wait.

    The paper computes the tables of all chunks at the same time, and then hands the
    matrices on. On a large GPU this is faster .
    """
    found = []
    for t in range(0, len(q), chunk):
        now = slice(t, t + chunk)
        y, h = ssd_table(q[now], k[now], v[now], log_decay[now], h)
        found.append(y)
    return torch.cat(found), h


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

    Around the memory, Mamba-2 has a few more parts: a short convolution before it, a
    skip around it, and a gate behind it. Here they are in one drawing, and each of them
    has its reason at its line below.

    The parameters have the names of those in the `transformers` package. So its weights
    can be copied as they are.
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
        # (`groups` is 1), because heads already differ in what they write and in how
        # fast they leak.
        self.widths = [heads * self.d_v, groups * self.d_k, groups * self.d_k]
        sums = self.widths[0] + sum(self.widths) + heads
        self.in_proj = nn.Linear(d_model, sums, bias=bias)
        self.conv1d = ShortConvolution(sum(self.widths), conv, bias=True)

        # How long should a new head remember? Nobody knows what the text will ask for,
        # so the heads begin with very different answers. A step takes from 0.001 to
        # 0.1, and a head leaks at a rate from 1 to 16. The fastest head has forgotten
        # half of what it knew within a token, the slowest after 700 tokens. `dt_bias`
        # is that number of which the softplus below makes the step.
        delta = torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(delta.expm1().log())

        # $A$ must stay negative, or the memory would grow without end. So we learn its
        # logarithm, $A = -e^a$, which may be any number.
        self.A_log = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())

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

        # **Convolution.** A value is mostly written under a key that came *before* it:
        # the number comes after the word *platform*. So each token first collects what
        # the three tokens before it had ([why](linear_attention.py#ShortConvolution)).
        # The activation SiLU, $a \cdot \sigma(a)$, makes this more than a sum.
        vkq, recent = self.conv1d(vkq, recent, mask)
        v, k, q = torch.split(at_least_single(F.silu(vkq)), self.widths, dim=-1)

        # Split into heads and groups. Then each head gets the key of its group.
        v = torch.unflatten(v, -1, (self.heads, self.d_v))
        k, q = (torch.unflatten(a, -1, (self.groups, self.d_k)) for a in (k, q))
        k, q = (a.repeat_interleave(self.heads // self.groups, dim=2) for a in (k, q))

        # **$\Delta$: how long does this step take?** A time is positive, so the sum
        # passes the softplus, $\log(1 + e^a)$. This is the line that selects. If the
        # input has no say here, you get a memory that always fades at the same rate.
        delta = F.softplus(at_least_single(delta + self.dt_bias))

        # Padding takes no time at all. So it changes nothing: $e^{0 \cdot A} = 1$, and
        # it writes 0.
        if mask is not None:
            delta = delta * mask[..., None]

        # **$A$: how fast does this head leak?** The model learns this number, but it
        # does not depend on the input. It need not, because it only ever occurs in the
        # product with $\Delta$.
        log_decay = -self.A_log.exp() * delta

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
