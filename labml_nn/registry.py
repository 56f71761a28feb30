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

from labml_nn.checks import Table
from labml_nn.language_model import LanguageModel
from labml_nn.saving import Folder, read_description


@dataclass(frozen=True)
class ModelEntry:
    """
    ## Model entry

    The class of a model, with its module, and its idea in a line.
    """

    class_name: str
    summary: str

    def load_class(self) -> type[LanguageModel[Any]]:
        module, _, name = self.class_name.rpartition(".")
        return cast(type[LanguageModel[Any]], getattr(import_module(module), name))


class ModelTable(Table[ModelEntry]):
    what = "model"


# In a good order for reading their pages.
MODELS = ModelTable(
    autoregressive=ModelEntry(
        "labml_nn.transformers.autoregressive.AutoregressiveTransformer",
        "a decoder-only transformer with a KV cache",
    ),
    encoder_decoder=ModelEntry(
        "labml_nn.transformers.encoder_decoder.EncoderDecoderLanguageModel",
        "a sequence-to-sequence transformer: encodes a source, generates a target",
    ),
    feedback=ModelEntry(
        "labml_nn.transformers.feedback.language_model.FeedbackLanguageModel",
        "a transformer whose layers attend to a memory of all layers",
    ),
    elman=ModelEntry(
        "labml_nn.recurrent.elman.ElmanLanguageModel",
        "a simple recurrent network with one hidden state per layer",
    ),
    lstm=ModelEntry(
        "labml_nn.lstm.LSTMLanguageModel",
        "a recurrent network with gates and a second state to keep numbers in",
    ),
    gru=ModelEntry(
        "labml_nn.lstm.gru.GRULanguageModel",
        "a recurrent network with gates and one state, which keeps or replaces",
    ),
    linear_attention=ModelEntry(
        "labml_nn.recurrent.linear_attention.LinearAttentionLanguageModel",
        "attention without softmax, as a recurrent network whose state is a matrix",
    ),
    delta_net=ModelEntry(
        "labml_nn.recurrent.delta_net.DeltaNetLanguageModel",
        "linear attention that replaces values instead of adding to them",
    ),
    mamba2=ModelEntry(
        "labml_nn.recurrent.mamba2.Mamba2LanguageModel",
        "a recurrent network that decides from its input how long it remembers",
    ),
)


def models() -> ModelTable:
    """
    ## List of models

    `print(labml_nn.models())` shows the table; `list(labml_nn.models())` is the names.
    """
    return MODELS


def create(name: str, /, **config: Any) -> LanguageModel[Any]:
    """
    ## Create a model

    * `name` is a name of the table
    * `config` are the fields of its configuration. All but `n_vocab` have defaults,
      for a small character model
    """
    return MODELS[name].load_class().from_config(config)


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
    if name in MODELS:
        known = MODELS[name].load_class()
        # Modules have moved between versions, so only the name of the class counts. A
        # subclass has another one, and may compute something else.
        if saved.startswith("labml_nn.") and saved.endswith(f".{known.__qualname__}"):
            return known.load(folder, device=device)
    raise ValueError(
        f"{folder} holds the model {name!r} of the class {saved}, which is not in the "
        f"table of models ({', '.join(MODELS)}); import the class and use its "
        "`load`"
    )
