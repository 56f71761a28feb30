r"""
---
title: Feedback Transformer in C++
summary: >
  The forward and backward pass by hand as two compiled loops: attention along time,
  products of few rows, and chunks that fit into the cache.
paper: https://arxiv.org/abs/2002.09402
---

The [kernel by hand](feedback_by_hand.py) has removed everything from the loop that is
not sequential. About a dozen small operations per step and layer are left, each a call
into PyTorch that takes microseconds before it computes anything: with $B = 16$ and
$C = 128$, the product of a query itself takes two or three.

This kernel compiles the loop. The equations are those of the kernel by hand, term for
term, in about 850 lines of C++: [forward](cpp/feedback/forward.h),
[backward](cpp/feedback/backward.h) and
[weight gradients](cpp/feedback/weight_grads.h). [Vectors, products of few
rows](build.py) and [packed weights](call.py) are explained on other pages.

**Attention along time.** A score is a sum over the $D$ features of a head, and a vector
register is slow at adding up its own elements. So keys are packed with time along the
columns of a panel: a register holds one feature of 16 slots, and 16 scores grow at
once. Values are stored the other way round, because the output of a head is a sum over
time. Both are contiguous for each head of each sequence. They are read from beginning
to end at each step of each layer.

**Chunks.** The backward pass works on chunks of as many steps as fit into the cache
with their tables, about 200 rows of steps and sequences, in three phases:

1. *Recomputation.* Attention weights were not stored, but queries and keys were. For
   all steps and layers of a chunk, scores are one product per head and sequence, and
   each key that is loaded is used for eight queries.
2. *The loop*, step by step. Slots that were written in this chunk are needed soon, so
   each step adds its gradients to them at once.
3. *Products.* Older slots and all weights get the gradients of the whole chunk in one
   product each, with blocks of $6 \times 4$ registers: a sum in memory is loaded and
   stored once for a hundred terms.

**Stored activations.** The kernel by hand stores outputs, keys and values only. Here a
product of $n$ steps would take as long as those of the loop, so queries, $z$ and hidden
features are stored too, $6 C$ numbers per token and layer. Attention weights, which
grow with $T^2$, are not.

**Prefetching.** The hidden features of a thousand steps ago have left the caches. While
the loop is busy with the attention of a layer, it prefetches those of the next network.

**Threads** share the sequences of a batch, which are independent. In the forward pass a
thread takes its sequences through all steps and never waits. In the backward pass the
threads synchronize twice per chunk, before and after the products.

With $C = 128$, $H = 4$, $L = 4$ and 16 sequences of 128 steps, a training step takes
65 ms on two threads of an AMD EPYC with AVX-512, where the kernel by hand takes 306 and
version 0.5.1 takes 1,238. The peak memory of forward and backward pass is 60 MiB for
128 steps, 102 for 256 and 174 for 512.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^l$ | `outputs` | `[T, L + 1, B, C']` | outputs of all layers, padded |
| $k_j$ | `keys` | `[H, B, S' / panel, D, panel]` | keys, packed along time |
| $v_j$ | `values` | `[H, B, S', D']` | values, padded |
| $q$, $z$ | `queries`, `z` | `[L, T, B, C']` | stored activations |
| $h$ | `features` | `[L, T, B, F']` | stored hidden features |
"""

import ctypes
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from labml_nn.kernels.build import NO_LIBRARY, SHARED, Extension
from labml_nn.kernels.call import Call, fields, up_to
from labml_nn.kernels.feedback_recurrence import (
    SUBMODULES,
    Config,
    Params,
    Passes,
    Results,
    Span,
    draw_masks,
    read_with,
    supported_config,
)
from labml_nn.reference import Declined, kernel_for
from labml_nn.transformers.feedback import (
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
)

EXTENSION = Extension(
    "feedback",
    SHARED / "feedback",
    "forward transpose backward",
    what="feedback transformer",
    instead="The kernel by hand",
)

# ## Arguments
#
# The fields of the structure in [`args.h`](cpp/feedback/args.h), in the same order.
# Their meaning is explained there.
SIZES = """
    threads workers layers batch width wide hidden hidden_wide heads head head_wide
    capacity longest weights_capacity table_capacity before stored horizon norm_memory
    memory_wide start stop drop_low low chunk row_capacity scratch_size drop_rows
"""
READ = """
    query query_bias output output_bias up up_bias down down_bias
    memory memory_bias shares table table_rows table_bias
    outputs queries z features keys values keys_rows values_rows x_seq
"""
WRITTEN = """
    top new_keys new_values
    drop_attended drop_projected drop_hidden drop_weights
    grad_top grad_x_seq grad_keys grad_values
    x_norm z_norm grad_attended grad_projected grad_query heads_out grad_up
    attn grad_scores head_query grad_heads_out vectors grad_vectors grad_slots
    sum_query sum_query_bias sum_output sum_output_bias sum_up sum_up_bias
    sum_down sum_down_bias sum_memory sum_memory_bias sum_shares
    sum_table sum_table_bias scratch
"""


class Args(ctypes.Structure):
    _fields_ = fields(SIZES, "eps", READ + WRITTEN)


#: Steps of a span, for which dropout masks are drawn at once.
STEPS = 32


def spans(length: int, before: int, horizon: int | None) -> Iterator[Span]:
    r"""
    ## Spans

    Of $T$ = `length` steps, with `before` slots at the beginning. The kernel is called
    for spans of some steps, so that dropout masks take little memory: each span draws
    its own, and draws them again in the backward pass.
    """
    for start in range(0, length, STEPS):
        stop = min(length, start + STEPS)
        low = 0 if horizon is None else max(0, before + start - horizon)
        yield Span(start, stop, low, before + stop - 1 - low)


class Stored(NamedTuple):
    r"""
    ## Stored activations

    Those of the table above.
    """

    outputs: Tensor
    keys: Tensor
    values: Tensor
    queries: Tensor
    z: Tensor
    features: Tensor


class FeedbackCall(Call):
    r"""
    ## One call

    Allocates tensors, and passes sizes and pointers.
    """

    args: Args

    def __init__(self, length: int, batch: int, before: int, like: Tensor) -> None:
        r"""
        * `length`, `batch`, `before` are $T$, $B$ and the number of slots before
        * `like` is a tensor of the dtype and on the device of all others
        """
        library, args = EXTENSION.find(), Args()
        assert library is not None
        super().__init__(library, args, like)
        args.workers = torch.get_num_threads()
        args.threads = min(args.workers, batch)
        args.batch, args.before = batch, before
        args.capacity = up_to(before + length, self.panel)

    def point_params(self, params: Params, config: Config, *, backward: bool) -> None:
        r"""
        ### Parameters

        The forward pass computes $x W^\top$, a sum over columns of $W$, the backward
        pass $\delta W$, a sum over its rows. Each packs the weights in the order in
        which it reads them.
        """
        p, args = params, self.args
        args.layers, args.width, _ = p.query.shape
        args.hidden = p.down.shape[1]
        args.wide, args.hidden_wide, args.memory_wide = (
            up_to(size, self.panel) for size in (args.width, args.hidden, len(p.memory))
        )
        args.heads, args.head = config.heads, args.width // config.heads
        args.head_wide = up_to(args.head, self.lanes)
        args.eps, args.norm_memory = config.eps, config.norm_memory
        args.horizon = config.horizon or 0
        args.longest = p.distance.shape[2]
        args.weights_capacity = up_to(args.longest, self.panel) + 2 * self.panel
        args.table_capacity = args.longest + self.panel

        maps = {name: getattr(p, name) for name in ("query", "output", "up", "memory")}
        maps = {n: m if backward else m.mT for n, m in maps.items()}
        self.point_packed(**maps, down=p.down.mT if backward else p.down)
        for name in ("query_bias", "output_bias", "up_bias", "down_bias"):
            self.point(**{name: self.wide(getattr(p, name))})
        self.point(
            memory_bias=self.wide(p.memory_bias),
            shares=p.shares,
            table=F.pad(p.distance.mT, (0, self.panel)),
            table_bias=F.pad(p.distance_bias, (0, self.panel)),
        )
        if backward:
            rows = self.zeros(*p.distance.shape[:-1], args.head_wide)
            rows[..., : args.head] = p.distance
            self.point(table_rows=rows)

    def point_stored(self, stored: Stored) -> None:
        """Passes stored activations, or the memory for them."""
        self.args.stored = stored.queries.shape[1]
        named = {name: self.roomy(x) for name, x in stored._asdict().items()}
        self.point(values_rows=named.pop("values"), **named)

    def point_scratch(self, size: int) -> None:
        """Scratch memory of `size` numbers per sequence."""
        self.args.scratch_size = size
        self.point(scratch=self.borrow(self.args.batch, size))

    def point_span(self, span: Span, params: Params, config: Config) -> None:
        """A span, with its dropout masks."""
        args = self.args
        args.start, args.stop, args.drop_low = span.start, span.stop, span.low
        args.low = span.low - span.low % self.panel
        args.drop_rows = span.slots
        like = self.like.new_empty(span.stop - span.start, args.batch, args.width)
        masks = draw_masks(config, params, like, span.start, span.slots)
        for name in ("attended", "projected", "hidden"):
            mask = getattr(masks, name)
            self.point(**{f"drop_{name}": None if mask is None else self.wide(mask)})
        self.point(drop_weights=masks.attention)


def run_forward(
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    params: Params,
    config: Config,
    store: bool,
) -> tuple[Stored, Results]:
    r"""
    ## Forward pass

    Arguments and results are those of the [kernel by
    hand](feedback_by_hand.py#run_forward). If there will be no backward pass, each step
    overwrites the activations of the last one.
    """
    length, batch, _ = x_seq.shape
    before = len(keys)
    call = FeedbackCall(length, batch, before, x_seq)
    call.point_params(params, config, backward=False)
    args, space = call.args, call.space
    steps = length if store else 1
    stored = Stored(
        space(steps, args.layers + 1, batch, args.wide),
        space(args.heads, batch, args.capacity // call.panel, args.head, call.panel),
        space(args.heads, batch, args.capacity, args.head_wide),
        space(args.layers, steps, batch, args.wide),
        space(args.layers, steps, batch, args.wide),
        space(args.layers, steps, batch, args.hidden_wide),
    )
    older = call.pack(keys.permute(2, 1, 3, 0))
    stored.keys[:, :, : older.shape[2]] = older
    stored.values[:, :, :before, : args.head] = values.permute(2, 1, 0, 3)
    call.point_stored(stored)
    top = x_seq.new_empty(length, batch, args.width)
    new_keys, new_values = (
        x_seq.new_empty(length, batch, config.heads, args.head) for _ in range(2)
    )
    call.point(x_seq=x_seq, top=top, new_keys=new_keys, new_values=new_values)
    call.point_scratch(args.wide + args.memory_wide + args.weights_capacity)
    for span in spans(length, before, config.horizon):
        call.point_span(span, params, config)
        call.run("forward")
    call.done()
    return stored, (top, new_keys, new_values)


def run_backward(
    top: Tensor,
    new_keys: Tensor | None,
    new_values: Tensor | None,
    tensors: Sequence[Tensor],
    before: int,
    params: Params,
    config: Config,
) -> tuple[Tensor, Tensor, Tensor, Params]:
    r"""
    ## Backward pass

    Arguments and results are those of the [kernel by
    hand](feedback_by_hand.py#run_backward).
    """
    length, batch, _ = top.shape
    stored = Stored(*tensors)
    call = FeedbackCall(length, batch, before, top)
    call.point_params(params, config, backward=True)
    call.point_stored(stored)
    args, head = call.args, call.args.head
    end = before + length

    # Keys along time and values along features are stored. The other layouts are copied
    # from them.
    call.point(
        keys_rows=call.borrow(args.heads, batch, args.capacity, args.head_wide),
        values=call.borrow(*stored.keys.shape),
        grad_top=top,
        grad_x_seq=call.space(length, batch, args.wide),
    )
    args.start, args.stop = 0, length
    call.run("transpose")
    older = []
    for name, given in (("grad_keys", new_keys), ("grad_values", new_values)):
        space = call.zeros(args.heads, batch, args.capacity, args.head_wide)
        if given is not None:
            space[:, :, before:end, :head] = given.permute(2, 1, 0, 3)
        call.point(**{name: space})
        older.append(space[:, :, :before, :head].permute(2, 1, 0, 3))

    sums = _point_sums(call, params)
    all_spans = list(spans(length, before, config.horizon))
    _point_chunk_buffers(call, all_spans)
    for span in reversed(all_spans):
        call.point_span(span, params, config)
        call.run("backward")
    call.done()
    return call.tensors["grad_x_seq"][..., : args.width], older[0], older[1], sums


# Sums of the gradients of parameters, with padded rows; returns them without padding.
def _point_sums(call: FeedbackCall, params: Params) -> Params:
    args = call.args
    padded = {
        "distance": args.head_wide,
        "distance_bias": args.table_capacity,
        "up_bias": args.hidden_wide,
        "down": args.hidden_wide,
        "shares": args.layers + 1,
        "memory_bias": args.memory_wide,
    }
    names = {"distance": "table", "distance_bias": "table_bias"}
    sums = {}
    for name, param in params._replace(down=params.down.mT)._asdict().items():
        total = call.zeros(*param.shape[:-1], padded.get(name, args.wide))
        call.point(**{f"sum_{names.get(name, name)}": total})
        sums[name] = total[..., : param.shape[-1]]
    return Params(**{**sums, "down": sums["down"].mT})


# ## Chunks
#
# The products at the end of a chunk should have some hundred rows, of steps and
# sequences together, and its tables of attention weights should occupy a small part of
# the cache. In long sequences tables are wide, and chunks shorter.
ROWS = range(128, 256)
TABLES = 2**23  # bytes


def chunk_steps(batch: int, bytes_per_step: int) -> int:
    """Returns how many steps a chunk has, whose tables take `bytes_per_step` each."""
    most = min(TABLES // bytes_per_step, ROWS.stop // batch)
    return max(1, ROWS.start // batch, most)


def _point_chunk_buffers(call: FeedbackCall, all_spans: list[Span]) -> None:
    args, space = call.args, call.borrow
    rows = max(span.slots + span.low % call.panel for span in all_spans)
    pairs = (args.heads, args.batch, args.layers)
    steps = chunk_steps(args.batch, 2 * 4 * math.prod(pairs) * rows)
    steps = args.chunk = min(steps, max(span.stop - span.start for span in all_spans))
    shape = (args.layers, steps, args.batch)
    names = "x_norm z_norm grad_attended grad_projected grad_query heads_out"
    for name in names.split():
        call.point(**{name: space(*shape, args.wide)})
    for name in ("vectors", "grad_vectors"):
        call.point(**{name: space(steps, args.batch, args.wide)})

    # A row of weights is followed by as many zeros as there are steps, and so is the
    # place before the first row: a distance is followed from step to step, and may lead
    # out of the table.
    args.row_capacity = up_to(rows, call.panel) + max(steps, call.panel)
    call.point(
        grad_up=space(*shape, args.hidden_wide),
        grad_slots=space(steps, args.batch, args.memory_wide),
        attn=space(*pairs, steps, args.row_capacity),
        grad_scores=space(*pairs, steps, args.row_capacity, before=steps),
        head_query=space(*pairs, steps, args.head_wide),
        grad_heads_out=space(*pairs, steps, args.head_wide),
    )
    call.point_scratch(3 * args.wide)


def stored_queries(stored: Stored, width: int) -> Tensor:
    """The queries are stored by layer and step, `[L, T, B, C']`."""
    return stored.queries[..., :width].transpose(1, 2)


COMPILED = Passes(run_forward, run_backward, spans, stored_queries)


@kernel_for(
    FeedbackTransformer.read, owner=FeedbackTransformerKV, submodules=SUBMODULES
)
def read_compiled(
    model: FeedbackTransformerKV,
    x_seq: Tensor,
    memory: FeedbackMemory,
    mask: Tensor | None = None,
) -> Any:
    r"""
    ## Attached to the lesson

    It computes in single precision on a CPU. Otherwise, and without a compiler, the
    [kernel by hand](feedback_by_hand.py#read_by_hand) runs.
    """
    config = supported_config(model, x_seq, memory)
    if isinstance(config, Declined):
        return config
    if x_seq.device.type != "cpu" or x_seq.dtype != torch.float32:
        return Declined(f"`x_seq` is {x_seq.dtype} on {x_seq.device}")
    if EXTENSION.find() is None:
        return Declined(NO_LIBRARY)
    return read_with(COMPILED, model, config, x_seq, memory, mask)
