r"""
---
title: Models by name
summary: "Create and load language models by name: `create`, `models`, `load`."
---

All language models of the library share one [interface](language_model.py). This table
gives them names, so that a command line, a configuration or a saved folder can choose
one:

```python
import labml_nn

print(labml_nn.models())
model = labml_nn.create("elman", n_vocab=65, d_hidden=32)
print(model)
```
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import torch

from labml_nn.checks import check_known
from labml_nn.language_model import LanguageModel
from labml_nn.saving import Folder, read_description


@dataclass(frozen=True)
class ModelEntry:
    """
    ## Model entry

    The name of a model, its class with the module, and its idea in a line.
    """

    name: str
    class_name: str
    summary: str

    def load_class(self) -> type[LanguageModel[Any]]:
        """Imports the module and returns the class."""
        module, _, name = self.class_name.rpartition(".")
        return cast(type[LanguageModel[Any]], getattr(import_module(module), name))


class ModelTable(tuple[ModelEntry, ...]):
    """
    ## Model table

    A tuple of entries, also indexed by name: `models()["elman"].summary`.
    """

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [entry.name for entry in self]

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, int | slice):
            return super().__getitem__(which)
        check_known("model", which, self.names)
        return self[self.names.index(which)]

    def __repr__(self) -> str:
        width = max(map(len, self.names)) + 2
        return "\n".join(
            f"{entry.name:<{width}}{entry.summary}\n{'':<{width}}{entry.class_name}"
            for entry in self
        )


# In a good order for reading their pages.
MODELS = ModelTable(
    [
        ModelEntry(
            "autoregressive",
            "labml_nn.transformers.autoregressive.AutoregressiveTransformer",
            "a decoder-only transformer with a KV cache",
        ),
        ModelEntry(
            "encoder_decoder",
            "labml_nn.transformers.encoder_decoder.EncoderDecoderLanguageModel",
            "a sequence-to-sequence transformer: encodes a source, generates a target",
        ),
        ModelEntry(
            "feedback",
            "labml_nn.transformers.feedback.language_model.FeedbackLanguageModel",
            "a transformer whose layers attend to a memory of all layers",
        ),
        ModelEntry(
            "elman",
            "labml_nn.recurrent.elman.ElmanLanguageModel",
            "a simple recurrent network with one hidden state per layer",
        ),
    ]
)


def models() -> ModelTable:
    """
    ## List of models

    `print(labml_nn.models())` shows the table; `models().names` are the names.
    """
    return MODELS


def create(name: str, /, **config: Any) -> LanguageModel[Any]:
    """
    ## Create a model

    * `name` is a name of the table
    * `config` are the fields of its configuration. All but `n_vocab` have defaults,
      for a small character model
    """
    check_known("model", name, MODELS.names)
    entry: ModelEntry = MODELS[name]
    return entry.load_class().from_config(config)


def load(
    folder: Folder, *, device: torch.device | str | None = None
) -> LanguageModel[Any]:
    """
    ## Load a model

    * `folder` is where `save` wrote
    * `device` is the device of the model; `None` is the CPU

    The class is looked up in the table by the model's name: if loading imported any
    class that a file names, the file would decide which code runs. A class of your own
    has its own `load`.
    """
    description = read_description(folder)
    name, saved = description["model"], description["class"]
    if name in MODELS.names:
        known: type[LanguageModel[Any]] = MODELS[name].load_class()
        # Modules have moved between versions, so only the name of the class counts. A
        # subclass has another one, and may compute something else.
        if saved.startswith("labml_nn.") and saved.endswith(f".{known.__qualname__}"):
            return known.load(folder, device=device)
    raise ValueError(
        f"{folder} holds the model {name!r} of the class {saved}, which is not in the "
        f"table of models ({', '.join(MODELS.names)}); import the class and use its "
        "`load`"
    )
