r"""
---
title: Feedback transformer with shared keys and values
summary: >
  All layers of a feedback transformer look at the same memory. Here they also look at
  it in the same way, and each row is projected once for all of them.
paper: https://arxiv.org/abs/2002.09402
---

In a [feedback transformer](index.html) every layer attends to the same rows
$m_0, \dots, m_{t-1}$, and projects them with a $W_K$ and a $W_V$ of its own. What if
there were one $W_K$ and one $W_V$ for the whole model?

$$k_t = W_K m_t, \qquad v_t = W_V m_t$$

Each row is projected once, when it is written, and read as it is by every layer at
every later step. (In the authors' code it is an option, `share_proj_kv`.) With $L = 6$
and $C = 512$ it also saves $2 (L - 1) C^2 = 2.6$ million parameters. Layers still
differ in what they ask for, $W_Q$, in how they judge distance, and in $W_O$.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $m_t$ | `vector` | `[B, C]` | memory of step $t$ |
| $k_t$, $v_t$ | `key(vector)`, `value(vector)` | `[B, H, K]` | its key and value |
| $W_K$, $W_V$ | `key.linear.weight`, `value.linear.weight` | `[H·K, C]` | the maps |
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from labml_nn.checks import check_heads
from labml_nn.transformers.feedback import FeedbackTransformer, by_hand, kernel
from labml_nn.transformers.feedback.by_hand.choice import BACKENDS, suits
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.feedback.memory import FeedbackMemory
from labml_nn.transformers.mha import PrepareForMultiHeadAttention


class FeedbackTransformerKV(FeedbackTransformer):
    r"""
    ## Keys and values shared by all layers

    The model is the other one, but for what it writes into memory.
    """

    is_kv_precomputed = True
    backends = BACKENDS

    def __init__(
        self,
        layer: FeedbackTransformerLayer,
        n_layers: int,
        d_model: int,
        heads: int,
        *,
        horizon: int | None = None,
        norm_memory: bool = False,
        backend: str = "auto",
    ) -> None:
        r"""
        * `layer` is the pattern for the layers; its attention has
          `is_kv_precomputed=True`
        * `n_layers` is their number $L$
        * `d_model`, `heads` are $C$ and $H$, those of the layer
        * `horizon` and `norm_memory` are those of `FeedbackTransformer`
        * `backend` is the form that runs: `plain`, the loop that the other page
          explains; `by_hand`, [the one whose gradients were worked out by
          hand](by_hand/__init__.py); `kernel`, [that one
          compiled](kernel/__init__.py); `graphs` or `triton`, [on a
          GPU](gpu/__init__.py); or `auto`, the fastest that is known to do what is
          asked

        Raises `ValueError` if layer and arguments disagree.
        """
        check_heads(heads, d_model)
        super().__init__(
            layer,
            n_layers,
            horizon=horizon,
            norm_memory=norm_memory,
            backend=backend,
        )
        if (d_model, heads) != (layer.size, layer.attn.heads):
            raise ValueError(
                f"the layer has d_model = {layer.size} and {layer.attn.heads} heads, "
                f"the model d_model = {d_model} and {heads} heads; they must agree"
            )
        self.heads = heads
        self.d_k = d_model // heads
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)

    def _read(
        self, x_seq: Float[Tensor, "T B C"], memory: FeedbackMemory
    ) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
        r"""
        ### Choose a form

        Where keys and values are shared, the whole recurrence can be gone through
        [by hand](by_hand/__init__.py), forwards and backwards, or
        [compiled](kernel/__init__.py): the same numbers, in a fraction of the time. The
        plain loop takes over wherever something is asked of the model that only it
        knows.
        """
        if not suits(self, FeedbackTransformerKV, x_seq):
            return super()._read(x_seq, memory)

        # The loop by hand starts from a memory in which each text has a row. So it is
        # not for a first token, which has nothing to attend to. The kernel can begin
        # where all texts do.
        network = cast(FeedbackTransformerLayer, self.layers[0]).feed_forward
        is_new = len(memory) == 0 and memory.lengths is None
        if is_new and kernel.begins(self.backend, network, x_seq):
            return by_hand.scan(self, x_seq, memory)
        top = []
        if len(memory) == 0 or memory.lengths is not None:
            first, memory = super()._read(x_seq[:1], memory)
            top, x_seq = [first], x_seq[1:]
        if len(x_seq):
            rest, memory = by_hand.scan(self, x_seq, memory)
            top.append(rest)
        return torch.cat(top), memory

    def _remember(
        self, vector: Float[Tensor, "B C"], memory: FeedbackMemory, capacity: int
    ) -> FeedbackMemory:
        r"""
        ### One step: into memory, projected

        A step keeps $2 C$ numbers per sequence, key and value, for all layers together.
        """
        return memory.push(
            self.key(vector),
            self.value(vector),
            capacity=capacity,
            horizon=self.horizon,
        )

    def _row_features(self) -> tuple[int, ...]:
        return (self.heads, self.d_k)

    def free(self) -> None:
        r"""
        Does nothing: the model keeps no memory. Version 0.5.1 did, and code that was
        written for it may ask to let go of it.
        """


# ## Differences from the paper
#
# None that are its own: those of [the other model](index.html) and of
# [attention](attention.py) are those of this one, too.
#
# ## Exercises
#
# **1.** When does a `FeedbackTransformer` compute the same as this model?
#
# <details><summary>Answer</summary>
#
# When all its layers have the same $W_K$ and $W_V$, and their values have no bias.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "n_layers": 2}
# make = FeedbackLanguageModel.from_config
# shared = make(config | {"shared_kv": True}).transformer.eval()
# own = make(config | {"shared_kv": False}).transformer.eval()
# own.load_state_dict(shared.state_dict(), strict=False)
# with torch.no_grad():
#     for layer in own.layers:
#         layer.attn.key.linear.weight.copy_(shared.key.linear.weight)
#         layer.attn.value.linear.weight.copy_(shared.value.linear.weight)
#         layer.attn.value.linear.bias.zero_()
# x_seq = torch.randn(7, 2, 12)
# assert torch.allclose(own(x_seq), shared(x_seq), atol=1e-5)
# ```
#
# </details>
#
# **2.** Which of the two keeps more numbers per step?
#
# <details><summary>Answer</summary>
#
# This one, twice as many: a key and a value, $2 C$ numbers for each sequence. The other
# keeps the memory vector, $C$ numbers, and pays at each step, when each layer takes its
# queries into the space of the memory and what it found out of it.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# def numbers(shared_kv):  # per step, in a batch of one
#     config = {"n_vocab": 5, "d_model": 12, "heads": 3, "shared_kv": shared_kv}
#     model = FeedbackLanguageModel.from_config(config)
#     _, memory = model(torch.zeros(1, 1, dtype=torch.long))
#     stacks = {id(stack): stack for stack in (memory.keys, memory.values)}
#     return sum(stack.rows.numel() for stack in stacks.values())
#
# assert (numbers(shared_kv=True), numbers(shared_kv=False)) == (24, 12)
# ```
#
# </details>
#
# **3.** An ordinary decoder of $L$ layers keeps keys and values of its own for each of
# them. How much smaller is the state of this model, with $L = 6$?
#
# <details><summary>Answer</summary>
#
# Six times: $2 C$ numbers per token instead of $2 L C$. Attention that shares keys and
# values among its *heads* ([@shazeer2019fast]) saves along the other axis, and both
# could be done at once.
#
# ```python
# import torch
# from labml_nn.transformers import Encoder, MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "n_layers": 6}
# _, memory = FeedbackLanguageModel.from_config(config)(torch.tensor([[1], [2]]))
# kept = memory.keys.rows.numel() + memory.values.rows.numel()
#
# parts = {"self_attn": MultiHeadAttention(3, 12), "feed_forward": FeedForward(12, 48)}
# layer = TransformerLayer(d_model=12, dropout_prob=0.1, **parts)
# _, past = Encoder(layer, 6).extend(torch.randn(2, 1, 12), None, None)
# ordinary = sum(pair.keys.numel() + pair.values.numel() for pair in past)
# assert ordinary == 6 * kept == 2 * 6 * 12 * 2
# ```
#
# </details>
