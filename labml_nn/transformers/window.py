r"""
---
title: A context that slides by halves
summary: >
  What a model of limited context looks at when the text goes on: never a position that
  training did not know, never a text that nobody wrote, and the same work per token for
  as long as you like.
---

A model was trained on texts of `max_len` tokens, and now it writes. After `max_len` of
them it wants to write one more. What may it look at?

**Cut, and read again.** Take the last `max_len` tokens and read them as a text of their
own. Nothing could be more faithful to training. But when one token falls out at the
front, all others move up by one position: every vector changes, all kept keys and
values are void, and each new token costs a whole context.

**Roll on.** Keep the keys, drop the oldest, and let positions count on. That is cheap.
But a learned table ends, and of sinusoids so late the model has seen none. What is kept
was also computed when the dropped tokens were still there: no text has these keys.
And models break down when the first tokens go, because that is where many heads look
when they look for nothing ([@xiao2023efficient]).

**By halves**, which is what we do. Let the window fill. When it is full, let go of its
older half, read what remains *once*, as a text of its own that begins at position 0,
and go on with that. With `max_len = 8`:

```text
 t = 0 … 7     0 1 2 3 4 5 6 7
 t = 8                 4 5 6 7 8
 t = 9                 4 5 6 7 8 9
 t = 11                4 5 6 7 8 9 10 11
 t = 12                        8 9 10 11 12
```

Say $W$ for `max_len` and $h = \lfloor W / 2 \rfloor$ (1 if $W = 1$). Token $t$ is read
with a context that begins at

$$s(t) = h \cdot \max\left(0, \left\lfloor \frac{t - W}{h} \right\rfloor + 1\right)$$

and everything else follows from that line:

* **It is exact.** What the model says after token $t$ is what it says after the text
  $w_{s(t)}, \dots, w_t$, read from its beginning. There is nothing else to know.
* **It does not matter how a text is cut into calls**, since $s$ depends on $t$ alone.
* **Positions stay** between 0 and $W - 1$.
* **Work per token is constant.** After every $h$ new tokens $W - h$ old ones are read
  again, side by side in one pass. On average each token is read twice, not $W$ times.
* The price: a token sees between $W - h + 1$ and $W$ tokens, itself included. Three
  quarters of a window on average.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the tokens to read now |
| | `window.tokens` | `[S, B]` | those read before, as far back as the window goes |
| | `real` | `[S, B]` | which of them are tokens, and not padding |
| $p$ | `positions` | `[T, B\|1]` | positions in the window, from 0 |
| $W$, $h$ | `max_len`, `jump` | | longest context, and by how much it slides |

[Decision 011](https://github.com/lab-ml/nn/blob/main/docs_src/decisions/011-sliding-contexts.md)
weighs the three against each other.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from labml_nn.transformers.mha import KeysValues
from labml_nn.transformers.utils import subsequent_mask


class Window(NamedTuple):
    r"""
    ## What is remembered

    The state of a model that writes: a value that nobody changes. Keep it, and go on
    from the same point as often as you like. It holds tensors only, so that it can be
    moved, saved, compiled and exported, and each has the batch as its second axis.

    * `tokens` are those in the window, `[S, B]`: to slide is to read some of them again
    * `real` says which of them are no padding, `[S, B]`
    * `layers` are their keys and values, one pair for each layer, `[S, B, H, K]` and
      `[S, B, H, D]`; or `()` if they still have to be read
    """

    tokens: Int[Tensor, "S B"]
    real: Bool[Tensor, "S B"]
    layers: tuple[KeysValues, ...]

    def detach(self) -> "Window":
        """The same without gradients."""
        layers = (KeysValues(k.detach(), v.detach()) for k, v in self.layers)
        return Window(self.tokens, self.real, tuple(layers))


# How a model reads: `(tokens, positions, mask, past)` become rows `[T, B, C]`, and the
# keys and values of all layers for what was read before and now. See
# `Encoder.extend`; what is left to do is to embed the tokens at their positions.
Read: TypeAlias = Callable[
    [Tensor, Tensor, Tensor | None, tuple[KeysValues, ...] | None],
    tuple[Tensor, tuple[KeysValues, ...]],
]


def read_by_halves(
    tokens: Int[Tensor, "T B"],
    window: Window | None,
    read: Read,
    *,
    max_len: int,
    padding_token: int | None,
) -> tuple[Float[Tensor, "T B C"], Window]:
    r"""
    ## Read on, and slide where it must be

    * `tokens` go on where `window` ends, `[T, B]`
    * `window` is what the call before returned; `None` at the beginning
    * `read` is how the model reads: it gets tokens `[T, B]`, their positions
      `[T, B|1]`, a mask `[T, S + T, B|1]` or `None`, and the keys and values of all
      layers for the $S$ positions before, or `None`; it returns rows `[T, B, C]` and
      the keys and values of all $S + T$, as `Encoder.extend` does
    * `max_len` is $W$
    * `padding_token` is the token that stands for nothing, if there is one. Positions
      count what is not padding, and the context is as long as if there were none

    Returns a row for each token, `[T, B, C]`, and the window after them, without
    gradients. Raises `TypeError` or `ValueError` for a window that is not one, of
    another batch, or longer than `max_len`.
    """
    padded = padding_token is not None
    real = torch.ones_like(tokens, dtype=torch.bool)
    if padding_token is not None:
        real = tokens.ne(padding_token)
    if window is None:
        window = Window(tokens[:0], real[:0], ())
    _check_window(window, tokens, None if padded else max_len)

    # As much as there is room for; then make room. A text of less than `max_len` tokens
    # takes one turn.
    rows = []
    while tokens.shape[0]:
        room = _room(window, real, max_len, padded)
        if room:
            new, window = _read_on(window, tokens[:room], real[:room], read, padded)
            rows.append(new)
            tokens, real = tokens[room:], real[room:]
        else:
            window = _let_go(window, max_len, padded)
    return torch.cat(rows), window.detach()


def _room(window: Window, real: Bool[Tensor, "T B"], max_len: int, padded: bool) -> int:
    r"""
    ### How many tokens still fit

    Without padding a window is as full as it is long. With it, each sequence has a
    count of its own, and we read up to where the first of them would have one too many.
    To look at counts a GPU has to be waited for, and a compiled graph would break; so
    we only do it when the window, with padding and all, has become longer than
    `max_len`.
    """
    used, new = window.tokens.shape[0], real.shape[0]
    if used + new <= max_len:
        return new
    if not padded:
        return max_len - used

    # What has become twice as long is mostly padding, and gets pressed out.
    if used >= 2 * max_len:
        return 0
    counts = window.real.sum(0) + real.cumsum(0)
    return int((counts <= max_len).all(1).sum())


def _read_on(
    window: Window,
    tokens: Int[Tensor, "T B"],
    real: Bool[Tensor, "T B"],
    read: Read,
    padded: bool,
) -> tuple[Float[Tensor, "T B C"], Window]:
    r"""
    ### Read what fits

    If the window has just slid, what remained of it is read in the same pass: it comes
    first, and its rows are not asked for.
    """
    text = torch.cat([window.tokens, tokens])
    is_real = torch.cat([window.real, real])
    first = window.tokens.shape[0] if window.layers else 0
    length = text.shape[0]

    # Positions count real tokens, so that padding takes none: neither in front, where
    # it would push the text away from 0, nor between the pieces of a text.
    if padded:
        positions = (is_real.cumsum(0)[first:] - 1).clamp(min=0)
    else:
        positions = torch.arange(first, length, device=text.device)[:, None]

    # Nobody sees what comes later, and nobody sees padding. Of the causal mask we need
    # the last rows; a single token at the end may see everything.
    mask: Tensor | None = None
    if padded or length - first > 1:
        mask = subsequent_mask(length, device=text.device)
        if first:
            mask = mask[first:]
        if padded:
            mask = mask & is_real
    rows, layers = read(text[first:], positions, mask, window.layers or None)
    return rows[-tokens.shape[0] :], Window(text, is_real, layers)


def _let_go(window: Window, max_len: int, padded: bool) -> Window:
    r"""
    ### Let go of the older half

    Returns the tokens that stay, still to be read.
    """
    jump = max(1, max_len // 2)
    length = window.tokens.shape[0]
    if not padded:
        begin = length - (max_len - jump)
        return Window(window.tokens[begin:], window.real[begin:], ())

    # Sequences that are not full yet stay whole: for them $s(t)$ is what it was, and
    # reading them again from there changes nothing. Sorting brings padding to the front
    # and leaves the order of tokens as it is, so that what stays is at the end.
    counts = window.real.sum(0)
    kept = torch.where(counts < max_len, counts, max_len - jump)
    order = window.real.int().argsort(dim=0, stable=True)
    longest = int(kept.max())
    from_end = torch.arange(longest, 0, -1, device=kept.device)[:, None]
    tokens = window.tokens.gather(0, order)[length - longest :]
    return Window(tokens, from_end <= kept, ())


def _check_window(window: Window, tokens: Tensor, max_len: int | None) -> None:
    if not isinstance(window, Window):
        raise TypeError(
            f"`state` is a {type(window).__name__}; expected the state that the model "
            "returned, or None at the beginning of a text"
        )
    if window.tokens.shape[1] != tokens.shape[1]:
        raise ValueError(
            f"`state` is that of {window.tokens.shape[1]} sequences, and `tokens` has "
            f"shape {list(tokens.shape)}; expected B = {window.tokens.shape[1]}: the "
            "same sequences go on"
        )
    if max_len is not None and window.tokens.shape[0] > max_len:
        raise ValueError(
            f"`state` holds {window.tokens.shape[0]} tokens, and the context has room "
            f"for max_len = {max_len}; was it returned by another model?"
        )


# ## Exercises
#
# **1.** How long is the context of token $t$, on average, for even $W$? How long would
# it be if the window let go of only a quarter each time, and what would that cost?
#
# <details><summary>Answer</summary>
#
# After a slide the context has $W - h + 1$ tokens, and it grows by one up to $W$: the
# mean is $W - (h - 1) / 2$, about $\frac{3}{4} W$ for $h = W / 2$ and $\frac{7}{8} W$
# for $h = W / 4$. But then every $W / 4$ tokens $\frac{3}{4} W$ are read again: four
# reads per token instead of two. At $h = 1$ we are back at cutting and reading again.
#
# ```python
# from statistics import mean
#
# def context(t, length, jump):
#     return t + 1 - jump * max(0, (t - length) // jump + 1)
#
# for jump, expected in ((128, 192.5), (64, 224.5), (1, 256)):
#     assert mean(context(t, 256, jump) for t in range(256, 256 + 1280)) == expected
# ```
#
# </details>
#
# **2.** Take `read` apart: how often does it see each token of a long text?
#
# <details><summary>Answer</summary>
#
# Count the tokens that it is given. This one makes rows of zeros.
#
# ```python
# import torch
# from labml_nn.transformers.mha import KeysValues
# from labml_nn.transformers.window import read_by_halves
#
# seen = torch.zeros(1000)
#
# def read(tokens, positions, mask, past):
#     assert positions.max() < 8
#     seen.index_add_(0, tokens[:, 0], torch.ones(len(tokens)))
#     kept = torch.zeros(positions.max() + 1, 1, 1, 1)
#     return torch.zeros(*tokens.shape, 1), (KeysValues(kept, kept),)
#
# text = torch.arange(1000)[:, None]
# read_by_halves(text, None, read, max_len=8, padding_token=None)
# assert (seen[4:-4] == 2).all() and seen.mean() < 2
# ```
#
# </details>
#
# **3.** A batch holds a long text and a short one, with padding in front of the short.
# The long one slides. Why may the short one be read again although it is not full?
#
# <details><summary>Answer</summary>
#
# Because its $s(t)$ has not moved. Reading $w_{s(t)}, \dots, w_t$ is what its kept keys
# and values came from, so the same text comes out as the same numbers. It costs time
# and changes nothing. (To spare the time one would have to pick sequences out of the
# batch, and put them back.)
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# config = AutoregressiveConfig(n_vocab=9, d_model=24, max_len=8, padding_token=0)
# model = AutoregressiveTransformer(config).eval()
# text = torch.randint(1, 9, (9, 2))
# text[:4, 1] = 0  # nine tokens and five: the first slides at the last token
# logits, _ = model(text)
# alone, _ = model(text[4:, 1:])
# assert torch.allclose(logits[4:, 1:], alone, atol=1e-5)
# ```
#
# </details>
