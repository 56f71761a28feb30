r"""
---
title: Launched
summary: >
  From tensors to programs on a GPU: weights as the programs read them, space for what
  they write, and one launch, or one for each span where something is dropped.
---

A program [knows addresses](blocks.py) and no shapes. So each tensor is laid here as
[the program](forward.py) will read it. Of weights these are copies of a few MiB, made
once a call.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.form import (
    Form,
    Span,
    draw,
    spans,
)
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.gpu.kernel import forward, name_of
from labml_nn.transformers.feedback.gpu.kernel.blocks import mark, plan_of

#: Threads come in groups of 32, which are called warps.
WARPS = 8


class Steps(NamedTuple):
    r"""
    ## Which steps

    * `start`, `stop`, `steps`, `before`, `low` are those of the
      [span](../../by_hand/form.py)
    * `seen` is how many rows some step of it sees
    * `room` is how many rows there will be in the end
    * `longest` is how many distances there are
    """

    start: int
    stop: int
    steps: int
    before: int
    low: int
    seen: int
    room: int
    longest: int


def steps_of(span: Span, room: int, weights: Weights) -> Steps:
    """The steps of `span`."""
    return Steps(
        span.start,
        span.stop,
        span.steps,
        span.before,
        span.low,
        span.rows,
        room,
        weights.distance.shape[2],
    )


class Kept(NamedTuple):
    r"""
    ## Beside the text

    What is not read of a row, or dropped of a step; `None` where there is nothing.

    * `blank` is `True` for rows that are none of a text's own, `[before, B]`
    * `attention`, `attended`, `concluded`, `hidden` are the
      [masks](../../by_hand/form.py) of dropout
    """

    blank: Tensor | None
    attention: Tensor | None
    attended: Tensor | None
    concluded: Tensor | None
    hidden: Tensor | None


def turned(weights: Weights) -> Weights:
    r"""
    ## Weights the other way round

    With what goes in as rows, because a program [adds up along columns](blocks.py).
    """
    weights = Weights(*(weight.contiguous() for weight in weights))
    return weights._replace(
        query=weights.query.mT.contiguous(),
        output=weights.output.mT.contiguous(),
        up=weights.up.mT.contiguous(),
        memory=weights.memory.T.contiguous(),
        distance=weights.distance.transpose(1, 2).contiguous(),
        distance_bias=weights.distance_bias.transpose(1, 2).contiguous(),
    )


def run_forward(
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
) -> Read:
    r"""
    ## The way there

    Arguments and results are those of the [loop by hand](../../by_hand/forward.py). The
    programs have keys and values of a row side by side.
    """
    length, batch, width = x_seq.shape
    before, (layers, hidden, _) = len(keys), weights.down.shape
    outputs = x_seq.new_empty(length, layers + 1, batch, width)
    outputs[:, 0] = x_seq
    memory = x_seq.new_empty(batch, before + length, 2 * width)
    older = torch.cat([keys.flatten(2), values.flatten(2)], -1)
    memory[:, :before] = older.transpose(0, 1)

    plan = plan_of(form, layers, width, hidden, name_of(form))
    maps = turned(weights)
    for span in _pieces(length, before, form):
        masks = draw(form, span, x_seq, layers, batch, hidden)
        launch(
            forward.read_on,
            x_seq,
            outputs,
            memory,
            maps,
            Kept(_numbers(blank), *masks),
            steps_of(span, before + length, weights),
            plan,
        )
    return as_read(outputs, memory, form.heads)


# Masks of dropout are drawn for a span at a time. Without them, the text is one piece.
def _pieces(length: int, before: int, form: Form) -> list[Span]:
    if form.dropout is None:
        return [Span(0, length, before, 0)]
    return list(spans(length, before, form.horizon))


def _numbers(blank: Tensor | None) -> Tensor | None:
    return None if blank is None else blank.byte()


def launch(program: Any, text: Tensor, *arguments: Any) -> None:
    r"""
    ## Launch

    * `program` is to be run once for each text of `text`, `[T, B, C]`

    Triton launches on the current device, and tensors may be on another one.
    """
    with torch.cuda.device(text.device if text.is_cuda else -1):
        program[(text.shape[1],)](*arguments, num_warps=WARPS)


@cache
def cannot_launch(device: torch.device) -> str | None:
    r"""
    ## Try

    * `device` is a GPU

    Triton calls a compiler of C when it launches for the first time, and other tools.
    Returns what went wrong with the smallest of programs, or `None`.
    """
    try:
        numbers = torch.zeros(1, 1, 1, dtype=torch.int32, device=device)
        launch(mark, numbers, numbers)
    except Exception as error:
        return f"Triton cannot launch anything here: {error}"
    return None


def as_read(outputs: Tensor, memory: Tensor, heads: int) -> Read:
    r"""
    ## As the form by hand has it

    * `memory` is all rows, `[B, S, 2·C]`

    Returns the same as [`Read`](../../by_hand/forward.py), with rows of each head and
    text, `[H·B, S, K]`.
    """
    batch, room, _ = memory.shape
    rows = memory.view(batch, room, 2, heads, -1).permute(2, 3, 0, 1, 4)
    keys, values = rows.flatten(1, 2).contiguous()
    return Read(outputs, keys, values)
