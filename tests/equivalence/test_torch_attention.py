"""Our attention against PyTorch's `nn.MultiheadAttention` with the same weights."""

import pytest
import torch
from torch import nn
from torch_twins import attention_pairs, precise

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

T, S, B, C, H = 5, 7, 2, 12, 3


def pair(dtype, bias=True, store_attn=False):
    """Theirs and ours, with the same weights."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(C, H, bias=bias, dtype=dtype)
    ours = MultiHeadAttention(H, C, dropout_prob=0.0, bias=bias, store_attn=store_attn).to(dtype)
    maps = (ours.query.linear, ours.key.linear, ours.value.linear)
    with torch.no_grad():
        if bias:  # they start at zero
            theirs.in_proj_bias.uniform_(-1, 1)
            theirs.out_proj.bias.uniform_(-1, 1)
        for linear, weight in zip(maps, theirs.in_proj_weight.chunk(3), strict=True):
            linear.weight.copy_(weight)
        if bias:
            for linear, values in zip(maps, theirs.in_proj_bias.chunk(3), strict=True):
                linear.bias.copy_(values)
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    return theirs, ours


def inputs(dtype):
    torch.manual_seed(1)
    shapes = ((T, B, C), (S, B, C), (S, B, C))
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


MASKS = {
    "none": (None, {}),
    "padding": (
        torch.arange(S)[None, :, None] < torch.tensor([S, 3]),
        {"key_padding_mask": torch.arange(S) >= torch.tensor([[S], [3]])},
    ),
    "every pair": (
        torch.ones(T, S, dtype=torch.bool).tril()[:, :, None],
        {"attn_mask": ~torch.ones(T, S, dtype=torch.bool).tril()},
    ),
}


@precise
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("store_attn", [False, True], ids=["fast", "readable"])
@pytest.mark.parametrize("mask", MASKS)
def test_outputs_weights_and_gradients(mask, store_attn, bias, dtype, tolerance):
    close = {"rtol": tolerance, "atol": tolerance}
    theirs, ours = pair(dtype, bias, store_attn)
    our_mask, their_masks = MASKS[mask]
    their_inputs, our_inputs = inputs(dtype), inputs(dtype)
    query, key, value = our_inputs

    expected, weights = theirs(*their_inputs, average_attn_weights=False, **their_masks)
    result = ours(query=query, key=key, value=value, mask=our_mask)
    torch.testing.assert_close(result, expected, **close)
    if store_attn:
        torch.testing.assert_close(ours.attn.permute(2, 3, 0, 1), weights, **close)

    cotangent = torch.randn_like(expected)
    expected.backward(cotangent)
    result.backward(cotangent)
    for ours_in, theirs_in in zip(our_inputs, their_inputs, strict=True):
        torch.testing.assert_close(ours_in.grad, theirs_in.grad, **close)
    for our_parameter, parameter, rows in attention_pairs(ours, theirs):
        torch.testing.assert_close(our_parameter.grad, parameter.grad[rows], **close)


@precise
def test_causal_self_attention(dtype, tolerance):
    theirs, ours = pair(dtype)
    x = inputs(dtype)[0]
    forbidden = nn.Transformer.generate_square_subsequent_mask(T, dtype=dtype)
    expected, _ = theirs(x, x, x, attn_mask=forbidden, is_causal=True, need_weights=False)
    result = ours(query=x, key=x, value=x, mask=subsequent_mask(T))
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
