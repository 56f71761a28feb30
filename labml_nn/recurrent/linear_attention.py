r"""
---
title: Linear attention and fast weights
summary: >
  Attention without a softmax is a recurrent network whose state is a matrix.
---

A page about linear attention. The layers below read sequences `[T, B, C]`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_bool, check_sizes

__all__ = ["ShortConvolution"]


class ShortConvolution(nn.Module):
    r"""
    ## Short convolution

    Each feature of a position becomes a weighted sum of that feature at the position
    itself and at the $W - 1$ positions before it.

    $$y_{t,f} = \sum_{j=0}^{W-1} w_{f,j} \, x_{t-(W-1)+j,\,f}$$
    """

    def __init__(self, features: int, width: int = 4, bias: bool = False) -> None:
        """
        * `features`: features of a position, $F$
        * `width`: positions that a sum covers, $W$
        * `bias`: whether a bias is added
        """
        super().__init__()
        check_sizes(features=features, width=width)
        check_bool(bias=bias)
        self.features, self.width = features, width

        # The weights have the shape of those of `nn.Conv1d(features, features, width,
        # groups=features)`, and begin in the same way.
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(features, 1, width))
        nn.init.uniform_(self.weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(features)) if bias else None

    def forward(
        self,
        x: Float[Tensor, "T B F"],
        before: Float[Tensor, "before B F"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B F"], Float[Tensor, "before B F"]]:
        """
        * `x`: vectors of the positions, `[T, B, F]`
        * `before`: the $W - 1$ vectors before them, `[W-1, B, F]`; `None` is zero
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns the sums, `[T, B, F]`, and the last $W - 1$ vectors, `[W-1, B, F]`,
        which are `before` for the next chunk.
        """
        if before is None:
            before = x.new_zeros(self.width - 1, *x.shape[1:])
        padded = torch.cat([before, x])

        # $y_t$ needs $x_{t-W+1}$ to $x_t$. In `padded` these are the rows from $t$ on.
        y: Tensor = self.weight[:, 0, 0] * padded[: len(x)]
        for j in range(1, self.width):
            y = y + self.weight[:, 0, j] * padded[j : j + len(x)]
        if self.bias is not None:
            y = y + self.bias

        # Behind the last token there may be padding, which is not remembered.
        if mask is None:
            return y, padded[len(x) :].clone()
        last = mask.sum(0) + torch.arange(self.width - 1, device=x.device)[:, None]
        return y, padded.gather(0, last[..., None].expand(-1, -1, self.features))
