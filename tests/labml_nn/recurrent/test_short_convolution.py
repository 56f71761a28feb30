"""The short convolution of each page beside PyTorch's, in chunks and with padding."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labml_nn.recurrent import delta_net, gated_delta_net, linear_attention, mamba2

PAGES = delta_net, gated_delta_net, linear_attention, mamba2
T, B, FEATURES = 7, 3, 5
WIDTHS = pytest.mark.parametrize("width", [1, 2, 4, 9])


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(params=PAGES, ids=lambda page: page.__name__.rpartition(".")[2])
def convolve(request):
    """Makes a convolution; that of Mamba-2 has a bias."""
    return request.param.ShortConvolution


def some(*sizes):
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


@WIDTHS
def test_equals_a_depthwise_convolution_of_pytorch(convolve, width):
    ours = convolve(FEATURES, width).double()
    bias = convolve is mamba2.ShortConvolution
    theirs = nn.Conv1d(FEATURES, FEATURES, width, groups=FEATURES, bias=bias).double()
    if bias:
        nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x = some(T, B, FEATURES)
    y, _ = ours(x)
    expected = theirs(F.pad(x.permute(1, 2, 0), (width - 1, 0))).permute(2, 0, 1)
    torch.testing.assert_close(y, expected)
    weighted = y.detach().sin()
    for mine, other in zip(
        torch.autograd.grad((y * weighted).sum(), [x, *ours.parameters()]),
        torch.autograd.grad((expected * weighted).sum(), [x, *theirs.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(mine, other)


@WIDTHS
def test_chunks_give_what_the_whole_gives(convolve, width):
    convolution, x = convolve(FEATURES, width).double(), some(T, B, FEATURES)
    whole, last = convolution(x)
    for cut in range(1, T):
        first, before = convolution(x[:cut])
        second, after = convolution(x[cut:], before)
        torch.testing.assert_close(torch.cat([first, second]), whole)
        torch.testing.assert_close(after, last)
    assert last.shape == (width - 1, B, FEATURES)


@WIDTHS
def test_padding_is_not_remembered(convolve, width):
    convolution, x = convolve(FEATURES, width).double(), some(T, B, FEATURES)
    before, lengths = some(width - 1, B, FEATURES), [T, 2, 0]
    mask = torch.arange(T)[:, None] < torch.tensor(lengths)
    y, after = convolution(x, before, mask)
    for b, length in enumerate(lengths):
        alone, last = convolution(x[:length, b : b + 1], before[:, b : b + 1])
        torch.testing.assert_close(y[:length, b : b + 1], alone)
        torch.testing.assert_close(after[:, b : b + 1], last)
