"""Attention whose scores cannot run away."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.qk_norm import QKNormAttention
from labml_nn.transformers.utils import subsequent_mask

T, S, B, C, H, K, D = 5, 7, 2, 12, 3, 6, 8


def attention(**changes):
    torch.manual_seed(0)
    made = QKNormAttention(H, C, 0.0, d_k=K, d_v=D, **changes).eval()
    for part in (made.query, made.key):
        nn.init.normal_(part.norm.weight)
    return made


def by_hand(made, x, y, mask):
    def heads(part, rows):
        cut = F.linear(rows, part.linear.weight, part.linear.bias).unflatten(-1, (H, -1))
        return cut.transpose(0, 1).transpose(1, 2)  # [B, H, T, K]

    def normed(part, rows):
        vectors = heads(part, rows)
        return F.rms_norm(vectors, (K,), part.norm.weight, 1e-5)

    scores = normed(made.query, x) @ normed(made.key, y).mT / K**0.5
    scores = scores.masked_fill(~mask.permute(2, 0, 1)[:, None], -torch.inf)
    mean = scores.softmax(-1) @ heads(made.value, y)
    return made.output(mean.permute(2, 0, 1, 3).flatten(-2))


@pytest.mark.parametrize("bias", [True, False])
def test_what_it_computes(bias):
    made, x, y = attention(bias=bias), torch.randn(T, B, C), torch.randn(S, B, C)
    mask = subsequent_mask(S)[-T:]
    found = made(query=x, key=y, value=y, mask=mask)
    torch.testing.assert_close(found, by_hand(made, x, y, mask), rtol=1e-5, atol=1e-5)
    slow = attention(bias=bias, store_attn=True)
    torch.testing.assert_close(slow(query=x, key=y, value=y, mask=mask), found)
    torch.testing.assert_close(slow.attn.sum(1), torch.ones(T, B, H))


def test_lengths_of_queries_and_keys_do_not_count():
    """But for the epsilon, of which the longer rows feel less."""
    made, x = attention(bias=False), 10 * torch.randn(T, B, C)
    before = made(query=x, key=x, value=x)
    with torch.no_grad():
        made.query.linear.weight.mul_(50)
        made.key.linear.weight.mul_(20)
    torch.testing.assert_close(made(query=x, key=x, value=x), before, rtol=1e-3, atol=1e-3)


def test_scores_are_bounded_by_the_root_of_the_width():
    made = QKNormAttention(H, C, d_k=K)
    x = 1000 * torch.randn(T, B, C)
    scores = made.get_scores(made.query(x), made.key(x)) * made.scale
    assert scores.abs().max() <= K**0.5 * 1.0001


def test_parameters_are_those_of_attention_and_the_gains():
    ours, plain = attention().state_dict(), MultiHeadAttention(H, C, d_k=K, d_v=D).state_dict()
    assert set(ours) - set(plain) == {"query.norm.weight", "key.norm.weight"}
    assert set(plain) <= set(ours)


def test_gradients_reach_all_but_nothing():
    made, x = attention(), torch.randn(T, B, C)
    made(query=x, key=x, value=x).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in made.parameters())  # the bias of keys, too
