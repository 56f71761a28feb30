r"""
---
title: Fast weights Transformer
summary: >
  Attention with a matrix as its memory, which replaces values instead of only adding
  them, and a feature map without parameters whose keys are nearly orthogonal.
paper: https://arxiv.org/abs/2102.11174
---

[Linear attention](../../recurrent/linear_attention.py) keeps a matrix in place of all
keys and values. It has two weaknesses. Keys that are not orthogonal disturb each other,
and nothing is ever replaced. Schlag, Irie and Schmidhuber ([-@schlag2021linear]) mend
both. This page has their model with the names of version 0.5.1, so that old code and
old checkpoints work.

**More room.** A new feature map, DPFP, makes longer keys out of short ones, most of
whose numbers are zero. Different keys then seldom have a number other than zero at the
same place.

**Replacing.** Before a pair is written, the memory is read with its key. What is found
there is the old value $\bar v$. Only the difference is written, and a number $\beta$
between 0 and 1 says how much of it. With $\beta = 1$ and keys of length 1, the new
value takes the place of the old one. This is the **delta rule**, and [its own
lesson](../../recurrent/delta_net.py) derives it and computes it by chunks.

\begin{align}
\bar v_t &= W_{t-1} \, \phi(k_t) \\
W_t &= W_{t-1} + \beta_t (v_t - \bar v_t) \, \phi(k_t)^\top \\
y_t &= W_t \, \phi(q_t)
\end{align}

The memory is called $W$ here, because it acts as the **weights** of a linear layer
which change with every token. Vectors are columns, so $W$ is the transpose of the $S$
of the lesson.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$ | `weights` | `[B, H, D, P]` | the memory: a row for each feature of a value |
| $\phi$ | `phi` | | DPFP, from $D$ to $P = 2 D \nu$ features |
| $\beta$ | `beta` | `[B, H, 1]` | how much of the old value is replaced |

```python
import torch
from labml_nn.transformers.fast_weights import (
    DPFP, FastWeightsAttention, FastWeightsAttentionTransformer,
    FastWeightsAttentionTransformerLayer,
)
from labml_nn.transformers.feed_forward import FeedForward

layer = FastWeightsAttentionTransformerLayer(
    d_model=32,
    attn=FastWeightsAttention(heads=4, d_model=32, dropout_prob=0.1, phi=DPFP()),
    feed_forward=FeedForward(32, 64),
    dropout_prob=0.1,
)
model = FastWeightsAttentionTransformer(layer, n_layers=2)
assert model(torch.randn(10, 2, 32)).shape == (10, 2, 32)  # [T, B, C]
```

[Token by token](token_wise.py) has the same model, which runs through all layers before
it reads the next token.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_heads, check_number, check_probability, check_sizes
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import PrepareForMultiHeadAttention
from labml_nn.utils import independent_copies

__all__ = [
    "DPFP",
    "FastWeightsAttention",
    "FastWeightsAttentionTransformer",
    "FastWeightsAttentionTransformerLayer",
]


class DPFP(nn.Module):
    r"""
    ## Deterministic parameter-free projection

    $x = \operatorname{ReLU}([k, -k])$ has $2 D$ numbers, and at least half of them are
    zero. Its product with itself, rotated by 1 to $\nu$ places, has $2 D \nu$ numbers
    and even more zeros (§5.3). They are divided by their sum, which makes the sum of
    the weights superfluous that linear attention divides by.
    """

    def __init__(self, nu: int = 1, eps: float = 1e-6) -> None:
        r"""
        * `nu`: how many rotations, $\nu$
        * `eps`: added to the sum, so that we never divide by 0
        """
        super().__init__()
        check_sizes(nu=nu)
        check_number("eps", eps)
        self.nu, self.eps = nu, eps

    def forward(self, k: Float[Tensor, "*axes D"]) -> Float[Tensor, "*axes P"]:
        """Takes queries or keys, and returns their features, whose sum is 1."""
        k = self.dpfp(k)
        return k / (k.sum(dim=-1, keepdim=True) + self.eps)

    def dpfp(self, k: Float[Tensor, "*axes D"]) -> Float[Tensor, "*axes P"]:
        """The features before the division."""
        x = torch.relu(torch.cat([k, -k], dim=-1))
        rotated = [x.roll(shifts=i, dims=-1) for i in range(1, self.nu + 1)]
        return torch.cat([x * other for other in rotated], dim=-1)


def fast_weights_step(
    weights: Float[Tensor, "B H D P"],
    query: Float[Tensor, "B H P"],
    key: Float[Tensor, "B H P"],
    value: Float[Tensor, "B H D"],
    beta: Float[Tensor, "B H 1"],
) -> tuple[Float[Tensor, "B H D"], Float[Tensor, "B H D P"]]:
    """
    ## One token

    Returns what the query finds, and the new weights.
    """
    # Read what stands under this key, write the difference, then read for the query.
    old = torch.einsum("bhvk,bhk->bhv", weights, key)
    weights = weights + torch.einsum("bhv,bhk->bhvk", beta * (value - old), key)
    return torch.einsum("bhvk,bhk->bhv", weights, query), weights


class FastWeightsAttention(nn.Module):
    r"""
    ## Attention with fast weights
    """

    def __init__(
        self, heads: int, d_model: int, dropout_prob: float, phi: DPFP
    ) -> None:
        """
        * `heads`: heads, $H$
        * `d_model`: features of a token, $C$
        * `dropout_prob`: has no effect, as in version 0.5.1: a layer drops what this
          module returns
        * `phi`: the feature map of queries and keys
        """
        super().__init__()
        check_heads(heads, d_model)
        check_probability(dropout_prob=dropout_prob)
        self.heads, self.d_k = heads, d_model // heads
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)

        # $\beta$ of each head.
        self.interpolation_weight = nn.Sequential(
            PrepareForMultiHeadAttention(d_model, heads, 1, bias=False), nn.Sigmoid()
        )
        self.phi = phi
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        """Takes tokens and returns what they find, `[T, B, C]`."""
        query, key = self.phi(self.query(x)), self.phi(self.key(x))
        value, beta = self.value(x), self.interpolation_weight(x)
        weights = key.new_zeros(*key.shape[1:3], self.d_k, key.shape[-1])
        found = []
        for step in zip(query, key, value, beta, strict=True):
            one, weights = fast_weights_step(weights, *step)
            found.append(one.flatten(-2))
        y: Tensor = self.output(torch.stack(found))
        return y


class FastWeightsAttentionTransformerLayer(nn.Module):
    """
    ## Layer

    Attention with fast weights and a feed-forward network. As in version 0.5.1, only
    the network reads normalised features. `norm_self_attn` exists for its checkpoints
    and is not used.
    """

    def __init__(
        self,
        *,
        d_model: int,
        attn: FastWeightsAttention,
        feed_forward: FeedForward,
        dropout_prob: float,
    ) -> None:
        """
        * `d_model`: features of a token, $C$
        * `attn`, `feed_forward`: the two parts
        * `dropout_prob`: probability that a feature of their results is dropped
        """
        super().__init__()
        check_sizes(d_model=d_model)
        check_probability(dropout_prob=dropout_prob)
        self.size = d_model
        self.attn = attn
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout_prob)
        self.norm_self_attn = nn.LayerNorm([d_model])
        self.norm_ff = nn.LayerNorm([d_model])

    def forward(self, x: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        """Takes and returns tokens."""
        x = x + self.dropout(self.attn(x))
        y: Tensor = x + self.dropout(self.feed_forward(self.norm_ff(x)))
        return y


class FastWeightsAttentionTransformer(nn.Module):
    """
    ## Stack of layers
    """

    def __init__(
        self, layer: FastWeightsAttentionTransformerLayer, n_layers: int
    ) -> None:
        """
        * `layer`: the first of the layers
        * `n_layers`: how many there are
        """
        super().__init__()
        check_sizes(n_layers=n_layers)
        self.layers = independent_copies(layer, n_layers)
        self.norm = nn.LayerNorm([layer.size])

    def forward(self, x: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        """Takes and returns tokens, normalised at the end."""
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.norm(x)
        return y
