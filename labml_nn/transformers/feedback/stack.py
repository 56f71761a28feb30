r"""
---
title: A stack that grows under autograd
summary: >
  The memory of a feedback transformer gets one row longer at every step, and every
  step reads all of it. Here is how to grow a tensor row by row without copying it,
  and with gradients that are right.
paper: https://arxiv.org/abs/2002.09402
---

A feedback transformer reads its own past: at step $t$ every layer attends to the rows
$m_0, \dots, m_{t-1}$, and at the end of the step one more row is added. The obvious way
to write that is a Python list and `torch.stack(rows)` at each step. It is right, and it
is a bad bargain: step $t$ makes a *new* tensor of $t$ rows, so that $T$ steps copy

$$\sum_{t=1}^{T-1} t = \frac{T (T - 1)}{2}$$

rows. That is $O(T^2)$ time, and in training $O(T^2)$ memory too, because each of these
tensors is kept for the backward pass. At $T = 512$ they hold 130,816 rows to represent
512 different ones. Measured on a `FeedbackTransformerKV` with $L = 3$, $C = 128$ and
$B = 8$: what the backward pass waits for takes 1140 MiB with `torch.stack`, and 122 MiB
in the way that follows.

All those tensors begin alike: row $j$, once written, never changes. So one block of
memory is enough. Each step writes its row behind the others, and "the stack at step
$t$" is a *view* of the first $t$ rows. What is left to do is to convince autograd.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $M_t$ | `rows` | `[t, ...]` | the stack after $t$ steps |
| $m_t$ | `row` | `[...]` | the row that step $t$ adds |
| $\tau$ | `horizon` | | how many rows are kept, if not all |
| | `storage` | `[capacity, ...]` | the block that all the stacks share |
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx

from labml_nn.checks import check_sizes


class Append(torch.autograd.Function):
    r"""
    ## One more row, as autograd sees it

    $$M_{t+1} = \operatorname{append}(M_t, m_t)$$

    Seen from outside this is a pure function of two tensors, like `torch.cat`, and its
    derivative is just as plain. The gradient of $M_{t+1}$ has $t + 1$ rows: the first
    $t$ belong to $M_t$ and the last one to $m_t$.

    $$\frac{\partial \ell}{\partial M_t} = G_{0 \dots t-1}, \qquad
    \frac{\partial \ell}{\partial m_t} = G_t, \qquad
    G = \frac{\partial \ell}{\partial M_{t+1}}$$

    Both are views of $G$, so the way back copies no more than the way forth. Along the
    chain of stacks autograd adds up, for each row, what all the later steps have to say
    about it. A row that is dropped, because the stack is a window, gets a zero from
    there. Nothing is stored in the module or in the block, and therefore two forward
    passes before a backward pass, a graph that is walked twice, or second derivatives
    need no care at all.
    """

    @staticmethod
    def forward(
        rows: Float[Tensor, "t ..."],
        row: Float[Tensor, "..."],
        storage: Float[Tensor, "capacity ..."],
        end: int,
        drop: int,
    ) -> Float[Tensor, "longer ..."]:
        r"""
        * `rows` is $M_t$; all of it but the rows to be dropped lies in `storage`
        * `row` is $m_t$
        * `storage` has room for at least `end + 1` rows
        * `end` is where $M_t$ ends in it
        * `drop` is how many of the oldest rows are left out

        Returns $M_{t+1}$, of shape `[t - drop + 1, ...]`.
        """
        # Autograd counts the writes to a tensor, and refuses to go backwards through
        # one that was written to after it had been saved. All views of a tensor share
        # its count, so this line would condemn every earlier stack, although it leaves
        # their rows alone.
        storage[end] = row

        # `.data` gives the same memory under a count of its own. The promise that we
        # make by using it, rows below `end` are never written again, is kept by
        # `PersistentStack`.
        return storage.data[end - rows.shape[0] + drop : end + 1]

    @staticmethod
    def setup_context(
        ctx: FunctionCtx,
        inputs: tuple[Tensor, Tensor, Tensor, int, int],
        output: Tensor,
    ) -> None:
        r"""
        The way back needs no tensor from the way forth. That this is said apart from
        `forward` lets `torch.func.grad` in.
        """
        ctx.drop = inputs[-1]  # type: ignore[attr-defined]

    @staticmethod
    def backward(
        ctx: FunctionCtx, grad: Float[Tensor, "longer ..."]
    ) -> tuple[Float[Tensor, "t ..."], Float[Tensor, "..."], None, None, None]:
        r"""
        * `grad` is $G$, of shape `[t - drop + 1, ...]`

        Returns the gradients of `rows` and `row`; the others have none.
        """
        older, drop = grad[:-1], ctx.drop  # type: ignore[attr-defined]
        if drop:
            older = torch.cat([grad.new_zeros((drop, *grad.shape[1:])), older])
        return older, grad[-1], None, None, None


class Storage:
    r"""
    ## The shared block

    `used` counts the rows that some stack has claimed. It is the only thing here that
    changes.
    """

    def __init__(self, tensor: Float[Tensor, "capacity ..."], used: int) -> None:
        self.tensor = tensor
        self.used = used

    def takes_row(self, end: int) -> bool:
        r"""
        Whether a stack whose rows end at `end` may write its next row into this block.
        """
        # There has to be room, and nobody may have written there before: of two stacks
        # that grow from the same one, the first gets the place and the second a copy.
        free = self.used == end < self.tensor.shape[0]
        # A block made under `torch.inference_mode()` may be written only there. A
        # compiled graph cannot ask, and need not: it is traced for one of the two.
        return free and (
            torch.compiler.is_compiling()
            or torch.is_inference_mode_enabled()
            or not self.tensor.is_inference()
        )


@dataclass(frozen=True, eq=False)
class PersistentStack:
    r"""
    ## A stack that never changes

    `append` gives back a new stack and leaves the old one as it was. Both share their
    rows, so that this costs one row and no more. "Persistent" is the data-structure
    word for it, as in the lists of Lisp: every older version stays good. That is what
    makes it safe to hand out a model's memory: keep it, go on from it twice to try two
    continuations, go back to it.

    * `rows` is the stack as a tensor, `[t, ...]`, with its gradient history
    * `storage` is the block that `rows` is a view of
    * `first` is where in it they begin: not at 0 in a stack that has dropped rows
    """

    rows: Float[Tensor, "t ..."]
    storage: Storage
    first: int = 0

    @staticmethod
    def start(row: Float[Tensor, "..."], *, capacity: int = 16) -> "PersistentStack":
        r"""
        A stack of one row.

        * `row` is the first row, of any shape and floating-point dtype
        * `capacity` is the number of rows to make room for, at least 1; a longer stack
          moves to a larger block
        """
        storage = Storage(row.new_empty((capacity, *row.shape)), used=0)
        return PersistentStack(storage.tensor[:0], storage).append(row)

    def __len__(self) -> int:
        return self.rows.shape[0]

    @staticmethod
    def of(rows: Float[Tensor, "t ..."]) -> "PersistentStack":
        r"""
        A stack of rows that are there already, even none. They are not copied, so
        nobody else may write to them.
        """
        return PersistentStack(rows, Storage(rows.detach(), used=rows.shape[0]))

    def append(
        self,
        row: Float[Tensor, "..."],
        *,
        capacity: int = 0,
        horizon: int | None = None,
    ) -> "PersistentStack":
        r"""
        The stack with one more row.

        * `row` has the shape and dtype of the other rows
        * `capacity` is how many rows there will be, if known; used when the block is
          full
        * `horizon` is how many rows to keep, $\tau$, at least 1; the oldest go. `None`
          keeps all

        Raises `ValueError` or `TypeError` for a row that does not fit.
        """
        # Without this check a smaller row would be broadcast, or cast to another
        # precision, with no word said.
        if row.shape != self.rows.shape[1:]:
            raise ValueError(
                f"a row of shape {list(row.shape)} does not fit on a stack of rows of "
                f"shape {list(self.rows.shape[1:])}"
            )
        if row.dtype != self.rows.dtype:
            raise TypeError(
                f"a row of {row.dtype} does not fit on a stack of {self.rows.dtype}; "
                "read the whole sequence in one dtype, inside or outside autocast"
            )

        # A full block is left to the stacks that use it, and its rows are copied into
        # one of twice the size. Then $t$ rows have been copied after $t$ more were
        # added, which makes it one copy per row on average, however long it goes on.
        #
        # A window of $\tau$ rows moves along its block, away from the rows that it has
        # dropped. When it meets the end, the $\tau - 1$ rows that are still needed move
        # to the front of a new block, and the old one is free as soon as nobody holds a
        # view of it. Again that is one copy per row, and at most two blocks at a time.
        kept = len(self) if horizon is None else min(len(self), horizon - 1)
        drop = len(self) - kept
        storage, end = self.storage, self.first + len(self)
        if not storage.takes_row(end):
            size = max(capacity, 2 * kept, kept + 1)
            storage, end = Storage(row.new_empty((size, *row.shape)), used=kept), kept
            storage.tensor[:kept] = self.rows[drop:].detach()
        storage.used = end + 1
        longer: Tensor = Append.apply(self.rows, row, storage.tensor, end, drop)  # type: ignore[no-untyped-call]
        return PersistentStack(longer, storage, end - kept)

    def detach(self) -> "PersistentStack":
        r"""
        The same rows without their history, to cut backpropagation through time.
        """
        return PersistentStack(self.rows.detach(), self.storage, self.first)


class Stack:
    r"""
    ## The interface of version 0.5.1

    Old code keeps one `Stack` and refills it for each sequence: `append(0, row)` begins
    anew. There it was also the one place where gradients added up, and a second forward
    pass wiped out those of the first. Here it holds a `PersistentStack`, and a graph
    that was built on it owns its rows.
    """

    def __init__(self, max_len: int) -> None:
        r"""
        * `max_len` is the number of rows to make room for; more rows work too

        Raises `ValueError` or `TypeError` if it is not a positive whole number.
        """
        check_sizes(max_len=max_len)
        self.max_len = max_len
        self._stack: PersistentStack | None = None

    def append(self, n: int, value: Float[Tensor, "..."]) -> None:
        r"""
        Add a row.

        * `n` is the number of rows before it; 0 begins a new stack
        * `value` is the row

        Raises `ValueError` if `n` is neither 0 nor the number of rows.
        """
        length = 0 if self._stack is None else len(self._stack)
        if n not in (0, length):
            raise ValueError(
                f"row {n} cannot follow {length} rows; the next row is `n` = {length}, "
                "and `n` = 0 begins a new stack"
            )
        if n == 0 or self._stack is None:
            self._stack = PersistentStack.start(value, capacity=self.max_len)
        else:
            self._stack = self._stack.append(value)

    def get(self) -> Float[Tensor, "t ..."]:
        r"""
        All rows as one tensor, `[t, ...]`. Raises `ValueError` if there are none.
        """
        if self._stack is None:
            raise ValueError("the stack is empty; `append` a row before `get`")
        return self._stack.rows

    def free(self) -> None:
        r"""
        Let go of the rows. Graphs that need them still have them.
        """
        self._stack = None


# ## Exercises
#
# **1.** `PersistentStack.append` doubles a full block. Suppose it added 16 rows
# instead. How many rows would $T = 1024$ steps copy?
#
# <details><summary>Answer</summary>
#
# It would copy at 16, 32, 48, … rows: $16 (1 + 2 + \dots + 63) = 32{,}256$ rows, and
# four times as many for each doubling of $T$. With doubling it is
# $16 + 32 + \dots + 512 = 1008$, less than $T$.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.stack import PersistentStack
#
# stack, copied = PersistentStack.start(torch.zeros(1), capacity=16), 0
# with torch.no_grad():
#     for _ in range(1023):
#         longer = stack.append(torch.zeros(1))
#         copied += len(stack) if longer.storage is not stack.storage else 0
#         stack = longer
# assert copied == 1008 == sum(16 * 2**i for i in range(6))
# assert sum(range(16, 1024, 16)) == 32_256
# ```
#
# </details>
#
# **2.** Why does `Append.backward` not have to add anything up, although row 0 is read
# at every step?
#
# <details><summary>Answer</summary>
#
# $M_t$ is used by the layers at step $t$ and by `Append` itself. Autograd sums the
# gradients of all uses of a tensor before it calls the function that made it. So when
# `backward` is called with $G$, row 0 of $G$ already holds what every later step had to
# say.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.stack import PersistentStack
#
# rows = [torch.randn(3, requires_grad=True) for _ in range(2)]
# first = PersistentStack.start(rows[0])
# second = first.append(rows[1])
# (first.rows.sum() + second.rows.sum()).backward()
# assert rows[0].grad.tolist() == [2.0, 2.0, 2.0]
# assert rows[1].grad.tolist() == [1.0, 1.0, 1.0]
# ```
#
# </details>
#
# **3.** Two stacks grow from the same one. Which rows do they share in memory, and how
# does the second know that the place behind the last row is taken?
#
# <details><summary>Answer</summary>
#
# The first to grow writes behind the others, in the block that all share, and the block
# counts one row more as used than the old stack has. So the second sees that somebody
# was there before it, and moves to a block of its own. Neither changes what the other,
# or the old stack, reads.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.stack import PersistentStack
#
# old = PersistentStack.start(torch.tensor([0.0])).append(torch.tensor([1.0]))
# left, right = old.append(torch.tensor([2.0])), old.append(torch.tensor([3.0]))
# assert old.rows.flatten().tolist() == [0, 1]
# assert left.rows.flatten().tolist() == [0, 1, 2]
# assert right.rows.flatten().tolist() == [0, 1, 3]
# assert left.rows.data_ptr() == old.rows.data_ptr() != right.rows.data_ptr()
# ```
#
# </details>
