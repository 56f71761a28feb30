r"""
---
title: Linear attention and fast weights
summary: >
  Attention without its softmax is a recurrent network whose state is a matrix. It
  remembers by adding pairs of a key and a value, and recalls with one product.
paper: https://arxiv.org/abs/2006.16236
---

*Ann has 3 apples and 1 pear. Ben has 2 apples and 4 pears.* And Ann? To answer, you
look up *Ann*. [Attention](../transformers/mha.py) does the same. It stores a key and a
value for each token that it has read, compares a query with all the keys, and collects
the values of those that match. Nothing is lost. But the list grows with every token,
and each new token is compared with the whole list. After ten thousand tokens it holds
ten thousand keys and ten thousand values.

Can we look something up without such a list? An [LSTM](../lstm/__init__.py) has a state
of fixed size. But its cells are counters, and none of them can be asked for Ann. Let us
build a memory of fixed size in which you can look things up.

## A memory by hand

Give each of the two a **key**, a vector of two numbers: (1, 0) for Ann and (0, 1) for
Ben. Their **values** are what they have, apples and pears. Now write both into a table:

| | apples | pears |
|:--|--:|--:|
| Ann | 3 | 1 |
| Ben | 2 | 4 |

This table is the whole memory, a matrix $S$ of 2 × 2 numbers. How did we write it? We
added two matrices to an empty one. What a pair adds is the **outer product** of its key
and its value: each number of the key times each number of the value.

$$S = \begin{pmatrix} 1 \\ 0 \end{pmatrix} \begin{pmatrix} 3 & 1 \end{pmatrix}
    + \begin{pmatrix} 0 \\ 1 \end{pmatrix} \begin{pmatrix} 2 & 4 \end{pmatrix}
    = \begin{pmatrix} 3 & 1 \\ 0 & 0 \end{pmatrix}
    + \begin{pmatrix} 0 & 0 \\ 2 & 4 \end{pmatrix}
    = \begin{pmatrix} 3 & 1 \\ 2 & 4 \end{pmatrix}$$

To **read**, multiply a query by the matrix. The query (1, 0) asks for Ann, and $1 \cdot
(3, 1) + 0 \cdot (2, 4) = (3, 1)$. That is exactly what she has.

**A third pair.** Cleo has 5 apples and no pears. There is no third row for her. But a
key need not select a row. Any direction will do, so let her key be (0.6, 0.8), which
has length 1 like the other two. Her outer product is added as well:

$$\begin{pmatrix} 3 & 1 \\ 2 & 4 \end{pmatrix}
    + \begin{pmatrix} 0.6 \\ 0.8 \end{pmatrix} \begin{pmatrix} 5 & 0 \end{pmatrix}
    = \begin{pmatrix} 6 & 1 \\ 6 & 4 \end{pmatrix}$$

Now ask for all three:

| asked for | query | found | right |
|:--|:--|:--|:--|
| Ann | (1, 0) | (6, 1) | (3, 1) |
| Ben | (0, 1) | (6, 4) | (2, 4) |
| Cleo | (0.6, 0.8) | (8.4, 3.8) | (5, 0) |

All three answers are wrong. Ann has 3 apples too many. Where do they come from? The dot
product of her query with the key of Cleo is 1 · 0.6 + 0 · 0.8 = 0.6, and $0.6 \cdot (5,
0) = (3, 0)$. So the memory returns *all* values, and each of them counts as much as its
key agrees with the query. Try it for Cleo: $1 \cdot (5, 0) + 0.6 \cdot (3, 1) + 0.8
\cdot (2, 4) = (8.4, 3.8)$.

Ann and Ben did not disturb each other, because their keys are **orthogonal**, at right
angles, and their dot product is 0. This is what limits the memory. There are not more
than two directions at right angles in a plane, and not more than $d_k$ among vectors of
$d_k$ numbers. So a memory with keys of $d_k$ numbers can keep $d_k$ pairs apart, and
with more than that it begins to mix them up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_bool, check_heads, check_sizes
from labml_nn.language_model import at_least_single
from labml_nn.recurrent.language_model import RecurrentConfig, RecurrentLanguageModel

__all__ = [
    "LinearAttention",
    "LinearAttentionConfig",
    "LinearAttentionLanguageModel",
    "LinearAttentionState",
    "ShortConvolution",
    "feature_map",
    "linear_attention_chunks",
    "linear_attention_loop",
    "linear_attention_table",
]


def linear_attention_loop(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The loop

    We begin with the form of the example: write a pair, then read. There are $H$
    memories, one for each head, and they are independent.

    * `q`, `k`: queries and keys, `[T, B, H, D]`
    * `v`: values, `[T, B, H, Dv]`
    * `memory`: what was written before, `[B, H, D, Dv]`

    Returns what each query found, `[T, B, H, Dv]`, and the memory after the last pair.
    """
    found = []
    for q_t, k_t, v_t in zip(q, k, v, strict=True):
        # **Write**: add the outer product of key and value. The key becomes a column
        # and the value a row, so that each number of one meets each number of the
        # other. This makes a new matrix. The old one may still be needed, by a gradient
        # or by a caller who goes on from there twice.
        memory = memory + k_t[..., :, None] * v_t[..., None, :]

        # **Read**: the query times the matrix. It reads after the pair is written, so a
        # token also finds its own value. Attention does the same.
        found.append((q_t[..., None, :] @ memory)[..., 0, :])
    return torch.stack(found), memory


def linear_attention_table(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    memory: Float[Tensor, "B H D Dv"],
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## The table

    The same as attention: $Y = \operatorname{tril}(Q K^\top) \, V$. Nothing waits for
    anything, but the table has $T^2$ numbers.
    """
    # Each query meets each key. `tril` keeps the lower triangle, diagonal included: a
    # token reads what was written up to now. Attention sets the other scores to
    # $-\infty$, because a softmax follows. Without one they become 0.
    scores = torch.einsum("tbhd,sbhd->bhts", q, k).tril()
    found = torch.einsum("bhts,sbhe->tbhe", scores, v)

    # What was written before this sequence is found with one product. And the memory
    # behind it is the sum of all pairs, once more by one product.
    found = found + torch.einsum("tbhd,bhde->tbhe", q, memory)
    return found, memory + torch.einsum("sbhd,sbhe->bhde", k, v)


def linear_attention_chunks(
    q: Float[Tensor, "T B H D"],
    k: Float[Tensor, "T B H D"],
    v: Float[Tensor, "T B H Dv"],
    memory: Float[Tensor, "B H D Dv"],
    chunk: int = 64,
) -> tuple[Float[Tensor, "T B H Dv"], Float[Tensor, "B H D Dv"]]:
    r"""
    ## Chunks

    The text is cut into chunks of 64 tokens. Inside a chunk we compute the table, which
    is small. What lies before the chunk is in the memory. So the work grows with $T$
    and not with $T^2$, and nearly nothing has to wait.
    """
    # The last chunk may be too short. Zeros fill it up: a key of zeros writes nothing.
    # Now there are `n` chunks, `[n, chunk, B, H, D]`.
    length, chunk = len(q), min(chunk, len(q))
    n = -(-length // chunk)
    padding = (0, 0) * 3 + (0, n * chunk - length)
    q, k, v = (
        torch.unflatten(F.pad(part, padding), 0, (n, chunk)) for part in (q, k, v)
    )

    # What each chunk writes, for all chunks at once. Then the memory before a chunk is
    # a running sum: what was there at the beginning, and all chunks so far.
    written = torch.einsum("nsbhd,nsbhe->nbhde", k, v)
    memories = torch.cat([memory[None], written]).cumsum(0)

    # Each token finds what was written in its own chunk, with a table, …
    scores = torch.einsum("ntbhd,nsbhd->nbhts", q, k).tril()
    found = torch.einsum("nbhts,nsbhe->ntbhe", scores, v)

    # … and what was written before its chunk, in the memory.
    found = found + torch.einsum("ntbhd,nbhde->ntbhe", q, memories[:-1])
    return found.flatten(0, 1)[:length], memories[-1].clone()


def feature_map(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""
    ## Feature map

    $\phi(x) = \operatorname{elu}(x) + 1$ is $x + 1$ for a positive $x$, and $e^x$
    otherwise. It is never negative, and it has a gradient everywhere. With a ReLU a key
    whose numbers are all negative could not learn any more
    ([@katharopoulos2020transformers, §3.2.1]).
    """
    return F.elu(x) + 1


class ShortConvolution(nn.Module):
    r"""
    ## Short convolution

    It lets a token see its neighbours before it. Each feature is replaced by a weighted
    sum of that feature at the last $W$ positions, with weights $w$ of its own:

    $$y_{t,f} = \sum_{j=0}^{W-1} w_{f,j} \; x_{t-(W-1)+j,\,f}$$

    Features are not mixed ("depthwise"), so there are only $W$ weights for each of
    them. For the key of the token before alone, with $W = 4$, the weights would be 0,
    0, 1 and 0.
    """

    def __init__(self, features: int, width: int = 4, bias: bool = False) -> None:
        """
        * `features`: features of a position, $F$
        * `width`: positions that a sum covers, $W$
        * `bias`: whether a bias is added
        """
        super().__init__()
        check_sizes(features=features, width=width)
        check_bool(bias=bias)
        self.features, self.width = features, width

        # The weights have the shape of those of `nn.Conv1d(features, features, width,
        # groups=features)`, and begin in the same way.
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(features, 1, width))
        nn.init.uniform_(self.weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(features)) if bias else None

    def forward(
        self,
        x: Float[Tensor, "T B F"],
        before: Float[Tensor, "before B F"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B F"], Float[Tensor, "before B F"]]:
        """
        * `x`: vectors of the positions, `[T, B, F]`
        * `before`: the $W - 1$ vectors before them, `[W-1, B, F]`; `None` is zero
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns the sums, `[T, B, F]`, and the last $W - 1$ vectors, `[W-1, B, F]`,
        which are `before` for the next chunk.
        """
        if before is None:
            before = x.new_zeros(self.width - 1, *x.shape[1:])
        padded = torch.cat([before, x])

        # $y_t$ needs $x_{t-W+1}$ to $x_t$. In `padded` these are the rows from $t$ on.
        y: Tensor = self.weight[:, 0, 0] * padded[: len(x)]
        for j in range(1, self.width):
            y = y + self.weight[:, 0, j] * padded[j : j + len(x)]
        if self.bias is not None:
            y = y + self.bias

        # Behind the last token there may be padding, which is not remembered.
        if mask is None:
            return y, padded[len(x) :].clone()
        last = mask.sum(0) + torch.arange(self.width - 1, device=x.device)[:, None]
        return y, padded.gather(0, last[..., None].expand(-1, -1, self.features))


class LinearAttentionState(NamedTuple):
    """
    ## State

    * `memory`: the sum of all pairs so far, `[B, H, D, Dv]`
    * `recent`: the last keys, for the short convolution, `[W-1, B, C]`
    """

    memory: Float[Tensor, "B H D Dv"]
    recent: Float[Tensor, "before B C"]


class LinearAttention(nn.Module):
    r"""
    ## Linear attention

    Now we join the parts into a layer that can stand where attention stood. In the
    [language model](language_model.py) such a layer is called a mixer.
    """

    def __init__(self, d_model: int, heads: int, *, conv: int = 4) -> None:
        """
        * `d_model`: features of a position, $C$
        * `heads`: memories side by side, $H$, each with keys of $C / H$ numbers
        * `conv`: positions that a key is made of, $W$; with 1 only its own
        """
        super().__init__()
        check_heads(heads, d_model)
        check_sizes(conv=conv)
        self.heads = heads

        # As in attention, queries, keys and values are projections of the input, for
        # all heads in one product.
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.conv = ShortConvolution(d_model, conv)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: tuple[Float[Tensor, "B H D Dv"], Float[Tensor, "before B C"]]
        | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], LinearAttentionState]:
        r"""
        * `x`: vectors of the positions, `[T, B, C]`
        * `state`: what was returned for the chunk before; `None` at the beginning
        * `mask`: `True` for tokens and `False` for padding at the end, `[T, B]`

        Returns what the heads found, `[T, B, C]`, and the next state. It is attached to
        the graph: detach it before you pass it to the next chunk.
        """
        memory, recent = (None, None) if state is None else state

        # The key under which a value is written comes from the tokens before it. The
        # query and the value come from the token itself.
        key, recent = self.conv(self.key(x), recent, mask)

        # Split into heads. The memory is a sum of very many small numbers, so all of it
        # is computed with at least 32 bits.
        q, k, v = (
            torch.unflatten(at_least_single(part), -1, (self.heads, -1))
            for part in (self.query(x), key, self.value(x))
        )

        # From here on, products of queries and keys are positive.
        q, k = feature_map(q), feature_map(k)

        # Padding writes nothing.
        if mask is not None:
            k = k * mask[..., None, None]

        # Each value gets one more number, a 1. All sums treat it as the others, so in
        # this place stands $z$, the sum of the keys, and what is found there is the sum
        # of all weights.
        v = F.pad(v, (0, 1), value=1.0)
        if memory is None:
            memory = v.new_zeros(*v.shape[1:3], q.shape[-1], v.shape[-1])

        # A single token, as in generation, is one step of the loop. A longer text takes
        # the chunks.
        attend: Callable[..., tuple[Tensor, Tensor]] = (
            linear_attention_loop if len(x) == 1 else linear_attention_chunks
        )
        found, memory = attend(q, k, v, memory)

        # The sum becomes an average. A tiny number keeps us from dividing by 0, where
        # all weights are so small that they are rounded to 0.
        y = found[..., :-1] / (found[..., -1:] + 1e-6)
        return self.output(y.flatten(-2).to(key.dtype)), LinearAttentionState(
            memory, recent
        )


@dataclass(frozen=True, kw_only=True)
class LinearAttentionConfig(RecurrentConfig):
    """
    ## Configuration

    * `heads`: memories of a layer, $H$
    * `conv`: positions that a key is made of, $W$; with 1 only its own

    [`RecurrentConfig`](language_model.py#RecurrentConfig) has the fields that all
    models of this kind share.
    """

    heads: int = 4
    conv: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.d_model)
        check_sizes(conv=self.conv)


class LinearAttentionLanguageModel(RecurrentLanguageModel):
    """
    ## Language model

    Embedding, layers, logits: all but the mixer stands on [the page that three models
    share](language_model.py).
    """

    name = "linear_attention"
    Config = LinearAttentionConfig
    config: LinearAttentionConfig

    def mixer(self) -> LinearAttention:
        """One for each layer."""
        sizes = self.config
        return LinearAttention(sizes.d_model, sizes.heads, conv=sizes.conv)


# ## Cost
