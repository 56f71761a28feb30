"""Sinusoidal and learned positions: values, any width and offset, errors, use in a model."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    fixed_positions,
    get_positional_encoding,
)

BOTH = pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])


def formula(position, feature, d_model):
    """Vaswani et al. 2017, §3.5, one entry."""
    angle = position / 10000 ** ((feature - feature % 2) / d_model)
    return math.cos(angle) if feature % 2 else math.sin(angle)


@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 12, 13])
def test_every_entry_follows_the_formula(d_model):
    table = get_positional_encoding(d_model, 11, first=3, dtype=torch.float64)
    rows = [[[formula(p, c, d_model) for c in range(d_model)]] for p in range(3, 14)]
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    d_model=st.integers(1, 9),
    max_len=st.integers(1, 12),
    offset=st.integers(0, 20),
    length=st.integers(1, 20),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_rows_past_the_end_are_those_of_a_longer_table(d_model, max_len, offset, length, dtype):
    table = get_positional_encoding(d_model, max_len).to(dtype)
    assert fixed_positions(table.to("meta"), offset, length).is_meta
    longer = get_positional_encoding(d_model, offset + length).to(dtype)
    rows = fixed_positions(table, offset, length)
    assert rows.dtype == dtype
    torch.testing.assert_close(rows, longer[offset:], rtol=1e-6, atol=1e-6)


def test_fixed_positions_are_added_at_any_length_and_never_change():
    x, module = torch.randn(7, 2, 5), PositionalEncoding(5, 0.0, max_len=3)
    before = module.positional_encodings.clone()
    expected = x + get_positional_encoding(5, 7)
    torch.testing.assert_close(module(x), expected)
    torch.testing.assert_close(module(x[4:], offset=4), expected[4:])
    assert torch.equal(module.positional_encodings, before)
    assert module.state_dict() == {} and not list(module.parameters())
    assert PositionalEncoding(6, 0.0).positional_encodings.shape == (5000, 1, 6)


def test_learned_positions_start_at_zero_and_learn():
    module = LearnedPositionalEncoding(5, 0.0, max_len=4)
    x = torch.randn(3, 2, 5)
    assert torch.equal(module(x), x)
    module(x, offset=1).sum().backward()
    gradient = module.positional_encodings.grad[:, 0, 0]
    assert torch.equal(gradient, torch.tensor([0.0, 2.0, 2.0, 2.0]))  # one per sequence
    nn.init.normal_(module.positional_encodings)
    torch.testing.assert_close(module(x, offset=1), x + module.positional_encodings[1:])
    assert list(module.state_dict()) == ["positional_encodings"]
    assert LearnedPositionalEncoding(6, 0.0).positional_encodings.shape == (5000, 1, 6)


def test_learned_positions_end():
    module = LearnedPositionalEncoding(6, 0.0, max_len=4)
    for length, offset, needed in ((5, 0, 5), (3, 2, 5), (3, 3, 6)):
        with pytest.raises(ValueError, match=f"needs {needed} positions, but only max_len = 4"):
            module(torch.zeros(length, 2, 6), offset=offset)
    assert module(torch.zeros(3, 2, 6), offset=1).shape == (3, 2, 6)


@BOTH
def test_dropout_of_the_sum(kind):
    torch.manual_seed(1)
    module, x = kind(6, 0.5), torch.full((40, 3, 6), 10.0)
    encodings = module.positional_encodings[:40].detach()
    dropped = module(x)
    zeros = dropped == 0
    assert 0.4 < zeros.float().mean() < 0.6
    torch.testing.assert_close(dropped[~zeros], (2 * (x + encodings))[~zeros])
    torch.testing.assert_close(module.eval()(x), x + encodings)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("first", [0, 70_001])
def test_a_table_in_another_dtype_has_the_same_numbers_rounded(dtype, first):
    """bfloat16 cannot count beyond 256, and float16 ends at 65,504."""
    table = get_positional_encoding(62, 1023, first=first, dtype=dtype)
    wide = get_positional_encoding(62, 1023, first=first)
    tolerance = 0.0 if dtype.itemsize == 2 else 0.01
    torch.testing.assert_close(table, wide.to(dtype), rtol=0, atol=tolerance)
    assert (table[1:] != table[:-1]).flatten(1).any(1).all()
