r"""
---
title: DeltaNet and Gated DeltaNet
summary: >
  Linear attention that corrects its memory instead of adding to it: it reads what the
  memory answers to a key, and writes the error. With a gate, it also forgets.
paper: https://arxiv.org/abs/2406.06484
---

The [linear attention](linear_attention.py) of the last lesson adds every pair of a key
and a value to its memory. DeltaNet first reads what the memory answers to a key, and
writes the difference.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_attention, check_bool, check_sizes
from labml_nn.language_model import at_least_single
from labml_nn.recurrent.linear_attention import ShortConvolution

__all__ = ["DeltaNet", "DeltaNetState", "delta_rule_chunks", "delta_rule_loop"]


def delta_rule_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The rule, token by token

    * `q`, `k`, `v`: queries, keys and values
    * `beta`: which share of an error is corrected
    * `log_alpha`: the logarithm of what is kept of the memory; 0 keeps all
    * `memory`: the memory before the first token, $S$

    Returns what the memory answers to the queries, and the memory after the last token.
    """
    found = []
    for t in range(len(k)):
        # Forget a little.
        memory = log_alpha[t].exp()[..., None, None] * memory

        # Read what the memory answers to this key.
        answer = torch.einsum("bhd,bhde->bhe", k[t], memory)

        # Write the error.
        error = v[t] - answer
        write = beta[t][..., None] * error
        memory = memory + torch.einsum("bhd,bhe->bhde", k[t], write)

        # Ask the query.
        found.append(torch.einsum("bhd,bhde->bhe", q[t], memory))
    return torch.stack(found), memory


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
    ## The same rule, chunk by chunk

    Takes and returns what `delta_rule_loop` does. The memory is updated once for each
    `chunk` tokens, and all tokens of a chunk are computed at once.
    """
    found = []
    for t in range(0, len(k), chunk):
        now = slice(t, t + chunk)
        answers, memory = delta_rule_chunk(
            q[now], k[now], v[now], beta[now], log_alpha[now], memory
        )
        found.append(answers)
    return torch.cat(found), memory


def delta_rule_chunk(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    beta: Float[Tensor, "T B H"],
    log_alpha: Float[Tensor, "T B H"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    """
    ## One chunk

    As `delta_rule_loop`, for all tokens at once.
    """
    # Tokens and features become the last two axes, for products of matrices.
    q, k, v = (x.permute(1, 2, 0, 3) for x in (q, k, v))
    beta, log_alpha = (x.permute(1, 2, 0)[..., None] for x in (beta, log_alpha))

    # How much of what is written at token $s$ is left at token $t$.
    total = log_alpha.cumsum(-2)
    future = torch.ones_like(total * total.mT, dtype=torch.bool).triu(1)
    decay = (total - total.mT).masked_fill(future, -math.inf).exp()
    total = total.exp()

    # The errors of all tokens.
    overlap = beta * decay * (k @ k.mT)
    right = beta * (v - total * (k @ memory))
    write = torch.linalg.solve_triangular(
        overlap, right, upper=False, unitriangular=True
    )

    found = total * (q @ memory) + (decay * (q @ k.mT)) @ write
    memory = total[..., -1:, :] * memory + (decay[..., -1:, :].mT * k).mT @ write
    return found.permute(2, 0, 1, 3), memory


class DeltaNetState(NamedTuple):
    """
    ## State

    What the mixer remembers: the memory of each head, and the last inputs of its
    convolution.
    """

    memory: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B F"]


class DeltaNet(nn.Module):
    r"""
    ## DeltaNet
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
        """
        * `d_model`: features of a position, $C$
        * `heads`: heads, $H$
        * `d_k`, `d_v`: features of a key and of a value in one head; by default $C / H$
        * `conv`: positions that the convolution covers
        * `gated`: whether the memory also forgets, and the output has a gate
        * `allow_neg_eigval`: whether $\beta$ reaches up to 2
        """
        super().__init__()
        check_attention(heads, d_model, 0.0, d_k, d_v)
        check_sizes(conv=conv)
        check_bool(gated=gated, allow_neg_eigval=allow_neg_eigval)
        self.heads, self.gated, self.allow_neg_eigval = heads, gated, allow_neg_eigval
        self.d_k = d_k or d_model // heads
        self.d_v = d_v or d_model // heads

        self.query = nn.Linear(d_model, heads * self.d_k, bias=False)
        self.key = nn.Linear(d_model, heads * self.d_k, bias=False)
        self.value = nn.Linear(d_model, heads * self.d_v, bias=False)
        self.conv = ShortConvolution(heads * (2 * self.d_k + self.d_v), conv)
        self.beta = nn.Linear(d_model, heads, bias=False)

        if gated:
            self.alpha = nn.Linear(d_model, heads, bias=False)
            self.A_log = nn.Parameter((16 * (1 - torch.rand(heads))).log())
            step = torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp()
            self.dt_bias = nn.Parameter(step.expm1().log())
            self.gate = nn.Linear(d_model, heads * self.d_v, bias=False)

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

        Returns what each head found, mixed, `[T, B, C]`, and the next state.
        """
        memory, recent = (None, None) if state is None else state
        qkv = torch.cat([self.query(x), self.key(x), self.value(x)], dim=-1)
        qkv, recent = self.conv(qkv, recent, mask)

        widths = [self.heads * self.d_k] * 2 + [self.heads * self.d_v]
        q, k, v = (
            torch.unflatten(part, -1, (self.heads, -1))
            for part in torch.split(F.silu(at_least_single(qkv)), widths, dim=-1)
        )
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)

        beta = torch.sigmoid(at_least_single(self.beta(x)))
        if self.allow_neg_eigval:
            beta = 2 * beta

        log_alpha = torch.zeros_like(beta)
        if self.gated:
            step = F.softplus(at_least_single(self.alpha(x) + self.dt_bias))
            log_alpha = -self.A_log.exp() * step

        if mask is not None:
            beta = beta * mask[..., None]
            log_alpha = log_alpha * mask[..., None]

        if memory is None:
            memory = v.new_zeros(x.shape[1], self.heads, self.d_k, self.d_v)
        rule = delta_rule_loop if len(x) == 1 else delta_rule_chunks
        found, memory = rule(q, k, v, beta, log_alpha, memory)

        y = self.norm(found.to(qkv.dtype))
        if self.gated:
            y = y * F.silu(self.gate(x).unflatten(-1, (self.heads, -1)))
        return self.output(y.flatten(-2)), DeltaNetState(memory, recent)
