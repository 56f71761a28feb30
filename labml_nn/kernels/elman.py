r"""
---
title: Elman kernels
summary: >
  The Elman layer with backpropagation through time by hand, by cuDNN, and compiled: all
  steps in one call of C++. And the compiled decoding step of the language model.
paper: https://doi.org/10.1207/s15516709cog1402_1
---

The [Elman layer](../recurrent/elman/__init__.py) is a Python loop. Two kernels replace
it, [one in PyTorch](#layer_in_pytorch), for all devices and dtypes, and
[one in C++](#layer_compiled), for single precision on CPUs. A [third](#ElmanStep)
computes the decoding step of the language model.

**Cost of the layer.** Training is six matrix products, two forward and four
[backward](../recurrent/elman/bptt.py). Each takes $T B N^2$ multiplications if $C = N$,
and only the two with $U h_{t-1}$ and $U^\top \delta_{t+1}$ are sequential. For
$T = 256$, $B = 32$, $N = 256$ one core of an AMD EPYC with AVX-512 needs 32 ms for
them, at the 200 billion operations a second of a large product. `torch.nn.RNN` takes
108 ms: each step starts products of only 32 rows, and the gradient of $U$ is
accumulated in 256 small products, each of which reads and writes the whole sum.

**The compiled kernel** has [products of few rows](build.py) at full speed. It computes
$W x_t + b$ for 64 rows at a time, uses it while it is in a near cache, and never stores
it. $f$ and $f'$ are applied while the sums are in registers. In the backward pass the
vectors of $g_{t-1}$ and $h_{t-1}$ are prefetched, which saved a fifth of the loop.

For 32 sequences of 256 steps and 256 units, forward and backward pass take 39 ms on
that core, and 105 in PyTorch. A single sequence gains least, because every step reads
all of $U$ for one row. Threads share the sequences of a batch. With vectors of 4 floats
`nn.RNN` was faster, so there the kernel in PyTorch runs.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x` | `[T, B, C]` | inputs |
| $h_0$ | `h_0` | `[B, N]` | hidden state before the first step |
| $W$, $b$ | `input`, `bias` | `[N, C]`, `[N]` | input weights and bias |
| $U$ | `recurrent` | `[N, N]` | recurrent weights |
| $h_t$ | `states` | `[T, B, N]` | hidden states |
| $g_t$ | `grad_states` | `[T, B, N]` | gradients of the states |
| $\delta_t$ | `deltas` | `[T, B, N]` | gradients of $a_t$ |
"""

import ctypes
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from labml_nn.kernels.as_built import fits
from labml_nn.kernels.build import NO_LIBRARY, SHARED, VECTORS, Extension, Library
from labml_nn.kernels.call import Call, fields, up_to, without_autocast
from labml_nn.kernels.decoding import FOR_CPP, NOT_DECODABLE, CompiledStep, is_decodable
from labml_nn.language_model import LanguageModel
from labml_nn.recurrent.elman import (
    ACTIVATIONS,
    Elman,
    ElmanCell,
    ElmanLanguageModel,
    ElmanLayer,
)
from labml_nn.recurrent.elman.bptt import recurrent_grad, run_backward, run_forward
from labml_nn.reference import Declined, kernel_for

SUBMODULES: set[type[nn.Module]] = {ElmanCell, nn.Linear}


#: The functions whose derivatives the kernels know, by name. A user may add others to
#: the lesson's table, or replace one.
KNOWN = dict(ACTIVATIONS)


def is_known(nonlinearity: str) -> bool:
    return nonlinearity in KNOWN and ACTIVATIONS[nonlinearity] is KNOWN[nonlinearity]


_UNFIT = (
    "the layer is not as its class made it, its activation function is not one of the "
    "lesson's, or shapes, dtypes or devices do not fit"
)


class Arguments(NamedTuple):
    r"""
    ## Arguments of a layer

    The tensors of the table above, with `mask`, boolean, `[T, B]`, or `None`.
    """

    x: Tensor
    h_0: Tensor
    recurrent: Tensor
    input: Tensor
    bias: Tensor | None
    mask: Tensor | None


def arguments_of(
    layer: ElmanLayer, x: Tensor, state: Tensor | None, mask: Tensor | None
) -> Arguments | None:
    """
    Collects them from a layer and the arguments of its `forward`. Returns `None` unless
    shapes, devices and dtypes fit exactly: for anything else the reference decides
    whether it is an error. In particular a state of one sequence would be broadcast to
    a batch, and a kernel in C++ must never read beyond the end of a tensor. The
    backward pass by hand conjugates nothing, so complex numbers are the reference's.
    """
    cell: Any = layer._modules.get("cell")
    if type(cell) is not ElmanCell:
        return None
    linear, square = (cell._modules.get(name) for name in ("input", "recurrent"))
    if (
        not type(linear) is type(square) is nn.Linear
        or x.dim() != 3
        or len(x) == 0
        or (recurrent := square.weight).is_complex()
        or square.bias is not None
        or not is_known(cell.nonlinearity)
    ):
        return None
    batch, width = x.shape[1:]
    h_0, units = layer.initial(batch) if state is None else state, len(recurrent)
    for tensor, shape, dtype in (
        (x, x.shape, x.dtype),
        (h_0, (batch, units), h_0.dtype),
        (recurrent, (units, units), recurrent.dtype),
        (linear.weight, (units, width), recurrent.dtype),
        (linear.bias, (units,), recurrent.dtype),
        (mask, x.shape[:2], torch.bool),
    ):
        if tensor is not None and (
            type(tensor) not in (Tensor, nn.Parameter)
            or (tensor.shape, tensor.dtype) != (shape, dtype)
            or tensor.device != x.device
            or tensor.layout != torch.strided
        ):
            return None
    return Arguments(x, h_0, recurrent, linear.weight, linear.bias, mask)


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """Returns the dtype of autocast on the device of `x`, or `None` if it is off."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return None


def forward_by_hand(given: Arguments, nonlinearity: str) -> Tensor:
    """
    ## By hand

    $W x_t + b$ for all steps is one product before the loop. Returns the states.
    """
    inputs = nn.functional.linear(given.x, given.input, given.bias)
    mask = None if given.mask is None else given.mask.unsqueeze(-1)
    return run_forward(inputs, given.h_0, given.recurrent, mask, nonlinearity)


def backward_by_hand(
    grad_states: Tensor, states: Tensor, given: Arguments, nonlinearity: str
) -> Arguments:
    """
    The backward pass is that of [backpropagation through
    time](../recurrent/elman/bptt.py): one product for all steps replaces $T$ small
    ones. Its operations are those of PyTorch, so that it can be differentiated itself.
    Returns the gradients.
    """
    x, h_0, recurrent, weight, bias, mask = given
    mask = None if mask is None else mask.unsqueeze(-1)
    deltas, grad_h_0 = run_backward(grad_states, states, recurrent, mask, nonlinearity)
    return Arguments(
        x=deltas @ weight,
        h_0=grad_h_0,
        recurrent=recurrent_grad(deltas, states, h_0),
        input=deltas.flatten(0, 1).t() @ x.flatten(0, 1),
        bias=None if bias is None else deltas.sum((0, 1)),
        mask=None,
    )


def recur(library: Library | None, given: Arguments, nonlinearity: str) -> Tensor:
    """
    The states: computed by hand, or compiled if there is a library. The backward pass
    reads them, so the caller gets a copy, and may change it in place.
    """
    states: Tensor = _Recurrence.apply(library, nonlinearity, *given)  # type: ignore[no-untyped-call]
    return states.clone() if states.requires_grad else states


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, library: Library | None, nonlinearity: str, *tensors: Any
    ) -> Tensor:
        given = Arguments(*tensors)
        if library is None:
            states = forward_by_hand(given, nonlinearity)
        else:
            states = compiled_forward(library, given, nonlinearity)
        ctx.library, ctx.nonlinearity = library, nonlinearity

        # No gradient depends on the bias. So it may be changed before the backward
        # pass, which asks only whether there is one.
        bias = None if given.bias is None else torch.empty_like(given.bias)
        ctx.save_for_backward(states, *given._replace(bias=bias))
        return states

    # With `create_graph=True` gradients are enabled here, and C++ has none.
    @staticmethod
    @without_autocast
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        states, *tensors = ctx.saved_tensors
        arguments = grad_states, states, Arguments(*tensors), ctx.nonlinearity
        if ctx.library is None or torch.is_grad_enabled():
            return None, None, *backward_by_hand(*arguments)
        return None, None, *compiled_backward(ctx.library, *arguments)


#: The kernels need this many steps. For fewer, preparations cost more than they save.
MIN_STEPS = 3


@kernel_for(ElmanLayer.forward, owner=ElmanLayer, submodules=SUBMODULES)
def layer_in_pytorch(
    layer: ElmanLayer,
    x: Tensor,
    state: Tensor | None = None,
    mask: Tensor | None = None,
) -> Any:
    r"""
    ## In PyTorch

    On a GPU cuDNN computes all steps in one launch, if $f$ is tanh or ReLU and there is
    no mask. Everything else is computed by hand. On a CPU that is also faster than
    `nn.RNN`: forward and backward pass of one sequence of 64 steps and 256 units take
    1.8 ms, and 7.6 with `nn.RNN`.

    **cuDNN has not run.** No GPU was available; the tests run [its
    computation](#torch_rnn) on the CPU, where the same two functions exist.
    """
    given = arguments_of(layer, x, state, mask)
    if given is None:
        return Declined(_UNFIT)
    if len(x) < MIN_STEPS:
        return Declined(f"{len(x)} steps are fewer than {MIN_STEPS}")
    nonlinearity = layer.cell.nonlinearity
    if x.is_cuda and mask is None and nonlinearity in ("tanh", "relu"):
        states = torch_rnn(given, nonlinearity)
    elif autocast_dtype(x) or not x.dtype == given.h_0.dtype == given.recurrent.dtype:
        return Declined("the dtypes differ, or autocast is on")
    else:
        states = recur(None, given, nonlinearity)
    return states, states[-1].clone()  # as on the page, a tensor of its own


def torch_rnn(given: Arguments, nonlinearity: str) -> Tensor:
    r"""
    The functions that `nn.RNN` calls. cuDNN expects two biases, and all parameters in
    one block of memory in this order. Under autocast it computes in its dtype, which is
    also that of the states.
    """
    x, bias = given.x, given.bias
    parts = [given.input, given.recurrent]
    parts += [] if bias is None else [bias, torch.zeros_like(bias)]
    dtype = autocast_dtype(x) or x.dtype
    flat = torch.cat([part.flatten() for part in parts]).to(dtype)
    pieces = torch.split(flat, [part.numel() for part in parts])
    weights = [p.view_as(part) for p, part in zip(pieces, parts, strict=True)]
    h_0 = given.h_0.to(dtype).unsqueeze(0).contiguous()
    run = torch.rnn_tanh if nonlinearity == "tanh" else torch.rnn_relu
    options = bias is not None, 1, 0.0, torch.is_grad_enabled(), False, False
    with torch.autocast(x.device.type, enabled=False):
        states: Tensor = run(x.to(dtype), h_0, weights, *options)[0]
    return states


EXTENSION = Extension(
    "elman",
    SHARED / "elman",
    "forward backward decode",
    what="Elman layer",
    instead="The kernel in PyTorch",
)

#: With fewer tokens than one for this many units, packing the weights costs more than
#: it saves.
UNITS_PER_TOKEN = 16


@kernel_for(ElmanLayer.forward, owner=ElmanLayer, submodules=SUBMODULES)
def layer_compiled(
    layer: ElmanLayer,
    x: Tensor,
    state: Tensor | None = None,
    mask: Tensor | None = None,
) -> Any:
    r"""
    ## Compiled

    All steps in one call. It computes in single precision; under autocast the states
    are converted at the end.
    """
    given = arguments_of(layer, x, state, mask) if x.device.type == "cpu" else None
    if given is None:
        return Declined(_UNFIT)
    if x.numel() == 0 or given.recurrent.dtype != torch.float32:
        return Declined("there is no input, or the weights are not in float32")
    dtype, own = autocast_dtype(x), {x.dtype, given.h_0.dtype}
    if torch.float64 in own or (dtype is None and own != {torch.float32}):
        return Declined("`x` or the state is not in float32")
    is_small = UNITS_PER_TOKEN * len(x) * x.shape[1] < len(given.recurrent)
    if is_small:
        return Declined(f"{len(x) * x.shape[1]} tokens are too few to pack the weights")
    if torch.backends.cpu.get_cpu_capability() not in VECTORS:
        return Declined("this CPU lacks its vector instructions")
    library = EXTENSION.find()
    if library is None:
        return Declined(NO_LIBRARY)
    with torch.autocast("cpu", enabled=False):
        given = given._replace(x=x.float(), h_0=given.h_0.float())
        states = recur(library, given, layer.cell.nonlinearity)
    states = states if dtype is None else states.to(dtype)
    return states, states[-1].clone()  # as on the page, a tensor of its own


class Args(ctypes.Structure):
    """### Arguments in C++, in the order of `args.h`, where each is explained."""

    _fields_ = fields(
        "threads workers steps batch width units activation block scratch_size",
        "",
        """
        input bias recurrent x h_0 mask states grad_states deltas
        grad_h_0 grad_x grad_recurrent grad_input grad_bias scratch
        """,
    )


NAMES = tuple(KNOWN)  # C++ numbers the activation functions in this order

# `ROWS`: from this many rows on, a product amortises the reading of the weights.
# $W x_t$ is computed for as many steps at a time as have this many rows together.
#
# `MIN_WORK`: starting a thread takes some 20 µs. A thread gets at least this many
# multiplications.
ROWS = 64
MIN_WORK = 2**22


def _prepare(library: Library, given: Arguments, nonlinearity: str) -> tuple[Call, int]:
    """Returns the call, and the largest number of sequences of a thread."""
    call = Call(library, Args(), given.x)
    args = call.args
    args.steps, args.batch, args.width = given.x.shape
    args.units = len(given.recurrent)
    args.activation = NAMES.index(nonlinearity)
    work = args.steps * args.batch * args.units * (args.units + args.width)
    args.workers = max(1, min(torch.get_num_threads(), work // MIN_WORK))
    args.threads = min(args.workers, args.batch)
    call.point(x=given.x, h_0=given.h_0, mask=given.mask)
    return call, -(-args.batch // args.threads)


def _run(call: Call, name: str, scratch: int) -> None:
    call.args.scratch_size = up_to(scratch, call.panel)
    call.point(scratch=call.space(call.args.workers, call.args.scratch_size))
    call.run(name)


def compiled_forward(library: Library, given: Arguments, nonlinearity: str) -> Tensor:
    """
    ### Forward pass

    Only the weights are copied, when they are [packed](call.py#Call.pack). Returns the
    states.
    """
    call, sequences = _prepare(library, given, nonlinearity)
    args = call.args
    states = given.x.new_empty(args.steps, args.batch, args.units)
    call.point(
        recurrent=call.pack(given.recurrent.mT),
        input=call.pack(given.input.mT),
        bias=given.bias,
        states=states,
    )
    args.block = -(-ROWS // sequences)
    _run(call, "forward", args.block * sequences * (args.units + args.width))
    return states


def compiled_backward(
    library: Library,
    grad_states: Tensor,
    states: Tensor,
    given: Arguments,
    nonlinearity: str,
) -> Arguments:
    """
    ### Backward pass

    Returns the gradients.
    """
    call, sequences = _prepare(library, given, nonlinearity)
    args = call.args
    deltas, grad_h_0 = torch.empty_like(states), torch.empty_like(states[0])
    call.point(
        grad_states=grad_states,
        states=states,
        deltas=deltas,
        grad_h_0=grad_h_0,
        recurrent=call.pack(given.recurrent),
    )

    # Sums that gradients are added to, with rows of whole vectors.
    def sum_of(name: str, rows: int, columns: int) -> Tensor:
        total = call.zeros(rows, up_to(columns, call.lanes))
        call.point(**{name: total})
        return total[:, :columns]

    recurrent = sum_of("grad_recurrent", args.units, args.units)
    weight = sum_of("grad_input", args.units, args.width)
    bias = None if given.bias is None else sum_of("grad_bias", 1, args.units)[0]

    # The gradient of the inputs is computed last. If its rows are as long as those of
    # $\delta$, it overwrites them.
    is_same_size = args.width == args.units
    grad_x = deltas if is_same_size else given.x.new_empty(given.x.shape)
    call.point(grad_x=grad_x, input=call.pack(given.input))
    _run(call, "backward", max(sequences, ROWS) * args.units)
    return Arguments(grad_x, grad_h_0, recurrent, weight, bias, None)


class Decoding(ctypes.Structure):
    """The structure of `decode.h`."""

    _fields_ = fields(
        "batch layers units vocabulary activation padding",
        "",
        "tokens table weights bias output output_bias state new_states logits",
    )


#: For larger vocabularies the table of the decoding step is not worth its memory.
MAX_VOCABULARY = 4096


class ElmanStep(CompiledStep):
    r"""
    ## Decoding step

    Generation reads one token of each sequence at a time. **Before the first layer** a
    token passes through linear maps only, and there are only $V$ tokens. So the product
    with $W^1$ is computed for all of them in advance:

    $$Z_w = W^1 (P \, s E_w + r) + b^1$$

    **After the last layer** two linear maps in a row are one:

    $$E \, (Q h^L + q) + c = (E Q) \, h^L + (E q + c)$$

    **In between** the states of all layers of a sequence are stored side by side. When
    layer $l$ is computed, $h^{l-1}$ is already that of this step and $h^l$ still that
    of the previous one, and they are adjacent. So the two products of a layer are one:

    $$h^l \leftarrow f\!\left( (W^l \; U^l) \, (h^{l-1}, h^l) + b^l \right)$$

    All layers are one call of C++. For two layers of 256 units and one sequence it
    takes 17 µs per token, and `forward` 176 (AMD EPYC with AVX-512).

    The weights are copied: the step belongs to the parameters as they were when it was
    created.
    """

    def __init__(
        self, library: Library, model: ElmanLanguageModel, state: Tensor
    ) -> None:
        super().__init__(library, model, state.shape[1])
        self.padding_token = None  # the step copies the state at padding itself
        cells = [cast(ElmanLayer, layer).cell for layer in model.elman.layers]
        embedding, units = model.embedding.weight, state.shape[2]

        # The projection of zero is its bias, and that of the unit matrix, without the
        # bias, its matrix.
        q = model.output_projection(torch.zeros(units, **FOR_CPP))
        product = model.output_projection(torch.eye(units, **FOR_CPP)) - q
        weight = embedding if model.output_weight is None else model.output_weight

        # Of the first layer $W$ and $b$ are in the table.
        weights, biases = [cells[0].recurrent.weight.T], [torch.zeros(0, **FOR_CPP)]
        for cell in cells[1:]:
            weights.append(torch.cat([cell.input.weight.T, cell.recurrent.weight.T]))
            bias = cell.input.bias
            biases.append(torch.zeros(units, **FOR_CPP) if bias is None else bias)

        self.rows = state.transpose(0, 1).flatten(1).clone()
        self.call = call = Call(library, Decoding(), self.rows)
        args, padding = call.args, model.config.padding_token
        args.batch, args.layers, args.units = self.batch, len(cells), units
        args.vocabulary = self.n_vocab
        args.activation = NAMES.index(cells[0].nonlinearity)
        args.padding = -1 if padding is None else padding
        call.point(
            table=cells[0].input(model.input_projection(embedding * model.scale)),
            weights=torch.cat([call.pack(each).flatten() for each in weights]),
            bias=torch.cat(biases),
            output=call.pack(product @ weight.T),
            output_bias=weight @ q + model.output_bias,
            state=self.rows,
            new_states=self.rows.new_empty(self.batch, units),
        )

    def advance(self, tokens: Tensor) -> Tensor:
        logits = self.rows.new_empty(self.batch, self.n_vocab)
        self.call.point(tokens=tokens, logits=logits)
        self.call.run("decode")
        return logits

    def state(self) -> Tensor:
        layers = torch.unflatten(self.rows, 1, (self.call.args.layers, -1))
        return layers.transpose(0, 1).clone()


@kernel_for(
    LanguageModel.decoding_step,
    owner=ElmanLanguageModel,
    submodules={
        *(Elman, ElmanLayer, ElmanCell, nn.ModuleList),
        *(nn.Embedding, nn.Linear, nn.Identity, nn.Dropout),
    },
)
def decode_compiled(model: ElmanLanguageModel, state: Tensor) -> Any:
    r"""
    The classic model, with a tanh after its projections, and large vocabularies use
    `forward`.
    """
    config = model.config
    if type(state) is not Tensor or state.dim() != 3 or state.shape[1] == 0:
        return Declined("the state is not a plain tensor `[L, B, N]`")
    if not is_decodable(model):
        return Declined(NOT_DECODABLE)
    if not fits(state, config.n_layers, state.shape[1], config.d_hidden):
        return Declined("the state is not one of this model, in float32 on a CPU")
    if config.n_vocab > MAX_VOCABULARY:
        return Declined(f"the vocabulary has more than {MAX_VOCABULARY} tokens")
    if config.tanh_projections or not is_known(config.nonlinearity):
        return Declined("its configuration has other activation functions")
    if (library := EXTENSION.find()) is None:
        return Declined(NO_LIBRARY)
    # Tensors made in inference mode could not be modified outside it.
    with torch.inference_mode(False), torch.no_grad():
        return ElmanStep(library, model, state)
