r"""
---
title: Feedback Transformer by hand
summary: >
  Backpropagation through time for the Feedback Transformer, derived by hand: a short
  loop for what is sequential, and large matrix products for everything else.
paper: https://arxiv.org/abs/2002.09402
---

The [Feedback Transformer](../transformers/feedback/__init__.py) passes through $L T$
layers one after the other, and each of them is a dozen operations on a few vectors. On
such small operands the time goes into calling operations, not into arithmetic. Autograd
doubles the problem: it walks back through the same sequence of small operations, and
computes the gradient of each weight $T$ times, once per step, to add them up.

This kernel replaces `FeedbackTransformerKV.read` by one operation for autograd with a
forward and a backward pass of its own, in plain PyTorch, on any device, in single and
double precision, for feed-forward networks with a ReLU. The plain
`FeedbackTransformer`, in which each layer projects the memory itself, has no kernel.

The idea is to ask of every quantity in the backward pass *what it depends on*.

**Activations depend on nothing that is missing.** In the forward pass step $t$ had to
wait for memory slot $m_{t-1}$. In the backward pass all slots and all outputs $x_t^l$
are known. So the normalized inputs of all layers and the hidden features, each one
operation for many steps, are [recomputed](#Chunk) and not stored. This is activation
checkpointing ([@chen2016training]) with a second forward pass that is much faster than
the first, because it is no loop.

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
no gradient of a weight occurs in it.

**Gradients of weights are needed by nothing.** For each linear map $y = W x + b$, with
$y_t^l$ at step $t$,

$$\delta_W = \sum_t \delta_{y_t} \, x_t^\top, \qquad \delta_b = \sum_t \delta_{y_t}$$

The loop writes $\delta_{y_t}$ into a buffer, step by step. Then the sum over steps and
sequences is *one* matrix product of two buffers, and half of the arithmetic of the
backward pass has left the loop.

**Memory.** With $C = 128$, $H = 4$, $L = 4$ and 16 sequences, the peak of forward and
backward pass is 68 MiB for 128 steps, 117 for 256 and 264 for 512. It grows with $T^2$,
because the attention weights of all steps are stored; the [compiled
kernel](feedback_cpp.py) recomputes them too.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^l$ | `outputs` | `[L + 1, T, B, C]` | outputs of all layers, embeddings first |
| $k_j$, $v_j$ | `keys`, `values` | `[H·B, S, D]` | memory of each head and sequence |
| $q$ | `query` | `[T, L, H, B, D]` | queries |
| $e$ | `scores` | `[H·B, 1, S]` | attention scores of a step in one layer |
| $A$ | `attn` | `[L, H·B, 1, S]` | attention weights of a step |
| $o$ | `heads_out` | `[L, T, B, C]` | outputs of the heads, concatenated |
| $z$ | `z` | `[L, T, B, C]` | input of the feed-forward network |
| $p$, $h$ | `up`, `hidden` | `[B, F]` | hidden features, before and after ReLU |
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
from labml_nn.reference import Declined, kernel_for
from labml_nn.torch_internals import softmax_backward
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.mha import PrepareForMultiHeadAttention

#: The submodules that the kernel computes itself.
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


Results = tuple[Tensor, ...]


def times(x: Tensor, mask: Tensor | None, *index: int) -> Tensor:
    """Multiplies with a mask, or its entry at `index`, if there is one."""
    return x if mask is None else x * mask[index]


def attention_mask(masks: Masks, t: int, n_layers: int, window: slice) -> Tensor | None:
    """The mask of all layers for the window of a step, `[L, H·B, 1, S]`."""
    if masks.attention is None:
        return None
    of_step = masks.attention[:, t * n_layers : (t + 1) * n_layers, window]
    return of_step.transpose(0, 1).unsqueeze(2)


# ## Forward pass
#
# The equations of the lesson with folded parameters. A layer at step $t$ is
#
# \begin{align}
# q &= W_Q \, \hat{x}^{l-1} + u \\
# A &= \operatorname{softmax}_j \left( q^\top k_j + q^\top E_d + b'_d \right) \\
# o &= \textstyle\sum_j A_j v_j \\
# z &= x^{l-1} + W_O \, o + b_O \\
# h &= \operatorname{ReLU}(W_1 \hat{z} + b_1) \\
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

    Those of the table on top. Most have the layers first and the steps second, so that
    those of a layer at all steps are the rows of one matrix. `keys` and `values` are
    all slots, with the $S_0$ before, `[H·B, S_0 + T, D]`.

    A score is a sum over the $D$ features of a key, and the output of a head is a sum
    over time. A product is fastest where the terms of a sum lie in different rows of
    memory and its results side by side. So values have features along their rows, and
    keys have time: `keys` is a transposed view of a tensor `[H·B, D, S]`.
    """

    outputs: Tensor
    keys: Tensor
    values: Tensor
    query: Tensor
    heads_out: Tensor
    z: Tensor


def by_head(rows: Tensor, heads: int) -> Tensor:
    """A view of features `[…, B, C]` with heads first, `[…, H, B, D]`."""
    return torch.unflatten(rows, -1, (heads, -1)).transpose(-3, -2)


def by_layer_and_step(x: Tensor) -> list[Sequence[Tensor]]:
    r"""
    To index a tensor takes about as long as an addition of two small vectors, 1 µs. A
    tensor that is split into all of its views at once takes a third of that.
    """
    return [layer.unbind() for layer in x]


def normalize(x: Tensor, config: Config) -> tuple[Tensor, Tensor, Tensor]:
    r"""$\hat{x}$, and $\mu$ and $1 / \sigma$, which its derivative needs."""
    return torch.native_layer_norm(x, x.shape[-1:], None, None, config.eps)


def window_of(end: int, config: Config) -> slice:
    r"""The slots that a step attends to, if `end` are written: $S - \tau, …, S - 1$."""
    return slice(0 if config.horizon is None else max(0, end - config.horizon), end)


def run_forward(
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    params: Params,
    config: Config,
    store: bool,
) -> tuple[list[Tensor | None], Results]:
    r"""
    ### The loop

    * `x_seq` are embedded sequences, `[T, B, C]`
    * `keys`, `values` are the slots before, `[S, B, H, D]`; there may be none
    * `store` is whether there will be a backward pass

    Returns what the backward pass needs: activations, dropout masks, and the attention
    weights of each step before dropout. And the results: the outputs of the last layer
    and the keys and values of the new slots. They are copies, so that a user may change
    them in place without changing what the backward pass will read.
    """
    p, heads, before, n_layers = params, config.heads, len(keys), len(params.query)
    length, batch, width = x_seq.shape
    pairs, slots, d_k = heads * batch, before + length, keys.shape[-1]
    new = x_seq.new_empty
    activations = Activations(
        outputs=new(n_layers + 1, length, batch, width),
        keys=new(pairs, d_k, slots).mT,
        values=new(pairs, slots, d_k),
        query=new(length, n_layers, heads, batch, d_k),
        heads_out=new(n_layers, length, batch, width),
        z=new(n_layers, length, batch, width),
    )
    activations.outputs[0] = x_seq
    for own, old in ((activations.keys, keys), (activations.values, values)):
        own[:, :before] = old.permute(2, 1, 0, 3).flatten(0, 1)
    masks = draw_masks(config, p, x_seq, 0, slots - 1)
    outputs, all_keys, all_values, queries, *_ = activations
    levels, heads_out, z = map(by_layer_and_step, (outputs, *activations[4:]))
    heads_out_by_head = by_layer_and_step(by_head(activations.heads_out, heads))
    queries_at = by_layer_and_step(queries)

    # Transposed views, because vectors are rows: a map is `x @ weight`.
    linears = (
        *(p.query.mT, p.query_bias, p.output.mT, p.output_bias),
        *(p.up.mT, p.up_bias, p.down, p.down_bias),
    )
    layers = list(zip(*(stacked.unbind() for stacked in linears), strict=True))
    new_keys, new_values = (
        torch.unflatten(slots[:, before:], 0, (heads, -1)).unbind(2)
        for slots in (all_keys, all_values)
    )
    weights = []
    concat, rows = torch.empty_like(x_seq[0]), torch.empty_like(all_values[:, :1])
    concat_by_head, rows_by_head = by_head(concat, heads), rows.view_as(queries[0, 0])
    for t in range(length):
        # The slots in the window, and their distances: the last ones of the table.
        window = window_of(before + t, config)
        slots = window.stop - window.start
        near = p.distance.shape[2] - slots
        keys, values = all_keys[:, window].mT, all_values[:, window]
        distance = p.distance[:, :, near:].mT.unbind()
        bias = p.distance_bias[:, :, None, near:].unbind()
        attn = x_seq.new_empty(n_layers, len(keys), 1, slots)
        mask = attention_mask(masks, t, n_layers, window)
        for i, (w_q, u, w_o, b_o, w_1, b_1, w_2, b_2) in enumerate(layers):
            x, query = levels[i][t], queries_at[t][i]
            torch.addmm(u, normalize(x, config)[0], w_q, out=concat)
            query.copy_(concat_by_head)

            # Distances are the same for all sequences, so their scores are one product
            # per head. The scores of keys are added for each sequence.
            scores = torch.baddbmm(bias[i], query, distance[i])
            scores = scores.view_as(attn[i]).baddbmm_(query.view_as(rows), keys)
            torch.softmax(scores, -1, out=attn[i])
            torch.bmm(times(attn[i], mask, i), values, out=rows)
            heads_out_by_head[i][t].copy_(rows_by_head)

            # What attention and network add. Without a slot there is no attention.
            added = torch.addmm(b_o, heads_out[i][t], w_o, beta=min(slots, 1))
            torch.add(x, times(added, masks.attended, i, t), out=z[i][t])
            hidden = torch.addmm(b_1, normalize(z[i][t], config)[0], w_1).relu_()
            added = torch.addmm(b_2, times(hidden, masks.hidden, i, t), w_2)
            x = times(added, masks.projected, i, t)
            torch.add(z[i][t], x, out=levels[i + 1][t])

        # The slot. Its $2 H$ heads are a key and a value for each head of attention.
        vector = torch.mv(outputs[:, t].flatten(1).T, p.shares).view_as(concat)
        if config.norm_memory:
            vector = normalize(vector, config)[0]
        slot = by_head(torch.addmm(p.memory_bias, vector, p.memory.T), 2 * heads)
        new_keys[t].copy_(slot[:heads])
        new_values[t].copy_(slot[heads:])
        if store:
            weights.append(attn)
    written = (_by_step(x[:, before:], heads).clone() for x in activations[1:3])
    return [*activations, *masks, *weights], (outputs[-1].clone(), *written)


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
# \delta_p &= [h > 0] \odot W_2 \, \delta_{x^l} \\
# \delta_z &= \delta_{x^l} + N(W_1^\top \delta_p) \\
# \delta_o &= W_O^\top \, \delta_z \\
# \delta_{A_j} &= \delta_o^\top v_j \\
# \delta_{e_j} &= A_j \left( \delta_{A_j} - \textstyle\sum_i A_i \delta_{A_i} \right) \\
# \delta_q &= \textstyle\sum_j \delta_{e_j} \, (k_j + E_{S - j}) \\
# \delta_{x^{l-1}} &= \delta_z + N(W_Q^\top \delta_q) + s_{l-1} \, \delta_m
# \end{align}
#
# The sum in $\delta_{e_j}$ is that of the softmax: weights sum to one, so a gradient
# that all weights have in common changes nothing. At the end the step adds its part to
# the gradients of **older slots**, of all layers in one product, and to those of the
# distances. These are the only sums that would need $T^2$ numbers to be taken later.


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
    """Those of embeddings, all slots, `[H·B, S_0 + T, D]`, and folded parameters."""

    x_seq: Tensor
    keys: Tensor
    values: Tensor
    params: Params


#: The buffers for the products are those of so many steps. More steps make larger
#: products and need more memory.
STEPS = 32


def run_backward(
    top: Tensor,
    new_keys: Tensor | None,
    new_values: Tensor | None,
    stored: Sequence[Any],
    before: int,
    params: Params,
    config: Config,
) -> tuple[Tensor, Tensor, Tensor, Params]:
    r"""
    ### Chunk by chunk, from the last to the first

    * `top` is $g$, the gradient of the outputs, `[T, B, C]`
    * `new_keys`, `new_values` are those of the new slots, `[T, B, H, D]`, if memory was
      used afterwards
    * `stored` is what the forward pass returned, `before` the number of slots before it

    Returns the gradients of embeddings, of keys and values before, and of the folded
    parameters.
    """
    number = len(Activations._fields)
    activations, masks = Activations(*stored[:number]), Masks(*stored[number:][:4])
    weights = stored[number + 4 :]
    keys, values, length = activations.keys, activations.values, len(top)
    total = Gradients(
        torch.empty_like(top, memory_format=torch.contiguous_format),
        torch.zeros_like(values),
        torch.zeros_like(values),
        Params(*(param.new_zeros(param.shape) for param in params)),
    )
    for slots, given in ((total.keys, new_keys), (total.values, new_values)):
        if given is not None:
            slots[:, before:] = given.permute(2, 1, 0, 3).flatten(0, 1)
    memory = keys.contiguous(), values.mT.contiguous()
    for stop in range(length, 0, -STEPS):
        steps = slice(max(0, stop - STEPS), stop)
        chunk = Chunk(steps, activations, masks, params, config)
        chunk.run(top, memory, weights, total)
        chunk.add_weight_grads(total.params)
        total.x_seq[steps] = chunk.grad_x[0]
    older = (_by_step(slots[:, :before], config.heads) for slots in total[1:3])
    return total.x_seq, next(older), next(older), total.params


class Chunk:
    r"""
    ### A chunk

    The activations of $n$ steps, and the gradients that the loop writes and the
    products after it read:

    * `x`, `z` are the inputs of the two sub-layers, `[L, n, B, C]`, and `vectors` are
      $m$, `[n, B, C]`; each has its normalized values, $\mu$ and $1 / \sigma$
    * `hidden` is $h$, `[L, n, B, F]`
    * `grad_x`, `grad_z` are $\delta_{x^l}$, `[L + 1, n, B, C]`, and $\delta_z$,
      `[L, n, B, C]`
    * `grad_up` is $\delta_p$, `[L, n, B, F]`, and `grad_query` is $\delta_q$,
      `[L, n, B, C]`
    * `grad_vector` is $\delta_m$, `[n, B, C]`, and `grad_slot` is $(\delta_k,
      \delta_v)$, `[n, B, 2·C]`
    """

    def __init__(
        self,
        steps: slice,
        activations: Activations,
        masks: Masks,
        params: Params,
        config: Config,
    ) -> None:
        "All that one operation computes for the whole chunk."
        self.steps, self.params, self.config = steps, params, config
        self.masks = Masks(
            masks.attention, *(m if m is None else m[:, steps] for m in masks[1:])
        )
        self.outputs = activations.outputs[:, steps]
        self.queries = activations.query[steps]
        self.heads_out = activations.heads_out[:, steps]
        self.x, self.z = self.outputs[:-1], activations.z[:, steps]
        self.vectors = torch.tensordot(params.shares, self.outputs, 1)
        self.x_norm, self.z_norm, self.vectors_norm = (
            normalize(each, config) for each in (self.x, self.z, self.vectors)
        )
        rows = self.z_norm[0].flatten(1, 2)
        hidden = torch.baddbmm(params.up_bias[:, None], rows, params.up.mT).relu_()
        hidden = torch.unflatten(hidden, 1, self.vectors.shape[:2])
        self.hidden = times(hidden, self.masks.hidden)
        new = self.vectors.new_empty
        self.grad_x, self.grad_z = new(self.outputs.shape), new(self.z.shape)
        self.grad_up, self.grad_query = new(hidden.shape), new(self.z.shape)
        self.grad_vector = new(self.vectors.shape)
        self.grad_slot = new(*self.vectors.shape[:2], len(params.memory))

    def run(
        self,
        top: Tensor,
        memory: tuple[Tensor, Tensor],
        weights: Sequence[Tensor],
        total: Gradients,
    ) -> None:
        r"""
        ### The backward loop

        * `memory` are all keys, `[H·B, S, D]`, and all values, `[H·B, D, S]`
        * `total` has the sums over the steps after this chunk
        """
        p, config, masks = self.params, self.config, self.masks
        heads = config.heads
        n_layers, before = len(self.x), total.keys.shape[1] - len(top)
        hidden, grad_x, grad_z, grad_up, grad_query = map(
            by_layer_and_step,
            (self.hidden, self.grad_x, self.grad_z, self.grad_up, self.grad_query),
        )
        query_by_head = by_layer_and_step(by_head(self.grad_query, heads))
        slot_by_head = by_head(self.grad_slot, 2 * heads)
        at_attention, at_network = (
            [list(zip(*each, strict=True)) for each in zip(x, mean, rstd, strict=True)]
            for x, (_, mean, rstd) in ((self.x, self.x_norm), (self.z, self.z_norm))
        )
        linears = (p.query, p.output, p.up, p.down.mT)
        layers = list(zip(*(stacked.unbind() for stacked in linears), strict=True))
        grad_heads_out = torch.empty_like(self.queries[0])
        concat = torch.empty_like(self.vectors[0])
        concat_by_head = by_head(concat, heads)

        for t in reversed(range(len(self.queries))):
            step = self.steps.start + t
            end = before + step

            # The slot.
            for part, sums in enumerate((total.keys, total.values)):
                slot = slot_by_head[t][part * heads : (part + 1) * heads]
                slot.copy_(sums[:, end].view_as(slot))
            vector = self.grad_slot[t] @ p.memory
            if config.norm_memory:
                statistics = (each[t] for each in self.vectors_norm[1:])
                vector = normalize_backward(vector, self.vectors[t], *statistics)
            self.grad_vector[t] = vector
            *shares, share = (vector * p.shares[:, None, None]).unbind()

            # The layers.
            window = window_of(end, config)
            near = p.distance.shape[2] - (end - window.start)
            keys, values = memory[0][:, window], memory[1][:, :, window]
            distance = p.distance[:, :, near:].unbind()
            attn, mask = weights[step], attention_mask(masks, step, n_layers, window)
            grad_scores = torch.empty_like(attn)
            grad = torch.add(top[step], share, out=grad_x[-1][t])
            for i in reversed(range(n_layers)):
                w_q, w_o, w_1, w_2 = layers[i]
                up = times(grad, masks.projected, i, t).mm(w_2)
                up = times(up, masks.hidden, i, t)
                relu_backward(up, hidden[i][t], 0, grad_input=grad_up[i][t])
                through = normalize_backward(grad_up[i][t].mm(w_1), *at_network[i][t])
                grad = torch.add(grad, through, out=grad_z[i][t])

                torch.mm(times(grad, masks.attended, i, t), w_o, out=concat)
                rows = grad_heads_out[i].copy_(concat_by_head).view(len(keys), 1, -1)
                scores = times(rows.bmm(values), mask, i)
                softmax_backward(scores, attn[i], out=grad_scores[i])
                # Slots belong to a sequence, distances are the same for all.
                query = grad_scores[i].bmm(keys).view_as(grad_heads_out[i])
                query.baddbmm_(grad_scores[i].view(*query.shape[:2], -1), distance[i])
                query_by_head[i][t].copy_(query)
                through = grad_query[i][t].mm(w_q)
                through = normalize_backward(through, *at_attention[i][t])
                grad = torch.add(grad, through.add_(shares[i]), out=grad_x[i][t])

            # Older slots, and distances. Without a slot $b_O$ was not used.
            if end == 0:
                self.grad_z[:, t] = 0
            queries = self.queries[t]
            total.keys[:, window].baddbmm_(_by_slot(grad_scores), _by_pair(queries))
            attn = times(attn, mask)
            total.values[:, window].baddbmm_(_by_slot(attn), _by_pair(grad_heads_out))
            table = total.params.distance.flatten(0, 1)[:, near:]
            by_distance = grad_scores.view(*queries.flatten(0, 1).shape[:2], -1)
            table.baddbmm_(by_distance.mT, queries.flatten(0, 1))
            bias = total.params.distance_bias.flatten(0, 1)[:, near:]
            bias.add_(by_distance.sum(1))

    def add_weight_grads(self, sums: Params) -> None:
        r"""
        ### Gradients of weights

        One product for each map. $W_2$ is stored transposed, so its product is. The
        shares multiply whole vectors: $\delta_{s_l} = \sum_t \delta_{m_t}^\top x_t^l$.
        """
        attended = times(self.grad_z, self.masks.attended)
        projected = times(self.grad_x[1:], self.masks.projected)
        memory_input = self.vectors_norm[0] if self.config.norm_memory else self.vectors
        for weight, bias, grad, x in (
            (sums.query, sums.query_bias, self.grad_query, self.x_norm[0]),
            (sums.output, sums.output_bias, attended, self.heads_out),
            (sums.up, sums.up_bias, self.grad_up, self.z_norm[0]),
            (sums.down.mT, sums.down_bias, projected, self.hidden),
        ):
            weight.baddbmm_(grad.flatten(1, 2).mT, x.flatten(1, 2))
            bias.add_(grad.sum((1, 2)))
        slot = self.grad_slot.flatten(0, 1)
        sums.memory.addmm_(slot.T, memory_input.flatten(0, 1))
        sums.memory_bias.add_(slot.sum(0))
        sums.shares.add_(self.outputs.flatten(1) @ self.grad_vector.flatten())


def _by_slot(x: Tensor) -> Tensor:
    """From `[L, H·B, 1, S]` to `[H·B, S, L]`."""
    return x.squeeze(2).permute(1, 2, 0)


def _by_pair(x: Tensor) -> Tensor:
    """From `[L, H, B, D]` to `[H·B, L, D]`."""
    return x.flatten(1, 2).transpose(0, 1)


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


def one_span(length: int, before: int, horizon: int | None) -> list[Span]:
    """This kernel draws the masks of all steps at once."""
    return [Span(0, length, 0, before + length - 1)]


class Passes(NamedTuple):
    r"""
    ## One operation for autograd

    Both kernels of the recurrence are a pair of functions with the arguments and
    results of `run_forward` and `run_backward`, and the spans of their dropout masks.
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


def supported_config(
    model: FeedbackTransformerKV, x_seq: Tensor, memory: FeedbackMemory
) -> Config | Declined:
    r"""
    ## Attached to the lesson

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
    if any((p.dtype, p.device) != (x_seq.dtype, x_seq.device) for p in parameters):
        return Declined("a parameter has another dtype or device than `x_seq`")
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

    Returns the outputs and the memory, or `Declined`.
    """
    config = supported_config(model, x_seq, memory)
    if isinstance(config, Declined):
        return config
    return read_with(BY_HAND, model, config, x_seq, memory, mask)


def stored_queries(stored: Sequence[Any], width: int) -> Tensor:
    """The queries are stored by head, `[T, L, H, B, D]`."""
    queries: Tensor = Activations(*stored[: len(Activations._fields)]).query
    return queries.permute(1, 3, 0, 2, 4).flatten(3)


BY_HAND = Passes(run_forward, run_backward, one_span, stored_queries)


def read_with(
    passes: Passes,
    model: FeedbackTransformerKV,
    config: Config,
    x_seq: Tensor,
    memory: FeedbackMemory,
    mask: Tensor | None,
) -> Any:
    r"""
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
