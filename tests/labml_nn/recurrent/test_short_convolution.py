"""The short convolution of each page beside PyTorch's.

Chunks and padding are tested with the layers that have it.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.recurrent import delta_net, gated_delta_net, linear_attention, mamba2

PAGES = delta_net, gated_delta_net, linear_attention, mamba2
T, B, FEATURES = 7, 3, 5


@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__.rpartition(".")[2])
def test_equals_a_depthwise_convolution_of_pytorch(page, width):
    torch.manual_seed(0)
    ours, bias = page.ShortConvolution(FEATURES, width).double(), page is mamba2
    theirs = nn.Conv1d(FEATURES, FEATURES, width, groups=FEATURES, bias=bias).double()
    if bias:
        nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x = torch.randn(T, B, FEATURES, dtype=torch.double, requires_grad=True)
    y, _ = ours(x)
    expected = theirs(F.pad(x.permute(1, 2, 0), (width - 1, 0))).permute(2, 0, 1)
    torch.testing.assert_close(y, expected)
    weighted = y.detach().sin()
    torch.testing.assert_close(
        torch.autograd.grad((y * weighted).sum(), [x, *ours.parameters()]),
        torch.autograd.grad((expected * weighted).sum(), [x, *theirs.parameters()]),
    )
