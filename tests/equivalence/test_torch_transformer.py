"""Our layers, stacks and the whole against PyTorch's, with PyTorch's weights copied into ours."""

import pytest
import torch
from torch import nn
from torch_twins import (
    CASES,
    FUTURE,
    B,
    C,
    Call,
    F,
    H,
    T,
    Twins,
    layer,
    layer_pairs,
    library,
    orders,
    precise,
    stack_pairs,
    twins,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")


@precise
@pytest.mark.parametrize(("kind", "norm_first"), CASES)
def test_outputs_and_gradients(kind, norm_first, dtype, tolerance):
    """With masks for the future and for padding."""
    twins(kind, norm_first, dtype=dtype).assert_same(tolerance)


@precise
@orders
@pytest.mark.parametrize("decoder", [False, True])
def test_layers_without_masks(decoder, norm_first, dtype, tolerance):
    ours, sizes = library(), (C, H, F, 0.0)
    kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    theirs = kind(*sizes, norm_first=norm_first, dtype=dtype)
    mine = layer(ours, decoder, norm_first).to(dtype)
    x = torch.randn(T, B, C, dtype=dtype)
    inputs = (x, torch.randn(7, B, C, dtype=dtype)) if decoder else (x,)
    pair = Twins(
        Call({"it": mine}, lambda it, x, src=None: it(x=x, mask=None, src=src)),
        Call({"it": theirs}, lambda it, *rows: it(*rows)),
        list(layer_pairs(mine, theirs)),
        inputs,
    )
    pair.copy_weights().assert_same(tolerance)


@orders
def test_stack_without_a_last_norm(norm_first):
    """The paper's post-norm stack: `nn.TransformerEncoder` without its optional norm."""
    ours = library()
    pattern = nn.TransformerEncoderLayer(C, H, F, 0.0, norm_first=norm_first)
    theirs = nn.TransformerEncoder(pattern, 3, norm=None, enable_nested_tensor=False)
    mine = ours.Encoder(layer(ours, False, norm_first), 3, final_norm=False)
    pair = Twins(
        Call({"it": mine}, lambda it, x: it(x, ours.subsequent_mask(T))),
        Call({"it": theirs}, lambda it, x: it(x, mask=FUTURE)),
        list(stack_pairs(mine, theirs)),
        (torch.randn(T, B, C),),
    )
    pair.copy_weights().assert_same(1e-5)


def test_the_comparison_notices():
    """A weight that differs in one entry fails both forms of the comparison."""
    pair = twins("encoder layer")
    with torch.no_grad():
        pair.pairs[0][0][0, 0] += 0.01
    with pytest.raises(AssertionError, match="not close"):
        pair.assert_same(1e-5)
