"""Where published tutorials go wrong: each fault built, seen by a property, and absent here.

The numbers are those of the notes that show the faults, gathered on `docs_src/pages/faults.md`.
"""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.positional_encoding import get_positional_encoding
from labml_nn.transformers.scaled_dot_product import (
    attention_weights,
    einsum_attention,
    fused_attention,
    matmul_attention,
)
from labml_nn.transformers.utils import (
    combine_masks,
    padding_mask,
    subsequent_mask,
    token_padding_mask,
)

FORMS = {"einsum": einsum_attention, "matmul": matmul_attention, "fused": fused_attention}
EACH = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# Positional frequencies that are not divided by the width ---------------------------------


def undivided(d_model, max_len):
    """10000^(-2i) where the paper has 10000^(-2i / C)."""
    frequencies = torch.exp(torch.arange(0, d_model, 2) * -math.log(10000.0))
    angles = torch.arange(max_len)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def hands_that_move(table):
    return int(((table.amax(0) - table.amin(0)) > 0.01).sum())


def closest(table):
    """Distance of the two positions that look most alike."""
    distances = torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist")
    return (distances + 9 * torch.eye(len(table))).min().item()


def test_every_position_looks_different():
    ours, theirs = get_positional_encoding(512, 1000)[:, 0], undivided(512, 1000)
    assert torch.equal(ours[:, :2], theirs[:, :2])  # the first hand is right in both
    assert (hands_that_move(ours), hands_that_move(theirs)) == (503, 2)
    assert closest(ours) == pytest.approx(3.71, abs=0.01)
    assert closest(theirs[:100]) == pytest.approx(0.018, abs=0.001)
    assert closest(theirs) == pytest.approx(6e-5, abs=1e-5)


# A padding mask on the axis of the queries ------------------------------------------------


def weight_on_padding(mask, lengths, T, B):
    """The share of weight that real queries give to padding, in the last sequence."""
    attention = MultiHeadAttention(4, 64, 0.0, store_attn=True)
    x = torch.randn(T, B, 64)
    together = attention(query=x, key=x, value=x, mask=mask)[:lengths, -1:]
    share = attention.attn[:lengths, lengths:, -1].sum(dim=1).mean().item()
    x = x[:lengths, -1:]
    alone = attention(query=x, key=x, value=x)
    return share, ((together - alone).norm(dim=-1) / alone.norm(dim=-1)).mean().item()


def test_no_weight_falls_on_padding():
    T, B = 128, 2
    mask = padding_mask(torch.tensor([T, 32]))  # [1, S, B]
    share, change = weight_on_padding(mask, 32, T, B)
    assert share == 0
    assert change < 1e-6
    wrong = mask.transpose(0, 1).expand(T, T, B)  # as if the first axis were the keys
    share, change = weight_on_padding(wrong, 32, T, B)
    assert share == pytest.approx(0.75, abs=0.01)
    assert change == pytest.approx(0.45, abs=0.1)


def test_a_padding_mask_on_the_wrong_axis_is_refused(unhooked):
    """As it is usually made, `unsqueeze` on the wrong side, before anything stretches it."""
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(3, 12)
    x = torch.randn(7, 2, 12)
    wrong = (torch.arange(7)[:, None] < torch.tensor([7, 3])).unsqueeze(1)  # [T, 1, B]
    with pytest.raises(ValueError, match=r"`mask` has shape \[7, 1, 2\]; expected \[T or 1, S, B"):
        attention(query=x, key=x, value=x, mask=wrong)


# A mask function that returns early -------------------------------------------------------


def both(tokens, padding_token):
    return combine_masks(token_padding_mask(tokens, padding_token), subsequent_mask(len(tokens)))


def early(tokens, padding_token=None):
    if padding_token is not None:
        return token_padding_mask(tokens, padding_token)
    return subsequent_mask(len(tokens))


class Model(nn.Module):
    """One layer that predicts the next of nine tokens."""

    def __init__(self, make_mask):
        super().__init__()
        self.make_mask = make_mask
        self.embed = nn.Embedding(9, 32)
        self.layer = TransformerLayer(
            d_model=32,
            self_attn=MultiHeadAttention(2, 32, 0.0),
            feed_forward=FeedForward(32, 64, 0.0),
            dropout_prob=0.0,
        )
        self.output = nn.Linear(32, 9)

    def forward(self, tokens):
        x = self.embed(tokens) + get_positional_encoding(32, len(tokens))
        return self.output(self.layer(x=x, mask=self.make_mask(tokens, 0)))


def reads_ahead(model):
    """Whether the last token changes what is said before it."""
    tokens = torch.randint(1, 9, (13, 4))
    other = torch.cat([tokens[:-1], 9 - tokens[-1:]])
    return not torch.allclose(model(tokens)[:-1], model(other)[:-1])


def train(model, steps):
    """The mean loss of the last twenty steps on tokens that nobody can foretell."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(1, 9, (13, 16))
        loss = F.cross_entropy(model(tokens[:-1]).flatten(0, 1), tokens[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


def test_a_mask_that_hides_the_future_hides_it_beside_padding():
    assert not reads_ahead(Model(both))
    assert reads_ahead(Model(early))


def test_no_model_is_better_than_chance():
    """At random tokens: a loss below ln 8 is that of one who reads the answer."""
    assert train(Model(both), 60) > math.log(8) - 0.02
    assert train(Model(early), 60) < math.log(8) - 0.5


# Large negative numbers where infinity belongs --------------------------------------------

HIDDEN = torch.tensor([True] * 4 + [False] * 4)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def filled(scores, mask, fill):
    return scores.masked_fill(~mask, fill).softmax(-1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_keys_get_nothing_in_any_precision(dtype):
    low = torch.full((8,), -12_000.0, dtype=dtype)
    scores = torch.randn(8).to(dtype)
    nothing = torch.zeros(8, dtype=torch.bool)

    # Scores below the filling: who may not be seen is all that is seen.
    assert filled(low, HIDDEN, -1e4)[~HIDDEN].sum() == 1
    assert attention_weights(low, HIDDEN, axis=-1)[~HIDDEN].sum() == 0

    # Nothing to see: a mean of what may not be seen, or an error, or NaN.
    if dtype == torch.float16:
        with pytest.raises(RuntimeError, match="without overflow"):
            filled(scores, nothing, -1e9)
        added = scores + (1 - nothing.to(dtype)) * -1e9
        assert added.softmax(-1).isnan().all()
        constant = torch.tensor(-1e9).to(dtype)
        assert (scores + (1 - HIDDEN.to(dtype)) * constant).softmax(-1).isnan().all()
    else:
        assert (filled(scores, nothing, -1e9) == 1 / 8).all()
        assert ((scores + (1 - nothing.to(dtype)) * -1e9).softmax(-1) == 1 / 8).all()
    assert filled(scores, nothing, -math.inf).isnan().all()
    assert (attention_weights(scores, nothing, axis=-1) == 0).all()


@EACH
@pytest.mark.parametrize("dtype", DTYPES)
def test_blind_queries_are_zero_in_any_precision(form, dtype):
    x = torch.randn(7, 2, 3, 4).to(dtype)
    result = form(x, x, x, padding_mask(torch.tensor([0, 3]), 7)[..., None])
    assert (result[:, 0] == 0).all()
    assert result.isfinite().all()


# Scores scaled by the width of the model --------------------------------------------------


def largest_and_number(scores):
    """The largest weight, and as how many equal ones all together look."""
    weights = scores.softmax(-1)
    entropy = -(weights * weights.log()).sum(-1)
    return weights.amax(-1).mean().item(), entropy.exp().mean().item()


def test_scores_have_variance_one():
    attention = MultiHeadAttention(heads=8, d_model=512)
    scores = attention.get_scores(torch.randn(4000, 1, 1, 64), torch.randn(32, 1, 1, 64))
    ours, theirs = scores * attention.scale, scores / math.sqrt(512)
    assert ours.std().item() == pytest.approx(1, abs=0.15)
    assert theirs.std().item() == pytest.approx(0.35, abs=0.05)

    # Each query with keys of its own, for the means of the pages.
    query, key = torch.randn(4000, 1, 64), torch.randn(4000, 32, 64)
    scores = (query * key).sum(-1)
    assert largest_and_number(scores) == pytest.approx((0.82, 1.84), rel=0.02)
    assert largest_and_number(scores / 8) == pytest.approx((0.164, 20.7), rel=0.02)
    assert largest_and_number(scores / 512**0.5) == pytest.approx((0.062, 30.1), rel=0.02)


# Dropout before the softmax ---------------------------------------------------------------


def dropped_before(scores, mask, fill):
    return F.dropout(scores.masked_fill(~mask, fill), 0.1).softmax(-1)


def test_dropout_before_the_softmax_drops_nothing_and_shows_the_future():
    causal = subsequent_mask(128)[..., 0]
    scores = torch.randn(64, 128, 128)
    weights = dropped_before(scores, causal, -1e9)
    future = weights.masked_fill(causal, 0.0).sum(-1)
    assert future.mean().item() == pytest.approx(0.12, abs=0.01)
    assert future[:, 0].mean().item() == pytest.approx(0.90, abs=0.05)
    rows = dropped_before(scores, causal, -math.inf).isnan().any(-1)
    assert rows.float().mean().item() == pytest.approx(0.92, abs=0.01)

    scores, everything = torch.randn(20_000, 32), torch.ones(32, dtype=torch.bool)
    assert (dropped_before(scores, everything, 0.0) == 0).sum() == 0
    after = F.dropout(scores.softmax(-1), 0.1)
    assert (after == 0).float().mean().item() == pytest.approx(0.1, abs=0.005)


@EACH
def test_dropout_shows_nothing_of_the_future(form):
    """The same draws, another future: the past stays as it was, dropout or not."""
    x = torch.randn(9, 2, 3, 4)
    other = torch.cat([x[:4], torch.randn(5, 2, 3, 4)])
    mask = subsequent_mask(9)[..., None]
    results = []
    for sequence in (x, other):
        torch.manual_seed(1)
        results.append(form(sequence, sequence, sequence, mask, dropout_prob=0.5))
    assert torch.equal(results[0][:4], results[1][:4])
    assert not torch.isclose(results[0][4:], results[1][4:]).all()
    assert (results[0] == 0).any()  # something was dropped
