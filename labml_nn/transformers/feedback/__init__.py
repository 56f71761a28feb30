r"""
---
title: Feedback transformer
summary: >
  A transformer whose lowest layer can look at what its highest layer worked out one
  step ago.
paper: https://arxiv.org/abs/2002.09402
---

Read this, one line at a time, and say what is printed:

```text
x = 3
x = x + 1
x = x + 1
print(x)
```

You keep the value in mind: after the second line you know 4, after the third 5. An
ordinary transformer cannot do it like that. Its layer $l$ looks at what layer $l - 1$
made of the earlier lines. Layer 1 sees bare lines of text; whatever layer 1 concludes
about line 2 is for layer 2 to see, and what layer 2 concludes about line 3, for layer
3. Each update costs a layer, and when the layers run out, so does the model, although
the answer to line 3 *was there*, at the top of the stack, when it came to line 4. The
lower layers were not allowed to look.

A feedback transformer (Fan et al. 2020) allows it. At the end of each step it mixes the
outputs of **all** its layers into one memory vector, and at all later steps **every**
layer attends to the memory, the lowest one too:

```text
            step t − 1               memory                step t

 layer 2      x² ────────┐                        ┌──────►  x²
 layer 1      x¹ ────────┼──►  … m(t−2) m(t−1)  ──┴──────►  x¹
 embedding    x⁰ ────────┘                                  x⁰
```

So layer 1 at step $t$ starts from where layer $L$ came to at step $t - 1$. A conclusion
may rest on a chain of $L \cdot t$ layers instead of $L$. That is the strength of a
recurrent network, but without its bottleneck, a state of fixed size that everything
must pass through: attention reaches back to any step by itself. The paper shows that
small, shallow models become much stronger this way. On programs like the one above,
with three variables, its authors report 99.1 % accuracy where a transformer has 33.7 %
([their code and results](https://github.com/facebookresearch/transformer-sequential)).

**The price.** Step $t$ needs the top layer of step $t - 1$. A transformer learns from
all positions of a text at once, one layer after the other: $L$ things to do in turn.
Here it is $L \cdot T$, which is slow. When it *writes* text, a transformer goes token
by token as well, and there feedback is the cheaper one: it keeps one memory, where a
transformer keeps keys and values for each of its layers.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^0$ | `x` | `[B, C]` | token $t$, embedded |
| $x_t^l$ | `outputs[l]` | `[B, C]` | output of layer $l$ at step $t$ |
| $w$ | `weights` | `[L + 1]` | how much each layer counts, before the softmax |
| $m_t$ | `vector` | `[B, C]` | memory of step $t$ |
| $k_t$, $v_t$ | `keys`, `values` | `[B, H, K]` | its key and value, if shared |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_heads, check_sequence
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import (
    FeedbackAttention,
    RelativePositions,
)
from labml_nn.transformers.feedback.checks import check_memory
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.feedback.stack import PersistentStack, Stack
from labml_nn.transformers.mha import PrepareForMultiHeadAttention
from labml_nn.utils import independent_copies

__all__ = [
    "FeedForward",
    "FeedbackAttention",
    "FeedbackMemory",
    "FeedbackTransformer",
    "FeedbackTransformerKV",
    "FeedbackTransformerLayer",
    "PersistentStack",
    "RelativePositions",
    "Stack",
]


@dataclass(frozen=True, eq=False)
class FeedbackMemory:
    r"""
    ## What a model remembers

    A value, not a place: `FeedbackTransformer.step` takes one and returns another, and
    the one that it took is still good. Keep it to go on from the same point twice.

    * `keys`, `values` are what the layers attend to, one row per step. For
      `FeedbackTransformer` both are the same stack of memory vectors, `[S, B, C]`; for
      `FeedbackTransformerKV` they are projected, `[S, B, H, K]` each
    * `n_layers` is the number of layers of the model that wrote it
    """

    keys: PersistentStack
    values: PersistentStack
    n_layers: int

    def __len__(self) -> int:
        return len(self.keys)

    def detach(self) -> "FeedbackMemory":
        """The same memory without gradients, to train on a long text in pieces."""
        return FeedbackMemory(self.keys.detach(), self.values.detach(), self.n_layers)


class FeedbackTransformer(nn.Module):
    r"""
    ## Feedback transformer

    `forward` reads whole sequences, `step` reads one token more, and `scan`, which does
    the work for both, reads any number of tokens from any memory. They agree: it does
    not matter how a text is cut into calls.
    """

    is_kv_precomputed = False

    def __init__(self, layer: FeedbackTransformerLayer, n_layers: int) -> None:
        r"""
        * `layer` is the pattern for the layers; each gets parameters of its own
        * `n_layers` is their number $L$

        Raises `ValueError` if the layer expects another kind of memory.
        """
        super().__init__()
        if layer.attn.is_kv_precomputed != self.is_kv_precomputed:
            raise ValueError(
                f"{type(self).__name__} needs layers with FeedbackAttention(..., "
                f"is_kv_precomputed={self.is_kv_precomputed}), and these have "
                f"{layer.attn.is_kv_precomputed}"
            )
        self.layers = independent_copies(layer, n_layers)
        self.norm = nn.LayerNorm([layer.size])
        self.d_model = layer.size

        # $w$. Equal numbers give all layers, and the embedding, an equal say at first.
        self.weights = nn.Parameter(torch.ones(n_layers + 1))

    def forward(self, x_seq: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        r"""
        * `x_seq` is a batch of sequences, embedded, `[T, B, C]`

        Returns the normalised outputs of the last layer, `[T, B, C]`. Position $t$
        depends on tokens $0 \dots t$ only. Raises what `scan` does.
        """
        return self.scan(x_seq)[0]

    def step(
        self, x: Float[Tensor, "B C"], memory: FeedbackMemory | None = None
    ) -> tuple[Float[Tensor, "B C"], FeedbackMemory]:
        r"""
        ### One token

        * `x` is one token of each sequence, `[B, C]`
        * `memory` is what the step before returned; `None` at the beginning

        Returns the output, `[B, C]`, that `forward` has at this position, and the
        memory with one row more. Raises what `scan` does.
        """
        if x.dim() != 2:
            raise ValueError(
                f"`x` has shape {list(x.shape)}; expected [B, C], one token of each "
                "sequence: `scan` reads whole sequences"
            )
        y_seq, memory = self.scan(x.unsqueeze(0), memory)
        return y_seq[0], memory

    def scan(
        self, x_seq: Float[Tensor, "T B C"], memory: FeedbackMemory | None = None
    ) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
        r"""
        ### Token after token

        * `x_seq` goes on where `memory` ends, `[T, B, C]`, at least one token
        * `memory` is what was read before

        Returns the outputs, `[T, B, C]`, and the memory of everything read so far.
        Raises `ValueError` for shapes, an empty sequence, or a memory of another model,
        and `TypeError` for dtypes.
        """
        check_sequence("x_seq", x_seq, self.d_model, self.weights)
        if memory is not None:
            self._check_memory(memory, x_seq)

        # What is the same at every step is worked out once: the shares of the layers,
        # and positions for the longest memory that a layer will see.
        capacity = x_seq.shape[0] + (0 if memory is None else len(memory))
        layers = [cast(FeedbackTransformerLayer, layer) for layer in self.layers]
        positions = [layer.attn.relative_positions(capacity - 1) for layer in layers]
        shares = self.weights.softmax(0)

        # Up through the layers, then the memory vector, a weighted mean of all their
        # outputs (Fan et al. 2020, "Feedback Memory"):
        #
        # $$m_t = \sum_{l=0}^{L} \operatorname{softmax}(w)_l \; x_t^l$$
        #
        # The sum begins with the embedding, $l = 0$. The softmax makes it a mean, which
        # keeps memory on the scale of what it is made of, and lets training choose one
        # layer or blend several.
        top = []
        for x in x_seq.unbind(0):
            outputs = self._climb(x, memory, positions)
            vector = torch.einsum("lbc,l->bc", torch.stack(outputs), shares)
            memory = self._remember(vector, memory, capacity)
            top.append(outputs[-1])
        assert memory is not None
        return self.norm(torch.stack(top)), memory

    def _climb(
        self,
        x: Float[Tensor, "B C"],
        memory: FeedbackMemory | None,
        positions: Sequence[RelativePositions],
    ) -> list[Float[Tensor, "B C"]]:
        r"""
        ### One step: up through the layers

        $$x_t^l = \operatorname{layer}_l(x_t^{l-1}, \; [m_0, \dots, m_{t-1}])$$

        In an ordinary decoder the second argument would be
        $[x_0^{l-1}, \dots, x_t^{l-1}]$, the outputs of the layer below. Here it has no
        $l$: all layers get the same (Fan et al. 2020, "Feedback Memory"). And it ends
        with $t - 1$, because $m_t$ is not known before the last layer is done; the
        token itself goes up by way of $x_t^{l-1}$.

        Returns $x_t^0, \dots, x_t^L$.
        """
        outputs = [x]
        for layer, table in zip(self.layers, positions, strict=True):
            if memory is None:
                x = layer(x=x, key=None, value=None)
            else:
                x = layer(
                    x=x,
                    key=memory.keys.rows,
                    value=memory.values.rows,
                    positions=table.last(len(memory)),
                )
            outputs.append(x)
        return outputs

    def _remember(
        self, vector: Float[Tensor, "B C"], memory: FeedbackMemory | None, capacity: int
    ) -> FeedbackMemory:
        r"""
        ### One step: into memory

        The vector itself is the row, as key and as value: each layer has projections of
        its own, and `FeedbackAttention.attend_absorbed` applies them without a copy of
        the memory per layer. So a step keeps $C$ numbers per sequence.
        """
        keys = _push(None if memory is None else memory.keys, vector, capacity)
        return FeedbackMemory(keys, keys, len(self.layers))

    def _row_features(self) -> tuple[int, ...]:
        return (self.d_model,)

    def _check_memory(self, memory: FeedbackMemory, x_seq: Tensor) -> None:
        if memory.n_layers != len(self.layers):
            raise ValueError(
                f"`memory` was written by {memory.n_layers} layers, and this model has "
                f"{len(self.layers)}; give a memory back to the model it is from"
            )
        check_memory(memory.keys.rows, x_seq, self._row_features())


def _push(stack: PersistentStack | None, row: Tensor, capacity: int) -> PersistentStack:
    if stack is None:
        return PersistentStack.start(row, capacity=capacity)
    return stack.append(row, capacity=capacity)


class FeedbackTransformerKV(FeedbackTransformer):
    r"""
    ## Keys and values shared by all layers

    All layers look at the same memory; what if they looked at it in the same way, too?
    Let there be one $W_K$ and one $W_V$ for the whole model instead of one per layer:

    $$k_t = W_K m_t, \qquad v_t = W_V m_t$$

    Each row is projected once, when it is written, and read as it is by every layer at
    every later step. (In the authors' code it is an option, `share_proj_kv`.) With
    $L = 6$ and $C = 512$ it also saves $2 (L - 1) C^2 = 2.6$ million parameters. Layers
    still differ in what they ask for, $W_Q$, in how they judge distance, and in $W_O$.
    """

    is_kv_precomputed = True

    def __init__(
        self, layer: FeedbackTransformerLayer, n_layers: int, d_model: int, heads: int
    ) -> None:
        r"""
        * `layer` is the pattern for the layers; its attention has
          `is_kv_precomputed=True`
        * `n_layers` is their number $L$
        * `d_model`, `heads` are $C$ and $H$, those of the layer

        Raises `ValueError` if layer and arguments disagree.
        """
        check_heads(heads, d_model)
        super().__init__(layer, n_layers)
        if (d_model, heads) != (layer.size, layer.attn.heads):
            raise ValueError(
                f"the layer has d_model = {layer.size} and {layer.attn.heads} heads, "
                f"the model d_model = {d_model} and {heads} heads; they must agree"
            )
        self.heads = heads
        self.d_k = d_model // heads
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)

    def _remember(
        self, vector: Float[Tensor, "B C"], memory: FeedbackMemory | None, capacity: int
    ) -> FeedbackMemory:
        r"""
        ### One step: into memory, projected

        A step keeps $2 C$ numbers per sequence, key and value, for all layers together.
        """
        keys, values = (None, None) if memory is None else (memory.keys, memory.values)
        return FeedbackMemory(
            _push(keys, self.key(vector), capacity),
            _push(values, self.value(vector), capacity),
            len(self.layers),
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
# * **Horizon.** The paper's memory is a window of the last $\tau$ steps. Here it keeps
#   everything. In the authors' code the window is full of zeros at first, and attended
#   to; here the first token has no memory and skips attention.
# * **Normalisation.** Layers normalise before attention and feed-forward, with one more
#   normalisation at the top, as in the authors' experiments. There memory rows are
#   normalised too before they are projected; here they are projected as they are.
# * **Positions.** Each head has its own, see `FeedbackAttention`.
# * **Curriculum.** To save time, the paper discusses training on short texts first.
#   That is up to whoever trains; the model takes any length.
#
# ## Exercises
#
# **1.** Let $w$ be so large for $l = 0$ that memory holds embeddings only. What is left
# of the feedback, and how many steps must be taken in turn?
#
# <details><summary>Answer</summary>
#
# Nothing is left: $m_t = x_t^0$ is known for all $t$ before any layer has run. All
# positions can go up together, in $L$ steps, and chains of conclusions are at most $L$
# layers long again. With weight on any $l \geq 1$ it takes $L \cdot T$.
#
# </details>
#
# **2.** Train on a text that is too long to keep all its activations.
#
# <details><summary>Answer</summary>
#
# ```python
# attention = FeedbackAttention(heads=3, d_model=12, is_kv_precomputed=True)
# layer = FeedbackTransformerLayer(
#     d_model=12, attn=attention, feed_forward=FeedForward(12, 28), dropout_prob=0.1
# )
# model = FeedbackTransformerKV(layer, n_layers=2, d_model=12, heads=3)
# memory = None
# for piece in torch.randn(20, 2, 12).split(5):
#     y, memory = model.scan(piece, memory)
#     y.square().mean().backward()  # your loss
#     memory = memory.detach()
# print(len(memory))  # 20
# ```
#
# Each piece still reads all the pieces before it; only gradients stop where it begins.
#
# </details>
