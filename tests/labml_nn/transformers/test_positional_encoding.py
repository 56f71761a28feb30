"""Sinusoids: by hand, as a rotation, of any width and past the end; learned positions."""

import copy
import math
import pickle

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
    learned_positions,
)

MODULE = "labml_nn.transformers.positional_encoding"


def formula(position: int, feature: int, d_model: int) -> float:
    """Vaswani et al. 2017, §3.5, one entry."""
    angle = position / 10000 ** ((feature - feature % 2) / d_model)
    return math.cos(angle) if feature % 2 else math.sin(angle)


def test_first_rows_by_hand():
    table = get_positional_encoding(4, 3)
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004],
        [0.9092974268, -0.4161468365, 0.0199986667, 0.9998000067],
    ]
    torch.testing.assert_close(table, torch.tensor(expected).unsqueeze(1))


@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 12, 13])
def test_every_entry_follows_the_formula_for_even_and_odd_widths(d_model):
    table = get_positional_encoding(d_model, 11, dtype=torch.float64)
    expected = [[[formula(p, c, d_model) for c in range(d_model)]] for p in range(11)]
    torch.testing.assert_close(
        table, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_shape_dtype_and_no_gradient():
    table = get_positional_encoding(6)
    assert table.shape == (5000, 1, 6)
    assert table.dtype == torch.float32
    assert not table.requires_grad


def test_errors_of_32_bit_angles_are_those_that_the_page_tells():
    exact = get_positional_encoding(512, dtype=torch.float64)
    error = (get_positional_encoding(512) - exact).abs()
    assert 6e-6 < error[:128].max() < 8e-6
    assert 3e-4 < error.max() < 5e-4


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 9))
def test_shift_is_a_rotation(position, shift, pairs):
    table = get_positional_encoding(2 * pairs, 601, dtype=torch.float64)[:, 0]
    for i in range(pairs):
        angle = shift * 10000 ** (-i / pairs)
        rotation = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
            dtype=torch.float64,
        )
        hand = slice(2 * i, 2 * i + 2)
        torch.testing.assert_close(
            table[position + shift, hand], rotation @ table[position, hand], rtol=0, atol=1e-9
        )


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
    longer = get_positional_encoding(d_model, offset + length).to(dtype)
    rows = fixed_positions(table, offset, length)
    assert rows.dtype == dtype
    torch.testing.assert_close(rows, longer[offset:], rtol=1e-6, atol=1e-6)


def test_rows_past_the_end_are_made_where_the_table_is():
    table = get_positional_encoding(4, 3).to("meta")
    assert fixed_positions(table, 1, 7).device.type == "meta"


def test_module_adds_the_rows_and_takes_any_length():
    x = torch.randn(7, 2, 5)
    module = PositionalEncoding(5, 0.0, max_len=3)
    expected = x + get_positional_encoding(5, 7)
    torch.testing.assert_close(module(x), expected)
    torch.testing.assert_close(module(x[4:], offset=4), expected[4:])


def test_reading_far_leaves_the_module_as_it_was():
    module = PositionalEncoding(6, 0.0, max_len=3)
    before = module.positional_encodings.clone()
    module(torch.randn(8, 2, 6))
    assert torch.equal(module.positional_encodings, before)
    assert module.state_dict() == {}
    assert [name for name, _ in module.named_buffers()] == ["positional_encodings"]


def test_dropout_falls_on_the_sum():
    torch.manual_seed(1)
    module = PositionalEncoding(6, 0.5)
    x = torch.full((40, 3, 6), 10.0)
    dropped = module(x)
    zeros = dropped == 0
    assert 0.4 < zeros.float().mean() < 0.6
    expected = 2 * (x + get_positional_encoding(6, 40))
    torch.testing.assert_close(dropped[~zeros], expected[~zeros])
    assert not (module.eval()(x) == 0).any()


def test_learned_positions_start_at_zero_and_learn():
    module = LearnedPositionalEncoding(5, 0.0, max_len=4)
    x = torch.randn(3, 2, 5)
    assert torch.equal(module(x), x)
    module(x, offset=1).sum().backward()
    gradient = module.positional_encodings.grad
    assert gradient is not None
    # One for each of the two sequences, and none for the position that nobody stood on.
    assert torch.equal(gradient[:, 0, 0], torch.tensor([0.0, 2.0, 2.0, 2.0]))
    assert list(module.state_dict()) == ["positional_encodings"]


def test_learned_positions_are_added_in_order():
    module = LearnedPositionalEncoding(3, 0.0, max_len=4)
    nn.init.normal_(module.positional_encodings)
    x = torch.randn(2, 5, 3)
    expected = x + module.positional_encodings[2:4]
    torch.testing.assert_close(module(x, offset=2), expected)
    assert learned_positions(module.positional_encodings, 3, 1).shape == (1, 1, 3)


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_copies_doubles_and_pickles(kind):
    module = kind(7, 0.0, max_len=5).double()
    x = torch.randn(5, 2, 7, dtype=torch.float64)
    expected = module(x)
    assert expected.dtype == torch.float64
    assert torch.equal(copy.deepcopy(module)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(module))(x), expected)


def test_half_precision_stays_half():
    module = PositionalEncoding(6, 0.0, max_len=3).bfloat16()
    assert module(torch.randn(5, 2, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_compiles_whole(unhooked):
    module = unhooked(MODULE).PositionalEncoding(6, 0.0, max_len=4)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    for length in (3, 7):
        x = torch.randn(length, 2, 6)
        torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize("name", ["PositionalEncoding", "LearnedPositionalEncoding"])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(3, 6), ValueError, r"`x` has shape \[3, 6\]; expected \[T, B, C\]"),
        (torch.zeros(3, 2, 5), ValueError, r"\[3, 2, 5\].*C = d_model = 6"),
        (torch.zeros(0, 2, 6), ValueError, "the sequence is empty"),
        (torch.zeros(3, 2, 6, dtype=torch.long), TypeError, "embed tokens first"),
    ],
)
def test_what_cannot_be_placed(unhooked, name, x, error, message):
    module = getattr(unhooked(MODULE), name)(6, 0.0, max_len=4)
    with pytest.raises(error, match=message):
        module(x)


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_negative_offset(kind):
    with pytest.raises(ValueError, match=r"`offset` \(-1\) must be 0 or more"):
        kind(6, 0.0)(torch.zeros(3, 2, 6), offset=-1)


def test_learned_positions_end():
    module = LearnedPositionalEncoding(6, 0.0, max_len=4)
    with pytest.raises(ValueError, match=r"needs 5 positions, but only max_len = 4 .* max_len=5"):
        module(torch.zeros(5, 2, 6))
    with pytest.raises(ValueError, match="needs 6 positions"):
        module(torch.zeros(3, 2, 6), offset=3)


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1), "`d_model`.*0.* at least 1"),
        ((4, 0.1, 0), "`max_len`.*0.* at least 1"),
        ((4, 1.5), "`dropout_prob`.*1.5"),
    ],
)
def test_impossible_sizes(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(*arguments)
