r"""
---
title: "Encoder–decoder Transformer (sequence to sequence)"
summary: >
  The Transformer of "Attention Is All You Need", whole: layer, encoder, decoder, loss
  with teacher forcing and greedy decoding.
paper: https://arxiv.org/abs/1706.03762
---
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_bool,
    check_probability,
    check_same_width,
    check_sizes,
)
from labml_nn.transformers.mha import KVCache
from labml_nn.transformers.positional_encoding import (
    fixed_positions,
    get_positional_encoding,
    learned_positions,
)
from labml_nn.utils import independent_copies

__all__ = [
    "Decoder",
    "EmbeddingsWithLearnedPositionalEncoding",
    "EmbeddingsWithPositionalEncoding",
    "Encoder",
    "EncoderDecoder",
    "Generator",
    "TransformerLayer",
]


class EmbeddingsWithPositionalEncoding(nn.Module):
    r"""
    ## Embeddings with fixed positional encoding

    $$x_t = \sqrt{C} \, E_{w_t} + PE_t$$
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        r"""
        * `d_model` is the number of features of a token, $C$
        * `n_vocab` is the number of tokens in the vocabulary, $V$
        * `max_len` is the number of rows of the table; longer sequences work too
        """
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model
        table = get_positional_encoding(d_model, max_len)
        self.register_buffer("positional_encodings", table)

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        """`x` holds tokens; `offset` is the position of the first one."""
        positions = fixed_positions(self.positional_encodings, offset, x.shape[0])
        embedded: Tensor = self.linear(x) * math.sqrt(self.d_model)
        return embedded + positions


class EmbeddingsWithLearnedPositionalEncoding(nn.Module):
    r"""
    ## Embeddings with learned positions

    The same sum with a table of positions that is trained. It ends after `max_len`
    positions.
    """

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        """`x` holds tokens; `offset` is the position of the first one."""
        positions = learned_positions(self.positional_encodings, offset, x.shape[0])
        embedded: Tensor = self.linear(x) * math.sqrt(self.d_model)
        return embedded + positions


class TransformerLayer(nn.Module):
    r"""
    ## Transformer layer

    Self-attention, cross-attention in a decoder, and a feed-forward network, each
    inside a residual connection with layer normalisation.
    """

    def __init__(
        self,
        *,
        d_model: int,
        self_attn: nn.Module,
        src_attn: nn.Module | None = None,
        feed_forward: nn.Module,
        dropout_prob: float,
        norm_first: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        r"""
        * `d_model` is the number of features of a position, $C$
        * `self_attn` is the self-attention, a `MultiHeadAttention`
        * `src_attn` is the cross-attention to the source, for a decoder's layer
        * `feed_forward` is applied to each position alone
        * `dropout_prob` is the dropout probability of each sub-layer's output
        * `norm_first` selects pre-norm (`True`) or the paper's post-norm (`False`)
        * `norm` makes a normalisation of $C$ features
        """
        super().__init__()
        check_sizes(d_model=d_model)
        check_probability(dropout_prob=dropout_prob)
        check_bool(norm_first=norm_first)
        check_same_width(
            d_model=d_model,
            self_attn=_width(self_attn),
            src_attn=_width(src_attn),
            feed_forward=_width(feed_forward),
        )
        self.size = d_model
        self.norm_first = norm_first
        self.self_attn = self_attn
        self.src_attn = src_attn
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout_prob)
        self.norm_self_attn = norm(d_model)
        if src_attn is not None:
            self.norm_src_attn = norm(d_model)
        self.norm_ff = norm(d_model)

        # Some models search for neighbours of the feed-forward network's input
        # ([@khandelwal2019generalization]). Set `is_save_ff_input` to store it.
        self.is_save_ff_input = False
        self.ff_input: Tensor | None = None

    def residual(
        self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(sublayer(norm(x)))
        else:
            x = norm(x + self.dropout(sublayer(x)))
        return x

    def forward(
        self,
        *,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T _ #B"] | None,
        src: Float[Tensor, "S B C"] | None = None,
        src_mask: Bool[Tensor, "#T _ #B"] | None = None,
        cache: KVCache | None = None,
        src_cache: KVCache | None = None,
    ) -> Float[Tensor, "T B C"]:
        # Attention modules that know nothing of caches work without one.
        cached = {} if cache is None else {"cache": cache}
        src_cached = {} if src_cache is None else {"cache": src_cache}

        def attend_to_target(z: Tensor) -> Tensor:
            attended: Tensor = self.self_attn(
                query=z, key=z, value=z, mask=mask, **cached
            )
            return attended

        x = self.residual(x, self.norm_self_attn, attend_to_target)

        if src is not None:

            def attend_to_source(z: Tensor) -> Tensor:
                assert self.src_attn is not None
                attended: Tensor = self.src_attn(
                    query=z, key=src, value=src, mask=src_mask, **src_cached
                )
                return attended

            x = self.residual(x, self.norm_src_attn, attend_to_source)

        def feed_forward(z: Tensor) -> Tensor:
            if self.is_save_ff_input:
                self.ff_input = z.detach().clone()
            output: Tensor = self.feed_forward(z)
            return output

        return self.residual(x, self.norm_ff, feed_forward)


class Encoder(nn.Module):
    """
    ## Encoder

    A stack of layers and a final normalisation.
    """

    def __init__(
        self,
        layer: TransformerLayer,
        n_layers: int,
        *,
        final_norm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        r"""
        * `layer` is the pattern: the first layer keeps its parameters, the others draw
          new ones (`labml_nn.utils.independent_copies`)
        * `n_layers` is the number of layers, $L$
        * `final_norm` is whether the last layer's output is normalised; post-norm
          layers already end in a normalisation
        * `norm` makes that normalisation of $C$ features
        """
        super().__init__()
        check_sizes(n_layers=n_layers)
        check_bool(final_norm=final_norm)
        self.size = layer.size
        self.layers = independent_copies(layer, n_layers)
        self.norm = norm(layer.size) if final_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T _ #B"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "T B C"]:
        for i, layer in enumerate(self.layers):
            x = layer(x=x, mask=mask, cache=caches[i] if caches else None)
        encoded: Tensor = self.norm(x)
        return encoded


class Decoder(nn.Module):
    """
    ## Decoder

    The same with cross-attention to the encoder's output in every layer.
    """

    def __init__(
        self,
        layer: TransformerLayer,
        n_layers: int,
        *,
        final_norm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        """
        Arguments are those of `Encoder`; `layer` must have a `src_attn`.
        """
        super().__init__()
        check_sizes(n_layers=n_layers)
        check_bool(final_norm=final_norm)
        if layer.src_attn is None:
            raise ValueError(
                "the `layer` of a Decoder has no `src_attn`, so it cannot attend to "
                "the source; build it with src_attn=MultiHeadAttention(...), or use "
                "Encoder"
            )
        self.size = layer.size
        self.layers = independent_copies(layer, n_layers)
        self.norm = norm(layer.size) if final_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T _ #B"] | None,
        tgt_mask: Bool[Tensor, "#T _ #B"] | None,
        caches: Sequence[KVCache] | None = None,
        src_caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "T B C"]:
        for i, layer in enumerate(self.layers):
            x = layer(
                x=x,
                mask=tgt_mask,
                src=memory,
                src_mask=src_mask,
                cache=caches[i] if caches else None,
                src_cache=src_caches[i] if src_caches else None,
            )
        decoded: Tensor = self.norm(x)
        return decoded


class Generator(nn.Module):
    """
    ## Generator

    A linear map to one logit per token of the vocabulary.
    """

    def __init__(self, n_vocab: int, d_model: int) -> None:
        super().__init__()
        check_sizes(n_vocab=n_vocab, d_model=d_model)
        self.projection = nn.Linear(d_model, n_vocab)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes V"]:
        logits: Tensor = self.projection(x)
        return logits


class EncoderDecoder(nn.Module):
    """
    ## Encoder–decoder
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ) -> None:
        super().__init__()
        check_same_width(
            encoder=_width(encoder),
            decoder=_width(decoder),
            src_embed=_width(src_embed),
            tgt_embed=_width(tgt_embed),
            generator=_width(generator),
        )
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)

    def encode(
        self, src: Int[Tensor, "S B"], src_mask: Bool[Tensor, "#S S #B"] | None
    ) -> Float[Tensor, "S B C"]:
        encoded: Tensor = self.encoder(self.src_embed(src), src_mask)
        return encoded

    def decode(
        self,
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T S #B"] | None,
        tgt: Int[Tensor, "T B"],
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        decoded: Tensor = self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)
        return decoded

    def logits(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B V"]:
        logits: Tensor = self.generator(self(src, tgt, src_mask, tgt_mask))
        return logits


# The number of features that a submodule works on, or `None` if it does not tell.
def _width(module: nn.Module | None) -> int | None:
    for path in (
        "size",
        "d_model",
        "output.out_features",
        "layer1.in_features",
        "projection.in_features",
    ):
        width: object = module
        for name in path.split("."):
            width = getattr(width, name, None)
        if isinstance(width, int):
            return width
    return None
