r"""
---
title: Running the kernel
summary: >
  The two functions that the form by hand has in Python, each a loop over spans with one
  call in it.
---

[The form by hand](../by_hand/index.html) has two functions, one for each way. These are
the same two. They set memory aside, and then call the [kernel](index.html) once for
each [span](../by_hand/form.py) of steps, which have their dropout in common.
"""

import math

from torch import Tensor

from labml_nn.kernels.build import Library
from labml_nn.kernels.call import up_to
from labml_nn.transformers.feedback.by_hand.form import Form, Span, spans
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.kernel.task import Caller, Kept


def run_forward(
    library: Library,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
    *,
    keep: bool,
) -> tuple[Kept, tuple[Tensor, Tensor, Tensor]]:
    r"""
    ## The way there

    * `keep` is whether there will be a way back. If not, each step writes over what the
      last one had in hand

    The others are those of the form by hand. Returns what was kept, and what others
    see: outputs of the last layer, `[T, B, C]`, new keys and values, `[T, B, H, K]`.
    """
    length, batch, _ = x_seq.shape
    before = len(keys)
    caller = Caller(library, length, batch, before, x_seq)
    caller.weights(weights, form, backwards=False)
    task, space = caller.task, caller.space
    stored = length if keep else 1
    kept = Kept(
        space(stored, task.layers + 1, batch, task.wide),
        space(task.heads, batch, task.room // caller.panel, task.head, caller.panel),
        space(task.heads, batch, task.room, task.head_wide),
        space(task.layers, stored, batch, task.wide),
        space(task.layers, stored, batch, task.wide),
        space(task.layers, stored, batch, task.hidden_wide),
    )
    older = caller.pack(keys.permute(2, 1, 3, 0))
    kept.keys[:, :, : older.shape[2]] = older
    kept.values[:, :, :before, : task.head] = values.permute(2, 1, 0, 3)
    caller.keep(kept)
    top = x_seq.new_empty(length, batch, task.width)
    new_keys, new_values = (
        x_seq.new_empty(length, batch, form.heads, task.head) for _ in range(2)
    )
    caller.point(text=x_seq, top=top, new_keys=new_keys, new_values=new_values)
    caller.scratch(task.wide + task.memory_wide + task.weights_room)
    for span in spans(length, before, form.horizon, longer(form)):
        caller.begin(span, form, blank)
        caller.run("forward")
    caller.done()
    return kept, (top, new_keys, new_values)


def run_backward(
    library: Library,
    of_top: Tensor,
    of_keys: Tensor | None,
    of_values: Tensor | None,
    kept: Kept,
    before: int,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
) -> tuple[Tensor, Tensor, Tensor, Weights]:
    r"""
    ## The way back

    * `kept` is what `run_forward` has kept

    The others are those of the form by hand. Returns the gradients of the text, of keys
    and values of before, and of the weights.
    """
    length, batch, _ = of_top.shape
    caller = Caller(library, length, batch, before, of_top)
    caller.weights(weights, form, backwards=True)
    caller.keep(kept)
    task, head = caller.task, caller.task.head
    width, end = task.width, before + length

    # There, keys are multiplied along time and values along features. Here it is also
    # the other way round.
    caller.point(
        keys_rows=caller.borrow(task.heads, batch, task.room, task.head_wide),
        values=caller.borrow(*kept.keys.shape),
        of_top=of_top,
        of_text=caller.space(length, batch, task.wide),
    )
    task.start, task.stop = 0, length
    caller.run("turn")
    older = []
    for name, given in (("of_keys", of_keys), ("of_values", of_values)):
        space = caller.zeros(task.heads, batch, task.room, task.head_wide)
        if given is not None:
            space[:, :, before:end, :head] = given.permute(2, 1, 0, 3)
        caller.point(**{name: space})
        older.append(space[:, :, :before, :head].permute(2, 1, 0, 3))

    totals = _totals(caller)
    all_spans = list(spans(length, before, form.horizon, longer(form)))
    _set_aside(caller, all_spans)
    for span in reversed(all_spans):
        caller.begin(span, form, blank)
        caller.run("backward")
    caller.done()
    return caller.tensors["of_text"][..., :width], older[0], older[1], totals


def _totals(caller: Caller) -> Weights:
    task, zeros = caller.task, caller.zeros
    layers, width, wide = task.layers, task.width, task.wide
    sums = Weights(
        query=zeros(layers, width, wide),
        query_bias=zeros(layers, wide),
        distance=zeros(layers, task.heads, task.longest, task.head_wide),
        distance_bias=zeros(layers, task.heads, task.table_room),
        output=zeros(layers, width, wide),
        output_bias=zeros(layers, wide),
        up=zeros(layers, task.hidden, wide),
        up_bias=zeros(layers, task.hidden_wide),
        down=zeros(layers, width, task.hidden_wide),
        down_bias=zeros(layers, wide),
        shares=zeros(layers + 1),
        memory=zeros(2 * width, wide),
        memory_bias=zeros(task.memory_wide),
    )
    names = {"distance": "table", "distance_bias": "table_bias"}
    for name, total in sums._asdict().items():
        caller.point(**{f"sum_{names.get(name, name)}": total})
    ends = {
        "distance": task.head,
        "distance_bias": task.longest,
        "up_bias": task.hidden,
        "down": task.hidden,
        "shares": layers + 1,
        "memory_bias": 2 * width,
    }
    totals = Weights(
        *(total[..., : ends.get(name, width)] for name, total in sums._asdict().items())
    )
    return totals._replace(down=totals.down.mT)


# ## Pieces
#
# Products at the end of a piece should have some hundred rows, of steps and texts
# together, and its tables of attention weights should not take much of the cache. In a
# long text the tables are wide, and the pieces shorter.
ROWS = range(128, 256)
TABLES = 2**23  # bytes


def steps_of_a_piece(batch: int, bytes_of_a_step: int) -> int:
    r"""
    * `batch` is $B$
    * `bytes_of_a_step` is what its weights and their gradients need

    Returns how many steps a piece has, at least one.
    """
    most = min(TABLES // bytes_of_a_step, ROWS.stop // batch)
    return max(1, ROWS.start // batch, most)


def longer(form: Form) -> int:
    r"""
    ## Longer spans

    Here a span costs a call, and not much memory, so it may have twice the steps. Where
    masks are drawn for a span, it has to be that of the [form by
    hand](../by_hand/form.py), so that both drop the same.
    """
    return 1 if form.dropout else 2


def _set_aside(caller: Caller, all_spans: list[Span]) -> None:
    task, space = caller.task, caller.borrow
    rows = max(span.rows + span.low % caller.panel for span in all_spans)
    pairs = (task.heads, task.batch, task.layers)
    steps = steps_of_a_piece(task.batch, 2 * 4 * math.prod(pairs) * rows)
    steps = task.piece = min(steps, max(span.steps for span in all_spans))
    shape = (task.layers, steps, task.batch)
    for name in ("text_norm", "between_norm", "of_attended", "of_concluded"):
        caller.point(**{name: space(*shape, task.wide)})
    for name in ("of_query", "found"):
        caller.point(**{name: space(*shape, task.wide)})
    for name in ("vectors", "of_vectors"):
        caller.point(**{name: space(steps, task.batch, task.wide)})

    # A row of weights is followed by as many zeros as there are steps, and so is the
    # place before the first row: a distance is followed from step to step, and may lead
    # out of the table.
    task.row_room = up_to(rows, caller.panel) + max(steps, caller.panel)
    caller.point(
        of_up=space(*shape, task.hidden_wide),
        of_rows=space(steps, task.batch, task.memory_wide),
        attn=space(*pairs, steps, task.row_room),
        of_scores=space(*pairs, steps, task.row_room, before=steps),
        asked=space(*pairs, steps, task.head_wide),
        of_found=space(*pairs, steps, task.head_wide),
    )
    caller.scratch(3 * task.wide)
