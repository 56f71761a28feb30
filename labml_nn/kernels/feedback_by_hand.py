r"""
---
title: Feedback transformer by hand
summary: >
  Backpropagation through time for the feedback transformer, derived by hand: a short
  loop for what is sequential, and large matrix products for everything else.
paper: https://arxiv.org/abs/2002.09402
---

The [feedback transformer](../transformers/feedback/__init__.py) passes through $L T$
layers one after the other, and each of them is a dozen operations on a few vectors. On
such small operands the time goes into calling operations, not into arithmetic. Autograd
doubles the problem: it walks back through the same sequence of small operations, and
computes the gradient of each weight $T$ times, once per step, to add them up.

This kernel replaces the method `read` of `FeedbackTransformerKV` by one operation for
autograd with a forward and a backward pass of its own, in plain PyTorch, on any device,
in single and double precision. Its idea is to ask of every quantity in the backward
pass *what it depends on*.

**Activations depend on nothing that is missing.** In the forward pass step $t$ had to
wait for memory slot $m_{t-1}$. In the backward pass all slots are known, and so are the
outputs $x_t^l$ of all layers. From these, queries, attention weights and hidden
features are [recomputed](#SpanBackward.recompute) for many steps in parallel. This is
activation checkpointing ([@chen2016training]), with the difference that the second
forward pass is much faster than the first, because it is no loop.

**Gradients of activations are sequential.** We write $\delta_y$ for $\partial
\mathcal{L} / \partial y$. The slot of step $j$ is read by every layer of all later
steps, so its gradient is complete only after all of them:

\begin{align}
\delta_{k_j} &= \sum_{t > j} \sum_{l} \delta_{e_{tj}}^l \, q_t^l, \qquad
\delta_{v_j} = \sum_{t > j} \sum_{l} A_{tj}^l \, \delta_{o_t}^l \\
\delta_{m_j} &= W_K^\top \delta_{k_j} + W_V^\top \delta_{v_j}
\end{align}

Here $o$ is the output of the heads. This recurrence runs from the last step to the
first, and within a step from the top layer to the first. It cannot be parallelized, but
it consists of matrix–vector products only: no gradient of a weight occurs in it.

**Gradients of weights are needed by nothing.** For each linear map $y = W x + b$, with
$y_t^l$ at step $t$,

$$\delta_W = \sum_t \delta_{y_t} \, x_t^\top, \qquad \delta_b = \sum_t \delta_{y_t}$$

The backward pass writes $\delta_{y_t}$ into a buffer, step by step. Then the sum over
steps and sequences is *one* matrix product of two buffers, in place of $T$ small ones.
With it half of the arithmetic of the backward pass leaves the loop.

**Memory.** With $C = 128$, $H = 4$, $L = 4$ and 16 sequences, the peak of forward and
backward pass is 37 MiB for 128 steps, 58 for 256 and 102 for 512: it grows with $T$,
because $L + 1$ vectors and one slot are stored per step. The attention weights, which
grow with $T^2$, exist for one span of steps at a time.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^l$ | `outputs` | `[T, L + 1, B, C]` | outputs of all layers, embeddings first |
| $k_j$, $v_j$ | `keys`, `values` | `[H·B, S, D]` | memory of each head and sequence |
| $q$ | `query` | `[H, B, D]` | queries |
| $e$, $A$ | `scores`, `attn` | `[H·B, 1, S]` | attention scores and weights |
| $o$ | `buffers.concat` | `[B, C]` | outputs of the heads, concatenated |
| $z$ | `z` | `[B, C]` | input of the feed-forward network |
| $p$, $h$ | `up`, `hidden` | `[B, F]` | hidden features before and after $f$ |
| $n$ | `steps` | | steps of a span |
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.kernels import kernel_for
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.mha import PrepareForMultiHeadAttention

# ## Supported models
#
# The activation function must act on each number alone and have no parameters: its
# derivative is then one number per feature.
ACTIVATIONS: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Identity),
    *(nn.ELU, nn.LeakyReLU, nn.Mish, nn.Softplus),
)
ACTIVATION_FUNCTIONS: tuple[object, ...] = (
    *(F.relu, F.gelu, F.silu, F.sigmoid, F.tanh, F.elu, F.leaky_relu, F.mish),
    *(torch.relu, torch.sigmoid, torch.tanh),
)
SUBMODULES: set[type[nn.Module]] = {
    *(FeedbackTransformerLayer, FeedbackAttention, FeedForward),
    *(PrepareForMultiHeadAttention, nn.ModuleList, nn.Linear, nn.LayerNorm),
    *(nn.Dropout, nn.Softmax, *ACTIVATIONS),
}

# With fewer tokens, folding the parameters takes longer than the loop saves.
SHORTEST = 4


@dataclass(frozen=True)
class Dropout:
    r"""
    ## Dropout probabilities

    * `attention` is for attention weights
    * `branch` is for the features that attention, or the network, adds
    * `hidden` is for the hidden features of the network
    * `seed` starts the random numbers
    """

    attention: float = 0.0
    branch: float = 0.0
    hidden: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Config:
    r"""
    ## Static configuration

    Everything about a model that is not a tensor.

    * `heads` is the number of heads, $H$
    * `eps` is the $\epsilon$ of all norms
    * `horizon` is $\tau$, the number of slots that a step attends to; `None` for all
    * `norm_memory` is whether memory vectors are normalized
    * `activation` is $f$, and `is_gated` whether the network has a gate
    * `dropout` is `None` if nothing is dropped
    """

    heads: int
    eps: float
    horizon: int | None
    norm_memory: bool
    activation: Callable[[Tensor], Tensor]
    is_gated: bool
    dropout: Dropout | None = None

    @property
    def is_relu(self) -> bool:
        """Whether the network is the plain one, with a ReLU and no gate."""
        relu = isinstance(self.activation, nn.ReLU)
        return (relu or self.activation in (F.relu, torch.relu)) and not self.is_gated


def config_of(model: FeedbackTransformerKV) -> Config | None:
    r"""
    Reads the configuration. Returns `None` for what the kernel does not support: all
    layers are computed with the same code, so they may differ in their parameters only.

    PyTorch's generator draws the seed of the dropout masks, so that `torch.manual_seed`
    determines them.
    """
    first: Any = model.layers[0]
    norms = [module for module in model.modules() if type(module) is nn.LayerNorm]
    if (
        len({_static(layer) for layer in model.layers}) > 1
        or len({norm.eps for norm in norms}) > 1
        or any(norm.weight is None or norm.bias is None for norm in norms)
        or model.softmax.dim not in (0, -1)
        or first.attn.softmax.dim != 0
    ):
        return None
    network = first.feed_forward
    activation = network.activation
    if isinstance(activation, nn.Module):
        if type(activation) not in ACTIVATIONS or getattr(activation, "inplace", False):
            return None
    elif activation not in ACTIVATION_FUNCTIONS:
        return None
    attention, branch, hidden = (
        dropout.p if dropout.training else 0.0
        for dropout in (first.attn.dropout, first.dropout, network.dropout)
    )
    dropout = None
    if attention or branch or hidden:
        dropout = Dropout(attention, branch, hidden, int(torch.randint(2**62, ())))
    return Config(
        heads=model.heads,
        eps=first.norm_ff.eps,
        horizon=model.horizon,
        norm_memory=isinstance(model.norm_memory, nn.LayerNorm),
        activation=activation,
        is_gated=network.is_gated,
        dropout=dropout,
    )


def _static(layer: Any) -> tuple[object, ...]:
    dropouts = [module for module in layer.modules() if isinstance(module, nn.Dropout)]
    network, attn = layer.feed_forward, layer.attn
    return (
        *((dropout.p, dropout.training) for dropout in dropouts),
        *(network.is_gated, repr(network.activation), network.layer1.weight.shape),
        *(attn.P, attn.heads, attn.softmax.dim),
    )


class Params(NamedTuple):
    r"""
    ## Folded parameters

    Whatever is the same at each step is computed before the first one. Three identities
    each remove an operation from the loop.

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

    All of this is ordinary PyTorch, and autograd computes the gradients of the model's
    parameters from those of the folded ones. Layers are stacked, because the gradients
    of all layers are one batched product. With a gate, `up` has $2F$ rows.

    | | | Shape |
    |:--|:--|:--|
    | $W_Q$, $u$ | `query`, `query_bias` | `[L, C, C]`, `[L, C]` |
    | $E_d$, $b'_d$ | `distance`, `distance_bias` | `[L, H, S, D]`, `[L, H, S]` |
    | $W_O$, $b_O$ | `output`, `output_bias` | `[L, C, C]`, `[L, C]` |
    | $W_1$, $b_1$ | `up`, `up_bias` | `[L, F, C]`, `[L, F]` |
    | $W_2$, $b_2$ | `down`, `down_bias` | `[L, F, C]`, `[L, C]` |
    | $\operatorname{softmax}(w)$ | `shares` | `[L + 1]` |
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
    r"""
    * `length` is the number of distances that will be needed, $S$

    Returns the folded parameters with their history.
    """
    layers: list[Any] = list(model.layers)
    query, query_bias = _stack(
        [_behind(layer.norm_self_attn, layer.attn.query.linear) for layer in layers]
    )
    u = torch.stack([layer.attn.query_pos_bias for layer in layers])
    embeddings, bias = _stack([_distances(layer.attn, length) for layer in layers])
    scale = query.new_tensor([layer.attn.scale for layer in layers])
    for_all = bias - (embeddings * u.unsqueeze(1)).sum(-1)
    up, up_bias = _stack([_up(layer) for layer in layers])
    output, output_bias = _stack([_linear(layer.attn.output) for layer in layers])
    down, down_bias = _stack([_linear(layer.feed_forward.layer2) for layer in layers])
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


def _stack(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    first, second = zip(*pairs, strict=True)
    return torch.stack(first), torch.stack(second)


def _linear(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    weight, bias = linear.weight, linear.bias
    return weight, weight.new_zeros(len(weight)) if bias is None else bias


# The first identity, for maps that read the same vector, normalized or not.
def _behind(norm: nn.Module, *linears: nn.Linear) -> tuple[Tensor, Tensor]:
    weights, biases = zip(*(_linear(linear) for linear in linears), strict=True)
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    bias = biases[0] if len(biases) == 1 else torch.cat(biases)
    if not isinstance(norm, nn.LayerNorm):
        return weight, bias
    return weight * norm.weight, bias + weight @ norm.bias


def _up(layer: Any) -> tuple[Tensor, Tensor]:
    network = layer.feed_forward
    gate = (network.linear_v,) if network.is_gated else ()
    return _behind(layer.norm_ff, network.layer1, *gate)


# ## Spans
#
# The backward pass works on spans of some steps. Everything that is not sequential is
# computed for a whole span at once. More steps make larger products, and need more
# memory for them.
STEPS = 16


@dataclass(frozen=True)
class Span:
    r"""
    ### A span of steps

    * `start`, `stop` delimit its steps, $t =$ `start`, …, `stop` $- 1$
    * `before` is the number of slots before step 0: step $t$ writes slot `before` $+ t$
    * `low` is the first slot that its first step attends to; no later step attends to
      an older one
    """

    start: int
    stop: int
    before: int
    low: int

    @property
    def steps(self) -> int:
        """The number of steps, $n$."""
        return self.stop - self.start

    @property
    def old(self) -> int:
        """The number of slots that its first step attends to."""
        return self.before + self.start - self.low

    @property
    def slots(self) -> int:
        """The number of slots that any of its steps attends to."""
        return self.old + self.steps - 1


def spans(
    length: int, before: int, horizon: int | None, longer: int = 1
) -> Iterator[Span]:
    r"""
    * `length` is $T$, and `before` the number of slots at the beginning
    * `longer` multiplies the length of the spans, where no dropout masks are drawn
    """
    steps = STEPS * longer
    for start in range(0, length, steps):
        low = 0 if horizon is None else max(0, before + start - horizon)
        yield Span(start, min(length, start + steps), before, low)


class Masks(NamedTuple):
    r"""
    ### Dropout masks of a span

    Factors 0 or $1 / (1 - p)$; `None` where nothing is dropped.

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
    config: Config, span: Span, like: Tensor, n_layers: int, batch: int, d_ff: int
) -> Masks:
    r"""
    The backward pass needs the masks of the forward pass. Stored, those of attention
    alone would be as large as all attention weights. A generator returns the same
    numbers for the same seed, so only the seed is stored, and each span draws its masks
    again.
    """
    dropout = config.dropout
    if dropout is None:
        return Masks()
    generator = torch.Generator(like.device)
    generator.manual_seed(dropout.seed + span.start)

    def mask(probability: float, *shape: int) -> Tensor | None:
        if probability == 0:
            return None
        kept = 1 - probability
        drawn = like.new_empty(shape).bernoulli_(kept, generator=generator)
        return drawn.div_(kept) if kept else drawn

    steps, width = span.steps, like.shape[-1]
    return Masks(
        mask(dropout.attention, config.heads * batch, steps * n_layers, span.slots),
        mask(dropout.branch, n_layers, steps, batch, width),
        mask(dropout.branch, n_layers, steps, batch, width),
        mask(dropout.hidden, n_layers, steps, batch, d_ff),
    )


def times(x: Tensor, mask: Tensor | None) -> Tensor:
    """Multiplies in place."""
    return x if mask is None else x.mul_(mask)


# ## Forward pass
#
# The equations of the lesson with folded parameters. A layer at step $t$ is
#
# \begin{align}
# q &= W_Q \, \hat{x}^{l-1} + u \\
# A &= \operatorname{softmax}_j \left( q^\top k_j + q^\top E_d + b'_d \right) \\
# o &= \textstyle\sum_j A_j v_j \\
# z &= x^{l-1} + W_O \, o + b_O \\
# h &= f(W_1 \hat{z} + b_1) \\
# x^l &= z + W_2^\top h + b_2
# \end{align}
#
# and at its end the step writes a slot,
#
# $$m_t = \sum_l \operatorname{softmax}(w)_l \, x_t^l, \qquad
# (k_t, v_t) = W_{KV} \, \hat{m}_t$$


class Activations(NamedTuple):
    r"""
    ### Stored activations

    All that the backward pass needs:

    * `outputs` is $x_t^l$ of all steps and layers, `[T, L + 1, B, C]`
    * `keys`, `values` are all slots, with those before, `[H·B, before + T, D]`

    A score is a sum over the $D$ features of a key, and the output of a head is a sum
    over time. A product is fastest where the terms of a sum lie in different rows of
    memory and its results side by side. So values have features along their rows, and
    keys have time: `keys` is a transposed view of a tensor `[H·B, D, S]`.
    """

    outputs: Tensor
    keys: Tensor
    values: Tensor

    @staticmethod
    def allocate(
        x_seq: Tensor, keys: Tensor, values: Tensor, n_layers: int
    ) -> "Activations":
        """With the embeddings and the slots before, `[S, B, H, D]`, in their places."""
        length, batch, width = x_seq.shape
        before, _, heads, d_k = keys.shape
        outputs = x_seq.new_empty(length, n_layers + 1, batch, width)
        outputs[:, 0] = x_seq
        pairs, slots = heads * batch, before + length
        activations = Activations(
            outputs,
            x_seq.new_empty(pairs, d_k, slots).transpose(1, 2),
            x_seq.new_empty(pairs, slots, d_k),
        )
        for new, old in ((activations.keys, keys), (activations.values, values)):
            new[:, :before] = old.permute(2, 1, 0, 3).flatten(0, 1)
        return activations


class Buffers(NamedTuple):
    r"""
    ### Buffers of the loop

    `x.view(4, 16, 32)` moves no data, but takes about as long as an addition of two
    small vectors, 1 µs. The loop needs the same vectors in two layouts: features side
    by side for linear maps, heads first for attention. So it writes into two buffers
    that are allocated and viewed once.

    * `concat` has the heads of a sequence side by side, `[B, C]`; `concat_by_head` is a
      view of it, `[H, B, D]`
    * `heads` has the sequences of a head one after the other, `[H, B, D]`; `rows` is a
      view of it, `[H·B, 1, D]`
    """

    concat: Tensor
    concat_by_head: Tensor
    heads: Tensor
    rows: Tensor

    @staticmethod
    def allocate(like: Tensor, heads: int) -> "Buffers":
        """For vectors like those of `like`, `[…, B, C]`."""
        concat = like.new_empty(like.shape[-2:])
        concat_by_head = torch.unflatten(concat, 1, (heads, -1)).transpose(0, 1)
        by_head = concat.new_empty(concat_by_head.shape)
        rows = by_head.flatten(0, 1).unsqueeze(1)
        return Buffers(concat, concat_by_head, by_head, rows)


def normalize(x: Tensor, config: Config) -> tuple[Tensor, Tensor, Tensor]:
    r"""$\hat{x}$, and $\mu$ and $1 / \sigma$, which its derivative needs."""
    return torch.native_layer_norm(x, x.shape[-1:], None, None, config.eps)


def activate(config: Config, up: Tensor) -> Tensor:
    r"""
    $f(p)$; with a gate, whose features are the second half of `up`, $f(p) \odot p'$.
    `up` may be overwritten.
    """
    if type(config.activation) is nn.ReLU and not config.is_gated:
        return up.relu_()
    if not config.is_gated:
        return config.activation(up)
    feature, gate = up.chunk(2, -1)
    return config.activation(feature) * gate


def attend(
    buffers: Buffers,
    keys: Tensor,
    values: Tensor,
    distance: Tensor,
    distance_bias: Tensor,
    empty: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    r"""
    ### Attention of a layer

    Reads the queries from `buffers.concat`, and returns the outputs of the heads there.

    * `keys`, `values` are the slots in the window, `[H·B, D, S]` and `[H·B, S, D]`
    * `distance`, `distance_bias` are $E$, `[H, D, S]`, and $b'$, `[H, 1, S]`
    * `empty` is `True` for slots that do not belong to a sequence, `[B, ≤ S]`: they are
      the oldest
    * `mask` is the dropout mask of the weights, `[H·B, 1, S]`
    """
    query = buffers.heads.copy_(buffers.concat_by_head)

    # Distances are the same for all sequences, so their scores are one product per
    # head. The scores of keys are added for each sequence.
    scores = torch.baddbmm(distance_bias, query, distance)
    scores = scores.view(len(keys), 1, -1).baddbmm_(buffers.rows, keys)
    if empty is not None:
        oldest = scores.view(*query.shape[:2], -1)[..., : empty.shape[1]]
        oldest.masked_fill_(empty, -math.inf)
    attn = times(scores.softmax(-1), mask)
    torch.bmm(attn, values, out=buffers.rows)
    buffers.concat_by_head.copy_(buffers.heads)
    return buffers.concat


def run_forward(
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    empty: Tensor | None,
    params: Params,
    config: Config,
) -> Activations:
    r"""
    ### The loop

    * `x_seq` are embedded sequences, `[T, B, C]`
    * `keys`, `values` are the slots before, at least one, `[S, B, H, D]`
    * `empty` is `True` for those that do not belong to a sequence, `[S, B]`; `None` if
      all do. Each sequence has one at least
    """
    p, heads, before, n_layers = params, config.heads, len(keys), len(params.query)
    activations = Activations.allocate(x_seq, keys, values, n_layers)
    outputs, all_keys, all_values = activations
    buffers = Buffers.allocate(x_seq, heads)

    # Transposed views, because vectors are rows: a map is `x @ weight`. A matrix for
    # each of $2 H$ heads writes keys and values heads first, so that no copy is needed.
    linears = (
        *(p.query.mT, p.query_bias, p.output.mT, p.output_bias),
        *(p.up.mT, p.up_bias, p.down, p.down_bias),
    )
    layers = list(zip(*(stacked.unbind() for stacked in linears), strict=True))
    memory = torch.unflatten(p.memory, 0, (2 * heads, -1)).mT
    memory_bias = torch.unflatten(p.memory_bias, 0, (2 * heads, 1, -1))
    new = [slots[:, before:].unbind(1) for slots in (all_keys, all_values)]

    for span in spans(len(x_seq), before, config.horizon):
        masks = draw_masks(
            config, span, x_seq, n_layers, x_seq.shape[1], p.down.shape[1]
        )
        for t in range(span.start, span.stop):
            # The window: slots $S_t - \tau, \dots, S_t - 1$, and their distances.
            step, end = t - span.start, before + t
            first = 0 if config.horizon is None else max(0, end - config.horizon)
            near = p.distance.shape[2] - (end - first)
            window = all_keys[:, first:end].mT, all_values[:, first:end]
            distance = p.distance[:, :, near:].mT.unbind()
            bias = p.distance_bias[:, :, None, near:].unbind()
            absent = empty[first:].T if empty is not None and first < before else None
            x, *above = outputs[t].unbind()
            for number, out in enumerate(above):
                query, u, output, b_o, w_1, b_1, w_2, b_2 = layers[number]
                dropped, *others = _masks_at(masks, step, number, n_layers)
                if dropped is not None:
                    dropped = dropped[..., first - span.low : end - span.low]
                torch.addmm(u, normalize(x, config)[0], query, out=buffers.concat)
                attend(
                    buffers, *window, distance[number], bias[number], absent, dropped
                )
                added = torch.addmm(b_o, buffers.concat, output)
                z = times(added, others[0]).add_(x)
                up = torch.addmm(b_1, normalize(z, config)[0], w_1)
                hidden = times(activate(config, up), others[2])
                added = torch.addmm(b_2, hidden, w_2)
                x = torch.add(z, times(added, others[1]), out=out)

            # The slot. All levels of a step are side by side: $m_t$ is one product.
            vector = torch.mv(outputs[t].flatten(1).T, p.shares).view_as(x)
            if config.norm_memory:
                vector = normalize(vector, config)[0]
            slot = torch.baddbmm(memory_bias, vector.expand(2 * heads, -1, -1), memory)
            for slots, half in zip(new, slot.chunk(2), strict=True):
                slots[t].copy_(half.view(slots[t].shape))
    return activations


def _masks_at(masks: Masks, step: int, number: int, n_layers: int) -> Masks:
    """Of one layer at one step: `[H·B, 1, slots]`, `[B, C]` twice and `[B, F]`."""
    if masks.attention is None and all(mask is None for mask in masks):
        return masks
    attention, *others = masks
    if attention is not None:
        attention = attention[:, step * n_layers + number, None]
    return Masks(attention, *(x if x is None else x[number, step] for x in others))


def results_of(
    activations: Activations, before: int, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    r"""
    Returns the outputs of the last layer, `[T, B, C]`, and the new keys and values,
    `[T, B, H, D]`. They are copies, so that a user may change them in place without
    changing what the backward pass will read.
    """
    outputs, *memory = activations
    keys, values = (_by_step(slots[:, before:], heads).clone() for slots in memory)
    return outputs[:, -1].clone(), keys, values


def _by_step(slots: Tensor, heads: int) -> Tensor:
    """From `[H·B, S, D]` to `[S, B, H, D]`."""
    return torch.unflatten(slots, 0, (heads, -1)).permute(2, 1, 0, 3)


# ## Backward pass
#
# The loop of the forward pass, read from its last line to its first. A hat is a
# normalized vector, and $N$ takes a gradient [through a norm](#normalize_backward). At
# step $t$, first **the slot**, to which all later steps have added their gradients:
#
# $$\delta_m = N \left( W_{KV}^\top \, (\delta_{k_t}, \delta_{v_t}) \right)$$
#
# Then **the layers**, from the last to the first. The gradient of the last output
# begins with $g_t$, which comes from the loss, and $\delta_m$ is added at each level
# $l$ with its share $s_l = \operatorname{softmax}(w)_l$:
#
# \begin{align}
# \delta_{x^L} &= g_t + s_L \, \delta_m \\
# \delta_p &= f'(p) \odot W_2 \, \delta_{x^l} \\
# \delta_z &= \delta_{x^l} + N(W_1^\top \delta_p) \\
# \delta_o &= W_O^\top \, \delta_z \\
# \delta_{A_j} &= \delta_o^\top v_j \\
# \delta_{e_j} &= A_j \left( \delta_{A_j} - \textstyle\sum_i A_i \delta_{A_i} \right) \\
# \delta_q &= \textstyle\sum_j \delta_{e_j} \, (k_j + E_{S - j}) \\
# \delta_{x^{l-1}} &= \delta_z + N(W_Q^\top \delta_q) + s_{l-1} \, \delta_m
# \end{align}
#
# The sum in $\delta_{e_j}$ is that of the softmax: weights sum to one, so a gradient
# that all weights have in common changes nothing.


class Scratch:
    r"""
    ### Reused memory

    Each span needs the same large tensors. New memory has to be found and cleared by
    the operating system, which took longer than the products. So each tensor is
    allocated once, by name, and the next span overwrites it. A `Scratch` lives as long
    as one backward pass.
    """

    def __init__(self, like: Tensor) -> None:
        """Tensors of the dtype and on the device of `like`."""
        self.like = like
        self.space: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """A tensor of this shape, with arbitrary contents."""
        size = math.prod(shape)
        space = self.space.get(name)
        if space is None or space.numel() < size:
            space = self.space[name] = self.like.new_empty(size)
        return space[:size].view(shape)


def by_slot(by_distance: Tensor, slots: int) -> Tensor:
    r"""
    ### From distances to slots

    The score of a distance is needed at the slot that lies so far back, which is a
    different one at each step. With three steps, which attend to 2, 3 and 4 slots:

    ```text
     by distance              by slot
     4  3  2  1               slot 0 slot 1 slot 2 slot 3
     ·  ·  b  a       ──►       b      a      ·      ·
     ·  f  e  d                 f      e      d      ·
     k  j  i  h                 k      j      i      h
    ```

    Each row must move to the left, by one place less than the row above it. No number
    has to be copied for that: a tensor is a list of numbers with a stride between rows,
    and with a stride that is smaller by one, each row begins one place earlier.

    * `by_distance` is `[L, H, n, B, slots + n - 1]`: distances `slots`, …, 1, and
      $n - 1$ places into which the moved rows reach

    Returns a view `[H, B, n, L, slots]`; the slots of the future are to be masked.
    """
    n_layers, heads, steps, batch, _ = by_distance.shape
    layer, head, step, sequence, one = by_distance.stride()
    return by_distance.as_strided(
        (heads, batch, steps, n_layers, slots),
        (head, sequence, step - one, layer, one),
        steps - 1,
    )


def slopes_of(up: Tensor, config: Config) -> tuple[Tensor, Tensor | None]:
    r"""
    ### Derivative of the activation function

    * `up` is $p = W_1 \hat{z} + b_1$; it may be overwritten

    Returns $h$ and $f'(p)$. For the ReLU $h$ itself shows the slope. For the other
    functions we ask autograd: a feature depends on its own $p$ (and gate) alone, so the
    gradient of the sum of all features is the slope of each.
    """
    if type(config.activation) is nn.ReLU and not config.is_gated:
        return up.relu_(), None
    with torch.enable_grad():
        leaf = up.detach().requires_grad_()
        hidden = activate(config, leaf)
        (slopes,) = torch.autograd.grad(hidden.sum(), leaf)
    return hidden.detach(), torch.unflatten(slopes, -1, (1 + config.is_gated, -1))


def normalize_backward(grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    r"""
    ### Through a norm

    With $\hat{x} = (x - \mu) / \sigma$,

    $$N(\delta_{\hat{x}}) = \frac{1}{\sigma} \left( \delta_{\hat{x}}
        - \operatorname{mean}(\delta_{\hat{x}})
        - \hat{x} \operatorname{mean}(\delta_{\hat{x}} \odot \hat{x}) \right)$$

    A shift of $x$ or a longer $x$ does not change $\hat{x}$. The two means remove these
    directions from the gradient.
    """
    only_x = [True, False, False]
    through: Tensor = torch.ops.aten.native_layer_norm_backward(
        grad, x, x.shape[-1:], mean, rstd, None, None, only_x
    )[0]
    return through


relu_backward = torch.ops.aten.threshold_backward.grad_input


class Gradients(NamedTuple):
    r"""
    ### Gradients of everything

    * `x_seq` is `[T, B, C]`
    * `keys`, `values` are those of all slots, `[H·B, before + T, D]`
    * `params` are those of all folded parameters
    """

    x_seq: Tensor
    keys: Tensor
    values: Tensor
    params: Params


class SpanBackward:
    r"""
    ### Backward pass of a span

    Recomputed activations, all with an axis of $L$ layers and one of $n$ steps:

    * `x`, `z` are the inputs of the two sub-layers, `[L, n, B, C]`; `x_norm`, `z_norm`
      are the same normalized, with $\mu$ and $1 / \sigma$
    * `query_by_layer` is $q$ in the layout for distances, `[L·H, n·B, D]`
    * `attn` is $A$ before dropout, `[H·B, n·L, S]`
    * `heads_out` is $o$, `[L, n, B, C]`
    * `hidden` is $h$, `[L, n, B, F]`, and `slopes` is $f'$, with an axis for feature
      and gate, `[L, n, B, 1 or 2, F]`; `None` for the ReLU, where $h$ shows it
    * `left` and `right` are the two factors of the
      [gradients of slots](#SpanBackward.slot_grads).
      `left[1]` is $A$ after dropout, and `left[0]` has room for $\delta_e$, `[2, H·B,
      n·L, S]`; `right[0]` is $q$, and `right[1]` has room for $\delta_o$, `[2, H·B,
      n·L, D]`

    Gradients, which the steps write for the products at the end of the span:

    * `grad_x`, `grad_z` are $\delta_{x^l}$ and $\delta_z$; `projected`, `attended` are
      those of what the two sub-layers add, the same without dropout; `grad_query` is
      $\delta_q$, all `[L, n, B, C]`
    * `grad_up` is $\delta_p$, `[L, n, B, F]`, or twice as wide with a gate
    * `grad_vector` is $\delta_m$, `[n, B, C]`, and `grad_slot` is $(\delta_k,
      \delta_v)$, `[n, B, 2·C]`
    """

    def __init__(
        self,
        span: Span,
        activations: Activations,
        empty: Tensor | None,
        params: Params,
        config: Config,
        scratch: Scratch,
    ) -> None:
        """What the steps of the span share."""
        self.span, self.params, self.config = span, params, config
        self.scratch = scratch
        self.outputs = activations.outputs[span.start : span.stop]
        slots = slice(span.low, span.low + span.slots)
        keys, values = activations.keys[:, slots], activations.values[:, slots]
        self.recompute(keys, values, empty)
        self.keys, self.values = keys.contiguous(), values.mT.contiguous()

        # Memory vectors, which the steps normalized.
        vectors = torch.matmul(params.shares, self.outputs.flatten(2))
        self.vectors = vectors.view_as(self.outputs[:, 0])
        self.vectors_norm = normalize(self.vectors, config)

        shape = self.x.shape
        _, steps, batch, width = shape
        self.grad_x, self.grad_z = scratch("grad x", *shape), scratch("grad z", *shape)
        self.projected, self.attended = self.grad_x, self.grad_z
        if self.masks.projected is not None:
            self.projected = scratch("projected", *shape)
            self.attended = scratch("attended", *shape)
        self.grad_query = scratch("query", *shape)
        self.grad_up = scratch("up", *shape[:3], params.up.shape[1])
        self.grad_vector = scratch("vector", steps, batch, width)
        self.grad_slot = scratch("slot", steps, batch, 2 * width)

    def recompute(self, keys: Tensor, values: Tensor, empty: Tensor | None) -> None:
        r"""
        ### The forward pass of a span, in parallel

        * `keys`, `values` are those of all slots of the span, `[H·B, S, D]`
        """
        p, config, scratch, heads = self.params, self.config, self.scratch, self.heads
        self.x = x = self.outputs[:, :-1].transpose(0, 1).contiguous()
        n_layers, steps, batch, _ = x.shape
        d_ff = p.down.shape[1]
        self.masks = masks = draw_masks(config, self.span, x, n_layers, batch, d_ff)

        # Queries, in the two layouts that are needed.
        self.x_norm = normalize(x, config)
        query = _linears(self.x_norm[0], p.query, p.query_bias)
        query = torch.unflatten(query, -1, (heads, -1))
        self.query_by_layer = query.permute(0, 3, 1, 2, 4).reshape(
            n_layers * heads, steps * batch, -1
        )
        query = query.permute(3, 2, 1, 0, 4)
        sizes = (2, heads * batch, steps * n_layers)
        self.left = left = scratch("left", *sizes, self.span.slots)
        self.right = right = scratch("right", *sizes, query.shape[-1])
        right[0].view(query.shape).copy_(query)

        # Weights, and the outputs of the heads.
        self.attn = left[1]
        if masks.attention is not None:
            self.attn = scratch("attn", *left.shape[1:])
        self.attention_weights(keys, empty)
        if masks.attention is not None:
            torch.mul(self.attn, masks.attention, out=left[1])
        heads_out = torch.bmm(left[1], values).view(heads, batch, steps, n_layers, -1)
        self.heads_out = heads_out.permute(3, 2, 1, 0, 4).reshape(x.shape)
        added = _linears(self.heads_out, p.output, p.output_bias)
        self.z = x + times(added, masks.attended)

        # Hidden features. A dropped feature has no slope either.
        self.z_norm = normalize(self.z, config)
        out = scratch("hidden", n_layers, steps * batch, p.up.shape[1])
        hidden, slopes = slopes_of(
            _linears(self.z_norm[0], p.up, p.up_bias, out), config
        )
        if masks.hidden is not None:
            if slopes is None:
                slopes = hidden.sign().unsqueeze(-2)
            hidden, slopes = hidden * masks.hidden, slopes * masks.hidden.unsqueeze(-2)
        self.hidden, self.slopes = hidden, slopes

    @property
    def heads(self) -> int:
        """The number of heads, $H$."""
        return self.config.heads

    def padded_distances(self) -> tuple[Tensor, Tensor]:
        r"""
        As many distances as the span has slots, `[L·H, slots, D]` and `[L·H, slots]`.
        The last steps attend to slots that are too far for the first ones; zeros stand
        for distances that no step uses.
        """
        p, slots = self.params, self.span.slots
        missing = max(0, slots - p.distance.shape[2])
        table = F.pad(p.distance, (0, 0, missing, 0))[:, :, -slots:]
        bias = F.pad(p.distance_bias, (missing, 0))[:, :, -slots:]
        return table.flatten(0, 1), bias.flatten(0, 1)

    def attention_weights(self, keys: Tensor, empty: Tensor | None) -> None:
        r"""
        All queries of a sequence meet all slots, one product per head and sequence, and
        all distances, one per layer and head. Slots that a step does not attend to,
        because they are too old or not written yet, are masked.
        """
        span, horizon, query = self.span, self.config.horizon, self.query_by_layer
        n_layers, steps, batch, _ = self.x.shape
        slots = span.slots
        table, bias = self.padded_distances()
        by_distance = self.scratch("distance", *query.shape[:2], slots + steps - 1)
        torch.baddbmm(bias[:, None], query, table.mT, out=by_distance[..., :slots])
        by_distance = by_distance.view(n_layers, self.heads, steps, batch, -1)

        shape = (self.heads, batch, steps, n_layers, slots)
        scores = torch.bmm(self.right[0], keys.mT, out=self.left[0]).view(shape)
        scores += by_slot(by_distance, slots)

        # The distance of each slot for each step, $d = S_t - j$; it is 0 or less for
        # slots of the future. Without a horizon all steps attend to those before.
        first = span.old if horizon is None else 0
        step = torch.arange(steps, device=keys.device)[:, None]
        distance = span.old + step - torch.arange(first, slots, device=keys.device)
        unseen = distance < 1
        if horizon is not None:
            unseen |= distance > horizon
        scores[..., first:].masked_fill_(unseen.unsqueeze(1), -math.inf)
        if empty is not None and span.low < span.before:
            oldest = empty[span.low :].T[:, None, None]
            scores[..., : oldest.shape[-1]].masked_fill_(oldest, -math.inf)
        torch.softmax(scores, -1, out=self.attn.view(shape))

    def views(self) -> list[SimpleNamespace]:
        r"""
        What was recomputed for each layer at each step, and where its gradients go, all
        $L \cdot n$, layer after layer. To split a tensor into all of its views at once
        takes a third of the time of a view when it is needed.
        """
        n_layers, steps, batch, _ = self.x.shape
        nothing = [None] * (n_layers * steps)

        def split(x: Tensor | None) -> Sequence[Tensor | None]:
            return nothing if x is None else x.flatten(0, 1).unbind()

        # These tensors have the layers of a step side by side.
        def by_layer(each: Sequence[Tensor]) -> Sequence[Tensor]:
            return [one for layer in range(n_layers) for one in each[layer::n_layers]]

        def by_step(x: Tensor | None) -> Sequence[Tensor | None]:
            return nothing if x is None else by_layer(x.unsqueeze(2).unbind(1))

        grad_query = torch.unflatten(self.grad_query, -1, (self.heads, -1))
        heads_out = torch.unflatten(self.right[1], 0, (self.heads, batch))
        columns: dict[str, Sequence[Tensor | None]] = {
            **dict(zip(("x_mean", "x_rstd"), map(split, self.x_norm[1:]), strict=True)),
            **dict(zip(("z_mean", "z_rstd"), map(split, self.z_norm[1:]), strict=True)),
            "attended_mask": split(self.masks.attended),
            "projected_mask": split(self.masks.projected),
            "attn_mask": by_step(self.masks.attention),
            "attn": by_step(self.attn),
            "grad_scores": by_step(self.left[0]),
            "grad_heads_rows": by_step(self.right[1]),
            "grad_heads_out": by_layer(heads_out.unbind(2)),
            "grad_query_by_head": split(grad_query.transpose(2, 3)),
        }
        for name in ("x", "z", "hidden", "slopes", "grad_x", "grad_z"):
            columns[name] = split(getattr(self, name))
        for name in ("attended", "projected", "grad_query", "grad_up"):
            columns[name] = split(getattr(self, name))
        rows = zip(*columns.values(), strict=True)
        return [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in rows]

    def run(self, top: Tensor, total: Gradients) -> None:
        r"""
        ### The backward loop

        * `top` is $g$, `[T, B, C]`

        A slot is read by later steps of its own span and by later spans. The gradients
        from later spans are in `total` already, so a step needs the sum over the later
        steps of its own span only. Slots that are older than the span get their
        gradients from all its steps in one product at the end.
        """
        span, p, heads = self.span, self.params, self.heads
        first = span.before + span.start
        new = slice(first, first + span.steps)
        from_later = torch.stack((total.keys[:, new], total.values[:, new]))
        by_step = torch.unflatten(from_later, 1, (heads, -1)).unbind(3)
        slot = torch.unflatten(self.grad_slot, 2, (2, heads, -1))
        slot_by_head = slot.permute(0, 2, 3, 1, 4).unbind()
        linears = (p.query, p.output, p.up, p.down.mT)
        layers = list(zip(*(stacked.unbind() for stacked in linears), strict=True))
        buffers, views = Buffers.allocate(self.x, heads), self.views()

        # The first steps attend to fewer slots: behind distance 1 there are zeros.
        table = F.pad(self.padded_distances()[0], (0, 0, 0, span.steps - 1))
        table = torch.unflatten(table, 0, (len(layers), -1))
        for step in reversed(range(span.steps)):
            t = span.start + step
            slots = slot_by_head[step].copy_(by_step[step])
            if step + 1 < span.steps:
                index, later = span.old + step, (step + 1) * len(layers)
                slots += self.slot_grads(index, index + 1, later).view(slots.shape)
            vector = self.grad_vector[step]
            torch.mm(self.grad_slot[step], p.memory, out=vector)
            if self.config.norm_memory:
                norm = (self.vectors[step], *(x[step] for x in self.vectors_norm[1:]))
                vector.copy_(normalize_backward(vector, *norm))

            # The layers, each with a row for each slot of the span. Slots that the step
            # did not attend to have a weight of zero, and so a gradient of zero.
            near = span.steps - 1 - step
            distance = table[:, :, near : near + span.slots].unbind()
            levels = views[step :: span.steps]
            *below, share = (vector * p.shares[:, None, None]).unbind()
            grad = torch.add(top[t], share, out=levels[-1].grad_x)
            for number in reversed(range(len(layers))):
                query, output, up, down = layers[number]
                grad = feed_forward_backward(grad, levels[number], up, down)
                memory = self.keys, self.values, distance[number]
                grad = attend_backward(
                    grad, levels[number], buffers, *memory, query, output
                )
                into = levels[number - 1].grad_x if number else total.x_seq[t]
                grad = torch.add(grad, below[number], out=into)

        keys, values = self.slot_grads(0, span.old, 0)
        total.keys[:, span.low : first] += keys
        total.values[:, span.low : first] += values

    def slot_grads(self, start: int, stop: int, later: int) -> Tensor:
        r"""
        ### Gradients of slots

        Those of keys and of values are sums of the same kind, and so one product.

        * `start`, `stop` delimit the $j$, counted from the first of the span
        * `later` is the first of the pairs $(t, l)$ to sum over

        Returns both, `[2, H·B, slots, D]`.
        """
        left = self.left[:, :, later:, start:stop].flatten(0, 1)
        product = torch.bmm(left.mT, self.right[:, :, later:].flatten(0, 1))
        return product.view(2, -1, *product.shape[1:])

    def add_weight_grads(self, sums: Params) -> None:
        r"""
        ### Gradients of weights

        At the end of a span the inputs of all linear maps are known and the gradients
        of their outputs are in the buffers. $W_2$ is stored transposed, so its product
        is. The shares are single numbers that multiply whole vectors: $\delta_{s_l} =
        \sum_t \delta_{m_t}^\top x_t^l$.
        """
        for weight, bias, grad, x in (
            (sums.query, sums.query_bias, self.grad_query, self.x_norm[0]),
            (sums.output, sums.output_bias, self.attended, self.heads_out),
            (sums.up, sums.up_bias, self.grad_up, self.z_norm[0]),
            (sums.down.mT, sums.down_bias, self.projected, self.hidden),
        ):
            grad = grad.flatten(1, 2)
            weight.baddbmm_(grad.mT, x.flatten(1, 2))
            bias.add_(grad.sum(1))
        vectors = self.vectors_norm[0] if self.config.norm_memory else self.vectors
        slot = self.grad_slot.flatten(0, 1)
        sums.memory.addmm_(slot.T, vectors.flatten(0, 1))
        sums.memory_bias.add_(slot.sum(0))
        grad = self.grad_vector.flatten(1).unsqueeze(2)
        sums.shares.add_(torch.bmm(self.outputs.flatten(2), grad).sum((0, 2)))

        # Distances are counted from the step that attends, so the gradients of scores
        # go back [from slots to distances](#by_slot) first.
        n_layers, steps, batch, _ = self.x.shape
        slots, heads = self.span.slots, self.heads
        shape = (n_layers, heads, steps, batch, slots + steps - 1)
        by_distance = self.scratch("distance", *shape).zero_()
        scores = self.left[0].view(heads, batch, steps, n_layers, slots)
        by_slot(by_distance, slots).copy_(scores)
        near = min(slots, sums.distance.shape[2])
        grad = by_distance.view(n_layers * heads, steps * batch, -1)
        grad = grad[..., slots - near : slots]
        product = torch.bmm(grad.mT, self.query_by_layer)
        sums.distance[:, :, -near:].add_(product.view(n_layers, heads, near, -1))
        sums.distance_bias[:, :, -near:].add_(grad.sum(1).view(n_layers, heads, near))


def _linears(
    x: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None
) -> Tensor:
    """Layer by layer, of `[L, n, B, C]` with `[L, F, C]`."""
    rows = torch.baddbmm(bias.unsqueeze(1), x.flatten(1, 2), weight.mT, out=out)
    return torch.unflatten(rows, 1, x.shape[1:3])


def feed_forward_backward(
    grad: Tensor, at: SimpleNamespace, up: Tensor, down: Tensor
) -> Tensor:
    r"""
    ### Through the network

    * `grad` is $\delta_{x^l}$, `[B, C]`
    * `at` has the views of the layer at this step
    * `up`, `down` are $W_1$, `[F, C]`, and $W_2$, `[C, F]`

    Returns $\delta_z$.
    """
    if at.projected_mask is not None:
        torch.mul(grad, at.projected_mask, out=at.projected)
    hidden = at.projected.mm(down)
    if at.slopes is None:
        relu_backward(hidden, at.hidden, 0, grad_input=at.grad_up)
    else:
        torch.mul(hidden.unsqueeze(1), at.slopes, out=at.grad_up.view(at.slopes.shape))
    through = normalize_backward(at.grad_up.mm(up), at.z, at.z_mean, at.z_rstd)
    return torch.add(grad, through, out=at.grad_z)


def attend_backward(
    grad: Tensor,
    at: SimpleNamespace,
    buffers: Buffers,
    keys: Tensor,
    values: Tensor,
    distance: Tensor,
    query: Tensor,
    output: Tensor,
) -> Tensor:
    r"""
    ### Through attention

    * `grad` is $\delta_z$, `[B, C]`
    * `keys` are `[H·B, S, D]`, `values` `[H·B, D, S]`, and `distance` is $E$ for this
      step, `[H, S, D]`
    * `query`, `output` are $W_Q$ and $W_O$, `[C, C]`

    Returns $\delta_z + N(W_Q^\top \delta_q)$.
    """
    # $\delta_o$.
    if at.attended_mask is not None:
        torch.mul(grad, at.attended_mask, out=at.attended)
    torch.mm(at.attended, output, out=buffers.concat)
    at.grad_heads_out.copy_(buffers.concat_by_head)

    # $\delta_A$ and $\delta_e$.
    scores = times(at.grad_heads_rows.bmm(values), at.attn_mask)
    scores = torch._softmax_backward_data(scores, at.attn, -1, scores.dtype)
    at.grad_scores.copy_(scores)

    # $\delta_q$: slots belong to a sequence, distances are the same for all.
    torch.bmm(scores, keys, out=buffers.rows)
    buffers.heads.baddbmm_(scores.view(len(distance), len(grad), -1), distance)
    at.grad_query_by_head.copy_(buffers.heads)
    through = at.grad_query.mm(query)
    return normalize_backward(through, at.x, at.x_mean, at.x_rstd).add_(grad)


def run_backward(
    top: Tensor,
    new_keys: Tensor | None,
    new_values: Tensor | None,
    activations: Activations,
    before: int,
    empty: Tensor | None,
    params: Params,
    config: Config,
) -> Gradients:
    r"""
    ### All spans, from the last to the first

    * `top` is $g$, the gradient of the outputs, `[T, B, C]`
    * `new_keys`, `new_values` are those of the new slots, `[T, B, H, D]`, if memory was
      used afterwards
    """
    total = Gradients(
        torch.empty_like(activations.outputs[:, 0]),
        torch.zeros_like(activations.values),
        torch.zeros_like(activations.values),
        Params(*(torch.zeros_like(param) for param in params)),
    )
    for slots, given in ((total.keys, new_keys), (total.values, new_values)):
        if given is not None:
            slots[:, before:] = given.permute(2, 1, 0, 3).flatten(0, 1)

    scratch = Scratch(activations.outputs)
    length = len(activations.outputs)
    for span in reversed(list(spans(length, before, config.horizon))):
        loop = SpanBackward(span, activations, empty, params, config, scratch)
        loop.run(top, total)
        loop.add_weight_grads(total.params)
        # The next span needs its memory.
        del loop
    return total


Results = tuple[Tensor, Tensor, Tensor]


class Recurrence(torch.autograd.Function):
    r"""
    ## One operation for autograd

    Nothing is stored in a module, so two forward passes may precede a backward pass,
    and a graph may be differentiated twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        config: Config,
        empty: Tensor | None,
        x_seq: Tensor,
        keys: Tensor,
        values: Tensor,
        *params: Tensor,
    ) -> Results:
        "Arguments and results are those of `recurrence`."
        activations = run_forward(x_seq, keys, values, empty, Params(*params), config)
        ctx.config, ctx.before = config, len(keys)
        ctx.save_for_backward(empty, *activations, *params)
        ctx.set_materialize_grads(False)
        return results_of(activations, len(keys), config.heads)

    @staticmethod
    def backward(
        ctx: Any, top: Tensor | None, keys: Tensor | None, values: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        "A gradient that is not needed is `None`: mostly those of keys and values."
        refuse_second_derivatives()
        empty, *tensors = ctx.saved_tensors
        activations, params = Activations(*tensors[:3]), Params(*tensors[3:])
        if top is None:
            top = torch.zeros_like(activations.outputs[:, 0])
        total = run_backward(
            top, keys, values, activations, ctx.before, empty, params, ctx.config
        )
        older = (
            _by_step(slots[:, : ctx.before], ctx.config.heads) for slots in total[1:3]
        )
        return None, None, total.x_seq, *older, *total.params


def refuse_second_derivatives() -> None:
    """The backward pass works in place, and cannot be differentiated."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "second derivatives (create_graph=True) of the feedback transformer need "
            "the reference; run the forward pass inside `labml_nn.kernels.disabled()`"
        )


def recurrence(
    config: Config,
    empty: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    params: Params,
) -> Results:
    r"""
    The arguments are those of `run_forward`. Returns the outputs of the last layer,
    `[T, B, C]`, and keys and values of the new slots, `[T, B, H, D]`.
    """
    if torch.is_grad_enabled():
        results: Results = Recurrence.apply(  # type: ignore[no-untyped-call]
            config, empty, x_seq, keys, values, *params
        )
        return results
    activations = run_forward(x_seq, keys, values, empty, params, config)
    return results_of(activations, len(keys), config.heads)


def is_supported(x_seq: Tensor, memory: FeedbackMemory) -> bool:
    r"""
    ## Attached to the lesson

    Returns whether the tensors are of a kind that this kernel, and that in C++,
    computes with. Autocast would choose a dtype for each operation, half precision
    would add up hundreds of small gradients in few digits, and `meta` has no values.
    """
    device = x_seq.device.type
    return (
        type(x_seq) in (Tensor, nn.Parameter)
        and x_seq.numel() > 0
        and device != "meta"
        and x_seq.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled(device)
        and (memory.keys is None or memory.keys.dtype == x_seq.dtype)
    )


@kernel_for(
    FeedbackTransformer.read, owner=FeedbackTransformerKV, submodules=SUBMODULES
)
def read_by_hand(
    model: FeedbackTransformerKV,
    x_seq: Tensor,
    memory: FeedbackMemory,
    mask: Tensor | None = None,
) -> Any:
    r"""
    ### In place of `read`

    Returns the outputs and the memory, or `NotImplemented`.
    """
    if len(x_seq) < SHORTEST or not is_supported(x_seq, memory):
        return NotImplemented
    if x_seq.dtype != model.weights.dtype or (config := config_of(model)) is None:
        return NotImplemented
    if mask is not None:
        return read_padded(model, x_seq, memory, mask)
    return read_with(recurrence, model, config, x_seq, memory)


def read_with(
    recurrence: Callable[..., Results],
    model: FeedbackTransformerKV,
    config: Config,
    x_seq: Tensor,
    memory: FeedbackMemory,
    *,
    from_empty: bool = False,
) -> tuple[Tensor, FeedbackMemory]:
    r"""
    * `recurrence` computes as the function above; with `from_empty` it can start
      without any slot

    Otherwise the reference reads the first token, which has nothing to attend to. So it
    does if some sequences might have no slot yet.
    """
    read_before: list[Tensor] = []
    if memory.mask is not None or (len(memory) == 0 and not from_empty):
        reference: Any = FeedbackTransformer.read
        first, memory = reference.__wrapped__(model, x_seq[:1], memory)
        read_before, x_seq = [first], x_seq[1:]
    keys, values, mask = memory.keys, memory.values, memory.mask
    if keys is None or values is None:
        keys = values = x_seq.new_empty(0, x_seq.shape[1], model.heads, model.d_k)
    longest = len(keys) + len(x_seq) - 1
    params = fold_params(model, min(longest, config.horizon or longest))
    empty = None if mask is None else ~mask
    top, *new = recurrence(config, empty, x_seq, keys, values, params)

    def kept(old: Tensor, new: Tensor) -> Tensor:
        slots = new if len(old) == 0 else torch.cat([old, new])
        return slots if config.horizon is None else slots[-config.horizon :]

    if mask is not None:
        mask = kept(mask, mask.new_ones(len(x_seq), mask.shape[1]))
    memory = FeedbackMemory(kept(keys, new[0]), kept(values, new[1]), mask)
    return torch.cat([*read_before, top]) if read_before else top, memory


def read_padded(
    model: FeedbackTransformerKV, x_seq: Tensor, memory: FeedbackMemory, mask: Tensor
) -> Any:
    r"""
    ### Sequences of different lengths

    The reference shifts memory at each padding token. This is not possible inside a
    loop in place, and not necessary:

    ```text
     tokens            1. left-align      2. read; memories      3. right-align
     ·  a  b  ·  c      a  b  c  ·  ·      after 3                ·  a  b  c
     d  ·  ·  e  ·      d  e  ·  ·  ·      after 2                ·  ·  d  e
     f  g  h  i  ·      f  g  h  i  ·      after 4                f  g  h  i
    ```

    First the tokens of each sequence are moved together. Padding then comes after them,
    where it has no influence on them. Now the batch is read up to the end of the
    shortest sequence. The memory is a value: we keep it for this sequence, and continue
    to the end of the next one. At last the memories are aligned at their ends. This
    takes no more steps than the longest sequence has tokens.
    """
    if bool(mask.all()):
        top, memory = model.read(x_seq, memory)
        if memory.mask is None:
            everything = mask.new_ones(len(memory), mask.shape[1])
            memory = FeedbackMemory(memory.keys, memory.values, everything)
        return top, memory

    # Sorting by "is padding", stably, keeps the order of the tokens.
    order = (~mask).to(torch.uint8).argsort(dim=0, stable=True)
    aligned = x_seq.gather(0, order[..., None].expand_as(x_seq))
    counts, start = mask.sum(0).tolist(), 0
    length = len(memory) + len(x_seq)
    snapshots, tops = {0: memory}, []
    for end in sorted({*counts} - {0}):
        top, memory = model.read(aligned[start:end], memory)
        snapshots[end], start = memory, end
        tops.append(top)
    if not tops:
        return NotImplemented

    # Back to the places of the tokens, with zeros in between.
    top = F.pad(torch.cat(tops), (0, 0, 0, 0, 0, len(x_seq) - start))
    back = order.argsort(dim=0)
    top = top.gather(0, back[..., None].expand_as(top)).masked_fill(~mask[..., None], 0)
    if model.horizon is not None:
        length = min(length, model.horizon)
    return top, align([snapshots[count] for count in counts], length)


def align(memories: Sequence[FeedbackMemory], length: int) -> FeedbackMemory:
    r"""
    * `memories` has one memory per sequence: sequence $b$ of the result is sequence $b$
      of `memories[b]`
    * `length` is the number of slots of the result

    Returns a memory in which all sequences end together.
    """
    like = next(m.keys for m in memories if m.keys is not None)

    def column(b: int, slots: Tensor | None, mask: Tensor | None) -> Tensor:
        own = like.new_zeros(0, *like.shape[2:]) if slots is None else slots[:, b]
        if mask is not None:
            own = own[len(own) - int(mask[:, b].sum()) :]
        return F.pad(own, (0, 0, 0, 0, length - len(own), 0))

    keys, values, mask = [], [], []
    for b, memory in enumerate(memories):
        keys.append(column(b, memory.keys, memory.mask))
        values.append(column(b, memory.values, memory.mask))
        own = len(memory) if memory.mask is None else memory.mask[:, b].sum()
        mask.append(torch.arange(length, 0, -1, device=like.device) <= own)
    return FeedbackMemory(
        *(torch.stack(columns, 1) for columns in (keys, values, mask))
    )
