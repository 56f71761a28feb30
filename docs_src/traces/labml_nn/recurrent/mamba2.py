"""Runs of the three forms, the mixer and the language model."""

import torch

from labml_nn.recurrent.mamba2 import (
    Mamba2,
    Mamba2Config,
    Mamba2LanguageModel,
    ShortConvolution,
    ssd_chunks,
    ssd_loop,
    ssd_table,
)


def trace_forms(T, B, H, D, Dv):
    """The loop and the table."""
    q, k, v = torch.randn(T, B, H, D), torch.randn(T, B, H, D), torch.randn(T, B, H, Dv)
    log_decay, h = -torch.rand(T, B, H), torch.zeros(B, H, D, Dv)
    ssd_loop(q, k, v, log_decay, h)
    ssd_table(q, k, v, log_decay, h)


def trace_chunks(n, chunk, B, H, D, Dv):
    """Full chunks, so that the length is a product."""
    T = n * chunk
    q, k, v = torch.randn(T, B, H, D), torch.randn(T, B, H, D), torch.randn(T, B, H, Dv)
    ssd_chunks(q, k, v, -torch.rand(T, B, H), torch.zeros(B, H, D, Dv), chunk)


def trace_convolution(T, B, F):
    """With padding."""
    convolution = ShortConvolution(F)
    _, before = convolution(torch.randn(T, B, F))
    convolution(torch.randn(T, B, F), before, torch.arange(T)[:, None] < T - torch.arange(B) % T)


def trace_mixer(T, B, H, D, Dv):
    """A text with padding, and one more token."""
    mixer, x = Mamba2(H * D, H, D, Dv), torch.randn(T, B, H * D)
    _, state = mixer(x, mask=torch.arange(T)[:, None] < T - torch.arange(B) % T)
    mixer(x[:1], state)


def trace_model(T, B, C, V, L, H):
    """A loss, and the next chunk."""
    sizes = {"n_vocab": V, "d_model": C * H, "heads": H, "n_layers": L, "padding_token": 0}
    model = Mamba2LanguageModel(Mamba2Config(**sizes))
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens, state)


@torch.no_grad()
def replay_night():
    """A memory of 2 × 2 numbers: Ann, a night, and Ben

    The loop with the numbers of the table for Ann and Ben, one head with A = −0.1.

    * Ann, `h = h + k_t` (1): What Ann has is written into the first row.
    * Night, `h = log_decay_t` (2): The night takes 30. Only 0.05 of everything is left.
    * Ben, `h = h + k_t` (3): Ben is written into the second row.
    * Answers, `return torch.stack(found), h`: What the question for Ann finds after each step.
    """
    q = torch.tensor([[1.0, 0], [1, 0], [1, 0]])[:, None, None]
    k = torch.tensor([[1.0, 0], [0, 0], [0, 1]])[:, None, None]
    v = torch.tensor([[3.0, 1], [0, 0], [2, 4]])[:, None, None]
    delta = torch.tensor([1.0, 30, 1])[:, None, None]
    yield {"T": ["Ann", "night", "Ben"], "D": ["row 1", "row 2"], "Dv": ["apples", "pears"]}
    ssd_loop(q, k, delta[..., None] * v, -0.1 * delta, torch.zeros(1, 1, 2, 2))
