"""One layer: attention to memory and feed-forward, each added to what comes in."""

import pytest
import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer

S, B, C, H = 7, 2, 12, 3


def build(dropout=0.0):
    torch.manual_seed(0)
    return FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, 0.0),
        feed_forward=FeedForward(C, 28, 0.0),
        dropout_prob=dropout,
    )


def test_equations():
    layer, x, memory = build(), torch.randn(B, C), torch.randn(S, B, C)
    with torch.no_grad():
        layer.norm_self_attn.weight.copy_(torch.linspace(0.5, 2, C))
        layer.norm_ff.bias.copy_(torch.linspace(-1, 1, C))
    z = x + layer.attn(query=layer.norm_self_attn(x), key=memory, value=memory)
    expected = z + layer.feed_forward(layer.norm_ff(z))
    torch.testing.assert_close(layer(x=x, key=memory, value=memory), expected)


def test_without_memory_attention_is_left_out():
    layer, x = build(), torch.randn(B, C)
    expected = x + layer.feed_forward(layer.norm_ff(x))
    torch.testing.assert_close(layer(x=x, key=None, value=None), expected)


def test_positions_reach_the_attention():
    layer, x, memory = build(), torch.randn(B, C), torch.randn(S, B, C)
    with torch.no_grad():
        layer.attn.key_pos_bias.normal_()
    far = layer.attn.relative_positions(2 * S)
    shifted = type(far)(far.embeddings[:S], far.bias[:S])
    plain = layer(x=x, key=memory, value=memory)
    torch.testing.assert_close(layer(x=x, key=memory, value=memory, positions=far.last(S)), plain)
    assert not torch.allclose(layer(x=x, key=memory, value=memory, positions=shifted), plain)


def test_dropout_takes_whole_branches_in_training():
    """With probability 1 only the residual path is left."""
    layer, x, memory = build(dropout=1.0), torch.randn(B, C), torch.randn(S, B, C)
    assert torch.equal(layer(x=x, key=memory, value=memory), x)
    assert not torch.equal(layer.eval()(x=x, key=memory, value=memory), x)


def test_errors():
    with pytest.raises(ValueError, match=r"`attn` was built for d_model = 8.* d_model = 12"):
        FeedbackTransformerLayer(
            d_model=12,
            attn=FeedbackAttention(2, 8),
            feed_forward=FeedForward(12, 28),
            dropout_prob=0.1,
        )
    with pytest.raises(ValueError, match="both `key` and `value`"):
        build()(x=torch.randn(B, C), key=torch.randn(S, B, C), value=None)
    with pytest.raises(ValueError, match=r"`dropout_prob` \(-0.5\) must be from 0 to 1"):
        build(dropout=-0.5)
