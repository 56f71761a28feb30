r"""
---
title: Fast weights, token by token
summary: >
  The fast weights Transformer as a loop over tokens: each token goes through all layers
  before the next one is read.
paper: https://arxiv.org/abs/2102.11174
---

The [fast weights Transformer](__init__.py) reads all tokens in its first layer before
the second begins. Here the loops are the other way around. A token goes through all
layers, and each layer hands its weights on to the next token. This is how a model
generates text, because the next token is not there yet. The results are equal. The
classes and the names of their parameters are those of version 0.5.1, in which $\beta$
is called `gate`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from labml_nn.transformers import fast_weights
from labml_nn.transformers.fast_weights import DPFP, fast_weights_step

__all__ = [
    "FastWeightsAttention",
    "FastWeightsAttentionTransformer",
    "FastWeightsAttentionTransformerLayer",
]


class FastWeightsAttention(fast_weights.FastWeightsAttention):
    """
    ## Attention of one token
    """

    def __init__(
        self, heads: int, d_model: int, dropout_prob: float, phi: DPFP
    ) -> None:
        super().__init__(heads, d_model, dropout_prob, phi)

        # Saved optimizers know parameters by their order, and here it is this one.
        self.gate, output = self.interpolation_weight, self.output
        del self.interpolation_weight, self.output
        self.output = output

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B C"], weights: Float[Tensor, "B H D P"] | None
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H D P"]]:
        """Takes a token and the weights, and returns what it finds and new weights."""
        query, key = self.phi(self.query(x)), self.phi(self.key(x))
        if weights is None:
            weights = key.new_zeros(*key.shape[:2], self.d_k, key.shape[-1])
        y, weights = fast_weights_step(weights, query, key, self.value(x), self.gate(x))
        return self.output(y.flatten(-2)), weights


class FastWeightsAttentionTransformerLayer(
    fast_weights.FastWeightsAttentionTransformerLayer
):
    """
    ## Layer
    """

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B C"], weights: Float[Tensor, "B H D P"] | None
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H D P"]]:
        """Takes and returns a token and the weights of this layer."""
        found, weights = self.attn(x, weights)
        x = x + self.dropout(found)
        return x + self.dropout(self.feed_forward(self.norm_ff(x))), weights


class FastWeightsAttentionTransformer(fast_weights.FastWeightsAttentionTransformer):
    """
    ## Stack of layers
    """

    def forward(self, x_seq: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        """Takes and returns tokens, `[T, B, C]`."""
        found, weights = [], [None] * len(self.layers)
        for x in x_seq:
            for i, layer in enumerate(self.layers):
                x, weights[i] = layer(x, weights[i])
            found.append(x)
        y: Tensor = self.norm(torch.stack(found))
        return y
