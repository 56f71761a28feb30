r"""
---
title: Sliding-window context
summary: >
  How a transformer with a limited context reads a sequence that is longer: the context
  slides by half its length, exactly, at a constant cost per token.
---

A Transformer has been trained on texts of `max_len` tokens, for example 8. Now it
writes token number 9. Which tokens may it look at? There is no room for all of them. We
have three choices.

**Read again.** Take the last 8 tokens as a text of their own. This is exactly what the
model was trained for. But all tokens move up by one position each time, so everything
that you have computed is void, and each new token costs a pass over the whole context.

**Throw away.** Drop the oldest entry of the [cache](mha.py#KVCache), and let positions
count on. This is cheap. But the model has never seen such positions, nor keys that were
computed when the dropped tokens were still there. In fact models break down as soon as
the *first* tokens leave the cache. Many heads attend to these when they have nothing
else to look at ([@xiao2023efficient]).

**Slide by halves.** This is what we do here. When the context is full, drop its older
half. Read the newer half *once* more, as a text that begins at position 0. Then there
is room again for as many tokens:

```text
 t = 0 … 7     0 1 2 3 4 5 6 7
 t = 8                 4 5 6 7 8
 t = 9                 4 5 6 7 8 9
 t = 11                4 5 6 7 8 9 10 11
 t = 12                        8 9 10 11 12
```

Let us see what that costs. Between token 8 and token 12 four new tokens come, and four
old ones are read again, in one parallel pass. So each token is read twice, and not 8
times as in the first way. The price is that a token may see less: token 8 sees 5 tokens
with itself, and token 11 sees all 8.

In general let $W$ be `max_len` and $h = \lfloor W / 2 \rfloor$ (1 if $W = 1$). The
context of token $t$ begins at

$$s(t) = h \cdot \max\left(0, \left\lfloor \frac{t - W}{h} \right\rfloor + 1\right)$$

From this you can read off what you may rely on:

* **Exact.** The output at token $t$ is that of a forward pass over the text
  $w_{s(t)}, \dots, w_t$ alone, however you cut it into calls.
* **Known positions.** They stay between 0 and $W - 1$, as in training.
* **Constant cost.** After every $h$ new tokens, $W - h$ old ones are read again.
* **The price.** A token sees between $W - h + 1$ and $W$ tokens, itself included.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the new tokens |
| | `window.tokens` | `[S, B]` | tokens that are already in the context |
| | `real` | `[S, B]` | `True` for tokens, `False` for padding |
| $p$ | `positions` | `[T, B\|1]` | positions within the context, from 0 |
| $W$, $h$ | `max_len`, `half` | | length of the context, and how far it slides |

</details>
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

    Nothing changes a state. So you can continue from the same one several times.

    * `tokens`: the tokens in the context, `[S, B]`. We need them when it slides
    * `real`: `False` where a token is padding, `[S, B]`
    * `layers`: the keys and values of each layer, `[S, B, H, D]`; empty right after
      sliding, when the remaining tokens have to be read again
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

    * `run`: computes the features of new tokens, and appends their keys and values to
      one cache for each layer
    * `tokens`: continue where `window` ends, `[T, B]`
    * `window`: the state that the previous call returned, `None` at the beginning
    * `n_layers`: the number of caches, $L$
    * `max_len`: the length of the context, $W$
    * `padding_token`: may be anywhere in `tokens`. It takes up no position, and `real`
      tells `run` to mask it. But it does take up room in the context

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
        # If the context is full, we keep its newer half. Its keys and values are void,
        # because the positions have changed.
        if window.tokens.shape[0] == max_len:
            half = max(1, max_len // 2)
            window = SlidingWindow(window.tokens[half:], window.real[half:], ())

        # We take as many new tokens as there is room for.
        old, length = window.tokens.shape[0], tokens.shape[0]
        room = length if old + length <= max_len else max_len - old
        new, is_real = tokens[:room], real[:room]
        tokens, real = tokens[room:], real[room:]

        # After sliding, the remaining old tokens are read in the same pass, before the
        # new ones. We do not need their outputs.
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
        window = SlidingWindow(window.tokens, window.real, layers)
    return torch.cat(outputs), window.detach()
