"""What decides whether a kernel runs can say why it does not."""

import pytest
import torch
from torch import nn

from labml_nn import kernels
from labml_nn import reference as registry
from labml_nn.lstm import LSTM
from labml_nn.transformers.mha import KVCache, MultiHeadAttention


def test_each_change_is_named():
    attention, x = MultiHeadAttention(3, 12), torch.randn(5, 2, 12)

    def said() -> str:
        return kernels.explain(attention.forward, query=x, key=x, value=x)

    assert said() == "The kernel `kernels.attention.forward` runs."
    with kernels.disabled():
        assert "switched off" in said()
    with attention.query.linear.register_forward_hook(lambda *_: None):
        assert "`query.linear` has a forward hook" in said()
    attention.attend = lambda *args: None
    assert "`attend`" in said()


def test_an_argument_is_named():
    layer, x = LSTM(4, 6, 2), torch.randn(5, 3, 4)
    assert kernels.explain(layer.forward, x).startswith("The kernel")
    assert "mask" in kernels.explain(layer.forward, x, mask=torch.ones(5, 3, dtype=torch.bool))
    assert "single and double" in kernels.explain(layer.forward, x.bfloat16())


def test_the_call_leaves_no_traces():
    """Not in a cache, not in the weights of the last call, and not in random numbers."""
    attention, x = MultiHeadAttention(3, 12, dropout_prob=0.5), torch.randn(5, 2, 12)
    attention(query=x, key=x, value=x)
    before, cache = attention.attn, KVCache()
    torch.manual_seed(3)
    kernels.explain(attention.forward, query=-x, key=-x, value=-x, cache=cache)
    drawn = torch.rand(())
    torch.manual_seed(3)
    assert drawn == torch.rand(())
    assert torch.equal(attention.attn, before)
    assert cache.keys is None


def test_methods_without_kernels():
    attention = MultiHeadAttention(3, 12)
    assert "no reference method" in kernels.explain(attention.prepare_mask)
    with pytest.raises(ValueError, match="expected a method of a module"):
        kernels.explain(torch.relu, torch.zeros(3))


def test_a_kernel_runs_unless_it_declines_or_is_switched_off():
    class Square(nn.Module):
        @kernels.reference
        def forward(self, x: float) -> float:
            return x * x

    @kernels.kernel_for(Square.forward, owner=Square)
    def square(module: Square, x: float) -> object:
        return kernels.Declined("`x` is negative") if x < 0 else 0.0

    assert Square()(-3.0) == 9.0 and Square()(3.0) == 0.0
    with kernels.disabled():
        assert Square()(3.0) == 9.0
    assert square in [each.function for each in kernels.registered()]
    assert kernels.explain(Square().forward, -3.0).endswith("square`: `x` is negative.")
    registry._KERNELS.pop(Square.forward)
