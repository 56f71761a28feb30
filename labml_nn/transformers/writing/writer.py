r"""
---
title: A writer
summary: >
  Goes on with a text, token after token, in the fastest way that the model allows, and
  slides when the window is full.
---

A **writer** is a function from a token to the bets on the next. It owns the text that
it writes, so it may work in place, where `forward` has to make a new state for each
token. It is made for one text, or one batch of texts, and thrown away after it.

It does three things besides the step itself:

* **It chooses the step.** The [compiled one](compiled.py), if there is a compiler and
  the model is in single precision on a processor; else [the lean one](step.py).
* **It slides.** When the window is full, its newer half is read again, exactly as
  [`read_by_halves`](../window.py) does it.
* **It gives up in time.** Padding among the tokens needs masks, and a token outside of
  the vocabulary an error. Neither happens often, and `forward` knows what to do. So
  from there on the text is written by it, from a state like any other.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` | `[B]` | the token to read, one for each text |
| $z_t$ | `logits` | `[B, V]` | what may follow |
| $W$, $h$ | `max_len`, `jump` | | longest context, and by how much it slides |
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.checks import autocast_is_on
from labml_nn.transformers.window import Window
from labml_nn.transformers.writing.compiled import CompiledStep, library_for
from labml_nn.transformers.writing.memory import Memory
from labml_nn.transformers.writing.parts import DecoderParts
from labml_nn.transformers.writing.step import Source, Step

# What the tokens of a window become, and what writes a text in the plain way.
Reread = Callable[[Tensor], Window]
Plain = Callable[[Tensor], Tensor]


def can_write(parameter: Tensor, window: Window | None) -> bool:
    r"""
    ## Is it a case for a writer?

    * `parameter` is any of the model
    * `window` is what was read so far

    On a processor, where nobody converts types on the way, when something was read, and
    no padding. (A GPU would have to be waited for, to find out about padding.)
    """
    return (
        parameter.device.type == "cpu"
        and not autocast_is_on(parameter)
        and window is not None
        and len(window.layers) > 0
        and window.layers[0].keys.dtype == parameter.dtype
        and bool(window.real.all())
    )


class DecoderWriter:
    r"""
    ## Writing with a decoder
    """

    def __init__(
        self,
        parts: DecoderParts,
        window: Window,
        *,
        max_len: int,
        padding_token: int | None,
        reread: Reread,
        plain: Callable[[Window], Plain],
        source: Source | None = None,
    ) -> None:
        r"""
        * `parts` are those of the model
        * `window` is what was read, without padding; at least one token
        * `max_len` is $W$
        * `padding_token` is what a writer gives up at, or `None`
        * `reread` reads tokens `[S, B]` as a text of their own
        * `plain` makes the plain writer that goes on from a window
        * `source` is what was said, if the model replies
        """
        self.reread, self.plain, self.padding_token = reread, plain, padding_token
        self.gave_up: Plain | None = None
        self.n_vocab = len(parts.table)

        # Memory is written to, step by step. Were it made in inference mode, nobody
        # could write to it outside.
        with torch.inference_mode(False), torch.no_grad():
            self.memory = Memory(window, max_len)
            library = library_for(parts)
            self.step: Step | CompiledStep
            if library is None:
                self.step = Step(parts, self.memory, source)
            else:
                self.step = CompiledStep(library, parts, self.memory, source)

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        r"""
        ### A token more

        * `tokens` are the next of each text, `[B]`

        Returns logits of what may follow, `[B, V]`, without gradients. Raises what the
        model's `forward` does.
        """
        with torch.no_grad():
            if self.gave_up is None and not self._can_read(tokens):
                self.gave_up = self.plain(self.memory.window())
            if self.gave_up is not None:
                return self.gave_up(tokens)
            memory = self.memory
            if memory.used == memory.max_len:
                self._slide()
            logits = self.step(tokens)
            memory.tokens[memory.used] = tokens
            memory.used += 1
            return logits

    def _can_read(self, tokens: Tensor) -> bool:
        # A batch is a few numbers, and Python compares those faster than PyTorch.
        if tokens.dtype not in (torch.int64, torch.int32) or tokens.dim() != 1:
            return False
        numbers = tokens.tolist()
        return (
            len(numbers) == self.memory.tokens.shape[1]
            and min(numbers) >= 0
            and max(numbers) < self.n_vocab
            and self.padding_token not in numbers
        )

    def _slide(self) -> None:
        r"""
        ### Make room

        The older $h = \lfloor W / 2 \rfloor$ go. Inference mode, if it is on, is left
        for the moment: what is read is written to memory.
        """
        memory = self.memory
        jump = max(1, memory.max_len // 2)
        if jump == memory.max_len:
            memory.used = 0
        else:
            memory.replace(self.reread(memory.tokens[jump:].clone()))
