r"""
---
title: Sliding-window context
summary: >
  How a transformer with a limited context reads a sequence that is longer: the context
  slides by half its length, exactly, at a constant cost per token.
---

A transformer was trained on sequences of `max_len` tokens, and generates token number
`max_len + 1`. Which tokens may it attend to? There are three common answers:

**Recompute.** Take the last `max_len` tokens as a sequence of their own. This matches
training exactly, but all tokens move up by one position each time, so each new token
costs a forward pass over the whole context.

**Evict.** Drop the oldest entry of the [cache](mha.py) and let positions count on. This
is cheap, but the model was never trained on later positions, nor on keys computed when
dropped tokens were still visible. Models degrade badly as soon as the first tokens
leave the cache, where many heads put their attention when they have nothing else to
attend to ([@xiao2023efficient]).

**Slide by halves**, which is implemented here. When the context is full, its older half
is dropped, the newer half is read *once* as a sequence that starts at position 0, and
the context grows again. With `max_len = 8`:

```text
 t = 0 … 7     0 1 2 3 4 5 6 7
 t = 8                 4 5 6 7 8
 t = 9                 4 5 6 7 8 9
 t = 11                4 5 6 7 8 9 10 11
 t = 12                        8 9 10 11 12
```

Let $W$ be `max_len` and $h = \lfloor W / 2 \rfloor$ (1 if $W = 1$). The context of
token $t$ begins at

$$s(t) = h \cdot \max\left(0, \left\lfloor \frac{t - W}{h} \right\rfloor + 1\right)$$

and the properties follow from this definition:

* **Exact.** The output at token $t$ equals that of a forward pass over the sequence
  $w_{s(t)}, \dots, w_t$ alone, however it is cut into calls.
* **Positions** stay between 0 and $W - 1$, the range of training.
* **Constant cost per token.** After every $h$ new tokens, $W - h$ old ones are read
  again, in one parallel pass: each token is read twice, instead of $W$ times.
* **The price:** a token sees between $W - h + 1$ and $W$ tokens, itself included.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the new tokens |
| | `window.tokens` | `[S, B]` | tokens that are already in the context |
| | `real` | `[S, B]` | `True` for tokens, `False` for padding |
| $p$ | `positions` | `[T, B\|1]` | positions within the context, from 0 |
| $W$, $h$ | `max_len`, `half` | | length of the context, and how far it slides |
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from labml_nn.transformers.mha import KVCache

# The forward pass of a model over new tokens `[T, B]`: it also takes their positions
# `[T, B|1]`, which of all tokens in the context are real, `[S + T, B]`, and a cache for
# each layer, to which it appends. It returns features `[T, B, C]`.
Run = Callable[[Tensor, Tensor, Tensor | None, list[KVCache]], Tensor]


class SlidingWindow(NamedTuple):
    r"""
    ## State of a context

    A value that is never modified: you can continue from the same state several times.

    * `tokens` are the tokens in the context, `[S, B]`, needed when the context slides
    * `real` is `False` where a token is padding, `[S, B]`
    * `layers` holds the keys and values of each layer, `[S, B, H, D]`; it is empty
      right after sliding, when the remaining tokens have to be read again
    """

    tokens: Int[Tensor, "S B"]
    real: Bool[Tensor, "S B"]
    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def batch_size(self) -> int:
        """The number of sequences, $B$."""
        return self.tokens.shape[1]

    def detach(self) -> "SlidingWindow":
        """Returns the same state without gradients."""
        layers = tuple((keys.detach(), values.detach()) for keys, values in self.layers)
        return SlidingWindow(self.tokens, self.real, layers)


def run_in_window(
    run: Run,
    tokens: Int[Tensor, "T B"],
    window: SlidingWindow | None,
    *,
    n_layers: int,
    max_len: int,
    padding_token: int | None,
) -> tuple[Float[Tensor, "T B C"], SlidingWindow]:
    r"""
    ## Forward pass with a sliding context

    * `run` computes the features of new tokens and appends their keys and values to one
      cache per layer
    * `tokens` continue where `window` ends, `[T, B]`
    * `window` is the state that the previous call returned, `None` at the beginning
    * `n_layers` is the number of caches, $L$
    * `max_len` is the length of the context, $W$
    * `padding_token` may occur anywhere in `tokens`. It takes up no position, and
      `real` tells `run` to mask it; but it does take up room in the context

    Returns features for each token, `[T, B, C]`, and the new state, detached.
    """
    padded = padding_token is not None
    real = torch.ones_like(tokens, dtype=torch.bool)
    if padding_token is not None:
        real = tokens.ne(padding_token)
    if window is None:
        window = SlidingWindow(tokens[:0], real[:0], ())

    outputs = []
    while tokens.shape[0]:
        # The newer half of a full context, without keys and values: their positions
        # have changed.
        if window.tokens.shape[0] == max_len:
            half = max(1, max_len // 2)
            window = SlidingWindow(window.tokens[half:], window.real[half:], ())

        # As many new tokens as there is room for.
        old, length = window.tokens.shape[0], tokens.shape[0]
        room = length if old + length <= max_len else max_len - old
        new, is_real = tokens[:room], real[:room]
        tokens, real = tokens[room:], real[room:]

        # After sliding, the remaining old tokens are read in the same pass, before the
        # new ones; their outputs are dropped.
        first = old if window.layers else 0
        past = window.layers or ((None, None),) * n_layers
        window = SlidingWindow(
            torch.cat([window.tokens, new]), torch.cat([window.real, is_real]), ()
        )

        # A position is the number of real tokens before it, so padding takes up none.
        # (At a leading padding token that would be $-1$; its output is never used.)
        if padded:
            positions = (window.real.cumsum(0)[first:] - 1).clamp(min=0)
        else:
            end = window.tokens.shape[0]
            positions = torch.arange(first, end, device=new.device)[:, None]
        caches = [KVCache(keys, values, positions) for keys, values in past]
        x = run(
            window.tokens[first:], positions, window.real if padded else None, caches
        )
        outputs.append(x[-room:])
        layers: Any = tuple((cache.keys, cache.values) for cache in caches)
        window = window._replace(layers=layers)
    return torch.cat(outputs), window.detach()
