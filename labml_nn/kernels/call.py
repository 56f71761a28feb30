r"""
---
title: Calling a compiled kernel
summary: >
  One structure of sizes and pointers, tensors for all memory, padded rows, packed
  weights, and scratch buffers that are reused.
---

A [compiled kernel](build.py) takes one structure of sizes and pointers, declared twice:
here with `ctypes`, and in C++. All memory is allocated as tensors in Python. So nothing
is allocated in C++, nothing can leak, and PyTorch's memory statistics stay correct.

**Padding.** A vector holds $n$ floats (4, 8 or 16), and $C$ need not be a multiple.
Rows of features may be padded with zeros to a multiple of $2 n$, which the shapes of
kernels mark with a prime: $C'$. Then no loop over features has a remainder, and zeros
stay zeros in products, sums and ReLU.

**Packing.** The product $x W^\top$ for few rows of $x$ reads $W^\top$ in panels of
$2 n$ columns: all terms of the sum for the first $2 n$ columns, then for the next. With
four columns, five terms and panels of two columns:

| Row by row | Packed |
|:--|:--|
| `a0 b0 c0 d0` | `a0 b0`, `a1 b1`, `a2 b2`, `a3 b3`, `a4 b4`, |
| `a1 b1 c1 d1` | `c0 d0`, `c1 d1`, `c2 d2`, `c3 d3`, `c4 d4` |
| … | |

This is the order in which the product reads them, and sequential reads are prefetched.
"""

import ctypes
import functools
import math
import mmap
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from labml_nn.kernels.build import Library


def fields(sizes: str, numbers: str, pointers: str) -> list[tuple[str, type]]:
    """
    ## Fields of a structure

    Names of integers, then of floating-point numbers in double precision, then of
    tensors, in the order of the structure in C++. Each field is 8 bytes wide, so there
    is no padding between them.
    """
    return [
        *((name, ctypes.c_int64) for name in sizes.split()),
        *((name, ctypes.c_double) for name in numbers.split()),
        *((name, ctypes.c_void_p) for name in pointers.split()),
    ]


def up_to(number: int, multiple: int) -> int:
    """Returns `number`, rounded up to a multiple."""
    return -(-number // multiple) * multiple


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """
    ## Autocast in a backward pass

    A backward pass by hand computes in the dtypes of its forward pass, also if you call
    `backward` under autocast. Its operations in place could not be converted.
    """

    @functools.wraps(backward)
    def run(ctx: Any, *grads: Tensor | None) -> Any:
        for device in {grad.device.type for grad in grads if grad is not None}:
            known = torch.amp.is_autocast_available(device)
            if known and torch.is_autocast_enabled(device):
                with torch.autocast(device, enabled=False):
                    return backward(ctx, *grads)
        return backward(ctx, *grads)

    return run


# ## Large pages
#
# The system provides new memory in pages of 4 KiB, each with an interrupt at its first
# use, and the CPU caches the addresses of some thousand pages. Linux has pages of 2 MiB
# on request. With small pages the forward pass of a feedback transformer of 6 layers
# and $C = 256$ took 1.2 times as long.
PAGE = 2**21
_advise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None


def _request_large_pages(tensor: Tensor) -> None:
    begin, end = up_to(tensor.data_ptr(), PAGE), tensor.data_ptr() + tensor.nbytes
    if _advise is not None and end - begin >= PAGE:
        advice = getattr(mmap, "MADV_HUGEPAGE", 14)
        _advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)


# ## Scratch buffers
#
# New memory would have to be cleared by the system at each call. So buffers are kept
# for later calls, up to a limit; the oldest are freed first.
LIMIT = 2**26  # bytes
SPARE: list[Tensor] = []
_lock = threading.Lock()


def _take(size: int, like: Tensor) -> Tensor:
    with _lock:
        for i, block in enumerate(SPARE):
            if (block.numel(), block.dtype) == (size, like.dtype):
                return SPARE.pop(i)

    # A tensor made in inference mode may not be modified outside it, and these buffers
    # outlive the call: training may follow generation.
    with torch.inference_mode(False):
        block = torch.empty(size, dtype=like.dtype, device=like.device)
    _request_large_pages(block)
    return block


def _leave(blocks: list[Tensor]) -> None:
    with _lock:
        SPARE.extend(blocks)
        while sum(block.nbytes for block in SPARE) > LIMIT:
            SPARE.pop(0)


class Call:
    """
    ## One call and its memory

    A pointer does not keep a tensor alive, so the call does.
    """

    def __init__(self, library: Library, args: ctypes.Structure, like: Tensor) -> None:
        """All buffers have the dtype and device of `like`; `args` is still empty."""
        self.library, self.args, self.like = library, args, like
        self.lanes, self.panel = library.lanes, 2 * library.lanes
        self.tensors: dict[str, Tensor] = {}
        self.borrowed: list[Tensor] = []

    def run(self, name: str) -> None:
        self.library.run(name, self.args)

    def point(self, **tensors: Tensor | None) -> None:
        """Sets pointers to tensors, made contiguous first if they are not."""
        for name, tensor in tensors.items():
            if tensor is not None:
                tensor = self.tensors[name] = tensor.contiguous().resolve_neg()
            setattr(self.args, name, None if tensor is None else tensor.data_ptr())

    def space(self, *shape: int) -> Tensor:
        """
        ### Memory

        Returns an uninitialised tensor with room behind it: a vector may begin in the
        last row and end outside; what it reads there is not used.
        """
        size = math.prod(shape)
        whole = self.like.new_empty(size + 4 * self.lanes)
        _request_large_pages(whole)
        return whole[:size].view(shape)

    def borrow(self, *shape: int, before: int = 0) -> Tensor:
        """
        The same from the scratch buffers, for memory that only this call needs, with
        `before` zeros in front of it.
        """
        size = math.prod(shape)
        whole = _take(before + size + 4 * self.lanes, self.like)
        self.borrowed.append(whole)
        whole[:before].zero_()
        return whole[before : before + size].view(shape)

    def done(self) -> None:
        """Returns the scratch buffers. After an exception they are freed instead."""
        _leave(self.borrowed)
        self.borrowed = []

    def zeros(self, *shape: int) -> Tensor:
        """Memory to add to."""
        return self.space(*shape).zero_()

    def roomy(self, tensor: Tensor) -> Tensor:
        """
        Returns a tensor that was made by `space`, or a copy with room behind it, if a
        hook for saved tensors has moved it.
        """
        end = tensor.storage_offset() + tensor.numel() + 4 * self.lanes
        bytes_needed = tensor.element_size() * end
        if tensor.is_contiguous() and tensor.untyped_storage().nbytes() >= bytes_needed:
            return tensor
        return self.space(*tensor.shape).copy_(tensor)

    def wide(self, x: Tensor) -> Tensor:
        """Pads rows of features with zeros."""
        missing = -x.shape[-1] % self.panel
        return F.pad(x, (0, missing)) if missing else x

    def pack(self, maps: Tensor) -> Tensor:
        """
        ### Packed weights

        * `maps` has the terms of a sum in rows, `[..., terms, columns]`

        Returns `[..., columns' / panel, terms, panel]`.
        """
        panels = torch.unflatten(self.wide(maps), -1, (-1, self.panel))
        return panels.transpose(-3, -2)

    def point_packed(self, **maps: Tensor) -> None:
        """
        ### Packed side by side

        Sets pointers to packed weights. One of them alone may not fill a large page, so
        all share one buffer, which starts at the beginning of a page.
        """
        packs = {name: self.pack(map) for name, map in maps.items()}
        size, page = sum(pack.numel() for pack in packs.values()), PAGE // 4
        whole = self.borrow(size if size < page else size + page)
        first = 0 if size < page else -(whole.data_ptr() // 4) % page
        for name, pack in packs.items():
            part = whole[first : first + pack.numel()].view(pack.shape)
            self.point(**{name: part.copy_(pack)})
            first += pack.numel()
