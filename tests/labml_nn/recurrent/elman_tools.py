"""What the tests of Elman networks share."""

import pytest
import torch

from labml_nn.recurrent.elman import Elman, ElmanLayer

# Pairwise distinct, so that a swapped axis fails.
T, B, C, N, L, V = 5, 2, 12, 7, 3, 11

NONLINEARITIES = pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid", "relu"])
#: PyTorch's tracer makes an instance of `torch.autograd.Function` and warns itself not to.
COMPILED = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def layer(package=None, d_model=C, d_hidden=N, **options):
    """A layer in double precision whose h_0 is not zero."""
    torch.manual_seed(0)
    built = (package.ElmanLayer if package else ElmanLayer)(d_model, d_hidden, **options).double()
    with torch.no_grad():
        built.h_0.copy_(random(d_hidden, seed=9))
    return built


def network(package=None, n_layers=L, **options):
    torch.manual_seed(0)
    built = (package.Elman if package else Elman)(C, N, n_layers, **options).double()
    with torch.no_grad():
        for number, each in enumerate(built.layers):
            each.h_0.copy_(random(N, seed=90 + number))
    return built


def some_mask(length=T, batch=B, seed=1):
    """Padding anywhere, at least some of it."""
    mask = random(length, batch, seed=seed) > 0
    mask[0, 0], mask[1, 0] = False, True
    return mask
