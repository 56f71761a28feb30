"""Embeddings: the sum by hand, any length, and the tokens they refuse."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labml_nn.transformers.embeddings import (
    EmbeddingsWithLearnedPositionalEncoding,
    EmbeddingsWithPositionalEncoding,
)
from labml_nn.transformers.positional_encoding import get_positional_encoding

MODULE = "labml_nn.transformers.embeddings"
KINDS = [EmbeddingsWithPositionalEncoding, EmbeddingsWithLearnedPositionalEncoding]
NAMES = [kind.__name__ for kind in KINDS]

both = pytest.mark.parametrize("kind", KINDS)
both_names = pytest.mark.parametrize("name", NAMES)


def test_sum_by_hand():
    embed = EmbeddingsWithPositionalEncoding(4, 3)
    with torch.no_grad():
        embed.linear.weight.copy_(torch.arange(12.0).view(3, 4))
    # sqrt(4) = 2 times rows 2 and 0, plus the sinusoids of positions 0 and 1.
    expected = [
        [16.0, 18.0 + 1, 20.0, 22.0 + 1],
        [math.sin(1), 2 + math.cos(1), 4 + math.sin(0.01), 6 + math.cos(0.01)],
    ]
    embedded = embed(torch.tensor([[2], [0]]))
    torch.testing.assert_close(embedded, torch.tensor(expected).unsqueeze(1))


@both
def test_names_and_shapes_in_the_state_dict(kind):
    state = kind(6, 11, max_len=9).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == {
        "linear.weight": (11, 6),
        "positional_encodings": (9, 1, 6),
    }


def test_what_is_trained():
    fixed = EmbeddingsWithPositionalEncoding(6, 11)
    learned = EmbeddingsWithLearnedPositionalEncoding(6, 11)
    assert [name for name, _ in fixed.named_parameters()] == ["linear.weight"]
    assert len(list(learned.parameters())) == 2
    assert not learned.positional_encodings.any()


def test_fixed_positions_go_on_past_the_table_and_the_checkpoint_stays():
    embed = EmbeddingsWithPositionalEncoding(5, 11, max_len=3)
    before = copy.deepcopy(embed.state_dict())
    tokens = torch.randint(11, (7, 2))
    expected = embed.linear(tokens) * math.sqrt(5) + get_positional_encoding(5, 7)
    torch.testing.assert_close(embed(tokens), expected)
    after = embed.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)


@settings(deadline=None, max_examples=20)
@given(kind=st.sampled_from(KINDS), cut=st.integers(1, 6), seed=st.integers(0, 999))
def test_a_text_in_pieces_is_embedded_like_the_whole(kind, cut, seed):
    torch.manual_seed(seed)
    embed = kind(6, 11, max_len=7)
    nn.init.normal_(embed.positional_encodings)
    tokens = torch.randint(11, (7, 2))
    pieces = [embed(tokens[:cut]), embed(tokens[cut:], offset=cut)]
    torch.testing.assert_close(torch.cat(pieces), embed(tokens))


@both
def test_32_bit_tokens_copies_doubles_and_pickles(kind):
    embed = kind(6, 11, max_len=9).double()
    tokens = torch.randint(11, (5, 2))
    expected = embed(tokens)
    assert expected.dtype == torch.float64
    assert torch.equal(embed(tokens.int()), expected)
    assert torch.equal(copy.deepcopy(embed)(tokens), expected)
    assert torch.equal(pickle.loads(pickle.dumps(embed))(tokens), expected)


def test_old_import_works():
    from labml_nn.transformers import models

    assert models.EmbeddingsWithPositionalEncoding is EmbeddingsWithPositionalEncoding
    assert models.EmbeddingsWithLearnedPositionalEncoding is EmbeddingsWithLearnedPositionalEncoding


@both_names
@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.zeros(5, dtype=torch.long), ValueError, r"`x` has shape \[5\]; expected \[T, B\]"),
        (torch.zeros(0, 2, dtype=torch.long), ValueError, "the sequence is empty"),
        (torch.zeros(5, 2), TypeError, r"`x` has dtype torch.float32.*x\.long\(\)"),
        (torch.zeros(5, 2, dtype=torch.bool), TypeError, "torch.bool"),
        (torch.tensor([[3], [11]]), ValueError, r"`x` holds 11; expected numbers from 0 to 10"),
        (torch.tensor([[3], [-1]]), ValueError, "`x` holds -1"),
    ],
)
def test_tokens_that_cannot_be_embedded(unhooked, name, tokens, error, message):
    embed = getattr(unhooked(MODULE), name)(6, 11, max_len=9)
    with pytest.raises(error, match=message):
        embed(tokens)


@both
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 11), "`d_model`.*0.* at least 1"),
        ((6, 0), "`n_vocab`.*0.* at least 1"),
        ((6, 11, 0), "`max_len`.*0.* at least 1"),
    ],
)
def test_impossible_sizes(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


def test_learned_positions_end():
    embed = EmbeddingsWithLearnedPositionalEncoding(6, 11, max_len=4)
    with pytest.raises(ValueError, match="needs 5 positions, but only max_len = 4"):
        embed(torch.zeros(5, 2, dtype=torch.long))


@both
def test_negative_offset(kind):
    with pytest.raises(ValueError, match=r"`offset` \(-2\)"):
        kind(6, 11)(torch.zeros(5, 2, dtype=torch.long), offset=-2)
