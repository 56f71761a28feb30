r"""
---
title: Transformers
summary: >
  Attention, and the models that are built of it, each on a page of its own and in the
  order in which they build on each other.
---

A recurrent network reads like a listener: word after word, with all that it remembers
in one vector. A transformer reads like somebody with the page in front of them, who can
look back at any word at any time. The looking is called *attention*. Everything else in
these models is there to make good use of it.

| Page | What it adds |
|:--|:--|
| [Scaled dot-product attention](scaled_dot_product.py) | the one equation |
| [Heads](heads.py) | one vector becomes many small ones |
| [Multi-head attention](mha.py) | each position looks at the others |
| [Masks](utils.py) | what it must not see |
| [Feed-forward network](feed_forward.py) | what it makes of what it saw |
| [Layer normalisation](layer_norm.py) | vectors kept to one size on their way |
| [Positional encoding](positional_encoding.py) | where it stands |
| [Embeddings](embeddings.py) | how a token becomes a vector, and gets its position |
| [The transformer layer](layer.py) | attention, then feed-forward, each added on top |
| [Stacks of layers](stacks.py) | layers on layers: an encoder, a decoder |
| [Encoder and decoder](models.py) | two stacks make a translator |
| [Label smoothing](label_smoothing_loss.py) | a loss that leaves room for doubt |
| [Keys and values, kept](keys_values.py) | what the future needs of the past |
| [A context that slides](window.py) | texts longer than what a model can see at once |
| [Autoregressive transformer](autoregressive/__init__.py) | bets on what follows |
| [A model that replies](encoder_decoder/__init__.py) | reads a text, writes another |
| [Rotary positions](rotary.py) | queries and keys, turned by where they stand |
| [RMS normalisation](rms_norm.py) | size alone is taken away |
| [Queries and keys of one length](qk_norm.py) | scores that cannot run away |
| [Feedback Transformer](feedback/__init__.py) | a memory of its own highest thoughts |

All of them work on sequences of vectors in the order `[T, B, C]`, sequence first;
[shapes and symbols](../../notation.md) explains the letters. Here is a language model
of 65 tokens and three layers, put together by hand. It lacks only a loss, a memory and
a text; the [autoregressive transformer](autoregressive/__init__.py) lacks only a text:

```python
import torch
from labml_nn.transformers import (
    Encoder,
    Generator,
    MultiHeadAttention,
    TransformerLayer,
)
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding
from labml_nn.transformers.utils import subsequent_mask

layer = TransformerLayer(
    d_model=64,
    self_attn=MultiHeadAttention(heads=4, d_model=64),
    feed_forward=FeedForward(d_model=64, d_ff=256),
    dropout_prob=0.1,
)
embed = EmbeddingsWithPositionalEncoding(d_model=64, n_vocab=65)
encoder = Encoder(layer, n_layers=3)
generator = Generator(n_vocab=65, d_model=64)

tokens = torch.randint(65, (10, 2))  # [T, B]
logits = generator(encoder(embed(tokens), subsequent_mask(10)))
assert logits.shape == (10, 2, 65)  # [T, B, V]
```
"""

# The names that `labml_nn.transformers` has in version 0.5.1.
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Decoder, Encoder, TransformerLayer

__all__ = ["Decoder", "Encoder", "MultiHeadAttention", "TransformerLayer"]
