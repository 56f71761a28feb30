r"""
---
title: Muon
summary: >
  An optimizer for weight matrices: the momentum of the gradients is orthogonalised by a
  Newton–Schulz iteration, so that an update is equally large in all directions.
paper: https://kellerjordan.github.io/posts/muon/
---

How far should a training step go, and in which directions? Suppose a layer has two
inputs and two outputs, and the gradient of its matrix is

$$G = \begin{pmatrix} 10 & 0 \\ 0 & 0.1 \end{pmatrix}$$

Gradient descent moves a hundred times as far for the first input as for the second. Is
the first a hundred times as important? Often it is only a hundred times as *frequent*.
Think of the features of *the*, which you meet in every sentence, and those of *muon*,
which you hardly ever meet. We would like to learn both at the same speed. So we replace
$G$ by

$$O = \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}$$

In this example you could divide each entry by its size, as **AdamW** does. But the
directions of a real gradient do not lie along the axes. Any matrix is a sum of
*directions* (its singular value decomposition):

$$G = \sum_i \sigma_i \, u_i v_i^\top = U \Sigma V^\top$$

An input in the direction $v_i$ moves the output in the direction $u_i$, and the
singular value $\sigma_i$ says how much the loss falls if you go this way. In
Transformers a few $\sigma_i$ are large and most are small. **Muon** ([@jordan2024muon]:
*momentum orthogonalised by Newton–Schulz*) sets all of them to one:

$$O = U V^\top, \qquad W \leftarrow W - \eta \, O$$

![Singular values of a gradient, and of the update that Muon computes from
it.](figure:muon.before_and_after)

**Why is that a good step?** Suppose no input may be changed by more than its own
length. Then the largest singular value of the update is at most 1. Among all such
updates, $U V^\top$ reduces the loss most, to first order ([@bernstein2024old]).

**What it gains, and what it costs.** What is rare but always points the same way is
learned as fast as what is common. Muon keeps one number for each parameter, half as
many as [AdamW](../experiments/trainer.py). It needs some [matrix products](#cost), and
it works for matrices only.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$ | `parameter` | `[I, J]` | weight matrix |
| $G$ | `parameter.grad` | `[I, J]` | its gradient |
| $\bar{G}$ | `buffer` | `[I, J]` | running mean of gradients |
| $X$ | `x` | | matrix that converges to $U V^\top$ |
| $a$, $b$, $c$ | `COEFFICIENTS` | | coefficients of the polynomial |
| $\beta$ | `momentum` | | decay of the running mean |
| $\eta$, $\lambda$ | `lr`, `weight_decay` | | learning rate, weight decay |

</details>
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

    How do we set all singular values to one? To decompose a matrix is slow, on GPUs in
    particular. But there is a trick that needs only products. Multiply $X$ by $X^\top$
    and by $X$ again, and each singular value becomes its third power, while all
    directions stay. So an *odd* polynomial of a matrix acts on its singular values
    alone:

    $$\begin{aligned} a X + b \, (X X^\top) X &+ c \, (X X^\top)^2 X \\
        &= U \left(a \Sigma + b \Sigma^3 + c \Sigma^5 \right) V^\top \end{aligned}$$

    If you apply it several times, all values from $(0, 1]$ come close to 1. The
    classical coefficients arrive at exactly 1. But they multiply a small value by only
    1.5 in each step. Those of Jordan et al. multiply it by 3.4, and do not quite
    arrive. After five steps all values above 0.002 are between 0.68 and 1.21, which is
    good enough.

    ![Singular values after five steps of either
    polynomial.](figure:muon.polynomials)

    * `matrix`: $G$, or its running mean
    * `steps`: how often the polynomial is applied

    Returns the same shape and dtype; a GPU computes in bfloat16. A matrix of zeros
    stays zero.
    """
    x = matrix.bfloat16() if matrix.is_cuda else matrix

    # $X X^\top$ is as large as $X$ has rows. So we transpose a tall matrix.
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T

    # Now all singular values are at most 1, for none is larger than the norm of all
    # entries, $\sqrt{\sum_i \sigma_i^2}$.
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

    It is for the matrices *inside* a model. Biases and gains are vectors and have no
    directions. An embedding is a list of rows, of which a batch touches a few. Give
    both to AdamW. `torch.optim.Muon` computes the same in bfloat16, which many CPUs
    only emulate.
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
        * `params`: matrices, or groups of them with their own options
        * `lr`: $\eta$, the size of an update in each direction
        * `weight_decay`, `momentum`: $\lambda$ and $\beta$
        * `steps`: that of `orthogonalise`
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

        The gradient of one batch is noisy. So we take the directions of a running mean.
        Nesterov's momentum applies the same formula twice:

        $$\bar{G} \leftarrow \beta \bar{G} + (1 - \beta) \, G, \qquad
            \beta \bar{G} + (1 - \beta) \, G$$

        Its size does not matter, because it is lost on the way. Then

        $$W \leftarrow (1 - \eta \lambda) \, W
            - \eta \, \sqrt{\max(1, I / J)} \; O$$

        Why the square root? An update should change each output by about $\eta$ times
        the size $s$ of an input feature, whatever the shape. If $I \ge J$, the matrix
        $O$ keeps the length of the input, $s \sqrt{J}$. Spread over $I$ outputs that is
        $s \sqrt{J / I}$ for each, and the root brings back $s$. The weight decay is
        decoupled, as in AdamW. Parameters without a gradient do not change.

        * `closure`: computes the loss and its gradients before the update, in training
          loops that pass one. Its loss is returned
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
