r"""
---
title: Calling a kernel
summary: >
  One structure of sizes and pointers. Memory is set aside in Python, where it is freed
  again by itself, and worked on in C++.
---

A [kernel](index.html) is told what to do by one structure, declared twice: in Python
and in C++. All memory that it works on are tensors that Python has made. So nothing is
allocated in C++, nothing can leak, and PyTorch's own accounts of memory stay true.

**Padding.** A vector of a processor holds $n$ numbers, 4, 8 or 16, and $C$ need not be
a multiple of that. Rows of features are therefore padded with zeros, to a multiple of
$2 n$: a prime in the shapes of kernels says so. The zeros are worth it. No loop over
features has a remainder to take care of, and a zero that is multiplied, added up or
bent by a ReLU stays one.

**Packing.** The product $x W^\top$ of a few rows takes $W$ in panels of $2 n$ columns:
all terms of the sum for the first $2 n$ columns, then all for the next. With four
columns, five terms and panels of two columns:

```text
 by rows              packed
 a0 b0 c0 d0          a0 b0  a1 b1  a2 b2  a3 b3  a4 b4
 a1 b1 c1 d1          c0 d0  c1 d1  c2 d2  c3 d3  c4 d4
 ...
```

Read from left to right, that is the very order in which the product needs them. A
processor is at its best when it reads one number after the other: it sees what comes
next, and has it ready.
"""

import ctypes
import math
import mmap
import sys
import threading

import torch
from torch import Tensor
from torch.nn import functional as F

from labml_nn.kernels.build import Library


def fields(sizes: str, numbers: str, pointers: str) -> list[tuple[str, type]]:
    r"""
    ## Fields of a structure

    * `sizes` are names of whole numbers, in the order of the structure in C++
    * `numbers` are those of numbers in double precision, behind them
    * `pointers` are those of tensors, at the end

    Each is 8 bytes wide, so that nothing lies between them.
    """
    return [
        *((name, ctypes.c_int64) for name in sizes.split()),
        *((name, ctypes.c_double) for name in numbers.split()),
        *((name, ctypes.c_void_p) for name in pointers.split()),
    ]


def up_to(number: int, multiple: int) -> int:
    r"""
    The next multiple.
    """
    return -(-number // multiple) * multiple


# ## Large pages
#
# New memory is given page by page, each when it is first touched, and a page has 4 KiB:
# a hundred megabytes are 25,000 interruptions. Linux has pages of 2 MiB for whoever
# asks. Elsewhere, or where it has none left, nothing happens.
#
# A processor has to look up where each page lies, and remembers some thousand of them.
# 16 MiB of weights are 4,096 small pages or 8 large ones, and a loop reads all of them
# at each step.
PAGE = 2**21
_advise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None


def _ask_for_large_pages(tensor: Tensor) -> None:
    begin, end = up_to(tensor.data_ptr(), PAGE), tensor.data_ptr() + tensor.nbytes
    if _advise is not None and end - begin >= PAGE:
        advice = getattr(mmap, "MADV_HUGEPAGE", 14)
        _advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)


class Spare:
    r"""
    ## Memory to use again

    What a call needs for itself alone, packed weights and tables, the next one needs as
    well. Given back to the system and asked for anew, it is cleared anew, page by page.
    So a call leaves it to the next one that asks for as much: up to 64 MiB, which
    `let_go` gives back.
    """

    most = 2**26  # bytes

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks: list[Tensor] = []

    def take(self, size: int, like: Tensor) -> Tensor:
        r"""
        A block, with anything in it.

        * `size` is how many numbers it shall have
        * `like` is a tensor of the type and on the device that it shall have
        """
        with self.lock:
            for place, block in enumerate(self.blocks):
                if (block.numel(), block.dtype) == (size, like.dtype):
                    return self.blocks.pop(place)
        block = like.new_empty(size)
        _ask_for_large_pages(block)
        return block

    def leave(self, blocks: list[Tensor]) -> None:
        r"""
        Leave blocks that nobody will read any more. The oldest go where there are too
        many.
        """
        with self.lock:
            self.blocks += blocks
            while sum(block.nbytes for block in self.blocks) > self.most:
                self.blocks.pop(0)


SPARE = Spare()


def let_go() -> None:
    r"""
    Give memory of calls before back to the system.
    """
    with SPARE.lock:
        SPARE.blocks.clear()


class Call:
    r"""
    ## One call, with its memory

    A pointer does not keep a tensor alive, so the call does.
    """

    def __init__(self, library: Library, task: ctypes.Structure, like: Tensor) -> None:
        r"""
        * `library` is the kernel
        * `task` is its structure, with nothing in it
        * `like` is a tensor of the type and on the device that all will have
        """
        self.library, self.task, self.like = library, task, like
        self.lanes, self.panel = library.lanes, 2 * library.lanes
        self.tensors: dict[str, Tensor] = {}
        self.borrowed: list[Tensor] = []

    def run(self, name: str) -> None:
        r"""
        * `name` is that of a function of the kernel
        """
        self.library.run(name, self.task)

    def point(self, **tensors: Tensor | None) -> None:
        r"""
        Pass tensors on, each laid out without gaps.
        """
        for name, tensor in tensors.items():
            if tensor is not None:
                tensor = self.tensors[name] = tensor.contiguous()
            setattr(self.task, name, None if tensor is None else tensor.data_ptr())

    def space(self, *shape: int, before: int = 0) -> Tensor:
        r"""
        ### Memory

        With room behind it, for a vector that begins in the last row and ends
        outside; what it finds there is not used.

        * `before` is how many zeros lie in front of it
        """
        size = math.prod(shape)
        whole = self.like.new_empty(before + size + 4 * self.lanes)
        _ask_for_large_pages(whole)
        whole[:before].zero_()
        return whole[before : before + size].view(shape)

    def borrow(self, *shape: int, before: int = 0) -> Tensor:
        r"""
        Memory that nobody needs after the call, otherwise as above.
        """
        size = math.prod(shape)
        whole = SPARE.take(before + size + 4 * self.lanes, self.like)
        self.borrowed.append(whole)
        whole[:before].zero_()
        return whole[before : before + size].view(shape)

    def done(self) -> None:
        r"""
        Leave what was borrowed to the next call. If none is left, because something
        went wrong, it is freed like all memory.
        """
        SPARE.leave(self.borrowed)
        self.borrowed = []

    def zeros(self, *shape: int) -> Tensor:
        r"""
        Memory to add to.
        """
        return self.space(*shape).zero_()

    def roomy(self, tensor: Tensor) -> Tensor:
        r"""
        A tensor that was made by `space`, or its copy if somebody has put it elsewhere
        and back, and the room behind it is gone.
        """
        end = tensor.storage_offset() + tensor.numel() + 4 * self.lanes
        bytes_needed = tensor.element_size() * end
        if tensor.is_contiguous() and tensor.untyped_storage().nbytes() >= bytes_needed:
            return tensor
        return self.space(*tensor.shape).copy_(tensor)

    def wide(self, x: Tensor) -> Tensor:
        r"""
        Rows of features, padded.
        """
        missing = -x.shape[-1] % self.panel
        return F.pad(x, (0, missing)) if missing else x

    def pack(self, maps: Tensor) -> Tensor:
        r"""
        ### Pack

        * `maps` has the terms of a sum in rows, `[..., terms, columns]`

        Returns `[..., columns' / panel, terms, panel]`.
        """
        panels = torch.unflatten(self.wide(maps), -1, (-1, self.panel))
        return panels.transpose(-3, -2)

    def point_packed(self, **maps: Tensor) -> None:
        r"""
        ### Pack, side by side

        Pass maps on, packed. A large page must be full, and the maps of one kind alone
        may not fill it. So all lie in one piece of memory, from the beginning of a page
        on.
        """
        packs = {name: self.pack(map) for name, map in maps.items()}
        size, page = sum(pack.numel() for pack in packs.values()), PAGE // 4
        whole = self.borrow(size if size < page else size + page)
        first = 0 if size < page else -(whole.data_ptr() // 4) % page
        for name, pack in packs.items():
            place = whole[first : first + pack.numel()].view(pack.shape)
            self.point(**{name: place.copy_(pack)})
            first += pack.numel()


# ## Exercises
#
# **1.** In which place does a packed matrix have the number of row $k$ and column $j$?
#
# <details><summary>Answer</summary>
#
# In panel $j \operatorname{div} 2n$ there are as many rows as the sum has terms, and
# each of them has $2n$ numbers.
#
# ```python
# import torch
#
# terms, columns, panel = 5, 12, 4
# maps = torch.arange(terms * columns).view(terms, columns)
# packed = maps.unflatten(-1, (-1, panel)).transpose(-3, -2).flatten()
# for k in range(terms):
#     for j in range(columns):
#         place = (j // panel * terms + k) * panel + j % panel
#         assert packed[place] == maps[k, j]
# ```
#
# </details>
