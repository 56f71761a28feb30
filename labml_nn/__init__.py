r"""
---
title: The library
summary: Small, exact PyTorch modules, each a page to read and a module to import.
---

Every file of this package is a page of the site, and every page is a module that you
can import. They need PyTorch and
[jaxtyping](https://docs.kidger.site/jaxtyping/) for the shapes in their signatures, and
[safetensors](https://github.com/huggingface/safetensors) to write models to files.

**Models of language**, ready to train:

- `labml_nn.transformers.autoregressive`, `labml_nn.transformers.encoder_decoder`,
  `labml_nn.transformers.feedback.language_model` and
  `labml_nn.recurrent.elman.language_model` read in four different ways
- `labml_nn.registry` makes them by name: `labml_nn.create("feedback", n_vocab=65)`

**What they have in common:**

- `labml_nn.language_model`: how a model is called, trained and asked
- `labml_nn.sampling`: how it writes
- `labml_nn.saving`: how it becomes a folder, and comes back
- `labml_nn.experiments`: how it is trained, from a text to a table of results;
  `python -m labml_nn train feedback` does it from a terminal
- `labml_nn.attention_maps`: what it looks at

**What they are made of:**

- `labml_nn.transformers`: attention and what is built of it, from one attention head to
  the encoder–decoder Transformer and the Feedback Transformer
- `labml_nn.recurrent`: networks that read word after word
- `labml_nn.optimizers`: from a gradient to a step

The names, arguments and parameters are those of the earlier `labml-nn` 0.5.1 where it
had them, so that old code runs and old checkpoints load. Letters for shapes and the
convention for masks are explained under [shapes and symbols](../notation.md).
"""

from labml_nn.registry import create, load, models

__all__ = ["create", "load", "models"]
