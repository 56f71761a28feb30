r"""
---
title: Feedback Transformer
summary: >
  A Transformer that also remembers what it has concluded: after each step it writes one
  vector to a memory, and every layer attends to it at all later steps.
paper: https://arxiv.org/abs/2002.09402
notebook: notebooks/feedback.ipynb
tones: {query: 3, key: 1, value: 2, weight: 0, memory: 5, slot: 5}
---

Read this program line by line. What does it print?

You keep two numbers in mind and change them as you go. (We count lines, steps and
layers from 0.) In line 2 the condition holds, because 5 is greater than 4, so `x`
becomes 7. In line 3 you need this 7. It is greater than 6, so `y` becomes 6, and the
program prints 6. Each line changes what the next one means.

![What you carry on from line to line. Full colour: set in this line. Thick arrows: what
a condition looks at.](figure:feedback.program)

**Why is this hard for a Transformer?** A [Transformer](../models.py) reads all lines at
once. Suppose that each line is one **token**, the piece of text that a model reads in
one step. A **layer** lets each line look at the earlier ones, which is
[attention](../mha.py), and then works on what it has found. But what is there to look
at? Let us fill in which result is known where.

1. **As written.** Layer 0 is the **embedding**, a learned vector for each token. Lines
   0 and 1 state their results. The other lines only say what to do.

2. **Layer 1** sees layer 0 of all earlier lines. Line 2 finds the 3 and the 5, and `x`
   becomes 7. Line 3 cannot use this 7. It sees line 2 only as it is written.

3. **Layer 2** sees what layer 1 has computed. Now line 3 finds the 7, and `y` becomes
   6.

4. **Layer 3** finds the 6 for the last line. Each line that depends on the one before
   costs one more layer, and a model of $L$ layers runs out of them. What a pity: layer
   1 *had* found the 7, but layer 1 of the next line sees only layer 0.

![Which layer knows which result. Choose other numbers, or fewer
layers.](figure:feedback.layers)

**Is there no way around?** Sometimes there is. If each line added a number to `x` and
never looked at it, a single layer would do. Attention averages what the lines add, and
the average times the number of lines is the sum. Such shortcuts exist for surprisingly
many tasks ([@liu2023transformers]), if training finds them. But for lines like ours, as
far as anyone knows, no fixed number of layers is enough for programs of any length.

![All lines are read at once, and no result is carried on.](figure:feedback.shortcut)

## Feedback

The **Feedback Transformer** ([@fan2020feedback]) puts what was concluded where every
layer can see it. After each line it writes one vector, a **slot**, to a **memory**. In
our example a slot says what its line has set, or what it prints. At all later steps
*every* layer attends to this memory, the lowest layer too. So it has to read one line
after the other:

1. **Write.** Steps 0 and 1 read the first two lines. Each writes one slot.

2. **Read and write.** At step 2, layer 1 finds the 3 and the 5 in memory. The result,
   7, goes into slot 2.

3. **The difference.** At step 3, layer 1 finds the 7. In the Transformer, layer 2 was
   the first to see it.

4. **And so on.** At step 4, layer 1 finds the 6. In principle one layer is enough,
   however long the program.

![Each step reads all slots, here two that matter, and writes the next
one.](figure:feedback.memory)

**Does it work?** We trained small models on random programs of 16 lines. Numbers are
counted modulo 6 (after 5 comes 0), and after each line a model must say what `x` and
`y` are. At the last line, one layer with feedback is right in 100 of 100 programs.
Without feedback, one layer is right in 5, two in 6, three in 9, four in 12. (A
guess is right in 3. The [recipe](#the-programs) is below.)

![Five runs of each model, as dots on the left and as their mean on the right. Each
further layer helps the Transformer for a line or two.](figure:feedback.accuracy)

The dashed line marks the longest programs in training. We have tested longer ones, too,
of 32 lines. There feedback begins to err, and as one wrong result makes later ones
wrong, its curve falls. At the end it is right in 75 of 100.

## Writing

**What is written?** A mixture of what all layers have computed at this step. Training
finds the mixture. It could take the top layer alone, but one trained model [took more
of the others](#layer-weights). Let us take vectors of two features, one for `x` and one
for `y`. Suppose that in line 2 the embedding knows only the 4 that is added, that layer
1 has wrongly found 10, and that layer 2 has corrected it to 7.

Each layer has a learned number, its **layer weight** $a_l$, and the embedding has one
as layer 0. The *softmax* turns them into **shares**, which are positive and sum to one:
raise $e$ to each, and divide by the sum. They are *the same at every step*. Shares
times outputs, added up, are the **memory vector** $m$. Nine tenths of it are the 7 of
layer 2. A 4 and a 10 with small shares shift the sum, and here their shifts cancel: it
is (7, 0). So slot 2 says that `x` is 7, and nothing about `y`.

![Nearly all of it comes from layer 2.](figure:feedback.mixture)

## Reading

**How is it read?** At step 3 there are three slots. As in [attention](../mha.py), a
head of layer 1 has a query for what it is looking for. Each slot has a key for what it
is about, and a value for what it says. A real slot has many features, from which
learned matrices make both. We choose round numbers for the keys: (2, 0) means "about
`x`", and (0, 2) "about `y`". The values are the slots themselves.

Our head needs `x`. (Another one fetches `y`.) Slots 0 and 2 match, because query times
key is 4. But only slot 2 is up to date! So a score has a second part, a bias $b_d$ for
the **distance** $d$, which says how many steps ago the slot was written. It is learned.
Here $b_1 = 0$, $b_2 = -2$ and $b_3 = -4$. As in all attention, the sum is divided by
the root of the number of features, and a softmax makes weights of the three scores.

The average is nearly 7. Without the distance, slots 0 and 2 would count alike, and the
head would find 4.86, which `x` never was.

![The thicker a line, the larger the weight of a slot.](figure:feedback.reading)

**In two formulas.** Write $x_t^l$ for the output of layer $l$ at step $t$. (This $x$ is
a vector of the network, not the `x` of the program.) You have computed the second line,
and a part of the first:

\begin{align}
x_t^l &= \operatorname{Layer}_l\big(x_t^{l-1}, \; [m_0, \dots, m_{t-1}]\big) \\
m_t &= \sum_{l=0}^{L} \operatorname{softmax}(a)_l \; x_t^l
\end{align}

A layer is that of any Transformer: attention, then a small network, each added to its
input. Only keys and values come from memory now, and not from the layer below.

![Left: all outputs of a step go into its memory vector, and all layers of later steps
attend to it. Right: one layer.](figure:feedback.diagram)

## Depth and gradient

**How deep is it?** Follow the longest chain of layers, each of which needs the one
before. In a Transformer it has $L$ layers. With feedback it passes all $L$
layers of each step. So the chain grows with the text, as in a [recurrent
network](../../recurrent/elman/__init__.py).

![Thick: a longest chain.](figure:chains.unrolled)

**Can it learn over long distances?** Training needs the **gradient**: how the **loss**,
the error, would change with each earlier number. In a recurrent network it travels back
through every step, and fades on the way. Here it has a second way, attention, which
leads from the last loss to the first slot in one hop, as in a Transformer. So what was
written long ago can still be learned.

![The gradient from a loss to an early slot.](figure:feedback.hops)

## Gains and price

The gain is depth. You pay for it with **time**: step $t$ needs the memory vector of
step $t - 1$. A Transformer computes all tokens of a training text at once, in $L$
layers one after the other. Here $L \cdot T$ layers wait for each other, for $T$ tokens,
each with little work.

![The number in a cell says when it is computed.](figure:feedback.schedule)

As the code stands below, an update takes 6.7 times as long as that of a Transformer.
Most of this time goes into starting many small operations. A CPU with two threads does
little at once anyway, so our [kernels](../../kernels/__init__.py), programs in C++ for
such loops, make up for it there. On a GPU, which does thousands of things at once, we
expect the price to stay. (We have not measured it.)

![A training step with 4 layers of 128 features, 16 texts of 128 tokens, and two CPU
threads.](figure:feedback.times)

When it generates, there is nothing to wait for, because every model writes one token
after the other. And there can be less to remember. All layers read one memory. In a
[variant](#FeedbackTransformerKV) they share its keys and values, too.

![What is kept for later tokens.](figure:feedback.kept)

**Shakespeare.** Does feedback help with an ordinary text? A little. With one layer it
is ahead in each of five runs, with eight there is no difference left. Long chains of
conclusions seem to matter less in Shakespeare than in programs.

![The mean of $-\ln p$, where $p$ is the probability of the right next letter. Width,
data and updates are equal.](figure:feedback.shakespeare)

## Try it

Two layers, trained for less than two minutes, run in this page. (They have 96 features
and 2,400 updates. Those of the last picture had 64 and 800, so their losses are
higher.) They write like this:

> Ah, be not that we more of the daughter,\
> More to you had that we had fair bodies

Watch the memory grow, see what each head attends to, and make the memory shorter.

![One head attends to the line break after the speaker's name.](figure:live.memory)

## The whole in code

The attention of a layer is PyTorch's own. To the scores it adds a mask, here the bias
`b` of each head and distance. (The module has one [more term](#distances), which is
zero at first.) Here `b` is divided by the root already. At step 0 the memory is empty,
and attention is left out.

```python
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, C, heads, distances):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(C), nn.MultiheadAttention(C, heads)
        self.b = nn.Parameter(torch.zeros(heads, 1, distances))
        parts = nn.LayerNorm(C), nn.Linear(C, 4 * C), nn.ReLU(), nn.Linear(4 * C, C)
        self.network = nn.Sequential(*parts)

    def forward(self, x, slots):
        if n := len(slots):
            b = self.b[..., -n:].repeat(len(x), 1, 1)
            x = x + self.attention(self.norm(x)[None], slots, slots, attn_mask=b)[0][0]
        return x + self.network(x)


def read(x_seq, layers, a, norm):
    memory, top = x_seq[:0], []
    for x in x_seq:
        levels = [x]
        for layer in layers:
            levels.append(layer(levels[-1], memory))
        m = torch.einsum("lbc,l->bc", torch.stack(levels), a.softmax(0))
        memory = torch.cat([memory, m[None]])
        top.append(levels[-1])
    return norm(torch.stack(top))


layers = nn.ModuleList(Layer(C=64, heads=4, distances=32) for _ in range(2))
a, norm = nn.Parameter(torch.ones(3)), nn.LayerNorm(64)
print(read(torch.randn(10, 3, 64), layers, a, norm).shape)  # 10 steps, 3 texts
```
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_bool, check_heads, check_sequence, check_sizes
from labml_nn.reference import Recorded, reference
from labml_nn.transformers.checks import (
    check_feedback_attention,
    check_feedback_layer,
    check_prototype,
)
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.stack import Stack
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


class FeedbackTransformer(nn.Module):
    r"""
    ## Feedback Transformer

    Let us begin with the loop that reads the program.
    [Layers](#FeedbackTransformerLayer) and [attention](#FeedbackAttention) follow below
    it.

    * `layer`: the layer; we copy it `n_layers` times, and each copy has its own
      parameters
    * `n_layers`: how many layers, $L$
    * `horizon`: how many slots the memory keeps, $\tau$; each step then attends to the
      last $\tau$ slots; `None` keeps all
    * `norm_memory`: whether memory vectors are normalised
    """

    is_kv_precomputed = False

    def __init__(
        self,
        layer: "FeedbackTransformerLayer",
        n_layers: int,
        *,
        horizon: int | None = None,
        norm_memory: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(n_layers=n_layers, horizon=1 if horizon is None else horizon)
        check_bool(norm_memory=norm_memory)
        check_prototype(layer, type(self))
        self.d_model, self.horizon = layer.size, horizon
        self.layers = independent_copies(layer, n_layers)
        self.norm = nn.LayerNorm([layer.size])

        # The layer weights $a$, one for each layer and one for the embedding. They are
        # equal at first, so memory begins as a plain mean.
        self.weights = nn.Parameter(torch.ones(n_layers + 1))
        self.softmax = nn.Softmax(0)

        # Each memory vector is made from earlier ones. If every step wrote a slightly
        # larger vector than it had read, vectors would grow without end. Layer
        # normalisation prevents that, and our language model uses it.
        self.norm_memory = nn.LayerNorm([layer.size]) if norm_memory else nn.Identity()

    @reference
    def read(
        self,
        x_seq: Float[Tensor, "T B C"],
        memory: "FeedbackMemory",
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], "FeedbackMemory"]:
        r"""
        ### The loop over steps

        You know this loop: it reads the program from top to bottom
        ([@fan2020feedback, "Feedback Memory"]). Why is there no causal mask, as in a
        Transformer that predicts text? Such a mask hides later tokens, where all
        positions are computed in parallel. Here the future does not exist yet.

        Takes the embedded tokens and the memory before them. Returns the outputs of the
        top layer and the memory after them.
        """
        # The shares are the same at every step, so they are computed once.
        shares = self.softmax(self.weights)
        top = []
        for t, x in enumerate(x_seq):
            # Step $t$ begins. The memory ends with $m_{t-1}$: at step 3 of the program
            # it has three slots, and the last one knows that `x` is 7.
            slots = memory.slots()

            # The token passes through the layers from bottom to top. All of them attend
            # to the same memory, the lowest layer too. In a Transformer layer $l$ would
            # attend to outputs of layer $l - 1$; here memory has no index $l$. At the
            # very first step there is nothing to attend to.
            levels = [x]
            for layer in self.layers:
                levels.append(layer(x=levels[-1], **slots))

            # Only now, above the top layer, do we have all outputs of this step. Their
            # mixture is the memory vector. The sum begins with the embedding, $l = 0$.
            vector = torch.einsum("lbc,l->bc", torch.stack(levels), shares)

            # It becomes the newest slot, for the next step and for all after it. The
            # oldest one leaves, if there is a horizon.
            key, value = self.to_memory(self.norm_memory(vector))
            is_token = None if mask is None else mask[t]
            memory = memory.append(key, value, horizon=self.horizon, is_token=is_token)

            # The prediction comes from the top layer, in which $a$ does not occur. So
            # $a$ learns through memory alone, from what *later* steps read there. A
            # text of one token gives it no gradient.
            top.append(levels[-1])
        return torch.stack(top), memory

    def to_memory(self, vector: Float[Tensor, "B C"]) -> tuple[Tensor, Tensor]:
        r"""
        ### A slot

        The memory vector itself is the slot, key and value in one. Each layer projects
        all slots again at each step. For S slots these are 2·S·C² multiplications in
        each layer.
        """
        return vector, vector

    def forward(
        self,
        x_seq: Float[Tensor, "T B C"],
        *,
        memory: "FeedbackMemory | None" = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> Float[Tensor, "T B C"] | tuple[Float[Tensor, "T B C"], "FeedbackMemory"]:
        r"""
        ### Whole texts

        * `x_seq`: embedded tokens, `[T, B, C]`; they continue what is in `memory`
        * `memory`: what was returned with the tokens before
        * `mask`: `False` for padding, `[T, B]`, which may be anywhere

        Returns the outputs, `[T, B, C]`, where step $t$ depends on the steps up to $t$
        only. If you pass a memory, you also get the memory after the last step.
        """
        if len(x_seq) == 0:
            check_sequence(x_seq, None, self.d_model)
        top, longer = self.read(x_seq, memory or FeedbackMemory(), mask)
        outputs = self.norm(top)

        # Padding has outputs of zero, and the other tokens do not notice it.
        if mask is not None:
            outputs = outputs.masked_fill(~mask.unsqueeze(-1), 0.0)
        return outputs if memory is None else (outputs, longer)

    def scan(
        self,
        x_seq: Float[Tensor, "T B C"],
        memory: "FeedbackMemory | None" = None,
        *,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B C"], "FeedbackMemory"]:
        """
        ### Any number of tokens

        The same, always with the memory. You may cut a text into pieces of any length
        and pass the memory on. The outputs do not change.
        """
        outputs, longer = self(x_seq, memory=memory or FeedbackMemory(), mask=mask)
        return outputs, longer

    def step(
        self, x: Float[Tensor, "B C"], memory: "FeedbackMemory | None" = None
    ) -> tuple[Float[Tensor, "B C"], "FeedbackMemory"]:
        """
        ### One token

        Takes one token of each sequence and the memory before it. Returns the output
        and the memory with one more slot.
        """
        outputs, longer = self.scan(x.unsqueeze(0), memory)
        return outputs[0], longer


class FeedbackTransformerLayer(nn.Module):
    r"""
    ## Layer

    \begin{align}
    z &= x + \operatorname{Attention}(\operatorname{LN}(x), m) \\
    \operatorname{Layer}(x, m) &= z + \operatorname{FFN}(\operatorname{LN}(z))
    \end{align}

    LN is **layer normalisation**: it shifts and scales the features of a vector to mean
    0 and variance 1, so that no layer gets numbers that are too large. FFN is a
    **feed-forward network**, two ordinary layers of a neural network.

    This is the layer of any Transformer. Attention collects from memory, for example
    the two numbers that a line compares. A [feed-forward network](../feed_forward.py)
    works on what was collected, for example on the comparison. Only one thing is new:
    keys and values come from memory, and not from the layer below.

    * `d_model`: features of a vector, $C$
    * `attn`: the attention to memory
    * `feed_forward`: any module from `[B, C]` to `[B, C]`
    * `dropout_prob`: the probability that a feature is dropped, in training, from what
      attention and network add
    """

    def __init__(
        self,
        *,
        d_model: int,
        attn: "FeedbackAttention",
        feed_forward: nn.Module,
        dropout_prob: float,
    ) -> None:
        super().__init__()
        check_feedback_layer(d_model, attn, feed_forward, dropout_prob)
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
        """
        Takes the output `x` of the layer below and the slots of memory. At the first
        step there are none, and `key` and `value` are `None`.
        """
        # We collect from memory, and add what we found to the input (a residual
        # connection). [Layer normalisation](../layer_norm.py) comes before attention,
        # not after the sum (pre-norm). So a path of plain additions leads through all
        # layers, on which gradients flow undiminished.
        if key is not None:
            hidden = {} if mask is None else {"mask": mask}
            found = self.attn(
                query=self.norm_self_attn(x), key=key, value=value, **hidden
            )
            # A text of the batch may have had only padding so far. It has no slots yet,
            # so it gets nothing, as at a first step.
            if mask is not None:
                found = found.masked_fill(~mask.any(0).unsqueeze(1), 0.0)
            x = x + self.dropout(found)

        # The network works on it, and we add the result in the same way.
        output: Tensor = x + self.dropout(self.feed_forward(self.norm_ff(x)))
        return output


class FeedbackAttention(nn.Module):
    r"""
    ## Attention to memory

    At each step every text has a single query, from the current token. Keys and values
    come from the $S$ slots of memory.

    * `heads`: how many averages each token takes, $H$
    * `d_model`: features of a vector, $C$; each head has $D = C / H$ of them
    * `dropout_prob`: the probability that an attention weight is dropped in training
    * `is_kv_precomputed`: whether keys and values come projected, as in
      [`FeedbackTransformerKV`](#FeedbackTransformerKV)
    * `max_distance`: how many distances have their own parameters, $P$; all slots that
      are farther away share those of distance $P$
    """

    # The weights of the last step, for plots. A kernel computes them when you look.
    attn = Recorded()

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        *,
        is_kv_precomputed: bool = False,
        max_distance: int = 2**12,
    ) -> None:
        super().__init__()
        check_feedback_attention(
            heads, d_model, dropout_prob, is_kv_precomputed, max_distance
        )
        self.heads, self.d_model, self.d_k = heads, d_model, d_model // heads
        self.is_kv_precomputed = is_kv_precomputed

        # A query for each head. Queries and keys have no bias here. A bias of the keys
        # would add the same number to all scores of a query, and the softmax does not
        # change if all scores do. A bias of the queries does make a difference. Below,
        # it becomes $u$ and $b_d$.
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

        # Scores are `[S, B, H]`. The weights of one query sum to one over the slots,
        # which are axis 0.
        self.softmax = nn.Softmax(dim=0)
        self.dropout = nn.Dropout(dropout_prob)
        self.scale = 1 / math.sqrt(self.d_k)

        # Two tables with a row for each distance. Row $P - d$ belongs to distance $d$,
        # so the last row is for the slot of the step before.
        self.P = max_distance
        self.key_pos_embeddings = nn.Parameter(torch.empty(self.P, heads, self.d_k))
        self.key_pos_bias = nn.Parameter(torch.empty(self.P, heads))
        self.query_pos_bias = nn.Parameter(torch.empty(heads, self.d_k))
        self.reset_parameters()

        self.attn = None

    def reset_parameters(self) -> None:
        """With zeros, attention does not distinguish distances at first."""
        for table in (self.key_pos_embeddings, self.key_pos_bias, self.query_pos_bias):
            nn.init.zeros_(table)

    def get_scores(
        self, query: Float[Tensor, "B H D"], key: Float[Tensor, "S B H D"]
    ) -> Float[Tensor, "S B H"]:
        r"""
        ### Scores from content and distance

        In the example a score was $q \cdot k$ plus a bias of the distance. In full it
        has four terms:

        $$e_j = q^\top k_j + q^\top E_d + u^\top k_j + b_d, \qquad d = S - j$$

        The first term compares the query with what the slot is about. The second lets
        this query prefer some distances. The third lets a slot matter to every query.
        The fourth lets all queries prefer some distances. [Below](#distances) you see
        where the four terms come from. Override this method to try other scores.
        """
        # The slots are $S, \dots, 2, 1$ steps back. Those that are farther than the
        # table is long share its first row.
        distance = torch.arange(-len(key), 0, device=key.device).clamp(min=-self.P)

        # The first and the third term contain the key, so one product computes both.
        content = torch.einsum("bhd,sbhd->sbh", query + self.query_pos_bias, key)

        # The other two contain no key. $E_d$ and $b_d$ depend on the distance only, so
        # all texts of a batch use the same rows. But the query in $q^\top E_d$ is that
        # of each text.
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
        ### The weighted average

        $$\sum_j A_j v_j, \qquad A = \operatorname{softmax}(e / \sqrt{D})$$

        * `query`: the current token of each text, `[B, C]`
        * `key`, `value`: memory vectors, `[S, B, C]`, at least one; or keys and values,
          `[S, B, H, D]`, if they come projected
        * `mask`: `True` for slots that belong to the text, `[S, B or 1]`
        """
        # What does the token look for? And what is each slot about, and what does it
        # say? The heads have their own answers.
        query = self.query(query)
        if self.key is not None and self.value is not None:
            key, value = self.key(key), self.value(value)

        # Scores, divided by $\sqrt{D}$ as in [every attention](../mha.py): a product of
        # $D$ terms grows with $\sqrt{D}$.
        scores = self.get_scores(query, key) * self.scale

        # Slots that do not belong to a text are hidden before the softmax. We use the
        # most negative finite number. With $-\infty$ a text without any slot would have
        # nothing but $-\infty$, whose softmax is NaN.
        if mask is not None:
            hidden = ~mask.unsqueeze(-1)
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        attn = self.softmax(scores)
        if mask is not None:
            attn = attn.masked_fill(hidden, 0.0)
        self.attn = attn.detach()

        # The average of the values. In our example it was (6.686, 0.067).
        heads = torch.einsum("sbh,sbhd->bhd", self.dropout(attn), value)

        # The heads are put side by side, and $W^O$ mixes what they have found.
        output: Tensor = self.output(heads.flatten(1))
        return output


class FeedbackTransformerKV(FeedbackTransformer):
    r"""
    ## Shared keys and values

    All layers attend to the same memory vectors. Must each of them project these to its
    own keys and values? If they share the two projections $W^K$ and $W^V$, we
    can project a slot once, when it is written (`share_proj_kv` in the authors'
    code). Compare what a step with $S$ slots and $L$ layers costs:

    | keys and values | multiplications | numbers for a slot | parameters |
    |:--|--:|--:|--:|
    | projected at each step, as above | 2·L·S·C² | C | 2·L·C² |
    | projected once, by each layer | 2·L·C² | 2·L·C | 2·L·C² |
    | projected once for all layers | 2·C² | 2·C | 2·C² |

    With L = 6 and C = 512 the last row saves 2.6 million parameters. Queries,
    distances and $W^O$ stay separate, so layers still differ in what they look for and
    in what they do with it.

    * `layer`, `n_layers`, `horizon`, `norm_memory`: as above; the attention of `layer`
      has `is_kv_precomputed=True`
    * `d_model`, `heads`: $C$ and $H$ of the layer
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
        check_heads(heads, d_model)
        super().__init__(layer, n_layers, horizon=horizon, norm_memory=norm_memory)
        check_prototype(layer, type(self), d_model, heads)
        self.heads, self.d_k = heads, d_model // heads
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)

    def to_memory(self, vector: Float[Tensor, "B C"]) -> tuple[Tensor, Tensor]:
        """A slot is now a key and a value for each head, `[B, H, D]` each."""
        return self.key(vector), self.value(vector)

    def free(self) -> None:
        """There is nothing to free: the model returns its memory and keeps none."""


@dataclass(frozen=True, eq=False)
class FeedbackMemory:
    r"""
    ## Memory

    The slots that were written so far, oldest first. You cannot change a memory.
    `append` returns a new one, so you may continue twice from the same point.

    * `keys`, `values`: the memory vectors, twice the same tensor, `[S, B, C]`; or their
      keys and values, `[S, B, H, D]`; `None` at the beginning
    * `mask`: `True` for slots that belong to a text, `[S, B]`; `None` if all do
    """

    keys: Float[Tensor, "S B *slot"] | None = None
    values: Float[Tensor, "S B *slot"] | None = None
    mask: Bool[Tensor, "S B"] | None = None

    def __len__(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    @property
    def batch_size(self) -> int | None:
        """The number of texts, $B$; `None` if memory is empty."""
        return None if self.keys is None else self.keys.shape[1]

    def slots(self) -> dict[str, Tensor | None]:
        """Keys, values and mask, if there is one, as a layer takes them."""
        slots = {"key": self.keys, "value": self.values}
        return slots if self.mask is None else {**slots, "mask": self.mask}

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

        **Padding** fills up the shorter texts of a batch. It must not be remembered. A
        slot for it would be attended to, and would push all earlier slots one step
        farther away. So where `is_token` is `False`, the text gets an empty slot at the
        *old* end instead, and `mask` hides it. All memories end together:

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

        # The mask grows in the same way, by `True` for a token.
        mask = self.mask
        if mask is not None or is_token is not None:
            present = key.new_ones(len(key), dtype=torch.bool)
            if mask is None:
                mask = present.expand(len(self), -1)
            mask = append_slot(mask, present, horizon, is_token)
        return FeedbackMemory(keys, values, mask)

    def detach(self) -> "FeedbackMemory":
        """
        ### Cutting the gradient

        The same slots without their graph, to train on a long text chunk by chunk.
        """
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
    """Slots `[S, B, ...]` and a new one, `[B, ...]`; at most `horizon` of them stay."""
    # For a token the new slot comes last.
    new = slot.unsqueeze(0)
    slots = new[:0] if slots is None else slots
    longer = torch.cat([slots, new])

    # For padding all slots keep their distance, behind an empty one.
    if is_token is not None:
        unchanged = torch.cat([torch.zeros_like(new), slots])
        is_token = is_token.view(-1, *[1] * (slot.dim() - 1))
        longer = torch.where(is_token, longer, unchanged)
    return longer if horizon is None else longer[-horizon:]


# ## Symbols
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $x_t^0$ | `x_seq` | `[T, B, C]` | embedded tokens of all steps |
# | $x_t^l$ | `levels` | `[B, C]` each | outputs of the layers $l = 0, \dots, L$ |
# | $a$ | `weights` | `[L + 1]` | layer weights, before the softmax |
# | $m_t$ | `vector` | `[B, C]` | memory vector of step $t$ |
# | $q$ | `query` | `[B, H, D]` | query of the current token |
# | $k_j$, $v_j$ | `key`, `value` | `[S, B, H, D]` | keys and values of the $S$ slots |
# | $d$ | `distance` | `[S]` | how many steps ago a slot was written, as $-d$ |
# | $E_d$ | `key_pos_embeddings` | `[P, H, D]` | embedding of distance $d$ |
# | $b_d$ | `key_pos_bias` | `[P, H]` | bias of distance $d$ |
# | $u$ | `query_pos_bias` | `[H, D]` | bias of all queries |
# | $e_j$ | `scores` | `[S, B, H]` | scores, before the softmax |
# | $A_j$ | `attn` | `[S, B, H]` | attention weights |
# | $\tau$ | `horizon` | | number of slots, if it is limited |

# ## Distances
#
# Where do the four terms of a score come from? Suppose that we added vectors for
# positions to query and key, as Transformers do, and multiplied the sums:
#
# $$(q + p)^\top (k_j + p_j) = q^\top k_j + q^\top p_j + p^\top k_j + p^\top p_j$$
#
# Now we replace $p_j$ by a vector $E_d$ of the *distance*. We also replace $p$, which
# is the same for all slots, by a learned vector $u$. The last term then depends on the
# distance alone, so one number $b_d$ can take its place. (A bias of the queries would
# be such a $p$. So it becomes $u$ in the third term, and $b_d$ in the fourth.) What if
# we left out both terms that know the distance? Memory would be a set, and only its
# *content* could tell the old `x` from the new one.
#
# **Why distance and not position?** "Who changed `x` last?" is a question about
# distance, at line 3 as at line 300. A distance that the model has met in training
# means the same at any position, so you can use the model on longer texts
# ([@fan2020feedback, "Relative Positional Embeddings"]). And with a horizon, slots move
# through a window. We would have to give them new positions at each step.
#
# ## The programs
#
# How can you repeat the experiment of the first reading? A program has 16 lines of one
# token each. The first two set `x` and `y` to random numbers from 0 to 5. The other 14
# are drawn from six:
#
# ```text
# if y > 2: x = x + 1        if x > 2: y = y + 1
# if y < 3: x = x + 2        if x < 3: y = y + 2
# if y > 2: x = x + 3        if x > 2: y = y + 3
# ```
#
# All results are taken modulo 6. A model answers after each line with one of the 36
# pairs of `x` and `y`. All models have 64 features and 4 heads, and the Transformers
# have [rotary positions](../modern.py), so that they know distances, too. Training
# takes 1,500 updates on 64 new programs each, with AdamW, a learning rate that rises to
# 0.003 and falls again, gradients of norm 1 at most, and no dropout. Programs have 4
# lines at first, and 16 after 900 updates. We test on 2,000 programs of 32 lines. A
# run takes one to two minutes of one CPU core (`python -m docs_src.tasks feedback`).
#
# The numbers are below [the figure](#feedback). At line 2 all models are right, because
# one layer is enough. Then the Transformers begin to fail, those with fewer layers
# first.
#
# **Could one layer do two updates at once?** It could look at lines 0, 1 and 2
# together. For two updates it can learn this in part. But each further line multiplies
# the cases to be learned. So we counted one update for a layer. A model of one layer is
# still right in 91 of 100 programs at line 3, and in 67 at line 4.
#
# **Why these lines?** With other lines a model may do well without following them. If a
# line could make one state of two, old lines would matter less and less. If all
# updates added the same, whatever the numbers, a sum would do. Here each line maps the
# 36 pairs to the 36 pairs one to one, and in some order our six lines make each of the
# $36!$ such maps. To follow a program is then to multiply permutations, a problem for
# which no parallel way of fixed depth is known, and most probably there is none
# ([@liu2023transformers]).
#
# ## Layer weights
#
# Why do we mix, and not just take the top layer? Training can choose. If it wants the
# top layer alone, it makes $a_L$ large. In the model of two layers that wrote the lines
# above, it gave the top layer the smallest share. We do not know why, but there is a
# plausible reason. The top layer's output must predict the next character. Layer 1 need
# not, so it is free to compute what is worth remembering. Notice also that the
# embedding has a share. Through it later steps know which character you typed, as they
# would from attention to tokens.
#
# ![The shares of a trained model.](figure:feedback.shares)
#
# ## Learning through memory
#
# Training is that of any [language model](language_model.py). The output at step $t$
# predicts the next token, and the loss is the mean of its negative log-probability over
# all steps. The gradient goes back through all steps,
# as in a [recurrent network](../../recurrent/elman/bptt.py).
#
# What would happen if we **detached** each slot when it is written? You would notice
# nothing in the forward pass, because the values are the same. But no error at step 4
# could change what was written at step 3. The layer weights $a$ and the norm of memory
# would get no gradient at all. With shared keys and values, neither would $W^K$ and
# $W^V$, if we detached what they return. The layers would learn to predict and never
# learn to remember. The memory would only hold what predictions leave behind.
#
# Between two chunks of a long text we do detach the memory, because a graph cannot grow
# for ever. Then no error reaches the chunk before, and this is what is lost: a chunk
# learns to use the slots of the one before, but that one does not learn to write them
# for it. The chunks should be longer than what is to be remembered.
#
# The [language model](language_model.py) adds token embeddings and a loss. On its page
# you find a program in which a single layer learns to follow programs like ours.
#
# **From a trained Transformer.** Training step by step is slow. Can you begin with the
# weights of a Transformer that was trained in parallel? The parts of a layer have the
# same names and sizes, so you can copy them:
#
# ```python
# import labml_nn
#
# sizes = {"n_vocab": 9, "d_model": 12, "heads": 3, "n_layers": 2}
# parallel = labml_nn.create("autoregressive", **sizes)
# model = labml_nn.create("feedback", **sizes, shared_kv=False)
#
# weights, copied = model.state_dict(), []
# for name, weight in parallel.state_dict().items():
#     name = name.replace("stack.", "transformer.").replace(".self_attn.", ".attn.")
#     name = name.replace("embedding.tokens", "embed")
#     if name in weights:
#         weights[name] = weight
#         copied.append(name)
# model.load_state_dict(weights)
# assert len(copied) == 1 + 2 * 14 + 2  # embeddings, two layers, the last norm
# ```
#
# It does not compute the same afterwards. A layer now attends to memory and not to the
# outputs of the layer below, and it finds no slot of its own step. Distances, layer
# weights and the norm of memory are new. So this is a start, from which you train on.
# The paper suggests it to save time. We have not measured what it saves.
#
# To **generate**, `step` reads a token and returns the memory, a sampler draws the next
# token from the predicted distribution, and `step` reads that one. Nothing is computed
# twice, and with a horizon the work per token is constant.

# ## Depth and cost
#
# What does each model do for a token, and what does it keep?
#
# | cost | Elman network | Transformer | Feedback Transformer |
# |:--|--:|--:|--:|
# | sequential steps in training | T + L − 1 | L | L·T |
# | multiplications at step t | 2·L·C² | 12·L·C² + 2·L·t·C | (10·L + 2)·C² + 3·L·t·C |
# | numbers to remember before step t | L·C | 2·L·t·C | 2·t·C |
#
# There are L layers of C features, T tokens, feed-forward networks of 4·C hidden
# features, and shared keys and values. A layer of the Transformer has 4·C²
# multiplications for queries, keys, values and output, and 8·C² for its network. With
# feedback, keys and values cost 2·C² once for all layers. The 3 counts content,
# distance and average. The first row is the least that is possible. In the Elman
# network a layer can begin its first step when the one below has finished its own, so L
# layers need only L − 1 steps more than one. The code on its page takes L·T.
#
# **Chains.** How long is a chain of computations? Follow a chain from the first step to
# step $t$. It passes all $L$ layers of each step, because memory leads from the top of
# one step to the bottom of the next. These are $L \, (t + 1)$ layers, one after the
# other. In a
# Transformer the longest chain has $L$ layers, whatever the step. If only the layers up
# to $l$ had a noticeable share of memory, the chain would have $l \, t + L$.
#
# **Does feedback save layers?** In our programs it does. In Shakespeare it hardly does.
# This is the loss on Shakespeare in nats per character, the mean of five runs with
# equal width, data and updates ([feedback and
# depth](../../../results.md#feedback-and-depth)):
#
# | layers | 1 | 2 | 4 | 8 |
# |:--|--:|--:|--:|--:|
# | Transformer | 2.03 | 1.96 | 1.91 | 1.87 |
# | with feedback | 1.99 | 1.95 | 1.90 | 1.87 |
#
# With one layer feedback is ahead in every run, and with eight there is no difference
# left. But nowhere does it make up for half of the layers: one layer with feedback is
# behind two without. In Shakespeare, long chains of conclusions seem to matter less
# than in programs.
#
# **The authors' results.** They generate long programs with increments, decrements and
# conditions on three variables. A Feedback Transformer of 4 layers is right in 99.1 %
# of the cases, and a Transformer of 8 layers in 33.7 % ([their code and
# results](https://github.com/facebookresearch/transformer-sequential)). In language
# modelling, translation and reinforcement learning they find small, shallow feedback
# models better than comparable Transformers. Since a token then passes fewer layers,
# such models also generate faster. Their largest one is not shallow: 12 layers with 77
# million parameters, which reach 0.962 bits per character on enwik8.
#
# **Sequential steps.** If we project keys and values once for each slot, the number of
# operations is about that of a Transformer of the same size. Only their order differs.
# A Transformer computes all positions of a training text in parallel, layer by layer,
# in $L$ sequential steps. Here step $t$ needs the top layer of step $t - 1$, so
# training takes $L \, T$ sequential steps. Each consists of a few small operations on
# $B$ vectors, instead of $B \, T$. On a GPU, larger batches should help, because most
# of the time goes into starting operations. Longer texts do not, because they add steps
# and not work for a step. Without shared keys and values each layer projects every slot
# again at each step, which is L·T²·C² multiplications in all.
#
# **Memory.** In generation, shared keys and values are $2 C$ numbers for a token, where
# the [KV cache](../mha.py#KVCache) of a Transformer has $2 L C$. In training our loop
# copies all slots at each step, T·(T − 1)/2 of them, and the backward pass needs all
# copies. With C = 128, B = 8 and T = 512 that is 1 GiB for shared keys and values. It
# is the price of code that reads like the equation. The
# [kernel](../../kernels/feedback_cpp.py) stores each slot once, in 4 MiB.
#
# **Parameters.** The two tables of distances are large, because existing checkpoints
# have 4,096 rows. In a `FeedbackTransformerKV` of 6 layers, with C = 512 and
# feed-forward networks of 2,048 hidden features, they hold 44 % of the parameters, and
# in a `FeedbackTransformer` 40 %. A text of 128 tokens reaches 127 rows. So if you
# build a new model, set `max_distance`.
#
# **Related models.** You may know relatives of this model. *Transformer-XL*
# ([@dai2019transformerxl]) keeps the outputs of
# earlier chunks. But its layer $l$ reads those of layer $l - 1$, so it sees farther
# back and no chain is longer. A *Universal Transformer* ([@dehghani2018universal])
# applies one layer again and again, to all positions in parallel. Its depth does not
# grow with the position. *Staircase attention* ([@ju2021staircase], by some of the
# authors) and *block-recurrent Transformers* ([@hutchins2022block]) pass information on
# from chunk to chunk instead of token to token, which needs fewer sequential steps.
# Today's large models have another way to feed conclusions back: they write them down.
# Each token of a *chain of thought* ([@wei2022chain]) starts again at the lowest layer.

# ## Common mistakes
#
# * **Memory grows to large numbers, and then to NaN.** Set `norm_memory=True`.
# * **`weights` has no gradient.** All texts have one token, or slots are
#   [detached](#learning-through-memory) when they are written.
# * **"Trying to backward through the graph a second time".** The memory of the last
#   chunk still has its graph. Pass `memory.detach()`.
# * **The order of far slots does not matter.** The texts are longer than
#   `max_distance`, and all slots beyond it look equally far.
# * **`layer(x=x, mem=memory)` is a `TypeError`.** A layer takes keys and values. With a
#   plain `FeedbackTransformer` both are the memory vectors: `layer(x=x, key=memory,
#   value=memory)`, and `None` for both at the first step.
# * **"Missing key(s) in state_dict: … key_pos_bias".** Checkpoints of an older version
#   do not have this table. It begins with zeros, and zeros are what the older version
#   computed. So load with `strict=False`, and check that nothing else is missing:
#
#   ```text
#   missing, unexpected = model.load_state_dict(old, strict=False)
#   assert all("key_pos_bias" in name for name in missing) and not unexpected
#   ```
#
# * **Training is slow.** Has the model a hook, or another activation function than
#   ReLU? Then the code of this page runs, and not its
#   [kernel](../../kernels/feedback_by_hand.py).
#
# ## Differences from the paper
#
# <details><summary>Seven differences</summary>
#
# * **Horizon.** The paper's memory is a window of the last $\tau$ steps. Here it is one
#   if you pass a `horizon`. Otherwise all steps are kept. In the authors' code the
#   window is filled with zeros at first, which are attended to. Here memory begins
#   empty, and the first token skips attention.
# * **Normalisation.** Layers normalise before attention and network, with one more norm
#   at the top, as in the authors' published experiments. There each layer also
#   normalises memory vectors before it projects them. Here one norm serves all layers,
#   if you set `norm_memory`.
# * **Positions.** In the authors' code scores have the first two terms, with one table
#   of distances for all heads and layers. Here each head of each layer has its own, and
#   there are $u$ and $b_d$ besides. The four terms are those of Transformer-XL
#   ([@dai2019transformerxl, §3.3]), where $E_d$ is a learned projection of a fixed
#   sinusoid of $d$, and the fourth term is its product with a learned vector. Here
#   $E_d$ and $b_d$ are free parameters.
# * **Biases.** The output projection has a bias here, and so have values that are
#   projected in each layer. The authors' code has none.
# * **Gradient.** The authors detach the memory between blocks of 64 or 128 tokens. Here
#   `read` keeps the whole graph, and the language model detaches the memory at the end
#   of a call.
# * **Curriculum.** To save time, the paper suggests starting with short texts. Ours
#   accepts any length, and [its preset](../../experiments/presets.py) lets it grow.
# * **Initialisation.** Layers start from different random numbers, and the tables of
#   distances from zeros.
#
# </details>
#
# ## Exercises
#
# **1.** Make $a_0$ so large that memory holds embeddings only. How many sequential
# steps are necessary then, and how long is the longest chain of layers?
#
# <details><summary>Answer</summary>
#
# $m_t = x_t^0$ is known for all $t$ before any layer has run. All positions can be
# computed in parallel, in $L$ sequential steps, and no chain has more than $L$ layers:
# that is $l = 0$ in the formula $l \, t + L$. Nothing is left of the feedback.
#
# ```python
# import torch
# from labml_nn.transformers.feedback import (
#     FeedbackAttention,
#     FeedbackTransformer,
#     FeedbackTransformerLayer,
#     FeedForward,
# )
#
# layer = FeedbackTransformerLayer(
#     d_model=12,
#     attn=FeedbackAttention(3, 12),
#     feed_forward=FeedForward(12, 48),
#     dropout_prob=0.1,
# )
# model = FeedbackTransformer(layer, n_layers=2)
# with torch.no_grad():
#     model.weights[0] = 100
# x_seq = torch.randn(7, 2, 12)
# _, memory = model.scan(x_seq)
# assert torch.equal(memory.keys, x_seq)
# ```
#
# </details>
#
# **2.** With a horizon of $\tau = 2$, how far back can a token lie that still
# influences an output?
#
# <details><summary>Answer</summary>
#
# At the beginning: $m_t$ was computed from $m_{t-2}$, which was computed from
# $m_{t-4}$, and so on. The horizon limits how far a step attends, not how far
# information travels. It travels through memory alone. If memory holds embeddings only,
# as in exercise 1, nothing passes beyond the window.
#
# ```python
# import torch
# from labml_nn.transformers.feedback import (
#     FeedbackAttention,
#     FeedbackTransformer,
#     FeedbackTransformerLayer,
#     FeedForward,
# )
#
# layer = FeedbackTransformerLayer(
#     d_model=12,
#     attn=FeedbackAttention(3, 12, 0.0),
#     feed_forward=FeedForward(12, 48, 0.0),
#     dropout_prob=0.0,
# )
# model = FeedbackTransformer(layer, n_layers=2, horizon=2, norm_memory=True)
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
# to $2^{-d}$. But scores are divided by $\sqrt{D}$ first. So you need $b_d = -d
# \sqrt{D} \ln 2$. Here $D = 4$. (ALiBi, [-@press2021train], gives each head a fixed
# slope of this kind.)
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
