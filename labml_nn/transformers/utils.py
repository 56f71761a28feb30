r"""
---
title: Masks
summary: >
  Who may look at whom, written as boolean tensors: for causality, for padding, and for
  both at once.
---

A mask answers one question for every pair of positions: may query $t$ of sequence $b$
look at key $s$?

$$M_{tsb} = \begin{cases}
\text{True} & \text{query } t \text{ may attend to key } s \text{ in sequence } b \\
\text{False} & \text{it may not}
\end{cases}$$

All masks of this library are boolean and have the axes `[T, S, B]`. The first may be 1
when every query sees the same keys, the last may be 1 when all sequences of the batch
share the mask; PyTorch stretches such axes where they meet a longer one.

![Six positions, of which the last two are padding: full squares may be
seen.](figure:masks.three)

| Mask | Function | Shape | Depends on |
|---|---|---|---|
| causal | `subsequent_mask` | `[T, T, 1]` | positions only |
| padding | `padding_mask` | `[1, S, B]` | how long each sequence is |
| padding | `token_padding_mask` | `[1, S, B]` | where the padding token stands |
| several | `combine_masks` | the longest of each axis | all of its parts |
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from labml_nn.checks import check_integers, check_lengths, check_sizes


def subsequent_mask(
    seq_len: int, *, device: torch.device | str | None = None
) -> Bool[Tensor, "T T 1"]:
    r"""
    ## No looking ahead

    A model that predicts the next token must not read it. Position $t$ may attend to
    itself and to what came before, $M_{ts} = [\, s \le t \,]$, the lower triangle:

    ```
    key s      0 1 2 3
    query 0    1 . . .
    query 1    1 1 . .
    query 2    1 1 1 .
    query 3    1 1 1 1
    ```

    * `seq_len` is $T$, at least 1
    * `device` is where the mask is made, the default device if not given

    Returns a boolean tensor of shape `[T, T, 1]`; the 1 is the batch, which shares it.
    It is `known_as_causal`, so that attention can skip the half that it hides.
    Source: [@vaswani2017attention, §3.2.3].
    """
    check_sizes(seq_len=seq_len)
    see_all = torch.ones(seq_len, seq_len, dtype=torch.bool, device=device)
    return known_as_causal(see_all.tril().unsqueeze(-1))


class _Note:
    r"""
    ## A mask that is known

    Half of the scores that a causal mask meets are thrown away. Kernels can leave that
    half out, and need no mask to be made, read and kept, if somebody tells them that it
    is causal. To find out by looking takes as long as using the mask, and a GPU would
    have to be waited for. So whoever makes a causal mask pins a note to it.

    What is computed from the mask, `mask & padding` or `mask[1:]`, is a new tensor
    without a note. What changes the mask itself raises its `_version`, the counter by
    which PyTorch notices that a tensor kept for the backward pass has been written to.
    The note has the count of when it was pinned, and is void when the two differ. And
    it is not copied along with the mask, whose copy begins to count anew.
    """

    def __init__(self, version: int) -> None:
        self.version = version

    def __deepcopy__(self, memo: object) -> None:
        return None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return set, ()  # whatever comes out of a file, it is no note


_NOTE = "_labml_nn_causal"

# A graph that is being compiled knows no versions. There we trust the masks that are
# made in it, and none that comes from outside. Who compiles a function that makes a
# causal mask and writes into it has to write into a `clone()` of it.
_IN_A_GRAPH = -1


def known_as_causal(mask: Bool[Tensor, "T T *ones"]) -> Bool[Tensor, "T T *ones"]:
    r"""
    ### Pin the note

    * `mask` is $M_{ts} = [\, s \le t \,]$, for all sequences and heads alike

    Returns the same tensor. Tensors of the inference mode do not count their versions,
    and get no note.
    """
    if torch.compiler.is_compiling():
        setattr(mask, _NOTE, _Note(_IN_A_GRAPH))
    elif not mask.is_inference():
        setattr(mask, _NOTE, _Note(mask._version))
    return mask


def is_known_as_causal(mask: Tensor | None) -> bool:
    """
    ### Read it

    `False` means that nobody knows: the mask may be causal nevertheless.
    """
    note = getattr(mask, _NOTE, None)
    if mask is None or not isinstance(note, _Note):
        return False
    if torch.compiler.is_compiling():
        return note.version == _IN_A_GRAPH
    return note.version == mask._version


def share_among_heads(mask: Bool[Tensor, "#T S #B"]) -> Bool[Tensor, "#T S #B 1"]:
    """
    ### Hand it on

    An axis of length one stands for the heads. What is known of a mask is still true.
    """
    shared = mask.unsqueeze(-1)
    return known_as_causal(shared) if is_known_as_causal(mask) else shared


def padding_mask(
    lengths: Int[Tensor, " B"], max_len: int | None = None
) -> Bool[Tensor, "1 S B"]:
    r"""
    ## Sequences of different lengths

    Sequences of a batch are filled up to a common length. Nobody may attend to the
    filling: $M_{sb} = [\, s < n_b \,]$, where $n_b$ is the length of sequence $b$.

    * `lengths` holds $n_b$, integers from 0, of shape `[B]`
    * `max_len` is $S$, the common length; the longest of `lengths` if not given

    Returns a boolean mask of shape `[1, S, B]`. Raises `ValueError` for a length below
    0 or beyond `max_len`, and `TypeError` if `lengths` are not integers.
    """
    check_lengths(lengths, max_len)
    if max_len is None:
        max_len = int(lengths.max())
    check_sizes(max_len=max_len)

    # `[S, 1]` meets `[B]` and makes `[S, B]`, the same for every query, `[1, S, B]`.
    #
    # > [!WARNING]
    # > With `unsqueeze(1)` the mask would be `[T, 1, B]`: it would forbid padding to
    # > *ask*, while everybody may still look at it. Where $T = S$ that runs, if the
    # > attention stretches the axis of the keys; ours refuses to. For a sequence of 32
    # > tokens beside one of 128, **75 %** of the weight of the real tokens falls on
    # > padding then, and what a layer without training makes of them is 45 % off. Found
    # > by `test_no_weight_falls_on_padding`; [five more faults](../../faults.md).
    positions = torch.arange(max_len, device=lengths.device)
    return (positions[:, None] < lengths).unsqueeze(0)


def token_padding_mask(
    tokens: Int[Tensor, "S B"], padding_token: int
) -> Bool[Tensor, "1 S B"]:
    """
    ## Padding that shows in the tokens

    Where a token of its own stands for "nothing here", the mask can be read off.

    * `tokens` has shape `[S, B]`
    * `padding_token` is the number of the token that fills up

    Returns a boolean mask of shape `[1, S, B]`, `True` wherever a real token stands.
    Raises `TypeError` if `tokens` are not integers, `ValueError` for another shape.
    """
    check_integers("tokens", tokens, "S B")
    return (tokens != padding_token).unsqueeze(0)


# Older code writes masks as integers, 1 for "may attend". That reading is safe. A mask
# of floating-point numbers could be the same, or the opposite: numbers to be added to
# the scores, where 0 means "may attend". We don't guess.
def _boolean(mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return mask
    if mask.is_floating_point() or mask.is_complex():
        raise TypeError(
            f"`mask` has dtype {mask.dtype}; expected torch.bool with True = may "
            "attend. Convert with mask.bool() if 1 means may attend, or with mask == 0 "
            "if it is added to scores"
        )
    return mask.bool()


# Two axes can meet if they are equally long, or if one of them can be stretched.
def _fit(a: Tensor, b: Tensor) -> bool:
    pairs = zip(a.shape, b.shape, strict=False)
    return a.dim() == b.dim() == 3 and all(m == n or 1 in (m, n) for m, n in pairs)


def combine_masks(
    *masks: Bool[Tensor, "#T #S #B"] | None,
) -> Bool[Tensor, "T S B"] | None:
    r"""
    ## Several reasons at once

    The target of a decoder is both causal and padded: a query may attend to a key if
    **every** mask allows it. `None` stands for "no restriction", as it does wherever a
    mask is an argument.

    A causal mask `[T, T, 1]` and a padding mask `[1, T, B]` make `[T, T, B]`.

    > [!WARNING]
    > A function that makes one mask *or* the other is a common fault: after `if
    > padding_token is not None: return padding`, the causal part is never reached.
    > Shapes fit and the loss falls, because each position reads the token that it
    > should foretell. For one of 8 random tokens the lowest honest loss is $\ln 8 =
    > 2.08$; a layer with that mask had **0.18** after 400 steps. Asked to go on from a
    > prefix, where there is nothing to read yet, it had **8.0**, far worse than a
    > guess. Found by `test_no_model_is_better_than_chance`;
    > [five more faults](../../faults.md).

    Returns a mask as long as the longest of each axis, or `None` if nothing restricts
    anything. Raises `ValueError` if shapes do not fit each other, and `TypeError` for a
    mask of floating-point numbers.
    """
    combined: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        mask = _boolean(mask)
        if combined is None:
            combined = mask
        elif _fit(combined, mask):
            combined = combined & mask
        else:
            raise ValueError(
                f"masks of shapes {list(combined.shape)} and {list(mask.shape)} do not "
                "fit; expected [T, S, B], with 1 for an axis that a mask leaves open"
            )
    return combined


def check_mask(
    mask: Tensor, query_len: int, key_len: int, batch_size: int
) -> Bool[Tensor, "#T S #B"]:
    r"""
    ## The mask at the door

    Attention calls this on the mask that it is given, so that one of the wrong shape is
    named before it is stretched into something that runs and means something else.

    * `query_len`, `key_len`, `batch_size` are $T$, $S$ and $B$ of the call

    Returns the mask as a boolean tensor. Raises `ValueError` for a shape other than
    `[T|1, S, B|1]`, and `TypeError` for a floating-point mask.
    """
    mask = _boolean(mask)
    fits = (
        mask.dim() == 3
        and (mask.shape[0] == query_len or mask.shape[0] == 1)
        and mask.shape[1] == key_len
        and (mask.shape[2] == batch_size or mask.shape[2] == 1)
    )
    if not fits:
        raise ValueError(
            f"`mask` has shape {list(mask.shape)}; expected [T or 1, S, B or 1] with "
            f"T = {query_len}, S = {key_len}, B = {batch_size}. A mask [T, S] lacks "
            "the batch: add it with mask[:, :, None]"
        )
    return mask


# ## Exercises
#
# **1.** In a *sliding window* a query sees itself and the two positions before it, and
# nothing else. Make the mask. How far back does information travel through three layers
# with it?
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
# Six positions. Each layer moves information by two at most, from what the layer below
# has brought there.
#
# ![Which keys a query can learn of, through one layer and more.](figure:masks.windows)
#
# </details>
#
# **2.** A *prefix* language model reads its first $n_b$ tokens in both directions, like
# an encoder, and only the rest from left to right. Which two masks make it, and how are
# they combined?
#
# <details><summary>Answer</summary>
#
# A key may be seen if it is not later than the query, **or** if it belongs to the
# prefix. `combine_masks` means "and", so this takes PyTorch's own "or":
#
# ```python
# import torch
# from labml_nn.transformers.utils import padding_mask, subsequent_mask
#
# prefix = padding_mask(torch.tensor([2, 3]), 5)  # [1, S, B]
# mask = subsequent_mask(5) | prefix  # [T, S, B]
# assert mask[0, :, 1].tolist() == [True, True, True, False, False]
# ```
#
# </details>
#
# **3.** To waste nothing on padding, short texts are packed one behind another into one
# sequence. `texts` says which text each position belongs to. Make the mask by which
# nobody looks into another text, or ahead.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.transformers.utils import combine_masks, subsequent_mask
#
# texts = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]]).T  # [T, B]
# own = texts[:, None] == texts[None, :]  # [T, 1, B] meets [1, S, B]
# mask = combine_masks(own, subsequent_mask(5))
# assert mask[4, :, 0].tolist() == [False, False, True, True, True]
# assert mask[4, :, 1].tolist() == [False, False, False, True, True]
# ```
#
# Positions have to begin anew with each text as well.
#
# </details>
