"""Runs of the three forms, the mixer and the language model."""

import torch

from labml_nn.recurrent.linear_attention import (
    LinearAttention,
    LinearAttentionConfig,
    LinearAttentionLanguageModel,
    ShortConvolution,
    linear_attention_chunks,
    linear_attention_loop,
    linear_attention_table,
)


def trace_forms(T, B, H, D, Dv):
    """The loop and the table."""
    q, k, v = torch.randn(T, B, H, D), torch.randn(T, B, H, D), torch.randn(T, B, H, Dv)
    memory = torch.zeros(B, H, D, Dv)
    linear_attention_loop(q, k, v, memory)
    linear_attention_table(q, k, v, memory)


def trace_chunks(n, chunk, B, H, D, Dv):
    """Full chunks, so that the length is a product."""
    T = n * chunk
    q, k, v = torch.randn(T, B, H, D), torch.randn(T, B, H, D), torch.randn(T, B, H, Dv)
    linear_attention_chunks(q, k, v, torch.zeros(B, H, D, Dv), chunk)


def trace_convolution(T, B, F):
    """With padding."""
    convolution = ShortConvolution(F)
    _, before = convolution(torch.randn(T, B, F))
    convolution(torch.randn(T, B, F), before, torch.arange(T)[:, None] < T - torch.arange(B) % T)


def trace_mixer(T, B, H, D):
    """A text with padding, and one more token."""
    mixer, x = LinearAttention(H * D, H), torch.randn(T, B, H * D)
    _, state = mixer(x, mask=torch.arange(T)[:, None] < T - torch.arange(B) % T)
    mixer(x[:1], state)


def trace_model(T, B, H, D, V, L):
    """A loss."""
    sizes = {"n_vocab": V, "d_model": H * D, "heads": H, "n_layers": L}
    model = LinearAttentionLanguageModel(LinearAttentionConfig(**sizes))
    tokens = torch.randint(V, (T, B))
    model.loss(tokens, tokens)


@torch.no_grad()
def replay_pairs():
    """The loop writes what Ann, Ben and Cleo have, and reads it

    The keys and values of the first example. Then Ann is asked once more.

    * Ann, `memory = memory` (1):
      The key of Ann selects the first row, and her value is written there.
    * Ben, `memory = memory` (2): The second row is Ben's. The two do not touch each other.
    * Cleo, `memory = memory` (3): Cleo's key belongs to both rows, and both are changed.
    * Question, `found.append` (4):
      Ann is asked, with a value of zeros: 6 apples, and 3 of them are Cleo's.
    """
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])[:, None, None]
    values = torch.tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0], [0.0, 0.0]])[:, None, None]
    yield {"T": ["Ann", "Ben", "Cleo", "Ann?"], "Dv": ["apples", "pears"]}
    linear_attention_loop(keys, keys, values, torch.zeros(1, 1, 2, 2))
