r"""
---
title: Transformers
summary: Attention and what is built of it.
---
"""

from labml_nn.transformers.mha import MultiHeadAttention

__all__ = ["MultiHeadAttention"]
