r"""
---
title: Writing at the speed of the weights
summary: >
  What a decoder has to do for one token, what it did besides, and how little time is
  left when that is gone.
---
"""

from labml_nn.transformers.writing.parts import (
    DecoderParts,
    is_ordinary,
    layers_of,
    map_of,
    norm_of,
)
from labml_nn.transformers.writing.step import Source
from labml_nn.transformers.writing.writer import DecoderWriter, can_write

__all__ = [
    "DecoderParts",
    "DecoderWriter",
    "Source",
    "can_write",
    "is_ordinary",
    "layers_of",
    "map_of",
    "norm_of",
]
