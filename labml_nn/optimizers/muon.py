r"""
---
title: Muon
summary: >
  An optimizer for weight matrices: the momentum of the gradients is orthogonalised by a
  Newton–Schulz iteration, so that an update is equally large in all directions.
paper: https://kellerjordan.github.io/posts/muon/
---

The gradient of a weight matrix is a matrix, and has a singular value decomposition

$$G = \sum_i \sigma_i \, u_i v_i^\top = U \Sigma V^\top$$

into directions: an input direction $v_i$, an output direction $u_i$, and a singular
value $\sigma_i$, by which a step along $u_i v_i^\top$ reduces the loss. In transformers
a few $\sigma_i$ are large and most are small, so gradient descent moves along a few
directions only. AdamW divides each *entry* by its usual size; but entries are not
directions, and a few directions still dominate the update. **Muon** ([@jordan2024muon]:
*momentum orthogonalised by Newton–Schulz*) sets all singular values to one:

$$O = U V^\top, \qquad W \leftarrow W - \eta \, O$$

Every direction gets the same step size: what is rare in the training data, but has a
consistent direction, is learned as fast as what is common. Among all updates that
change no input by more than its own length (largest singular value at most 1), $U
V^\top$ reduces the loss most, to first order ([@bernstein2024old]). Muon stores one
number per parameter, half as many as [AdamW](../experiments/trainer.py), and needs some
[matrix products](#cost).

![Singular values of a gradient, and of the update that Muon computes from
it.](figure:muon.before_and_after)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$ | `parameter` | `[I, J]` | weight matrix |
| $G$ | `parameter.grad` | `[I, J]` | its gradient |
| $\bar{G}$ | `buffer` | `[I, J]` | running mean of gradients |
| $X$ | `x` | | matrix that converges to $U V^\top$ |
| $a$, $b$, $c$ | `COEFFICIENTS` | | coefficients of the polynomial |
| $\beta$ | `momentum` | | decay of the running mean |
| $\eta$, $\lambda$ | `lr`, `weight_decay` | | learning rate, weight decay |
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from labml_nn.checks import check_fraction, check_number, check_sizes

__all__ = ["COEFFICIENTS", "Muon", "orthogonalise"]

# $a$, $b$, $c$ of the polynomial, as Jordan et al. found them.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(
    matrix: Float[Tensor, "I J"], *, steps: int = 5
) -> Float[Tensor, "I J"]:
    r"""
    ## Newton–Schulz iteration

    A singular value decomposition is slow, on GPUs in particular. But an *odd*
    polynomial of a matrix acts on its singular values alone, and needs only products:

    $$\begin{aligned} a X + b \, (X X^\top) X &+ c \, (X X^\top)^2 X \\
        &= U \left(a \Sigma + b \Sigma^3 + c \Sigma^5 \right) V^\top \end{aligned}$$

    Applied several times, it brings all singular values from $(0, 1]$ close to 1. The
    classical coefficients converge to exactly 1, but multiply small values by 1.5 in
    each step. Those of Jordan et al. multiply them by 3.4, and do not converge: after
    five steps all values above 0.002 are between 0.68 and 1.21.

    ![Singular values after five steps of either
    polynomial.](figure:muon.polynomials)

    * `matrix` is $G$, or its running mean
    * `steps` is the number of applications of the polynomial

    Returns the same shape and dtype; a GPU computes in bfloat16. A matrix of zeros
    stays zero.
    """
    x = matrix.bfloat16() if matrix.is_cuda else matrix

    # $X X^\top$ has as many rows as $X$, so a tall matrix is transposed.
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T

    # No singular value is larger than the norm of all entries, $\sqrt{\sum_i
    # \sigma_i^2}$.
    x = x / x.norm().clamp(min=1e-7)

    # $a X + (b \, X X^\top + c \, (X X^\top)^2) X$: three products.
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        gram = x @ x.T
        inner = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.addmm(x, inner, x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)


class Muon(Optimizer):
    r"""
    ## Optimizer

    For the matrices *inside* a model. Vectors have no singular values, and an embedding
    is a list of rows, of which each batch touches a few: both belong to AdamW.
    `torch.optim.Muon` computes the same in bfloat16, which many CPUs emulate slowly.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 0.02,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        steps: int = 5,
    ) -> None:
        r"""
        * `params` are matrices, or groups of them with their own options
        * `lr` is $\eta$, the size of an update in each direction
        * `weight_decay` is $\lambda$, `momentum` is $\beta$
        * `steps` is that of `orthogonalise`
        """
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            check_number(name, value)
            if not 0 <= value < math.inf:
                raise ValueError(f"`{name}` ({value}) must be 0 or more, and finite")
        check_fraction(momentum=momentum)
        check_sizes(steps=steps)
        rates = {"lr": lr, "weight_decay": weight_decay}
        super().__init__(params, rates | {"momentum": momentum, "steps": steps})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        "Raises `ValueError` for a parameter that is not a real matrix."
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            if parameter.dim() != 2 or not parameter.is_floating_point():
                raise ValueError(
                    f"Muon got a parameter of shape {list(parameter.shape)} and dtype "
                    f"{parameter.dtype}; expected real matrices [I, J]: give biases, "
                    "gains and embeddings to torch.optim.AdamW"
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        r"""
        ### Update

        The gradient of one batch is noisy, so the directions are those of a running
        mean. Nesterov's momentum applies the same formula twice:

        $$\bar{G} \leftarrow \beta \bar{G} + (1 - \beta) \, G, \qquad
            \beta \bar{G} + (1 - \beta) \, G$$

        The scale does not matter, because orthogonalisation removes it. Then

        $$W \leftarrow (1 - \eta \lambda) \, W
            - \eta \, \sqrt{\max(1, I / J)} \; O$$

        With the square root an update changes each output by about $\eta$ times the
        size $s$ of an input feature, whatever the shape. If $I \ge J$, the matrix $O$
        preserves the length $s \sqrt{J}$ of the input, which is $s \sqrt{J / I}$ for
        each of the $I$ outputs; the root restores $s$. The weight decay is decoupled,
        as in AdamW. Parameters without a gradient do not change.

        `closure` computes the loss and its gradients before the update, for training
        loops that pass one; its loss is returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if (gradient := parameter.grad) is None:
                    continue
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(gradient)
                buffer: Tensor = state["momentum_buffer"]
                buffer.lerp_(gradient, 1 - group["momentum"])
                mean = gradient.lerp(buffer, group["momentum"])

                update = orthogonalise(mean, steps=group["steps"])
                rows, columns = parameter.shape
                size = group["lr"] * math.sqrt(max(1.0, rows / columns))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-size)
        return loss


# ## Cost
#
# For an $I \times J$ matrix with $I \le J$, one step of the iteration takes $2 I^2 J +
# I^3$ multiplications, and training on one token $3 I J$: in the forward pass, and in
# the backward pass for inputs and for weights. So five steps cost as much as
# $\frac{5}{3} (2 I + I^2 / J)$ tokens, whatever the batch: 640 for a square matrix of
# size 128, much in batches of a thousand tokens. Large models with $I = J = 4096$ train
# on batches of half a million, and it is 4 %.
#
# ## Differences from the post
#
# Weight decay is added, which large models need ([@liu2025muon]). The running mean is
# $\beta \bar{G} + (1 - \beta) G$, as in PyTorch, in place of $\beta \bar{G} + G$: the
# same up to a factor, which has no effect.
