r"""
---
title: Feedback transformer
summary: >
  A transformer with recurrence: every layer attends to one memory, a weighted sum of
  the outputs of all layers at all earlier steps.
paper: https://arxiv.org/abs/2002.09402
notebook: notebooks/feedback.ipynb
---

Read this program line by line, and say what it prints:

```text
x = 3
x = x + 1
x = x + 1
print(x)
```

You keep the value in mind: 4 after the second line, 5 after the third. A transformer
cannot compute like this. Its layer $l$ attends to the outputs of layer $l - 1$ at
earlier positions, so what layer 1 concludes about line 2 is available to layer 2 at
line 3, and what layer 2 concludes there to layer 3. Each update of $x$ takes a layer,
and a model of $L$ layers runs out of them, although the top layer *had* the value of
$x$ one step before.

![Left: the outputs of all layers at a step form its memory vector, and all layers of
later steps attend to it. Right: one layer.](figure:feedback.diagram)

A **feedback transformer** ([@fan2020feedback]) makes the outputs of the upper layers
available to the lower ones. At the end of step $t$ it forms a **memory vector**, a
weighted sum of the outputs $x_t^l$ of *all* layers $l$, and at all later steps *every*
layer attends to the memory vectors $m_0, \dots, m_{t-1}$:

\begin{align}
x_t^l &= \operatorname{Layer}_l\big(x_t^{l-1}, \; [m_0, \dots, m_{t-1}]\big) \\
m_t &= \sum_{l=0}^{L} \operatorname{softmax}(w)_l \; x_t^l
\end{align}

Layer 1 at step $t$ starts from what layer $L$ computed at step $t - 1$, so the chain of
layers grows with the sequence, as in a recurrent network, but without its bottleneck, a
hidden state of fixed size: attention still reaches every earlier step directly. The
price is that training is sequential ([depth and cost](#depth-and-cost)). The [language
model](language_model.py) adds token embeddings and a loss.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t^0$ | `x_seq` | `[T, B, C]` | embedded tokens of all steps $t$ |
| $x_t^l$ | `levels` | `[B, C]` each | outputs of layers $l = 0, \dots, L$ at a step |
| $w$ | `weights` | `[L + 1]` | weights of the layers in memory, before the softmax |
| $m_t$ | `vector` | `[B, C]` | memory vector of step $t$ |
| $q$ | `query` | `[B, H, D]` | query of the token that is read |
| $k_j$, $v_j$ | `key`, `value` | `[S, B, H, D]` | keys, values of $S$ memory slots |
| $E_d$ | `key_pos_embeddings` | `[P, H, D]` | embedding of distance $d$ |
| $b_d$ | `key_pos_bias` | `[P, H]` | bias of distance $d$ |
| $u$ | `query_pos_bias` | `[H, D]` | bias of all queries |
| $e_j$ | `scores` | `[S, B, H]` | attention scores |
| $A_j$ | `attn` | `[S, B, H]` | attention weights |
| $\tau$ | `horizon` | | number of memory slots, if it is limited |

</details>
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import (
    check_bool,
    check_heads,
    check_probability,
    check_same_width,
    check_sizes,
)
from labml_nn.kernels import reference
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import PrepareForMultiHeadAttention
from labml_nn.utils import independent_copies

__all__ = [
    "FeedForward",
    "FeedbackAttention",
    "FeedbackMemory",
    "FeedbackTransformer",
    "FeedbackTransformerKV",
    "FeedbackTransformerLayer",
    "Stack",
]


class FeedbackAttention(nn.Module):
    r"""
    ## Attention to the memory

    Multi-head attention ([explained here](../mha.py)) with a single query per sequence,
    the token that is read, and the $S$ slots of memory as keys and values.
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        *,
        is_kv_precomputed: bool = False,
        max_distance: int = 2**12,
    ) -> None:
        r"""
        * `heads` is the number of heads, $H$
        * `d_model` is the number of features, $C$; each head has $D = C / H$
        * `dropout_prob` is the dropout probability of the attention weights
        * `is_kv_precomputed` is whether `key` and `value` are projected already, as in
          `FeedbackTransformerKV`
        * `max_distance` is the number $P$ of distances with parameters; farther slots
          share those of the farthest

        Raises `ValueError` if `d_model` is not divisible by `heads`.
        """
        super().__init__()
        check_heads(heads, d_model)
        check_probability(dropout_prob=dropout_prob)
        check_bool(is_kv_precomputed=is_kv_precomputed)
        check_sizes(max_distance=max_distance)
        self.heads, self.d_model, self.d_k = heads, d_model, d_model // heads
        self.is_kv_precomputed = is_kv_precomputed

        # Keys have no bias: it would add the same number to all scores of a query, and
        # the softmax does not change if all scores do. A bias of queries does make a
        # difference, and is the parameter $u$ below.
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.key: PrepareForMultiHeadAttention | None = None
        self.value: PrepareForMultiHeadAttention | None = None
        if not is_kv_precomputed:
            self.key = PrepareForMultiHeadAttention(
                d_model, heads, self.d_k, bias=False
            )
            self.value = PrepareForMultiHeadAttention(
                d_model, heads, self.d_k, bias=True
            )
        self.output = nn.Linear(d_model, d_model)
        self.softmax = nn.Softmax(dim=0)
        self.dropout = nn.Dropout(dropout_prob)
        self.scale = 1 / math.sqrt(self.d_k)

        # Row $P - d$ of a table belongs to distance $d$: the last row to the step
        # before. The default of 4096 rows is that of existing checkpoints, and large:
        # in a model of 6 layers with $C = 512$ and $F = 2048$ the tables hold 44 % of
        # the parameters, and training on sequences of 128 tokens reaches 127 rows.
        self.P = max_distance
        self.key_pos_embeddings = nn.Parameter(torch.empty(self.P, heads, self.d_k))
        self.key_pos_bias = nn.Parameter(torch.empty(self.P, heads))
        self.query_pos_bias = nn.Parameter(torch.empty(heads, self.d_k))
        self.reset_parameters()
        # The weights of the last call, for plots.
        self.attn: Tensor | None = None

    def reset_parameters(self) -> None:
        "At first all distances are equal."
        for table in (self.key_pos_embeddings, self.key_pos_bias, self.query_pos_bias):
            nn.init.zeros_(table)

    def get_scores(
        self, query: Float[Tensor, "B H D"], key: Float[Tensor, "S B H D"]
    ) -> Float[Tensor, "S B H"]:
        r"""
        ### Scores with relative positions

        $$e_j = \underbrace{q^\top k_j}_{\text{A}} + \underbrace{q^\top E_d}_{\text{B}}
        + \underbrace{u^\top k_j}_{\text{C}} + \underbrace{b_d}_{\text{D}},
        \qquad d = S - j$$

        Content and distance both count. Term A compares the query with what slot $j$
        holds, and term C is what the slot is worth to any query. Terms B and D depend
        on the **distance** $d$ alone: the last slot, $j = S - 1$, is one step back. B
        lets a query prefer some distances, and D is the same for all queries.

        Why distance and not position? Text means the same wherever it stands in a book,
        and a model that counts backwards works at any position, as long as it has seen
        the distances in training ([@fan2020feedback, "Relative Positional
        Embeddings"]).

        The four terms are those of Transformer-XL ([@dai2019transformerxl, §3.3]), with
        one difference in B and D. There $E_d$ is a learned projection of a fixed
        sinusoid of $d$, and D is $v^\top E_d$ with a learned vector $v$; here $E_d$ and
        $b_d$ are free parameters of each distance, head and layer.

        Returns $e$, `[S, B, H]`: one score for each slot, sequence and head. Override
        this method for other scores.
        """
        # Slots that are farther than the table is long share its first row.
        distance = torch.arange(-len(key), 0, device=key.device).clamp(min=-self.P)
        # A and C share the key; B and D do not depend on the sequence's memory.
        content = torch.einsum("bhd,sbhd->sbh", query + self.query_pos_bias, key)
        embeddings = self.key_pos_embeddings[distance]
        position = torch.einsum("bhd,shd->sbh", query, embeddings)
        return content + position + self.key_pos_bias[distance].unsqueeze(1)

    def forward(
        self,
        *,
        query: Float[Tensor, "B C"],
        key: Float[Tensor, "S B *slot"],
        value: Float[Tensor, "S B *slot"],
        mask: Bool[Tensor, "S #B"] | None = None,
    ) -> Float[Tensor, "B C"]:
        r"""
        ### Attention

        $$\operatorname{Attention}(q, k, v) = \sum_{j=0}^{S-1} A_j \, v_j, \qquad
        A = \operatorname{softmax}_j \left( \frac{e_j}{\sqrt{D}} \right)$$

        * `query` is the token that is read, `[B, C]`
        * `key`, `value` are the memory vectors, `[S, B, C]` with $S \ge 1$; with
          `is_kv_precomputed` their keys and values, `[S, B, H, D]`
        * `mask` is `True` for slots that a sequence may attend to, `[S, B or 1]`
        """
        query = self.query(query)
        if self.key is not None and self.value is not None:
            key, value = self.key(key), self.value(value)
        scores = self.get_scores(query, key) * self.scale

        # The smallest finite number, and not $-\infty$, so that a sequence without any
        # slot has no NaN on its way to a weight of zero.
        if mask is not None:
            hidden = ~mask.unsqueeze(-1)
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        attn = self.softmax(scores)
        if mask is not None:
            attn = attn.masked_fill(hidden, 0.0)
        self.attn = attn.detach()
        attn = self.dropout(attn)

        # The heads are concatenated, and $W^O$ mixes what they found.
        heads = torch.einsum("sbh,sbhd->bhd", attn, value)
        output: Tensor = self.output(heads.flatten(1))
        return output

    # Copies and pickles of the module leave the recorded weights behind.
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "attn": None}


class FeedbackTransformerLayer(nn.Module):
    r"""
    ## Layer

    \begin{align}
    z &= x + \operatorname{Attention}(\operatorname{LN}(x), m) \\
    \operatorname{Layer}(x, m) &= z + \operatorname{FFN}(\operatorname{LN}(z))
    \end{align}

    This is the layer of any transformer: attention gathers from memory, a [feed-forward
    network](../feed_forward.py) works on what was gathered, and residual connections
    add both to the input. Layer normalization comes before each of them (pre-norm), so
    that an uninterrupted path of additions leads through the whole stack, along which
    gradients flow undiminished. New is only where keys and values come from.
    """

    def __init__(
        self,
        *,
        d_model: int,
        attn: FeedbackAttention,
        feed_forward: nn.Module,
        dropout_prob: float,
    ) -> None:
        r"""
        * `d_model` is the number of features, $C$
        * `attn` is the attention to the memory
        * `feed_forward` maps `[B, C]` to `[B, C]`
        * `dropout_prob` is the dropout probability of what attention and network add

        Raises `ValueError` if `attn` or `feed_forward` was built for another width.
        """
        super().__init__()
        check_sizes(d_model=d_model)
        check_probability(dropout_prob=dropout_prob)
        widths = {"attn": getattr(attn, "d_model", None)}
        if isinstance(feed_forward, FeedForward):
            widths["feed_forward"] = feed_forward.layer1.in_features
        check_same_width(d_model=d_model, **widths)
        self.size = d_model
        self.attn = attn
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout_prob)
        self.norm_self_attn = nn.LayerNorm([d_model])
        self.norm_ff = nn.LayerNorm([d_model])

    def forward(
        self,
        *,
        x: Float[Tensor, "B C"],
        key: Float[Tensor, "S B *slot"] | None,
        value: Float[Tensor, "S B *slot"] | None,
        mask: Bool[Tensor, "S #B"] | None = None,
    ) -> Float[Tensor, "B C"]:
        r"""
        * `x` is the output of the layer below, `[B, C]`
        * `key`, `value` and `mask` are the memory as `FeedbackAttention.forward` takes
          it, or `None` at the first step, when there is none

        Returns the output of the layer, `[B, C]`.
        """
        if key is not None:
            masked = {} if mask is None else {"mask": mask}
            attended = self.attn(
                query=self.norm_self_attn(x), key=key, value=value, **masked
            )
            # For a sequence that has no slot yet this is its first step.
            if mask is not None:
                attended = attended.masked_fill(~mask.any(0).unsqueeze(1), 0.0)
            x = x + self.dropout(attended)
        output: Tensor = x + self.dropout(self.feed_forward(self.norm_ff(x)))
        return output


@dataclass(frozen=True, eq=False)
class FeedbackMemory:
    r"""
    ## Memory

    The slots that the model has written so far. A memory is a value: `append` returns a
    new one, and the old one stays as it is, so that you can continue from it twice.

    * `keys`, `values` are what layers attend to, oldest first: for
      `FeedbackTransformer` both are the memory vectors, `[S, B, C]`, for
      `FeedbackTransformerKV` their keys and values, `[S, B, H, D]`. At the beginning
      they are `None`
    * `mask` is `True` for slots that belong to a sequence, `[S, B]`; `None` if all do
    """

    keys: Float[Tensor, "S B *slot"] | None = None
    values: Float[Tensor, "S B *slot"] | None = None
    mask: Bool[Tensor, "S B"] | None = None

    def __len__(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    @property
    def batch_size(self) -> int | None:
        """The number of sequences, $B$; `None` if memory is empty."""
        return None if self.keys is None else self.keys.shape[1]

    def append(
        self,
        key: Float[Tensor, "B *slot"],
        value: Float[Tensor, "B *slot"],
        *,
        horizon: int | None = None,
        is_token: Bool[Tensor, " B"] | None = None,
    ) -> "FeedbackMemory":
        r"""
        ### One more slot

        * `key`, `value` are what it holds
        * `horizon` is $\tau$, the number of slots that are kept; `None` keeps all
        * `is_token` is `False` for sequences that were padded at this step, `[B]`

        A padding token must not be remembered: it would also move all earlier slots one
        step farther away. Such a sequence gets an empty slot at the *old* end instead,
        and `mask` hides it. So all memories end together, and the last slot of each
        sequence is at distance 1:

        ```text
         tokens             memory
         a  b  ·  c         ·  a  b  c
         d  ·  ·  e         ·  ·  d  e
        ```
        """
        keys = append_slot(self.keys, key, horizon, is_token)
        values = keys
        if value is not key or self.values is not self.keys:
            values = append_slot(self.values, value, horizon, is_token)
        mask = self.mask
        if mask is not None or is_token is not None:
            present = key.new_ones(len(key), dtype=torch.bool)
            if mask is None:
                mask = present.expand(len(self), -1)
            mask = append_slot(mask, present, horizon, is_token)
        return FeedbackMemory(keys, values, mask)

    def detach(self) -> "FeedbackMemory":
        "The same slots without gradients, to train on a long text chunk by chunk."
        if self.keys is None or self.values is None:
            return self
        keys = self.keys.detach()
        values = keys if self.values is self.keys else self.values.detach()
        return FeedbackMemory(keys, values, self.mask)


def append_slot(
    slots: Tensor | None,
    slot: Tensor,
    horizon: int | None,
    is_token: Bool[Tensor, " B"] | None,
) -> Tensor:
    r"""
    Step $t$ copies $t$ slots, so a sequence copies $T (T - 1) / 2$ of them, and
    training keeps all copies for the backward pass: 1 GiB for shared keys and values
    with $C = 128$, $B = 8$ and $T = 512$. This is the price of a definition that reads
    like the equation; the kernels keep every slot once, in 4 MiB.
    """
    new = slot.unsqueeze(0)
    slots = new[:0] if slots is None else slots
    longer = torch.cat([slots, new])
    if is_token is not None:
        unchanged = torch.cat([torch.zeros_like(new), slots])
        is_token = is_token.view(-1, *[1] * (slot.dim() - 1))
        longer = torch.where(is_token, longer, unchanged)
    return longer if horizon is None else longer[-horizon:]


class FeedbackTransformer(nn.Module):
    r"""
    ## Feedback transformer

    `forward` reads whole sequences, `step` reads one token, and both call `scan`, which
    reads any number of tokens from any memory. The results do not depend on how a
    sequence is divided into calls.
    """

    is_kv_precomputed = False

    def __init__(
        self,
        layer: FeedbackTransformerLayer,
        n_layers: int,
        *,
        horizon: int | None = None,
        norm_memory: bool = False,
    ) -> None:
        r"""
        * `layer` is the prototype of the layers; each has parameters of its own
        * `n_layers` is the number of layers, $L$
        * `horizon` is $\tau$, the number of memory slots: step $t$ attends to
          $m_{t-\tau}, \dots, m_{t-1}$. `None` keeps all
        * `norm_memory` is whether memory vectors are normalized

        Raises `ValueError` if the attention of `layer` expects another kind of memory.
        """
        super().__init__()
        check_sizes(n_layers=n_layers)
        if horizon is not None:
            check_sizes(horizon=horizon)
        check_bool(norm_memory=norm_memory)
        if layer.attn.is_kv_precomputed != self.is_kv_precomputed:
            raise ValueError(
                f"the layer's attention has is_kv_precomputed="
                f"{layer.attn.is_kv_precomputed}, but {type(self).__name__} needs "
                f"{self.is_kv_precomputed}; build it with FeedbackAttention(..., "
                f"is_kv_precomputed={self.is_kv_precomputed})"
            )
        self.d_model, self.horizon = layer.size, horizon
        self.layers = independent_copies(layer, n_layers)
        self.norm = nn.LayerNorm([layer.size])

        # Memory feeds back into itself: if each step writes a slightly larger vector
        # than those that it read, vectors grow with the length of the sequence. A norm
        # prevents that: with `norm_memory`, $m_t$ is the layer norm of the sum above.
        # Version 0.5.1 had none, and so it is off here; our language model uses it.
        self.norm_memory = nn.LayerNorm([layer.size]) if norm_memory else nn.Identity()

        # $w$. Equal weights give a plain mean of the embedding and all layers at first.
        self.weights = nn.Parameter(torch.ones(n_layers + 1))
        self.softmax = nn.Softmax(0)

    def forward(self, x_seq: Float[Tensor, "T B C"]) -> Float[Tensor, "T B C"]:
        r"""
        * `x_seq` is a batch of embedded sequences, `[T, B, C]`

        Returns the normalized outputs of the last layer, `[T, B, C]`. Position $t$
        depends on tokens $0, \dots, t$ only.
        """
        return self.scan(x_seq)[0]

    def step(
        self, x: Float[Tensor, "B C"], memory: FeedbackMemory | None = None
    ) -> tuple[Float[Tensor, "B C"], FeedbackMemory]:
        r"""
        * `x` is one token of each sequence, `[B, C]`
        * `memory` was returned by the step before; `None` at the beginning

        Returns the output that `forward` has at this position, `[B, C]`, and the memory
        with one more slot.
        """
        outputs, memory = self.scan(x.unsqueeze(0), memory)
        return outputs[0], memory

    def scan(
        self,
        x_seq: Float[Tensor, "T B C"],
        memory: FeedbackMemory | None = None,
        *,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
        r"""
        * `x_seq` continues the sequences that `memory` holds, `[T, B, C]`
        * `memory` was returned with the tokens before
        * `mask` is `False` for padding, `[T, B]`, which may be anywhere: its outputs
          are zero, and the other tokens do not notice it

        Returns the outputs, `[T, B, C]`, and the memory after them.
        """
        top, memory = self.read(x_seq, memory or FeedbackMemory(), mask)
        outputs = self.norm(top)
        if mask is not None:
            outputs = outputs.masked_fill(~mask.unsqueeze(-1), 0.0)
        return outputs, memory

    @reference
    def read(
        self,
        x_seq: Float[Tensor, "T B C"],
        memory: FeedbackMemory,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], FeedbackMemory]:
        r"""
        ### The recurrence

        At each step the token passes through the layers, which all attend to the same
        memory ([@fan2020feedback, "Feedback Memory"]). In a transformer layer $l$ would
        attend to the outputs of layer $l - 1$, so that each layer has keys and values
        of its own; here the memory has no index $l$. **No causal mask** is necessary: a
        mask hides the future from positions that are computed in parallel, and here the
        future does not exist yet. At step $t$ the memory ends with $m_{t-1}$; the token
        itself takes part through $x_t^{l-1}$.

        Then the memory vector is formed. The sum begins with the embedding, $l = 0$.
        The softmax makes it a mean, so that memory has the scale of its terms, and lets
        training choose one layer or mix several. The loss is computed from the top
        layer, in which $w$ does not occur: **$w$ learns through memory alone**, from
        what later steps read in it. A sequence of one token gives it no gradient.

        Returns the outputs of the last layer, `[T, B, C]`, and the memory.
        """
        shares = self.softmax(self.weights)
        top = []
        for t, x in enumerate(x_seq):
            context = {"key": memory.keys, "value": memory.values}
            if memory.mask is not None:
                context["mask"] = memory.mask
            levels = [x]
            for layer in self.layers:
                levels.append(layer(x=levels[-1], **context))
            vector = torch.einsum("lbc,l->bc", torch.stack(levels), shares)
            key, value = self.to_memory(self.norm_memory(vector))
            is_token = None if mask is None else mask[t]
            memory = memory.append(key, value, horizon=self.horizon, is_token=is_token)
            top.append(levels[-1])
        return torch.stack(top), memory

    def to_memory(self, vector: Float[Tensor, "B C"]) -> tuple[Tensor, Tensor]:
        r"""
        The vector itself is the slot. Each layer projects all slots to keys and values
        of its own, at each step: $2 S C^2$ multiplications per layer.
        """
        return vector, vector


class FeedbackTransformerKV(FeedbackTransformer):
    r"""
    ## Shared keys and values

    All layers attend to the same memory vectors. If they also share the projections,

    $$k_t = W^K m_t, \qquad v_t = W^V m_t,$$

    one projection of a slot, when it is written, serves all layers and all later steps
    (`share_proj_kv` in the authors' code): $2 C^2$ multiplications per step, and $2 C$
    numbers to keep per slot. A slot never changes, so layers with projections of their
    own could keep their keys and values too, at $L$ times the cost; the definition
    above takes $2 L S C^2$, because it keeps nothing. And sharing saves $2 (L - 1) C^2$
    parameters: 2.6 million with $L = 6$ and $C = 512$. Queries $W^Q$, distances $E$,
    $b$ and the output projection $W^O$ stay separate, so layers still differ in what
    they search for and how they use it.
    """

    is_kv_precomputed = True

    def __init__(
        self,
        layer: FeedbackTransformerLayer,
        n_layers: int,
        d_model: int,
        heads: int,
        *,
        horizon: int | None = None,
        norm_memory: bool = False,
    ) -> None:
        r"""
        * `layer` is the prototype of the layers; its attention has
          `is_kv_precomputed=True`
        * `n_layers` is the number of layers, $L$
        * `d_model`, `heads` are $C$ and $H$ of the layer
        * `horizon` and `norm_memory` are those of `FeedbackTransformer`

        Raises `ValueError` if the layer has other sizes.
        """
        check_heads(heads, d_model)
        super().__init__(layer, n_layers, horizon=horizon, norm_memory=norm_memory)
        check_same_width(d_model=d_model, layer=layer.size)
        if heads != layer.attn.heads:
            raise ValueError(
                f"`heads` is {heads}, but the layer has {layer.attn.heads}; build both "
                "with the same number"
            )
        self.heads, self.d_k = heads, d_model // heads
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)

    def to_memory(self, vector: Float[Tensor, "B C"]) -> tuple[Tensor, Tensor]:
        "A slot is a key and a value, `[B, H, D]` each."
        return self.key(vector), self.value(vector)

    def free(self) -> None:
        "Does nothing. In version 0.5.1 it released a memory that the model kept."


class Stack:
    r"""
    ## Stack

    The container of version 0.5.1 for keys and values, for code that was written for
    it. The models here do not use it: memory is a value that they return.
    """

    def __init__(self, max_len: int) -> None:
        "`max_len` is accepted for compatibility; more slots work too."
        self.max_len = max_len
        self.slots: list[Tensor] = []

    def append(self, n: int, value: Tensor) -> None:
        "Adds `value` as slot `n`; `n = 0` starts a new stack."
        self.slots = [*self.slots[:n], value]

    def get(self) -> Tensor:
        "All slots, `[n, ...]`."
        return torch.stack(self.slots)

    def free(self) -> None:
        "Removes all slots."
        self.slots = []


# ## Try it
#
# A trained model of two layers runs in this page. See its memory grow, what each head
# attends to, the shares of the layers, and what a shorter horizon changes.
#
# ![One head attends to the line break after the speaker's name.](figure:live.memory)

# ## Depth and cost
#
# If $l$ is the highest layer with a weight in the sum, the output of step $t = 1, 2,
# \dots$ is at the end of a chain of $l \, (t - 1) + L$ layers, in a transformer of $L$.
# On programs as in the introduction, with three variables, the authors report 99.1 %
# accuracy, for a transformer 33.7 % ([their code and
# results](https://github.com/facebookresearch/transformer-sequential); their baseline
# has 8 layers, their feedback transformer 4). In language modelling (enwik8: 0.962 bits
# per character with 77 million parameters, in the same table), translation and
# reinforcement learning they find small, shallow feedback models better than comparable
# transformers; since a token then passes fewer layers, they also generate faster. The
# price is paid in training, step by step.
#
# Two relatives lack such chains. *Transformer-XL* ([@dai2019transformerxl]) keeps the
# states of earlier segments, but its layer $l$ reads those of layer $l - 1$: it sees
# farther back, and no chain is longer than $L$ layers. A *Universal Transformer*
# ([@dehghani2018universal]) applies one layer again and again to all positions in
# parallel: its depth does not grow with the position.
#
# ![Longest chains of layers in a transformer and in a feedback transformer, found with
# gradients.](figure:chains.unrolled)
#
# If keys and values are computed once for each slot, the arithmetic is that of a
# transformer of the same size; in the first definition, each layer projects every slot
# again at each step, $L T^2 C^2$ multiplications in all. The order is another one. A
# transformer computes all positions of a training sequence in parallel, layer by layer,
# in $L$ sequential steps. Here step $t$ needs the top layer of step $t - 1$: training
# takes $L \, T$ sequential steps, each of them a few small operations. On a GPU most of
# the time goes into starting them, because each works on $B$ vectors in place of $B T$:
# larger batches help, longer sequences do not. Generation goes token by token in both.
# There the feedback transformer needs less memory: with shared keys and values it
# stores $2 C$ numbers per token and sequence, where the KV cache of a transformer has
# $2 L C$.
#
# ## Differences from the paper
#
# * **Horizon.** The paper's memory is a window of the last $\tau$ steps. Here it is one
#   if you give a `horizon`, and keeps all steps otherwise, as in version 0.5.1. In the
#   authors' implementation the window is filled with zeros at first, and attended to;
#   here memory begins empty, and the first token skips attention.
# * **Normalization.** Layers normalize before attention and network, with one more norm
#   at the top, as in the authors' published experiments. There each layer also
#   normalizes memory vectors before it projects them. Here it is one norm for all
#   layers, if you set `norm_memory`; version 0.5.1 projects memory as it is.
# * **Positions.** In the authors' code scores have the terms A and B, with one table of
#   distances for all heads and layers. Here each head of each layer has its own, and
#   there are $u$ and $b_d$ besides.
# * **Biases.** The output projection has a bias here, and so have values that are
#   projected per layer. The authors' code has none.
# * **Curriculum.** To save time, the paper suggests to start training with short
#   sequences. The model takes any length; [its preset](../../experiments/presets.py)
#   grows it.
#
# ## Pseudo-code
#
# ```text
# for t = 0 … T-1:
#   for l = 1 … L:
#     q = W_Q[l] · LN(x[l-1])
#     z = x[l-1] + attention_l(q, k, v)
#     x[l] = z + FFN_l(LN(z))
#   m = LN(Σ_l softmax(w)[l] · x[l])        the LN with norm_memory only
#   append W_K · m to k, and W_V · m to v
#   drop the oldest slot beyond τ
#   output LN(x[L])
# ```
#
# | Parameter | Shape | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | `attn.query.linear` | `[H·D, C]` | | $q$ | `[B, H, D]` |
# | `key_pos_embeddings` | `[P, H, D]` | | $k$, $v$ | `[S, B, H, D]` |
# | `key_pos_bias` | `[P, H]` | | $e$, $A$ | `[S, B, H]` |
# | `query_pos_bias` | `[H, D]` | | $z$, $x_t^l$ | `[B, C]` |
# | `attn.output` | `[C, C]`, `[C]` | | hidden features | `[B, F]` |
# | `feed_forward.layer1` | `[F, C]`, `[F]` | | $m_t$ | `[B, C]` |
# | `feed_forward.layer2` | `[C, F]`, `[C]` | | | |
# | `key.linear`, `value.linear` | `[H·D, C]` | | | |
# | `weights` | `[L + 1]` | | | |
#
# Every norm has a gain and a bias, `[C]`. The first seven rows are those of one layer;
# keys and values are projected once for all layers. At $t = 0$ memory is empty, and
# attention is left out.
#
# **Training and generation** are those of any autoregressive model. The output at step
# $t$ predicts token $t + 1$, and the loss is the mean of $-\log p(w_{t+1} \mid w_0,
# \dots, w_t)$ over all steps; it is differentiated through all steps, by
# backpropagation through time. To generate, `step` reads a token and returns the
# memory, a sampler draws the next token from the predicted distribution, and `step`
# reads that one. Nothing is computed twice, and with a horizon the work per token is
# constant.
#
# ## Exercises
#
# **1.** Make $w_0$ so large that memory holds embeddings only. How many sequential
# steps are necessary then, and how long is the longest chain of layers?
#
# <details><summary>Answer</summary>
#
# $m_t = x_t^0$ is known for all $t$ before any layer has run. All positions can be
# computed in parallel, in $L$ sequential steps, and no chain has more than $L$ layers:
# $l = 0$ in the formula above. Nothing is left of the feedback.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "shared_kv": False}
# config["norm_memory"] = False
# model = FeedbackLanguageModel.from_config(config).transformer
# with torch.no_grad():
#     model.weights[0] = 100
# x_seq = torch.randn(7, 2, 12)
# _, memory = model.scan(x_seq)
# assert torch.equal(memory.keys, x_seq)
# ```
#
# </details>
#
# **2.** With a horizon of $\tau = 2$, how far back does the influence of a token reach?
#
# <details><summary>Answer</summary>
#
# To the beginning: $m_t$ was computed from $m_{t-2}$, which was computed from
# $m_{t-4}$, and so on. The horizon limits how far a step attends, not how far
# information travels. It travels through memory alone: if memory holds embeddings only,
# as in exercise 1, nothing passes beyond the window.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "max_len": 2}
# model = FeedbackLanguageModel.from_config(config).transformer.eval()
#
# def reach():  # how many steps back the last output has a gradient
#     x_seq = torch.randn(9, 1, 12, requires_grad=True)
#     (gradient,) = torch.autograd.grad(model(x_seq)[-1].square().sum(), x_seq)
#     return 8 - int(gradient.abs().sum((1, 2)).nonzero()[0])
#
# assert reach() == 8
# with torch.no_grad():
#     model.weights[0] = 1000
# assert reach() == 2
# ```
#
# </details>
#
# **3.** Choose $b_d$ so that the weight of a slot is halved with each step back.
#
# <details><summary>Answer</summary>
#
# The softmax turns sums into products: $b_d = -d \ln 2$ makes the weights proportional
# to $2^{-d}$. Scores are divided by $\sqrt{D}$ first, so $b_d$ must be as much larger;
# here $D = 4$. (ALiBi, [-@press2021train], gives each head a fixed slope of this kind.)
#
# ```python
# import math
# import torch
# from labml_nn.transformers.feedback import FeedbackAttention
#
# attention = FeedbackAttention(heads=1, d_model=4, max_distance=6)
# distance = torch.arange(6, 0, -1)  # the table ends with distance 1
# with torch.no_grad():
#     attention.key_pos_bias.copy_(-distance[:, None] * math.log(2) * math.sqrt(4))
# memory = torch.zeros(6, 1, 4)  # all slots hold the same
# attention.eval()(query=torch.randn(1, 4), key=memory, value=memory)
# weights = attention.attn.flatten()
# torch.testing.assert_close(weights[1:] / weights[:-1], torch.full((5,), 2.0))
# ```
#
# </details>
