r"""
---
title: Fused attention
summary: >
  Kernels for multi-head attention: one call of PyTorch's fused attention in place of
  scores, softmax and average, and in training one node in place of a layer's graph.
paper: https://arxiv.org/abs/2205.14135
---

Each line of [multi-head attention](../transformers/mha.py) writes a table of $T \cdot S
\cdot B \cdot H$ numbers to memory, and the next line reads it: scores, masked scores,
weights, weights after dropout. For 1,024 positions, 8 sequences and 8 heads each of
these takes 256 MiB. The arithmetic is cheap in comparison.

**Fused attention** ([@dao2022flashattention]) computes the same without the tables. It
reads the keys in blocks that fit into the fast memory of the CPU or GPU, and keeps two
numbers for each query: the largest score so far, $m$, and the sum of the exponentials,
$l$. When a block with scores $e_s$ and values $v_s$ brings a larger score, the earlier
sum and average shrink by the same factor ([@milakov2018online]):

\begin{align}
m' &= \max(m, \max_s e_s) \\
l' &= e^{m - m'} \, l + \sum_s e^{e_s - m'} &
o' &= e^{m - m'} \, o + \sum_s e^{e_s - m'} \, v_s
\end{align}

After the last block $o / l$ is the weighted average. The backward pass computes the
scores a second time, block by block. PyTorch has such kernels for CPUs and GPUs behind
`torch.nn.functional.scaled_dot_product_attention`. The CPU's has no dropout: with
dropout on the weights PyTorch stores the tables there too. Times and memory are
compared under [performance](../../performance.md).

PyTorch cannot differentiate the gradient of its fused operation again. For second
derivatives (`create_graph=True`) the [backward pass](#FusedAttention.backward) on a CPU
goes back to scores, softmax and average, which can be differentiated as often as you
like.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $Q$ | `query` | `[T, B, H, D]` | queries |
| $K$, $V$ | `key`, `value` | `[S, B, H, D]`, `[S, B, H, Dv]` | keys and values |
| $M$ | `mask` | `[T\|1, S, B\|1, H\|1]` | `True` where a query may attend to a key |
"""

import ctypes
import functools
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from labml_nn.reference import Declined, kernel_for
from labml_nn.torch_internals import is_fused_on_cpu
from labml_nn.transformers.mha import (
    KVCache,
    MultiHeadAttention,
    PrepareForMultiHeadAttention,
)
from labml_nn.transformers.modern import (
    QKNormAttention,
    RotaryMultiHeadAttention,
    RotaryQKNormAttention,
)

#: The submodules that the kernels compute themselves.
SUBMODULES: set[type[nn.Module]] = {
    PrepareForMultiHeadAttention,
    *(nn.Linear, nn.Softmax, nn.Dropout),
}

#: Triangles of more rows take too much memory to be kept.
LARGE = 4096
#: Up to so many features, training as one node of the graph is faster at any length.
NARROW = 64


def fused_attention(
    module: MultiHeadAttention,
    query: Float[Tensor, "T B H D"],
    key: Float[Tensor, "S B H D"],
    value: Float[Tensor, "S B H Dv"],
    mask: Bool[Tensor, "#T S #B #H"] | None = None,
    *,
    causal: bool = False,
) -> Float[Tensor, "T B H Dv"]:
    r"""
    ## Scores, softmax and average in one call

    `causal` masks what stands after the query, without a mask; $T = S$ then. All blocks
    above the diagonal are left out, half of the arithmetic.
    """
    drop = module.dropout.p if module.dropout.training else 0.0

    # A fully masked query attends to all keys, and its result is replaced by zeros.
    visible = fully_masked = None
    if mask is not None:
        visible = mask.permute(2, 3, 0, 1)
        fully_masked = ~visible.any(dim=-1, keepdim=True)
        visible = visible | fully_masked

    # PyTorch expects `[B, H, T, D]`; permuting copies nothing.
    q, k, v = [x.permute(1, 2, 0, 3) for x in (query, key, value)]
    scale = module.scale
    x: Tensor
    is_fused: bool | None = False
    if _has_gradient(q, k, v):
        is_fused = _is_fused(q, k, v, visible, drop, causal, scale=scale)
    if is_fused:
        x = FusedAttention.apply(q, k, v, visible, causal, scale)  # type: ignore[no-untyped-call]
    else:
        # Where PyTorch does not tell, only the one with weights surely has derivatives.
        only = sdpa_kernel(SDPBackend.MATH) if is_fused is None else nullcontext()
        with only:
            x = F.scaled_dot_product_attention(
                q, k, v, visible, drop, causal, scale=scale
            )
    if fully_masked is not None:
        x = x.masked_fill(fully_masked, 0.0)
    return x.permute(2, 0, 1, 3)


def _has_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


# Whether PyTorch would choose its fused attention on a CPU; `None` is unknown.
def _is_fused(query: Tensor, *arguments: Any, scale: float) -> bool | None:
    if not query.is_cpu or torch.is_autocast_enabled("cpu"):
        return False
    return is_fused_on_cpu(query, *arguments, scale=scale)


class FusedAttention(torch.autograd.Function):
    """
    ## With second derivatives

    PyTorch's fused attention on a CPU, for `[B, H, T, D]`, with a backward pass that
    can itself be differentiated.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        visible: Tensor | None,
        causal: bool,
        scale: float,
    ) -> Tensor:
        added = None
        if visible is not None:
            added = q.new_zeros(visible.shape).masked_fill(~visible, -torch.inf)
        x, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=added, scale=scale
        )
        ctx.save_for_backward(q, k, v, added, x, logsumexp)
        ctx.causal, ctx.scale = causal, scale
        result: Tensor = x
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """
        ### Backward pass

        The fused one, or with `create_graph=True` the gradient of the definition.
        """
        q, k, v, added, x, logsumexp = ctx.saved_tensors
        if not torch.is_grad_enabled():
            back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
            grads = back(
                *(grad, q, k, v, x, logsumexp, 0.0, ctx.causal),
                attn_mask=added,
                scale=ctx.scale,
            )
            return *grads, None, None, None
        scores = q @ k.mT * ctx.scale
        if added is not None:
            scores = scores + added
        if ctx.causal:
            later = ~_lower_triangle(len(k[0, 0]), q.device)
            scores = scores.masked_fill(later, -torch.inf)
        inputs = [each for each in (q, k, v) if each.requires_grad]
        found = iter(
            torch.autograd.grad(scores.softmax(-1) @ v, inputs, grad, create_graph=True)
        )
        grads = [next(found) if each.requires_grad else None for each in (q, k, v)]
        return *grads, None, None, None


# The kernels compute what the class defines. These attributes may be set to something
# else without changing a class: a softmax over another axis, or a learned scale.
def _objection(module: MultiHeadAttention, query: Tensor) -> str | None:
    parts = module._modules
    softmax, dropout = parts.get("softmax"), parts.get("dropout")
    if type(softmax) is not nn.Softmax or softmax.dim != 1:
        return "`softmax` is not one over the keys, `nn.Softmax(dim=1)`"
    if type(dropout) is not nn.Dropout:
        return f"`dropout` is a `{type(dropout).__name__}` and not a `Dropout`"
    if type(module.scale) is not float:
        return f"`scale` is a `{type(module.scale).__name__}` and not a number"
    if type(query) is not Tensor:
        return f"`query` is a `{type(query).__name__}` and not a plain tensor"
    if query.is_meta or not query.is_floating_point():
        return f"`query` is {query.dtype} on {query.device}"
    return None


# PyTorch's fused attention on a CPU reads as many values as there are keys, also beyond
# the end of the tensor.
def _fit(query: Tensor, key: Tensor, value: Tensor) -> bool:
    return (
        query.dim() == key.dim() == value.dim() == 4
        and key.shape[:3] == value.shape[:3]
        and query.shape[1:] == key.shape[1:]
        and query.dtype == key.dtype == value.dtype
        and query.device == key.device == value.device
    )


_UNFIT = "shapes, dtypes or devices of queries, keys and values do not fit together"


def record(
    module: MultiHeadAttention,
    query: Float[Tensor, "T B H D"],
    key: Float[Tensor, "S B H D"],
    mask: Bool[Tensor, "#T S #B #H"] | None,
    causal: bool,
) -> None:
    """
    ## Weights for those who look

    The fused operation does not store the weights. `module.attn` computes them from the
    queries and keys of the last call as soon as somebody reads it. Without a look it
    costs two references, and the table of weights never exists.
    """
    if query.requires_grad or key.requires_grad:
        query, key = query.detach(), key.detach()
    device = "cpu" if query.is_cpu else query.device.type  # twenty times as fast
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    versions = None
    if not (query.is_inference() or key.is_inference()):
        versions = Versions((query._version, key._version))
    module.__dict__["attn"] = functools.partial(
        weights, query, key, mask, causal, module.scale, autocast, versions
    )


class Versions(tuple[int, int]):
    """How often queries and keys were modified; copies of them begin to count anew."""

    def __reduce__(self) -> Any:
        return Versions._of_copies, ()

    @staticmethod
    def _of_copies() -> None:
        return None


def weights(
    query: Float[Tensor, "T B H D"],
    key: Float[Tensor, "S B H D"],
    mask: Bool[Tensor, "#T S #B #H"] | None,
    causal: bool,
    scale: float,
    autocast: Any,
    versions: Versions | None,
) -> Float[Tensor, "T S B H"]:
    """
    The weights of [the definition](../transformers/mha.py#MultiHeadAttention.attend),
    in the precision that it would have had. Raises `RuntimeError` if the queries or
    keys were modified in place after the call.
    """
    if versions is not None and versions != (query._version, key._version):
        raise RuntimeError(
            "`attn` cannot be computed, because the queries or keys of the last call "
            "were modified in place; read `attn` before, or call the module in "
            "`with labml_nn.kernels.disabled():`"
        )
    if causal:
        mask = _lower_triangle.__wrapped__(len(key), query.device)[..., None, None]
    dtype, device = autocast or None, query.device.type
    with torch.no_grad(), torch.autocast(device, dtype, enabled=bool(autocast)):
        scores = torch.einsum("tbhd,sbhd->tsbh", query, key) * scale
        if mask is None:
            return scores.softmax(dim=1)
        fully_masked = ~mask.any(dim=1, keepdim=True)
        scores = scores.masked_fill(~(mask | fully_masked), -torch.inf)
        return scores.softmax(dim=1).masked_fill(fully_masked, 0.0)


def attend(
    module: MultiHeadAttention,
    query: Float[Tensor, "T B H D"],
    key: Float[Tensor, "S B H D"],
    value: Float[Tensor, "S B H Dv"],
    mask: Bool[Tensor, "#T S #B #H"] | None = None,
) -> Any:
    """
    ## Kernel of `MultiHeadAttention.attend`

    It runs with an adapter or a hook on a projection, and with
    [rotary positions or normalised queries and keys](../transformers/modern.py).
    """
    if (reason := _objection(module, query)) is not None:
        return Declined(reason)
    if not _fit(query, key, value):
        return Declined(_UNFIT)
    module.__dict__["attn"] = None
    causal = is_causal(mask, len(query), len(key))
    mask = None if causal else mask
    x = fused_attention(module, query, key, value, mask, causal=causal)
    record(module, query, key, mask, causal)
    # The backward pass reads the result, so the caller gets a copy, and may change it
    # in place. The output projection would copy it anyway.
    return x.clone() if x.requires_grad else x


for _owner in (
    MultiHeadAttention,
    RotaryMultiHeadAttention,
    QKNormAttention,
    RotaryQKNormAttention,
):
    kernel_for(
        MultiHeadAttention.attend,
        owner=_owner,
        submodules={nn.Softmax, nn.Dropout},
        only=("softmax", "dropout"),
    )(attend)


@kernel_for(MultiHeadAttention.forward, owner=MultiHeadAttention, submodules=SUBMODULES)
def forward(
    module: MultiHeadAttention,
    *,
    query: Float[Tensor, "T B C"],
    key: Float[Tensor, "S B C"],
    value: Float[Tensor, "S B C"],
    mask: Tensor | None = None,
    cache: KVCache | None = None,
) -> Any:
    """
    ## Kernel of `MultiHeadAttention.forward`

    The whole forward pass, for a module that is exactly what its class made it.
    """
    if (reason := _objection(module, query)) is not None:
        return Declined(reason)
    if not query.dim() == key.dim() == value.dim() == 3 or len(key) != len(value):
        return Declined(_UNFIT)
    module.__dict__["attn"] = None
    children: Any = module._modules
    try:
        parts = children["query"], children["key"], children["value"]
        w_q, b_q = _parameters(parts[0]._modules["linear"])
        w_k, b_k = _parameters(parts[1]._modules["linear"])
        w_v, b_v = _parameters(parts[2]._modules["linear"])
        output = _parameters(children["output"])
    except KeyError:
        return Declined("a weight was replaced by a tensor that is no parameter")
    weights, biases = (w_q, w_k, w_v), (b_q, b_k, b_v)
    causal = cache is None and is_causal(mask, len(query), len(key))
    sizes = _sizes(parts[0]), _sizes(parts[1]), _sizes(parts[2])
    tensors = query, *weights, *biases, *output
    if (
        query is key is value
        and cache is None
        and (causal or mask is None)
        and _is_one_node(module, causal, sizes, tensors)
    ):
        flat = SelfAttention.apply(module, causal, sizes[0], *tensors)  # type: ignore[no-untyped-call]
        return flat.view(*query.shape[:2], -1)

    q = torch.unflatten(F.linear(query, w_q, b_q), -1, sizes[0])
    k = torch.unflatten(F.linear(key, w_k, b_k), -1, sizes[1])
    v = torch.unflatten(F.linear(value, w_v, b_v), -1, sizes[2])
    if cache is not None:
        k, v = cache.append(k, v)
        causal = is_causal(mask, len(q), len(k))
    if mask is not None:
        mask = None if causal else module.prepare_mask(mask, q.shape, k.shape)
    if _fit(q, k, v):
        x = fused_attention(module, q, k, v, mask, causal=causal)
        record(module, q, k, mask, causal)
    else:  # The definition says what is wrong with them.
        x = MultiHeadAttention.attend.__wrapped__(module, q, k, v, mask)  # type: ignore[attr-defined]
    return F.linear(x.flatten(-2), *output)


# A look into the dictionary takes a tenth of the time of `linear.weight`, which counts
# where sequences are short.
def _parameters(linear: Any) -> tuple[Any, Any]:
    return linear._parameters["weight"], linear._parameters["bias"]


# The sizes are those of the submodules, which cut their outputs on the page.
def _sizes(part: Any) -> tuple[int, int]:
    return part.heads, part.d_k


# Where gradients are needed, and PyTorch would choose its fused attention on a CPU, a
# layer of self-attention is [one node of the graph](#SelfAttention). The backward pass
# of the node joins the weights, which copies $3 C^2$ numbers, where each *position*
# takes $3 C^2$ multiplications. With fewer positions than features it is not worth it,
# unless the features are few.
def _is_one_node(module: Any, causal: bool, sizes: Any, tensors: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    x, *parameters = tensors
    width = x.shape[-1]
    if x.numel() <= width**2 and width > NARROW:
        return False
    if all(each is None or not each.requires_grad for each in tensors):
        return False
    drop = module.dropout.p if module.dropout.training else 0.0
    some = x.unsqueeze(0)  # has all that the choice depends on
    return (
        sizes[0] == sizes[1] == sizes[2]
        and _can_join(*parameters)
        and bool(_is_fused(some, some, some, None, drop, causal, scale=module.scale))
    )


# All three have one size, and one dtype, because `cat` would convert others; and no
# weight is sparse, because the backward pass multiplies with them from the right.
def _can_join(
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None,
    b_k: Tensor | None,
    b_v: Tensor | None,
    w_o: Tensor,
    _: Tensor | None,
) -> bool:
    if not (
        w_q.shape == w_k.shape == w_v.shape
        and w_q.dtype == w_k.dtype == w_v.dtype
        and w_q.layout is w_k.layout is w_v.layout is w_o.layout is torch.strided
    ):
        return False
    if b_q is None or b_k is None or b_v is None:
        return b_q is b_k is b_v
    return (
        w_q.shape[:1] == b_q.shape == b_k.shape == b_v.shape
        and b_q.dtype == b_k.dtype == b_v.dtype
        and b_q.layout is b_k.layout is b_v.layout is torch.strided
    )


class SelfAttention(torch.autograd.Function):
    r"""
    ## Self-attention as one node of the graph

    Autograd records each operation of a layer, and the backward pass calls the
    derivatives one by one. With short sequences that takes longer than some of the
    products. Here the whole layer is one operation, for self-attention without a mask
    or with a causal one. Its backward pass treats the three projections as one,
    $W = [W^Q, W^K, W^V]$:

    $$\delta_x = \delta_{[q, k, v]} \, W^\top, \qquad
        \delta_W = x^\top \, \delta_{[q, k, v]}$$

    It returns `[T·B, C]`, which its caller views as `[T, B, C]`. A view that is made
    inside could not be modified in place.
    """

    @staticmethod
    def forward(
        ctx: Any,
        module: MultiHeadAttention,
        causal: bool,
        sizes: tuple[int, int],
        x: Tensor,
        *parameters: Any,
    ) -> Tensor:
        ctx.sizes, ctx.causal, ctx.scale = sizes, causal, module.scale
        q, k, v = _projections(x, parameters, sizes)
        record(module, q, k, None, causal)
        q, k, v = [each.permute(1, 2, 0, 3) for each in (q, k, v)]
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        averages, logsumexp = fused(q, k, v, 0.0, causal, scale=ctx.scale)
        joined = averages.permute(2, 0, 1, 3).flatten(-2).flatten(0, 1)
        ctx.save_for_backward(q, k, v, averages, logsumexp, joined, x, *parameters)
        return F.linear(joined, *parameters[6:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """
        ### Backward pass of the layer

        With `create_graph=True` it records the operations one by one after all.
        """
        q, k, v, averages, logsumexp, joined, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, None, *_recorded(ctx, grad, *inputs)
        x, w_q, w_k, w_v, *_, w_o, _ = inputs
        _, _, _, needs_x, *needs = ctx.needs_input_grad

        back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        grad_averages = (grad @ w_o).view(*x.shape[:2], *ctx.sizes)
        grads = back(
            *(grad_averages.permute(1, 2, 0, 3), q, k, v, averages, logsumexp),
            *(0.0, ctx.causal),
            scale=ctx.scale,
        )
        heads = torch.cat([each.permute(2, 0, 1, 3) for each in grads], 2)
        packed = heads.flatten(2).flatten(0, 1)  # [T·B, 3·H·D]

        grad_x: Tensor | None = None
        grad_w: Sequence[Tensor | None] = [None] * 3
        grad_b: Sequence[Tensor | None] = [None] * 3
        if needs_x:
            grad_x = (packed @ torch.cat([w_q, w_k, w_v])).view(x.shape)
        if any(needs[:3]):
            grad_w = (packed.t() @ x.flatten(0, 1)).chunk(3)
        if any(needs[3:6]):
            grad_b = packed.sum(0).chunk(3)
        grad_w_o = grad.t() @ joined if needs[6] else None
        grad_b_o = grad.sum(0) if needs[7] else None
        return None, None, None, grad_x, *grad_w, *grad_b, grad_w_o, grad_b_o


# Queries, keys and values of the same positions, with three weights and three biases.
def _projections(x: Tensor, parameters: Any, sizes: tuple[int, int]) -> list[Tensor]:
    pairs = zip(parameters[:3], parameters[3:6], strict=True)
    return [torch.unflatten(F.linear(x, *pair), -1, sizes) for pair in pairs]


# Views of the inputs keep apart what two projections share.
def _recorded(ctx: Any, grad: Tensor, *inputs: Tensor | None) -> list[Tensor | None]:
    views: list[Any] = [None if each is None else each.view_as(each) for each in inputs]
    x, *parameters = views
    qkv = _projections(x, parameters, ctx.sizes)
    q, k, v = [each.permute(1, 2, 0, 3) for each in qkv]
    averages = FusedAttention.apply(q, k, v, None, ctx.causal, ctx.scale)  # type: ignore[no-untyped-call]
    joined = averages.permute(2, 0, 1, 3).flatten(-2).flatten(0, 1)
    result = F.linear(joined, *parameters[6:])
    needed = [each for each in views if each is not None and each.requires_grad]
    found = iter(torch.autograd.grad(result, needed, grad, create_graph=True))
    return [
        next(found) if each is not None and each.requires_grad else None
        for each in views
    ]


def is_causal(mask: Tensor | None, queries: int, keys: int) -> bool:
    r"""
    ## Recognising a causal mask

    A lower triangle, $M_{ts} = [\, s \le t \,]$, the same for all sequences and heads.
    The triangle to compare with is kept for the next call.
    """
    if (
        type(mask) is not Tensor
        or queries != keys
        or mask.shape not in ((queries, keys, 1), (queries, keys, 1, 1))
        or mask.dtype != torch.bool
    ):
        return False
    if not mask.is_cpu or not mask.is_contiguous():
        expected = _kept(_lower_triangle, keys)(keys, mask.device)
        return bool(torch.equal(mask.view(keys, keys), expected))
    # PyTorch compares entry by entry. Comparing the memory takes a third of the time,
    # and a `bytearray` compares with any memory.
    memory = (ctypes.c_char * mask.numel()).from_address(mask.data_ptr())
    return bool(_kept(_triangle_in_memory, keys)(keys) == memory)


@functools.lru_cache(maxsize=4)
def _lower_triangle(size: int, device: torch.device) -> Bool[Tensor, "T T"]:
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@functools.lru_cache(maxsize=4)
def _triangle_in_memory(size: int) -> bytearray:
    return bytearray().join(
        b"\1" * seen + b"\0" * (size - seen) for seen in range(1, size + 1)
    )


def _kept(triangle: Any, size: int) -> Any:
    return triangle if size <= LARGE else triangle.__wrapped__
