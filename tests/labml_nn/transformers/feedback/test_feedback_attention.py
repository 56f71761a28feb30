"""Attention with one query: by hand, against `nn.MultiheadAttention`, and its two forms."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from labml_nn.transformers.feedback.attention import FeedbackAttention, RelativePositions

S, B, C, H, K = 7, 2, 12, 3, 4


def randomised(module):
    """Parameters that start at zero would hide most mistakes."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return module


def build(shared=False, dropout=0.0, **options):
    return randomised(FeedbackAttention(H, C, dropout, is_kv_precomputed=shared, **options))


def inputs(shared=False):
    generator = torch.Generator().manual_seed(2)
    row = (H, K) if shared else (C,)
    shapes = [(B, C), (S, B, *row), (S, B, *row)]
    query, key, value = (
        torch.randn(shape, generator=generator).requires_grad_() for shape in shapes
    )
    return {"query": query, "key": key, "value": value}


class OwnScores(FeedbackAttention):
    """Overrides `get_scores` as old code would, and so takes the readable form."""

    def get_scores(self, query, key):
        return super().get_scores(query, key)


def test_by_hand():
    """One head of one feature, two rows; every term of the scores is there and can be read off."""
    attention = FeedbackAttention(1, 1, 0.0, is_kv_precomputed=True, max_distance=3)
    with torch.no_grad():
        for parameter, value in [
            (attention.query.linear.weight, [[2.0]]),
            (attention.output.weight, [[5.0]]),
            (attention.output.bias, [0.5]),
            (attention.key_pos_embeddings, [[[9.0]], [[0.3]], [[-0.1]]]),  # distances 3, 2, 1
            (attention.key_pos_bias, [[9.0], [0.2], [0.7]]),
            (attention.query_pos_bias, [[0.4]]),
        ]:
            parameter.copy_(torch.tensor(value))
    keys, values = torch.tensor([0.6, -0.2]), torch.tensor([1.0, 3.0])
    got = attention(
        query=torch.tensor([[1.5]]), key=keys.view(2, 1, 1, 1), value=values.view(2, 1, 1, 1)
    )
    q = 2 * 1.5
    oldest = q * 0.6 + q * 0.3 + 0.4 * 0.6 + 0.2
    newest = q * -0.2 + q * -0.1 + 0.4 * -0.2 + 0.7
    share = math.exp(oldest) / (math.exp(oldest) + math.exp(newest))
    assert got.item() == pytest.approx(5 * (share * 1.0 + (1 - share) * 3.0) + 0.5, rel=1e-6)


def as_multihead_attention(attention, query):
    """`nn.MultiheadAttention` with the same weights, and a mask for what distance says.

    It has no relative positions, but a mask of numbers that are added to the scores, and a bias
    of the query, which is what term C comes to.
    """
    torch_module = nn.MultiheadAttention(C, H, dropout=0.0)
    q, k, v = attention.query.linear, attention.key.linear, attention.value.linear
    with torch.no_grad():
        torch_module.in_proj_weight.copy_(torch.cat([q.weight, k.weight, v.weight]))
        bias = [attention.query_pos_bias.flatten(), torch.randn(C), v.bias]
        torch_module.in_proj_bias.copy_(torch.cat(bias))
        torch_module.out_proj.load_state_dict(attention.output.state_dict())
        positions = attention.relative_positions(S)
        heads = attention.query(query)
        mask = torch.einsum("bhk,shk->bhs", heads, positions.embeddings) + positions.bias.T
    return torch_module, (mask / math.sqrt(K)).reshape(B * H, 1, S)


@pytest.mark.parametrize("kind", [FeedbackAttention, OwnScores])
def test_equals_torch(kind):
    attention, given = randomised(kind(H, C, 0.0)), inputs()
    torch_module, mask = as_multihead_attention(attention, given["query"])
    expected, _ = torch_module(
        given["query"].unsqueeze(0), given["key"], given["value"], attn_mask=mask
    )
    got = attention(**given)
    torch.testing.assert_close(got, expected[0])

    # The mask is a constant to torch, so gradients are compared where it does not reach.
    weight = torch.linspace(-1, 1, B * C).view(B, C)
    for name in ("key", "value"):
        ours = torch.autograd.grad((got * weight).sum(), given[name], retain_graph=True)[0]
        theirs = torch.autograd.grad((expected * weight).sum(), given[name], retain_graph=True)[0]
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_fast_form_equals_readable_form(dropout):
    """In training too: both draw the same dropout mask, and the fast one must scale $b_V$."""
    given, results = inputs(), []
    for kind in (FeedbackAttention, OwnScores):
        attention = randomised(kind(H, C, dropout)).double()
        arguments = {name: x.detach().double().requires_grad_() for name, x in given.items()}
        torch.manual_seed(3)
        output = attention(**arguments)
        output.square().sum().backward()
        gradients = {name: x.grad for name, x in arguments.items()}
        gradients |= {name: p.grad for name, p in attention.named_parameters()}
        results.append((output, gradients))
    torch.testing.assert_close(results[0], results[1])


def test_fast_form_without_a_value_bias():
    attention = build()
    attention.value.linear.bias = None
    readable = copy.deepcopy(attention)
    readable.__class__ = OwnScores
    torch.testing.assert_close(attention(**inputs()), readable(**inputs()))


def test_a_replaced_projection_is_used():
    """An adapter around `linear` keeps its `weight`; it must not be passed by."""

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    plain, adapted = build(), build()
    adapted.value.linear.__class__ = Doubled
    given, bias = inputs(), plain.output.bias
    torch.testing.assert_close(adapted(**given) - bias, 2 * (plain(**given) - bias))


@pytest.mark.parametrize("shared", [False, True])
def test_overridden_scores_are_used(shared):
    class NewestOnly(FeedbackAttention):
        def get_scores(self, query, key):
            scores = torch.full((*key.shape[:2], self.heads), -torch.inf)
            scores[-1] = 0
            return scores

    attention, given = randomised(NewestOnly(H, C, 0.0, is_kv_precomputed=shared)), inputs(shared)
    newest = given["value"][-1] if shared else attention.value(given["value"][-1])
    torch.testing.assert_close(attention(**given), attention.output(newest.flatten(1)))


def test_gradients_numerically():
    attention = FeedbackAttention(1, 2, 0.0, max_distance=3)
    randomised(attention).double()
    generator = torch.Generator().manual_seed(4)
    shapes = [(1, 2), (4, 1, 2), (4, 1, 2)]
    given = [
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in shapes
    ]

    def call(query, key, value, *parameters):
        named = dict(zip(dict(attention.named_parameters()), parameters, strict=True))
        arguments = {"query": query, "key": key, "value": value}
        return torch.func.functional_call(attention, named, kwargs=arguments)

    assert torch.autograd.gradcheck(call, (*given, *attention.parameters()))


def test_positions_end_with_distance_one():
    attention = build(max_distance=9)
    positions = attention.relative_positions(S)
    assert torch.equal(positions.embeddings, attention.key_pos_embeddings[2:])
    assert torch.equal(positions.bias, attention.key_pos_bias[2:])
    near = positions.last(3)
    assert torch.equal(near.embeddings, attention.key_pos_embeddings[6:])
    assert torch.equal(near.bias, attention.key_pos_bias[6:])
    assert attention.relative_positions(0).bias.shape == (0, H)


def test_distances_beyond_the_table_share_the_farthest_row():
    attention = build(max_distance=4)
    positions = attention.relative_positions(S)
    rows = [0, 0, 0, 0, 1, 2, 3]
    assert torch.equal(positions.embeddings, attention.key_pos_embeddings[rows])
    assert torch.equal(positions.bias, attention.key_pos_bias[rows])

    # And all four of them send their gradients there.
    positions.bias.sum().backward()
    assert attention.key_pos_bias.grad[:, 0].tolist() == [4.0, 1.0, 1.0, 1.0]


def test_a_longer_table_with_equal_far_rows_is_the_same():
    short, long = build(max_distance=4), build(max_distance=S)
    state = short.state_dict()
    for name in ("key_pos_embeddings", "key_pos_bias"):
        state[name] = state[name][[0, 0, 0, 0, 1, 2, 3]]
    long.load_state_dict(state)
    torch.testing.assert_close(short(**inputs()), long(**inputs()))


def test_positions_may_be_handed_in():
    attention, given = build(), inputs()
    positions = attention.relative_positions(S + 5).last(S)
    torch.testing.assert_close(attention(**given, positions=positions), attention(**given))
    other = RelativePositions(positions.embeddings.flip(0), positions.bias.flip(0))
    assert not torch.allclose(attention(**given, positions=other), attention(**given))


def test_the_order_of_rows_matters_through_distance_alone():
    attention, given = build(), inputs()
    flipped = {**given, "key": given["key"].flip(0), "value": given["value"].flip(0)}
    assert not torch.allclose(attention(**given), attention(**flipped), atol=1e-3)
    attention.reset_parameters()
    torch.testing.assert_close(attention(**given), attention(**flipped))


def test_weights_are_kept_on_request():
    attention, given = build(dropout=0.5, store_attn=True), inputs()
    attention(**given)
    assert attention.attn.shape == (S, B, H)
    assert not attention.attn.requires_grad
    torch.testing.assert_close(attention.attn.sum(0), torch.ones(B, H))
    scores = attention.get_scores(attention.query(given["query"]), attention.key(given["key"]))
    torch.testing.assert_close(attention.attn, (scores / math.sqrt(K)).softmax(0))
    attention.store_attn = False
    attention(**given)
    assert attention.attn is None


@pytest.mark.parametrize("shared", [False, True])
def test_copies_and_precisions(shared):
    attention, given = build(shared, store_attn=True), inputs(shared)
    expected = attention(**given)
    for copied in (copy.deepcopy(attention), pickle.loads(pickle.dumps(attention))):
        torch.testing.assert_close(copied(**given), expected)
    double = copy.deepcopy(attention).double()
    result = double(**{name: x.double() for name, x in given.items()})
    torch.testing.assert_close(result, expected.double(), rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        result = attention(**given)
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 12), r"`d_model` \(12\) must be divisible by `heads` \(5\); try 10 or 15"),
        ((0, 12), r"`heads` \(0\) must be at least 1"),
        ((3, 12, 1.5), r"`dropout_prob` \(1.5\) must be from 0 to 1"),
    ],
)
def test_impossible_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedbackAttention(*arguments)


def test_impossible_distance():
    with pytest.raises(ValueError, match=r"`max_distance` \(0\) must be at least 1"):
        FeedbackAttention(3, 12, max_distance=0)


@pytest.mark.parametrize(
    ("shared", "name", "shape", "message"),
    [
        (False, "query", (B, C + 1), r"`query` has shape \[2, 13\]; expected \[B, C\]"),
        (False, "query", (1, B, C), r"`query` has shape \[1, 2, 12\].*one token per sequence"),
        (False, "key", (S, B + 1, C), r"`key` has shape \[7, 3, 12\]; expected \[7, 2, 12\]"),
        (False, "key", (S, B, H, K), r"`key` has shape \[7, 2, 3, 4\]; expected \[7, 2, 12\]"),
        (True, "key", (S, B, C), r"`key` has shape \[7, 2, 12\]; expected \[7, 2, 3, 4\]"),
        (True, "value", (S, B, K, H), r"`value` has shape \[7, 2, 4, 3\].*\[7, 2, 3, 4\]"),
        (False, "value", (S - 1, B, C), r"`value` has shape \[6, 2, 12\]; expected \[7, 2, 12\]"),
    ],
)
def test_wrong_shapes(unhooked, shared, name, shape, message):
    module = unhooked("labml_nn.transformers.feedback")
    attention = module.FeedbackAttention(H, C, is_kv_precomputed=shared)
    with pytest.raises(ValueError, match=message):
        attention(**{**inputs(shared), name: torch.zeros(shape)})


def test_empty_memory(unhooked):
    attention = unhooked("labml_nn.transformers.feedback").FeedbackAttention(H, C)
    empty = torch.zeros(0, B, C)
    with pytest.raises(ValueError, match=r"memory is empty \(S = 0\).*key=None, value=None"):
        attention(query=torch.zeros(B, C), key=empty, value=empty)


def test_wrong_dtype(unhooked):
    attention = unhooked("labml_nn.transformers.feedback").FeedbackAttention(H, C)
    given = {name: x.double() for name, x in inputs().items()}
    with pytest.raises(TypeError, match=r"`query` has dtype torch.float64 but.*torch.float32"):
        attention(**given)
    mixed = {**inputs(), "value": given["value"]}
    with pytest.raises(TypeError, match=r"`value` has dtype torch.float64 but `query` has.*32"):
        attention(**mixed)


@pytest.mark.parametrize("shared", [False, True])
def test_scores_replaced_on_one_object_are_used(shared):
    attention = build(shared)
    given = inputs(shared)
    attention.get_scores = lambda query, key: torch.zeros(S, B, H)
    value = given["value"] if shared else attention.value(given["value"])
    expected = attention.output(value.mean(0).flatten(1))
    torch.testing.assert_close(attention(**given), expected)
