"""What our notes on PyTorch's attention state, checked with the PyTorch that is installed."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from docs_src.dog_sleeps import as_torch, last_attention

NOTES = Path(__file__).parents[2] / "docs_src/notes/torch"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(NOTES.rglob("*.md"))}
PROGRAMS = [
    (name, number, program)
    for name, text in PAGES.items()
    for number, program in enumerate(
        re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    )
]
T, B, C, H = 5, 2, 12, 3


@pytest.mark.parametrize(("name", "number", "program"), PROGRAMS)
def test_programs_run(name: str, number: int, program: str) -> None:
    exec(compile(program, f"{name} {number}", "exec"), {})


def without_keys() -> tuple[nn.MultiheadAttention, torch.Tensor, torch.Tensor]:
    """A module with a bias, its input, and a mask that hides all keys of the first query."""
    attention, hidden = nn.MultiheadAttention(C, H), torch.ones(T, T, dtype=torch.bool).triu(1)
    nn.init.normal_(attention.out_proj.bias)
    hidden[0] = True
    return attention, torch.randn(T, B, C), hidden


def test_true_hides() -> None:
    attention, x, hidden = without_keys()
    _, weights = attention(x, x, x, attn_mask=hidden, average_attn_weights=False)
    assert weights.shape == (B, H, T, T)
    rest = hidden[1:]
    assert not weights[:, :, 1:][..., rest].any() and (weights[:, :, 1:][..., ~rest] > 0).all()


def test_a_query_without_keys_is_nan_or_the_bias() -> None:
    attention, x, hidden = without_keys()
    slow, _ = attention(x, x, x, attn_mask=hidden)
    fast, nothing = attention(x, x, x, attn_mask=hidden, need_weights=False)
    assert nothing is None and slow[0].isnan().all() and not slow[1:].isnan().any()
    torch.testing.assert_close(fast[0], attention.out_proj.bias.expand(B, C))
    torch.testing.assert_close(fast[1:], slow[1:])


@pytest.mark.parametrize("need_weights", [True, False])
def test_nan_reaches_all_projections_even_if_the_loss_leaves_the_query_out(
    need_weights: bool,
) -> None:
    attention, x, hidden = without_keys()
    result, _ = attention(x, x, x, attn_mask=hidden, need_weights=need_weights)
    result[1:].sum().backward()
    gradient = attention.in_proj_weight.grad
    assert gradient is not None
    assert all(part.isnan().any() == need_weights for part in gradient.chunk(3)[:2])


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_fast_path_makes_nan(need_weights: bool) -> None:
    attention = nn.MultiheadAttention(C, 4, batch_first=True).eval()
    _, x, hidden = without_keys()
    x = x.transpose(0, 1)
    with torch.no_grad():
        result, _ = attention(x, x, x, attn_mask=hidden, need_weights=need_weights)
    assert result[:, 0].isnan().all() and not result[:, 1:].isnan().any()


@pytest.mark.parametrize("appended", ["add_zero_attn", "add_bias_kv"])
def test_what_is_appended_is_seen_by_all(appended: str) -> None:
    _, x, hidden = without_keys()
    attention = nn.MultiheadAttention(C, H, **{appended: True})
    result, weights = attention(x, x, x, attn_mask=hidden)
    assert not result.isnan().any() and weights.shape == (B, T, T + 1)
    torch.testing.assert_close(weights[:, 0, -1], torch.ones(B))


def test_the_hint_counts_only_without_weights() -> None:
    attention, x, _ = without_keys()
    nothing = torch.zeros(T, T, dtype=torch.bool)
    results = [
        attention(x, x, x, attn_mask=nothing, is_causal=True, need_weights=need)[0]
        for need in (True, False)
    ]
    plain, _ = attention(x, x, x)
    torch.testing.assert_close(results[0], plain)
    assert (results[1] - plain).abs().max() > 1e-3
    causal = ~torch.ones(T, T, dtype=torch.bool).tril()
    torch.testing.assert_close(results[1], attention(x, x, x, attn_mask=causal)[0])
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        attention(x, x, x, is_causal=True)


def test_a_mask_for_each_sequence_is_repeated_for_its_heads() -> None:
    attention, x, _ = without_keys()
    mask = torch.rand(B, T, T) > 0.5
    mask[..., 0] = False
    _, weights = attention(x, x, x, attn_mask=mask.repeat_interleave(H, dim=0))
    assert not weights[mask].any() and (weights[~mask] > 0).all()
    _, weights = attention(x, x, x, attn_mask=mask.repeat(H, 1, 1))
    assert weights[mask].any()


def test_weights_come_back_after_dropout() -> None:
    attention, x = nn.MultiheadAttention(C, H, dropout=0.5), torch.randn(T, B, C)
    assert (attention(x, x, x)[1].sum(-1) - 1).abs().max() > 1e-3
    torch.testing.assert_close(attention.eval()(x, x, x)[1].sum(-1), torch.ones(B, T))


@pytest.mark.parametrize("features", [4, 6])
def test_the_projections_are_packed_if_keys_have_as_many_features(features: int) -> None:
    attention = nn.MultiheadAttention(4, 2, kdim=features)
    packed = attention.in_proj_weight
    assert (packed is None) == (features != 4)
    assert features != 4 or packed.shape == (12, 4)


def test_batch_first_exchanges_two_axes() -> None:
    first = nn.MultiheadAttention(4, 2, batch_first=True)
    other = nn.MultiheadAttention(4, 2)
    other.load_state_dict(first.state_dict())
    x = torch.randn(3, 5, 4)
    y = x.transpose(0, 1)
    torch.testing.assert_close(first(x, x, x)[0], other(y, y, y)[0].transpose(0, 1))
    assert (first(x, x, x)[0] - other(x, x, x)[0]).abs().max() > 1e-3


def test_the_dog_sleeps_in_both_modules_alike() -> None:
    ours, given = last_attention()
    theirs, hidden = as_torch(ours), ~given["mask"][..., 0]
    with torch.no_grad():
        mine = ours(**given)
        result, weights = theirs(given["query"], given["key"], given["value"], attn_mask=hidden)
    torch.testing.assert_close(mine, result)
    torch.testing.assert_close(ours.attn.mean(-1)[..., 0], weights[0])
