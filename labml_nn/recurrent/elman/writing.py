r"""
---
title: An Elman network writes
summary: >
  One token after the other, with all that can be worked out beforehand worked out: a
  step is one row of a table, and a product for each layer.
---

When the [language model](language_model.py) writes, it reads one token at a time. What
has to be done then is little. What is done is more: modules call modules, arguments are
checked, tensors are made and thrown away. And some of it is the same at each step. This
page does the same with less.

**Before the first layer** a token only passes linear maps. It has an embedding $E_w$,
which is scaled and projected, and $W^1$ makes of it what it brings to the first state.
There are only $V$ tokens, so this is worked out for all of them:

$$Z_w = W^1 (P \sqrt{C} \, E_w + p) + b^1$$

**Behind the last layer** there are two linear maps in a row, which are one:

$$E \, (Q h^L + q) + c = (E Q) \, h^L + (E q + c)$$

**In between**, all states of a text lie side by side in one row, $s = (h^1, h^2, \dots,
h^L)$. When layer $l$ has its turn, $h^{l-1}$ is already that of this step and $h^l$
still that of the last, and they are neighbours. So its two products are one, with $W^l$
and $U^l$ side by side, and its result is written over $h^l$:

$$h^l \leftarrow f \left( (W^l \; U^l) \, (h^{l-1}, h^l) + b^l \right)$$

For two layers these are six operations of PyTorch, in memory that never grows. With 256
units, where `forward` takes 176 µs for a token, they take 37; and since the matrices
are small enough for the processor's second cache, [compiled](kernel/write.py) they take
17.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $Z$ | `table` | `[V, N]` | what each token brings to the first layer |
| $s$ | `row` | `[B, L·N]` | the states of all layers, side by side |
| $E Q$ | `output` | `[N, V]` | from the last state to logits |
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from labml_nn.checks import autocast_is_on, check_vocabulary
from labml_nn.recurrent.elman import kernel as compiled
from labml_nn.recurrent.elman.bptt import ACTIVATIONS
from labml_nn.recurrent.elman.cell import ElmanCell
from labml_nn.recurrent.elman.kernel.write import CompiledWriter


class Parts(NamedTuple):
    r"""
    ## What a model is made of

    * `embedding` is $E$, `[V, C]`, and `output_weight` what it is on the way out
    * `projection`, `output_projection` are $P$ and $Q$, or `nn.Identity`
    * `cells` are those of the layers
    * `output_bias` is $c$, `[V]`
    * `padding` is a token at which the state waits, or `None`
    """

    embedding: Tensor
    projection: nn.Module
    cells: list[ElmanCell]
    output_projection: nn.Module
    output_weight: Tensor
    output_bias: Tensor
    padding: int | None


class Layer(NamedTuple):
    r"""
    ## One layer

    * `weight` is $(W \; U)$, transposed, `[2 N, N]`; of the first layer $U$ alone
    * `bias` is $b$, `[N]`; of the first layer `None`, since it is in the table
    * `before` is the part of the row that it reads, `[B, 2 N]` or `[B, N]`
    * `after` is the part that it writes, `[B, N]`
    """

    weight: Tensor
    bias: Tensor | None
    before: Tensor
    after: Tensor


#: With more tokens than these, the table is not worth its memory.
MOST_TOKENS = 4096


class ElmanWriter:
    r"""
    ## The writer

    It has a copy of the parameters, as they are now, and of the state. It writes in
    place, and keeps no gradients.
    """

    def __init__(self, parts: Parts, state: Tensor) -> None:
        r"""
        * `parts` are those of the model
        * `state` is that of the texts so far, `[L, B, N]`
        """
        first, width = parts.cells[0], state.shape[-1]
        with torch.no_grad():
            scaled = parts.embedding * math.sqrt(parts.embedding.shape[1])
            self.table = first.input(parts.projection(scaled))

            # The projection of nothing is its bias, and what it makes of the columns
            # of a unit matrix, without that, are its own.
            unit = torch.eye(width, dtype=state.dtype, device=state.device)
            q = parts.output_projection(torch.zeros_like(unit[0]))
            self.output = (parts.output_projection(unit) - q) @ parts.output_weight.T
            self.output_bias = parts.output_weight @ q + parts.output_bias
        self.parts = parts
        self.f = ACTIVATIONS[first.nonlinearity]
        self.row = state.detach().transpose(0, 1).flatten(1).clone()
        self.layers = [
            self._layer(cell, number * width) for number, cell in enumerate(parts.cells)
        ]

    def _layer(self, cell: ElmanCell, begin: int) -> Layer:
        recurrent, width = cell.recurrent.weight.detach().T, len(cell.recurrent.weight)
        after = self.row[:, begin : begin + width]
        if begin == 0:
            return Layer(recurrent.contiguous(), None, after, after)
        linear = cell.input
        bias = recurrent.new_zeros(width) if linear.bias is None else linear.bias
        weight = torch.cat([linear.weight.detach().T, recurrent])
        before = self.row[:, begin - width : begin + width]
        return Layer(weight, bias.detach().clone(), before, after)

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> Tensor:
        r"""
        ### One token more

        * `tokens` is the next one of each text, `[B]`

        Returns logits of what may follow, `[B, V]`. Raises `ValueError` for a token
        that is not in the vocabulary.
        """
        try:
            brought = self.table.index_select(0, tokens)
        except IndexError:
            check_vocabulary(tokens, len(self.table))
            raise
        old = None if self.parts.padding is None else self.row.clone()
        for weight, bias, before, after in self.layers:
            z = torch.addmm(brought if bias is None else bias, before, weight)
            after.copy_(self.f(z))
        if old is not None:
            waits = torch.eq(tokens, self.parts.padding or 0).unsqueeze(1)
            self.row.copy_(torch.where(waits, old, self.row))
        return torch.addmm(self.output_bias, self.layers[-1].after, self.output)


def writer_of(parts: Parts, state: Tensor) -> ElmanWriter | CompiledWriter:
    r"""
    ## Which one

    Arguments are those of `ElmanWriter`. Where the [kernel](kernel/write.py) can be
    had, it writes.
    """
    writer = ElmanWriter(parts, state)
    library = compiled.have(state, writer.output)
    return writer if library is None else CompiledWriter(library, writer)


PLAIN = (nn.Embedding, nn.Dropout, nn.Linear, nn.Identity, nn.ModuleList)


def can_write(model: nn.Module, parts: Parts, state: object) -> bool:
    r"""
    ## Whether it does

    * `model` is the language model, `parts` what it is made of
    * `state` is that of the texts so far

    The writer knows the model as it was built. A part of one's own, a hook, dropout
    that is awake, a table that would be too large: then the model reads token after
    token as it reads a text. So it does when it is not computed at all, as on `meta`,
    or when `torch.func` or a compiler follows its operations.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if not isinstance(state, Tensor) or len(parts.embedding) > MOST_TOKENS:
        return False
    if model.training or state.is_meta or autocast_is_on(state):
        return False
    if type(state) is not Tensor:
        return False
    shape = (len(parts.cells), len(parts.cells[0].recurrent.weight))
    if (state.shape[0], state.shape[-1]) != shape or state.dim() != 3:
        return False
    if state.dtype != parts.embedding.dtype or not state.is_floating_point():
        return False
    return all(_is_ordinary(module) for module in model.modules())


# Those of this library carry the name of its modules; what somebody has derived from
# them does not.
def _is_ordinary(module: nn.Module) -> bool:
    own = type(module).__module__.startswith("labml_nn.recurrent.elman")
    return (own or type(module) in PLAIN) and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or "forward" in vars(module)
        or (isinstance(module, nn.Dropout) and module.training)
    )


# ## Exercises
#
# **1.** How many multiplications does a token cost with `forward`, and how many here?
# When does the way out cost *more* here?
#
# <details><summary>Answer</summary>
#
# The table saves $P$ and $W^1$, $C N + N^2$ multiplications. On the way out $N V$ take
# the place of $N C + C V$. With many tokens and narrow embeddings that is more: for
# $C = 128$ and $N = 256$ from $V = 257$ on. The whole is still less, until the table
# has saved less than the way out costs, at $V = 1{,}025$.
#
# ```python
# from itertools import count
#
# def forward(V, C, N, L):
#     return C * N + L * 2 * N * N + N * C + C * V
#
# def written(V, C, N, L):
#     return (2 * L - 1) * N * N + N * V
#
# print(forward(65, 128, 256, 2), written(65, 128, 256, 2))  # 336,000 and 213,248
# sizes = (128, 256, 2)
# more = (V for V in count(1) if written(V, *sizes) > forward(V, *sizes))
# assert next(more) == 1025
# ```
#
# </details>
#
# **2.** Go on from one beginning in two ways. Why does it take two writers?
#
# <details><summary>Answer</summary>
#
# A writer writes over its states, and what it was is gone. The state that it began with
# is a value, and stays.
#
# ```python
# import torch
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# model = ElmanLanguageModel.from_config({"n_vocab": 65}).eval()
# beginning, endings = torch.randint(65, (7, 1)), torch.randint(65, (2, 5, 1))
# _, state = model(beginning)
# for ending in endings:
#     write = model.decoding_step(state)
#     logits = torch.stack([write(token) for token in ending])
#     whole, _ = model(torch.cat([beginning, ending]))
#     torch.testing.assert_close(logits, whole[7:], rtol=1e-4, atol=1e-4)
# ```
#
# </details>
