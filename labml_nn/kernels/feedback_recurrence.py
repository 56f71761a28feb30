r"""
---
title: Feedback recurrence
summary: >
  What the kernels of the Feedback Transformer share: which calls they compute, folded
  parameters, dropout masks, one operation for autograd, and sequences of different
  lengths.
paper: https://arxiv.org/abs/2002.09402
---

The recurrence of the [Feedback Transformer](../transformers/feedback/__init__.py) has
two kernels: one [by hand](feedback_by_hand.py) in PyTorch, and one [in
C++](feedback_cpp.py). Each of them is a forward and a backward pass. Everything around
these two functions is the same, and this page has it. A call of
`FeedbackTransformerKV.read` passes through five steps:

1. The kernel [declines](#supported_config) what it does not compute, and the reference
   runs.
2. Tokens are [aligned](#read_with), so that padding comes after them.
3. The parameters are [folded](#fold_params): norms, scales and biases join the linear
   map next to them.
4. The two passes run as [one operation](#Recurrence) for autograd, with
   [dropout masks](#draw_masks) that both kernels draw from the same seed.
5. The new slots are appended to the memory, and the attention weights of the last step
   can be [looked at](#record).

[Decoding](feedback_decoding.py) reads the same configuration and the same folded
parameters.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.kernels.as_built import is_built_like
from labml_nn.kernels.call import without_autocast
from labml_nn.reference import Declined
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.mha import PrepareForMultiHeadAttention

#: The submodules that the kernels compute themselves.
SUBMODULES: set[type[nn.Module]] = {
    *(FeedbackTransformerLayer, FeedbackAttention, FeedForward),
    *(PrepareForMultiHeadAttention, nn.ModuleList, nn.Linear, nn.LayerNorm),
    *(nn.Dropout, nn.Softmax, nn.ReLU, nn.Identity),
}

#: With fewer tokens, folding the parameters takes longer than the loop saves.
SHORTEST = 4


class Config(NamedTuple):
    r"""
    ## Static configuration

    Everything about a model that is not a tensor.

    * `heads` is the number of heads, $H$
    * `eps` is the $\epsilon$ of all norms
    * `horizon` is $\tau$, the number of slots that a step attends to; `None` for all
    * `norm_memory` is whether memory vectors are normalized
    * `dropout` are the dropout probabilities of attention weights, of what a sub-layer
      adds, and of hidden features; `seed` starts their random numbers
    """

    heads: int
    eps: float
    horizon: int | None
    norm_memory: bool
    dropout: Sequence[float] = (0.0, 0.0, 0.0)
    seed: int = 0


def config_of(model: FeedbackTransformerKV) -> Config | None:
    r"""
    Reads the configuration. Returns `None` for what the kernels do not support: the
    model is what its class makes of its sizes, and feed-forward networks have a ReLU.
    """
    if not _is_as_built(model):
        return None
    layer: Any = model.layers[0]
    if len(_dropout_modes(model.layers)) > 1:
        return None
    drops = layer.attn.dropout, layer.dropout, layer.feed_forward.dropout
    dropout = [each.p if each.training else 0.0 for each in drops]
    return Config(
        heads=model.heads,
        eps=layer.norm_ff.eps,
        horizon=model.horizon,
        norm_memory=isinstance(model.norm_memory, nn.LayerNorm),
        dropout=dropout,
    )


# The sizes and options of the model and of its first layer, and a new model of these,
# with which [all of it is compared](as_built.py).
def _is_as_built(model: FeedbackTransformerKV) -> bool:
    try:
        layer: Any = model.layers[0]
        attn, network = layer.attn, layer.feed_forward
        new = _new_model(
            n_layers=len(model.layers),
            heads=attn.heads,
            d_model=attn.d_model,
            d_ff=network.layer1.out_features,
            max_distance=attn.P,
            horizon=model.horizon,
            norm_memory=type(model.norm_memory) is nn.LayerNorm,
            dropout=(attn.dropout.p, layer.dropout.p, network.dropout.p),
            biases=(network.layer1.bias is not None, network.layer2.bias is not None),
            is_relu_function=network.activation is F.relu,
            eps=layer.norm_ff.eps,
        )
        return is_built_like(model, new)
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError):
        return False  # no model has this configuration


@functools.lru_cache(maxsize=16)
def _new_model(
    n_layers: int,
    heads: int,
    d_model: int,
    d_ff: int,
    max_distance: int,
    horizon: int | None,
    norm_memory: bool,
    dropout: tuple[float, float, float],
    biases: tuple[bool, bool],
    is_relu_function: bool,
    eps: float,
) -> FeedbackTransformerKV:
    of_weights, of_branches, of_features = dropout
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        layer = FeedbackTransformerLayer(
            d_model=d_model,
            attn=FeedbackAttention(
                *(heads, d_model, of_weights),
                is_kv_precomputed=True,
                max_distance=max_distance,
            ),
            feed_forward=FeedForward(
                *(d_model, d_ff, of_features, F.relu if is_relu_function else None),
                bias1=biases[0],
                bias2=biases[1],
            ),
            dropout_prob=of_branches,
        )
        options: Any = {"horizon": horizon, "norm_memory": norm_memory}
        model = FeedbackTransformerKV(layer, n_layers, d_model, heads, **options)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps
    return model


# `training` may be set for one submodule.
def _dropout_modes(layers: Iterable[Any]) -> set[tuple[bool, ...]]:
    return {
        tuple(m.training for m in (x.attn.dropout, x.dropout, x.feed_forward.dropout))
        for x in layers
    }


def supported_config(
    model: FeedbackTransformerKV, x_seq: Tensor, memory: FeedbackMemory
) -> Config | Declined:
    r"""
    ### Supported calls

    Returns the configuration if both kernels compute with the model and the tensors.
    Autocast would choose a dtype for each operation, half precision would add up
    hundreds of small gradients in few digits, and `meta` has no values. Memory with
    empty slots, for sequences of different lengths, is read by the reference.
    """
    device, parameters = x_seq.device.type, model.parameters()
    if type(x_seq) not in (Tensor, nn.Parameter) or x_seq.numel() == 0:
        return Declined("`x_seq` is not a plain tensor with numbers in it")
    if len(x_seq) < SHORTEST:
        return Declined(f"{len(x_seq)} steps are fewer than {SHORTEST}")
    if device == "meta" or x_seq.dtype not in (torch.float32, torch.float64):
        return Declined(f"`x_seq` is {x_seq.dtype} on {device}")
    if x_seq.dim() != 3 or x_seq.shape[-1] != model.d_model:
        return Declined(f"`x_seq` is not [T, B, {model.d_model}]")
    expected = x_seq.dtype, x_seq.device, torch.strided
    if any((p.dtype, p.device, p.layout) != expected for p in parameters):
        return Declined("a parameter has another dtype, device or layout than `x_seq`")
    if torch.is_autocast_enabled(device):
        return Declined("autocast is on")
    if not _continues(x_seq, memory, model):
        return Declined("the memory is not one of this model and batch")
    if memory.mask is not None and not bool(memory.mask.all()):
        return Declined("the memory has empty slots")
    return config_of(model) or Declined(
        "the model is not as its class made it, or some of its layers are in training "
        "mode and others are not"
    )


# Slots of another width or another batch would be broadcast, or read beyond their end.
def _continues(
    x_seq: Tensor, memory: FeedbackMemory, model: FeedbackTransformerKV
) -> bool:
    keys, values = memory.keys, memory.values
    if keys is None or values is None:
        return keys is values
    shape = (len(memory), x_seq.shape[1], model.heads, model.d_k)
    expected = shape, x_seq.dtype, x_seq.device
    return all(
        type(each) in (Tensor, nn.Parameter)
        and (each.shape, each.dtype, each.device) == expected
        for each in (keys, values)
    )


class Params(NamedTuple):
    r"""
    ## Folded parameters

    Three identities each remove an operation from the loop.

    *Gain and bias of a norm belong to the map behind it.* With $\hat{x}$ for a vector
    of mean 0 and variance 1, $W (g \odot \hat{x} + b) = (W \operatorname{diag} g) \,
    \hat{x} + W b$.

    *So does the scale of the scores.* We divide the query by $\sqrt{D}$, $D$ numbers
    per head, and not the $S$ scores.

    *The bias of all queries is added once.* Scores have four terms; with $q' = (q + u)
    / \sqrt{D}$ three are left, and one vector is multiplied with keys and distances:

    $$\frac{(q + u)^\top k_j + q^\top E_d + b_d}{\sqrt{D}}
        = q'^\top k_j + q'^\top E_d + b'_d, \qquad
        b'_d = \frac{b_d - u^\top E_d}{\sqrt{D}}$$

    Autograd computes the gradients of the model's parameters from those of the folded
    ones. Layers are stacked, because the gradients of all are one batched product.

    | | | Shape |
    |:--|:--|:--|
    | $W_Q$, $u$ | `query`, `query_bias` | `[L, C, C]`, `[L, C]` |
    | $E_d$, $b'_d$ | `distance`, `distance_bias` | `[L, H, S, D]`, `[L, H, S]` |
    | $W_O$, $b_O$ | `output`, `output_bias` | `[L, C, C]`, `[L, C]` |
    | $W_1$, $b_1$ | `up`, `up_bias` | `[L, F, C]`, `[L, F]` |
    | $W_2$, $b_2$ | `down`, `down_bias` | `[L, F, C]`, `[L, C]` |
    | $\operatorname{softmax}(a)$ | `shares` | `[L + 1]` |
    | $W_K$, $W_V$ | `memory`, `memory_bias` | `[2·C, C]`, `[2·C]` |
    """

    query: Tensor
    query_bias: Tensor
    distance: Tensor
    distance_bias: Tensor
    output: Tensor
    output_bias: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor
    shares: Tensor
    memory: Tensor
    memory_bias: Tensor


def fold_params(model: FeedbackTransformerKV, length: int) -> Params:
    r"""With their history; `length` is the number of distances that are needed, $S$."""
    layers: list[Any] = list(model.layers)
    query, query_bias = _stack(
        _behind(layer.norm_self_attn, layer.attn.query.linear) for layer in layers
    )
    u = torch.stack([layer.attn.query_pos_bias for layer in layers])
    embeddings, bias = _stack(_distances(layer.attn, length) for layer in layers)
    scale = query.new_tensor([layer.attn.scale for layer in layers])
    for_all = bias - (embeddings * u.unsqueeze(1)).sum(-1)
    up, up_bias = _stack(
        _behind(layer.norm_ff, layer.feed_forward.layer1) for layer in layers
    )
    output, output_bias = _stack(_behind(None, x.attn.output) for x in layers)
    down, down_bias = _stack(_behind(None, x.feed_forward.layer2) for x in layers)
    memory, memory_bias = _behind(
        model.norm_memory, model.key.linear, model.value.linear
    )

    # $W_2$ is transposed by its strides alone. A copy took as long as the rest of this
    # function.
    return Params(
        query=query * scale[:, None, None],
        query_bias=(query_bias + u.flatten(1)) * scale[:, None],
        distance=embeddings.transpose(1, 2),
        distance_bias=(for_all * scale[:, None, None]).transpose(1, 2),
        output=output,
        output_bias=output_bias,
        up=up,
        up_bias=up_bias,
        down=down.transpose(1, 2),
        down_bias=down_bias,
        shares=model.weights.softmax(0),
        memory=memory,
        memory_bias=memory_bias,
    )


def _distances(attn: FeedbackAttention, length: int) -> tuple[Tensor, Tensor]:
    # Distances `length`, …, 1: a view, if the table has as many.
    if length <= attn.P:
        first = attn.P - length
        return attn.key_pos_embeddings[first:], attn.key_pos_bias[first:]
    rows = torch.arange(-length, 0, device=attn.key_pos_bias.device).clamp(min=-attn.P)
    return attn.key_pos_embeddings[rows], attn.key_pos_bias[rows]


def _stack(pairs: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    first, second = zip(*pairs, strict=True)
    return torch.stack(first), torch.stack(second)


# The first identity, for maps that read the same vector, normalized or not.
def _behind(norm: nn.Module | None, *linears: nn.Linear) -> tuple[Tensor, Tensor]:
    weights: list[Tensor] = [x.weight for x in linears]
    biases: list[Tensor] = [
        x.weight.new_zeros(len(x.weight)) if x.bias is None else x.bias for x in linears
    ]
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    bias = biases[0] if len(biases) == 1 else torch.cat(biases)
    if not isinstance(norm, nn.LayerNorm):
        return weight, bias
    return weight * norm.weight, bias + weight @ norm.bias


class Masks(NamedTuple):
    r"""
    ## Dropout masks

    Factors 0 or $1 / (1 - p)$ for a number of steps; `None` where nothing is dropped.

    * `attention` is for attention weights, `[H·B, steps·L, slots]`
    * `attended`, `projected` are for what the two sub-layers of a layer add,
      `[L, steps, B, C]`
    * `hidden` is for hidden features, `[L, steps, B, F]`
    """

    attention: Tensor | None = None
    attended: Tensor | None = None
    projected: Tensor | None = None
    hidden: Tensor | None = None


def draw_masks(
    config: Config, params: Params, like: Tensor, first: int, slots: int
) -> Masks:
    r"""
    * `like` has the steps, `[steps, B, C]`, and `first` is the number of the first one
    * `slots` is the number of slots that any of the steps attends to

    The same seed and first step give the same numbers. So the compiled kernel draws its
    masks twice, and stores none.
    """
    if not any(config.dropout):
        return Masks()
    generator = torch.Generator(like.device)
    generator.manual_seed(config.seed + first)
    attention, branch, hidden = config.dropout
    (steps, batch, width), (n_layers, d_ff) = like.shape, params.up_bias.shape

    def mask(probability: float, *shape: int) -> Tensor | None:
        if probability == 0:
            return None
        kept = 1 - probability
        drawn = like.new_empty(shape).bernoulli_(kept, generator=generator)
        return drawn.div_(kept) if kept else drawn

    return Masks(
        mask(attention, config.heads * batch, steps * n_layers, slots),
        mask(branch, n_layers, steps, batch, width),
        mask(branch, n_layers, steps, batch, width),
        mask(hidden, n_layers, steps, batch, d_ff),
    )


def times(x: Tensor, mask: Tensor | None, *index: int) -> Tensor:
    """Multiplies with a mask, or its entry at `index`, if there is one."""
    return x if mask is None else x * mask[index]


def attention_mask(masks: Masks, t: int, n_layers: int, window: slice) -> Tensor | None:
    """The mask of all layers for the window of a step, `[L, H·B, 1, S]`."""
    if masks.attention is None:
        return None
    of_step = masks.attention[:, t * n_layers : (t + 1) * n_layers, window]
    return of_step.transpose(0, 1).unsqueeze(2)


def window_of(end: int, config: Config) -> slice:
    r"""The slots that a step attends to, if `end` are written: $S - \tau, …, S - 1$."""
    return slice(0 if config.horizon is None else max(0, end - config.horizon), end)


class Span(NamedTuple):
    r"""
    ## A span of steps

    * `start`, `stop` delimit the steps, $t =$ `start`, …, `stop` $- 1$, whose dropout
      masks are drawn at once
    * `low` is the first slot that its first step attends to; no later step attends to
      an older one
    * `slots` is the number of slots that any of its steps attends to
    """

    start: int
    stop: int
    low: int
    slots: int


Results = tuple[Tensor, ...]


class Passes(NamedTuple):
    r"""
    ## One operation for autograd

    Both kernels of the recurrence are a pair of functions with the arguments and
    results of [`run_forward`](feedback_by_hand.py#run_forward) and
    [`run_backward`](feedback_by_hand.py#run_backward), and the spans of their dropout
    masks.
    `queries` finds those of all steps among the stored activations, `[L, B, T, C]`.
    """

    forward: Callable[..., tuple[Sequence[Tensor | None], Results]]
    backward: Callable[..., tuple[Tensor, Tensor, Tensor, Params]]
    spans: Callable[[int, int, int | None], Iterable[Span]]
    queries: Callable[[Any, int], Tensor]


def run_differentiably(
    spans: Iterable[Span],
    config: Config,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    params: Params,
) -> Results:
    r"""
    ### For second derivatives

    The same recurrence without any operation in place. It is slow, and its gradients
    can be differentiated as often as you like.
    """
    p, before, width = params, len(keys), x_seq.shape[-1:]
    top, all_keys, all_values = [], [*keys], [*values]

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, width, eps=config.eps)

    for span in spans:
        masks = draw_masks(
            config, p, x_seq[span.start : span.stop], span.start, span.slots
        )
        for t in range(span.start, span.stop):
            step, window = t - span.start, window_of(before + t, config)
            slots = window.stop - window.start
            near = p.distance.shape[2] - slots
            local = slice(window.start - span.low, window.stop - span.low)
            drop = attention_mask(masks, step, len(p.query), local)
            levels = [x_seq[t]]
            for i in range(len(p.query)):
                z = levels[i]
                if slots:
                    query = F.linear(norm(z), p.query[i], p.query_bias[i])
                    query = torch.unflatten(query, -1, (config.heads, -1))
                    key, value = (
                        torch.stack(each[window]) for each in (all_keys, all_values)
                    )
                    scores = torch.einsum("bhd,sbhd->hbs", query, key)
                    distance = p.distance[i, :, near:]
                    scores = scores + torch.einsum("bhd,hsd->hbs", query, distance)
                    attn = (scores + p.distance_bias[i, :, None, near:]).softmax(-1)
                    if drop is not None:
                        attn = attn * drop[i].view_as(attn)
                    heads_out = torch.einsum("hbs,sbhd->bhd", attn, value).flatten(1)
                    added = F.linear(heads_out, p.output[i], p.output_bias[i])
                    z = z + times(added, masks.attended, i, step)
                hidden = F.linear(norm(z), p.up[i], p.up_bias[i]).relu()
                hidden = times(hidden, masks.hidden, i, step)
                added = F.linear(hidden, p.down[i].mT, p.down_bias[i])
                levels.append(z + times(added, masks.projected, i, step))
            vector = torch.tensordot(p.shares, torch.stack(levels), 1)
            vector = norm(vector) if config.norm_memory else vector
            slot = F.linear(vector, p.memory, p.memory_bias)
            slot = torch.unflatten(slot, -1, (2 * config.heads, -1))
            all_keys.append(slot[:, : config.heads])
            all_values.append(slot[:, config.heads :])
            top.append(levels[-1])
    new = (torch.stack(each[before:]) for each in (all_keys, all_values))
    return (torch.stack(top), *new)


class Recurrence(torch.autograd.Function):
    r"""
    Nothing is stored in a module, so two forward passes may precede a backward pass.
    The backward pass works in place. With `create_graph=True` it is that of
    [the same recurrence without operations in place](#run_differentiably).
    """

    @staticmethod
    def forward(
        ctx: Any,
        passes: Passes,
        config: Config,
        x_seq: Tensor,
        keys: Tensor,
        values: Tensor,
        *params: Tensor,
    ) -> Results:
        tensors = x_seq, keys, values, Params(*params)
        stored, results = passes.forward(*tensors, config, store=True)
        ctx.passes, ctx.config, ctx.before = passes, config, len(keys)
        ctx.save_for_backward(x_seq, keys, values, *params, *stored)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    @without_autocast
    def backward(
        ctx: Any, top: Tensor | None, keys: Tensor | None, values: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        passes, config = ctx.passes, ctx.config
        x_seq, older, old_values, *saved = ctx.saved_tensors
        number = len(Params._fields)
        params, stored = Params(*saved[:number]), saved[number:]
        if torch.is_grad_enabled():
            inputs = x_seq, older, old_values, *params
            spans = passes.spans(len(x_seq), ctx.before, config.horizon)
            results = run_differentiably(spans, config, *inputs[:3], params)
            given = zip(results, (top, keys, values), strict=True)
            results, grads = zip(
                *((x, g) for x, g in given if g is not None), strict=True
            )
            wanted = [x for x in inputs if x.requires_grad]
            found = iter(
                torch.autograd.grad(
                    results, wanted, grads, create_graph=True, allow_unused=True
                )
            )
            of_inputs = [next(found) if x.requires_grad else None for x in inputs]
            return None, None, *of_inputs
        if top is None:
            top = torch.zeros_like(x_seq)
        *of_inputs, of_params = passes.backward(
            top, keys, values, stored, ctx.before, params, config
        )
        return None, None, *of_inputs, *of_params


def read_with(
    passes: Passes,
    model: FeedbackTransformerKV,
    config: Config,
    x_seq: Tensor,
    memory: FeedbackMemory,
    mask: Tensor | None,
) -> Any:
    r"""
    ## Reading sequences with a kernel

    Computes what `read` returns, the outputs and the memory, with the two passes of
    `passes`.

    **Sequences of different lengths.** The reference shifts memory at each padding
    token. Inside a loop in place this is not possible, and it is not necessary:

    ```text
     tokens            1. left-align      2. read            3. memory, right-aligned
     ·  a  b  ·  c      a  b  c  ·  ·      a  b  c  ·  ·      ·  a  b  c
     d  ·  ·  e  ·      d  e  ·  ·  ·      d  e  ·  ·  ·      ·  ·  d  e
     f  g  h  i  ·      f  g  h  i  ·      f  g  h  i  ·      f  g  h  i
    ```

    The tokens of each sequence are moved together. Padding then comes after them, where
    it has no influence on them, whatever the loop computes for it. The memory of a
    sequence ends with the slot of its last token.

    **Dropout.** PyTorch's generator draws the seed of the masks, so that
    `torch.manual_seed` determines them. It is drawn here, where nothing can decline any
    more, so both kernels have the same masks, and a call takes one number.
    """
    if any(config.dropout):
        config = config._replace(seed=int(torch.randint(2**62, ())))
    older, order = len(memory), None
    if mask is not None:
        # Sorting by "is padding", stably, keeps the order of the tokens.
        order = (~mask).to(torch.uint8).argsort(dim=0, stable=True)
        x_seq = x_seq.masked_fill(~mask[..., None], 0)
        x_seq = x_seq.gather(0, order[..., None].expand_as(x_seq))
    keys, values = memory.keys, memory.values
    if keys is None or values is None:
        keys = values = x_seq.new_empty(0, x_seq.shape[1], model.heads, model.d_k)
    longest = older + len(x_seq) - 1
    params = fold_params(model, min(longest, config.horizon or longest))
    queries, width = [], x_seq.shape[-1]

    def forward(*tensors: Any, store: bool) -> Any:
        stored, results = passes.forward(*tensors, store=store)
        of_steps = passes.queries(stored, width)
        if mask is None:
            queries.append(of_steps[:, :, -1].clone())
        else:
            each = torch.arange(mask.shape[1], device=mask.device)
            queries.append(of_steps[:, each, mask.sum(0) - 1])
        return stored, results

    if torch.is_grad_enabled():
        top, *new = Recurrence.apply(  # type: ignore[no-untyped-call]
            passes._replace(forward=forward), config, x_seq, keys, values, *params
        )
    else:
        # Sequences of different lengths have their last queries at different steps.
        store = mask is not None
        _, (top, *new) = forward(x_seq, keys, values, params, config, store=store)
    if older:
        new = [torch.cat(pair) for pair in zip((keys, values), new, strict=True)]
    record(model, queries[0], new[0], params, older, mask)

    all_keys, all_values = new
    length = min(len(all_keys), config.horizon or len(all_keys))
    if mask is None or order is None:
        present = memory.mask
        if present is not None:
            present = present.new_ones(length, x_seq.shape[1])
        return top, FeedbackMemory(all_keys[-length:], all_values[-length:], present)

    top = top.gather(0, order.argsort(dim=0)[..., None].expand_as(top))
    top = top.masked_fill(~mask[..., None], 0)
    slot = older + mask.sum(0) + torch.arange(-length, 0, device=top.device)[:, None]
    index = slot.clamp(min=0)[..., None, None].expand(-1, -1, *all_keys.shape[2:])
    absent = (slot < 0)[..., None, None]
    all_keys, all_values = (
        slots.gather(0, index).masked_fill(absent, 0) for slots in new
    )
    return top, FeedbackMemory(all_keys, all_values, slot >= 0)


def record(
    model: FeedbackTransformerKV,
    queries: Tensor,
    keys: Tensor,
    params: Params,
    before: int,
    mask: Tensor | None,
) -> None:
    """
    ## Weights for those who look

    The attention of each layer shows the weights of its last step, `attn`. They are
    computed when somebody reads them, from the queries of that step, `[L, B, C]`, and
    the keys, `[S, B, H, D]`, with which memory goes on. A sequence that ends in padding
    has none: its weights are zero.
    """
    keys, tables = keys.detach(), (params.distance, params.distance_bias)
    distance, bias = (table.detach() for table in tables)
    for number, layer in enumerate(model.layers):
        attention: Any = layer.attn
        attention.__dict__["attn"] = functools.partial(
            weights, number, queries, keys, distance, bias, before, mask
        )


def weights(
    number: int,
    queries: Tensor,
    keys: Tensor,
    distance: Tensor,
    bias: Tensor,
    before: int,
    mask: Tensor | None,
) -> Float[Tensor, "S B H"]:
    """Those of one layer. Its distances are as many as its slots."""
    with torch.no_grad():
        slots = distance.shape[2]
        absent = None
        if mask is None:
            keys = keys[-slots - 1 : -1]
        else:
            # The slots of a sequence are those before its own last token.
            last = before + mask.sum(0) - 1
            slot = last + torch.arange(-slots, 0, device=keys.device)[:, None]
            absent = ((slot < 0) | ~mask[-1])[..., None]
            index = slot.clamp(min=0)[..., None, None].expand(-1, -1, *keys.shape[2:])
            keys = keys.gather(0, index)
        query = torch.unflatten(queries[number], -1, keys.shape[2:])
        scores = torch.einsum("bhd,sbhd->sbh", query, keys)
        scores = scores + torch.einsum("bhd,hsd->sbh", query, distance[number])
        scores = scores + bias[number].T.unsqueeze(1)
        if absent is None:
            return scores.softmax(dim=0)
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(absent, lowest).softmax(0).masked_fill(absent, 0.0)
