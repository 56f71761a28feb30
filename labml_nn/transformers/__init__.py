r"""
---
title: Transformers
summary: >
  Attention and the architectures that are built from it, one page each, in the order in
  which they build on each other.
---

A recurrent network processes a sequence step by step and keeps what it has seen in a
hidden state of fixed size. A transformer keeps a vector for every position and lets
each position attend to the others. **Attention** is the only part of it in which
positions exchange information.

| Page | Content |
|:--|:--|
| [Multi-head attention](mha.py) | scaled dot-product attention, heads, KV cache |
| [Positional encoding](positional_encoding.py) | sinusoids, learned, relative schemes |
| [Feed-forward network](feed_forward.py) | the other half of a layer |
| [Layer normalisation](layer_norm.py) | features of a fixed scale |
| [Masks](utils.py) | causal masks and padding masks |
| [Encoder–decoder](models.py) | layer, encoder, decoder, training, greedy decoding |
| [Label smoothing](label_smoothing_loss.py) | targets that are not quite certain |
| [Sequence-to-sequence language model](encoder_decoder.py) | batches of pairs, state |
| [Autoregressive transformer](autoregressive.py) | the decoder-only language model |
| [Sliding-window context](sliding_window.py) | text longer than the context |
| [Modern components](modern.py) | RoPE, RMSNorm, QK-norm, gated networks |
| [Feedback Transformer](feedback/__init__.py) | one memory for all layers |
| [Fast weights](fast_weights/__init__.py) | a matrix as memory, which replaces values |

All of them take sequences of vectors `[T, B, C]`, sequence first; see [shapes and
symbols](../../notation.md). The classes of version 0.5.1 can be imported from here.
"""

from typing import NoReturn

from labml_nn.moved import NAMES, message
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
)
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)

__all__ = [
    "AutoregressiveConfig",
    "AutoregressiveTransformer",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "Generator",
    "MultiHeadAttention",
    "TransformerLayer",
]


def __getattr__(name: str) -> NoReturn:
    """Names of 0.5.1 that are [not here](../moved.py) raise an error that helps."""
    old = f"{__name__}.{name}"
    if name in NAMES:
        raise ImportError(message(old, NAMES[name]), name=old)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
