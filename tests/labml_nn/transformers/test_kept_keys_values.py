"""Keys and values that are kept: joined, and refused where they do not belong."""

import pytest
import torch
from torch import nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.keys_values import Reusable, join, reusable
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.mha import KeysValues, MultiHeadAttention

T, S, B, C, H, K, D, F = 7, 5, 2, 12, 3, 6, 5, 28


def attention() -> MultiHeadAttention:
    return MultiHeadAttention(H, C, 0.0, d_k=K, d_v=D)


def layer() -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=attention(),
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
    )


def test_attention_of_this_library_comes_in_halves():
    assert isinstance(attention(), Reusable)
    made = attention()
    assert reusable(made, "self_attn") is made
    query, source = torch.randn(T, B, C), torch.randn(S, B, C)
    kept = made.project(key=source, value=source)
    assert torch.equal(
        made.attend_to(query=query, past=kept), made(query=query, key=source, value=source)
    )


def test_join_puts_one_behind_the_other():
    old, new = (KeysValues(torch.randn(n, B, H, K), torch.randn(n, B, H, D)) for n in (S, T))
    both = join(old, new)
    assert torch.equal(both.keys[:S], old.keys)
    assert torch.equal(both.values[S:], new.values)
    assert join(None, new) is new


def keys_values(*shape: int) -> KeysValues:
    return KeysValues(torch.zeros(*shape, K), torch.zeros(*shape, D))


@pytest.mark.parametrize(
    ("past", "message"),
    [
        (keys_values(S, 3, H), r"`past` has shape \[5, 3, 3, 6\].*\[7, 2, 3, 6\].*another batch"),
        (keys_values(S, B, 4), r"\[5, 2, 4, 6\]"),
        (KeysValues(*(torch.zeros(S, B, H, 4) for _ in range(2))), r"\[5, 2, 3, 4\]"),
    ],
)
def test_past_that_does_not_fit(past, message):
    with pytest.raises(ValueError, match=message):
        layer().extend(x=torch.zeros(T, B, C), mask=None, past=past)


def test_past_of_another_precision():
    """Joined without a word, two precisions would become one, and rows change their dtype."""
    past = KeysValues(*(part.double() for part in keys_values(S, B, H)))
    message = r"`past` has dtype torch.float64 but new positions make torch.float32"
    with pytest.raises(TypeError, match=message):
        layer().extend(x=torch.zeros(T, B, C), mask=None, past=past)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # what was read before it began
        row, _ = layer().extend(x=torch.zeros(T, B, C), mask=None, past=keys_values(S, B, H))
    assert row.shape == (T, B, C)


def test_attention_that_cannot_keep_anything():
    class Mean(nn.Module):
        def forward(self, *, query, key, value, mask):
            return query + value.mean(0)

    made = TransformerLayer(
        d_model=C, self_attn=Mean(), feed_forward=nn.Identity(), dropout_prob=0.0
    )
    assert made(x=torch.zeros(T, B, C), mask=None).shape == (T, B, C)
    with pytest.raises(TypeError, match=r"`self_attn` is a Mean, which has no `project`"):
        made.extend(x=torch.zeros(T, B, C), mask=None, past=None)
