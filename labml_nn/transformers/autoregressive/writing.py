r"""
---
title: A GPT that writes
summary: The autoregressive transformer as the matrices that a step needs.
---

[Writing](../writing/__init__.py) is the same for all decoders. What is left to say is
where this one has its parts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from labml_nn.language_model import DecodingStep
from labml_nn.transformers.autoregressive.embedding import PlacedEmbedding
from labml_nn.transformers.window import Window
from labml_nn.transformers.writing import (
    DecoderParts,
    DecoderWriter,
    can_write,
    is_ordinary,
    layers_of,
    map_of,
    norm_of,
)

if TYPE_CHECKING:
    from labml_nn.transformers.autoregressive import AutoregressiveTransformer


def writer_of(
    model: "AutoregressiveTransformer",
    state: Window | None,
    plain: Callable[[Window], DecodingStep],
) -> DecodingStep:
    """
    ## A writer

    * `model` is one of its class, and of no class that was derived from it
    * `state` is that of the text so far
    * `plain` makes the writer that all language models have

    Returns the fast writer, or the plain one, if there is anything about this model or
    this text that the fast one does not know.
    """
    parts = take_apart(model)
    if parts is None or state is None or not can_write(parts.table, state):
        return plain(state)  # type: ignore[arg-type]
    return DecoderWriter(
        parts,
        state,
        max_len=model.config.max_len,
        padding_token=model.config.padding_token,
        reread=lambda tokens: model.read_on(tokens, None)[1],
        plain=plain,
    )


def take_apart(model: "AutoregressiveTransformer") -> DecoderParts | None:
    """
    ## The model as a list of matrices

    Or `None`, if it is not what its class made it.
    """
    if not is_ordinary(model, type(model), PlacedEmbedding):
        return None
    layers, embedding, rotary = layers_of(model.stack), model.embedding, model.rotary
    if layers is None:
        return None
    return DecoderParts(
        table=embedding.tokens.weight,
        scale=embedding.scale,
        places=embedding.table,
        turns=None if rotary is None else (rotary.cos, rotary.sin),
        norm_in=norm_of(embedding.norm),
        layers=layers,
        norm_out=norm_of(model.stack.norm),
        output=map_of(model.generator.projection),
        norm_first=model.config.norm_first,
    )
