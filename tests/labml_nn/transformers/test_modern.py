"""RoPE and QK-norm: values, checkpoints, caches; RMSNorm is tested with layer normalisation."""

import math

import pytest
import torch
from lesson_pages import Page
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers import modern
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.modern import (
    QKNormAttention,
    RMSNorm,
    RotaryMultiHeadAttention,
    RotaryQKNormAttention,
    rotate,
)
from labml_nn.transformers.utils import subsequent_mask

T, S, B, H, D, DV, C = 5, 7, 2, 3, 8, 6, 12
PLACES = torch.arange(S)[:, None]
KINDS = [MultiHeadAttention, RotaryMultiHeadAttention, QKNormAttention, RotaryQKNormAttention]


def attention(kind=RotaryMultiHeadAttention, **options):
    torch.manual_seed(0)
    made = kind(H, C, 0.0, d_k=D, d_v=DV, **options).eval()
    for name, parameter in made.named_parameters():
        if "norm" in name:
            nn.init.normal_(parameter)
    return made


def self_attention(module, x, mask=None, cache=None):
    return module(query=x, key=x, value=x, mask=mask, cache=cache)


# RoPE -------------------------------------------------------------------------------------
@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_rotation_by_hand(base):
    a, b, c, d = x = torch.randn(4)
    fast, slow = 3.0, 3 / math.sqrt(base)
    expected = [
        a * math.cos(fast) - c * math.sin(fast),
        b * math.cos(slow) - d * math.sin(slow),
        a * math.sin(fast) + c * math.cos(fast),
        b * math.sin(slow) + d * math.cos(slow),
    ]
    rotated = rotate(x.view(1, 1, 1, 4), torch.tensor([[3]]), base)
    torch.testing.assert_close(rotated.flatten(), torch.stack(expected))


def test_rotations_keep_lengths_dtypes_and_position_zero():
    x = torch.randn(S, B, H, D)
    rotated = rotate(x, PLACES)
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[0], x[0])
    assert rotate(x.bfloat16(), PLACES).dtype == torch.bfloat16
    torch.testing.assert_close(
        rotate(x.bfloat16(), PLACES), rotate(x.bfloat16().float(), PLACES).bfloat16()
    )
    far = rotate(torch.tensor([1.0, 0.0]).view(1, 1, 1, 2), torch.tensor([[100_000]]))
    assert far[..., 1].item() == pytest.approx(math.sin(100_000), abs=1e-7)


def test_rotary_attention_is_attention_of_rotated_heads():
    rotary, plain, x = attention(), attention(MultiHeadAttention), torch.randn(S, B, C)
    plain.load_state_dict(rotary.state_dict())
    heads = (rotate(rotary.query(x), PLACES), rotate(rotary.key(x), PLACES), rotary.value(x))
    mask = subsequent_mask(S)
    expected = plain.output(plain.attend(*heads, mask.unsqueeze(-1)).flatten(-2))
    torch.testing.assert_close(self_attention(rotary, x, mask), expected)
    assert not torch.allclose(self_attention(plain, x, mask), expected, atol=1e-3)
    other = attention(base=50.0)
    assert not torch.allclose(self_attention(other, x, mask), expected, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_continues_where_it_ended(kind):
    module, x, cache = attention(kind), torch.randn(S, B, C), KVCache()
    whole = self_attention(module, x, subsequent_mask(S))
    self_attention(module, x[:T], subsequent_mask(T), cache)
    rest = self_attention(module, x[T:], subsequent_mask(S)[T:], cache)
    torch.testing.assert_close(rest, whole[T:])


@pytest.mark.parametrize("kind", [RotaryMultiHeadAttention, RotaryQKNormAttention])
def test_positions_of_the_cache_come_first(kind):
    """Each sequence counts by itself; a distance too many changes the result."""
    module, x = attention(kind), torch.randn(T, B, C)
    expected = self_attention(module, x)
    shifted = torch.arange(T)[:, None] + torch.tensor([4, 11])
    result = self_attention(module, x, cache=KVCache(positions=shifted))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    stretched = self_attention(module, x, cache=KVCache(positions=2 * shifted))
    assert not torch.allclose(stretched, expected, atol=1e-3)


# QK-norm ----------------------------------------------------------------------------------
@pytest.mark.parametrize("bias", [True, False])
def test_qk_norm_by_hand(bias):
    made = attention(QKNormAttention, bias=bias)
    x, y, mask = torch.randn(T, B, C), torch.randn(S, B, C), subsequent_mask(S)[-T:]

    def heads(part, rows):
        mapped = F.linear(rows, part.linear.weight, part.linear.bias)
        return mapped.unflatten(-1, (H, -1)).permute(1, 2, 0, 3)  # [B, H, T, D]

    def normed(part, rows):
        return F.rms_norm(heads(part, rows), (D,), part.norm.weight, 1e-5)

    scores = normed(made.query, x) @ normed(made.key, y).mT / D**0.5
    scores = scores.masked_fill(~mask.permute(2, 0, 1)[:, None], -torch.inf)
    average = scores.softmax(-1) @ heads(made.value, y)
    expected = made.output(average.permute(2, 0, 1, 3).flatten(-2))
    torch.testing.assert_close(made(query=x, key=y, value=y, mask=mask), expected)


# All of them ------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS[1:])
def test_parameters_are_those_of_attention_and_the_gains(kind):
    ours, plain = attention(kind).state_dict(), attention(MultiHeadAttention).state_dict()
    gains = {"query.norm.weight", "key.norm.weight"} if "QK" in kind.__name__ else set()
    assert set(ours) - set(plain) == gains and set(plain) <= set(ours)
    assert all(ours[name].shape == (D,) for name in gains)
    made = kind(H, C, 0.5, False, output_bias=True, d_k=D, d_v=DV)
    biases = {name for name in made.state_dict() if name.endswith("bias")}
    assert biases == {"value.linear.bias", "output.bias"} and made.dropout.p == 0.5


def test_the_worked_examples_of_the_page():
    page, point = Page(modern), torch.tensor([[[[1.0, 0.0]]]])
    for query, key in ((3, 1), (7, 5)):
        turned = [rotate(point, torch.tensor([[p]])).flatten() for p in (query, key)]
        assert turned[0] @ turned[1] == pytest.approx(math.cos(2), abs=1e-6)
        page.has(*("({:.2f}, {:.2f})".format(*vector) for vector in turned))
    x, q, k = torch.tensor([2.0, 0, 4, 2]), torch.tensor([3.0, 4]), torch.tensor([4.0, 3])
    assert page.vector("root is 2.449") == pytest.approx(RMSNorm(4)(x).tolist(), abs=5e-4)
    page.has(
        f"is {math.cos(2):.2f}",
        f"root is {x.square().mean().sqrt():.3f}",
        f"the cosine is {q @ k / (q.norm() * k.norm()):.2f}",
    )
