r"""
---
title: Multi-head attention
summary: >
  Each token looks at the others, decides how much each one matters to it, and takes a
  weighted average of what they offer. Several heads do this in parallel.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/mha.ipynb
tones: {query: 3, key: 1, value: 2, weight: 0}
---

*The dog left the bone because it was tired.* Who was tired? You know at once that it
was the *dog*. Now read *dry* in place of *tired*, and it was the *bone*. You looked
back from the last word and chose what matters to it. **Attention** lets a network do
the same.

![From *tired* to three of the words: the thicker the line, the more the word
counts.](figure:mha.sentence)

**Where are we?** A network computes with numbers. So a text is cut into **tokens**,
which are words or parts of words, and each token becomes a vector of $C$ numbers, its
**features**. Attention computes for each token what it receives from all of them. This
is added to the token's own vector (a **residual connection**), so that nothing is lost.

A **Transformer**, the network behind today's language models, has many **layers**. In
each of them attention mixes the tokens, and then a feed-forward network works on each
token alone. From the last vectors it predicts, for example, the next word.

![To begin with, each token hands over its features as they are, so *tired* gets
something of a noun.](figure:mha.layer)

How can a token "decide" anything? With three vectors, computed from its features:

* The **query** is what a token looks for. For *tired*: "a noun that is alive, please."
* The **key** is what a token advertises. For *dog*: "I am a noun, and alive."
* The **value** is what a token hands over to those that choose it. For *dog*: what the
  others should know about this dog.

![*Tired* looks for what *dog* advertises.](figure:mha.roles)

A dictionary in Python returns the *one* value whose key is equal to your query.
Attention returns a *blend of all values*, and the better a key matches the query, the
more its value counts. If any number changes a little, so does the blend. Training
follows such small changes (the **gradient**), so all of this can be learned.

![A dictionary returns one value, attention some of each.](figure:mha.dictionary)

## A worked example

Let us compute what *tired* receives. To keep it small, we take three words and four
features. Is a word a noun? Does it go with what is *alive*, as *tired* does, or with a
*thing*, as *dry* does? Is it an *adjective*? (In a trained network the features are
learned and have no names.)

Look at the query of *tired*. It has a 2 at *noun* and at *alive*, so this is what it
looks for. The key of *dog* has both. *Bone* is a noun, but not alive. *Tired* itself is
no noun, and with a −1 there it counts little for itself. A value has two numbers here:
10 for *alive*, and 10 for a *thing* or an *adjective*. (A last matrix makes four
features of them again. You meet it [below](#several-heads).)

![All vectors of the example. Features, queries and keys have the same
columns.](figure:mha.vectors)

Where do these vectors come from? The network has learned three matrices, and you get a
query with one product, $q = x W^Q$. Keys and values are $k = x W^K$ and $v = x W^V$.
Such a product is called a **projection**. Two features of *tired* are 1, *alive* and
*adjective*. So *tired* picks these two rows of each matrix and adds them.

![Features that are 1 pick rows, which are added. ($x$ is a row; here it stands
upright.)](figure:mha.projections)

Now *tired* takes four steps. You can change its query below them, and see what moves.

1. **Compare** the query with each key, also with its own, by a **dot product**:
   multiply number by number, then add up. For *dog* you get 2·1 + 2·1 + 0·0 + 0·0 = 4.
   The more two vectors point the same way, the larger it is.

2. **Scale**: divide by $\sqrt{d_k}$, where $d_k$ is how many numbers a query has. Ours
   have 4, so we divide by 2. The result is the **score** $e$ of each key.

3. **Softmax**: take $\exp(e)$ of each score and divide it by the sum of all. Any scores
   become positive **weights** $A$ that sum to one.

4. **Average**: multiply each value by its weight, and add up. *Dog* has two thirds of
   the weight, so most of the result is the value of *dog*.

Choose *dry*. Its query is 2 at *noun* and *thing*, so the *bone* gets most of the
weight. Then set the query to zeros. All scores are equal, and you get the plain average
of the values. If one score is far above the others, you get its value alone, as from a
dictionary.

![What *tired* receives.](figure:mha.stage)

**Why do we divide?** A dot product is a sum of $d_k$ terms, and the more terms, the
farther it usually is from 0. The softmax of such large scores gives one key nearly all
the weight. Then a small change of a score hardly changes a weight: the gradient
[vanishes](#scaling-and-gradients), and queries and keys hardly learn. Divided by
$\sqrt{d_k}$, the scores spread alike for every $d_k$, and so do the weights.

![20,000 random queries with eight random keys each, and the mean of their
weights.](figure:mha.scaling)

Why the root? Suppose that all numbers of queries and keys are independent, with mean 0
and variance 1. (The **variance** is the mean of the squares, if the mean is 0. Its root
is the usual distance from 0.) Then the product of two of them has variance 1 · 1 = 1,
too, and the variances of independent terms add up. So a dot product has variance $d_k$,
and its usual distance from 0 is $\sqrt{d_k}$, for example 8 with 64 numbers. After the
division it is 1 again.

![About two thirds of the sums are between the two curves.](figure:mha.spread)

## All tokens at once

*Dog* and *bone* take the same four steps, each with its own query. To do it in one go,
write all features below each other, as the rows of a matrix $X$. Then $Q = X W^Q$ has
all queries as its rows, and in the same way you get $K$ and $V$. **Transposed**, as
$K^\top$, the keys are columns. Where the row of a query meets the column of a key,
$QK^\top$ has their dot product. The rows of $AV$ are the averages.

This is the formula of "the paper", which introduced the Transformer
([@vaswani2017attention], §3.2.1, eq. 1):

$$\operatorname{Attention}(Q, K, V)
    = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

In Python the formula is the last two lines:

![The framed rows have the numbers of the four steps.](figure:mha.together)

```python
import torch

x = torch.tensor([[1.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])  # dog, bone, tired
w_q = torch.tensor([[0.0, 0, 0, 4], [0, 2, 0, 0], [0, 0, 2, 0], [2, 0, 0, 0]])
w_k = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [-1, 0, 0, 1]])
w_v = torch.tensor([[0.0, 0], [10, 0], [0, 10], [0, 10]])

q, k, v = x @ w_q, x @ w_k, x @ w_v
weights = (q @ k.T / 4**0.5).softmax(dim=1)
print(weights @ v)
```

## Several heads

*Dog* needs two things at once: what is it like, and what did it leave? A single average
cannot keep *tired* and *bone* apart, because it blurs both into one vector. So we
compute $H$ averages, each with its own projections (§3.2.2). They are called **heads**.

![Two heads of *dog*, with matrices that we chose. It may look ahead
here.](figure:mha.heads)

The results of the heads are put side by side. A last matrix $W^O$, learned as well,
says which feature each of their numbers goes to:

\begin{align}
\operatorname{MultiHead}(X, Y, Z)
    &= \operatorname{Concat}(\text{head}_1, \dots, \text{head}_H) \, W^O \\
\text{head}_h &= \operatorname{Attention}(X W_h^Q, \; Y W_h^K, \; Z W_h^V)
\end{align}

Each head usually has $d_k = C / H$ numbers in a query. (Ours have more, so that you can
read them.) Then all heads together take as many multiplications as one with $d_k = C$.

![The path of both heads, with what their values are about. Both write to *alive*. What
head 1 has of things and adjectives goes to *adjective*, what head 2 has of things to
*thing*.](figure:mha.joined)

Why three inputs, $X$, $Y$ and $Z$? In **self-attention** all three are the same
sequence, as in our example. In **cross-attention** the queries come from one sequence,
for example a translation that is being written. Keys and values come from the sentence
to translate ($Y$ and $Z$ are the same). You meet it in the
[encoder–decoder](models.py).

![Each query meets all keys, of its own sequence or of another.](figure:mha.kinds)

## Masks

Some keys must not be seen, for two reasons.

**The future.** In training a language model reads the whole text at once and predicts
at each token the next one. If our three words were the text, it should predict *bone*
at *dog*. If *dog* could attend to *bone*, the model would copy the answer and learn
nothing. So each token may attend to itself and to earlier tokens only. This is called
**causal** attention.

How do you hide a key? Set its score to $-\infty$ before the softmax. Its weight becomes
$\exp(-\infty) = 0$, and the others still sum to one.

![Each row is a query. It sees the keys up to its own token.](figure:mha.causal)

**Padding.** We compute many sequences together, in a **batch**. They have to be equally
long, so the shorter ones are filled up with a token that means nothing. No token may
attend to it. A **mask** $M$ says for each query and key `True`, may attend, or `False`.

![No query attends to the padding.](figure:mha.padded)

## Gains and price

In a recurrent network, which reads one token after another, information about *dog* can
reach *tired* only by surviving every step in between. Here any two tokens are one step
apart. And all tokens are computed at the same time.

The price is **quadratic**: $T$ tokens have $T^2$ pairs, and each pair needs a score.
With 1,000 tokens that is a million.

![One step and one score for any two words.](figure:mha.price)

A model that writes adds one token at a time. Must it compute the earlier ones again?
No. With a causal mask they receive nothing from later tokens, so in no layer their
vectors change. Their keys and values stay valid, and we keep them in a
[cache](#KVCache). The query of the new token meets all of them.

![Only what has full colour is computed.](figure:mha.cache)

An average does not care about order. So without a mask *dog* gets the same vector in
*dog bites man* as in *man bites dog*. The next lesson repairs this with [positional
encoding](positional_encoding.py).

![The same words in another order: *tired* receives the same.](figure:mha.order)

## Do the weights matter?

Take a telephone book of eight names with a digit each, and ask for one of the names.
Names and digits are new in every book, so nothing can be learned by heart. A network
has to find the name and to copy its digit. One layer of attention learns this.

![The weights of a trained network, seed 1, as the mean of its four
heads.](figure:mha.book)

Now the same network with weights that do not depend on the tokens: all equal, or one
learned for each place. It sees which digits are in a book, but not whose they are. So
it learns to guess the most frequent one, here 7, and is right in about 30 of 100 new
books. Attention is right in all of 2,000 ([how we trained them](#the-telephone-book)).

![Five seeds for each network. The two others have the same line.](figure:mha.curves)

## The whole in code

`d_model` is $C$. Each `nn.Linear` has the matrices of all heads side by side, and a
bias. `split` cuts its result, `[T, C]`, into `[T, heads, d_k]`, and moves the heads to
the front, so each `@` is a product for each head. (`k.mT` is $K^\top$.) The module
below computes the same. It adds checks, dropout, a cache, and the shapes of all
tensors.

```python
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, heads, d_model):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x, y, z, mask=None):
        q, k, v = map(self.split, (self.query(x), self.key(y), self.value(z)))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        averages = scores.softmax(dim=-1) @ v
        return self.output(averages.transpose(-3, -2).flatten(-2))


attention, x = Attention(heads=4, d_model=64), torch.randn(10, 64)  # 10 tokens
print(attention(x, x, x, mask=torch.ones(10, 10).tril().bool()).shape)
```

## What trained heads do

A Transformer with 3 layers of 4 heads has read Shakespeare for two minutes, one
character after the other. One of its 12 heads looks for the line break after the
speaker's name, another one at the character before. Most heads do [nothing that has a
name](#trained-heads).

![Weights above 0.15, from the characters of a line. ↵ is the line break, ␣ a
space.](figure:mha.looking)

## Try it

This Transformer runs in this page and writes like this:

> And not will should the grace as in this:\
> There the loss awaid blood out

See what each head attends to, switch heads off, and let it continue your text.

![Its 12 heads.](figure:live.attention) """

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_attention, check_bool, check_sizes
from labml_nn.reference import Recorded, reference
from labml_nn.transformers.checks import check_attention_inputs, check_mask

__all__ = ["KVCache", "MultiHeadAttention", "PrepareForMultiHeadAttention"]


class PrepareForMultiHeadAttention(nn.Module):
    r"""
    ## Projection into heads

    This module computes the queries of all heads, or the keys, or the values. In the
    example one product with $W^Q$ made a query. Now every head $h$ has its own matrix
    $W_h$ of $C \times d_k$ numbers. Instead of $H$ small products one after the other,
    we put the matrices side by side and compute one large product:

    $$x \, [W_1, \dots, W_H] = [x W_1, \dots, x W_H]$$
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool) -> None:
        super().__init__()
        check_sizes(d_model=d_model, heads=heads, d_k=d_k)
        check_bool(bias=bias)

        # The matrices of all heads: $C$ features in, $H \cdot d_k$ features out.
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads, self.d_k = heads, d_k

    # Annotations name the axes: `T` queries, `S` keys, `B` sequences in a batch, `H`
    # heads, `C` features of a token, `D` features of a query in one head. Tests compare
    # them with the real shapes. One letter has the same size in all arguments of a
    # call. `#T` is $T$ or 1, `*axes` is any number of axes, and `_` is a size without a
    # name.
    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes H _"]:
        # Splitting into heads computes nothing. It only reads the last axis as two:
        # head, and feature of the head. Notice that each head sees *all* $C$ features
        # of the token, through its own $W_h$. It does not get a slice of them.
        return torch.unflatten(self.linear(x), -1, (self.heads, self.d_k))


class MultiHeadAttention(nn.Module):
    r"""
    ## Multi-head attention

    * `heads`: how many averages each token takes, $H$
    * `d_model`: the features of a token, $C$
    * `dropout_prob`: the probability that a weight is dropped in training
    * `bias`: whether the projections add a bias
    * `output_bias`: the same for values and output, for checkpoints that have biases in
      these two only; by default it follows `bias`
    * `d_k`, `d_v`: the features of a query (and key) and of a value in one head; by
      default $C / H$

    With $d_k = d_v = C / H$ each of the four matrices (queries, keys, values, output)
    has $C \times C$ numbers. So more heads do not mean more parameters. Each head just
    projects to fewer features.
    """

    # The weights of the last call, for you to look at. Where a kernel did not compute
    # them, they are computed when you look.
    attn = Recorded()

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        bias: bool = True,
        *,
        output_bias: bool | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
    ) -> None:
        super().__init__()
        check_attention(heads, d_model, dropout_prob, d_k, d_v)
        self.heads, self.d_model = heads, d_model
        self.d_k = d_model // heads if d_k is None else d_k
        self.d_v = d_model // heads if d_v is None else d_v
        output_bias = bias if output_bias is None else output_bias
        check_bool(bias=bias, output_bias=output_bias)

        # What each token looks for, what it advertises, and what it hands over. Why not
        # one projection for queries and keys? Because looking is not symmetric. In the
        # example *dog* looks for *tired* with a product of 6, and *tired* for *dog*
        # with 4. With one shared projection both would be equal, and as a rule each
        # token would attend to itself most.
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_v, output_bias)

        # $W^O$ combines what the heads found.
        self.output = nn.Linear(heads * self.d_v, d_model, bias=output_bias)

        # Axis 1 of the scores `[T, S, B, H]` are the keys. `attend` says why it is
        # this one.
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout_prob)
        self.scale = 1 / math.sqrt(self.d_k)

        self.attn = None

    def get_scores(
        self, query: Float[Tensor, "T B H D"], key: Float[Tensor, "S B H D"]
    ) -> Float[Tensor, "T S B H"]:
        r"""
        ### Dot products

        Every query $t$ meets every key $s$, in each sequence $b$ and each head $h$
        separately:

        $$Q_{tbh} \cdot K_{sbh} = \sum_{d=1}^{d_k} Q_{tbhd} \, K_{sbhd}$$

        This is step 1 of the example. The more two vectors point the same way, the
        larger their product is. It is 0 at a right angle and negative if they point in
        opposite ways, and its size also grows with their lengths. `attend` then divides
        these products by $\sqrt{d_k}$, and the result is the score $e$. The products
        have their own method so that variants can replace them, for example with
        [relative positions](positional_encoding.py).
        """
        # How do you read `einsum`? Each letter is an axis. `d` is in both inputs but
        # not in the output, so it is summed over. That sum is the dot product. All
        # other letters are in the output, so nothing else is mixed.
        return torch.einsum("tbhd,sbhd->tsbh", query, key)

    def prepare_mask(
        self,
        mask: Tensor,
        query_shape: torch.Size | tuple[int, ...],
        key_shape: torch.Size | tuple[int, ...],
    ) -> Bool[Tensor, "#T S #B #H"]:
        r"""
        ### Mask

        `True` says that a query may attend to a key. A mask has the axes `[T, S, B]`,
        for query, key and sequence. An axis of length 1 is broadcast, which means that
        it holds for all:

        | Mask | Shape | Because it is the same for |
        |:--|:--|:--|
        | causal | `[T, T, 1]` | all sequences of the batch |
        | padding | `[1, S, B]` | all queries |
        | both together | `[T, T, B]` | |
        | one for each head | `[T\|1, S, B\|1, H]` | |

        Padding gets output vectors, too, which you ignore. Other shapes are refused,
        because they could broadcast without an error and hide other keys. The page
        about [masks](utils.py) makes them. Do you have a mask from elsewhere? Compare
        the [conventions](#mask-conventions) first.
        """
        check_mask(mask, query_shape, key_shape, self.heads)

        # If the heads share a mask, it has no axis for them yet.
        return mask.bool() if mask.dim() == 4 else mask.bool().unsqueeze(-1)

    @reference
    def attend(
        self,
        query: Float[Tensor, "T B H D"],
        key: Float[Tensor, "S B H D"],
        value: Float[Tensor, "S B H Dv"],
        mask: Bool[Tensor, "#T S #B #H"] | None = None,
    ) -> Float[Tensor, "T B H Dv"]:
        r"""
        ### Attention of all heads

        $$A = \operatorname{softmax}_s(e), \qquad
            o_{tbh} = \sum_s A_{tsbh} \, V_{sbh}$$

        These are the four steps of the example: compare, scale, softmax, average.

        `@reference` says that this method defines the result. A
        [kernel](../kernels/attention.py) may compute the same faster, without storing
        the weights.
        """
        # **Compare** each query with each key, for example (2, 2, 0, 0) of *tired* with
        # (1, 1, 0, 0) of *dog*. The result is 4.
        scores = self.get_scores(query, key)

        # **Scale.** Without the division the scores of long queries would saturate the
        # softmax, as [you have seen](#a-worked-example) (footnote 4 of the paper).
        # Dividing by $d_k$ would be too much, for then all weights would be nearly
        # equal.
        scores = scores * self.scale

        # **Mask.** Hidden keys get the score $-\infty$. Since $\exp(-\infty) = 0$,
        # their weight is exactly 0, and the other weights still sum to 1. Why before
        # the softmax? If you set weights to 0 afterwards, the hidden scores have
        # already been part of the sum, so hidden tokens still influence the others.
        #
        # And if *all* keys of a query are hidden? Then the softmax would be 0/0. So we
        # let this query see all keys, to keep numbers and gradients finite, and set its
        # weights to 0 after the softmax.
        if mask is not None:
            fully_masked = ~mask.any(dim=1, keepdim=True)
            scores = scores.masked_fill(~(mask | fully_masked), -math.inf)

        # **Softmax** over axis 1, the keys, because the weights of one *query* sum to
        # one. Does `dim=1` mix the sequences of the batch? No, they are axis 2, and
        # each has its own sums. But `dim=0` would be wrong, although nothing fails.
        # Each weight would depend on later queries, and the future would leak.
        attn = self.softmax(scores)
        if mask is not None:
            attn = attn.masked_fill(fully_masked, 0.0)
        self.attn = attn.detach()

        # **Dropout** sets each weight to 0 with probability $p$ (`dropout_prob`), in
        # training only. It multiplies the others by $1 / (1 - p)$, so that the weights
        # still sum to 1 on average. So no token can rely on a single other one. Dropout
        # has to come after the softmax: a *score* of 0 would remove nothing, since
        # $\exp(0) = 1$.
        attn = self.dropout(attn)

        # **Average.** Each value counts as much as its weight says. `s`, the keys, is
        # the letter that disappears.
        return torch.einsum("tsbh,sbhd->tbhd", attn, value)

    @reference
    def forward(
        self,
        *,
        query: Float[Tensor, "T B C"],
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        mask: Bool[Tensor, "#T _ #B *heads"] | None = None,
        cache: "KVCache | None" = None,
    ) -> Float[Tensor, "T B C"]:
        """
        ### Forward pass

        * `query`, `key`, `value`: the inputs $X$, $Y$ and $Z$; in self-attention you
          pass the same tensor three times
        * `mask`: $M$, `True` where a query may attend to a key
        * `cache`: keys and values of earlier tokens, to which the new ones are appended

        Returns a vector for each query, `[T, B, C]`.
        """
        check_attention_inputs(query, key, value)

        # Project the features of each token into queries, keys and values for all
        # heads. Each of these three lines is an $x W$ of the example.
        q = self.query(query)
        k = self.key(key)
        v = self.value(value)

        # In generation the keys and values of earlier tokens are not computed again.
        # They come first, so $S$ counts them too.
        if cache is not None:
            k, v = cache.append(k, v)

        # Give the mask an axis for the heads.
        if mask is not None:
            mask = self.prepare_mask(mask, q.shape, k.shape)

        # Each head takes its averages. A query without any visible key gets zeros.
        x = self.attend(q, k, v, mask)

        # Put the results of the heads side by side, $H \cdot d_v$ features.
        x = x.flatten(-2)

        # $W^O$ lets each feature of the output use what different heads found. Without
        # it, head $h$ could write to its own $d_v$ features only.
        output: Tensor = self.output(x)
        return output


class KVCache:
    r"""
    ## Key–value cache (KV cache)

    Suppose that a trained model continues *the dog* by itself. It predicts *left*,
    appends it, and reads on. Must it compute *the* and *dog* again? No. With a causal
    mask they do not look at later tokens in any layer. So their keys and values stay
    valid, and we keep them. Each new token is a single query, as [drawn
    above](#gains-and-price).

    No mask is needed, because there is nothing after the newest token yet. Old queries
    are not kept, because a query is used only for the output of its own token.

    With $S$ tokens in the cache, a new one takes $O(S C + C^2)$ operations. To read the
    whole text again would take $O(S^2 C + S C^2)$. The price is memory, $2 S C$ numbers
    for each layer and sequence.

    * `keys`, `values`: those of earlier tokens, `[S, B, H, D]`; at the beginning `None`
    * `positions`: the positions of the new tokens, `[T, B|1]`, for [attention that uses
      them](modern.py); by default they continue from $S$
    """

    def __init__(
        self,
        keys: Float[Tensor, "S B H D"] | None = None,
        values: Float[Tensor, "S B H Dv"] | None = None,
        positions: Int[Tensor, "T #B"] | None = None,
    ) -> None:
        self.keys, self.values, self.positions = keys, values, positions

    def append(
        self, keys: Float[Tensor, "T B H D"], values: Float[Tensor, "T B H Dv"]
    ) -> tuple[Float[Tensor, "S B H D"], Float[Tensor, "S B H Dv"]]:
        """
        Appends new keys and values, and returns all of them. The old tensors are not
        modified. So you can continue the same beginning in two ways.
        """
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys])
            values = torch.cat([self.values, values])
        self.keys, self.values = keys, values
        return keys, values


# ## Symbols
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $X$ | `query` of `forward` | `[T, B, C]` | input of the queries, $T$ tokens |
# | $Y$, $Z$ | `key`, `value` of `forward` | `[S, B, C]` | inputs of keys and values |
# | $Q$ | `query` of `attend` | `[T, B, H, D]` | queries, $D = d_k$ features each |
# | $K$ | `key` of `attend` | `[S, B, H, D]` | keys |
# | $V$ | `value` of `attend` | `[S, B, H, Dv]` | values, $d_v$ features each |
# | $M$ | `mask` | `[T\|1, S, B\|1]` | `True` where a query may attend to a key |
# | $e$ | `scores` | `[T, S, B, H]` | scores, the input of the softmax |
# | $A$ | `attn` | `[T, S, B, H]` | attention weights, $\sum_s A_{tsbh} = 1$ |
# | $W^Q$, $W^K$ | `query.linear`, `key.linear` | `[H·D, C]` | projections, all heads |
# | $W^V$ | `value.linear` | `[H·Dv, C]` | projection of values, all heads |
# | $W^O$ | `output.weight` | `[C, H·Dv]` | output projection |
#
# $B$ is the number of sequences in a batch. The paper writes $d_\text{model}$ for our
# $C$, $h$ for $H$ and $n$ for $T$. `nn.Linear` stores its matrix transposed, and the
# table gives shapes as stored.
#
# ## Shapes step by step
#
# 1. `[T, B, C]`, the features of each token (`[S, B, C]` for keys and values)
# 2. `[T, B, H·D]` after the projection into all heads
# 3. `[T, B, H, D]`, the same numbers read as heads
# 4. `[T, S, B, H]`, a score for each query and key, in each sequence and head
# 5. `[T, S, B, H]` after scaling, mask, softmax and dropout, which change no shape
# 6. `[T, B, H, Dv]`, the average of the values
# 7. `[T, B, H·Dv]`, the heads side by side
# 8. `[T, B, C]` after the output projection, ready for the next layer
#
# ![One head, and all heads. Each box leads to its code.](figure:mha.diagram)
#
# **Why is the sequence first?** You may be used to `[B, T, C]`. Here we follow the
# order of PyTorch's recurrent networks, because then `x[t]` is one step of the whole
# batch, and the [Feedback Transformer](feedback/__init__.py) computes step by step. Do
# you have `[B, T, C]`? Transpose it once, with `x.transpose(0, 1)`. If you forget it,
# nothing fails, but the tokens attend to other *sequences* of the batch.

# ## Mask conventions
#
# PyTorch has two opposite conventions, and a mask with the wrong one raises no error:
#
# | Function | `True` means | Our mask for it |
# |:--|:--|:--|
# | `MultiHeadAttention`, this page | visible | `mask` |
# | `F.scaled_dot_product_attention` | visible | `mask`, with other axes |
# | `nn.MultiheadAttention` | *hidden* | `~mask`, with other axes |
#
# The two functions of PyTorch also take floating-point masks, which they *add* to the
# scores. There 0 means visible and $-\infty$ hidden. This page refuses such masks,
# because as booleans they would mean the opposite. Pass `mask == 0` instead.
#
# [Our notes on PyTorch's own module](../../torch/nn/modules/activation.py) show the
# lines in which it computes what this page does.
#
# ## Scaling and gradients
#
# What does a large score do to the gradient? The derivative of a weight with respect to
# a score is
#
# $$\frac{\partial A_i}{\partial e_j} = A_i \, (\delta_{ij} - A_j)$$
#
# where $\delta_{ij}$ is 1 if $i = j$, else 0. Suppose that one weight is nearly 1 and
# the others are nearly 0. Then this product is nearly 0 for all $i$ and $j$. The
# softmax is **saturated**, and queries and keys hardly learn. You can measure it in
# [exercise 3](#exercises).
#
# A common mistake is $\sqrt{C}$ in place of $\sqrt{d_k}$. It makes the scores
# $\sqrt{H}$ times too small. For example, with $C = 512$, 8 heads and 32 random keys
# the largest weight is 0.06 on average instead of 0.16. That is close to a plain
# average, and queries and keys have to grow before attention can select anything.
#
# ## Additive attention
#
# Attention is older than the Transformer. Bahdanau et al. ([-@bahdanau2014neural])
# computed each score with a small network instead of a dot product:
#
# $$e_{ts} = u \cdot \tanh(W q_t + U k_s)$$
#
# Here $u$, $W$ and $U$ are learned. Long queries cannot make large scores, because tanh
# stays between −1 and 1. But every *pair* of tokens needs its own tanh of several
# features, while all dot products together are one matrix product. So dot products are
# faster and need less memory (§3.2.1).

# ## Trained heads
#
# Do heads really find subjects? Partly. In a trained translator, Voita et al.
# ([-@voita2019analyzing]) found heads that look at a neighbouring token, heads that
# follow syntax, for example from a verb to its subject, and a head that looks at rare
# words. (A head can look at a neighbour as soon as each vector says where its token
# stands, which the next lesson adds.) In BERT, Clark et al. ([-@clark2019what]) found
# similar ones. Language models also have **induction heads** ([@olsson2022context]).
# They look for an earlier occurrence of the current token and attend to the token after
# it, so that the model can copy what came next.
#
# But many heads do little that you could name. Voita et al. removed 38 of the 48 heads
# of an encoder, and the translations lost 0.15 points of BLEU, a measure of their
# quality. Michel et al. ([-@michel2019sixteen]) reduced some layers to a single head.
#
# And the model of this page? It has read Shakespeare character by character, with 12
# heads. Look at two of them:
#
# ![Two of the 12 heads: the first attends to the line break after the name, the second
# to the character before.](figure:mha.trained)
#
# The figure shows a beginning that we made up. Now take a speech from the plays: the
# name "KING RICHARD II:", a line break, and "What must the king do now?" We average
# over the characters of the question from its second on. The first head gives 0.47 of
# its weight to the line break after the name. No other head gives it more than 0.06.
# The second gives 0.64 to the previous character. No head is an induction head. In
# "Romulus and Remus" three times in a row, none gives on average more than 0.01 to the
# character that followed last time.
#
# Which head matters most? Let us switch off one at a time. The loss, the mean of $-\ln
# p$ for the probability $p$ that the model gave to the right character, is 1.21 on the
# first lines of three speeches. (It has read them in training. On text that it has not
# read, the loss is 1.62.) If you switch off one head, it rises by 0.03 to 0.13,
# depending on the head, and without the one that finds the line break by 0.06. So a
# head that you can name need not be the one that matters most.

# ## The telephone book
#
# How did we train the networks of [the task](#do-the-weights-matter)? A book has 8 of
# 26 names in random order, each with a random digit, and then one of the eight with a
# question mark. A token is the sum of two embeddings, of its name and of its digit or
# question mark. The network has 64 features and one `MultiHeadAttention` with 4 heads,
# whose only query is the last token. Its result is added to that token, and a
# feed-forward network with 128 hidden features makes the scores of the ten digits.
#
# Each network gets 300 updates of AdamW with a learning rate of 0.003, on 64 new books
# each. This takes three seconds on one thread. Then it reads 2,000 other books. The
# two other networks replace `get_scores` only. One returns zeros, and the other a
# learned number for each place. Why is 30 % more than one in ten? The digits of the
# book are in the average, so a network can guess the one that occurs most often. Call
# `python -m docs_src.tasks mha` to repeat all of it.
#
# ## Cost
#
# Per sequence, for $T$ queries and $T$ keys. Table 1 of the paper has the same
# comparison, but without projections and without memory:
#
# | | Self-attention | Recurrent layer |
# |:--|:--|:--|
# | Time | $O(T C^2)$ for projections, $O(T^2 C)$ for scores and averages | $O(T C^2)$ |
# | Memory for the backward pass | $O(T C + H T^2)$ | $O(T C)$ |
# | Sequential steps | $O(1)$ | $O(T)$ |
# | Longest path between two tokens | 1 | $T - 1$ |
#
# **Heads** do not change the time. $H$ heads of $C / H$ features need $T^2 C$
# multiplications for the scores and $T^2 C$ for the averages, exactly what one head of
# $C$ features needs. But they change the memory, because each head has its own weights.
#
# **Projections** take $4 T C^2$ multiplications, scores and averages $2 T^2 C$. So the
# quadratic part is the smaller one up to $T = 2 C$.
#
# **Compared with a recurrent layer**, the paper sets $T^2 C$ against $T C^2$, so
# attention is cheaper if $T < C$. But a plain recurrent layer has only two matrices,
# for the input and for its last state, and takes $2 T C^2$. If you count the
# projections, self-attention does *more* work at every length. What you buy with it is
# parallelism and short paths.
#
# **FlashAttention** ([@dao2022flashattention]) avoids the $H T^2$ numbers in memory. It
# takes the keys in blocks and never stores all weights at once. The time stays
# quadratic, but much of it had been spent on reading and writing these numbers. You
# find it in PyTorch as `F.scaled_dot_product_attention`, and the
# [kernels](../kernels/attention.py) of this page use that.
#
# ## Common mistakes
#
# * **Good loss, bad text.** The softmax runs over the queries, `dim=0`, or the causal
#   mask is missing. To find both, change one token. No *earlier* output may change.
# * **Weights that sum to less than 1, even after `eval()`.** The mask was applied after
#   the softmax. Give hidden scores $-\infty$ before it.
# * **The loss does not fall, or falls to 0.** The mask has the opposite meaning, so
#   that a token sees only what it must not see. Pass `~mask`.
# * **An error in float16.** Some code uses $-10^9$ in place of $-\infty$, but the
#   largest number of float16 is 65,504. `-math.inf` always fits.
# * **Nearly equal weights, slow learning.** Scores are divided by $\sqrt{C}$ or by
#   $d_k$. Divide by $\sqrt{d_k}$.
# * **The result depends on the other sequences of the batch.** The input has the axes
#   `[B, T, C]`. Transpose it once.
# * **Each call gives another result.** Dropout is on. Call `model.eval()`.
#
# ## Differences from the paper
#
# * **Biases** in the projections. The formulas of the paper have none. `bias=False`
#   reproduces them.
# * **Dropout on the attention weights**, as in the authors' code. §5.4 of the paper
#   names dropout on outputs of sublayers and on embeddings only.
# * **Fully masked queries** get zeros from all heads, so that their output is the bias
#   of $W^O$. No gradient flows through their weights. The formula of the paper is
#   undefined there (0/0).
#
# Compared with other programs:
#
# * **No scaling**, elsewhere `scale=False`: set `attention.scale = 1.0`.
# * **Weights beside the result.** Some functions return both. Here `attention.attn` has
#   the weights of the last call, and the
#   [course](../../build_a_transformer.md#4-scaled-dot-product-attention) writes the
#   function.
# * **A head is no group of a convolution.** `nn.Conv1d(C, C, 1, groups=H)` has
#   $C^2 / H$ weights, because each group sees only its own $C / H$ features. A head is
#   made of all $C$ features.
#
# ## Exercises
#
# **1.** Shuffle the tokens of a sequence, in self-attention without a mask. What
# happens to the output?
#
# <details><summary>Answer</summary>
#
# It is shuffled in the same way. A sum over keys has no order. So self-attention treats
# a sequence as a set, until you encode positions in the inputs or the scores.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
#
# attention = MultiHeadAttention(heads=4, d_model=64).eval()
# x, order = torch.randn(10, 2, 64), torch.randperm(10)
# permuted = attention(query=x[order], key=x[order], value=x[order])
# torch.testing.assert_close(permuted, attention(query=x, key=x, value=x)[order])
# ```
#
# </details>
#
# **2.** The four projections have a bias each. One of them never changes the output.
# Which one, and why?
#
# <details><summary>Answer</summary>
#
# That of the keys. Call its part for head $h$ $\beta_h$. It adds the same number,
# $Q_{tbh} \cdot \beta_h$, to all dot products of a query. And the softmax ignores what
# is added to all its inputs.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
#
# attention = MultiHeadAttention(heads=4, d_model=64)
# x = torch.randn(10, 2, 64)
# attention(query=x, key=x, value=x).square().sum().backward()
# assert attention.key.linear.bias.grad.abs().max() < 1e-5
# ```
#
# </details>
#
# **3.** Confirm footnote 4 of the paper with $d_k = 512$ and 32 random keys for each
# query. What is the variance of a dot product? How large is the largest weight with the
# division and without? And how large is the gradient with respect to the dot products
# for a typical query?
#
# <details><summary>Answer</summary>
#
# The variance is $d_k$. Without the division the largest weight is close to 1, and the
# gradient of a typical dot product is practically zero.
#
# ```python
# import torch
#
# torch.manual_seed(0)
# query, key = torch.randn(1000, 1, 512), torch.randn(1000, 32, 512)
# products = (query * key).sum(-1)
# assert abs(products.var() / 512 - 1) < 0.1
#
# def largest_and_gradient(scale):
#     leaf = products.clone().requires_grad_()
#     attn = (leaf * scale).softmax(-1)
#     attn[:, 0].sum().backward()
#     return attn.amax(-1).mean(), leaf.grad.abs().median()
#
# (large, no_gradient), (small, gradient) = map(largest_and_gradient, (1, 512**-0.5))
# assert large > 0.9 and no_gradient < 1e-20
# assert small < 0.3 and gradient > 1e-5
# ```
#
# Why the median and not the mean? A few queries happen not to be saturated. Their
# gradients are so large that the mean hides what happens to all the others.
#
# </details>
#
# **4.** Generate with a cache. Process 9 tokens, then let the tenth attend to all ten
# without projecting the nine again. How do you check the result?
#
# <details><summary>Answer</summary>
#
# The tenth output has to equal the one that you get from all ten tokens at once, with a
# causal mask.
#
# ```python
# import torch
# from labml_nn.transformers.mha import KVCache, MultiHeadAttention
# from labml_nn.transformers.utils import subsequent_mask
#
# attention = MultiHeadAttention(heads=4, d_model=64).eval()
# x, cache = torch.randn(10, 2, 64), KVCache()
# first, last = x[:9], x[9:]
# attention(query=first, key=first, value=first, mask=subsequent_mask(9), cache=cache)
# tenth = attention(query=last, key=last, value=last, cache=cache)
# whole = attention(query=x, key=x, value=x, mask=subsequent_mask(10))
# torch.testing.assert_close(tenth, whole[9:])
# ```
#
# </details>
#
# **5.** In *multi-query* attention ([@shazeer2019fast]) all heads share a single key
# projection and a single value projection. Write it as a subclass. How much smaller is
# its KV cache?
#
# <details><summary>Answer</summary>
#
# By a factor of $H$: the cache holds one head, which broadcasts against $H$ queries.
#
# ```python
# import torch
# from labml_nn.transformers.mha import (
#     KVCache, MultiHeadAttention, PrepareForMultiHeadAttention
# )
#
# class MultiQueryAttention(MultiHeadAttention):
#     def __init__(self, heads, d_model):
#         super().__init__(heads, d_model)
#         self.key = PrepareForMultiHeadAttention(d_model, 1, self.d_k, bias=True)
#         self.value = PrepareForMultiHeadAttention(d_model, 1, self.d_v, bias=True)
#
#     def attend(self, query, key, value, mask=None):
#         key, value = (x.expand(-1, -1, self.heads, -1) for x in (key, value))
#         return super().attend(query, key, value, mask)
#
# attention, cache, x = MultiQueryAttention(4, 64), KVCache(), torch.randn(10, 2, 64)
# assert attention(query=x, key=x, value=x, cache=cache).shape == (10, 2, 64)
# assert cache.keys.shape == (10, 2, 1, 16)
# ```
#
# </details>
