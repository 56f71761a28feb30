"""Checkpoints of labml-nn 0.5.1 load into our attention and feed-forward, and compute the same."""

import pytest
from oracle import assert_same, published
from torch import nn

from labml_nn import kernels
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention, PrepareForMultiHeadAttention

CASES = """
from torch import nn
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention, PrepareForMultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

query, key, value = torch.randn(5, 2, 12), torch.randn(7, 2, 12), torch.randn(7, 2, 12)
padding = torch.arange(7)[None, :, None] < torch.tensor([7, 4])
full = torch.rand(5, 7, 2) < 0.7
full[:, 0] = True

attention = MultiHeadAttention(3, 12)
record("cross", attention, query=query, key=key, value=value)
record("causal", attention, query=query, key=query, value=query, mask=subsequent_mask(5))
record("padding", attention, query=query, key=key, value=value, mask=padding)
record("full mask", attention, query=query, key=key, value=value, mask=full)
record("bias=False", MultiHeadAttention(3, 12, bias=False), query=query, key=key, value=value)
record("prepare", PrepareForMultiHeadAttention(12, 3, 5, bias=True), query)

record("plain", FeedForward(12, 28), query)
record("gated", FeedForward(12, 28, activation=nn.SiLU(), is_gated=True), query)
record("no biases", FeedForward(12, 28, 0.1, nn.Sigmoid(), True, False, False, False), query)
"""


@pytest.fixture(scope="module")
def records():
    return published(CASES)


@pytest.mark.parametrize("case", ["cross", "causal", "padding", "full mask"])
def test_multi_head_attention(records, case):
    assert_same(records[case], MultiHeadAttention(3, 12))
    with kernels.disabled():
        assert_same(records[case], MultiHeadAttention(3, 12))


def test_what_the_published_package_made_of_bias_false(records):
    """It left biases on values and outputs; `output_bias` says so in words."""
    assert_same(records["bias=False"], MultiHeadAttention(3, 12, bias=False, output_bias=True))


def test_prepare(records):
    assert_same(records["prepare"], PrepareForMultiHeadAttention(12, 3, 5, bias=True))


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("plain", ()),
        ("gated", (0.1, nn.SiLU(), True)),
        ("no biases", (0.1, nn.Sigmoid(), True, False, False, False)),
    ],
)
def test_feed_forward(records, case, arguments):
    assert_same(records[case], FeedForward(12, 28, *arguments))


def test_the_comparison_notices(records):
    """A state with other names, an output that is off, a gradient that is missing."""
    with pytest.raises(RuntimeError, match="Unexpected key"):
        assert_same(records["plain"], FeedForward(12, 28, bias1=False))
    with pytest.raises(AssertionError, match=r"^outputs"):
        assert_same(records["plain"], FeedForward(12, 28, activation=nn.GELU()))

    class Detached(FeedForward):
        def forward(self, x):
            return super().forward(x.detach())

    with pytest.raises(AssertionError, match=r"^input gradients"):
        assert_same(records["plain"], Detached(12, 28))
    with pytest.raises(AssertionError, match=r"^outputs"):
        assert_same(records["plain"], FeedForward(12, 28), call=lambda ffn, x: ffn(x) * 1.001)
