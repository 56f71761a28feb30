r"""
---
title: The state of a reply
summary: What a model that replies has to know before it writes the next token.
---

Two things: what was said, as the layers of the decoder read it, and the reply so far.
"""

from typing import NamedTuple

from jaxtyping import Bool
from torch import Tensor

from labml_nn.transformers.keys_values import KeysValues
from labml_nn.transformers.window import Window


class EncoderDecoderState(NamedTuple):
    """
    ## What a reply goes on from

    A value: nothing in it is ever changed, so one can go on from the same point twice.
    Every tensor in it has the batch as its second axis.

    * `sources` are keys and values of what was said, a pair for each layer of the
      decoder, `[S, B, H, K]` each. They are the same at every step
    * `real` is `True` where they belong to a token and not to padding, `[S, B]`
    * `reply` is the [window](../window.py) of the reply so far, with its keys and
      values; `None` before its first token
    """

    sources: tuple[KeysValues, ...]
    real: Bool[Tensor, "S B"]
    reply: Window | None = None

    def detach(self) -> "EncoderDecoderState":
        """The same state without gradients."""
        sources = tuple(KeysValues(k.detach(), v.detach()) for k, v in self.sources)
        reply = None if self.reply is None else self.reply.detach()
        return EncoderDecoderState(sources, self.real, reply)
