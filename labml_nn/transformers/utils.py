r"""
---
title: Attention masks
summary: >
  Which tokens a token may not see: the future, and padding. Boolean masks for both, and
  their combination.
---

In [attention](mha.py) each token looks at the other tokens. But some of them it must
not see, and a **mask** says which. There are two reasons to hide a token.

**It comes later.** Suppose that a language model learns to continue *the dog sleeps
here*. At *dog* it has to predict *sleeps*. If *dog* could see *sleeps*, the model would
just copy the answer. In generation there is nothing to copy, and the model fails. A
**causal** mask hides the future from each token.

**It means nothing.** We compute several sequences together, in a **batch**, and they
all need the same length. So the shorter ones are filled up with **padding**, a token
without meaning. A padding mask hides it from the real tokens.

![The dog sleeps here, and then two tokens of padding. A filled square may be attended
to.](figure:masks.three)

In our code a mask is a tensor of `True` and `False`, with the axes `[T, S, B]`, for the
query $t$, the key $s$ and the sequence $b$ of the batch:

$$M_{tsb} = \begin{cases}
\text{True} & \text{query } t \text{ may attend to key } s \text{ in sequence } b \\
\text{False} & \text{its attention weight is zero}
\end{cases}$$

Often one axis does not matter. For example, the future is the same for all sequences of
a batch. Such an axis has length 1 and is **broadcast**, which means that its one entry
holds for all. You can make four kinds of masks:

| Mask | Function | Shape | Depends on |
|:--|:--|:--|:--|
| causal | `subsequent_mask` | `[T, T, 1]` | positions only |
| padding | `padding_mask` | `[1, S, B]` | lengths of the sequences |
| padding | `token_padding_mask` | `[1, S, B]` | the padding token |
| several | `combine_masks` | broadcast | all of them |

A mask may have a fourth axis if each head has its own, `[T, S, B, H]`. Are you used to
PyTorch? Its `nn.MultiheadAttention` uses `True` for what is hidden. See the [mask
conventions](mha.py#mask-conventions).
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from labml_nn.checks import check_integers, check_lengths, check_sizes


def subsequent_mask(
    seq_len: int, *, device: torch.device | str | None = None
) -> Bool[Tensor, "T T 1"]:
    r"""
    ## Causal mask

    Each token may attend to itself and to earlier tokens ([@vaswani2017attention,
    §3.2.3]). Read each row as what one token sees:

    ```text
               the    dog   sleeps  here
    the         1      .      .      .
    dog         1      1      .      .
    sleeps      1      1      1      .
    here        1      1      1      1
    ```

    This is the lower triangle, $M_{ts} = [\, s \le t \,]$. Because no token sees what
    it has to predict, we can train all four predictions in one pass.

    * `seq_len`: the length of the sequence, $T$
    * `device`: the device of the mask; if not given, the default device

    Returns `[T, T, 1]`.
    """
    # We begin with `True` for all pairs, and keep the diagonal and what is below it.
    all_pairs = torch.ones(seq_len, seq_len, dtype=torch.bool, device=device)
    return all_pairs.tril().unsqueeze(-1)


def padding_mask(
    lengths: Int[Tensor, " B"], max_len: int | None = None
) -> Bool[Tensor, "1 S B"]:
    r"""
    ## Padding mask from lengths

    A batch of two sentences, with lengths 4 and 2, and who may be seen in each:

    ```text
    the   dog     sleeps   here           1  1  1  1
    she   reads   (pad)    (pad)          1  1  .  .
    ```

    A key $s$ is real if it stands before the end of its sequence, $M_{sb} = [\, s < n_b
    \,]$, where $n_b$ is the length of sequence $b$. And what if padding is the *query*?
    Its result does not matter, because nothing attends to it and the loss leaves it
    out.

    * `lengths`: the lengths $n_b$, `[B]`
    * `max_len`: the common length, $S$; by default the largest of `lengths`

    Returns `[1, S, B]`. A length below 0 or above `max_len` is a `ValueError`.
    """
    check_lengths(lengths, max_len)
    if max_len is None:
        max_len = int(lengths.max())
    check_sizes(max_len=max_len)

    # We compare positions `[S, 1]` with lengths `[B]`. The result is `[S, B]`, and we
    # add an axis for the queries, which all share it.
    #
    # > [!WARNING]
    # > With `unsqueeze(1)` you would get `[T, 1, B]`, a mask of queries instead of
    # > keys. Then all real queries attend to padding. For example, with 32 tokens in a
    # > batch of length 128, **75 %** of the attention weight is on padding. See the
    # > [faults in tutorials](../../faults.md).
    positions = torch.arange(max_len, device=lengths.device)
    return (positions[:, None] < lengths).unsqueeze(0)


def token_padding_mask(
    tokens: Int[Tensor, "S B"], padding_token: int
) -> Bool[Tensor, "1 S B"]:
    """
    ## Padding mask from tokens

    You need no lengths if padding has its own token. A key is real where `tokens`, `[S,
    B]`, is not `padding_token`. Returns `[1, S, B]`.
    """
    check_integers("tokens", tokens, "S B")
    return (tokens != padding_token).unsqueeze(0)


def combine_masks(
    *masks: Bool[Tensor, "#T #S #B"] | None,
) -> Bool[Tensor, "T S B"] | None:
    r"""
    ## Several masks at once

    The target of a decoder is causal *and* padded. So a query may attend to a key if
    **all** masks allow it. `None` hides nothing.

    > [!WARNING]
    > Some tutorials return one mask *or* the other. If you pass a padding token, they
    > never make the causal mask. The loss falls, but only because each token sees the
    > one that it should predict. For example, no model can predict one of 8 random
    > tokens with a loss below $\ln 8 = 2.08$. A layer with this mask reached **0.18**
    > in training and **8.0** in generation. See the [faults in
    > tutorials](../../faults.md).

    Returns the masks combined, `[T, S, B]`, or `None` if all are `None`.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


# ## Exercises
#
# **1.** With a *sliding window* a query attends to itself and to the two tokens before
# it. Make the mask. How far back does information travel through three layers?
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.transformers.utils import subsequent_mask
#
# age = torch.arange(5)[:, None] - torch.arange(5)
# window = subsequent_mask(5) & (age < 3)[:, :, None]
# assert window[4, :, 0].tolist() == [False, False, True, True, True]
# ```
#
# Six tokens, because each layer moves information by at most two.
#
# ![Which positions reach a query through one, two and three
# layers.](figure:masks.windows)
#
# </details>
