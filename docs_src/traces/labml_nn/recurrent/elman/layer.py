"""Runs of the layer, in each of its forms."""

import torch

from labml_nn.recurrent.elman.layer import ElmanLayer


def trace_forms(T, B, C, N):
    """To read, fast, and in PyTorch's kernel; with padding where a form knows it."""
    layer = ElmanLayer(C, N)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    h = layer.initial(B)
    layer.loop(x, h, mask)
    layer.kernel(x, h, mask)
    layer.torch_kernel(x, h)
    layer(x, h, mask)
