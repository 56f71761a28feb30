r"""
---
title: The models of the library
summary: >
  A table of the language models here: what they are called, where they are, and how to
  make one by its name.
---

Four models of language read in four different ways, behind the same
[doors](language_model.py). Here they are called by name, so that a command line, a
configuration or a saved folder can say which one is meant:

```python
import labml_nn

print(labml_nn.models())
model = labml_nn.create("elman", n_vocab=65, d_hidden=32)
print(model)
```

| Function | Answer |
|:--|:--|
| `models()` | which models there are |
| `create(name, ...)` | a new one |
| `load(folder)` | one that was [saved](saving/__init__.py), whichever it is |
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast, overload

import torch

from labml_nn.checks import check_known
from labml_nn.language_model import LanguageModel
from labml_nn.saving import Folder, read_description
from labml_nn.saving.description import dotted

SITE = "https://lab-ml.github.io/nn/"


@dataclass(frozen=True)
class ModelEntry:
    """
    ## A line of the table

    * `name` is what `create` knows the model by
    * `class_name` is its class, with the module in which it stands
    * `summary` says in a line what is special about it
    * `page` is the address of the page that explains it
    """

    name: str
    class_name: str
    summary: str
    page: str

    def load_class(self) -> type[LanguageModel[Any]]:
        """
        The class itself. Its module is imported now and not before: `import labml_nn`
        stays light, and whoever asks for an Elman net does not wait for transformers.
        """
        module, _, name = self.class_name.rpartition(".")
        return cast(type[LanguageModel[Any]], getattr(import_module(module), name))


class ModelTable(Sequence[ModelEntry]):
    """
    ## The table

    A sequence of entries, which can also be asked for by name, and which prints well:
    `models()["elman"].summary`.
    """

    def __init__(self, *entries: ModelEntry) -> None:
        self.names = [entry.name for entry in entries]
        self._entries = entries

    @overload
    def __getitem__(self, which: int | str) -> ModelEntry: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[ModelEntry]: ...
    def __getitem__(self, which: int | str | slice) -> Any:
        """Raises `ValueError` for a name that is not there, with the one nearest."""
        if isinstance(which, str):
            check_known("model", which, self.names)
            return self._entries[self.names.index(which)]
        return self._entries[which]

    def __contains__(self, which: object) -> bool:
        """For a name, and for an entry."""
        return which in self.names or which in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ModelEntry]:
        return iter(self._entries)

    def __repr__(self) -> str:
        """Three lines for each model: what it is, its class, its page."""
        width = max(map(len, self.names)) + 2
        return "\n".join(
            f"{name:<{width}}{line}"
            for entry in self
            for name, line in (
                (entry.name, entry.summary),
                ("", entry.class_name),
                ("", entry.page),
            )
        )


# In the order in which they are best read.
MODELS = ModelTable(
    ModelEntry(
        "autoregressive",
        "labml_nn.transformers.autoregressive.AutoregressiveTransformer",
        "a transformer that looks back at the text so far",
        SITE + "labml_nn/transformers/autoregressive/index.html",
    ),
    ModelEntry(
        "encoder_decoder",
        "labml_nn.transformers.encoder_decoder.EncoderDecoderLanguageModel",
        "two transformers: one reads what was said, one writes the reply",
        SITE + "labml_nn/transformers/encoder_decoder.html",
    ),
    ModelEntry(
        "feedback",
        "labml_nn.transformers.feedback.language_model.FeedbackLanguageModel",
        "a transformer whose lowest layer sees what its highest worked out",
        SITE + "labml_nn/transformers/feedback/language_model.html",
    ),
    ModelEntry(
        "elman",
        "labml_nn.recurrent.elman.language_model.ElmanLanguageModel",
        "a recurrent network that keeps the text so far in one vector per layer",
        SITE + "labml_nn/recurrent/elman/language_model.html",
    ),
)


def models() -> ModelTable:
    """
    ## Which models are there?

    The table. `print(labml_nn.models())` shows it, and
    `[entry.name for entry in labml_nn.models()]` are the names.
    """
    return MODELS


def create(name: str, /, **config: Any) -> LanguageModel[Any]:
    """
    ## A new model

    * `name` is one of the table
    * `config` are the fields of its configuration; all but `n_vocab` have defaults,
      which make a small model of characters

    Raises `ValueError` for a name or a field that does not exist, with the one that was
    probably meant, and what the configuration raises for values that cannot be.
    """
    return MODELS[name].load_class().from_config(config)


def load(
    folder: Folder, *, device: torch.device | str | None = None
) -> LanguageModel[Any]:
    """
    ## A saved model

    * `folder` is where `save` wrote, whichever model it was
    * `device` is where the model shall live; `None` means the CPU

    The class is looked up in the table. Nothing is imported because a file says so: a
    class of your own is loaded with its own `load`.

    Raises `ValueError` for a model that is not in the table, and what `load` of the
    class raises for files that are missing or damaged or do not fit.
    """
    description = read_description(folder)
    model = description.model
    known = MODELS[model].load_class() if model in MODELS.names else None
    if known is None or dotted(known) != description.class_name:
        raise ValueError(
            f"{folder} holds the model {model!r} of the class "
            f"{description.class_name}, which is not in the table of models "
            f"({', '.join(MODELS.names)}); import the class and use its `load`"
        )
    return known.load(folder, device=device)


# ## Exercises
#
# **1.** Which of the models has the fewest parameters, with its defaults and 65 tokens?
#
# <details><summary>Answer</summary>
#
# ```python
# import labml_nn
#
# def size(name):
#     model = labml_nn.create(name, n_vocab=65)
#     return sum(parameter.numel() for parameter in model.parameters())
#
# sizes = {entry.name: size(entry.name) for entry in labml_nn.models()}
# assert min(sizes, key=sizes.get) == "elman"
# ```
#
# </details>
#
# **2.** Write a command line with the options `--model`, which offers the names of the
# table, and `--set field=value` for the configuration.
#
# <details><summary>Answer</summary>
#
# The values are Python literals. Whether a field exists and a value can be is known to
# the configuration, and its errors are fit to be shown.
#
# ```python
# import argparse
# import ast
# import labml_nn
#
# def field(text):
#     name, _, value = text.partition("=")
#     return name, ast.literal_eval(value)
#
# parser = argparse.ArgumentParser()
# names = [entry.name for entry in labml_nn.models()]
# parser.add_argument("--model", choices=names, default="autoregressive")
# parser.add_argument("--set", type=field, action="append", default=[])
#
# line = "--model elman --set n_vocab=65 --set d_hiden=20"
# given = parser.parse_args(line.split())
# try:
#     labml_nn.create(given.model, **dict(given.set))
# except ValueError as error:
#     assert "did you mean 'd_hidden'" in str(error)
# ```
#
# </details>
#
# **3.** Make an Elman net whose bets are half as bold, save it, and load it. What does
# `labml_nn.load` say to it, and why?
#
# <details><summary>Answer</summary>
#
# It refuses. The folder says which class it needs, and that class is not in the table.
# To import whatever a file names would let the file decide which program runs. You
# know the class, so you can ask it.
#
# ```python
# import tempfile
# import labml_nn
# from labml_nn.recurrent.elman.language_model import ElmanLanguageModel
#
# class Shy(ElmanLanguageModel):
#     def forward(self, tokens, state=None):
#         logits, state = super().forward(tokens, state)
#         return logits / 2, state
#
# with tempfile.TemporaryDirectory() as folder:
#     Shy.from_config({"n_vocab": 65}).save(folder)
#     try:
#         labml_nn.load(folder)
#     except ValueError as error:
#         assert "import the class and use its `load`" in str(error)
#     assert type(Shy.load(folder)) is Shy
# ```
#
# </details>
