r"""
---
title: Mamba-2 (state-space duality)
summary: >
  A recurrent network that decides from its input how long it keeps what it knows. The
  same numbers come out of a table, as in attention without a softmax.
paper: https://arxiv.org/abs/2405.21060
---

The mixer of Mamba-2, as a loop, as a table and in chunks.
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
    """
    ## The loop
    """
    outputs = []
    for t in range(len(q)):
        h = log_decay[t].exp()[..., None, None] * h
        h = h + torch.einsum("bhd,bhe->bhde", k[t], v[t])
        outputs.append(torch.einsum("bhd,bhde->bhe", q[t], h))
    return torch.stack(outputs), h


def ssd_table(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    log_decay: Float[Tensor, "T B H"],
    h: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    """
    ## The table
    """
    causal = log_decay.new_ones(len(q), len(q)).tril()[..., None, None]
    past = causal[..., 0, 0].tril(-1)[..., None, None]
    decay = causal * (past * log_decay[:, None]).cumsum(0).exp()

    scores = decay * torch.einsum("tbhd,sbhd->tsbh", q, k)
    y = torch.einsum("tsbh,sbhe->tbhe", scores, v)

    left = log_decay.cumsum(0).exp()[..., None]
    y = y + left * torch.einsum("tbhd,bhde->tbhe", q, h)

    kept = decay[-1, ..., None] * v
    h = left[-1, ..., None] * h + torch.einsum("sbhd,sbhe->bhde", k, kept)
    return y, h


def ssd_chunks(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    log_decay: Float[Tensor, "T B H"],
    h: Float[Tensor, "B H D Dv"],
    chunk: int = 64,
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    """
    ## Chunks
    """
    outputs = []
    for t in range(0, len(q), chunk):
        now = slice(t, t + chunk)
        y, h = ssd_table(q[now], k[now], v[now], log_decay[now], h)
        outputs.append(y)
    return torch.cat(outputs), h


class Mamba2State(NamedTuple):
    """
    ## State

    What a layer remembers: a matrix for each head, and the last inputs of its
    convolution.
    """

    h: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B F"]


class Mamba2(nn.Module):
    r"""
    ## The mixer

    A sequence goes in, `[T, B, C]`, and a sequence of the same shape comes out.
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
        * `heads`: heads, $H$
        * `d_k`, `d_v`: features of a key and of a value in one head; by default $2C/H$
        * `groups`: how many keys and queries there are; a group of heads shares one
        * `conv`: positions that the convolution covers
        * `bias`: whether the two projections add a bias
        """
        super().__init__()
        check_attention(heads, d_model, 0.0, d_k, d_v)
        check_sizes(groups=groups, conv=conv)
        check_divisible(heads=heads, groups=groups)
        check_bool(bias=bias)
        self.heads, self.groups = heads, groups
        self.d_k = d_k or 2 * d_model // heads
        self.d_v = d_v or 2 * d_model // heads

        # Values of all heads, keys and queries of all groups.
        self.widths = [heads * self.d_v, groups * self.d_k, groups * self.d_k]
        features = sum(self.widths)
        self.in_proj = nn.Linear(d_model, self.widths[0] + features + heads, bias=bias)
        self.conv1d = ShortConvolution(features, conv, bias=True)

        step = torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(step.expm1().log())
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
        """
        ### Forward pass

        * `x`: vectors of the positions, `[T, B, C]`
        * `state`: what was returned for the chunk before; `None` at the beginning
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns vectors, `[T, B, C]`, and the next state.
        """
        h, recent = (None, None) if state is None else state
        widths = [self.widths[0], sum(self.widths), self.heads]
        gate, vkq, step = torch.split(self.in_proj(x), widths, dim=-1)

        vkq, recent = self.conv1d(vkq, recent, mask)
        v, k, q = torch.split(at_least_single(F.silu(vkq)), self.widths, dim=-1)
        v = torch.unflatten(v, -1, (self.heads, self.d_v))
        k, q = (torch.unflatten(x, -1, (self.groups, self.d_k)) for x in (k, q))
        k, q = (x.repeat_interleave(self.heads // self.groups, dim=2) for x in (k, q))

        step = F.softplus(at_least_single(step + self.dt_bias))
        if mask is not None:
            step = step * mask[..., None]
        log_decay = -self.A_log.exp() * step

        if h is None:
            h = v.new_zeros(x.shape[1], self.heads, self.d_k, self.d_v)
        ssd = ssd_loop if len(x) == 1 else ssd_chunks
        y, h = ssd(q, k, step[..., None] * v, log_decay, h)

        y = y + self.D[:, None] * v
        y = self.norm(y.flatten(-2).to(gate.dtype) * F.silu(gate))
        return self.out_proj(y), Mamba2State(h, recent)


@dataclass(frozen=True, kw_only=True)
class Mamba2Config(RecurrentConfig):
    r"""
    ## Configuration of the language model

    * `heads`: heads, $H$
    * `d_k`, `d_v`: features of a key and of a value in one head; by default $2C/H$
    * `groups`: how many keys and queries there are; a group of heads shares one
    * `conv`: positions that the convolution covers

    [`RecurrentConfig`](language_model.py#RecurrentConfig) has the other fields.
    """

    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    groups: int = 1
    conv: int = 4


class Mamba2LanguageModel(RecurrentLanguageModel):
    """
    ## Language model
    """

    name = "mamba2"
    Config = Mamba2Config
    config: Mamba2Config

    def mixer(self) -> nn.Module:
        """A mixer with the sizes of the configuration."""
        config = self.config
        return Mamba2(
            config.d_model,
            config.heads,
            config.d_k,
            config.d_v,
            groups=config.groups,
            conv=config.conv,
        )
