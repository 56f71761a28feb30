r"""
---
title: A model that writes replies
summary: The decoder and its source as the matrices that a step needs.
---

[Writing](../writing/__init__.py) is the same for all decoders. This one also asks what
was said, and where it has its parts is told here.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from labml_nn.language_model import DecodingStep
from labml_nn.transformers.encoder_decoder.assembly import PlacedTokens
from labml_nn.transformers.encoder_decoder.state import EncoderDecoderState
from labml_nn.transformers.models import EncoderDecoder, Generator
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
)
from labml_nn.transformers.window import Window
from labml_nn.transformers.writing import (
    DecoderParts,
    DecoderWriter,
    Source,
    can_write,
    is_ordinary,
    layers_of,
    map_of,
    norm_of,
)

if TYPE_CHECKING:
    from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel


def writer_of(
    model: "EncoderDecoderLanguageModel",
    state: EncoderDecoderState,
    plain: Callable[[Window], DecodingStep],
) -> DecodingStep:
    """
    ## A writer

    * `model` is one of its class, and of no class that was derived from it
    * `state` is that of a reply that has begun
    * `plain` makes the writer that all language models have, for a reply

    Returns the fast writer, or the plain one, if there is anything about this model or
    this reply that the fast one does not know.
    """
    assert state.reply is not None
    parts = take_apart(model)
    if parts is None or not can_write(parts.table, state.reply):
        return plain(state.reply)
    begun = state._replace(reply=None)
    return DecoderWriter(
        parts,
        state.reply,
        max_len=model.config.max_len,
        padding_token=model.config.padding_token,
        reread=lambda tokens: model.read_on(tokens, begun)[1],
        plain=plain,
        source=Source.of(state.sources, state.real),
    )


def take_apart(model: "EncoderDecoderLanguageModel") -> DecoderParts | None:
    """
    ## The decoder as a list of matrices

    Or `None`, if the model is not what its class made it.
    """
    kinds = EncoderDecoder, PlacedTokens, PositionalEncoding, LearnedPositionalEncoding
    if not is_ordinary(model, type(model), *kinds):
        return None
    transformer = model.transformer
    layers, embedding = layers_of(transformer.decoder), transformer.tgt_embed
    if layers is None:
        return None
    embedding = cast(PlacedTokens, embedding)
    return DecoderParts(
        table=embedding.tokens.weight,
        scale=math.sqrt(model.config.d_model),
        places=embedding.positions.positional_encodings.squeeze(1),
        turns=None,
        norm_in=None,
        layers=layers,
        norm_out=norm_of(transformer.decoder.norm),
        output=map_of(cast(Generator, transformer.generator).projection),
        norm_first=model.config.norm_first,
    )
