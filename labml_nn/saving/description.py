r"""
---
title: The description of a model
summary: >
  What has to be known beside the numbers: which model they belong to, and how it was
  configured. It can be read by people, written as JSON, and compared.
---

A file of numbers does not say what to do with them. Which model they belong to and how
it was built stands beside them, in a file that can be opened in any editor:

```json
{
  "format": 1,
  "model": "elman",
  "class": "labml_nn.recurrent.elman.language_model.ElmanLanguageModel",
  "config": {"n_vocab": 65, "d_hidden": 256, "n_layers": 2}
}
```

The same text is kept with the numbers. When the two disagree, files of two models were
mixed up, and the difference has a name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

CONFIG = "config.json"

# One more than this is written when older versions of the library can no longer read
# what the newer ones write.
FORMAT = 1


@dataclass(frozen=True)
class Description:
    """
    ## What a model is

    * `model` is its name, the one that `labml_nn.create` knows
    * `class_name` is its class; classes of your own may share a name
    * `config` holds the fields of its configuration
    """

    model: str
    class_name: str
    config: Mapping[str, Any]

    @classmethod
    def of(cls, model: type, config: Any) -> "Description":
        """`model` is a class, and `config` a dataclass from which it can be built."""
        values = {field.name: getattr(config, field.name) for field in fields(config)}
        return cls(_name_of(model), dotted(model), values)

    def text(self) -> str:
        """
        As JSON. Raises `TypeError` for a field that JSON cannot hold, such as a
        function.
        """
        for name, value in self.config.items():
            try:
                json.dumps(value, default=_number, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"the field `{name}` ({value!r}) cannot be written to {CONFIG}: "
                    f"{error}; use numbers, text, booleans, None, or lists of them"
                ) from error
        document = {
            "format": FORMAT,
            "model": self.model,
            "class": self.class_name,
            "config": dict(self.config),
        }
        return json.dumps(document, indent=2, default=_number) + "\n"

    @classmethod
    def parse(cls, text: str | bytes, source: Path) -> "Description":
        """
        From JSON; `source` is the name of the file, for messages. Raises `ValueError`
        for what is no description, or one that a newer version of the library wrote.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ValueError(
                f"{source} is damaged, it is not JSON: {error}; save the model again"
            ) from error
        kinds = {"format": int, "model": str, "class": str, "config": dict}
        for key, kind in kinds.items():
            if not isinstance(document, dict) or not isinstance(
                document.get(key), kind
            ):
                raise ValueError(
                    f"{source} does not describe a model of this library: {key!r} is "
                    "missing or of another kind; was it written by `save`?"
                )
        if document["format"] > FORMAT:
            raise ValueError(
                f"{source} has format {document['format']}, and this version of "
                f"labml-nn reads up to {FORMAT}; upgrade it: pip install --upgrade "
                "labml-nn"
            )
        # JSON has lists only; several numbers in a frozen configuration are a tuple.
        config = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document["config"].items()
        }
        return cls(document["model"], document["class"], config)

    def check_class(self, model: type) -> None:
        """Raises `ValueError` if `model` is another class than the one described."""
        if self.model != _name_of(model):
            raise ValueError(
                f"the folder holds the model {self.model!r} ({self.class_name}), not "
                f"{_name_of(model)!r} ({dotted(model)}); use labml_nn.load(folder), or "
                "`load` of its own class"
            )

    def differences(self, other: "Description") -> list[str]:
        """In what two descriptions differ, as `heads: 4 and 8`."""
        ours = {"model": self.model, **self.config}
        theirs = {"model": other.model, **other.config}
        return [
            f"{name}: {ours.get(name)!r} and {theirs.get(name)!r}"
            for name in ours | theirs
            if ours.get(name) != theirs.get(name)
        ]


# ## Small pieces
#
# Names of classes; and the numbers of other libraries, which JSON does not know.
def _name_of(model: type) -> str:
    return getattr(model, "name", "") or model.__qualname__


def dotted(model: type) -> str:
    """Module and name of a class."""
    return f"{model.__module__}.{model.__qualname__}"


def _number(value: object) -> int | float:
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")
