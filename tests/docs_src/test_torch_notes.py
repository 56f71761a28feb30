"""What our notes on PyTorch's attention state, checked with the PyTorch that is installed."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from docs_src.dog_sleeps import as_torch, last_attention

NOTES = Path(__file__).parents[2] / "docs_src/notes/torch"
PROGRAMS = [
    pytest.param(program, id=f"{path.stem}-{number}")
    for path in sorted(NOTES.rglob("*.md"))
    for number, program in enumerate(
        re.findall(r"(?ms)^```python\n(.*?)^```$", path.read_text(encoding="utf-8"))
    )
]
T, B, C, H = 5, 2, 12, 3
#: What is hidden; and with all keys of the first query.
CAUSAL = torch.ones(T, T, dtype=torch.bool).triu(1)
HIDDEN = CAUSAL | (torch.arange(T) == 0)[:, None]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run(program):
    exec(compile(program, "note", "exec"), {})


@pytest.fixture
def x():
    return torch.randn(T, B, C)


@pytest.fixture
def attention():
    """A module with a bias."""
    attention = nn.MultiheadAttention(C, H)
    nn.init.normal_(attention.out_proj.bias)
    return attention


def is_nan(result: torch.Tensor, where: object) -> bool:
    """Whether it is NaN there, and nowhere else."""
    expected = torch.zeros_like(result, dtype=torch.bool)
    expected[where] = True  # type: ignore[index]
    return result.isnan().equal(expected)


@pytest.mark.parametrize("need_weights", [True, False])
def test_nan_reaches_all_projections_without_a_loss(need_weights, attention, x):
    """Even if the loss leaves the query out."""
    result, _ = attention(x, x, x, attn_mask=HIDDEN, need_weights=need_weights)
    result[1:].sum().backward()
    gradient = attention.in_proj_weight.grad
    assert gradient is not None
    assert all(part.isnan().any() == need_weights for part in gradient.chunk(3)[:2])


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_fast_path_makes_nan(need_weights, x):
    attention = nn.MultiheadAttention(C, 4, batch_first=True).eval()
    x = x.transpose(0, 1)
    with torch.no_grad():
        result, _ = attention(x, x, x, attn_mask=HIDDEN, need_weights=need_weights)
    assert is_nan(result, (slice(None), 0))


@pytest.mark.parametrize("appended", ["add_zero_attn", "add_bias_kv"])
def test_what_is_appended_is_seen_by_all(appended, x):
    attention = nn.MultiheadAttention(C, H, **{appended: True})
    result, weights = attention(x, x, x, attn_mask=HIDDEN)
    assert not result.isnan().any() and weights.shape == (B, T, T + 1)
    torch.testing.assert_close(weights[:, 0, -1], torch.ones(B))


def test_the_hint_counts_only_without_weights(attention, x):
    nothing = torch.zeros(T, T, dtype=torch.bool)
    results = [
        attention(x, x, x, attn_mask=nothing, is_causal=True, need_weights=need)[0]
        for need in (True, False)
    ]
    plain, _ = attention(x, x, x)
    torch.testing.assert_close(results[0], plain)
    assert (results[1] - plain).abs().max() > 1e-3
    torch.testing.assert_close(results[1], attention(x, x, x, attn_mask=CAUSAL)[0])
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        attention(x, x, x, is_causal=True)


def test_a_mask_for_each_sequence_is_repeated_for_its_heads(attention, x):
    mask = torch.rand(B, T, T) > 0.5
    mask[..., 0] = False
    _, weights = attention(x, x, x, attn_mask=mask.repeat_interleave(H, dim=0))
    assert not weights[mask].any() and (weights[~mask] > 0).all()
    _, weights = attention(x, x, x, attn_mask=mask.repeat(H, 1, 1))
    assert weights[mask].any()


def test_weights_come_back_after_dropout():
    attention, x = nn.MultiheadAttention(C, H, dropout=0.5), torch.randn(T, B, C)
    assert (attention(x, x, x)[1].sum(-1) - 1).abs().max() > 1e-3
    torch.testing.assert_close(attention.eval()(x, x, x)[1].sum(-1), torch.ones(B, T))


@pytest.mark.parametrize(("features", "shape"), [(4, (12, 4)), (6, None)])
def test_the_projections_are_packed_if_keys_have_as_many_features(features, shape):
    packed = nn.MultiheadAttention(4, 2, kdim=features).in_proj_weight
    assert getattr(packed, "shape", None) == shape


def test_batch_first_exchanges_two_axes_and_in_the_wrong_order_sequences_mix():
    first, other = (nn.MultiheadAttention(C, H, batch_first=here) for here in (True, False))
    other.load_state_dict(first.state_dict())
    x, changed = torch.randn(2, B, T, C)
    y = x.transpose(0, 1)
    right, wrong = first(x, x, x)[0], other(x, x, x)[0]
    torch.testing.assert_close(right, other(y, y, y)[0].transpose(0, 1))
    changed[0] = x[0]
    torch.testing.assert_close(right[0], first(changed, changed, changed)[0][0])
    assert (wrong[0] - other(changed, changed, changed)[0][0]).abs().max() > 1e-3


def test_the_dog_sleeps_in_both_modules_alike():
    ours, given = last_attention()
    theirs, hidden = as_torch(ours), ~given["mask"][..., 0]
    with torch.no_grad():
        mine = ours(**given)
        result, weights = theirs(given["query"], given["key"], given["value"], attn_mask=hidden)
    torch.testing.assert_close(mine, result)
    torch.testing.assert_close(ours.attn.mean(-1)[..., 0], weights[0])
    # What the replays say of it.
    assert (ours.d_model, ours.heads, ours.d_k) == (88, 4, 22)
    assert weights[0, 0, 0] == 1 and hidden.equal(torch.ones_like(hidden).triu(1))


# --- Mistakes without an error --------------------------------------------------------------------


def test_a_causal_mask_that_is_not_inverted_makes_nan_in_the_last_row(attention, x):
    assert is_nan(attention(x, x, x, attn_mask=~CAUSAL)[0], -1)


def test_a_sequence_of_padding_is_nan_or_the_bias(attention, x):
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[1] = True
    result, _ = attention(x, x, x, padding)
    assert is_nan(result, (slice(None), 1))
    result, _ = attention(x, x, x, padding, need_weights=False)
    torch.testing.assert_close(result[:, 1], attention.out_proj.bias.expand(T, C))


def test_a_mask_of_numbers_is_added(attention, x):
    assert (attention(x, x, x, attn_mask=CAUSAL.float())[1] > 0).all()
    _, weights = attention(x, x, x, attn_mask=torch.zeros(T, T).masked_fill(CAUSAL, -torch.inf))
    torch.testing.assert_close(weights, attention(x, x, x, attn_mask=CAUSAL)[1])
    with pytest.raises(AssertionError, match="only bool and floating"):
        attention(x, x, x, attn_mask=CAUSAL.long())


def test_dropout_is_for_weights_and_biases_begin_with_zeros():
    attention, x = nn.MultiheadAttention(C, H), torch.randn(T, B, C)
    assert attention.dropout == 0
    assert not attention.in_proj_bias.any() and not attention.out_proj.bias.any()
    attention = nn.MultiheadAttention(C, H, dropout=1.0)
    nn.init.normal_(attention.out_proj.bias)
    torch.testing.assert_close(attention(x, x, x)[0], attention.out_proj.bias.expand(T, B, C))


def test_no_way_calls_the_module_of_the_output_projection():
    attention, called = nn.MultiheadAttention(C, 4, batch_first=True).eval(), []
    attention.out_proj.register_forward_hook(lambda *_: called.append(1))
    x, was = torch.randn(B, T, C), torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        fast, _ = attention(x, x, x)
        torch.backends.mha.set_fastpath_enabled(False)
        slow, _ = attention(x, x, x)
        torch.backends.mha.set_fastpath_enabled(was)
    torch.testing.assert_close(fast, slow)
    assert not called


# --- The encoder layer ----------------------------------------------------------------------------


def padded() -> tuple[nn.TransformerEncoderLayer, torch.Tensor, torch.Tensor]:
    """A layer in evaluation, a batch, and its padding, at the ends."""
    layer = nn.TransformerEncoderLayer(C, 4, 24, batch_first=True).eval()
    return layer, torch.randn(B, T, C), torch.arange(T).expand(B, T) >= torch.tensor([[T], [2]])


def test_the_fast_path_of_a_layer_and_its_nan():
    layer, x, padding = padded()
    with torch.no_grad():
        fast = layer(x, src_key_padding_mask=padding)
    slow = layer(x, src_key_padding_mask=padding)
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)
    padding[1] = True
    with torch.no_grad():
        assert layer(x, src_key_padding_mask=padding)[1].isnan().all()
    assert not layer(x, src_key_padding_mask=padding).isnan().any()


def test_a_hook_is_called_because_it_switches_the_fast_path_off():
    layer, x, _ = padded()
    called = []
    with torch.no_grad():
        layer(x)
        layer.linear1.register_forward_hook(lambda *_: called.append(1))
        layer(x)
    assert called == [1]


def test_padding_in_front_is_computed():
    layer, x, padding = padded()
    encoder, padding = nn.TransformerEncoder(layer, 2).eval(), padding.flip(1)
    with torch.no_grad():
        result = encoder(x, src_key_padding_mask=padding)
    assert result[padding].all() and result[~padding].all()


def test_layers_of_a_stack_begin_equal_and_without_a_last_norm():
    layer, _, _ = padded()
    encoder = nn.TransformerEncoder(layer, 2)
    one, other = (each.state_dict() for each in encoder.layers)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert encoder.norm is None and not layer.norm_first
    assert nn.TransformerEncoderLayer(C, 4).linear1.out_features == 2048
