r"""
---
title: Attention masks
summary: >
  Boolean masks for causal attention and for padding, and their combination.
---

A mask says for every pair of positions whether query $t$ of sequence $b$ may attend to
key $s$:

$$M_{tsb} = \begin{cases}
\text{True} & \text{query } t \text{ may attend to key } s \text{ in sequence } b \\
\text{False} & \text{its attention weight is zero}
\end{cases}$$

All masks of this library are boolean, with axes `[T, S, B]`. The first is 1 if all
queries have the same mask, the last if all sequences of the batch do; such axes
broadcast. [Attention](mha.py) sets the scores of masked keys to $-\infty$ before the
softmax. PyTorch's modules have the opposite convention: there, `True` means masked.

![Six positions, of which the last two are padding: filled squares may be attended
to.](figure:masks.three)

| Mask | Function | Shape | Depends on |
|:--|:--|:--|:--|
| causal | `subsequent_mask` | `[T, T, 1]` | positions only |
| padding | `padding_mask` | `[1, S, B]` | lengths of the sequences |
| padding | `token_padding_mask` | `[1, S, B]` | the padding token |
| several | `combine_masks` | broadcast | all parts |
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

    A model that predicts the next token must not attend to it. With $M_{ts} = [\, s \le
    t \,]$, the lower triangle, position $t$ attends to itself and to earlier positions
    ([@vaswani2017attention, §3.2.3]), and all positions can be trained in parallel:

    ```
    key s      0 1 2
    query 0    1 . .
    query 1    1 1 .
    query 2    1 1 1
    ```

    * `seq_len` is the length of the sequence, $T$
    * `device` is the device of the mask; the default device if not given

    Returns `[T, T, 1]`.
    """
    all_pairs = torch.ones(seq_len, seq_len, dtype=torch.bool, device=device)
    return all_pairs.tril().unsqueeze(-1)


def padding_mask(
    lengths: Int[Tensor, " B"], max_len: int | None = None
) -> Bool[Tensor, "1 S B"]:
    r"""
    ## Padding mask from lengths

    The sequences of a batch are padded to a common length, and no query may attend to
    the padding: $M_{sb} = [\, s < n_b \,]$, where $n_b$ is the length of sequence $b$.
    What padded *queries* compute does not matter, as nothing attends to them and the
    loss leaves them out.

    * `lengths` holds the lengths $n_b$, `[B]`
    * `max_len` is the common length, $S$; the largest of `lengths` if not given

    Returns `[1, S, B]`. Raises `ValueError` for a length below 0 or above `max_len`.
    """
    check_lengths(lengths, max_len)
    if max_len is None:
        max_len = int(lengths.max())
    check_sizes(max_len=max_len)

    # `[S, 1]` is compared with `[B]`, and all queries share the result.
    #
    # > [!WARNING]
    # > `unsqueeze(1)` would make `[T, 1, B]`: a mask of queries in place of keys, by
    # > which all real queries attend to padding. For a sequence of 32 tokens in a batch
    # > of length 128, **75 %** of the attention weight is on padding then. See the
    # > [faults in tutorials](../../faults.md).
    positions = torch.arange(max_len, device=lengths.device)
    return (positions[:, None] < lengths).unsqueeze(0)


def token_padding_mask(
    tokens: Int[Tensor, "S B"], padding_token: int
) -> Bool[Tensor, "1 S B"]:
    """
    ## Padding mask from tokens

    Returns `[1, S, B]`, `True` where a token of `tokens` `[S, B]` is not
    `padding_token`.
    """
    check_integers("tokens", tokens, "S B")
    return (tokens != padding_token).unsqueeze(0)


def combine_masks(
    *masks: Bool[Tensor, "#T #S #B"] | None,
) -> Bool[Tensor, "T S B"] | None:
    r"""
    ## Several masks at once

    The target of a decoder is causal *and* padded: a query may attend to a key if
    **all** masks allow it. `None` stands for no restriction.

    > [!WARNING]
    > Some tutorials return one mask *or* the other: with a padding token, the causal
    > mask is never made. The loss falls, because each position attends to the token
    > that it should predict. With 8 random tokens the lowest honest loss is $\ln 8 =
    > 2.08$; a layer with this mask reached **0.18** in training, and **8.0** in
    > generation. See the [faults in tutorials](../../faults.md).

    Returns the masks combined, `[T, S, B]`, or `None` if all are `None`.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


# ## Exercises
#
# **1.** With a *sliding window* a query attends to itself and to the two positions
# before it. Make the mask. How far back does information travel through three layers?
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
# Six positions: each layer moves information by at most two.
#
# ![Which positions reach a query through one, two and three
# layers.](figure:masks.windows)
#
# </details>
