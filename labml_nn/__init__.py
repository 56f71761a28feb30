r"""
---
title: labml_nn
summary: "An annotated PyTorch library: each page is a module that you can import."
---

**Language models** are created by [name](registry.py),
`labml_nn.create("feedback", n_vocab=65)`, and share one
[interface](language_model.py): the decoder-only transformer, the encoder–decoder, the
Feedback Transformer and the Elman network. [Sampling](sampling.py) generates text with
any of them, [saving](saving.py) writes them to files, and
[experiments](experiments/__init__.py) train them.

**Their parts** are in `labml_nn.transformers`, `labml_nn.recurrent` and
`labml_nn.optimizers`. Each lesson defines one architecture;
[kernels](kernels/__init__.py), attached below, compute the same faster.

Names, arguments and parameters of `labml-nn` 0.5.1 are unchanged, so that old code runs
and old checkpoints load; for imports that are gone, [an error](moved.py) names what
replaces them. Axes, symbols and masks follow one [notation](../notation.md).
"""

import labml_nn.kernels.attention
import labml_nn.kernels.decoding
import labml_nn.kernels.elman
import labml_nn.kernels.feedback_by_hand
import labml_nn.kernels.feedback_cpp
import labml_nn.kernels.feedback_decoding
import labml_nn.kernels.gated
import labml_nn.moved
import labml_nn.pytrees  # noqa: F401
from labml_nn.registry import create, load, models

__all__ = ["create", "load", "models"]
