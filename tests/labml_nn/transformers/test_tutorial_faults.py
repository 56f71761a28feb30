"""Faults of published tutorials: each is built, found by a property, and absent here.

The programs of `docs_src/pages/faults.md` show these and others, and `test_examples` runs them.
"""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn import kernels
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.positional_encoding import get_positional_encoding
from labml_nn.transformers.utils import (
    combine_masks,
    padding_mask,
    subsequent_mask,
    token_padding_mask,
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def attend(attention, fast, **inputs):
    if fast:
        return attention(**inputs)
    with kernels.disabled():
        return attention(**inputs)


def undivided(d_model, max_len):
    """10000^(-2i) where the paper has 10000^(-2i / C)."""
    frequencies = torch.exp(torch.arange(0, d_model, 2) * -math.log(10000.0))
    angles = torch.arange(max_len)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def closest(table):
    """Distance of the two positions whose encodings are most alike."""
    distances = torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist")
    return (distances + 9 * torch.eye(len(table))).min().item()


def test_every_position_looks_different():
    ours, theirs = get_positional_encoding(512, 1000)[:, 0], undivided(512, 1000)
    assert torch.equal(ours[:, :2], theirs[:, :2])  # the first pair is right in both
    moving = [int(((x.amax(0) - x.amin(0)) > 0.01).sum()) for x in (ours, theirs)]
    assert moving == [503, 2]
    assert closest(ours) == pytest.approx(3.71, abs=0.01)
    assert closest(theirs) == pytest.approx(6e-5, abs=1e-5)


def test_no_weight_falls_on_padding():
    """A padding mask on the axis of the queries hides nothing."""
    T, n = 128, 32
    attention, x = MultiHeadAttention(4, 64, 0.0), torch.randn(T, 2, 64)
    mask = padding_mask(torch.tensor([T, n]))  # [1, S, B]
    wrong = mask.transpose(0, 1).expand(T, T, 2)  # as if the first axis were the keys
    shares = []
    for used in (mask, wrong):
        attend(attention, False, query=x, key=x, value=x, mask=used)
        shares.append(attention.attn[:n, n:, 1].sum(dim=1).mean().item())
    assert shares == [0, pytest.approx(0.75, abs=0.01)]


def both(tokens):
    return combine_masks(token_padding_mask(tokens, 0), subsequent_mask(len(tokens)))


def early(tokens):
    """Returns the padding mask, and the causal one only where there is no padding token."""
    return token_padding_mask(tokens, 0)


def reads_ahead(make_mask):
    """Whether the last token changes the features before it."""
    embed = nn.Embedding(9, 32)
    layer = TransformerLayer(
        d_model=32,
        self_attn=MultiHeadAttention(2, 32, 0.0),
        feed_forward=FeedForward(32, 64, 0.0),
        dropout_prob=0.0,
    )
    tokens = torch.randint(1, 9, (13, 4))
    other = torch.cat([tokens[:-1], 9 - tokens[-1:]])
    first, second = (layer(x=embed(w), mask=make_mask(w))[:-1] for w in (tokens, other))
    return not torch.allclose(first, second, atol=1e-6)


def test_a_causal_mask_stays_causal_beside_padding():
    assert not reads_ahead(both)
    assert reads_ahead(early)


@pytest.mark.parametrize("fast", [True, False])
def test_dropout_shows_nothing_of_the_future(fast):
    """Dropout before the softmax removes no weight, and gives some to masked keys."""
    causal = subsequent_mask(128)[..., 0]
    scores = torch.randn(64, 128, 128).masked_fill(~causal, -1e9)
    future = F.dropout(scores, 0.1).softmax(-1).masked_fill(causal, 0.0).sum(-1)
    assert future.mean().item() == pytest.approx(0.12, abs=0.01)

    # With the same draws, another future leaves the past as it was.
    attention, x = MultiHeadAttention(3, 12, 0.5), torch.randn(9, 2, 12)
    results = []
    for sequence in (x, torch.cat([x[:4], torch.randn(5, 2, 12)])):
        torch.manual_seed(1)
        mask, inputs = subsequent_mask(9), dict.fromkeys(("query", "key", "value"), sequence)
        results.append(attend(attention, fast, mask=mask, **inputs))
    torch.testing.assert_close(results[0][:4], results[1][:4])
    assert not torch.isclose(results[0][4:], results[1][4:]).all()
