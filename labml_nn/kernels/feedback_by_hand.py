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
This page has the two passes. [What surrounds them](feedback_recurrence.py) is shared
with the compiled kernel: folded parameters, dropout masks, and the operation itself.

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

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labml_nn.kernels.feedback_recurrence import (
    SUBMODULES,
    Config,
    Masks,
    Params,
    Passes,
    Results,
    Span,
    attention_mask,
    draw_masks,
    read_with,
    supported_config,
    times,
    window_of,
)
from labml_nn.reference import Declined, kernel_for
from labml_nn.torch_internals import softmax_backward
from labml_nn.transformers.feedback import (
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerKV,
)

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


def one_span(length: int, before: int, horizon: int | None) -> list[Span]:
    """This kernel draws the masks of all steps at once."""
    return [Span(0, length, 0, before + length - 1)]


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
    ## Attached to the lesson

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
