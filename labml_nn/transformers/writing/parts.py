r"""
---
title: A decoder, taken apart
summary: >
  The matrices and vectors of a decoder as a step reads them, without the modules around
  them.
---

A module checks what it is given, asks whether it is in training, and calls other
modules that do the same. A text is thousands of tokens long, and all of these questions
have one answer throughout. So they are asked once, before the first token: is every
part one that we know, in evaluation, and as its class made it? Then the model is a list
of matrices and vectors, and a step is arithmetic.

Where an answer is no, nothing is taken apart. The model may have a layer of yours in
it, an adapter, somebody who [watches attention](../../attention_maps/recording.py). It
writes in its own way, which is always right.

Nothing is copied. A matrix here *is* the parameter of the model.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$, $b$ | `weight`, `bias` of `Map` | `[N, C]`, `[N]` | a linear map |
| $g$, $b$ | `gain`, `shift` of `Norm` | `[C]` | a normalisation |
| $E$ | `table` | `[V, C]` | one vector per token |
| $P$ | `places` | `[max_len, C]` | one vector per position, if they are added |
| $\cos p\theta$, $\sin p\theta$ | `turns` | `[max_len, K/2]` | or rotations |
"""

from typing import NamedTuple, cast

from torch import Tensor, nn

from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU
from labml_nn.transformers.heads import PrepareForMultiHeadAttention
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Generator
from labml_nn.transformers.qk_norm import NormalisedHeads, QKNormAttention
from labml_nn.transformers.rms_norm import RMSNorm
from labml_nn.transformers.rotary import RotaryPositions
from labml_nn.transformers.stacks import Decoder, Encoder

# What may be in a model that is taken apart, and the names of its nonlinearities.
ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    SquaredReLU: "squared_relu",
}
KNOWN: set[type[nn.Module]] = {
    *ACTIVATIONS,
    *(nn.Linear, nn.Embedding, nn.LayerNorm, nn.Identity, nn.Dropout, nn.Softmax),
    *(nn.ModuleList, Encoder, Decoder, Generator, TransformerLayer, FeedForward),
    *(MultiHeadAttention, QKNormAttention, RMSNorm, RotaryPositions),
    *(PrepareForMultiHeadAttention, NormalisedHeads),
}


class Map(NamedTuple):
    r"""
    ## A linear map

    $x W^\top + b$.
    """

    weight: Tensor
    bias: Tensor | None


class Norm(NamedTuple):
    r"""
    ## A normalisation

    That of a layer, or, with `is_rms`, [by the size alone](../rms_norm.py).
    """

    gain: Tensor | None
    shift: Tensor | None
    eps: float
    is_rms: bool


class AttentionParts(NamedTuple):
    r"""
    ## Attention

    * `norm` is what its input goes through, or its result in a post-norm layer
    * `query_norm`, `key_norm` make heads of [one length](../qk_norm.py), or are `None`
    * `scale` is what scores are multiplied with
    """

    norm: Norm
    query: Map
    key: Map
    value: Map
    output: Map
    query_norm: Norm | None
    key_norm: Norm | None
    heads: int
    scale: float


class LayerParts(NamedTuple):
    r"""
    ## One layer

    * `look_back` is attention to the text so far
    * `ask_source` is attention to what was said, in a model that replies
    * `up`, `down` and `activation` are the feed-forward network
    """

    look_back: AttentionParts
    ask_source: AttentionParts | None
    norm: Norm
    up: Map
    down: Map
    activation: str


class DecoderParts(NamedTuple):
    r"""
    ## All of it, from a token to logits

    * `table` and `scale` make a vector of a token, $\sqrt{C} \, E_w$
    * `places` are added to it, `turns` are cosines and sines for queries and keys; each
      is there or `None`
    * `norm_in` and `norm_out` stand before the first layer and behind the last
    * `norm_first` says on which side of a part its own norm stands
    """

    table: Tensor
    scale: float
    places: Tensor | None
    turns: tuple[Tensor, Tensor] | None
    norm_in: Norm | None
    layers: tuple[LayerParts, ...]
    norm_out: Norm | None
    output: Map
    norm_first: bool

    def tensors(self) -> list[Tensor]:
        """All that the layers read."""
        return _tensors(self.layers)

    def floats(self) -> int:
        """How many numbers a step reads, but for what it looks up."""
        layers = sum(tensor.numel() for tensor in self.tensors())
        return layers + self.output.weight.numel()


def _tensors(part: object) -> list[Tensor]:
    if isinstance(part, Tensor):
        return [part]
    return [t for p in part for t in _tensors(p)] if isinstance(part, tuple) else []


def is_ordinary(model: nn.Module, *more: type[nn.Module]) -> bool:
    r"""
    ## Is it what it seems to be?

    * `model` is what shall be taken apart
    * `more` are classes, beside those that all decoders consist of

    Whether every module in it is of a known class, in evaluation, without hooks that
    want to be called, and without anything of its class hidden behind something else.
    """
    known = KNOWN.union(more)
    return all(
        type(module) in known
        and not module.training
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not any(hasattr(type(module), name) for name in vars(module))
        for module in model.modules()
    )


# ## Piece by piece
#
# Each of these says `None` to what it cannot take apart.
def layers_of(stack: Encoder | Decoder) -> tuple[LayerParts, ...] | None:
    """
    ### The layers of a stack
    """
    layers = []
    for module in stack.layers:
        parts = _layer(cast(TransformerLayer, module))
        if parts is None:
            return None
        layers.append(parts)
    return tuple(layers)


def _layer(layer: TransformerLayer) -> LayerParts | None:
    network = cast(FeedForward, layer.feed_forward)
    kind = type(network.activation)
    tanh = getattr(network.activation, "approximate", "none") != "none"
    if kind not in ACTIVATIONS or network.is_gated or layer.is_save_ff_input or tanh:
        return None
    source = None
    if layer.src_attn is not None:
        source = _attention(layer.src_attn, layer.norm_src_attn)
        if source is None:
            return None
    back = _attention(layer.self_attn, layer.norm_self_attn)
    norm = norm_of(layer.norm_ff)
    if back is None or norm is None:
        return None
    up, down = map_of(network.layer1), map_of(network.layer2)
    return LayerParts(back, source, norm, up, down, ACTIVATIONS[kind])


def _attention(module: nn.Module, norm: nn.Module) -> AttentionParts | None:
    attention, before = cast(MultiHeadAttention, module), norm_of(norm)
    if attention.store_attn or before is None:
        return None
    return AttentionParts(
        norm=before,
        query=map_of(attention.query.linear),
        key=map_of(attention.key.linear),
        value=map_of(attention.value.linear),
        output=map_of(attention.output),
        query_norm=norm_of(getattr(attention.query, "norm", None)),
        key_norm=norm_of(getattr(attention.key, "norm", None)),
        heads=attention.heads,
        scale=attention.scale,
    )


def map_of(linear: nn.Linear) -> Map:
    """
    ### The map of a module
    """
    return Map(linear.weight, cast(Tensor | None, linear.bias))


def norm_of(module: nn.Module | None) -> Norm | None:
    """
    ### The norm of a module, or none
    """
    if isinstance(module, RMSNorm):
        return Norm(module.weight, None, module.eps, is_rms=True)
    if isinstance(module, nn.LayerNorm):
        return Norm(module.weight, module.bias, module.eps, is_rms=False)
    return None
