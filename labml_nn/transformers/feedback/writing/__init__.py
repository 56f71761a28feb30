r"""
---
title: Writing with a feedback memory
summary: >
  A feedback language model reads its own words one at a time, and that is what it is
  good at: how it goes on with a text as fast as its parameters can be fetched.
---

To learn, a [feedback transformer](../index.html) has to take its steps in turn, where
an ordinary one takes them all at once. To write, both go step by step, and here
feedback has the better part: it has one memory for all layers, and of the text so far a
step looks at nothing else. What should a step cost, then?

With $C$ features and $L$ layers there are about $10 L C^2$ parameters in matrices, and
a token meets each of them once. There is nothing to share: what was fetched for this
token has gone from the nearest cache before the next one comes. So the price of a
token is that of **fetching the parameters**, and everything else is what we have added
to it. The form that one reads is far away from there. Its layers are modules, which
call modules, and each makes 60 calls into PyTorch, views among them, most of which take
longer to make than to compute.

A **writer** goes on with one text, or one batch of texts, and takes away what was
added:

* **It folds once.** What of the parameters can be worked out before a step, [gains,
  scales, common parts of queries](../by_hand/weights.py), is worked out for all steps
  of the text.
* **It owns its memory**, which [never grows](memory.py). `forward` makes a new state
  for each token, so that the old one is still good. Nobody wants it here.
* **It steps lean**, with [13 operations](step.py) a layer, or where there is a compiler
  with [one call for everything](compiled.py), embedding and bets included.

What stays is exactness: logits are those of `forward`. Whoever changes a parameter on
the way gets the logits of the new one. Rows that were written with the old one stay as
they are, as they do in a state.

**What it costs.** Milliseconds for a token on two threads of an AMD EPYC with AVX-512,
$C = 128$, $H = 4$, $L = 4$ and one text, medians of runs in turn:

| rows in memory | 64 | 128 | 256 |
|:--|--:|--:|--:|
| version 0.5.1, which reads the text again | 52 | 82 | 182 |
| `forward`, from state to state | 1.22 | 1.07 | 1.14 |
| lean | 0.36 | 0.32 | 0.35 |
| **compiled** | **0.073** | **0.074** | **0.089** |

In 0.074 ms, 3.2 MB of parameters and memory come at 43 GB a second.

| Page | What it holds |
|:--|:--|
| [Memory](memory.py) | two tensors, and when rows move |
| [Lean](step.py) | the step in PyTorch |
| [Compiled](compiled.py) | the step in C++ |
"""

from operator import attrgetter
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.checks import autocast_is_on
from labml_nn.language_model import DecodingStep
from labml_nn.transformers.feedback.by_hand.choice import HOOKS, objection
from labml_nn.transformers.feedback.memory import FeedbackMemory
from labml_nn.transformers.feedback.shared import FeedbackTransformerKV
from labml_nn.transformers.feedback.writing.compiled import CompiledStep, library_for
from labml_nn.transformers.feedback.writing.memory import RollingMemory
from labml_nn.transformers.feedback.writing.step import Parts, Step

if TYPE_CHECKING:
    from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel

VERSION = attrgetter("_version")


def can_write(model: "FeedbackLanguageModel", memory: FeedbackMemory) -> bool:
    r"""
    ## Is it a case for a writer?

    * `model` is the language model, of exactly this class
    * `memory` is what was read

    It is if keys and values are shared, on a processor, in a precision in which the
    [loop by hand](../by_hand/index.html) computes, if nothing is dropped, each text has
    a row, and nothing was changed of which the loop by hand does not know.
    """
    transformer, table = model.transformer, model.embed.weight
    rows = memory.keys.rows
    parts = [model, model.embed, model.dropout, model.output]
    has_hooks = any(part and getattr(part, name) for part in parts for name in HOOKS)
    return (
        isinstance(transformer, FeedbackTransformerKV)
        and transformer.backend != "plain"
        and not has_hooks
        and objection(transformer, FeedbackTransformerKV) is None
        and not (model.training and model.config.dropout_prob)
        and table.device.type == "cpu"
        and table.dtype in (torch.float32, torch.float64)
        and not autocast_is_on(table)
        and not any(parameter.is_inference() for parameter in model.parameters())
        and rows.dtype == table.dtype
        and len(memory) > 0
        and (memory.lengths is None or bool((memory.lengths > 0).all()))
    )


class FeedbackWriter:
    r"""
    ## Write on

    A function from a token to the bets on the next.
    """

    def __init__(self, model: "FeedbackLanguageModel", memory: FeedbackMemory) -> None:
        r"""
        * `model`, `memory` are those of `can_write`
        """
        self.model, self.padding_token = model, model.config.padding_token
        self.gave_up: DecodingStep | None = None
        # Memory is written to, step by step. Were it made in inference mode, nobody
        # could write to it outside.
        with torch.inference_mode(False), torch.no_grad():
            self.rows = RollingMemory(memory, model.config.max_len)
        self.step = self._get_ready()

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        r"""
        ### A token more

        * `tokens` are the next of each text, `[B]`

        Returns logits of what may follow, `[B, V]`, without gradients. Raises what
        `forward` of the model does.

        Padding would need a mask, and a token that is none an error. Both are rare, and
        `forward` knows about them. So it takes over, with the memory as it is.
        """
        if self.gave_up is not None or not self._can_read(tokens):
            return self._give_up(tokens)
        if self.versions != self._versions():
            self.step = self._get_ready()
        self.rows.make_room()
        logits = self.step(tokens)
        self.rows.go_on()
        return logits

    @torch.no_grad()
    def _give_up(self, tokens: Tensor) -> Tensor:
        if self.gave_up is None:
            self.gave_up = self.model.plain_writer(self.rows.value())
        return self.gave_up(tokens)

    # Nothing that a step reads asks for gradients, so it need not be told that nobody
    # wants any. PyTorch counts how often a tensor was written to; counts only grow, and
    # so does their sum.
    def _get_ready(self) -> Step | CompiledStep:
        with torch.inference_mode(False), torch.no_grad():
            self.parameters = list(self.model.parameters())
            self.versions = self._versions()
            parts = Parts.of(self.model)
            library = library_for(parts, self.model.transformer.backend)
            if library is None:
                return Step(parts, self.rows)
            return CompiledStep(library, parts, self.rows)

    def _versions(self) -> int:
        return sum(map(VERSION, self.parameters))

    def _can_read(self, tokens: Tensor) -> bool:
        # A batch is a few numbers, and Python compares those faster than PyTorch.
        if tokens.dtype not in (torch.int64, torch.int32) or tokens.dim() != 1:
            return False
        numbers = tokens.tolist()
        return (
            len(numbers) == self.rows.keys.shape[1]
            and min(numbers) >= 0
            and max(numbers) < self.model.config.n_vocab
            and self.padding_token not in numbers
        )


# ## Exercises
#
# **1.** How many numbers does a step have to fetch, with the sizes of the table and 128
# rows in memory? Which of them does a batch of eight texts share?
#
# <details><summary>Answer</summary>
#
# All matrices and biases, of the tables of distances the last 128 rows, of the
# embedding one row to read and all of them to bet; and 128 keys and values. A batch
# shares all but the last. So eight texts cost less than eight times one.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# with torch.device("meta"):
#     model = FeedbackLanguageModel.from_config({"n_vocab": 65})
# names = dict(model.named_parameters())
# tables = sum(p.numel() for name, p in names.items() if "key_pos" in name)
# others = sum(p.numel() for p in names.values()) - tables
# shared = others + tables // 256 * 128
# own = 2 * 128 * 128
# assert (shared, own) == (770_181, 32_768)
# ```
#
# </details>
#
# **2.** Let a writer go on with a text, and check it against `forward`. Then do so from
# the same state again, with another ending.
#
# <details><summary>Answer</summary>
#
# A writer copies the state that it begins with, so the state is still good.
#
# ```python
# import torch
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 7, "d_model": 12, "heads": 3, "n_layers": 2, "max_len": 8}
# model = FeedbackLanguageModel.from_config(config).double().eval()
# text, endings = torch.randint(7, (5, 2)), torch.randint(7, (2, 20, 2))
# _, state = model(text)
# for ending in endings:
#     write = model.decoding_step(state)
#     logits = torch.stack([write(tokens) for tokens in ending])
#     expected, _ = model(ending, state)
#     torch.testing.assert_close(logits, expected)
# ```
#
# </details>
#
# **3.** A writer has room for $2 \tau$ rows. What would room for $\tau + 1$ rows cost,
# or for $10 \tau$?
#
# <details><summary>Answer</summary>
#
# Rows move when the end is reached, $\tau$ of them, after as many steps as there was
# room beyond $\tau$. That is $\tau$ rows copied for a step, with $2 \tau$ one, and
# with $10 \tau$ a ninth of one.
#
# ```python
# import math
#
# def copied(tau, places, steps):
#     end = rows = 0
#     for _ in range(steps):
#         if end == places:
#             rows, end = rows + tau, tau
#         end += 1
#     return rows / steps
#
# for places in (257, 512, 2560):
#     expected = 256 / (places - 256)
#     assert math.isclose(copied(256, places, 100_000), expected, rel_tol=0.02)
# ```
#
# </details>
