r"""
---
title: Position-wise feed-forward network
summary: >
  Two linear maps with a nonlinearity between them, applied to every position alone;
  plain or gated.
paper: https://arxiv.org/abs/1706.03762
---

The first working version of this page.
"""

from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sizes


class FeedForward(nn.Module):
    """
    ## Feed-forward network
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout: float = 0.1,
        activation: nn.Module | None = None,
        is_gated: bool = False,
        bias1: bool = True,
        bias2: bool = True,
        bias_gate: bool = True,
    ):
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        check_probability(dropout=dropout)
        self.layer1 = nn.Linear(d_model, d_ff, bias=bias1)
        self.layer2 = nn.Linear(d_ff, d_model, bias=bias2)
        self.dropout = nn.Dropout(dropout)
        self.activation = nn.ReLU() if activation is None else activation
        self.is_gated = is_gated
        if is_gated:
            self.linear_v = nn.Linear(d_model, d_ff, bias=bias_gate)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes C"]:
        hidden = self.activation(self.layer1(x))
        if self.is_gated:
            hidden = hidden * self.linear_v(x)
        output: Tensor = self.layer2(self.dropout(hidden))
        return output
