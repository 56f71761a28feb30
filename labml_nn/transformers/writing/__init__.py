r"""
---
title: Writing at the speed of the weights
summary: >
  What a decoder has to do for one more token, what it did besides, and how little time
  is left when that is gone.
---

A model of four layers and 128 features has 800,000 parameters. To bet on the next
letter, it multiplies and adds each of them once. A processor does that in less than a
tenth of a millisecond. So how long does a letter take?

**Read all again.** The simplest program gives the model the whole text for each letter:
256 rows are computed, and one is looked at. nanoGPT writes so. But the
[keys and values](../keys_values.py) of the rows before are what they were. A model that
keeps them computes one row, and is several times as fast. It is still far from what the
arithmetic takes.

**Where the rest goes.** A letter is nearly 200 operations of PyTorch. Each of them
looks at types, shapes and devices and makes a tensor, which takes a microsecond or
several. Modules ask in between whether they are in training, and check what they are
given. And each letter makes a new state, for which keys and values of the whole context
are copied. All of that is there for good reasons. None of them changes from one letter
to the next.

So a [writer](writer.py) gets ready once, and then does the arithmetic:

| | What goes away | What is left |
|:--|:--|:--|
| [Parts](parts.py) | modules with their questions | a list of matrices |
| [Memory](memory.py) | copies that grow with the text | places, from the start |
| [Lean](step.py) | a third of the operations | 126, all in PyTorch |
| [Compiled](compiled.py) | nearly all others | a function of C++ |

Now the time is that of the weights. A row of $x W^\top$ uses each weight once, and
before it is used it has to be fetched. They are 3.2 MB, too many for the caches next to
a core, and in 80 microseconds they come at a rate of 40 GB a second. From there on only
smaller weights would be faster, or more texts at once, which share what was fetched.

Milliseconds on two threads of an AMD EPYC with AVX-512, for one letter of the default
model. Medians of runs in turn:

| Texts | Context | Reads all again | A state | Lean | **Compiled** |
|--:|--:|--:|--:|--:|--:|
| 1 | 64 | 2.2 | 1.2 | 0.45 | **0.10** |
| 1 | 128 | 2.6 | 0.87 | 0.35 | **0.08** |
| 1 | 256 | 5.0 | 1.0 | 0.34 | **0.09** |
| 8 | 64 | 15 | 2.2 | 1.1 | **0.37** |
| 8 | 128 | 22 | 1.7 | 0.66 | **0.32** |
| 8 | 256 | 36 | 2.1 | 0.77 | **0.41** |

Where all is read again, a letter costs more the longer the text is. Else it hardly
does, up to the point where eight texts have more keys and values than there are
weights. [The numbers of all models](../../../performance.md) are measured together.

```python
import torch
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
)

model = AutoregressiveTransformer(AutoregressiveConfig(n_vocab=65)).eval()
text = torch.randint(65, (40, 2))  # [T, B]
logits, state = model(text[:30])
write = model.decoding_step(state)
for token in text[30:]:
    last = write(token)  # [B, V]: what may follow
torch.testing.assert_close(last, model(text)[0][-1], rtol=1e-4, atol=1e-4)
```

[`generate`](../../sampling/generation.py) writes with it, whatever the model.
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

# ## Exercises
#
# **1.** How many bytes does a step have to fetch, for the default configuration and 256
# tokens of context? Which share of them are keys and values, for one text, and for
# eight?
#
# <details><summary>Answer</summary>
#
# All weights of the layers and of the output, 4 bytes each, once for all texts; and
# $2 L C$ numbers for each token of context and each text.
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# config = AutoregressiveConfig(n_vocab=65)
# model = AutoregressiveTransformer(config)
# weights = 4 * sum(parameter.numel() for parameter in model.parameters())
# context = 4 * 2 * config.n_layers * config.d_model * 256
# assert round(weights / 1e6, 1) == 3.2
# assert round(context / (weights + context), 2) == 0.25
# assert round(8 * context / (weights + 8 * context), 2) == 0.72
# ```
#
# </details>
#
# **2.** A state is a value, and a writer is not. Write two endings of one text with
# each. What has to be done differently?
#
# <details><summary>Answer</summary>
#
# From a state one can go on twice. A writer is where its last token has brought it, so
# the second ending needs a second writer. It begins with a copy of the state.
#
# ```python
# import torch
# from labml_nn.transformers.autoregressive import (
#     AutoregressiveConfig,
#     AutoregressiveTransformer,
# )
#
# config = AutoregressiveConfig(n_vocab=9, d_model=12, heads=3, n_layers=1)
# model = AutoregressiveTransformer(config).eval()
# _, state = model(torch.randint(9, (5, 2)))
# endings = torch.randint(9, (2, 4, 2))
# for ending in endings:
#     rows, _ = model(ending, state)
#     write = model.decoding_step(state)
#     for token, row in zip(ending, rows, strict=True):
#         torch.testing.assert_close(write(token), row, rtol=1e-4, atol=1e-4)
# ```
#
# </details>
#
# **3.** The window slides by halves, and then $W / 2$ rows are read at once. How much
# does that add to the mean time of a token, if a row among many takes a third of the
# time that it takes alone?
#
# <details><summary>Answer</summary>
#
# After each $W / 2$ tokens, $W / 2$ rows are read: one row for each token, at a third
# of the price. It adds a third, whatever $W$ is. Only the wait is longer where $W$ is.
#
# ```python
# from math import isclose
#
# def mean_time(window, tokens=100_000, alone=1.0, among_many=1 / 3):
#     used, time = 0, 0.0
#     for _ in range(tokens):
#         if used == window:
#             used = window // 2
#             time += used * among_many
#         used, time = used + 1, time + alone
#     return time / tokens
#
# assert isclose(mean_time(256), 4 / 3, abs_tol=0.01)
# assert isclose(mean_time(2048), 4 / 3, abs_tol=0.01)
# ```
#
# </details>
