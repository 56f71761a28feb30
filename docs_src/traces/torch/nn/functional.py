"""Runs of PyTorch's attention function: both ways, with masks and without."""

import torch
from torch.nn import MultiheadAttention

from docs_src.dog_sleeps import TEXT, as_torch, last_attention


def trace_with_weights(T, S, B, H, D, C):
    """To another sequence with padding, and a mask for each query."""
    attention = MultiheadAttention(C, H, dropout=0.1)
    query, memory = torch.randn(T, B, C), torch.randn(S, B, C)
    padding = torch.zeros(B, S, dtype=torch.bool)
    attention(query, memory, memory, padding, attn_mask=torch.zeros(T, S, dtype=torch.bool))
    attention.eval()(query, memory, memory)


def trace_without_weights(T, S, B, H, D, C):
    """The same in one call; once with a mask for each sequence and head."""
    attention = MultiheadAttention(C, H).eval()
    query, memory = torch.randn(T, B, C), torch.randn(S, B, C)
    hidden = torch.zeros(T, S, dtype=torch.bool)
    attention(query, memory, memory, need_weights=False, attn_mask=hidden)
    hidden = hidden.expand(B * H, T, S)
    attention(query, memory, memory, need_weights=False, attn_mask=hidden)


def trace_causal(T, B, H, D, C):
    """With the hint that the mask is causal."""
    attention, x = MultiheadAttention(C, H), torch.randn(T, B, C)
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    attention(x, x, x, need_weights=False, attn_mask=hidden, is_causal=True)


def trace_alone(T, S, H, D, C):
    """A sequence without the axis of the batch, in both ways."""
    attention, query, memory = MultiheadAttention(C, H), torch.randn(T, C), torch.randn(S, C)
    padding = torch.zeros(S, dtype=torch.bool)
    attention(query, memory, memory, padding)
    attention(query, memory, memory, padding, need_weights=False)


def trace_other_features(T, S, B, H, D, C, F):
    """Keys and values with features of another number."""
    attention = MultiheadAttention(C, H, kdim=F, vdim=F)
    memory = torch.randn(S, B, F)
    attention(torch.randn(T, B, C), memory, memory)
    attention = MultiheadAttention(C, H, kdim=F, vdim=F, bias=False)
    attention(torch.randn(T, B, C), memory, memory)


def trace_appended(T, S, B, H, D, C):
    """A learned key and value, and one of zeros."""
    attention = MultiheadAttention(C, H, add_bias_kv=True, add_zero_attn=True)
    query, memory = torch.randn(T, B, C), torch.randn(S, B, C)
    hidden = torch.zeros(T, S, dtype=torch.bool)
    attention(query, memory, memory, torch.zeros(B, S, dtype=torch.bool), attn_mask=hidden)


@torch.no_grad()
def replay_the_dog_sleeps():
    """PyTorch reads “the dog sleeps”

    The trained attention of our lesson, with its weights in PyTorch's module. You see the same
    numbers as in the replay of our lesson.

    * Mask, `attn_mask = _canonical_mask(`: A letter must not see those after it. The mask has −∞
      there, and 0 elsewhere.
    * Project, `_in_projection_packed(query`: One product has computed queries, keys and values, 88
      features each.
    * Split into heads, `q = q.view(tgt_len`: The same numbers, as 22 in each of four heads.
    * Scale, `q_scaled = q *`: The queries are divided by √22, about 4.7. Our lesson divides the
      scores.
    * Compare and mask, `torch.baddbmm(`: A row for each letter that looks, a column for each that
      it looks at. Above the diagonal all scores are −∞.
    * Softmax, `softmax(attn_output_weights`: Each row sums to one. The first letter sees only
      itself.
    * Average, `torch.bmm(attn_output_weights, v)`: Each letter gets a weighted average of the
      values in each head.
    * Join, `linear(attn_output, out_proj_weight`: The four heads side by side, times the output
      projection.
    * Mean of the heads, `attn_output_weights.mean(dim=1)`: This is what the caller gets as weights.
    """
    ours, given = last_attention()
    theirs, hidden = as_torch(ours), ~given["mask"][..., 0]
    letters = list(TEXT)
    yield {"T": letters, "S": letters}
    theirs(given["query"], given["key"], given["value"], attn_mask=hidden)
