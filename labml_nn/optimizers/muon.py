r"""
---
title: Muon
summary: >
  Gradients of matrices point along a few loud directions. Muon keeps the directions and
  makes them equally loud, with nothing but matrix products.
paper: https://kellerjordan.github.io/posts/muon/
---

A weight matrix takes vectors to vectors. Its gradient is a matrix too, and like any
matrix it can be written as a sum of *directions*: for each of them a vector $v_i$ that
comes in, a vector $u_i$ that goes out, and a number $\sigma_i$ that says how much the
loss asks for it,

$$G = \sum_i \sigma_i \, u_i v_i^\top = U \Sigma V^\top$$

the singular value decomposition. In a transformer a few $\sigma_i$ are large and most
are tiny. Gradient descent follows the large ones and hardly touches the others. AdamW
divides each *entry* by its usual size; but directions are no entries, and the step is
still dominated by a few. Muon ([@jordan2024muon]: *momentum, orthogonalised by Newton
and Schulz*) sets all of them to one:

$$O = U V^\top, \qquad W \leftarrow W - \eta \, O$$

Every direction in which the loss asks for anything gets the same step. What was rare in
the batch, but pointed somewhere, is learned as fast as what was common.

There is a reason for just this matrix. Of all steps that change no input by more than
its own length, those whose largest singular value is at most 1, $U V^\top$ is the one
with which the loss falls fastest ([@bernstein2024old]). Plain gradient descent answers
the same question with the entries of the matrix laid out as one long vector.

Of memory it takes half of [AdamW](../experiments/update.py)'s. It pays with
[products](#what-it-costs).

![The singular values of a gradient, and of the step that Muon makes of
it.](figure:muon.before_and_after)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$ | `parameter` | `[M, N]` | a matrix of weights |
| $G$ | `parameter.grad` | `[M, N]` | its gradient |
| $B$ | `buffer` | `[M, N]` | the mean of past gradients |
| $X$ | `x` | | matrices on their way to $U V^\top$ |
| $A$ | `gram` | | $X X^\top$, square |
| $a$, $b$, $c$ | `COEFFICIENTS` | | of the polynomial |
| $\mu$ | `momentum` | | how slowly the mean forgets |
| $\eta$, $\lambda$ | `lr`, `weight_decay` | | learning rate, pull to zero |
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["COEFFICIENTS", "Muon", "orthogonalise"]

# $a$, $b$, $c$ of the polynomial below, as Jordan et al. found them.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(
    matrices: Float[Tensor, "*n M N"],
    *,
    steps: int = 5,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "*n M N"]:
    r"""
    ## All singular values to one

    One could compute $U$ and $V$. That is slow on every processor, and a GPU is
    especially bad at it. But polynomials of matrices need products only, and an *odd*
    polynomial acts on singular values alone. Since
    $X X^\top = U \Sigma V^\top V \Sigma U^\top = U \Sigma^2 U^\top$,

    $$\begin{aligned} a X + b \, (X X^\top) X &+ c \, (X X^\top)^2 X \\
        &= U \left(a \Sigma + b \Sigma^3 + c \Sigma^5 \right) V^\top \end{aligned}$$

    So we look for $\varphi(\sigma) = a \sigma + b \sigma^3 + c \sigma^5$ that, applied
    again and again, brings every number between 0 and 1 close to 1. That of a textbook
    converges to 1 exactly, but what is small grows by half only each time. Jordan et
    al. chose coefficients that grow it 3.4 times, and gave up on precision: after five
    rounds everything above 0.002 lies between 0.68 and 1.21. For a step in the right
    direction that is close enough.

    ![What five rounds make of a singular value, and what five rounds of the textbook's
    polynomial make of it.](figure:muon.polynomials)

    * `matrices` is one, `[M, N]`, or several that share each product, `[n, M, N]`
    * `steps` is how often the polynomial is applied
    * `dtype` is what to compute in; `None`: bfloat16 on a GPU, else that of `matrices`

    Returns the same shape and dtype. A matrix of zeros stays zero.
    """
    x = matrices.to(_working_dtype(matrices) if dtype is None else dtype)

    # $X X^\top$ is as large as $X$ has rows, so a tall matrix is worked on lying down.
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT

    # The polynomial is for numbers from 0 to 1. No singular value is larger than
    # $\sqrt{\sum_i \sigma_i^2}$, and that is the norm of all entries.
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)

    # $a X + (b A + c A A) X$: three products a round, and no brackets need fewer.
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        gram = x @ x.mT
        inner = _added(gram, gram, gram, b, c)
        x = _added(x, inner, x, a, 1.0)
    return (x.mT if tall else x).to(matrices.dtype)


def _added(x: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float) -> Tensor:
    # $\beta X + \alpha L R$ in one call, for one matrix or several.
    add = torch.addmm if x.dim() == 2 else torch.baddbmm
    return add(x, left, right, beta=beta, alpha=alpha)


def _working_dtype(matrices: Tensor) -> torch.dtype:
    return torch.bfloat16 if matrices.is_cuda else matrices.dtype


class Muon(Optimizer):
    r"""
    ## The optimizer

    For the matrices *inside* a model. Vectors have no directions to make equal, and a
    table of embeddings is a list of rows, one for each token, of which a batch touches
    a few: both stay with AdamW.

    `torch.optim.Muon` computes the same, one matrix after the other and always in
    bfloat16. Many processors have no such arithmetic and imitate it; here the dtype can
    be chosen, and matrices of one shape go through their products together.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 0.02,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        steps: int = 5,
        dtype: torch.dtype | None = None,
    ) -> None:
        r"""
        * `params` are matrices, or groups of them with options of their own
        * `lr` is $\eta$: how far a step goes in each direction
        * `weight_decay` is $\lambda$
        * `momentum` is $\mu$, from 0 up to, but not including, 1
        * `nesterov` is whether to look one gradient ahead
        * `steps` and `dtype` are those of `orthogonalise`

        Raises `ValueError` for what is no matrix, and for numbers that cannot be.
        """
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not 0 <= value < math.inf:
                raise ValueError(f"`{name}` ({value}) must be 0 or more, and finite")
        if not 0 <= momentum < 1:
            raise ValueError(
                f"`momentum` ({momentum}) must be at least 0 and less than 1; 0.95 is "
                "usual"
            )
        if steps < 1:
            raise ValueError(f"`steps` ({steps}) must be at least 1; 5 is usual")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "steps": steps,
            "dtype": dtype,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises `ValueError` for a group with a parameter that is no matrix."""
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            if parameter.dim() != 2 or not parameter.is_floating_point():
                raise ValueError(
                    f"Muon got a parameter of shape {list(parameter.shape)} and dtype "
                    f"{parameter.dtype}; expected real matrices [M, N]. Give vectors, "
                    "biases and tables to torch.optim.AdamW"
                )

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """
        ### One step

        * `closure` computes the loss and its gradients again, if given

        Returns what the closure did. Parameters without a gradient stay as they are.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            together: dict[Any, list[tuple[nn.Parameter, Tensor]]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update = self._look_ahead(parameter, group)
                    kind = (update.shape, update.dtype, update.device)
                    together.setdefault(kind, []).append((parameter, update))
            for alike in together.values():
                _move(alike, group)
        return loss

    def _look_ahead(self, parameter: nn.Parameter, group: dict[str, Any]) -> Tensor:
        r"""
        ### A mean of gradients

        One batch is noise for the most part, so directions are taken from a mean,

        $$B \leftarrow \mu B + (1 - \mu) \, G$$

        and the newest gradient counts once more, as if the next one were like it:
        $\mu B + (1 - \mu) \, G$ again. Nesterov's momentum does so with the size of the
        step; here the size is lost in what follows, and only the mixture matters.
        """
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if gradient.is_sparse:
            raise ValueError(
                "Muon got a sparse gradient; build the table with sparse=False, or "
                "give it to torch.optim.SparseAdam"
            )
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        buffer: Tensor = state["momentum_buffer"]
        buffer.lerp_(gradient, 1 - group["momentum"])
        return gradient.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer


def _move(alike: list[tuple[nn.Parameter, Tensor]], group: dict[str, Any]) -> None:
    r"""
    ### The step

    $$W \leftarrow (1 - \eta \lambda) \, W
        - \eta \, \sqrt{\max(1, M / N)} \; O$$

    Why the root? A row of inputs has features of some size $s$, and $O$ keeps its
    length $s \sqrt{N}$ if it has at least as many rows as columns. Spread over $M$
    outputs that is $s \sqrt{N / M}$ each, too little if there are many; the root makes
    it $s$ again. With fewer rows $O$ keeps what lies in its $M$ directions, a length of
    $s \sqrt{M}$ on average, and $s$ for each output. So whatever the shape, a step
    changes each output by about $\eta$ times the size of an input.

    $\lambda$ pulls on the weight itself and not on its gradient, as in AdamW: in the
    gradient it would be one direction among others, and lose its size.
    """
    # A matrix alone needs no third axis.
    rows, columns = alike[0][0].shape
    given = [update for _, update in alike]
    together = given[0] if len(given) == 1 else torch.stack(given)
    steps = orthogonalise(together, steps=group["steps"], dtype=group["dtype"])
    steps = steps.reshape(-1, rows, columns)

    size = group["lr"] * math.sqrt(max(1.0, rows / columns))
    for (parameter, _), update in zip(alike, steps, strict=True):
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(update, alpha=-size)


# ## What it costs
#
# A round for $M \times N$ numbers, $M \le N$, takes $2 M^2 N + M^3$ multiplications. To
# learn from one token takes $3 M N$ for that matrix: forward, and backward for inputs
# and for weights. So five rounds are worth the work on $\frac{5}{3} (2 M + M^2 / N)$
# tokens, whatever the batch: 640 for a square matrix of 128 and 480 for one of
# $128 \times 512$. Beside a batch of a thousand tokens that is half of the work. Large
# models with $M = N = 4096$ learn from half a million at a time, and it is 4 %.
#
# ## Differences from the post
#
# * **Weight decay**, which the post leaves out. Liu et al. ([-@liu2025muon]) found that
#   large models need it.
# * **The mean of gradients** is $\mu B + (1 - \mu) G$ here, as in PyTorch, and
#   $\mu B + G$ in the post. After the division by its size it is the same.
# * **Convolutions**, which can be read as matrices, are refused.
#
# ## Exercises
#
# **1.** Multiply the loss by 1,000. How do the steps of gradient descent, AdamW and
# Muon change? Then turn the outputs of the layer, $G \to R \, G$ with a rotation $R$.
# Whose steps turn with them?
#
# <details><summary>Answer</summary>
#
# Gradient descent makes steps a thousand times as large, the other two the same.
# Gradient descent and Muon turn with the outputs: they know directions. AdamW does not,
# since it looks at entries, and these are others after a rotation.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.optimizers.muon import Muon
#
# def step(kind, gradient):
#     weight = nn.Parameter(torch.zeros(8, 12))
#     weight.grad = gradient
#     kind([weight], lr=1.0, weight_decay=0.0).step()
#     return weight.detach()
#
# gradient, (turn, _) = torch.randn(8, 12), torch.linalg.qr(torch.randn(8, 8))
# descent, adam = torch.optim.SGD, torch.optim.AdamW
# for kind, factor in ((descent, 1000), (adam, 1), (Muon, 1)):
#     expected = factor * step(kind, gradient)
#     assert torch.allclose(step(kind, 1000 * gradient), expected, rtol=1e-3, atol=1e-3)
# for kind, turns in ((descent, True), (adam, False), (Muon, True)):
#     turned = turn @ step(kind, gradient)
#     assert torch.allclose(step(kind, turn @ gradient), turned, atol=1e-2) == turns
# ```
#
# </details>
#
# **2.** Of all matrices whose singular values are at most 1, which one, taken as a
# step, makes the loss fall fastest, to first order? Show that it is $U V^\top$ and how
# fast the loss falls.
#
# <details><summary>Answer</summary>
#
# To first order the loss falls by $\langle G, X \rangle = \sum_{ij} G_{ij} X_{ij} =
# \sum_i \sigma_i \, u_i^\top X v_i$. No $u_i^\top X v_i$ is larger than the largest
# singular value of $X$, so the sum is at most $\sum_i \sigma_i$. With $X = U V^\top$
# all of them are 1 at once.
#
# ```python
# import torch
#
# gradient = torch.randn(8, 12, dtype=torch.float64)
# u, sigma, vt = torch.linalg.svd(gradient, full_matrices=False)
# best = (gradient * (u @ vt)).sum()
# torch.testing.assert_close(best, sigma.sum())
# for _ in range(200):
#     other = torch.randn(8, 12, dtype=torch.float64)
#     other = other / torch.linalg.matrix_norm(other, 2)
#     assert (gradient * other).sum() < best
# descent = gradient / torch.linalg.matrix_norm(gradient, 2)
# assert (gradient * descent).sum() < best
# ```
#
# </details>
#
# **3.** The textbook's polynomial is $\frac{3}{2} \sigma - \frac{1}{2} \sigma^3$. In
# how many rounds does it bring 0.002 above 0.68, and in how many does Muon's?
#
# <details><summary>Answer</summary>
#
# A small number grows by half each time, and $1.5^{14} = 292$: 15 rounds against five.
#
# ```python
# from labml_nn.optimizers.muon import COEFFICIENTS
#
# def rounds(a, b, c, size=0.002):
#     n = 0
#     while size < 0.68:
#         size, n = a * size + b * size**3 + c * size**5, n + 1
#     return n
#
# assert rounds(1.5, -0.5, 0.0) == 15 and rounds(*COEFFICIENTS) == 5
# ```
#
# </details>
#
# **4.** Apply Muon to a table of embeddings. What happens to the rows of tokens that
# were not in the batch, and to those of tokens that were there often?
#
# <details><summary>Answer</summary>
#
# Rows of zeros stay zero. Of the others, a token that came up once is moved as far as
# one that came up a hundred times: rare words, of which the batch knows next to
# nothing, get the largest steps for their evidence.
#
# ```python
# import torch
# from labml_nn.optimizers.muon import orthogonalise
#
# how_often = torch.tensor([100.0, 30.0, 10.0, 3.0, 1.0, 0.0])
# gradient = how_often[:, None] * torch.randn(6, 64)
# moved = orthogonalise(gradient, steps=10).norm(dim=1)
# assert moved[5] == 0 and (moved[:5] > 0.6).all() and (moved[:5] < 1.3).all()
# ```
#
# </details>
