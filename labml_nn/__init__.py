r"""
---
title: The library
summary: Small, exact PyTorch modules, each a page to read and a module to import.
---

Every file of this package is a page of the site, and every page is a module that you
can import. They need PyTorch,
[jaxtyping](https://docs.kidger.site/jaxtyping/) for the shapes in their signatures, and
nothing else.

- `labml_nn.transformers`: attention and what is built of it, from one attention head to
  the encoder–decoder Transformer and the Feedback Transformer.

The names, arguments and parameters are those of the earlier `labml-nn` 0.5.1, so that
old code runs and old checkpoints load. Letters for shapes and the convention for masks
are explained under [shapes and symbols](../notation.md).
"""
