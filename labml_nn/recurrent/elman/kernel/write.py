r"""
---
title: One token more, compiled
summary: >
  The step of a model that writes, for all layers, as one call of C++.
---

A step of the [writer](../writing.py) is six operations of PyTorch, for two layers. The
processor is done with the arithmetic in less than half of the time: the matrices of
the language model, as it comes, are less than a megabyte, which fits into its second
cache. So the step is written once more in C++, in `write.h`. It has the same row of
states, and the same products; only weights are
[packed](../../../kernels/call.py#Call.pack).

Microseconds for a token on an AMD EPYC with AVX-512, two layers of 256 units, one text,
medians of runs in turn:

| forward | writer | **compiled** |
|--:|--:|--:|
| 176 | 37 | **17** |
"""

import ctypes
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labml_nn.checks import check_vocabulary
from labml_nn.kernels.build import Library
from labml_nn.kernels.call import Call, fields
from labml_nn.recurrent.elman.kernel.run import BENDS

if TYPE_CHECKING:
    from labml_nn.recurrent.elman.writing import ElmanWriter


class Writing(ctypes.Structure):
    r"""
    ## What is to be done

    In the order of `write.h`, where each field is explained.
    """

    _fields_ = fields(
        "batch layers units vocabulary bend padding is_known",
        "",
        "tokens table weights bias output output_bias row fresh logits",
    )


class CompiledWriter:
    r"""
    ## The writer

    It is called as the other one is.
    """

    def __init__(self, library: Library, writer: "ElmanWriter") -> None:
        r"""
        * `library` is the kernel
        * `writer` is one in single precision, which is not used any more
        """
        call = self.call = Call(library, Writing(), writer.row)
        task, parts = call.task, writer.parts
        task.batch, task.layers = len(writer.row), len(writer.layers)
        task.vocabulary, task.units = writer.table.shape
        task.bend = BENDS.index(parts.cells[0].nonlinearity)
        task.padding = -1 if parts.padding is None else parts.padding
        biases = [layer.bias for layer in writer.layers if layer.bias is not None]
        call.point(
            table=writer.table,
            weights=torch.cat([call.pack(w.weight).flatten() for w in writer.layers]),
            bias=torch.cat(biases) if biases else None,
            output=call.pack(writer.output),
            output_bias=writer.output_bias,
            row=writer.row,
            fresh=torch.empty_like(writer.layers[0].after),
        )

    def __call__(self, tokens: Tensor) -> Tensor:
        r"""
        * `tokens` is the next one of each text, `[B]`

        Returns logits of what may follow, `[B, V]`. Raises `ValueError` for a token
        that is not in the vocabulary.
        """
        task = self.call.task
        if tokens.shape != (task.batch,):
            raise ValueError(
                f"`tokens` has shape {list(tokens.shape)}; expected one for each text, "
                f"[{task.batch}]"
            )
        logits = self.call.like.new_empty(task.batch, task.vocabulary)
        self.call.point(tokens=tokens.long(), logits=logits)
        self.call.run("write")
        if not task.is_known:
            check_vocabulary(tokens, task.vocabulary)
        return logits
