r"""
---
title: The transformer layer
summary: >
  Attention, then a feed-forward network, each added to what was there before. One
  layer, for an encoder or a decoder, normalised before or after.
paper: https://arxiv.org/abs/1706.03762
---

Picture a sentence on its way through a transformer: each token is a row, one vector
wide, that runs from the bottom of the model to the top. A layer does not replace the
rows. It reads them, computes something, and adds that to them. It does so twice.
First attention (`MultiHeadAttention`) asks what the *other* positions know, then a
feed-forward network (`FeedForward`) works out what follows from the answer, each
position for itself. In a decoder a third question stands between the two: what does the
source say?

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | the rows: one vector for each position and sequence |
| $z$ | `z` | `[T, B, C]` | what a part of the layer reads |
| $m$ | `src` | `[S, B, C]` | the encoder's result, for a decoder to read |
| $K$, $V$ | `past` | `[S, B, H, K]` | keys and values of what was read before |
| $M$ | `mask` | `[T\|1, T, B\|1]` | who may attend to whom; `None`: all to all |
| | `src_mask` | `[T\|1, S, B\|1]` | the same, for positions of the source |
| $C$ | `d_model`, `size` | | features per row |
"""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sequence, check_sizes
from labml_nn.transformers.keys_values import join, reusable
from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.rotary import Rotation


class TransformerLayer(nn.Module):
    r"""
    ## One layer

    An encoder's layer, or, with `src_attn`, a decoder's. Every part $f$ of it works on
    the rows in the same way: [normalise](layer_norm.py), compute, add.

    $$x \leftarrow x + \operatorname{Dropout}\big(f(\operatorname{LayerNorm}(x))\big)$$

    The sum is a residual connection. Because of it the gradient has a way from the last
    layer to the first that passes through no weights at all.

    The paper normalises after the sum instead (§3.1, *post-norm*):

    $$x \leftarrow \operatorname{LayerNorm}\big(x + \operatorname{Dropout}(f(x))\big)$$

    Then each normalisation stands in that way, and training needs a careful warm-up of
    the learning rate ([@xiong2020layer]). *Pre-norm*, the first form, does without, and
    is the default here.
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
        * `d_model` is the number of features, $C$
        * `self_attn` lets the positions of a sequence attend to each other, usually a
          `MultiHeadAttention`
        * `src_attn` lets them attend to the encoder's result; a decoder's layer has it
        * `feed_forward` works on each position alone, usually a `FeedForward`
        * `dropout_prob` is the probability to drop a feature of what is added
        * `norm_first` chooses pre-norm (`True`) or the paper's post-norm (`False`)
        * `norm` makes a normalisation of $C$ features, such as [RMSNorm](rms_norm.py)
        """
        super().__init__()
        check_sizes(d_model=d_model)
        check_probability(dropout_prob=dropout_prob)
        self.size = d_model
        self.norm_first = norm_first

        # Three parts, each with a normalisation of its own.
        self.self_attn = self_attn
        self.src_attn = src_attn
        self.feed_forward = feed_forward
        self.norm_self_attn = norm(d_model)
        if src_attn is not None:
            self.norm_src_attn = norm(d_model)
        self.norm_ff = norm(d_model)
        self.dropout = nn.Dropout(dropout_prob)

        # Some models search for neighbours of the feed-forward network's input (kNN-LM,
        # [@khandelwal2019generalization]). Set this to keep it after each call, without
        # its graph.
        self.is_save_ff_input = False
        self.ff_input: Tensor | None = None

    def _add(
        self, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor]
    ) -> Tensor:
        # The two equations above, one line each.
        if self.norm_first:
            added: Tensor = x + self.dropout(part(norm(x)))
        else:
            added = norm(x + self.dropout(part(x)))
        return added

    def forward(
        self,
        *,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T T #B"] | None,
        src: Float[Tensor, "S B C"] | None = None,
        src_mask: Bool[Tensor, "#T S #B"] | None = None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        * `x` has shape `[T, B, C]`
        * `mask` says which positions of `x` may attend to which
        * `src` is the encoder's result, `[S, B, C]`; without it a decoder's layer
          leaves its middle part out
        * `src_mask` says which positions of `x` may attend to which of `src`

        Returns `[T, B, C]`. Raises `ValueError` or `TypeError` for shapes and dtypes
        that do not fit, and for a `src` given to an encoder's layer.
        """
        check_sequence("x", x, self.size, self._parameter())
        self._check_source(x, src, src_mask)

        # Queries, keys and values of the first part all come from $z$. In the second,
        # the queries are ours, keys and values the source's. It is not normalised
        # again: an encoder's result has been.
        def look_around(z: Tensor) -> Tensor:
            attended: Tensor = self.self_attn(query=z, key=z, value=z, mask=mask)
            return attended

        def ask_source(z: Tensor) -> Tensor:
            assert self.src_attn is not None
            said: Tensor = self.src_attn(query=z, key=src, value=src, mask=src_mask)
            return said

        return self._pass(x, look_around, None if src is None else ask_source)

    def extend(
        self,
        *,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T S_T #B"] | None,
        past: KeysValues | None,
        source: KeysValues | None = None,
        src_mask: Bool[Tensor, "#T S_src #B"] | None = None,
        rotation: Rotation | None = None,
    ) -> tuple[Float[Tensor, "T B C"], KeysValues]:
        r"""
        ### Going on from what was read

        A model that writes adds a position at a time, and all positions before it stay
        what they are: a causal mask lets none of them see the new one. All that the new
        one needs of them is their keys and values. So we keep those, and a step costs
        one row of queries instead of a whole text.

        * `x` are the rows of the new positions, `[T, B, C]`
        * `mask` says which of them may attend to which of all, `[T|1, S + T, B|1]`; the
          $S$ old ones come first
        * `past` are keys and values of the $S$ old positions in this layer, as the call
          before returned them; `None` at the beginning
        * `source` are those of the source, `src_attn.project(key=src, value=src)`, the
          same at every step; `src_mask` masks it
        * `rotation` says where the new positions stand, for attention that is told by
          [rotating](rotary.py) queries and keys

        Returns the rows of the new positions, `[T, B, C]`, which `forward` would have
        had there, and keys and values of all $S + T$. The attention has to know
        `project` and `attend_to`, as a `MultiHeadAttention` does, or this is a
        `TypeError`; other errors are those of `forward`.
        """
        check_sequence("x", x, self.size, self._parameter())
        self._check_source_given(source is not None, src_mask)
        attention, kept = reusable(self.self_attn, "self_attn"), past
        turn = {} if rotation is None else {"rotation": rotation}

        # The new rows offer keys and values too, to each other and to those to come.
        def look_back(z: Tensor) -> Tensor:
            nonlocal kept
            kept = join(kept, attention.project(key=z, value=z, **turn))
            return attention.attend_to(query=z, past=kept, mask=mask, **turn)

        def ask_source(z: Tensor) -> Tensor:
            assert self.src_attn is not None and source is not None
            attention = reusable(self.src_attn, "src_attn")
            return attention.attend_to(query=z, past=source, mask=src_mask)

        x = self._pass(x, look_back, None if source is None else ask_source)
        assert kept is not None
        return x, kept

    def _pass(
        self,
        x: Tensor,
        look_around: Callable[[Tensor], Tensor],
        ask_source: Callable[[Tensor], Tensor] | None,
    ) -> Tensor:
        r"""
        ### Two questions and a conclusion

        What do the other positions know? What does the source say? What follows from
        it, for each position alone?
        """
        x = self._add(x, self.norm_self_attn, look_around)
        if ask_source is not None:
            x = self._add(x, self.norm_src_attn, ask_source)
        return self._add(x, self.norm_ff, self._think)

    def _check_source(
        self, x: Tensor, src: Tensor | None, src_mask: Tensor | None
    ) -> None:
        self._check_source_given(src is not None, src_mask)
        if src is None:
            return
        check_sequence("src", src, self.size, self._parameter())
        if src.shape[1] != x.shape[1]:
            raise ValueError(
                f"`src` has shape {list(src.shape)} and `x` {list(x.shape)}; expected "
                "the same number of sequences, B, in both"
            )

    def _check_source_given(self, given: bool, src_mask: Tensor | None) -> None:
        if not given and src_mask is not None:
            raise ValueError("`src_mask` was given without the `src` that it masks")
        if given and self.src_attn is None:
            raise ValueError(
                "`src` was given to a layer without `src_attn`, which cannot attend to "
                "it; build the layer with src_attn=MultiHeadAttention(...)"
            )

    def _parameter(self) -> Tensor | None:
        return next(self.norm_ff.parameters(), None)

    def _think(self, z: Tensor) -> Tensor:
        if self.is_save_ff_input:
            self.ff_input = z.detach().clone()
        thought: Tensor = self.feed_forward(z)
        return thought


# ## Differences from the paper
#
# * **Pre-norm** is the default; the paper is post-norm, `norm_first=False`. Version
#   0.5.1 has pre-norm only.
# * **Dropout** falls on what each part adds, as in the paper (§5.4), and besides on the
#   attention weights and inside the feed-forward network, if those were built with it.
#
# ## Exercises
#
# **1.** Stack 100 layers whose parts add nothing, $f = 0$. What comes out with
# pre-norm, and what with post-norm? And the gradient?
#
# <details><summary>Answer</summary>
#
# With pre-norm rows and gradient come out as they went in: a deep stack begins near the
# identity and learns to depart from it. With post-norm the first normalisation gives
# each row mean 0 and variance 1, and the others change nothing more; the gradient comes
# back without its mean and without its component along the row. Dropping everything
# that a part adds makes such layers:
#
# ```python
# import torch
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
#
# parts = {"self_attn": MultiHeadAttention(3, 12), "feed_forward": FeedForward(12, 28)}
# x, cotangent = torch.randn(5, 2, 12, requires_grad=True), torch.randn(5, 2, 12)
#
# def through_100_layers(norm_first):
#     options = {"dropout_prob": 1.0, "norm_first": norm_first}
#     layer, rows = TransformerLayer(d_model=12, **parts, **options), x
#     for _ in range(100):
#         rows = layer(x=rows, mask=None)
#     return rows, *torch.autograd.grad(rows, x, cotangent)
#
# rows, gradient = through_100_layers(norm_first=True)
# assert torch.equal(rows, x) and torch.equal(gradient, cotangent)
#
# rows, gradient = through_100_layers(norm_first=False)
# once = torch.nn.functional.layer_norm(x, (12,))
# torch.testing.assert_close(rows, once, rtol=0.0, atol=0.01)
# assert gradient.mean(-1).abs().max() < 0.01
# assert (gradient * once).mean(-1).abs().max() < 0.01
# ```
#
# </details>
#
# **2.** In which order do the two parts have to come? Build a layer that runs the
# feed-forward network first, out of an ordinary one.
#
# <details><summary>Answer</summary>
#
# The order is a choice: in a stack the parts alternate anyway, and only the first and
# the last differ. A thought after a layer that thinks first is the same as a thought
# before one that looks first:
#
# ```python
# import torch
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
#
# class ThinkFirst(TransformerLayer):
#     def forward(self, *, x, mask):
#         x = x + self.dropout(self.feed_forward(self.norm_ff(x)))
#         z = self.norm_self_attn(x)
#         return x + self.dropout(self.self_attn(query=z, key=z, value=z, mask=mask))
#
# parts = {"self_attn": MultiHeadAttention(3, 12), "feed_forward": FeedForward(12, 28)}
# look_first = TransformerLayer(d_model=12, dropout_prob=0.1, **parts).eval()
# think_first = ThinkFirst(d_model=12, dropout_prob=0.1, **parts).eval()
#
# def think(x):
#     return x + look_first.feed_forward(look_first.norm_ff(x))
#
# x = torch.randn(5, 2, 12)
# after = think(think_first(x=x, mask=None))
# torch.testing.assert_close(after, look_first(x=think(x), mask=None))
# ```
#
# </details>
#
# **3.** How many parameters does an encoder's layer have, with $F = 4C$? And a
# decoder's?
#
# <details><summary>Answer</summary>
#
# Attention has four maps and biases, $4 C^2 + 4 C$; feed-forward $8 C^2 + 5 C$, two
# thirds of the layer; two norms $4 C$. Together $12 C^2 + 13 C$. A decoder's layer has
# one attention and one norm more. On the device `meta` large models cost nothing:
#
# ```python
# import torch
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
#
# def parameters(C, **more):
#     attention, network = MultiHeadAttention(8, C), FeedForward(C, 4 * C)
#     parts = {"self_attn": attention, "feed_forward": network, **more}
#     layer = TransformerLayer(d_model=C, dropout_prob=0.1, **parts)
#     return sum(p.numel() for p in layer.parameters())
#
# with torch.device("meta"):
#     for C in (512, 1024, 12_288):  # the paper's base and big models, and GPT-3
#         assert parameters(C) == 12 * C**2 + 13 * C
#         more = {"src_attn": MultiHeadAttention(8, C)}
#         assert parameters(C, **more) == 16 * C**2 + 19 * C
# ```
#
# </details>
