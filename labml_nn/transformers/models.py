r"""
---
title: Encoder–decoder Transformer (sequence to sequence)
summary: >
  One sequence goes in and another comes out: a question and its answer, a sentence and
  its translation. The encoder reads, the decoder writes one token at a time.
notebook: notebooks/encoder_decoder.ipynb
paper: https://arxiv.org/abs/1706.03762
tones: {query: 3, key: 1, value: 2, weight: 0, memory: 5}
---

You ask *who sleeps ?* and expect the answer *the dog*, if you have read that the dog
sleeps. Or you give a sentence in English and want it in German. One sequence goes in
and another one comes out, with other words and another length. How can a network do
that?

![While it writes, the decoder looks at the vectors of the question. After *the* it
looks at *sleeps*.](figure:encoder_decoder.whole)

The paper "Attention Is All You Need" answers with two halves ([@vaswani2017attention],
§3.1):

* The **encoder** reads the question, the *source*. It makes one vector of each
  **token**. (Tokens are words here.) The vectors together are called the **memory**.
* The **decoder** writes the answer, the *target*, one token at a time. At each step it
  looks at what it has written so far, and at the memory, and predicts the next token.

Two special tokens, *start* and *end*, begin and end the answer.

![Three steps write the answer.](figure:encoder_decoder.written)

**Who may look where?** Both halves work with [attention](mha.py): a token takes an
average of what other tokens offer. (We compute one below.) The whole source is known
from the start, so in the encoder each token may attend to all tokens. The target is
still being written. In training it is known, but the next token is the very answer that
the decoder should predict. So in the decoder a **mask** lets each token attend to
itself and to earlier tokens only. This is called **causal**.

![Rows look at columns. What is hatched is hidden.](figure:encoder_decoder.masks)

The decoder has a second attention, **cross-attention**. Its queries come from the
target, its keys and values from the memory. It needs no causal mask, because the whole
source is known. *The* asks, *sleeps* fits, and its value is what *the* receives.

![Each row is the query of a token. Behind the arrow stands what is written next. One
head of a small trained model.](figure:encoder_decoder.crossing)

## From words to vectors

A network computes with numbers. So we number the words that we know, our
**vocabulary**. Each number selects a row of a table $E$, the **embedding** of the word.
Its $C$ numbers are called **features**, and they are learned. Attention does not notice
in which order its tokens stand. So we add a vector that says where the token stands
([positional encoding](positional_encoding.py)). Before that, we multiply the row by
$\sqrt C$, so that it is not too small beside this vector.

![*Who* is number 3. Our words have 4 features.](figure:encoder_decoder.lookup)

## One layer, by hand

Let us carry *who sleeps ?* through one layer of the encoder. Suppose that the four
features answer four questions, with 1 for yes and −1 for no: does it ask, is it a verb,
does it speak of somebody alive, is it a mark? (Trained features have no names. And we
leave the positions out, so that the numbers stay short.)

![The features of the three words.](figure:encoder_decoder.features)

**Attention.** *Who* wants to know what is done. Each token makes three vectors of its
features, each with a learned matrix: a query, what it looks for, a key, what it offers,
and a value, what it hands over. We chose matrices that write *question* + *alive* into
the first place of a query, and *verb* + *alive* into the first place of a key. A value
has this sum in the place of *verb*, where it will be added. So *who* asks for "a verb
that living beings do". Multiply its query with each key, number by number, and add up:
0, 4, −4. Divide by $\sqrt 4$, the root of the number of features of a query, and you
have the **scores** 0, 2, −2. A **softmax** turns them into weights that sum to one:
take the exponential of each score, and divide it by the sum of all. Then *who* receives
the average of the values with these weights: 0.867 · 2 − 0.016 · 2 = 1.702 in the place
of *verb*. (A real layer has several such **heads** side by side, with other matrices.)

![*Who* finds *sleeps*. In each query and key three of the four numbers are 0
here.](figure:encoder_decoder.head)

**Add.** Attention does not replace the features. Its result is *added* to them, by a
**residual connection**. So everything on this page has the same number of features $C$.
*Who* had −1 for *verb*, and now it has 0.702: it stands for somebody who does
something. The other two words do not change. Their *question* + *alive* is 0, so their
queries and scores are 0. Then each value has the weight 1/3, and (0 + 2 − 2) / 3 = 0.

![What attention returns is added.](figure:encoder_decoder.added)

**Normalise.** After many sums features have very different sizes. So each computation
reads its input through a **layer normalisation**. (For the attention above it would
change nothing: each of our words has mean 0 and variance 1.) Do it by hand for (2, 0,
4, 2). The mean is 2. Subtract it. The squares of what is left have the mean 2, which is
the variance. Divide by its root, 1.414. Now the mean is 0 and the variance 1. Last,
each feature has a learned **gain** $g$ and a learned **bias** $b$. In a formula, with
the mean $\mu$, the variance $\sigma^2$ and a tiny $\epsilon$ that avoids a division by
zero:

$$\operatorname{LN}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b$$

![With the gains (1, 1, 2, 1) and the biases (0, 0, 0,
1).](figure:encoder_decoder.normalised)

So the order is layer norm, attention, sum: $x + f(\operatorname{LN}(x))$, where $f$ is
the attention. It is the same for what comes next.

**Feed-forward.** Attention moves information between tokens. But an average cannot tell
whether a token has *all* features of a pattern. So then a small network works on each
token alone. Its matrix $W_1$ compares the token with patterns. The **ReLU**, $\max(0,
z)$, keeps only those that fit. And $W_2$ adds what they say:

$$\operatorname{FFN}(x) = W_2 \max(0, W_1 x + b_1) + b_2$$

Our only pattern is "it asks, it does something, it is alive". After its layer norm
(with gains 1 and biases 0) *who* reads (0.69, 0.33, 0.69, −1.71). So the sum is 1.71,
and with the bias of −1 there remains 0.71. For the other two words nothing remains.
$W_2$ adds this to *question*: 1 + 0.71 = 1.71. So *who* is the one that the answer has
to name.

![The pattern fits *who*, and neither of the
others.](figure:encoder_decoder.feed_forward)

![The sum is made with *who* as it was before the norm.](figure:encoder_decoder.fed)

This was one layer of the encoder: two **sub-layers**, each with its layer norm and its
sum. A layer of the decoder has cross-attention between the two. It is computed like the
attention that you have seen, but the query is made of a target token. Let *the* ask for
a verb, with the query (4, 0, 0, 0), and let each key begin with the *verb* of its word.
Those are 0.10, 1 and −1. (A last norm on top of the encoder has made 0.10 of the 0.70
of *who*.) Then *sleeps* gets the weight 0.845.

![*The* finds *sleeps* in the memory.](figure:encoder_decoder.across)

Each layer of the decoder reads the same memory. Stack $L$ layers of each kind, with a
last norm on top, and you have the architecture.

![The encoder on the left, the decoder on the right. Each box leads to its
code.](figure:encoder_decoder.diagram)

## From a vector to the next word

At the end the decoder has a vector for each target position. The **generator** makes
one number of it for each word of the vocabulary, with a learned matrix and bias. These
numbers are the **logits**, and a softmax turns them into probabilities. Suppose the
decoder of a trained model has read *start*, and these are the logits:

![The other three words get 0.000.](figure:encoder_decoder.logits)

How good is that? The right word is *the*, with the probability 0.778. The **loss** is
minus its natural logarithm, 0.25. Its unit is the **nat**. Had the right word been
*dog*, the loss would be 2.25. A loss of 0 would mean that the model was certain and
right.

![The less probable the right word, the larger the loss.](figure:encoder_decoder.loss)

## Training on all positions at once

In training we know the whole answer, so we need not write it step by step. We give the
decoder the answer with *start* before it, and ask it for the answer with *end* after
it. At each position it gets the *true* tokens so far, whatever it would have written
itself. This is called **teacher forcing**. Is the answer not among the inputs? It is,
but one position later, where the causal mask hides it. So one forward pass computes all
predictions in parallel. The gradient of their loss goes back through the decoder, and
through cross-attention into the encoder, so one loss trains both.

If we write $w$ for the source, and $y_0, y_1, \dots$ for the target with its start
token, our loss is the mean over all $T$ labels. (Read the bar as "given".)

$$\mathcal{L} = -\frac{1}{T} \sum_{t=0}^{T-1}
    \ln p(y_{t+1} \mid y_0, \dots, y_t, \; w)$$

![Three predictions in one forward pass.](figure:encoder_decoder.teacher)

## Writing, one token at a time

How does a trained model write? There are 16 questions such as *who eats and sings ?* We
trained a very small model on 13 of them. *Who sleeps and sings ?* and *who eats and
runs ?* are two of the three that it has never seen. Step through an answer, and choose
another question.

1. **Article.** Only *start* is written. The most probable next token is *the*.

2. **Noun.** *The* has come back as an input. Its query finds the first verb, and the
   value of *sleeps* leads to *dog*.

3. **And.** Here the model looks at *and* and at the question mark: is there a second
   verb?

4. **Article.** *The* again.

5. **Noun.** The input is the same word as in step 2. But it stands at another position,
   and after other words, so now its query finds *sings*.

6. **End.** The model looks at the end of the question, and stops.

![How the small model writes its answer.](figure:encoder_decoder.writing)

To take the most probable token each time is called **greedy decoding**. Writing is
sequential: the encoder runs once, and for $T$ tokens the decoder runs $T$ times. And if
it writes a wrong token, it continues in a situation that training never showed it
([exposure bias](#EncoderDecoder.loss)).

## Why not a single vector?

Earlier models used two recurrent networks. The first had to squeeze the whole source
into one vector ([@sutskever2014sequence]). Attention to the vectors of all source
tokens removed this bottleneck ([@bahdanau2014neural]), and the Transformer kept the
attention and dropped the recurrence. How much does it matter? We let our model write
numbers backwards, once with all source vectors, and once with a single one, their mean.

![Numbers of 2 to 10 digits of which every digit is right, a line for each of five
seeds.](figure:encoder_decoder.bottleneck)

Here a vector has 32 numbers. Numbers of two digits fit into one, numbers of ten do not.

## Try it

The smallest model of this site has two layers in each half. We trained it on one core
to reply to speeches of Shakespeare's. Now a token is a letter. If you only guess among
its 68 tokens, the loss is $\ln 68 = 4.2$ nats. It reached 1.28 in training, and 1.75 on
replies that it has not seen.

![The loss in training, and on replies that the model has not
seen.](figure:encoder_decoder.training)

It has learned how a line looks, but not to make sense. Give it a speech, and see what
each letter of its reply attends to.

![One head, and the first ten letters of the speech. Each row says where the model looks
before it writes this letter. The rest of its weight is on later
letters.](figure:live.cross)

## The whole in code

`x` and `y` are the vectors of source and target, with their positions. PyTorch hides
what is `True` in `attn_mask`. The module below computes the same. It adds
embeddings, dropout, padding, caches and checks.

```python
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.look, self.ask = (nn.MultiheadAttention(d_model, heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        first, last = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.think = nn.Sequential(first, nn.ReLU(), last)

    def forward(self, x, hidden=None, memory=None):
        z = self.norms[0](x)
        x = x + self.look(z, z, z, attn_mask=hidden)[0]
        if memory is not None:
            x = x + self.ask(self.norms[1](x), memory, memory)[0]
        return x + self.think(self.norms[2](x))


def logits(encoder, decoder, norms, generator, x, y):
    for layer in encoder:
        x = layer(x)
    memory, hidden = norms[0](x), torch.ones(len(y), len(y)).triu(1).bool()
    for layer in decoder:
        y = layer(y, hidden, memory)
    return generator(norms[1](y))


stacks = [nn.ModuleList(Layer(32, 4, 64) for _ in range(2)) for _ in range(2)]
norms, generator = [nn.LayerNorm(32), nn.LayerNorm(32)], nn.Linear(32, 68)
x, y = torch.randn(9, 1, 32), torch.randn(5, 1, 32)  # 9 source tokens, 5 of the target
print(logits(*stacks, norms, generator, x, y).shape)
```
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_sizes
from labml_nn.transformers.checks import (
    check_decoding,
    check_layer,
    check_stack,
    check_targets,
    check_widths,
)
from labml_nn.transformers.mha import KVCache
from labml_nn.transformers.positional_encoding import (
    fixed_positions,
    get_positional_encoding,
    learned_positions,
)
from labml_nn.transformers.utils import subsequent_mask
from labml_nn.utils import independent_copies

__all__ = [
    "Decoder",
    "EmbeddingsWithLearnedPositionalEncoding",
    "EmbeddingsWithPositionalEncoding",
    "Encoder",
    "EncoderDecoder",
    "Generator",
    "TransformerLayer",
]


class EmbeddingsWithPositionalEncoding(nn.Module):
    r"""
    ## Embeddings with positional encoding

    $$x_t = \sqrt{C} \, E_{w_t} + PE_t$$

    * `d_model`: number of features, $C$
    * `n_vocab`: number of tokens in the vocabulary, $V$
    * `max_len`: how many positions are computed in advance; it is no limit
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)

        # The table $E$, one row for each token of the vocabulary.
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model

        # The table of positions is computed, not learned.
        table = get_positional_encoding(d_model, max_len)
        self.register_buffer("positional_encodings", table)

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        """`x`: tokens, `[T, B]`. `offset`: position of the first of them."""
        positions = fixed_positions(self.positional_encodings, offset, len(x))

        # *Who* is token 3, so we look up row 3. With the paper's initial values the
        # factor $\sqrt C$ brings the embedding to the size of the position ([the
        # numbers](positional_encoding.py#scaling-the-embeddings-by-c)). `nn.Embedding`
        # alone starts with larger values, and [`EncoderDecoder`](#EncoderDecoder) with
        # smaller ones if the vocabulary is large.
        embedded: Tensor = self.linear(x) * math.sqrt(self.d_model)
        return embedded + positions


class EmbeddingsWithLearnedPositionalEncoding(nn.Module):
    """
    ### Embeddings with learned positions

    The same sum with a table of positions that is learned. A sequence longer than
    `max_len` raises a `ValueError`.
    """

    def __init__(self, d_model: int, n_vocab: int, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, n_vocab=n_vocab, max_len=max_len)
        self.linear = nn.Embedding(n_vocab, d_model)
        self.d_model = d_model
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Int[Tensor, "T B"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        positions = learned_positions(self.positional_encodings, offset, len(x))
        embedded: Tensor = self.linear(x) * math.sqrt(self.d_model)
        return embedded + positions


class TransformerLayer(nn.Module):
    r"""
    ## Transformer layer

    A layer of the encoder, or of the decoder if there is a `src_attn`.

    * `d_model`: number of features, $C$
    * `self_attn`: attention of a sequence to itself, a `MultiHeadAttention`
    * `src_attn`: cross-attention to the source; only the decoder has it
    * `feed_forward`: the feed-forward network
    * `dropout_prob`: probability that a feature of a sub-layer's output is dropped in
      training
    * `norm_first`: normalise before each sub-layer (`True`, *pre-norm*), or after each
      sum as in the paper (`False`, *post-norm*)
    * `norm`: makes a normalisation of $C$ features, such as [RMSNorm](modern.py)

    Raises `ValueError` if a submodule has another number of features.
    """

    def __init__(
        self,
        *,
        d_model: int,
        self_attn: nn.Module,
        src_attn: nn.Module | None = None,
        feed_forward: nn.Module,
        dropout_prob: float,
        norm_first: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        parts = {"self_attn": self_attn, "src_attn": src_attn}
        check_layer(d_model, dropout_prob, norm_first, feed_forward, **parts)
        self.size, self.norm_first = d_model, norm_first

        # Two or three sub-layers. Attention moves features between tokens. The
        # feed-forward network then processes what each token has collected. It is the
        # same network at every position, so what it learns at one position serves at
        # all others.
        self.self_attn = self_attn
        self.src_attn = src_attn
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout_prob)

        # Each sub-layer has a normalisation with its own gains and biases.
        self.norm_self_attn = norm(d_model)
        if src_attn is not None:
            self.norm_src_attn = norm(d_model)
        self.norm_ff = norm(d_model)

    def residual(
        self,
        x: Float[Tensor, "T B C"],
        norm: nn.Module,
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### Residual connection and normalisation

        The sum of the example, around any sub-layer.
        """
        # **Pre-norm**: normalise, run the sub-layer, add. Follow $x$ itself: nothing
        # stands in its way. So gradients pass from the last layer to the first through
        # plain sums, and deep stacks can be trained.
        if self.norm_first:
            added: Tensor = x + self.dropout(sublayer(norm(x)))
            return added

        # **Post-norm**: the paper runs the sub-layer, adds, and normalises the sum.
        # Then every layer rescales $x$ on its way, and training needs a careful warm-up
        # ([@xiong2020layer]): the learning rate begins near 0 and grows at first.
        normalised: Tensor = norm(x + self.dropout(sublayer(x)))
        return normalised

    def forward(
        self,
        *,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T _ #B"] | None,
        src: Float[Tensor, "S B C"] | None = None,
        src_mask: Bool[Tensor, "#T _ #B"] | None = None,
        cache: KVCache | None = None,
        src_cache: KVCache | None = None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### All sub-layers

        * `x`: features of the tokens, and `mask`: which of them may see which. An axis
          marked `#` may be 1, and `_` may have any length
        * `src`: the memory; without it there is no cross-attention
        * `src_mask`: hides padding of the source, `[1, S, B]`
        * `cache`, `src_cache`: keys and values of earlier calls. When a model writes,
          it keeps them, so that it need not compute them again at each step
        """
        # **Self-attention.** Queries, keys and values are all made of the same tokens.
        # In the answer, *dog* can look at *the*.
        attend = self.self_attn
        x = self.residual(
            x,
            self.norm_self_attn,
            lambda z: attend(query=z, key=z, value=z, mask=mask, cache=cache),
        )

        # **Cross-attention.** Queries come from the target, keys and values from the
        # memory. Before it writes *dog*, the decoder can look at *who* and *sleeps*.
        # Each target position has weights over the $S$ positions of the source, `[T, S,
        # B, H]`.
        if src is not None:
            if self.src_attn is None:
                raise ValueError("src was given, but the layer has no src_attn for it")
            source: Any = {"key": src, "value": src, "mask": src_mask}
            look = self.src_attn
            x = self.residual(
                x,
                self.norm_src_attn,
                lambda z: look(query=z, **source, cache=src_cache),
            )

        # **Feed-forward network.** Each token by itself.
        return self.residual(x, self.norm_ff, self.feed_forward)


class Encoder(nn.Module):
    r"""
    ## Encoder

    A stack of $L$ layers. Each one takes the output of the layer below. All layers have
    the same architecture, and each has its own parameters.

    * `layer`: a template. The stack begins with it and adds copies with new random
      parameters
    * `n_layers`: number of layers, $L$
    * `final_norm`: whether a last normalisation follows; `norm` makes it

    The class knows nothing of sources and targets. What a token may see depends on the
    mask alone. With a causal mask it is the stack of a language model, which has no
    cross-attention: the [autoregressive Transformer](autoregressive.py) uses it so.
    """

    def __init__(
        self,
        layer: TransformerLayer,
        n_layers: int,
        *,
        final_norm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        check_stack(layer, n_layers, final_norm)
        self.size = layer.size
        self.layers = independent_copies(layer, n_layers)

        # With pre-norm every layer adds to the features and none rescales them, so
        # their variance grows with each layer. A normalisation behind the last one
        # gives the decoder vectors of a fixed size. Post-norm layers end in a
        # normalisation already, so `final_norm=False` gives the stack of the paper.
        self.norm = norm(layer.size) if final_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        mask: Bool[Tensor, "#T _ #B"] | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "T B C"]:
        """
        * `mask`: hides padding, `[1, T, B]`, or later positions, `[T, T, 1]`
        * `caches`: one for each layer
        """
        for i, layer in enumerate(self.layers):
            x = layer(x=x, mask=mask, cache=caches[i] if caches else None)
        encoded: Tensor = self.norm(x)
        return encoded


class Decoder(nn.Module):
    """
    ## Decoder

    The same stack with cross-attention in every layer. All layers attend to the *last*
    output of the encoder, and each makes its own keys and values of it. The arguments
    are those of `Encoder`. Raises `ValueError` if `layer` has no `src_attn`.
    """

    def __init__(
        self,
        layer: TransformerLayer,
        n_layers: int,
        *,
        final_norm: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        check_stack(layer, n_layers, final_norm, needs_source=True)
        self.size = layer.size
        self.layers = independent_copies(layer, n_layers)
        self.norm = norm(layer.size) if final_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T _ #B"] | None,
        tgt_mask: Bool[Tensor, "#T _ #B"] | None,
        *,
        caches: Sequence[KVCache] | None = None,
        src_caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "T B C"]:
        """
        * `src_mask`: hides padding of the source, `[1, S, B]`
        * `tgt_mask`: hides later positions of the target, `[T, T, 1]`
        * `caches`, `src_caches`: keys and values of target and source, for each layer
        """
        for i, layer in enumerate(self.layers):
            x = layer(
                x=x,
                mask=tgt_mask,
                src=memory,
                src_mask=src_mask,
                cache=caches[i] if caches else None,
                src_cache=src_caches[i] if src_caches else None,
            )
        decoded: Tensor = self.norm(x)
        return decoded


class Generator(nn.Module):
    """
    ## Generator

    One logit for each token of the vocabulary. We leave the softmax out. In training it
    is part of PyTorch's `cross_entropy`. In generation the [sampler](../sampling.py)
    computes it, and greedy decoding needs none.

    * `n_vocab`: number of tokens, $V$
    * `d_model`: number of features, $C$
    """

    def __init__(self, n_vocab: int, d_model: int) -> None:
        super().__init__()
        check_sizes(n_vocab=n_vocab, d_model=d_model)
        self.projection = nn.Linear(d_model, n_vocab)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes V"]:
        logits: Tensor = self.projection(x)
        return logits


class EncoderDecoder(nn.Module):
    r"""
    ## Encoder–decoder

    Both halves together, as you see them in the figure.

    * `encoder`, `decoder`: the two stacks
    * `src_embed`, `tgt_embed`: turn tokens `[T, B]` into vectors `[T, B, C]`
    * `generator`: turns the decoder's output into logits

    Source and target may have different vocabularies, but all parts have the same
    number of features; otherwise a `ValueError` is raised.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ) -> None:
        super().__init__()
        embeds = {"src_embed": src_embed, "tgt_embed": tgt_embed}
        check_widths(encoder=encoder, decoder=decoder, **embeds, generator=generator)
        self.encoder = encoder
        self.decoder = decoder
        self.src_embed = src_embed
        self.tgt_embed = tgt_embed
        self.generator = generator

        # How large should our random weights be? Too large, and features grow from
        # layer to layer. Too small, and they fade. Glorot and Bengio
        # ([-@glorot2010understanding]) draw a matrix uniformly with the variance $2 /
        # (\text{fan}_{in} + \text{fan}_{out})$, which keeps features and gradients at
        # about the same size. The two fans are the numbers of inputs and outputs.
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        """
        ### Forward pass

        * `src`, `tgt`: tokens of source and target
        * `src_mask`: `True` at real tokens of the source. Its first axis is 1, because
          it serves the $S$ queries of the encoder and the $T$ of the decoder
        * `tgt_mask`: the causal mask of the target, `[T, T, 1]`

        Returns the decoder's features. `logits` goes on to the generator.
        """
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)

    def encode(
        self, src: Int[Tensor, "S B"], src_mask: Bool[Tensor, "#S S #B"] | None
    ) -> Float[Tensor, "S B C"]:
        """*Who sleeps ?* becomes three vectors, the memory."""
        memory: Tensor = self.encoder(self.src_embed(src), src_mask)
        return memory

    def decode(
        self,
        memory: Float[Tensor, "S B C"],
        src_mask: Bool[Tensor, "#T S #B"] | None,
        tgt: Int[Tensor, "T B"],
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B C"]:
        """The answer so far and the memory become features of the target."""
        decoded: Tensor = self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)
        return decoded

    def logits(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        src_mask: Bool[Tensor, "1 S #B"] | None,
        tgt_mask: Bool[Tensor, "#T T #B"] | None,
    ) -> Float[Tensor, "T B V"]:
        """The forward pass with the generator: at each position, the next token."""
        logits: Tensor = self.generator(self(src, tgt, src_mask, tgt_mask))
        return logits

    def loss(
        self,
        src: Int[Tensor, "S B"],
        tgt: Int[Tensor, "T B"],
        *,
        padding_token: int = 0,
        label_smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        r"""
        ## Loss with teacher forcing

        * `src`: source tokens
        * `tgt`: targets, with a start token before and an end token after them
        * `padding_token`: fills up both, at the end
        * `label_smoothing`: $\varepsilon$. The model should give every token
          $\varepsilon / V$, and the label $1 - \varepsilon$ on top of that; 0.1 in the
          paper (§5.4)

        Returns the mean over the labels that are not padding, in nats.

        **Exposure bias.** While we train it, the decoder sees only true tokens. When it
        writes, it sees its own. After a mistake it reads a beginning unlike any that it
        was trained on, which makes the next mistake more likely
        ([@bengio2015scheduled]). The loss does not show this, because it is computed
        with true tokens.
        """
        check_targets(src, tgt, padding_token, label_smoothing)

        # **Shift.** The input is *start the dog*, and the labels are *the dog end*.
        inputs, labels = tgt[:-1], tgt[1:]

        # **Causal mask.** We let position $t$ attend to positions up to $t$, because
        # the next one holds its label. Padding comes last, so this mask hides it as
        # well.
        tgt_mask = subsequent_mask(len(inputs), device=tgt.device)

        # **Padding mask.** The source has no causal mask, so we must hide its padding,
        # in the encoder and in cross-attention.
        src_mask = (src != padding_token).unsqueeze(0)

        # **Logits, softmax and logarithm** of the label, at all positions at once.
        # `ignore_index` leaves out the labels that are padding. Why smooth the labels?
        # A probability of 1 needs an infinite logit, and a model that runs after it
        # becomes too sure of itself. The paper found that smoothing makes the loss
        # worse and the translations better.
        logits = self.logits(src, inputs, src_mask, tgt_mask)
        return F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten().long(),
            ignore_index=padding_token,
            label_smoothing=label_smoothing,
        )

    @torch.no_grad()
    def greedy_decode(
        self,
        src: Int[Tensor, "S B"],
        *,
        start_token: int,
        end_token: int,
        max_len: int,
        padding_token: int = 0,
    ) -> Int[Tensor, "N B"]:
        r"""
        ## Greedy decoding

        How does the decoder write? In the plainest way it always takes the most
        probable token. For one source, without padding, that is

        ```python
        def write(model, src, start, end, max_len):
            memory = model.encode(src, None)                  # 1. encode once
            tgt = torch.tensor([[start]])                     # 2. begin
            for _ in range(max_len):
                mask = subsequent_mask(len(tgt))
                x = model.decode(memory, None, tgt, mask)
                token = model.generator(x[-1:]).argmax(-1)    # 3. most probable
                tgt = torch.cat([tgt, token])                 # 4. append
                if token.item() == end:                       # 5. stop
                    break
            return tgt[1:]
        ```

        If you write like this, you compute the keys and values of old tokens again at
        each step. The method below keeps them in a [KV cache](mha.py#KVCache), and
        writes for many sources at once.

        * `src`: source tokens, padded at the end
        * `start_token`, `end_token`: begin and end a target
        * `max_len`: the largest number of tokens to write
        * `padding_token`: fills up `src`, and the output after the end token

        Returns the targets without the start token, $N \le$ `max_len`. Call `eval()`
        first, which turns dropout off.
        """
        check_decoding(src, max_len, padding_token, start_token, end_token)

        # Encode once. Each layer of the decoder has two caches, for the keys and values
        # of the target and of the source.
        src_mask = (src != padding_token).unsqueeze(0)
        memory = self.encode(src, src_mask)
        caches = [KVCache() for _ in self.decoder.layers]
        src_caches = [KVCache() for _ in self.decoder.layers]

        # Begin with the start token in every sequence.
        token = torch.full_like(src[:1], start_token)
        finished = torch.zeros_like(src[0], dtype=torch.bool)
        written = []
        for t in range(max_len):
            # The new token is the only query. It may attend to all that is in the
            # caches, so you need no causal mask. The mask of the source still hides its
            # padding.
            x = self.tgt_embed(token, offset=t)
            x = self.decoder(
                x, memory, src_mask, None, caches=caches, src_caches=src_caches
            )

            # The caches now hold the keys and values of the whole source. From the next
            # step on we pass an empty memory, so that nothing is appended to them
            # again.
            memory = memory[:0]

            # Take the most probable token and append it. A sequence that has ended is
            # filled up with padding.
            token = self.generator(x).argmax(-1).to(src.dtype)
            token = token.masked_fill(finished, padding_token)
            written.append(token)

            # Stop when all sequences have their end token.
            finished = finished | (token[0] == end_token)
            if bool(finished.all()):
                break
        return torch.cat(written)


# ## Beam search
#
# The most probable token need not begin the most probable sequence. Suppose *a* has the
# probability 0.6, but no continuation of it has more than 0.3, and *b* has 0.4 with a
# continuation of 0.9. Greedy decoding takes *a* and ends with $0.6 \cdot 0.3 = 0.18$.
# It misses $0.4 \cdot 0.9 = 0.36$. **Beam search** keeps the $k$ best beginnings and
# extends all of them. The paper uses $k = 4$ and a penalty for short outputs (§6.1).
#
# ## Symbols
#
# <details><summary>Symbols, their code and shapes</summary>
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $w$ | `src` of `encode` | `[S, B]` | source tokens |
# | $y$ | `tgt` of `decode` | `[T, B]` | target tokens, $y_0$ is the start token |
# | $E$ | `linear.weight` | `[V, C]` | token embeddings |
# | $PE$ | `positional_encodings` | `[max_len, 1, C]` | positional encoding |
# | $x$ | `x` of `residual` | `[T, B, C]` | features: one vector for each position |
# | $m$ | `memory` of `decode` | `[S, B, C]` | the encoder's output |
# | $M$ | `src_mask`, `tgt_mask` of `decode` | `[1, S, B]`, `[T, T, 1]` | masks |
# | $p$ | `logits` of `loss` | `[T, B, V]` | softmax of these logits: the next token |
#
# $B$ sequences, $C$ features, $H$ heads, $F$ hidden features of the feed-forward
# network, $V$ tokens in a vocabulary, $L$ layers.
#
# </details>
#
# ## Shared embeddings
#
# The paper uses one matrix for both embeddings and for the generator
# ([@press2017using], §3.4). That is possible because source and target share one
# vocabulary. As an output matrix $E$ needs small entries: if the decoder's output has
# variance 1 per feature, as after a layer normalisation, entries of variance $1 / C$
# give logits of variance 1. As an embedding it needs entries of about 1, and the factor
# $\sqrt C$ makes them. That is how the paper's authors draw it. Here the three matrices
# are separate. If you want to share one, assign it to the others, as the [language
# model](encoder_decoder.py) does.
#
# `EncoderDecoder` draws its embeddings as it draws all matrices. With 37,000 tokens and
# $C = 512$ their standard deviation is $\sqrt{2 / 37512} = 0.0073$. After the factor
# $\sqrt C$ it is 0.17, where the paper's is about 1.
#
# ## Common mistakes and their symptoms
#
# | Mistake | What happens | Symptom |
# |:--|:--|:--|
# | no shift | the input of a position is its label | loss near 0, output repeats |
# | no causal mask | the next position holds the label | near 0; output much worse |
# | no padding mask | real tokens attend to padding | results depend on the batch |
# | padding in the loss | the model learns to predict padding | loss looks too small |
# | no end token | nothing teaches the model to stop | output runs on to `max_len` |
#
# You can easily overlook the first two, because training looks excellent. Without the
# mask the model learns to read the answer from the next position, which is still empty
# when it writes. To check this, change a target token. The logits at earlier positions
# must not change.
#
# ## Cost
#
# | Attention, and its mask | Weights | Time per layer |
# |:--|:--|:--|
# | encoder, self-attention; padding | `[S, S, B, H]` | $O(S^2 C)$ |
# | decoder, self-attention; causal | `[T, T, B, H]` | $O(T^2 C)$ |
# | decoder, cross-attention; padding of the source | `[T, S, B, H]` | $O(S T C)$ |
#
# Projections and feed-forward networks add $O((S + T) C^2)$. That is the larger part up
# to lengths of several times the width. With $F = 4C$ a layer of the encoder takes $4 S
# C^2$ multiplications for projections, $8 S C^2$ for the feed-forward network, and $2
# S^2 C$ for scores and averages. The first two are as much as the last at $S = 6 C$.
# Two thirds of the parameters of such a layer, $8 C^2$ of $12 C^2$ without the biases,
# belong to the feed-forward network.
#
# In training the number of sequential steps does not depend on the lengths. When you
# generate, you encode the source once. Then the decoder takes $T$ steps one after the
# other, each $O((S + T) C + C^2)$ per layer with caches. This is why it can pay to move
# layers from the decoder to the encoder. A deep encoder with a decoder of one layer
# translates about as well, and much faster ([@kasai2020deep]).
#
# ![Parameters of a model like the paper's base, but with three separate matrices for
# tokens, and the work for a pair of 32 tokens each.](figure:counts.encoder_decoder)
#
# ## The models of the paper
#
# | | base | big |
# |:--|--:|--:|
# | layers $L$ in each stack | 6 | 6 |
# | features $C$ | 512 | 1,024 |
# | heads $H$ | 8 | 16 |
# | hidden features $F$ | 2,048 | 4,096 |
# | parameters, in millions | 65 | 213 |
# | BLEU, English to German | 27.3 | 28.4 |
#
# **BLEU** compares a translation with those of people, by the share of common runs of
# one to four words. 100 would be identical. The big model was over two points better
# than the best results before it (§6.1). The tokens were not whole words but **parts of
# words**, which a rare word is made of (§5.1).
#
# **Training.** A batch has about 25,000 source tokens and as many target tokens. Adam
# ($\beta_1 = 0.9$, $\beta_2 = 0.98$) has a learning rate that rises for 4,000 updates
# and then falls. At update $n$ it is $C^{-1/2} \min(n^{-1/2}, \; n \cdot 4000^{-3/2})$
# (§5.3). Why the warm-up? With post-norm, gradients near the output are large at first,
# and large steps would diverge ([@xiong2020layer]).
#
# **Descendants.** You can also use one stack alone. An encoder sees both sides of
# each token and classifies texts (BERT, [@devlin2018bert]). A decoder without
# cross-attention [continues them](autoregressive.py).
#
# ## Differences from the paper
#
# * **Pre-norm**, and therefore two normalisations that the paper lacks, one after each
#   stack. `norm_first=False` and `final_norm=False` give the paper's post-norm.
# * **No sharing** of embeddings and generator unless you assign one matrix to them.
# * **Dropout** is applied to each sub-layer's output as in §5.4, and also to attention
#   weights and hidden features, if those modules were built with it. §5.4 also applies
#   it to the sums of embeddings and positions; here there is none.
# * **Greedy decoding** in place of beam search.
#
# `nn.TransformerEncoderLayer` of PyTorch has post-norm unless you say otherwise. [Our
# notes on its lines](../../torch/nn/modules/transformer.py) show both.
#
# ## Parameters
#
# | Parameter | Shape |
# |:--|:--|
# | `src_embed.linear`, `tgt_embed.linear` | `[V, C]` |
# | `self_attn`, `src_attn`: four matrices with biases | `[C, C]`, `[C]` |
# | `feed_forward.layer1` | `[F, C]`, `[F]` |
# | `feed_forward.layer2` | `[C, F]`, `[C]` |
# | `norm_self_attn`, …: gains and biases | `[C]`, `[C]` |
# | `generator.projection` | `[V, C]`, `[V]` |
#
# With $F = 4C$ a layer of the encoder has $12 C^2 + 13 C$ parameters and one of the
# decoder $16 C^2 + 19 C$. Checkpoints also contain the table of positions, as those of
# the published package do.
#
# ## Replies of the small model
#
# They are drawn at a [temperature](../sampling.py) of 0.5, which makes likely letters
# even likelier.
#
# ![Three speeches and the replies of the trained
# model.](table:encoder_decoder.replies)
#
# ## The task of the first reading
#
# The source is 2 to 10 random digits, and the answer the same digits backwards. Both
# models have one layer in each half, 32 features, 4 heads and 64 hidden features. One
# decoder attends to all source vectors, the other to their mean. Each learns for 1,000
# updates with 64 answers, with AdamW and a learning rate that falls from 0.003 to 0
# along a cosine. An answer counts as right if all its digits are, and the end token.
# The models write by themselves, 200 answers of each length.
#
# ## Exercises
#
# **1.** Table 3 of the paper gives 65 million parameters for the base model, with $L =
# 6$, $C = 512$, $F = 4C$ and one matrix for about 37,000 tokens. Find a formula, and
# check it.
#
# <details><summary>Answer</summary>
#
# $L \, (28 C^2 + 32 C)$ for the layers, $4 C$ for the two final normalisations, $V C$
# for the shared matrix, and the generator's biases, $V$: 97 % of the rounded 65
# million. The paper does not state the exact size of the vocabulary. The number of
# heads does not appear. To check it, we build the model and share its matrix. On
# PyTorch's `meta` device tensors have shapes but no values, so this takes no memory.
#
# ```python
# import torch
# from labml_nn.transformers import Decoder, Encoder, EncoderDecoder, Generator
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
#
# L, C, V = 6, 512, 37_000
#
# def layer(src_attn=None):
#     return TransformerLayer(
#         d_model=C,
#         self_attn=MultiHeadAttention(8, C),
#         src_attn=src_attn,
#         feed_forward=FeedForward(C, 4 * C),
#         dropout_prob=0.1,
#     )
#
# with torch.device("meta"):
#     stacks = Encoder(layer(), L), Decoder(layer(MultiHeadAttention(8, C)), L)
#     embed, generator = EmbeddingsWithPositionalEncoding(C, V), Generator(V, C)
#     generator.projection.weight = embed.linear.weight
#     model = EncoderDecoder(*stacks, embed, embed, generator)
# count = sum(parameter.numel() for parameter in model.parameters())
# assert L * (28 * C**2 + 32 * C) + 4 * C + V * C + V == count == 63_121_544
# ```
#
# </details>
#
# **2.** Train a small model to reverse sequences of four digits, and let it write.
#
# <details><summary>Answer</summary>
#
# Cross-attention has to find position $3 - t$ of the source for position $t$ of the
# target, which it can do from the positional encodings.
#
# ```python
# import torch
# from labml_nn.transformers import Decoder, Encoder, EncoderDecoder, Generator
# from labml_nn.transformers import MultiHeadAttention, TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
#
# def layer(src_attn=None):
#     return TransformerLayer(
#         d_model=32,
#         self_attn=MultiHeadAttention(4, 32, 0.0),
#         src_attn=src_attn,
#         feed_forward=FeedForward(32, 64, 0.0),
#         dropout_prob=0.0,
#     )
#
# def digits():  # tokens 0, 1 and 2 are padding, start and end
#     return torch.randint(3, 13, (4, 64))
#
# stacks = Encoder(layer(), 1), Decoder(layer(MultiHeadAttention(4, 32, 0.0)), 1)
# embeds = [EmbeddingsWithPositionalEncoding(32, n_vocab=13) for _ in range(2)]
# model = EncoderDecoder(*stacks, *embeds, Generator(13, 32))
# optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
# start, end = torch.full((1, 64), 1), torch.full((1, 64), 2)
# for _ in range(100):
#     src = digits()
#     loss = model.loss(src, torch.cat([start, src.flip(0), end]))
#     optimizer.zero_grad()
#     loss.backward()
#     optimizer.step()
#
# src = digits()
# written = model.eval().greedy_decode(src, start_token=1, end_token=2, max_len=9)
# right = written[:4] == src.flip(0)
# assert right.float().mean() > 0.8  # by chance it would be 0.1
# ```
#
# </details>
#
# **3.** Write a beam search for a function `log_probabilities(prefix)`, and find the
# sequence that greedy decoding misses in the example above.
#
# <details><summary>Answer</summary>
#
# Every prefix of the beam is extended by every token, and the $k$ best are kept. With
# $k = 1$ it is greedy decoding.
#
# ```python
# import math
#
# NEXT = {
#     "": {"a": 0.6, "b": 0.4},
#     "a": {"c": 0.3, "d": 0.3, "e": 0.28, "f": 0.12},
#     "b": {"c": 0.9, "d": 0.1},
# }
#
# def log_probabilities(prefix):
#     return {token: math.log(p) for token, p in NEXT[prefix].items()}
#
# def beam_search(k, length):
#     beam = [(0.0, "")]
#     for _ in range(length):
#         beam = [
#             (score + more, prefix + token)
#             for score, prefix in beam
#             for token, more in log_probabilities(prefix).items()
#         ]
#         beam = sorted(beam, reverse=True)[:k]
#     return beam[0]
#
# score, greedy = beam_search(k=1, length=2)
# assert greedy[0] == "a" and math.isclose(math.exp(score), 0.18)
# score, best = beam_search(k=2, length=2)
# assert best == "bc" and math.isclose(math.exp(score), 0.36)
# ```
#
# </details>
