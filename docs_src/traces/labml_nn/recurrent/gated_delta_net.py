"""Runs of the rule and the layer."""

import torch
from torch.nn.functional import normalize

from labml_nn.recurrent.gated_delta_net import (
    GatedDeltaNet,
    ShortConvolution,
    gated_delta_rule_chunk,
    gated_delta_rule_chunks,
    gated_delta_rule_loop,
)


def trace_rule(T, B, H, D, Dv):
    """Both forms of the rule, and chunks of which the last is shorter."""
    q, k = (normalize(torch.randn(T, B, H, D), dim=-1) for _ in range(2))
    v, beta, log_alpha = torch.randn(T, B, H, Dv), torch.rand(T, B, H), -torch.rand(T, B, H)
    given = q, k, v, beta, log_alpha, torch.zeros(B, H, D, Dv)
    gated_delta_rule_loop(*given)
    gated_delta_rule_chunk(*given)
    gated_delta_rule_chunks(*given)


def trace_convolution(T, B, F):
    """With padding."""
    convolution = ShortConvolution(F)
    _, before = convolution(torch.randn(T, B, F))
    convolution(torch.randn(T, B, F), before, torch.arange(T)[:, None] < T - torch.arange(B) % T)


def trace_layer(T, B, C, H, D):
    """Two chunks of a sequence, the second with padding, and a token."""
    layer = GatedDeltaNet(C, H, allow_neg_eigval=True)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = layer(x)
    _, state = layer(x, state, mask)
    layer(x[:1], state)


@torch.no_grad()
def replay_chapters():
    """The memory reads “Ann, Ben, and in chapter two Cleo”

    The three tokens of the table, first in the loop, then all at once. All numbers are those of the
    page.

    * Fade, `memory = log_alpha_t` (3): Chapter two leaves a tenth of all numbers.
    * Answer, `answer = (k_t` (3): Cleo's key finds 0.34 and 0.38, a bit of Ann and a bit of Ben.
    * Error, `error = v_t` (3): She has 5 and 0, so nearly all of it is missing.
    * Written, `memory = memory + k_t` (3): The first chapter is nearly forgotten.
    * What is left, `fading = log_fading`:
      Now all at once. Row Cleo says that a tenth is left of Ann's error, and of Ben's.
    * All errors, `written = torch.linalg`: The same errors, without a memory.
    """
    people = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0), "Cleo": (0.6, 0.8)}
    who = list(people)
    k = torch.tensor(list(people.values())).view(3, 1, 1, 2)
    v = torch.tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0]]).view(3, 1, 1, 2)
    beta = torch.ones(3, 1, 1)
    log_alpha = torch.tensor([1.0, 1.0, 0.1]).log().view(3, 1, 1)
    given = k, k, v, beta, log_alpha, torch.zeros(1, 1, 2, 2)
    yield {"T": who, "D": ["Ann", "Ben"], "Dv": ["apples", "pears"]}
    gated_delta_rule_loop(*given)
    gated_delta_rule_chunk(*given)
