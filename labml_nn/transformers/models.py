"""Transformer layer, encoder, decoder (front matter, essay, figure, symbols)."""
import copy

from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.transformers.mha import MultiHeadAttention


class TransformerLayer(nn.Module):
    r"""
    Self-attention, cross-attention in a decoder, and a feed-forward network, each inside a residual
    connection with layer normalisation before it (pre-norm): $x + \text{dropout}(f(\text{norm}(x)))$.
    """

    def __init__(self, *, d_model: int, self_attn: MultiHeadAttention, feed_forward: nn.Module,
                 dropout_prob: float, src_attn: MultiHeadAttention | None = None):
        super().__init__()
        self.size = d_model
        self.self_attn, self.src_attn, self.feed_forward = self_attn, src_attn, feed_forward
        self.dropout = nn.Dropout(dropout_prob)
        self.norm_self_attn = nn.LayerNorm([d_model])
        if src_attn is not None:
            self.norm_src_attn = nn.LayerNorm([d_model])
        self.norm_ff = nn.LayerNorm([d_model])

    def forward(
        self,
        *,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T S #B"] | None,
        src: Float[Tensor, "R B C"] | None = None,
        src_mask: Bool[Tensor, "#T R #B"] | None = None,
        cache=None,
    ) -> Float[Tensor, "T B C"]:
        z = self.norm_self_attn(x)
        x = x + self.dropout(self.self_attn(query=z, key=z, value=z, mask=mask, cache=cache))

        # Queries come from the target, keys and values from the encoder's output.
        if src is not None:
            z = self.norm_src_attn(x)
            x = x + self.dropout(self.src_attn(query=z, key=src, value=src, mask=src_mask))

        return x + self.dropout(self.feed_forward(self.norm_ff(x)))


class Encoder(nn.Module):
    "A stack of layers and a final layer normalisation."

    def __init__(self, layer: TransformerLayer, n_layers: int):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(n_layers))
        self.norm = nn.LayerNorm([layer.size])

    def forward(self, x, mask=None, caches=None):
        for i, layer in enumerate(self.layers):
            x = layer(x=x, mask=mask, cache=caches[i] if caches else None)
        return self.norm(x)


class Decoder(nn.Module):
    "The same, with cross-attention to the encoder's output in every layer."

    def __init__(self, layer: TransformerLayer, n_layers: int):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(n_layers))
        self.norm = nn.LayerNorm([layer.size])

    def forward(self, x, memory, src_mask, tgt_mask, caches=None):
        for i, layer in enumerate(self.layers):
            x = layer(x=x, mask=tgt_mask, src=memory, src_mask=src_mask, cache=caches[i] if caches else None)
        return self.norm(x)
