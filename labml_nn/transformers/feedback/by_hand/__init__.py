r"""
---
title: A feedback transformer by hand
summary: >
  Backpropagation through time for a feedback transformer, derived by hand: the few
  things that must go step by step, and all the others, which are large products.
paper: https://arxiv.org/abs/2002.09402
---

A [feedback transformer](../index.html) has to take $L \cdot T$ layers in turn, each a
dozen small operations on a handful of vectors. A processor could do a hundred times as
much in the same time, if it were asked for large products. And autograd makes it worse.
It goes back the way it came, one small operation after the other, and in doing so makes
the gradient of each weight $T$ times over, once per step, to add them up.

Must it? Let us ask of every quantity on the way back *what it has to wait for*.

**Nothing there was lost.** Step $t$ had to wait for memory row $m_{t-1}$. That was on
the way there. On the way back all rows are known, and the outputs $x_t^l$ of all layers
too. From these, everything else, queries, weights, hidden features, can be had for all
steps at once. So none of it [needs to be kept](again.py).

**Blame goes in turn.** Write $\delta_y$ for $\partial \ell / \partial y$. The row that
step $t$ wrote was read by every layer of every later step. Only when all of them have
been gone through is it known what was wrong with the row, and so with $m_t$, and so
with the outputs of step $t$:

\begin{align}
\delta_{k_j} &= \sum_{t > j} \sum_{l} \delta_{A_{tj}}^l \, q_t^l, \qquad
\delta_{v_j} = \sum_{t > j} \sum_{l} a_{tj}^l \, \delta_{o_t}^l \\
\delta_{m_j} &= W_K^\top \delta_{k_j} + W_V^\top \delta_{v_j}
\end{align}

This is [the recurrence, walked backwards](backward.py): from step $T$ to step 1, and in
each step from layer $L$ to layer 1. It cannot be avoided. But look at what is in it:
vectors, and matrices that they meet. No gradient of a weight.

**Weights wait for nobody.** Nothing on the way back depends on the gradient of a
weight. For every linear map $y = W x + b$, with $y_t^l$ at step $t$,

$$\delta_W = \sum_t \delta_{y_t} \, x_t^\top, \qquad \delta_b = \sum_t \delta_{y_t}$$

Write down $\delta_{y_t}$ as the steps go by, side by side, and the sum over steps *is*
a matrix product: of all that was blamed with all that went in. One large product for
$n$ steps and $B$ texts, in the place of $n$ small ones.

So a step does on the way back what it does on the way there, one product with each
matrix, and half of the arithmetic of the way back, the weights' half, leaves the loop.

| Page | What it holds |
|:--|:--|
| [Folded parameters](weights.py) | what can be done before the first step |
| [A desk](desk.py) | what the steps write on, cut to shape before |
| [There](forward.py) | the loop, which writes down outputs and rows |
| [Once more](again.py) | all else, for many steps at once |
| [Notes](notes.py) | where blame is written down |
| [Back](backward.py) | the equations of blame |
| [Products](products.py) | the gradients of weights |
| [Spans and dropout](form.py) | how many steps "many" is |
| [For autograd](operation.py) | both ways as one operation |
| [The choice](choice.py) | when the plain form runs instead |

**What it costs.** Peak memory of a forward and a backward pass, with $C = 128$,
$H = 4$, $L = 4$ and 16 texts, in MiB:

| steps $T$ | 128 | 256 | 512 |
|:--|--:|--:|--:|
| by hand | 37 | 58 | 102 |
| the plain loop | 66 | 146 | 356 |

By hand it grows with $T$: what is kept are $L + 1$ vectors and a row per step. The
plain loop keeps all attention weights, and they grow with $T^2$.
"""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from labml_nn.transformers.feedback import gpu, kernel
from labml_nn.transformers.feedback.by_hand.form import Dropout, Form
from labml_nn.transformers.feedback.by_hand.forward import run_forward
from labml_nn.transformers.feedback.by_hand.operation import Ways, go
from labml_nn.transformers.feedback.by_hand.products import run_backward
from labml_nn.transformers.feedback.by_hand.weights import Weights, fold
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.feedback.memory import FeedbackMemory
from labml_nn.transformers.feedback.stack import PersistentStack

if TYPE_CHECKING:
    from labml_nn.transformers.feedback.shared import FeedbackTransformerKV


BY_HAND = Ways("the feedback transformer by hand", run_forward, run_backward)


def form_of(model: "FeedbackTransformerKV") -> Form:
    r"""
    ## What the loop has to know of a model

    The random numbers of dropout begin with one that PyTorch draws, so
    `torch.manual_seed` decides on them too.
    """
    layer = cast(FeedbackTransformerLayer, model.layers[0])
    network = layer.feed_forward
    drops = [
        module.p if module.training else 0.0
        for module in (layer.attn.dropout, layer.dropout, network.dropout)
    ]
    dropout = None
    if any(drops):
        attention, branch, hidden = drops
        dropout = Dropout(attention, branch, hidden, int(torch.randint(2**62, ())))
    return Form(
        heads=model.heads,
        eps=layer.norm_ff.eps,
        horizon=model.horizon,
        norm_memory=isinstance(model.norm_memory, nn.LayerNorm),
        activation=network.activation,
        is_gated=network.is_gated,
        dropout=dropout,
    )


def scan(
    model: "FeedbackTransformerKV", x_seq: Tensor, memory: FeedbackMemory
) -> tuple[Tensor, FeedbackMemory]:
    r"""
    ## Read on

    * `model` has nothing that [speaks against it](choice.py)
    * `x_seq` goes on where `memory` ends, `[T, B, C]`
    * `memory` has a row of each text

    Returns the outputs of the last layer, `[T, B, C]`, and the memory of everything
    read so far.
    """
    length, before = len(x_seq), len(memory)
    longest = before + length - 1
    if model.horizon is not None:
        longest = min(longest, model.horizon)
    old_keys, old_values = memory.keys.rows, memory.values.rows
    mask = memory.mask()

    # Half precision would add up hundreds of small gradients in few digits. The loop
    # computes in single precision at least, under autocast too.
    dtype = torch.promote_types(x_seq.dtype, torch.float32)
    with torch.autocast(x_seq.device.type, enabled=False):
        weights = fold(model, longest, dtype)
        form = form_of(model)
        blank = None if mask is None else ~mask
        x, k, v = (part.to(dtype) for part in (x_seq, old_keys, old_values))
        top, keys, values = _recur(model.backend, form, blank, x, k, v, weights)

    # The memory that others go on from: the rows that are still in the window.
    def stack(old: Tensor, new: Tensor) -> PersistentStack:
        kept = len(old) + length
        if model.horizon is not None:
            kept = min(kept, model.horizon)
        rows = new.to(old.dtype)
        if kept != length:
            rows = torch.cat([old[max(0, len(old) + length - kept) :], rows[-kept:]])
        return PersistentStack.of(rows)

    lengths = None if memory.lengths is None else memory.lengths + length
    memory = FeedbackMemory(
        stack(old_keys, keys), stack(old_values, values), memory.n_layers, lengths
    )
    return top.to(x_seq.dtype), memory


# Somebody else's form, if one is asked for and can run.
def _recur(
    backend: str,
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor]:
    given = (form, blank, x_seq, keys, values, weights)
    results = None
    if backend in gpu.BACKENDS:
        results = gpu.recur(backend, *given)
    elif (library := kernel.find(backend, form, x_seq)) is not None:
        results = kernel.recur(library, *given)
    return go(BY_HAND, *given) if results is None else results


# ## Exercises
#
# **1.** Both forms compute the same. How would you convince yourself, with gradients of
# numbers as small as $10^{-9}$ among them?
#
# <details><summary>Answer</summary>
#
# In double precision. In single precision two right answers differ in the seventh
# digit, and in gradients that are small differences of large numbers much earlier.
#
# ```python
# import copy
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "dropout_prob": 0.0}
# plain = FeedbackLanguageModel.from_config(config).transformer.double()
# for parameter in plain.parameters():
#     torch.nn.init.normal_(parameter, std=0.3)
# by_hand = copy.deepcopy(plain)
# plain.backend, by_hand.backend = "plain", "by_hand"
#
# x_seq = torch.randn(9, 2, 12, dtype=torch.float64)
# for model in (plain, by_hand):
#     model(x_seq).pow(3).sum().backward()
# for one, other in zip(plain.parameters(), by_hand.parameters(), strict=True):
#     torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-12)
# ```
#
# </details>
#
# **2.** How many numbers does each form keep for the way back? PyTorch tells, if you
# ask it to hand over what it saves.
#
# <details><summary>Answer</summary>
#
# Each tensor counts once, however many views of it are saved. By hand they are outputs,
# keys, values and weights.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 24, "heads": 3, "dropout_prob": 0.0}
# model = FeedbackLanguageModel.from_config(config | {"max_len": 64}).transformer
#
# def numbers(backend, length):
#     model.backend, kept = backend, {}
#     def pack(x):
#         storage = x.untyped_storage()
#         kept[storage.data_ptr()] = (storage.nbytes(), x)
#         return x
#     with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
#         model(torch.randn(length, 8, 24))
#     return sum(size for size, _ in kept.values()) // 4
#
# by_hand, plain = ([numbers(b, T) for T in (16, 32)] for b in ("by_hand", "plain"))
# print(by_hand, plain)
# assert 2 * by_hand[1] < plain[1]
# ```
#
# </details>
#
# **3.** The sum over steps as one product: show it for a map whose weights are used at
# five steps.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
#
# W = torch.randn(3, 4, requires_grad=True)
# x, blame = torch.randn(5, 4), torch.randn(5, 3)
# for x_t, delta_t in zip(x, blame, strict=True):
#     (W @ x_t).backward(delta_t)  # five gradients, added up
# torch.testing.assert_close(W.grad, blame.T @ x)
# ```
#
# </details>
