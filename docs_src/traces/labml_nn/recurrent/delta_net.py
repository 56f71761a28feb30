"""Runs of the rule, the layer and the language model."""

import torch
from torch.nn.functional import normalize

from labml_nn.recurrent.delta_net import (
    DeltaNet,
    DeltaNetConfig,
    DeltaNetLanguageModel,
    ShortConvolution,
    delta_rule_chunk,
    delta_rule_chunks,
    delta_rule_loop,
)


def trace_rule(T, B, H, D, Dv):
    """Both forms of the rule, and chunks of which the last is shorter."""
    q, k = (normalize(torch.randn(T, B, H, D), dim=-1) for _ in range(2))
    v, beta = torch.randn(T, B, H, Dv), torch.rand(T, B, H)
    given = q, k, v, beta, torch.zeros(B, H, D, Dv)
    delta_rule_loop(*given)
    delta_rule_chunk(*given)
    delta_rule_chunks(*given)


def trace_convolution(T, B, F):
    """With padding."""
    convolution = ShortConvolution(F)
    _, before = convolution(torch.randn(T, B, F))
    convolution(torch.randn(T, B, F), before, torch.arange(T)[:, None] < T - torch.arange(B) % T)


def trace_layer(T, B, C, H, D):
    """Two chunks of a sequence, the second with padding, and a token."""
    layer = DeltaNet(C, H, allow_neg_eigval=True)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = layer(x)
    _, state = layer(x, state, mask)
    layer(x[:1], state)


def trace_model(T, B, C, H, D, V, L):
    """A loss, and the next chunk."""
    sizes = {"n_vocab": V, "d_model": C, "heads": H, "n_layers": L, "padding_token": 0}
    model = DeltaNetLanguageModel(DeltaNetConfig(**sizes))
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens, state)


@torch.no_grad()
def replay_pairs():
    """The memory reads “Ann, Ben, Ann, Cleo”

    The four pairs of the table, first in the loop, then all at once. All numbers are those of the
    page.

    * Error, `error = v_t` (3):
      Ann comes for the second time. The memory answered 3 and 1, and she has 1
      and 1. So 2 apples are too many.
    * Correction, `memory = memory + k_t` (3): Her row is corrected, and that of Ben is as it was.
    * Cleo, `memory = memory + k_t` (4):
      Cleo's key is similar to both others, so both rows have changed.
    * Overlaps, `overlaps = beta`:
      Now all at once. Below the diagonal stand the dot products of the keys.
    * All errors, `written = torch.linalg`: The same four errors, without a memory.
    """
    people = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0), "Cleo": (0.6, 0.8)}
    who = ["Ann", "Ben", "Ann", "Cleo"]
    k = torch.tensor([people[name] for name in who]).view(4, 1, 1, 2)
    v = torch.tensor([[3.0, 1.0], [2.0, 4.0], [1.0, 1.0], [5.0, 0.0]]).view(4, 1, 1, 2)
    given = k, k, v, torch.ones(4, 1, 1), torch.zeros(1, 1, 2, 2)
    yield {"T": who, "D": ["Ann", "Ben"], "Dv": ["apples", "pears"]}
    delta_rule_loop(*given)
    delta_rule_chunk(*given)
