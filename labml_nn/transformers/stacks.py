r"""
---
title: Stacks of layers
summary: >
  Layers on top of each other: an encoder, which reads, and a decoder, which also reads
  what another stack made. Whole texts at once, or one token after the other with keys
  and values kept.
paper: https://arxiv.org/abs/1706.03762
---

One layer can carry a word to its neighbour. What follows from *that* is for the next
layer to see, and so on: depth is what lets a model draw conclusions from conclusions. A
stack is $L$ layers (`TransformerLayer`), alike in shape, each reading what the one
below it made.

An **encoder** reads one sequence. With a mask that hides the future it is a language
model, as GPT is; where every position sees every other it is a reader, as BERT is. A
**decoder** reads two: its own, and the result of an encoder.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | the rows: one vector for each position and sequence |
| $m$ | `memory` | `[S, B, C]` | the encoder's result, read by the decoder |
| $K^l$, $V^l$ | `past[l]` | `[S, B, H, K]` | keys and values of the rows before `x` |
| $M$ | `mask`, `src_mask` | `[T\|1, S, B\|1]` | who may attend to whom; `None`: all |
| $L$ | `n_layers` | | layers of a stack |
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.transformers.keys_values import reusable
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.rotary import Rotation
from labml_nn.utils import independent_copies


class Encoder(nn.Module):
    r"""
    ## Encoder: a stack of layers

    The layers are alike in shape, but each starts with random parameters of its own. In
    version 0.5.1 they started as exact copies.

    With pre-norm nothing limits the sum that a row has become after $L$ layers, so one
    last normalisation stands at the end. It matters to the decoder, which reads the
    result as it is.
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
        * `layer` is the pattern. The first layer keeps its parameters, the others draw
          new ones; see `independent_copies`
        * `n_layers` is the number of layers, $L$
        * `final_norm`: post-norm layers end in a normalisation already, and the paper
          adds no other. Give `False` to leave it out
        * `norm` makes that normalisation, of $C$ features
        """
        super().__init__()
        self.layers = independent_copies(layer, n_layers)
        self.norm = norm(layer.size) if final_norm else nn.Identity()
        self.size = layer.size

    def forward(
        self, x: Float[Tensor, "T B C"], mask: Bool[Tensor, "#T T #B"] | None
    ) -> Float[Tensor, "T B C"]:
        r"""
        * `x` are embedded tokens, `[T, B, C]`
        * `mask` hides padding, `[1, T, B]`; or, where the stack is used as a language
          model, what comes later, `[T, T, 1]`. `None` hides nothing

        Returns `[T, B, C]`. Raises `ValueError` or `TypeError` for shapes and dtypes
        that do not fit.
        """
        for layer in self.layers:
            x = layer(x=x, mask=mask)
        encoded: Tensor = self.norm(x)
        return encoded

    def extend(
        self,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T S_T #B"] | None,
        past: tuple[KeysValues, ...] | None,
        rotation: Rotation | None = None,
    ) -> tuple[Float[Tensor, "T B C"], tuple[KeysValues, ...]]:
        r"""
        ### Going on from what was read

        For stacks whose mask hides the future; see `TransformerLayer.extend`.

        * `x` are the new rows, `[T, B, C]`
        * `mask` says which of them may attend to which of all, `[T|1, S + T, B|1]`
        * `past` are keys and values of the $S$ rows before them, one pair for each
          layer; `None` at the beginning
        * `rotation` says where the new rows stand, if positions are
          [rotations](rotary.py)

        Returns the new rows, `[T, B, C]`, and keys and values of all $S + T$. Raises
        `ValueError` or `TypeError` for what does not fit.
        """
        x, kept = _extend(self.layers, x, mask, past, rotation=rotation)
        return self.norm(x), kept


class Decoder(nn.Module):
    r"""
    ## Decoder: a stack that also reads the source

    Every layer reads the *last* result of the encoder; it is computed once for all of
    them.
    """

    def __init__(
        self, layer: TransformerLayer, n_layers: int, *, final_norm: bool = True
    ) -> None:
        r"""
        Arguments are those of `Encoder`, but `layer` must have `src_attn`: without it
        nothing of the source would reach the target, which is a `ValueError`.
        """
        super().__init__()
        if layer.src_attn is None:
            raise ValueError(
                "the `layer` of a Decoder has no `src_attn`, so it could not read the "
                "source; build it with src_attn=MultiHeadAttention(...), or use Encoder"
            )
        self.layers = independent_copies(layer, n_layers)
        self.norm = nn.LayerNorm([layer.size]) if final_norm else nn.Identity()
        self.size = layer.size

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        * `x` are the embedded tokens of the target, `[T, B, C]`
        * `memory` is the encoder's result, `[S, B, C]`
        * `src_mask` hides positions of the source, `[1, S, B]`
        * `tgt_mask` hides what comes later in the target, `[T, T, 1]`:
          `subsequent_mask`

        Returns `[T, B, C]`. Raises `ValueError` or `TypeError` for shapes and dtypes
        that do not fit.
        """
        for layer in self.layers:
            x = layer(x=x, mask=tgt_mask, src=memory, src_mask=src_mask)
        decoded: Tensor = self.norm(x)
        return decoded

    def project_source(self, memory: Float[Tensor, "S B C"]) -> tuple[KeysValues, ...]:
        r"""
        ### The source, as the layers read it

        Each layer has keys and values of its own for the encoder's result, and they are
        the same for every token that is written: compute them once and give them to
        `extend`. Returns one pair for each layer.
        """
        attentions = [
            reusable(cast(TransformerLayer, layer).src_attn, "src_attn")
            for layer in self.layers
        ]
        return tuple(each.project(key=memory, value=memory) for each in attentions)

    def extend(
        self,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T S_T #B"] | None,
        past: tuple[KeysValues, ...] | None,
        sources: tuple[KeysValues, ...],
        src_mask: Bool[Tensor, "#T S_src #B"] | None,
    ) -> tuple[Float[Tensor, "T B C"], tuple[KeysValues, ...]]:
        r"""
        ### Going on from what was written

        * `x`, `mask` and `past` are those of `Encoder.extend`, for the target
        * `sources` are keys and values of the source: what `project_source` returned
        * `src_mask` hides positions of it, `[1, S, B]`

        Result and errors are those of `Encoder.extend`.
        """
        x, kept = _extend(self.layers, x, mask, past, sources, src_mask)
        return self.norm(x), kept


# Both stacks go on in the same way: up through the layers, each with its own past and,
# in a decoder, its own view of the source.
def _extend(
    layers: nn.ModuleList,
    x: Tensor,
    mask: Tensor | None,
    past: Sequence[KeysValues] | None,
    sources: Sequence[KeysValues] | None = None,
    src_mask: Tensor | None = None,
    rotation: Rotation | None = None,
) -> tuple[Tensor, tuple[KeysValues, ...]]:
    for name, pairs in (("past", past), ("sources", sources)):
        if pairs is not None and len(pairs) != len(layers):
            raise ValueError(
                f"`{name}` has keys and values for {len(pairs)} layers, and this stack "
                f"has {len(layers)}; give back what the same stack returned"
            )
    befores: Iterable[KeysValues | None] = repeat(None) if past is None else past
    asked: Iterable[KeysValues | None] = repeat(None) if sources is None else sources
    kept = []
    for layer, before, source in zip(layers, befores, asked, strict=False):
        x, now = cast(TransformerLayer, layer).extend(
            x=x,
            mask=mask,
            past=before,
            source=source,
            src_mask=src_mask,
            rotation=rotation,
        )
        kept.append(now)
    return x, tuple(kept)


# ## Exercises
#
# **1.** Let an encoder read a text token by token, with `extend`, and check that it
# computes what it computes at once. How many numbers does it keep for each token, and
# how many for GPT-3, with 96 layers of 12,288 features?
#
# <details><summary>Answer</summary>
#
# A key and a value in every layer, $2 L C$ numbers. For GPT-3 that is 2.4 million per
# token, or 4.5 MiB in 16 bits: 2,048 tokens take 9 GiB, for one text. The price of
# memory is what later models save on, with fewer heads for keys than for queries.
#
# ```python
# import torch
# from labml_nn.transformers import Encoder, MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.utils import subsequent_mask
#
# T, B, C, L = 7, 2, 12, 3
# layer = TransformerLayer(
#     d_model=C,
#     self_attn=MultiHeadAttention(3, C),
#     feed_forward=FeedForward(C, 28),
#     dropout_prob=0.1,
# )
# encoder, x, past, rows = Encoder(layer, L).eval(), torch.randn(T, B, C), None, []
# for token in x.split(1):
#     row, past = encoder.extend(token, None, past)  # all that is kept may be seen
#     rows.append(row)
#
# at_once = encoder(x, subsequent_mask(T))
# torch.testing.assert_close(torch.cat(rows), at_once, rtol=1e-5, atol=1e-5)
# kept = sum(pair.keys.numel() + pair.values.numel() for pair in past)
# assert kept == 2 * L * C * T * B
# assert 2 * 96 * 12_288 * 2 / 2**20 == 4.5  # MiB
# ```
#
# </details>
#
# **2.** Why does a pre-norm stack need a normalisation at its end? Measure how rows
# grow on their way up.
#
# <details><summary>Answer</summary>
#
# Every part adds to the row. What it adds has about the same size in each layer,
# because it works on normalised rows, and has little to do with what is there. So
# variances add up, and after $L$ layers the row is about $\sqrt{L}$ times as large as
# what one layer adds. With post-norm each layer ends as it began.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers import Encoder, MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
#
# def sizes(norm_first):
#     """Root mean square of a row after 0, 1, ... 32 layers."""
#     layer = TransformerLayer(
#         d_model=64,
#         self_attn=MultiHeadAttention(4, 64),
#         feed_forward=FeedForward(64, 256),
#         dropout_prob=0.0,
#         norm_first=norm_first,
#     )
#     encoder = Encoder(layer, 32).eval()
#     for parameter in encoder.parameters():
#         if parameter.dim() > 1:
#             nn.init.xavier_uniform_(parameter)
#     rows = [torch.randn(10, 8, 64)]
#     for each in encoder.layers:
#         rows.append(each(x=rows[-1], mask=None))
#     return [row.square().mean().sqrt().item() for row in rows]
#
# before, after = sizes(norm_first=True), sizes(norm_first=False)
# assert before[8] < before[16] < before[32]
# assert 1.2 < before[32] / before[16] < 1.7  # about the root of 2
# assert all(abs(size - 1) < 0.01 for size in after[1:])
# ```
#
# </details>
#
# **3.** Xiong et al. ([-@xiong2020layer]) say why post-norm needs a warm-up: at the
# start, the gradient of the last layer is as large in a deep stack as in a shallow one,
# while with pre-norm it shrinks like $1 / \sqrt{L}$. Measure it.
#
# <details><summary>Answer</summary>
#
# With pre-norm the last normalisation divides by the size of a row that has grown with
# every layer. With post-norm it divides by the same number in any stack.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers import Encoder, MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
#
# def gradient_of_the_last_layer(n_layers, norm_first):
#     torch.manual_seed(0)
#     layer = TransformerLayer(
#         d_model=64,
#         self_attn=MultiHeadAttention(4, 64),
#         feed_forward=FeedForward(64, 256),
#         dropout_prob=0.0,
#         norm_first=norm_first,
#     )
#     encoder = Encoder(layer, n_layers, final_norm=norm_first).eval()
#     for parameter in encoder.parameters():
#         if parameter.dim() > 1:
#             nn.init.xavier_uniform_(parameter)
#     rows = encoder(torch.randn(10, 8, 64), None)
#     weight = encoder.layers[-1].feed_forward.layer2.weight
#     loss = (rows * torch.randn_like(rows)).mean()
#     return torch.autograd.grad(loss, weight)[0].norm()
#
# def shallow_over_deep(norm_first):
#     shallow = gradient_of_the_last_layer(6, norm_first)
#     return shallow / gradient_of_the_last_layer(24, norm_first)
#
# assert 1.7 < shallow_over_deep(norm_first=True) < 2.3  # the root of 24 / 6
# assert 0.9 < shallow_over_deep(norm_first=False) < 1.1
# ```
#
# </details>
