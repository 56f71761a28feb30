"""Rotations: what they compute, what they keep, and what does not fit."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.rotary import RotaryPositions, Rotation, rotate
from labml_nn.transformers.scaled_dot_product import dot_products
from labml_nn.transformers.utils import subsequent_mask

T, S, B, H, K, W = 5, 7, 2, 3, 8, 40


def at(positions, d_k=K, dtype=torch.float32):
    return RotaryPositions(d_k, W).to(dtype)(positions)


def test_turns_each_pair_by_hand():
    x = torch.randn(1, 1, 1, 4)
    turned = rotate(x, at(torch.tensor([[3]]), d_k=4)).flatten()
    a, b, c, d = x.flatten().tolist()
    fast, slow = 3.0, 3 * 10_000**-0.5
    expected = [
        a * math.cos(fast) - c * math.sin(fast),
        b * math.cos(slow) - d * math.sin(slow),
        a * math.sin(fast) + c * math.cos(fast),
        b * math.sin(slow) + d * math.cos(slow),
    ]
    torch.testing.assert_close(turned, torch.tensor(expected))


@settings(deadline=None, max_examples=25)
@given(offset=st.integers(0, W - S - 1), seed=st.integers(0, 2**16))
def test_only_distances_count(offset, seed):
    torch.manual_seed(seed)
    query, key = torch.randn(2, S, B, H, K, dtype=torch.float64)
    places = torch.arange(S)[:, None]
    scores = [
        dot_products(rotate(query, turned), rotate(key, turned))
        for turned in (at(places, dtype=torch.float64), at(places + offset, dtype=torch.float64))
    ]
    torch.testing.assert_close(*scores, rtol=1e-6, atol=1e-6)


def test_lengths_stay_and_position_zero_is_where_it_was():
    x = torch.randn(T, B, H, K)
    turned = rotate(x, at(torch.arange(T)[:, None]))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[0], x[0])
    assert not torch.allclose(turned[1], x[1], atol=0.1)


def test_each_text_at_positions_of_its_own():
    x, positions = torch.randn(T, B, H, K), torch.randint(W, (T, B))
    turned = rotate(x, at(positions))
    for b in range(B):
        alone = rotate(x[:, b : b + 1], at(positions[:, b : b + 1]))
        torch.testing.assert_close(turned[:, b : b + 1], alone)


def test_none_turns_nothing():
    x = torch.randn(T, B, H, K)
    assert rotate(x, None) is x


def test_positions_are_exact_far_away():
    """In 32 bits the angle of a late position would be off by more than its sine is exact."""
    far = RotaryPositions(4, 100_001)(torch.tensor([[100_000]]))
    assert far.sin[0, 0, 0, 0].item() == pytest.approx(math.sin(100_000), abs=1e-7)


def test_sixteen_bits_go_out_as_they_came_in():
    x = torch.randn(T, B, H, K).bfloat16()
    assert rotate(x, at(torch.arange(T)[:, None])).dtype == torch.bfloat16


def test_tables_stay_out_of_files_and_follow_the_dtype():
    table = RotaryPositions(K, W)
    assert not table.state_dict()
    assert table.double()(torch.zeros(1, 1).long()).cos.dtype == torch.float64


def test_attention_that_is_told_where_things_stand():
    """Equal to turning by hand what the maps make; and in two halves as at once."""
    attention = MultiHeadAttention(H, H * K, 0.0).eval()
    x, mask = torch.randn(S, B, H * K), subsequent_mask(S)
    turn = at(torch.arange(S)[:, None])
    past = attention.project(key=x, value=x, rotation=turn)
    torch.testing.assert_close(past.keys, rotate(attention.key(x), turn))
    torch.testing.assert_close(past.values, attention.value(x))
    whole = attention.attend_to(query=x, past=past, mask=mask, rotation=turn)
    last = attention.attend_to(
        query=x[-2:], past=past, mask=mask[-2:], rotation=Rotation(turn.cos[-2:], turn.sin[-2:])
    )
    torch.testing.assert_close(last, whole[-2:])
    assert not torch.allclose(whole, attention(query=x, key=x, value=x, mask=mask), atol=1e-3)
    slow = MultiHeadAttention(H, H * K, 0.0, store_attn=True).eval()
    slow.load_state_dict(attention.state_dict())
    read = slow.attend_to(query=x, past=past, mask=mask, rotation=turn)
    torch.testing.assert_close(read, whole)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"d_k": 5, "max_len": 9}, ValueError, r"`d_k` \(5\) must be even.*try 6"),
        ({"d_k": 0, "max_len": 9}, ValueError, r"`d_k` \(0\) must be at least 1"),
        ({"d_k": 4, "max_len": 0}, ValueError, r"`max_len` \(0\) must be at least 1"),
        ({"d_k": 4, "max_len": 9, "base": 1.0}, ValueError, r"`base` \(1.0\) must be more than 1"),
    ],
)
def test_tables_that_cannot_be(unhooked, arguments, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn.transformers.rotary").RotaryPositions(**arguments)


@pytest.mark.parametrize("shape", [(T + 1, 1), (T, B + 1)])
def test_rotations_that_do_not_fit(unhooked, shape):
    rotary = unhooked("labml_nn.transformers.rotary")
    turn = rotary.RotaryPositions(K, W)(torch.zeros(shape).long())
    with pytest.raises(ValueError, match=r"`rotation` has shape .* expected .* = \[5, 2, 1, 4\]"):
        rotary.rotate(torch.randn(T, B, H, K), turn)
    narrow = rotary.RotaryPositions(K - 2, W)(torch.zeros(T, 1).long())
    with pytest.raises(ValueError, match=r"queries or keys \[5, 2, 3, 8\]"):
        rotary.rotate(torch.randn(T, B, H, K), narrow)
