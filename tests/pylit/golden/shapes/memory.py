"""
| Symbol | Code | Shape |
|:--|:--|:--|
| $x$ | `x_seq` | `[T, B, C]` |
| $m$ | `memory` of `scan` | `[S, B, C]` |
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Reader(nn.Module):
    """
    * `d_model` is the number of features
    """

    def __init__(self, d_model: int, heads: int, n_layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_layers))
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.weights = nn.Parameter(torch.ones(n_layers + 1))
        self.last: Tensor | None = None

    def scan(
        self,
        x_seq: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], Float[Tensor, "S B C"]]:
        """
        * `x_seq` has shape `[seq_len, batch_size, d_model]`
        * `mask` is boolean, `[T or 1, B]`

        Returns the outputs, `[T, B, C]`, and the memory.
        """
        memory, top = x_seq[:0], []
        for x in x_seq.unbind(0):
            outputs = [x]
            for layer in self.layers:
                x = layer(x)
                outputs.append(x)
            # One mean of all layers: `row` is `[B, C]`.
            row = torch.einsum("lbc,l->bc", torch.stack(outputs), self.weights.softmax(0))
            memory = torch.cat([memory, row[None]])
            top.append(self._attend(x, memory))
        y = torch.stack(
            top,
        )
        if mask is not None:
            y = y.masked_fill(~mask[..., None], 0.0)
        self.last = y[-1].detach()
        return y, memory

    def _attend(self, x: Tensor, memory: Tensor) -> Tensor:
        if memory.shape[0] == 0:
            raise ValueError("nothing to attend to")
        query = self.query(x).unflatten(-1, (self.heads, -1))
        keys = memory.unflatten(-1, (self.heads, -1))
        scores = torch.einsum("bhk,sbhk->sbh", query, keys)
        scores -= scores.amax(0)
        self.best = scores.argmax(0)
        return torch.einsum("sbh,sbhk->bhk", scores.softmax(0), keys).flatten(-2)
