r"""
---
title: What a feedback model remembers
summary: >
  The rows that a feedback transformer has written, as a value to keep and to go on
  from; and how texts of different lengths share a batch without one padding token being
  remembered.
paper: https://arxiv.org/abs/2002.09402
---

A [feedback transformer](index.html) writes one row of memory per token, and reads all
of them at the next. What it has read so far is in these rows and nowhere else, so they
are its state: keep them, and it can go on reading tomorrow.

**Texts of different lengths.** A batch is a rectangle, and texts are not; the short
ones are filled up with padding. An ordinary transformer computes something for the
padding and hides it behind a mask. Here that would not do: a padding token would write
a row, and push all real rows one step farther back. Distances would be wrong. So
padding must not happen at all. The way there has three moves:

```text
 tokens            1. push together      2. read; keep      3. align at the end
 .  a  b  .  c      a  b  c  .  .        memory after 3      .  a  b  c
 d  .  .  e  .      d  e  .  .  .        memory after 2      .  .  d  e
 f  g  h  i  .      f  g  h  i  .        memory after 4      f  g  h  i
```

First the real tokens of each text move together; the padding is now behind them, where
it can do no harm to what came before. Then the batch is read up to where the first
text ends. Its memory is whole at this point, and a memory is a value: we keep it, and
read on to where the next text ends. The short text writes nonsense meanwhile, into
memories that nobody will ask it for. At last the memories that we kept are laid side by
side so that all end together. Then the last row of each text is one step back, as it
should be. A mask hides the places where a shorter text has no row.

This is exact, costs no step more than the longest text needs, and nothing at all where
there is no padding.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $m$ | `keys.rows`, `values.rows` | `[S, B, ...]` | the rows, oldest first |
| $n_b$ | `lengths` | `[B]` | how many rows text $b$ has, at the end of the $S$ |
| | `real` | `[T, B]` | where a real token stands |
| $\tau$ | `horizon` | | rows that are kept at most, see `PersistentStack.append` |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from labml_nn.transformers.feedback.stack import PersistentStack


@dataclass(frozen=True, eq=False)
class FeedbackMemory:
    r"""
    ## A memory

    A value, not a place: `FeedbackTransformer.step` takes one and returns another, and
    the one that it took is still good. Keep it to go on from the same point twice.

    * `keys`, `values` are what the layers attend to, one row per step. For
      `FeedbackTransformer` both are the same stack of memory vectors, `[S, B, C]`; for
      `FeedbackTransformerKV` they are projected, `[S, B, H, K]` each
    * `n_layers` is the number of layers of the model that wrote it
    * `lengths` is $n_b$, integers of shape `[B]`, in a batch of texts that differ in
      length; `None` where all rows belong to all texts
    """

    keys: PersistentStack
    values: PersistentStack
    n_layers: int
    lengths: Int[Tensor, " B"] | None = None

    @staticmethod
    def empty(
        like: Float[Tensor, "..."], row: tuple[int, ...], n_layers: int
    ) -> "FeedbackMemory":
        """No rows yet, of the shape that they will have, on the device of `like`."""
        stack = PersistentStack.of(like.new_empty(0, *row))
        return FeedbackMemory(stack, stack, n_layers)

    def __len__(self) -> int:
        return len(self.keys)

    def mask(self) -> Bool[Tensor, "S B"] | None:
        r"""
        Which rows belong to which text: the last $n_b$, $M_{jb} = [\, S - j \le n_b
        \,]$. Shape `[S, B]`, or `None` if all do. Beyond the horizon $n_b$ may be more
        than $S$.
        """
        if self.lengths is None:
            return None
        distance = torch.arange(len(self), 0, -1, device=self.lengths.device)
        return distance[:, None] <= self.lengths

    def push(
        self,
        key: Float[Tensor, "B ..."],
        value: Float[Tensor, "B ..."] | None = None,
        *,
        capacity: int = 0,
        horizon: int | None = None,
    ) -> "FeedbackMemory":
        r"""
        The memory with one more row; without a `value`, the key is both. `capacity` and
        `horizon` are those of `PersistentStack.append`.
        """
        keys = _push(self.keys, key, capacity, horizon)
        values = keys
        if value is not None:
            values = _push(self.values, value, capacity, horizon)
        lengths = None if self.lengths is None else self.lengths + 1
        return FeedbackMemory(keys, values, self.n_layers, lengths)

    def detach(self) -> "FeedbackMemory":
        """The same memory without gradients, to train on a long text in pieces."""
        keys = self.keys.detach()
        values = keys if self.values is self.keys else self.values.detach()
        return FeedbackMemory(keys, values, self.n_layers, self.lengths)


def _push(
    stack: PersistentStack, row: Tensor, capacity: int, horizon: int | None
) -> PersistentStack:
    # The first row decides on the dtype: under autocast it is not that of the input.
    if len(stack) == 0:
        return PersistentStack.start(row, capacity=max(capacity, 1))
    return stack.append(row, capacity=capacity, horizon=horizon)


#: Reads `[T, B, C]` on from a memory: `FeedbackTransformer.scan`.
Scan = Callable[[Tensor, FeedbackMemory], tuple[Tensor, FeedbackMemory]]


def scan_real(
    scan: Scan,
    x_seq: Float[Tensor, "T B C"],
    real: Bool[Tensor, "T B"],
    memory: FeedbackMemory,
) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
    r"""
    ## Read what is real

    * `scan` reads tokens and knows nothing of padding
    * `x_seq` goes on where `memory` ends, `[T, B, C]`
    * `real` is `False` where it holds padding, anywhere
    * `memory` is what was read before; it may have no rows

    Returns outputs, `[T, B, C]`, with zeros where the padding is, and the memory of
    what was real. Both are what each text would have had alone.
    """
    # Move together: sorting by "is padding", stably, keeps the order of what is real.
    # `order[t]` says from which step the $t$-th comes.
    order = (~real).to(torch.uint8).argsort(dim=0, stable=True)
    together = x_seq.gather(0, order[..., None].expand_as(x_seq))

    # Read in pieces, from one end of a text to the next. This asks for numbers on the
    # device, once per call.
    counts = real.sum(0).tolist()
    kept, outputs, start = {0: memory}, [], 0
    for end in sorted({*counts} - {0}):
        y, memory = scan(together[start:end], memory)
        kept[end], start = memory, end
        outputs.append(y)

    # Back to where each token came from, and zeros in between.
    if not outputs:
        return torch.zeros_like(x_seq), memory
    y = F.pad(torch.cat(outputs), (0, 0, 0, 0, 0, x_seq.shape[0] - start))
    back = order.argsort(dim=0)
    y = y.gather(0, back[..., None].expand_as(y)).masked_fill(~real[..., None], 0.0)
    return y, align([kept[count] for count in counts])


def align(memories: Sequence[FeedbackMemory]) -> FeedbackMemory:
    r"""
    ## Side by side

    * `memories` has one memory per text: text $b$ of the result is text $b$ of
      `memories[b]`

    Returns a memory in which all texts end together.
    """
    last = max(memories, key=len)
    lengths = [_length(memory, b) for b, memory in enumerate(memories)]
    longest = max(lengths)

    def column(stack: PersistentStack, b: int) -> Tensor:
        rows = stack.rows[max(len(stack) - longest, 0) :, b]
        missing = rows.new_zeros(longest - len(rows), *rows.shape[1:])
        return torch.cat([missing, rows]).to(last.keys.rows.dtype)

    def side_by_side(stacks: Sequence[PersistentStack]) -> PersistentStack:
        columns = [column(stack, b) for b, stack in enumerate(stacks)]
        return PersistentStack.of(torch.stack(columns, dim=1))

    keys = side_by_side([memory.keys for memory in memories])
    values = keys
    if last.values is not last.keys:
        values = side_by_side([memory.values for memory in memories])
    if min(lengths) == longest:
        return FeedbackMemory(keys, values, last.n_layers)
    return FeedbackMemory(
        keys, values, last.n_layers, torch.tensor(lengths, device=keys.rows.device)
    )


def _length(memory: FeedbackMemory, b: int) -> int:
    # A text cannot have more rows than there are, however many it has written.
    if memory.lengths is None:
        return len(memory)
    return min(len(memory), int(memory.lengths[b]))


# ## Exercises
#
# **1.** Keep a memory and go on from it in two ways.
#
# <details><summary>Answer</summary>
#
# Nothing has to be copied. The first to go on writes its row behind the others; the
# second finds the place taken, and gets a block of its own.
#
# ```python
# import torch
# from labml_nn.transformers.feedback import (
#     FeedbackAttention, FeedbackTransformer, FeedbackTransformerLayer, FeedForward,
# )
#
# layer = FeedbackTransformerLayer(
#     d_model=12,
#     attn=FeedbackAttention(heads=3, d_model=12),
#     feed_forward=FeedForward(12, 28),
#     dropout_prob=0.0,
# )
# model = FeedbackTransformer(layer, n_layers=2).eval()
# text, one, other = torch.randn(5, 2, 12), torch.randn(2, 12), torch.randn(2, 12)
# _, memory = model.scan(text)
# left, right = model.step(one, memory)[0], model.step(other, memory)[0]
# assert torch.allclose(left, model(torch.cat([text, one[None]]))[-1], atol=1e-5)
# assert torch.allclose(right, model(torch.cat([text, other[None]]))[-1], atol=1e-5)
# ```
#
# </details>
#
# **2.** Three texts have 2, 5 and 5 tokens. How many memories does `scan_real` keep,
# and of how many rows is the one that it returns?
#
# <details><summary>Answer</summary>
#
# Two, after 2 and after 5 steps, and they share their first two rows. The one returned
# has 5 rows, of which 3 are hidden from the first text.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.memory import FeedbackMemory, scan_real
# from labml_nn.transformers.feedback.stack import PersistentStack
#
# pieces = []
#
# def scan(x_seq, memory):  # a model that remembers what it sees
#     pieces.append(len(x_seq))
#     for x in x_seq:
#         memory = memory.push(x)
#     return x_seq, memory
#
# none = PersistentStack.of(torch.zeros(0, 3, 1))
# x_seq = torch.arange(15.0).view(5, 3, 1)
# real = torch.arange(5)[:, None] < torch.tensor([2, 5, 5])
# _, memory = scan_real(scan, x_seq, real, FeedbackMemory(none, none, n_layers=1))
# assert pieces == [2, 3]
# assert memory.mask()[:, 0].tolist() == [False, False, False, True, True]
# assert memory.keys.rows[:, 0, 0].tolist() == [0, 0, 0, 0, 3]
# ```
#
# </details>
#
# **3.** A batch holds one text of 1,000 tokens and 31 of 10. What does it cost, and
# what would you do about it?
#
# <details><summary>Answer</summary>
#
# A thousand steps of 32 texts each, of which the short ones do 31 · 990 in vain: 96 %
# of the work. Sort texts by length before you make batches of them. Reading could also
# go on with fewer texts after each end, as `torch.nn.utils.rnn.pack_padded_sequence`
# does for recurrent networks; then every end costs a copy of the memory.
#
# ```python
# import torch
#
# lengths = torch.tensor([1000] + 31 * [10])
#
# def in_vain(batches):  # the share of all steps that read padding
#     steps = sum(int(batch.max()) * len(batch) for batch in batches)
#     return 1 - int(lengths.sum()) / steps
#
# assert round(in_vain([lengths]), 2) == 0.96
# assert in_vain([lengths[:1], lengths[1:]]) == 0  # sorted, in two batches
# ```
#
# </details>
