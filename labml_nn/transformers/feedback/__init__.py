r"""
---
title: Feedback transformer
summary: >
  A transformer whose lowest layer can look at what its highest layer worked out one
  step ago.
paper: https://arxiv.org/abs/2002.09402
notebook: notebooks/feedback.ipynb
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

A feedback transformer ([@fan2020feedback]) allows it. At the end of each step it mixes
the outputs of **all** its layers into one memory vector, and at all later steps
**every** layer attends to the memory, the lowest one too:

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

![What is made of what, found with gradients; thick: the longest
chain.](figure:chains.unrolled)

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
| $\tau$ | `horizon` | | how many steps back memory goes |
"""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_known, check_sequence, check_sizes
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.checks import (
    check_memory,
    check_origin,
    check_real,
)
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.feedback.memory import FeedbackMemory, scan_real
from labml_nn.transformers.feedback.positions import RelativePositions
from labml_nn.transformers.feedback.stack import PersistentStack, Stack
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


class FeedbackTransformer(nn.Module):
    r"""
    ## Feedback transformer

    `forward` reads whole sequences, `step` reads one token more, and `scan`, which does
    the work for both, reads any number of tokens from any memory. They agree: it does
    not matter how a text is cut into calls.
    """

    is_kv_precomputed = False
    backends: tuple[str, ...] = ("auto", "plain")
    backend = "auto"

    def __init__(
        self,
        layer: FeedbackTransformerLayer,
        n_layers: int,
        *,
        horizon: int | None = None,
        norm_memory: bool = False,
        backend: str = "auto",
    ) -> None:
        r"""
        * `layer` is the pattern for the layers; each gets parameters of its own
        * `n_layers` is their number $L$
        * `horizon` is $\tau$, how many rows memory keeps: step $t$ attends to
          $m_{t-\tau}, \dots, m_{t-1}$. `None` keeps everything
        * `norm_memory` is whether rows of memory are normalised
        * `backend` is the form that runs; this model has one, `plain`

        Raises `ValueError` if the layer expects another kind of memory.
        """
        super().__init__()
        check_known("backend", backend, self.backends)
        self.backend = backend
        if horizon is not None:
            check_sizes(horizon=horizon)
        self.horizon = horizon
        if layer.attn.is_kv_precomputed != self.is_kv_precomputed:
            raise ValueError(
                f"{type(self).__name__} needs layers with FeedbackAttention(..., "
                f"is_kv_precomputed={self.is_kv_precomputed}), and these have "
                f"{layer.attn.is_kv_precomputed}"
            )
        self.layers = independent_copies(layer, n_layers)
        self.norm = nn.LayerNorm([layer.size])
        self.d_model = layer.size

        # What a step finds in memory goes into what it writes there. If a row comes out
        # a little larger than those it was made from, rows grow for as long as the text
        # is long; normalised ones cannot.
        self.norm_memory = nn.LayerNorm([layer.size]) if norm_memory else nn.Identity()

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
        self,
        x_seq: Float[Tensor, "T B C"],
        memory: FeedbackMemory | None = None,
        *,
        real: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
        r"""
        ### Token after token

        * `x_seq` goes on where `memory` ends, `[T, B, C]`, at least one token
        * `memory` is what was read before
        * `real` is `False` where `x_seq` holds padding, `[T, B]`. Such steps are not
          taken: their outputs are zero, and [memory](memory.py) has no trace of them

        Returns the outputs, `[T, B, C]`, and the memory of everything read so far.
        Raises `ValueError` for shapes, an empty sequence, or a memory of another model,
        and `TypeError` for dtypes.
        """
        check_sequence("x_seq", x_seq, self.d_model, self.weights)
        if memory is None:
            row = (x_seq.shape[1], *self._row_features())
            memory = FeedbackMemory.empty(x_seq, row, len(self.layers))
        self._check_memory(memory, x_seq)
        if real is not None:
            check_real(real, x_seq)
            return scan_real(self.scan, x_seq, real, memory)
        top, memory = self._read(x_seq, memory)
        return self.norm(top), memory

    def _read(
        self, x_seq: Float[Tensor, "T B C"], memory: FeedbackMemory
    ) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
        # What is the same at every step is worked out once: the shares of the layers,
        # and positions for the longest memory that a layer will see.
        #
        # A memory that will never have more than $\tau$ rows lives in blocks of
        # $2 \tau$, however long the text is.
        capacity = x_seq.shape[0] + len(memory)
        longest = capacity - 1
        if self.horizon is not None:
            capacity = min(capacity, 2 * self.horizon)
            longest = min(longest, self.horizon)
        layers = [cast(FeedbackTransformerLayer, layer) for layer in self.layers]
        positions = [layer.attn.relative_positions(longest) for layer in layers]
        shares = self.weights.softmax(0)

        # Up through the layers, then the memory vector, a weighted mean of all their
        # outputs ([@fan2020feedback, "Feedback Memory"]):
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
            memory = self._remember(self.norm_memory(vector), memory, capacity)
            top.append(outputs[-1])
        return torch.stack(top), memory

    def _climb(
        self,
        x: Float[Tensor, "B C"],
        memory: FeedbackMemory,
        positions: Sequence[RelativePositions],
    ) -> list[Float[Tensor, "B C"]]:
        r"""
        ### One step: up through the layers

        $$x_t^l = \operatorname{layer}_l(x_t^{l-1}, \; [m_0, \dots, m_{t-1}])$$

        In an ordinary decoder the second argument would be
        $[x_0^{l-1}, \dots, x_t^{l-1}]$, the outputs of the layer below. Here it has no
        $l$: all layers get the same ([@fan2020feedback, "Feedback Memory"]). And it
        ends with $t - 1$, because $m_t$ is not known before the last layer is done; the
        token itself goes up by way of $x_t^{l-1}$.

        Returns $x_t^0, \dots, x_t^L$.
        """
        outputs = [x]
        mask = memory.mask()
        for layer, table in zip(self.layers, positions, strict=True):
            if len(memory) == 0:
                x = layer(x=x, key=None, value=None)
            else:
                x = layer(
                    x=x,
                    key=memory.keys.rows,
                    value=memory.values.rows,
                    positions=table.last(len(memory)),
                    mask=mask,
                )
            outputs.append(x)
        return outputs

    def _remember(
        self, vector: Float[Tensor, "B C"], memory: FeedbackMemory, capacity: int
    ) -> FeedbackMemory:
        r"""
        ### One step: into memory

        The vector itself is the row, as key and as value: each layer has projections of
        its own, and `FeedbackAttention.attend_absorbed` applies them without a copy of
        the memory per layer. So a step keeps $C$ numbers per sequence.
        """
        return memory.push(vector, capacity=capacity, horizon=self.horizon)

    def _row_features(self) -> tuple[int, ...]:
        return (self.d_model,)

    def _check_memory(self, memory: FeedbackMemory, x_seq: Tensor) -> None:
        check_origin(len(memory), memory.n_layers, self.horizon, len(self.layers))
        check_memory(memory.keys.rows, x_seq, self._row_features())


# ## Two kinds
#
# All layers look at the same memory. [`FeedbackTransformerKV`](shared.py) lets them
# look at it in the same way, too. It builds on the model above, so it is imported below
# it; version 0.5.1 has both here.
from labml_nn.transformers.feedback.shared import FeedbackTransformerKV  # noqa: E402

# ## Differences from the paper
#
# * **Horizon.** The paper's memory is a window of the last $\tau$ steps. Here it is one
#   if you give a `horizon`, and keeps everything if you don't, as version 0.5.1 did. In
#   the authors' code the window is full of zeros at first, and attended to; here memory
#   begins empty, and the first token skips attention.
# * **Normalisation.** Layers normalise before attention and feed-forward, with one more
#   normalisation at the top, as in the authors' experiments. There memory rows are
#   normalised too before they are projected; here they are if you set `norm_memory`,
#   once for all layers. Version 0.5.1 projects them as they are.
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
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "shared_kv": False}
# config["norm_memory"] = False
# model = FeedbackLanguageModel.from_config(config).transformer
# with torch.no_grad():
#     model.weights[0] = 100
# x_seq = torch.randn(7, 2, 12)
# _, memory = model.scan(x_seq)
# assert torch.equal(memory.keys.rows, x_seq)
# ```
#
# </details>
#
# **2.** Train on a text that is too long to keep all its activations.
#
# <details><summary>Answer</summary>
#
# Each piece still reads all the pieces before it; only gradients stop where it begins.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "n_layers": 2}
# model = FeedbackLanguageModel.from_config(config).transformer
# memory = None
# for piece in torch.randn(20, 2, 12).split(5):
#     y, memory = model.scan(piece, memory)
#     y.square().mean().backward()  # your loss
#     memory = memory.detach()
# assert len(memory) == 20
# ```
#
# </details>
#
# **3.** With a horizon of $\tau = 2$, how far back can a token make itself felt?
#
# <details><summary>Answer</summary>
#
# As far as you like: $m_t$ was made with $m_{t-2}$ in view, that one with $m_{t-4}$,
# and so on. The window limits how far a step *looks*, not how far news travels. It
# travels through memory alone; where memory holds nothing but embeddings, as in the
# first exercise, nothing gets past the window.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "max_len": 2}
# model = FeedbackLanguageModel.from_config(config).transformer.eval()
#
# def reach():  # how many steps back the last output has a gradient
#     x_seq = torch.randn(9, 1, 12, requires_grad=True)
#     (gradient,) = torch.autograd.grad(model(x_seq)[-1].square().sum(), x_seq)
#     return 8 - int(gradient.abs().sum((1, 2)).nonzero()[0])
#
# assert reach() == 8
# with torch.no_grad():
#     model.weights[0] = 1000
# assert reach() == 2
# ```
#
# </details>
