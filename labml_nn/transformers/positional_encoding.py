r"""
---
title: Positional encoding
summary: >
  Attention does not see the order of the words. A vector that says where a word stands,
  added to the vector that says which word it is, lets it see the order.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/positional_encoding.ipynb
tones: {query: 3, key: 1, value: 2, weight: 0, encoding: 5}
---

*Dog bites man* is an accident. *Man bites dog* is news. The words are the same, and
only their order tells you which of the two it is. Does [attention](mha.py) notice the
difference? No. You will see why, and how a row of clocks repairs it.

![The hands show the position of a word. *Dog* has other hands in the second
sentence.](figure:positional_encoding.sentences)

## Attention does not see the order

A **token** is a word here, and its **features** are the numbers that a network knows
about it. Suppose there are four of them: is it a noun, is it a verb, is it an animal,
is it a person?

In [attention](mha.py) each token compares its *query* with every token's *key*, by the
dot product of the two, divided by the root of the number of features. The softmax
(exponentials divided by their sum) turns the results into weights, and the token
receives the average of the *values* with these weights. To keep it short, let queries,
keys and values all be the features themselves.

What does *bites* receive? Its dot products with *dog*, *bites* and *man* are 0, 1 and
0. Divided by $\sqrt 4$ they are 0, 0.5 and 0. From these the softmax makes the weights
0.274, 0.452 and 0.274.

![The features, and their average for *bites*.](figure:positional_encoding.average)

Now shuffle the sentence to *man bites dog*. The three terms of the average come in
another order, but they are the same three terms, and a sum has no order. So *bites*
receives the same as before. So do the other two words: shuffle the inputs, and you get
the same outputs, shuffled. We say that attention without a mask is **permutation
equivariant** ([proof](#attention-is-permutation-equivariant)). To it a sentence is a
bag of words.

![Each vector has moved with its word, and none has
changed.](figure:positional_encoding.shuffled)

A recurrent network does not have this problem. It reads one word after the other, and
each step changes its state, so the order is in the result. Such a network needs no
positional encoding. In a Transformer we have to tell each token where it stands.

![A state that is halved before the next word is added. The same words leave another
state behind.](figure:positional_encoding.recurrent)

## Add a vector that says where

The idea of *Attention Is All You Need*, the paper of the Transformer, is simple. For
each **position** $p$, counted from 0, there is a vector $PE_p$, its *positional
encoding*, with $C$ features, as many as a token has. It is added to the token that
stands there ([@vaswani2017attention, §3.5]):

$$y_p = x_p + PE_p$$

![Which word it is, plus where it stands.](figure:positional_encoding.added)

Which vector should it be? The number $p$ itself, you might say. But at position 500 it
would be hundreds of times larger than the features and drown them. We could divide it
by the length of the sentence. But then two neighbours are 0.2 apart in a sentence of
five words and 0.01 apart in one of a hundred, so that "the word before" has another
meaning in each sentence. We want numbers that stay small, that differ from position to
position, and that mean the same in every sentence.

![Two numbers that do not do.](figure:positional_encoding.candidates)

You know such numbers. A **counter** writes each position with a few digits that are
never larger than 1. The ones change at every step, the twos at every second step, and
the fours at every fourth. Together they tell all positions apart. But its
digits jump: 3 and 4 are neighbours, and differ in all three. The encoding of the paper
is a counter with smooth digits. In place of a digit there is a hand of a **clock** that
turns. The first hand turns fast, and each following hand turns more slowly.

![The first digit and the first hand change
fastest.](figure:positional_encoding.counter)

Move the position $p$ while you read, or drag the hand:

1. **One hand.** Hand $i$ starts at the top and turns clockwise, by $\omega_i$
   **radians** per position. (A full turn is $2 \pi \approx 6.28$ radians.) Two numbers
   tell where it points. The **sine** of its angle says how far right its tip is, and
   the **cosine** how high.
2. **Its waves.** Along the positions, the two numbers go up and down. Such waves are
   called **sinusoids**. Choose a slower hand, and they get longer.
3. **All hands.** Fast hands tell neighbours apart. Slow hands tell the beginning of a
   text from its end.
4. **The encoding.** The two numbers of every hand, side by side, are $PE_p$. Twelve
   hands make $C = 24$ features.

![Twelve hands at one position.](figure:positional_encoding.clocks)

Our words have $C = 4$ features, so there are only two hands. The first one always turns
by 1 radian per position, about a sixth of a turn. How much slower the next one is
depends on $C$. Here it turns by 0.01. The second word of *dog bites man* has position 1
and becomes (0, 1, 0, 0) + (0.84, 0.54, 0.01, 1.00) = (0.84, 1.54, 0.01, 1.00). Is the
1.54 a verb or a hand? With four features the two are mixed. But of hundreds of hands,
many are so slow that they add nearly the same everywhere. (Of 512 features, a third
change by less than 0.1 over the first hundred positions.) The vectors of words are
learned, and they can use the features of these hands.

![Each row is the encoding of a position. One of them is added to
*bites*.](figure:positional_encoding.worked)

Repeat the averages with these sums. Now *bites* receives (1.16, 0.88, 0.32, 1.25) in
*dog bites man*, and (1.06, 1.02, 0.15, 1.46) in *man bites dog*. The two sentences are
no longer the same to attention.

![With positions, each word receives something else in each
sentence.](figure:positional_encoding.moved)

## The formula

With $C$ features there are $C / 2$ hands. The radians per position of hand $i$ are its
**frequency**:

\begin{align}
\omega_i &= 10000^{-2i / C} \\
PE_{p, 2i} &= \sin(\omega_i \, p) \\
PE_{p, 2i + 1} &= \cos(\omega_i \, p)
\end{align}

With $C = 4$ you get $\omega_0 = 1$ and $\omega_1 = 10000^{-2/4} = 0.01$, as above. Hand
0 goes round once in 6.3 positions. Each following hand is slower by the same factor,
and with $C = 512$ the last one takes 60,611 positions. (This is what the 10000 is for.
It sets how slow the slowest hand is.) So as many hands need 10 to 100 positions for a
turn as 1,000 to 10,000.

![A matrix of encodings, and the time of each hand.](figure:positional_encoding.matrix)

Why do we need so many hands? Because one alone is not precise. Between neighbours, the
tip of the slowest hand moves by 0.0001, too little to be noticed. The tip of the
fastest hand, which is 1 long, ends 0.96 from where it was, but after a while it comes
back. 710 positions are almost exactly 113 turns. So at positions 14 and 724 you find
its tip at nearly the same place, only 0.00006 apart. Another hand tells the two apart.

![Three of 256 hands at positions 14 and 724.](figure:positional_encoding.alike)

## A step is a rotation

Go $k$ positions further, and every hand has turned by the angle $\omega_i k$, wherever
it started. (Digits that jump have no such rule.) So one matrix takes every $PE_p$ to
$PE_{p + k}$. If hand $i$ shows the sine $s$ and the cosine $c$ at position $p$, it
shows $s' = s \cos \omega_i k + c \sin \omega_i k$ and $c' = c \cos \omega_i k - s \sin
\omega_i k$ at $p + k$. As a product of a row and a matrix, which is a
[rotation](#addition-theorems):

$$
(s', c') = (s, c)
\begin{pmatrix} \cos \omega_i k & -\sin \omega_i k \\
               \sin \omega_i k & \cos \omega_i k \end{pmatrix}
$$

![Two steps turn this hand by the same angle, from position 1 and from position
6.](figure:positional_encoding.turned)

What is that good for? A **head**, one attention with its own matrices, can look at the
word just before. Let us leave out the tokens, so that the encodings are all it has. (A
trained $W^Q$ can ignore what the words add.) Each key is the encoding itself. Each
query is the encoding times the matrix $W^Q$. In it we put the rotation for $k = -1$, a
block of 2 × 2 for each hand. So the query of position 2 is the encoding of position 1.

Which key fits it best? All encodings are equally long, as each hand adds $\sin^2 +
\cos^2 = 1$ to the square of the length. So the largest dot product is that of two equal
ones. It is the key of position 1, with a weight of 0.32. The softmax can be made
sharper: with queries 12 times as large it is 0.89.

![The query of position 2 is the key of position 1.](figure:positional_encoding.back)

The same matrix does this at *every* position. With other rotations a head looks any
number of positions back.

![Three heads that we set by hand, with 32 features and a causal mask. Queries are
multiplied by 12. In the first rows there is nothing so far back.](figure:heads.by_hand)

## Does it work?

So a matrix *can* express this. Can a network *learn* it? We trained small models on
lines of 12 letters, one layer with one head and no mask, in five runs each. Here order
decides. Which of two letters came first? Which letter stands before each one? What is
the line, written backwards?

Without positions a model knows which letters there are, and nothing else. It tosses a
coin at the first question, and at the others it guesses the most frequent letter. With
sinusoids it is always right about the letter before, and writes every line backwards,
in all runs. (Which letter came first is harder. After 600 updates two runs are always
right. Three are right in about 75 of 100 cases.) The number $p$ helps with this
question. At the others it drowns the features, as we feared, though here it is 11 at
most. Vectors that are [learned](#LearnedPositionalEncoding), one for each position,
take longer. **Rotary positions**, a [later scheme](#relative-schemes), add nothing to a
token. They turn its query and its key by the angles of its position, and so tell a head
only how far apart two tokens are. That is best for what came first, and not enough for
writing backwards.

![Right answers: the mean of five runs, and a dot for
each.](figure:positional_encoding.task)

How do they do it? One head has learned to look one position back. The other looks from
the first letter at the last, from the second at the last but one, and so on.

![Weights of two trained heads.](figure:positional_encoding.attended)

In a [language model](autoregressive.py) you gain less. There, each token sees only
itself and earlier tokens. The first sees one, the second two, and this alone tells the
model [something about order](#relative-schemes). On Shakespeare the loss is 2.25
without positions and 2.19 with sinusoids. (The loss is minus the logarithm of the
probability of the right character, in **nats**.) Rotary positions act in every layer,
and reach 1.91.

**Gains and price.** The encoding has no parameters, costs one addition per feature, and
you can compute it for any position. A rotation would be right everywhere, but nothing
forces training to find one. Beyond the length of its texts a model meets angles that it
has never seen together, and [fails](#longer-texts).

![Left: [language models](#language-models) on text that they had not seen. Right: the
mean of three runs; training ended at the red line.](figure:positional_encoding.losses)

## Try it

Choose a length and a width of the matrix. Then take a model that was trained *with*
rotary positions, and switch them off. You will see that it has learned to rely on them.

![The loss of each character, with positions and without.](figure:live.positions)

## The whole in code

The module that you find below computes the same, up to rounding. It adds dropout, any
offset, odd widths, and positions beyond the table.

```python
import torch
from torch import nn


class Sinusoids(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        p, even = torch.arange(max_len), torch.arange(0, d_model, 2)
        frequencies = 10000 ** (-even / d_model)
        angles = p[:, None] * frequencies  # [max_len, hands]
        hands = torch.stack([angles.sin(), angles.cos()], dim=-1)
        self.register_buffer("table", hands.flatten(1).float(), persistent=False)

    def forward(self, x):  # tokens as rows: [T, B, C]
        return x + self.table[: len(x), None]


print(Sinusoids(4)(torch.zeros(4, 1, 4))[:, 0])  # the encodings of positions 0 to 3
```
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sizes


def get_positional_encoding(
    d_model: int,
    max_len: int = 5000,
    *,
    first: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "T 1 C"]:
    r"""
    ## Sinusoidal encoding

    The table of the worked example, for any number of features and positions.

    * `d_model`: features of a token, $C$
    * `max_len`: number of positions
    * `first`: the first of them
    * `dtype`, `device`: those of the result

    Returns `[T, 1, C]`, where $T$ is `max_len`. The axis of length one is that of the
    batch, because a position has the same vector in every sequence.
    """
    check_sizes(d_model=d_model, max_len=max_len)

    # One frequency for each hand, and each hand has two features: $2i$ runs through 0,
    # 2, 4, and so on. With four features you get $(1, 0.01)$. We write $10000^{-2i/C}$
    # as $e^{-2i \ln(10000) / C}$, which is the same, because $10000 = e^{\ln 10000}$.
    wide = torch.promote_types(dtype, torch.float32)
    even = torch.arange(0, d_model, 2, dtype=wide, device=device)
    frequencies = torch.exp(-even * math.log(10000.0) / d_model)

    # The angle of every hand at every position: a column of positions times a row of
    # frequencies gives us a table, `[T, ⌈C/2⌉]`.
    positions = torch.arange(first, first + max_len, dtype=wide, device=device)
    angles = positions.unsqueeze(1) * frequencies

    # Even-numbered features are sines, and odd-numbered ones are their cosines. If $C$
    # is odd, the last sine has no cosine.
    encodings = torch.empty(max_len, d_model, dtype=dtype, device=device)
    encodings[:, 0::2] = torch.sin(angles)
    encodings[:, 1::2] = torch.cos(angles[:, : d_model // 2])
    return encodings.unsqueeze(1)


def fixed_positions(
    table: Float[Tensor, "max_len 1 C"], offset: int, length: int
) -> Float[Tensor, "T 1 C"]:
    r"""
    ### Encodings of a sequence

    The rows of the table for `length` tokens, of which the first stands at `offset`.

    * `table`: what `get_positional_encoding` returned. A model in 16 bits keeps it in
      16 bits

    Returns `[T, 1, C]`.
    """
    end = offset + length
    if end <= table.shape[0]:
        return table[offset:end]

    # The formula has no last position. What the table lacks we compute now, always in
    # 32 bits, and only then we round it to the dtype of the table: a 16-bit format such
    # as bfloat16 cannot even count to 257.
    first = max(offset, table.shape[0])
    beyond = get_positional_encoding(
        table.shape[2], end - first, first=first, device=table.device
    )
    return torch.cat([table[offset:], beyond.to(table.dtype)])


class PositionalEncoding(nn.Module):
    r"""
    ## Sinusoidal positions as a module

    $$y_p = \operatorname{Dropout}(x_p + PE_p)$$

    * `d_model`: features of a token, $C$
    * `dropout_prob`: probability that a feature of the sum is set to 0 in training, so
      that the model relies on no single feature (§5.4)
    * `max_len`: how many positions are computed in advance; it is no limit

    An encoder–decoder needs one module at the input of each stack, and both count from
    0. The layers above need none. Each of them *adds* its result to its input (the
    **residual connection**), so the position stays in the sum all the way up.
    """

    positional_encodings: Tensor

    def __init__(self, d_model: int, dropout_prob: float, max_len: int = 5000) -> None:
        super().__init__()
        check_probability(dropout_prob=dropout_prob)
        self.dropout = nn.Dropout(dropout_prob)

        # Why a **buffer** and not a plain attribute? A plain tensor would stay on the
        # CPU when you move the module to a GPU, and the sum would fail. A buffer moves
        # along. It is no parameter either: it gets no gradient, and no optimizer
        # changes it. With `persistent=False` checkpoints do not contain it, because the
        # formula gives it back.
        dtype = torch.get_default_dtype()
        table = get_positional_encoding(d_model, max_len, dtype=dtype)
        self.register_buffer("positional_encodings", table, persistent=False)

    def reset_tables(self) -> None:
        """Computes the table again. `to_empty` allocates a module's buffers without
        their values."""
        max_len, _, d_model = self.positional_encodings.shape
        self.positional_encodings.copy_(get_positional_encoding(d_model, max_len))

    def forward(
        self, x: Float[Tensor, "T B C"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        """
        * `x`: embedded tokens, `[T, B, C]`
        * `offset`: position of the first of them

        When a model writes a text token by token, it sees one token at a time, and
        `offset` says how many came before. If you forget it, every new token stands at
        position 0. Nothing raises an error, but the text gets worse.
        """
        # One row for each of the $T$ tokens. The axis of length one repeats it for all
        # $B$ sequences.
        encodings = fixed_positions(self.positional_encodings, offset, x.shape[0])

        # *Bites* plus "second place". Dropout follows the sum, as in the paper.
        encoded: Tensor = self.dropout(x + encodings)
        return encoded


def learned_positions(
    table: Float[Tensor, "max_len 1 C"], offset: int, length: int
) -> Float[Tensor, "T 1 C"]:
    r"""
    ### Learned positions of a sequence

    The same rows of a table that was learned. Raises `ValueError` if the sequence ends
    beyond the table, because no formula knows the next row.
    """
    max_len, end = table.shape[0], offset + length
    if end > max_len:
        raise ValueError(
            f"the sequence needs {end} positions, but only max_len = {max_len} were "
            f"learned; build the model with max_len={end}, or use fixed positions"
        )
    return table[offset:end]


class LearnedPositionalEncoding(nn.Module):
    r"""
    ## Learned positions

    Why not let training find the vectors? Here $PE$ is a parameter, as in BERT and
    GPT-2. The paper tried both and found "nearly identical results" (§3.5, Table 3, row
    E). It chose sinusoids in the hope that they work for longer sequences than those of
    training.

    * `d_model`, `dropout_prob`: as above
    * `max_len`: number of positions that are learned, $\text{max\_len} \cdot C$
      parameters. A longer sequence raises a `ValueError`
    """

    def __init__(self, d_model: int, dropout_prob: float, max_len: int = 5000) -> None:
        super().__init__()
        check_sizes(d_model=d_model, max_len=max_len)
        check_probability(dropout_prob=dropout_prob)
        self.dropout = nn.Dropout(dropout_prob)

        # All vectors start at zero. Weights of a network must start at random numbers,
        # or all units would learn the same. But at each position stand other tokens, so
        # each vector gets another gradient, and they become different without that. (A
        # model that initialises all its parameters by itself may overwrite the zeros.)
        self.positional_encodings = nn.Parameter(torch.zeros(max_len, 1, d_model))

    def forward(
        self, x: Float[Tensor, "T B C"], *, offset: int = 0
    ) -> Float[Tensor, "T B C"]:
        """Arguments and result are those of `PositionalEncoding.forward`."""
        encodings = learned_positions(self.positional_encodings, offset, x.shape[0])
        encoded: Tensor = self.dropout(x + encodings)
        return encoded


# ## Symbols
#
# <details><summary>Symbols, their code and shapes</summary>
#
# | Symbol | Code | Shape | Meaning |
# |:--|:--|:--|:--|
# | $x$ | `x` | `[T, B, C]` | token embeddings |
# | $p$ | `positions` | `[T]` | position of a token, $pos$ in the paper |
# | $\omega_i$ | `frequencies` | `[⌈C/2⌉]` | radians per position of hand $i$ |
# | $PE$ | `encodings` | `[T, 1, C]` | one vector per position |
# | $C$ | `d_model` | | features of a token, $d_{\text{model}}$ in the paper |
# | $T$, $B$ | | | length of the sequence, batch size |
#
# </details>
#
# ## Attention is permutation equivariant
#
# With these lines you compute what we computed above, for both sentences:
#
# ```python
# import torch
#
# dog, bites, man = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]])
#
# def attend(*words):
#     x = torch.stack(words)
#     return (x @ x.T / 2).softmax(dim=1) @ x
#
# print(attend(dog, bites, man))
# print(attend(man, bites, dog))  # the same three rows, in the other order
# ```
#
# It holds for all queries, keys and values, as long as no mask hides a token. Let $\Pi$
# be a matrix that shuffles rows. The shuffled inputs give $\Pi Q$, $\Pi K$ and $\Pi V$.
# So the scores are $\Pi Q \, (\Pi K)^\top = \Pi \, Q K^\top \Pi^\top$, which means that
# they are shuffled by rows and by columns. The softmax takes each row by itself and
# treats all entries of a row alike, so you may shuffle before it or after it. And
# $\Pi^\top \Pi$ is the identity matrix, because $\Pi^\top$ puts every row back in its
# place. (We leave out the division by the root, which changes nothing here.)
#
# \begin{align}
# \operatorname{softmax}(\Pi Q \, (\Pi K)^\top) \, \Pi V
#  &= \Pi \operatorname{softmax}(Q K^\top) \, \Pi^\top \Pi \, V \\
#  &= \Pi \operatorname{softmax}(Q K^\top) \, V
# \end{align}
#
# ## The sum in the Transformer
#
# Encoder and decoder are the two stacks of layers in the paper. The sum stands at the
# bottom of both (after its Figure 1). An **embedding** is the vector of a token's
# features. [Scaling the embeddings](#scaling-the-embeddings-by-c) says why it is
# multiplied by $\sqrt C$.
#
# ![Where the encodings enter.](figure:positional_encoding.diagram)
#
# ## Addition theorems
#
# Why does one matrix take every position $k$ further? The sine and the cosine of a sum
# of two angles are
#
# \begin{align}
# \sin(\omega p + \omega k) &= \cos \omega k \, \sin \omega p
#     + \sin \omega k \, \cos \omega p \\
# \cos(\omega p + \omega k) &= -\sin \omega k \, \sin \omega p
#     + \cos \omega k \, \cos \omega p
# \end{align}
#
# You see that the factors $\cos \omega k$ and $\sin \omega k$ do not depend on $p$.
# They are the columns of the matrix: the first column makes the sine, the second one
# the cosine. Texts that write vectors as columns have the transposed matrix, on the
# left of the vector. If you put that one into $W^Q$, the head looks one position
# *ahead*.
#
# ![Sine and cosine of two of the 32 hands, $C = 64$.](figure:positional_encoding.waves)
#
# ## The task
#
# Each line has 12 letters of 8 kinds. In the first question, two of them occur once
# each, and a 13th token asks which of the two came first. A model is an embedding of 32
# features, one `TransformerLayer` with one head and 64 hidden units, layer
# normalisation and a linear layer. It trains for 600 updates on 32 lines each, with
# AdamW. The learning rate rises to 0.003 in 50 updates and falls to 0 on a line. Each
# question trains its own model, and 1,000 new lines test it. *The number p* adds $p$
# times a learned vector. The weights in the picture are means of the first run.
#
# To a model without positions a line has no order, so you get equal outputs at equal
# letters. For example, *seven* has two letters *e*, and the model must name the same
# letter before both. The most frequent of 12 letters is right in three of ten cases,
# which is what these models reach.
#
# ## Language models
#
# We trained small [language models](autoregressive.py) on Shakespeare, each for less
# than a minute on one CPU core: without positions and with three ways to tell them, in
# five runs each. This is the mean loss on text that they had not seen. Guessing among
# 65 characters would cost $\ln 65 = 4.17$:
#
# | no positions | learned vectors | sinusoids | rotary positions |
# |--:|--:|--:|--:|
# | 2.25 | 2.20 | 2.19 | 1.91 |
#
# After 18 seconds of training, one of the models with sinusoids writes like this. It
# has found out how long words and lines are, but hardly a word:
#
# > Bucow to sot so sope your:\
# > And fourd ighm sin, wat laded, sut I sor arte the lare
#
# ## Properties of the sinusoids
#
# **Size.** All values lie between $-1$ and $1$. For an even $C$ every $PE_p$ has the
# same length, $\sqrt{C/2}$, because each hand has length 1.
#
# **Frequencies.** Suppose they were evenly spaced, 1/256, 2/256 and so on up to 1 for
# $C = 512$. Then nine hands in ten would come round within 60 positions. With a
# constant factor there are 64 hands for each power of ten at $C = 512$. The paper does
# not say why the number is 10,000. We can only say what it is good for: the slowest
# hand does not come round in a text of less than 60,611 tokens. (Some of today's models
# read longer ones.)
#
# **Sum or concatenation.** Why add $PE_p$, when you could append it? Appending can do
# more: the first projection then has one matrix for tokens and another for positions,
# $x_p W + PE_p W'$. A sum has the same one for both, $(x_p + PE_p) W = x_p W + PE_p W$.
# But appending needs more features, in every layer. And a sum need not mix the two up.
# With $C = 512$ the encodings of 128 positions lie nearly all in 39 of the 512
# directions (99 % of their squares), so that the embeddings can learn to use the
# others.
#
# ## Longer texts
#
# The formula has a value for any position. But this does not mean
# that a trained model works there. We let the small models from above learn on texts of
# 64 characters and then read texts of 256. Here is their mean loss in three runs, by
# the position of a character:
#
# | position | 32 to 63 | 64 to 79 | 128 to 191 |
# |:--|--:|--:|--:|
# | sinusoids | 2.11 | 2.99 | 3.21 |
# | rotary positions | 1.86 | 1.87 | 2.53 |
#
# As soon as the sinusoids leave what training has shown, the model meets combinations
# of angles that it has never seen, and soon it knows hardly more than which characters
# are frequent. That alone would give a loss of 3.35 on the same text. Rotary positions
# last a little longer. ([The picture](#does-it-work) has all positions.) Press et al.
# ([-@press2021train]) measured the same in large models, and proposed a scheme that
# works for longer texts.
#
# ## Scaling the embeddings by √C
#
# The models of the paper multiply the embeddings by $\sqrt C$ before the sum (§3.4,
# without a reason). In the authors' code an embedding starts with a standard deviation
# of $1 / \sqrt C$, so that the product has one of 1. That is about the size of the
# encoding, whose root mean square is $1 / \sqrt 2 \approx 0.71$ at any width. Without
# the factor and with $C = 512$ the embedding would have 0.044, and the position would
# be 16 times as large as the token.
#
# Other initialisations need not have this balance. Our
# [encoder–decoder](encoder_decoder.py) ties its embeddings to its output: both are one
# matrix. This matrix starts smaller, and the tokens with it. It learns all the same,
# because training changes the size of the embeddings. The module on this page only
# adds. The [model](models.py) scales.
#
# ## Relative schemes
#
# Sinusoids and learned vectors are **absolute** positions. They are added once, at the
# bottom, and the layers above must derive distances from them. Later schemes put the
# *distance* between the query at $t$ and the key at $s$ into every attention layer.
# Here are their scores, before the softmax. $q_t$ is the query of one token, $k_s$ the
# key of another, and $d_k$ the number of features of each:
#
# | Scheme | Learned | Score of query $t$ and key $s$ |
# |:--|:--|:--|
# | [@shaw2018self] | vectors $a$ | $q_t \cdot (k_s + a_{t-s}) / \sqrt{d_k}$ |
# | [@dai2019transformerxl] | $W$, $u$, $v$ | $(c_{ts} + g_{ts}) / \sqrt{d_k}$, below |
# | T5 [@raffel2019exploring] | numbers $b$ per head | $q_t \cdot k_s + b_{t-s}$ |
# | ALiBi [@press2021train] | nothing | $q_t \cdot k_s / \sqrt{d_k} - m_h (t - s)$ |
# | RoPE [@su2021roformer] | nothing | $R_t q_t \cdot R_s k_s / \sqrt{d_k}$ |
# | none [@haviv2022transformer] | | $q_t \cdot k_s / \sqrt{d_k}$ for $s \le t$ |
#
# What do the letters mean? Shaw et al. learn a vector for each distance, up to a
# largest one, and a second one that is added to the value. In Transformer-XL one term
# compares contents, $c_{ts} = (q_t + u) \cdot k_s$, and one asks for a distance,
# $g_{ts} = (q_t + v) \cdot W r_{t-s}$. Here $r$ are the sinusoids of a distance. An
# absolute position would also be part of the query. In its place stand $u$ and $v$,
# which are the same at all positions, so that only the distance counts. T5 does not
# divide by $\sqrt{d_k}$, and has one number for a range of distances. ALiBi takes off
# more the farther away a key is, with a fixed slope $m_h$ for each head.
#
# ![What each scheme adds to the scores: a row for each query, a column for each key.
# Cells of one strength share a vector or a number.](figure:positional_encoding.schemes)
#
# **RoPE** is what most models use today. It turns queries and keys themselves, by the
# angle of their position, with the rotation that you know from above. Let $R_t$ be the
# rotation by $t$ positions. If you turn two vectors back by the same angle, their dot
# product does not change. So turn both back by $t$ positions:
#
# $$R_t q_t \cdot R_s k_s = q_t \cdot R_{s - t} k_s$$
#
# So only the distance between the two tokens matters, and nothing is added to the
# features. For example, turn $q = k = (0, 1)$ by 1 radian per position. At positions 2
# and 1 they are (0.91, −0.42) and (0.84, 0.54), with the dot product 0.54. At positions
# 8 and 7 they are (0.99, −0.15) and (0.66, 0.75), and the dot product is 0.54 again.
# [Modern components](modern.py) has it in code, and the [Feedback
# Transformer](feedback/__init__.py) has a learned vector per distance.
#
# The last row has no positions at all, and still works. In a language model each token
# attends only to itself and to those before it (a **causal mask**). Such attention is
# not permutation equivariant, because each token sees another number of tokens before
# it. The authors conjecture that the model counts them.
#
# ## Cost
#
# | | Sinusoids | Learned |
# |:--|:--|:--|
# | Parameters | none | $\text{max\_len} \cdot C$ |
# | Once, in the constructor | $O(\text{max\_len} \cdot C)$ sines and cosines | |
# | Each forward pass | $O(T B C)$ additions | $O(T B C)$ additions |
#
# You hardly notice it beside attention, which needs $O(T^2 B C)$.
#
# ## Common mistakes
#
# * **No division by $C$** in the exponent. With $C = 512$ only 2 features then vary by
#   more than 0.01 within 1,000 positions (largest minus smallest value), where 503
#   should. The second hand would need 628 million positions to come round. See also
#   [common mistakes](../../faults.md).
# * **No offset** in generation. To notice it, compare the outputs with a cache and
#   without: they must be equal.
# * **A plain attribute** in place of a buffer. The model works on the CPU and fails on
#   the GPU.
#
# ## Differences from the paper
#
# * **Order of the features.** Some programs write all sines first and then all cosines.
#   That is the same encoding with its features in another order, and a learned matrix
#   after it can undo this.
# * **Odd widths.** The models of the paper have an even $C$. Here the last sine of an
#   odd width has no cosine.
# * **Precision.** The table is computed in 32 bits. With $C = 512$ the largest error is
#   about $10^{-5}$ in the first 128 positions and $4 \cdot 10^{-4}$ in the first 5,000.
#   `dtype=torch.float64` gives the exact formula.
#
# ## Exercises
#
# **1.** Show that the dot product of $PE_p$ and $PE_{p + k}$ depends on the distance
# $k$ and not on $p$ (for an even $C$). Can it tell before from after?
#
# <details><summary>Answer</summary>
#
# Let $a$ and $b$ be the angles of hand $i$ at the two positions. It contributes $\sin a
# \sin b + \cos a \cos b = \cos(a - b) = \cos \omega_i k$. So the dot product is $\sum_i
# \cos \omega_i k$, with its maximum $C / 2$ at $k = 0$. It falls with the distance on
# the whole, but not steadily, because each cosine oscillates. It is the same for $k$
# and $-k$: without projections it cannot tell before from after.
#
# ![Dot products of one position with all others, $C =
# 128$.](figure:positional_encoding.products)
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import get_positional_encoding
#
# table = get_positional_encoding(32, 100, dtype=torch.float64)[:, 0]
# products = table @ table.T  # [T, T]
# for k in range(100):
#     same = products.diagonal(k)
#     torch.testing.assert_close(same, same[:1].expand(100 - k))
# assert (products.diagonal() - 16).abs().max() < 1e-9
# ```
#
# </details>
#
# **2.** Why do learned positions not extrapolate, even if `max_len` is large enough?
#
# <details><summary>Answer</summary>
#
# A row receives a gradient only from sequences that are long enough to reach it. After
# training with 128 tokens the rows from 128 on are still those of initialisation, zeros
# here.
#
# ```python
# import torch
# from labml_nn.transformers.positional_encoding import LearnedPositionalEncoding
#
# positions = LearnedPositionalEncoding(d_model=8, dropout_prob=0.0, max_len=512)
# positions(torch.randn(128, 2, 8)).square().sum().backward()
# learned = positions.positional_encodings.grad.abs().amax(dim=(1, 2)) > 0
# assert learned[:128].all() and not learned[128:].any()
# ```
#
# </details>
#
# **3.** Self-attention without a mask treats a sentence as a bag of words. Show that
# positional encodings end this.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
# from labml_nn.transformers.positional_encoding import PositionalEncoding
#
# attention = MultiHeadAttention(heads=3, d_model=12).eval()
# x, order = torch.randn(7, 2, 12), torch.tensor([3, 0, 6, 1, 5, 2, 4])
# for encode, is_set in ((torch.clone, True), (PositionalEncoding(12, 0.0), False)):
#     shuffled, whole = (
#         attention(query=y, key=y, value=y) for y in (encode(x[order]), encode(x))
#     )
#     assert torch.allclose(shuffled, whole[order], atol=1e-3) == is_set
# ```
#
# </details>
