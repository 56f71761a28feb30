r"""
---
title: One token, in few calls
summary: >
  The step of a decoder in plain PyTorch: a token in, logits out, and nothing in between
  that could have been done before.
---

With a vector instead of a text, the products of a decoder are matrices times vectors. A
small model is through with one of them in a few microseconds, and that is also what it
costs to ask PyTorch for anything at all. So what counts here is how often we ask.

A layer made of [modules](../layer.py) asks 42 times for one token, views included. This
one asks 29 times, and without what modules do in between:

* Queries, keys and values come from one product with the three matrices on top of each
  other, and queries come out already divided by $\sqrt{d_k}$.
* Keys and values go to their [places](memory.py); nothing is joined.
* Queries and keys are normalised and turned together, as if there were $2 H$ heads.
* Nothing asks about dropout, masks and shapes.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` | `[B]` | the token to read, one for each text |
| $x$ | `x` | `[B, C]` | the row of this token |
| $z$ | `z` | `[B, C]` | what a part reads |
| $q$, $k$ | `query`, `key` of `_look` | `[B, H, K]` | of this token |
| $v$ | `value` | `[B, H·D]` | its value, heads side by side |
| $K$, $V$ | `keys`, `values` | `[B·H, K, W]`, `[B·H, W, D]` | of all so far |
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from labml_nn.transformers.keys_values import KeysValues
from labml_nn.transformers.writing.memory import Kept, Memory, arrange
from labml_nn.transformers.writing.parts import (
    AttentionParts,
    DecoderParts,
    LayerParts,
    Map,
    Norm,
)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "squared_relu": lambda z: F.relu(z).square(),
}


class Source(NamedTuple):
    r"""
    ## What was said

    In a model that replies. It never changes while the reply is written.

    * `layers` are its keys and values for each layer, with `S` places
    * `lengths` says how many of these are real in each text, `[B]`
    """

    layers: list[Kept]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, sources: tuple[KeysValues, ...], real: Bool[Tensor, "S B"]) -> "Source":
        r"""
        * `sources` are keys and values for each layer, `[S, B, H, K]`
        * `real` says which of them are no padding, `[S, B]`; those come first

        Values of padding become zero, so that a text of nothing but padding may look
        at them, and finds nothing.
        """
        hidden = ~real[..., None, None]
        layers = [
            arrange(KeysValues(k, v.masked_fill(hidden, 0.0)), len(real))
            for k, v in sources
        ]
        return cls(layers, real.sum(0))

    def bias(self) -> Float[Tensor, "BH 1 S"]:
        r"""
        What is added to scores: $-\infty$ behind the end of each text. Where nothing
        but padding was said, nothing would be left, and a softmax of nothing is none.
        """
        _, heads, _, places = self.layers[0].keys.shape
        hidden = torch.arange(places) >= self.lengths[:, None]
        hidden &= self.lengths[:, None] > 0
        bias = self.layers[0].keys.new_zeros(hidden.shape)
        bias.masked_fill_(hidden, -torch.inf)
        return bias.repeat_interleave(heads, 0).unsqueeze(1)


def normalise(x: Tensor, norm: Norm | None) -> Tensor:
    """
    ## A normalisation, if there is one
    """
    if norm is None:
        return x
    if not norm.is_rms:
        return F.layer_norm(x, x.shape[-1:], norm.gain, norm.shift, norm.eps)
    scale = x.square().mean(-1, keepdim=True).add_(norm.eps).rsqrt_()
    x = x * scale
    return x if norm.gain is None else x.mul_(norm.gain)


class _Attention:
    # What is prepared of one attention: the matrices together, the gains of queries and
    # keys together, and views of the memory in which texts and heads are one axis.
    def __init__(self, parts: AttentionParts, kept: Kept, *, maps: list[Map]) -> None:
        self.keys, self.values = kept.keys.flatten(0, 1), kept.values.flatten(0, 1)
        self.output, self.heads = parts.output, parts.heads
        self.d_k, self.d_v = kept.keys.shape[2], kept.values.shape[3]

        # The scale goes where the last thing happens to queries: to the gains, if their
        # lengths are set by them, else to the matrix.
        self.gains, self.eps = None, 0.0
        maps = [Map(weight.detach(), bias) for weight, bias in maps]
        if parts.query_norm is not None and parts.key_norm is not None:
            assert parts.query_norm.gain is not None and parts.key_norm.gain is not None
            gains = parts.query_norm.gain * parts.scale, parts.key_norm.gain
            self.gains = torch.stack(gains).repeat_interleave(self.heads, 0)
            self.eps = parts.query_norm.eps
        else:
            query = maps[0]
            bias = None if query.bias is None else query.bias * parts.scale
            maps[0] = Map(query.weight * parts.scale, bias)
        self.weight = torch.cat([m.weight for m in maps])
        self.bias = None
        if any(m.bias is not None for m in maps):
            zeros = [m.weight.new_zeros(len(m.weight)) for m in maps]
            known = zip(maps, zeros, strict=True)
            self.bias = torch.cat(
                [m.bias if m.bias is not None else o for m, o in known]
            )


class Step:
    r"""
    ## The step

    Called with tokens `[B]`, it returns logits `[B, V]` for what may follow them, and
    has written their keys and values to memory, at place `memory.used`.
    """

    def __init__(
        self, parts: DecoderParts, memory: Memory, source: Source | None
    ) -> None:
        """
        * `parts` are those of the model
        * `memory` has room for the tokens to come
        * `source` is what was said, if the model replies
        """
        self.parts, self.memory, self.source = parts, memory, source
        self.parameters = [t for t in parts.tensors() if not t.is_inference()]
        if source is not None:
            self.bias = source.bias()

        # A rotation of pairs, as two products: what a feature keeps of itself, and what
        # it takes from the other of its pair. The first of a pair takes with a minus.
        self.turns = None
        if parts.turns is not None:
            cos, sin = parts.turns
            self.turns = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        self._get_ready()

    def _get_ready(self) -> None:
        """
        ### Put matrices together

        Those are copies. Somebody may go on training and come back; PyTorch counts how
        often a parameter was written to, and to compare the counts takes microseconds.
        """
        parts, source = self.parts, self.source
        self.versions = self._versions()
        self.back = [
            _Attention(a, kept, maps=[a.query, a.key, a.value])
            for (a, *_), kept in zip(parts.layers, self.memory.layers, strict=True)
        ]
        self.asks: list[_Attention] = []
        if source is not None:
            for layer, kept in zip(parts.layers, source.layers, strict=True):
                assert layer.ask_source is not None
                ask = _Attention(layer.ask_source, kept, maps=[layer.ask_source.query])
                self.asks.append(ask)

    def _versions(self) -> list[int]:
        return [parameter._version for parameter in self.parameters]

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        r"""
        ### From a token to logits

        $$x^0 = \operatorname{Norm}\left(\sqrt{C} \, E_w + P_t\right), \qquad
            z = \operatorname{Norm}(x^L) \, W^\top + b$$
        """
        if self.versions != self._versions():
            self._get_ready()
        parts = self.parts
        x = F.embedding(tokens, parts.table) * parts.scale
        if parts.places is not None:
            x += parts.places[self.memory.used]
        x = normalise(x, parts.norm_in)
        for number, layer in enumerate(parts.layers):
            x = self._layer(x, layer, number)
        return F.linear(normalise(x, parts.norm_out), *parts.output)

    def _layer(self, x: Tensor, layer: LayerParts, number: int) -> Tensor:
        """
        ### A layer

        Looks back, asks, thinks; with a norm before each, or after.
        """
        back, norm_first = self.back[number], self.parts.norm_first
        x = _add(x, layer.look_back.norm, norm_first, lambda z: self._look(z, back))
        if layer.ask_source is not None:
            asks = self.asks[number]
            x = _add(x, layer.ask_source.norm, norm_first, lambda z: self._ask(z, asks))
        return _add(x, layer.norm, norm_first, lambda z: _think(z, layer))

    def _look(self, z: Tensor, a: _Attention) -> Tensor:
        r"""
        ### What does the text so far know?

        One product makes queries, keys and values. Keys and values go to place $t$, and
        places $0$ to $t$ are looked at, which needs no mask.
        """
        t, turns, batch = self.memory.used, self.turns, len(z)
        made = F.linear(z, a.weight, a.bias)
        both, value = torch.split(made, [2 * a.heads * a.d_k, a.heads * a.d_v], -1)
        both = both.view(batch, 2 * a.heads, a.d_k)
        if a.gains is not None:
            both = normalise(both, Norm(a.gains, None, a.eps, is_rms=True))
        if turns is not None:
            taken = both.roll(a.d_k // 2, -1)
            both = torch.addcmul(both * turns[0][t], taken, turns[1][t])
        query, key = torch.split(both, a.heads, 1)
        a.keys[..., t].copy_(key.reshape(-1, a.d_k))
        a.values[:, t].copy_(value.reshape(-1, a.d_v))
        scores = torch.bmm(query.reshape(-1, 1, a.d_k), a.keys[..., : t + 1])
        return _take_home(scores, a.values[:, : t + 1], a.output, batch)

    def _ask(self, z: Tensor, a: _Attention) -> Tensor:
        """
        ### What does the source say?

        Its keys and values are there already; only the query is ours.
        """
        query = F.linear(z, a.weight, a.bias).view(-1, 1, a.d_k)
        scores = torch.baddbmm(self.bias, query, a.keys)
        return _take_home(scores, a.values, a.output, len(z))


def _take_home(scores: Tensor, values: Tensor, output: Map, batch: int) -> Tensor:
    # Softmax, mean, and the heads side by side again.
    found = torch.bmm(scores.softmax(-1), values)
    return F.linear(found.view(batch, -1), *output)


def _think(z: Tensor, layer: LayerParts) -> Tensor:
    hidden = ACTIVATIONS[layer.activation](F.linear(z, *layer.up))
    return F.linear(hidden, *layer.down)


def _add(
    x: Tensor, norm: Norm, norm_first: bool, part: Callable[[Tensor], Tensor]
) -> Tensor:
    if norm_first:
        return x + part(normalise(x, norm))
    return normalise(x + part(x), norm)
