"""Multi-head attention: values computed by hand, stored weights, masks, and what is refused."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from labml_nn.transformers.mha import MultiHeadAttention, PrepareForMultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

T, S, B, C, H = 5, 7, 2, 12, 3

#: Both forms must do all of this.
BOTH = pytest.mark.parametrize("store_attn", [False, True], ids=["fast", "readable"])


def identity(heads, d_model, store_attn):
    """Attention whose four maps change nothing."""
    attention = MultiHeadAttention(heads, d_model, dropout_prob=0.0, store_attn=store_attn)
    maps = (attention.query.linear, attention.key.linear, attention.value.linear, attention.output)
    for linear in maps:
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return attention


@pytest.fixture
def vectors():
    torch.manual_seed(0)
    return {
        "query": torch.randn(T, B, C),
        "key": torch.randn(S, B, C),
        "value": torch.randn(S, B, C),
    }


def lower_triangle():
    return torch.ones(T, S, dtype=torch.bool).tril()[:, :, None]


def column(*rows):
    """A sequence of vectors, `[S, 1, C]`."""
    return torch.tensor(rows, dtype=torch.float).unsqueeze(1)


@BOTH
def test_one_head_by_hand(store_attn):
    # Scores 0 and ln 3 after division by the square root of 2: weights 1/4 and 3/4.
    result = identity(1, 2, store_attn)(
        query=column([math.sqrt(2), 0]),
        key=column([0, 5], [math.log(3), -5]),
        value=column([4, 0], [8, 20]),
    )
    torch.testing.assert_close(result, column([7, 15]))


@BOTH
def test_two_heads_by_hand(store_attn):
    # Head 0 has weights 1/4 and 3/4 of the first feature, head 1 4/5 and 1/5 of the second.
    result = identity(2, 2, store_attn)(
        query=column([1, 1]),
        key=column([0, math.log(4)], [math.log(3), 0]),
        value=column([4, 10], [8, 20]),
    )
    torch.testing.assert_close(result, column([7, 12]))


@BOTH
def test_a_mask_takes_a_key_away(store_attn):
    result = identity(1, 2, store_attn)(
        query=column([1, 1]),
        key=column([0, 0], [0, 0], [9, 9]),
        value=column([2, 4], [4, 8], [100, 100]),
        mask=torch.tensor([True, True, False])[None, :, None],
    )
    torch.testing.assert_close(result, column([3, 6]))


def test_prepare_cuts_the_last_axis_into_heads():
    prepare = PrepareForMultiHeadAttention(C, H, 5, bias=False)
    x = torch.randn(T, B, C)
    result = prepare(x)
    assert result.shape == (T, B, H, 5)
    torch.testing.assert_close(result[:, :, 1], x @ prepare.linear.weight[5:10].T)
    torch.testing.assert_close(prepare(x[0]), result[0])


def test_names_of_parameters():
    """Those of 0.5.1, so that its checkpoints load."""
    expected = {
        f"{name}.{kind}": shape
        for name in ("query.linear", "key.linear", "value.linear", "output")
        for kind, shape in (("weight", (C, C)), ("bias", (C,)))
    }
    state = MultiHeadAttention(H, C).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == expected


def test_bias_false_leaves_no_bias():
    names = dict(MultiHeadAttention(H, C, bias=False).named_parameters())
    assert not [name for name in names if name.endswith("bias")]


def test_output_bias_decides_for_values_and_output():
    names = dict(MultiHeadAttention(H, C, output_bias=False).named_parameters())
    biases = {name for name in names if name.endswith("bias")}
    assert biases == {"query.linear.bias", "key.linear.bias"}


def test_weights_are_kept_on_request_only(vectors):
    attention = MultiHeadAttention(H, C)
    attention(**vectors)
    assert attention.attn is None
    attention.store_attn = True
    attention(**vectors)
    assert attention.attn.shape == (T, S, B, H)
    assert not attention.attn.requires_grad
    attention.store_attn = False
    attention(**vectors)
    assert attention.attn is None


def test_nothing_of_a_call_stays_on_the_module(vectors):
    attention = MultiHeadAttention(H, C)
    before = set(vars(attention))
    attention(**vectors)
    assert set(vars(attention)) == before
    assert not [value for value in vars(attention).values() if isinstance(value, torch.Tensor)]


def test_kept_weights_are_those_before_dropout(vectors):
    attention = MultiHeadAttention(H, C, dropout_prob=0.5, store_attn=True).train()
    attention(**vectors)
    torch.testing.assert_close(attention.attn.sum(dim=1), torch.ones(T, B, H))


@BOTH
def test_dropout_removes_weights_and_scales_the_rest(store_attn):
    attention = MultiHeadAttention(1, 64, dropout_prob=0.5, store_attn=store_attn).train()
    attend = attention.attend if store_attn else attention.attend_fast
    # Values that are unit vectors show the weights as they were used; equal keys make them equal.
    query, key, value = torch.randn(T, B, 1, 64), torch.zeros(64, B, 1, 64), torch.eye(64)
    used = attend(query, key, value[:, None, None].expand(-1, B, 1, -1))
    values = used.unique()
    torch.testing.assert_close(values, torch.tensor([0.0, 2 / 64]))
    assert 0.3 < (used == 0).float().mean() < 0.7
    attention.eval()
    used = attend(query, key, value[:, None, None].expand(-1, B, 1, -1))
    torch.testing.assert_close(used, torch.full_like(used, 1 / 64))


@BOTH
@pytest.mark.parametrize("per_sequence", [False, True])
def test_a_query_that_sees_nothing_gets_zero(vectors, store_attn, per_sequence):
    """The heads return zeros; no gradient passes, and none is NaN, at any step of the way."""
    attention = MultiHeadAttention(H, C, dropout_prob=0.0, store_attn=store_attn)
    vectors["query"].requires_grad_()
    mask = torch.ones(T, S, B if per_sequence else 1, dtype=torch.bool)
    mask[2, :, -1] = False
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        result = attention(**vectors, mask=mask)
        result.sum().backward()
    blind = ~mask.any(dim=1)
    expected = attention.output.bias.expand_as(result)
    rows = blind.expand(T, B)
    torch.testing.assert_close(result[rows], expected[rows])
    assert not torch.isclose(result[~rows], expected[~rows]).all(dim=-1).any()
    assert (vectors["query"].grad[rows] == 0).all()
    assert (vectors["query"].grad[~rows] != 0).any(dim=-1).all()
    for parameter in attention.parameters():
        assert parameter.grad.isfinite().all()
    if store_attn:
        assert (attention.attn[2, :, -1] == 0).all()


def test_integer_masks_of_older_code(unhooked):
    mha = unhooked("labml_nn.transformers.mha")
    attention, x = mha.MultiHeadAttention(H, C).eval(), torch.randn(T, B, C)
    mask = subsequent_mask(T)
    expected = attention(query=x, key=x, value=x, mask=mask)
    for dtype in (torch.uint8, torch.int64):
        torch.testing.assert_close(
            attention(query=x, key=x, value=x, mask=mask.to(dtype)), expected, rtol=0, atol=0
        )


def test_overriding_get_scores_is_enough(vectors):
    class Uniform(MultiHeadAttention):
        def get_scores(self, query, key):
            return super().get_scores(query, key) * 0

    attention = Uniform(H, C).eval()
    result = attention(**vectors)
    mean = attention.value.linear(vectors["value"]).mean(dim=0)
    torch.testing.assert_close(result, attention.output(mean).expand(T, B, C))


class Alike(nn.Module):
    """In place of a softmax or a dropout: all weights are 1 / S."""

    def forward(self, weights):
        return torch.full_like(weights, 1 / S)


@pytest.mark.parametrize(
    ("part", "replacement"),
    [
        ("get_scores", lambda query, key: torch.zeros(T, S, B, H)),
        ("softmax", Alike()),
        ("dropout", Alike()),
    ],
)
def test_replacing_a_part_of_one_object_is_enough(vectors, part, replacement):
    attention = MultiHeadAttention(H, C, dropout_prob=0.0)
    expected = attention.output(attention.value.linear(vectors["value"]).mean(dim=0))
    setattr(attention, part, replacement)
    torch.testing.assert_close(attention(**vectors), expected.expand(T, B, C))


def test_subclasses_written_for_0_5_1_work(vectors):
    """Some override `forward` as a whole and use the parts: `prepare_mask`, `scale`, `softmax`."""

    class Old(MultiHeadAttention):
        def forward(self, *, query, key, value, mask=None):
            seq_len, batch_size, _ = query.shape
            mask = self.prepare_mask(mask, query.shape, key.shape)
            query, key, value = self.query(query), self.key(key), self.value(value)
            scores = self.get_scores(query, key)
            scores *= self.scale
            scores = scores.masked_fill(mask == 0, float("-inf"))
            attn = self.dropout(self.softmax(scores))
            x = torch.einsum("ijbh,jbhd->ibhd", attn, value)
            return self.output(x.reshape(seq_len, batch_size, -1))

    attention, old = MultiHeadAttention(H, C).eval(), Old(H, C).eval()
    old.load_state_dict(attention.state_dict())
    mask = lower_triangle()
    torch.testing.assert_close(old(**vectors, mask=mask), attention(**vectors, mask=mask))


@BOTH
def test_copies_and_types(vectors, store_attn):
    """Deep copies and pickles of a module that was used; double precision; bfloat16 by autocast."""
    attention = MultiHeadAttention(H, C, store_attn=store_attn).eval()
    expected = attention(**vectors)
    for twin in (copy.deepcopy(attention), pickle.loads(pickle.dumps(attention))):
        torch.testing.assert_close(twin(**vectors), expected, rtol=0, atol=0)

    double = copy.deepcopy(attention).double()
    result = double(**{name: x.double() for name, x in vectors.items()})
    assert result.dtype == torch.float64
    torch.testing.assert_close(result.float(), expected)

    mask = torch.ones(T, S, 1, dtype=torch.bool)
    mask[1] = False
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = attention(**vectors, mask=mask)
    assert result.dtype == torch.bfloat16
    expected = attention(**vectors, mask=mask)
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.02)


@BOTH
def test_an_empty_batch_is_no_problem(store_attn):
    attention = MultiHeadAttention(H, C, store_attn=store_attn)
    query, key = torch.randn(T, 0, C), torch.randn(S, 0, C)
    assert attention(query=query, key=key, value=key).shape == (T, 0, C)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((4, 10), ValueError, r"`d_model` \(10\) must be divisible by `heads` \(4\); try 8 or 12"),
        ((16, 10), ValueError, r"`d_model` \(10\) must be divisible by `heads` \(16\); try 16"),
        ((0, 10), ValueError, r"`heads` \(0\) must be at least 1"),
        ((2, -4), ValueError, r"`d_model` \(-4\) must be at least 1"),
        ((2, 4.0), TypeError, r"`d_model` \(4\.0\) must be a whole number, not a float"),
        ((True, 4), TypeError, r"`heads` \(True\) must be a whole number, not a bool"),
        ((2, 4, 1.5), ValueError, r"`dropout_prob` \(1\.5\) must be from 0 to 1"),
        ((2, 4, math.nan), ValueError, r"`dropout_prob` \(nan\) must be from 0 to 1"),
        ((2, 4, "0.1"), TypeError, r"`dropout_prob` \('0\.1'\) must be a number from 0 to 1"),
    ],
)
def test_impossible_modules(unhooked, arguments, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn.transformers.mha").MultiHeadAttention(*arguments)


def with_changed(vectors, **changes):
    return {name: changes.get(name, lambda x: x)(x) for name, x in vectors.items()}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"query": lambda x: x[..., :10]},
            ValueError,
            r"`query` has shape \[5, 2, 10\]; expected \[T, B, C\] .* C = d_model = 12",
        ),
        ({"key": lambda x: x[0]}, ValueError, r"`key` has shape \[2, 12\]; expected \[T, B, C\]"),
        ({"query": lambda x: x[:0]}, ValueError, r"`query` has shape \[0, 2, 12\].* is empty"),
        ({"key": lambda x: x[:0], "value": lambda x: x[:0]}, ValueError, r"`key` .* is empty"),
        (
            {"value": lambda x: x[:3]},
            ValueError,
            "`key` has 7 positions and `value` 3; expected the same number",
        ),
        (
            {"key": lambda x: x[:, :1], "value": lambda x: x[:, :1]},
            ValueError,
            r"batches of 2, 1 and 1; expected the same: use \.expand\(-1, B, ",
        ),
        (
            {"query": lambda x: x.long()},
            TypeError,
            r"`query` has dtype torch\.int64; .* embed tokens first",
        ),
        (
            {"value": lambda x: x.double()},
            TypeError,
            r"`value` has dtype torch\.float64 but the parameters have torch\.float32; convert",
        ),
    ],
)
def test_vectors_that_do_not_fit(unhooked, vectors, changes, error, message):
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C)
    with pytest.raises(error, match=message):
        attention(**with_changed(vectors, **changes))


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (
            torch.ones(T, S, dtype=torch.bool),
            ValueError,
            r"`mask` has shape \[5, 7\]; expected \[T or 1, S, B or 1\] with T = 5, S = 7, B = 2. "
            r"A mask \[T, S\] lacks the batch: add it with mask\[:, :, None\]",
        ),
        (torch.ones(S, T, 1, dtype=torch.bool), ValueError, r"`mask` has shape \[7, 5, 1\]"),
        (torch.ones(T, 1, 1, dtype=torch.bool), ValueError, r"`mask` has shape \[5, 1, 1\]"),
        (torch.ones(T, S, 3, dtype=torch.bool), ValueError, r"`mask` has shape \[5, 7, 3\]"),
        (
            torch.zeros(T, S, 1),
            TypeError,
            r"`mask` has dtype torch\.float32; .* mask\.bool\(\) if 1 .* mask == 0 if it is added",
        ),
    ],
)
def test_masks_that_do_not_fit(unhooked, vectors, mask, error, message):
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C)
    with pytest.raises(error, match=message):
        attention(**vectors, mask=mask)


def test_prepare_refuses_another_width(unhooked):
    prepare = unhooked("labml_nn.transformers.mha").PrepareForMultiHeadAttention(C, H, 5, True)
    with pytest.raises(ValueError, match=r"`x` has shape \[2, 10\]; .* d_model = 12 features"):
        prepare(torch.randn(2, 10))
    with pytest.raises(TypeError, match=r"float64 but the parameters have torch\.float32"):
        prepare(torch.randn(2, C, dtype=torch.float64))


@BOTH
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_into_one_graph(unhooked, vectors, store_attn, dynamic):
    """With a mask and without, and for other lengths too."""
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(
        H, C, dropout_prob=0.0, store_attn=store_attn
    )
    compiled = torch.compile(attention, fullgraph=True, backend="eager", dynamic=dynamic)
    mask = lower_triangle()
    mask[0] = False
    shorter = with_changed(vectors, query=lambda x: x[:3])
    for arguments in (vectors, {**vectors, "mask": mask}, {**shorter, "mask": mask[:1]}):
        torch.testing.assert_close(compiled(**arguments), attention(**arguments))
    if store_attn:
        assert compiled.attn.shape == (3, S, B, H)


@BOTH
def test_compiled_gradients(unhooked, vectors, store_attn):
    attention = unhooked("labml_nn.transformers.mha").MultiHeadAttention(
        H, C, dropout_prob=0.0, store_attn=store_attn
    )
    mask = lower_triangle()
    mask[0] = False
    gradients = []
    for module in (attention, torch.compile(attention, fullgraph=True, backend="aot_eager")):
        attention.zero_grad()
        module(**vectors, mask=mask).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in attention.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])
