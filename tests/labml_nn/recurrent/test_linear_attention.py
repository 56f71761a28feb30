"""Linear attention is an average of values; what it shares with others is tested for all layers."""

import torch
from torch.nn import functional as F

from labml_nn.recurrent.linear_attention import LinearAttention

T, B, H, D = 7, 2, 3, 4
C = H * D


def test_it_is_causal_attention_with_other_weights():
    """Each head takes an average of values; its weights are products of positive features."""
    torch.manual_seed(0)
    layer, x = LinearAttention(C, H, conv=1).double(), torch.randn(T, B, C).double()
    parts = zip((layer.query, layer.key, layer.value), layer.conv.weight.view(3, C), strict=True)
    q, k, v = ((x @ part.weight.T * w).unflatten(-1, (H, D)) for part, w in parts)
    q, k = F.elu(q) + 1, F.elu(k) + 1
    scores = torch.einsum("tbhd,sbhd->tsbh", q, k) * torch.ones(T, T).tril()[..., None, None]
    weights = scores / scores.sum(1, keepdim=True)
    expected = torch.einsum("tsbh,sbhd->tbhd", weights, v).flatten(-2) @ layer.output.weight.T
    torch.testing.assert_close(layer(x)[0], expected, rtol=1e-5, atol=1e-5)


def test_no_weight_left_is_no_division_by_zero():
    layer = LinearAttention(C, H)
    with torch.no_grad():
        layer.query.weight.fill_(-100.0)
        layer.conv.weight.fill_(1.0)
    y, _ = layer(torch.ones(T, B, C))
    y.sum().backward()
    assert y.isfinite().all()
    assert all(part.grad.isfinite().all() for part in layer.parameters())


def test_a_memory_has_a_column_more_for_the_sum_of_keys():
    _, state = LinearAttention(C, H)(torch.randn(T, B, C))
    assert state.memory.shape == (B, H, D, D + 1) and state.recent.shape == (3, B, 3 * C)
