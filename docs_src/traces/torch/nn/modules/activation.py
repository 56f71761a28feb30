"""Runs of `torch.nn.MultiheadAttention`: with the sequence first, the batch first, and fast."""

import torch
from torch.nn import MultiheadAttention

from docs_src.dog_sleeps import TEXT, as_torch, last_attention


def trace_batch_first(T, S, B, H, D, C):
    """To another sequence, with the batch first."""
    attention = MultiheadAttention(C, H, batch_first=True)
    query, memory = torch.randn(B, T, C), torch.randn(B, S, C)
    padding, hidden = torch.zeros(B, S, dtype=torch.bool), torch.zeros(T, S, dtype=torch.bool)
    attention(query, memory, memory, padding, attn_mask=hidden)
    attention(query, query, query)
    attention(query, memory, memory.clone())


def trace_other_features(T, S, B, H, D, C, F):
    """Keys and values with features of another number, which need matrices of their own."""
    attention = MultiheadAttention(C, H, kdim=F, vdim=F, bias=False, add_bias_kv=True)
    memory = torch.randn(S, B, F)
    attention(torch.randn(T, B, C), memory, memory)


@torch.no_grad()
def trace_fast(T, B, H, D, C):
    """The fast path: an even number of heads, and no gradients."""
    attention, x = (
        MultiheadAttention(2 * C, 2 * H, batch_first=True).eval(),
        torch.randn(B, T, 2 * C),
    )
    attention(x, x, x, attn_mask=torch.zeros(T, T, dtype=torch.bool))


@torch.no_grad()
def replay_the_dog_sleeps():
    """The mask of “the dog sleeps”

    The trained attention of our lesson, with its weights in PyTorch's module. It is in training
    mode, without dropout, so that the fast path is off.

    * Mask, `attn_mask = F._canonical_mask(`: `True` has become −∞, which hides a key. All else is
      0.
    * Batch first, `query = key = value = query.transpose(1, 0)`: The computation has the sequence
      first. So both axes change places.
    * Result, `F.multi_head_attention_forward(`: The new features of each letter, and the weights,
      the mean of four heads.
    * Batch first again, `attn_output = attn_output.transpose(1, 0)`: The result has the axes of
      the input.
    """
    ours, given = last_attention()
    theirs, hidden = as_torch(ours, batch_first=True), ~given["mask"][..., 0]
    x = given["query"].transpose(0, 1)
    letters = list(TEXT)
    theirs.train()  # Without dropout, as it was made.
    yield {"T": letters}
    theirs(x, x, x, attn_mask=hidden)
