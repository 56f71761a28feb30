import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .utils import clone_module_list, masks

SCALE = 2.0


class Score(nn.Module):
    """How well each query fits each key, `$a < b$`."""

    def __init__(self, d_k: int) -> None:
        super().__init__()
        self.scale = SCALE / math.sqrt(d_k)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.einsum("tbhk,sbhk->tsbh", query, key) * self.scale


class Attention(Score):
    def __init__(self, d_k: int):
        super().__init__(d_k)
        self.score = Score(d_k)
        self.dropout: nn.Dropout = nn.Dropout(0.1)
        self.layers = clone_module_list(self.score, n=3)

    def forward(self, x: Float[Tensor, "T B K"]):
        scores = self.score(x, x.unsqueeze(1))  # not `Score`
        weights = F.softmax(scores.masked_fill(masks.causal(len(x)) == 0, float("-inf")), dim=1)
        return self.dropout(weights), f"{self.score!r} {len(x)}"
