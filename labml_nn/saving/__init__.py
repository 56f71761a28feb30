r"""
---
title: Models in files
summary: >
  A folder with two files, one to read and one full of numbers. What is written, and
  what is compared before it is believed.
---

A trained model is two things: numbers, and the knowledge of what to do with them. A
folder of ours has a file for each.

```text
my_model/
    config.json          which model it is, and its configuration
    model.safetensors    its parameters and buffers, by name
```

`config.json` holds the name of a model of this library and the fields of its
[configuration](../configuration.py). The class comes from the library, never from the
file. [The other file](files.py) holds numbers and nothing that could be run. So a model
from a stranger can be loaded without trusting the stranger.

**What can go wrong?** A process may be stopped while it writes, a disk may be full, a
file may be copied by halves, or belong to another model. The first two must not cost
you the model that was there before, and the others must not go unnoticed. The worst
fault is the silent one: a model with 8 heads that is read as one with 4 has parameters
of exactly the same shapes, raises no error, and talks nonsense.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.saving.files import pack, replace, unpack

CONFIG, WEIGHTS = "config.json", "model.safetensors"

# One more than this is written when older versions of the library can no longer read
# what the newer ones write.
FORMAT = 1

# A folder, by its name or as a path.
Folder = str | PathLike[str]


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


def save_model(model: nn.Module, description: Description, folder: Folder) -> None:
    """
    ## To write

    * `model` is what to save; it may be on any device
    * `description` says what it is
    * `folder` is made if it does not exist; what else is in it stays

    What can fail because of the model fails before a file is opened, and what can fail
    because of the disk before an old file is replaced. What remains are two renamings.

    Between the two the process may still die. If the configuration is what it was, as
    in every saving of a training run but the first, the folder then holds the new
    numbers and is in order. If it is not, the two files contradict each other. So the
    numbers carry a copy of their description, and reading notices.

    Raises `ValueError` for a model without numbers (on the device `meta`), `TypeError`
    for a configuration that JSON cannot hold, and `OSError` if the disk refuses.
    """
    text = description.text()
    state = model.state_dict(keep_vars=True)
    tensors = {
        name: state[name] for name, first in _owners(state).items() if name == first
    }
    weights = pack(tensors, {"description": text})
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    replace({folder / WEIGHTS: weights, folder / CONFIG: text.encode()})


def read_description(folder: Folder) -> Description:
    """
    ## To read what it is

    Raises `FileNotFoundError` if there is no such file, and `ValueError` for one that
    is damaged or too new.
    """
    path = Path(folder) / CONFIG
    return Description.parse(_read(path), path)


def load_parameters(model: nn.Module, description: Description, folder: Folder) -> None:
    """
    ## To read the numbers

    * `model` is a new model, built from the description
    * `description` is that of `folder`

    Numbers keep their type: a model that was saved in double precision comes back in
    double precision. Raises `FileNotFoundError`, or a `ValueError` that lists all that
    does not fit; then `model` is as it was.
    """
    path = Path(folder) / WEIGHTS
    saved, metadata = unpack(_read(path), path)
    if "description" in metadata:
        written = Description.parse(metadata["description"], path)
        if differences := description.differences(written):
            raise ValueError(
                f"{path} was not saved together with the {CONFIG} beside it, which "
                f"says {'; '.join(differences)} there; save the model again, or copy "
                "both files"
            )
    state = model.state_dict(keep_vars=True)
    owners = _owners(state)
    _check_fit({name: state[name] for name in owners.values()}, saved, path)

    # Constants that are not in the file, such as sinusoids, take the type of the rest,
    # as they did when `.double()` was called on the model that was saved.
    types = {tensor.dtype for tensor in saved.values() if tensor.is_floating_point()}
    if len(types) == 1:
        model.to(types.pop())
    for name, tensor in model.state_dict(keep_vars=True).items():
        tensor.data = saved[owners[name]].to(tensor.device, copy=True)


def _owners(state: Mapping[str, Tensor]) -> dict[str, str]:
    """
    ## Each tensor once

    Tied parameters, such as an embedding that is the output matrix too, are one tensor
    with two names. It is written under the first of them. A model that is built again
    ties them again, and one copy fills both.

    Returns the first name of each tensor, by each of its names.
    """
    first: dict[int, str] = {}
    for name, tensor in state.items():
        if tensor.is_meta:
            raise ValueError(
                f"`{name}` is on the device `meta` and has no numbers; give the model "
                "memory with model.to_empty(device=...) and fill it"
            )
        first.setdefault(id(tensor), name)
    return {name: first[id(tensor)] for name, tensor in state.items()}


# ## Every difference has a name
#
# `load_state_dict` says most of this too. But it fills whole numbers with fractions
# without a word, and has copied half of the tensors by the time it objects to the rest.
def _check_fit(
    own: Mapping[str, Tensor], saved: Mapping[str, Tensor], path: Path
) -> None:
    faults = [
        f"`{name}` {list(tensor.shape)} is missing in the file"
        for name, tensor in own.items()
        if name not in saved
    ]
    for name, tensor in saved.items():
        if name not in own:
            faults.append(f"`{name}` {list(tensor.shape)} is not in the model")
        elif tensor.shape != own[name].shape:
            faults.append(
                f"`{name}` has shape {list(tensor.shape)} in the file, and "
                f"{list(own[name].shape)} in the model"
            )
        elif _kind(tensor) != _kind(own[name]):
            faults.append(
                f"`{name}` holds {_kind(tensor)} ({tensor.dtype}) in the file, and "
                f"{_kind(own[name])} ({own[name].dtype}) in the model"
            )
    if faults:
        more = [f"and {len(faults) - 8} more"] if len(faults) > 8 else []
        listed = "\n  ".join([*faults[:8], *more])
        raise ValueError(
            f"{path} does not fit the model that {CONFIG} describes:\n  {listed}\n"
            "was it saved by another version of the model?"
        )


def _kind(tensor: Tensor) -> str:
    if tensor.is_complex():
        return "complex numbers"
    if tensor.is_floating_point():
        return "fractions"
    return "truth values" if tensor.dtype == torch.bool else "whole numbers"


@contextmanager
def same_random_state() -> Iterator[None]:
    """
    ## Loading draws no random numbers

    A new model fills itself with random numbers, which the file then replaces. Here the
    generator of the CPU is put back, so that a seeded program does the same whether or
    not it loads a model on its way.
    """
    with torch.random.fork_rng(devices=[]):
        yield


# ## Small pieces
#
# Names of classes; files; and the numbers of other libraries, which JSON does not know.
def _name_of(model: type) -> str:
    return getattr(model, "name", "") or model.__qualname__


def dotted(model: type) -> str:
    """Module and name of a class."""
    return f"{model.__module__}.{model.__qualname__}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"there is no {path}; expected a folder with {CONFIG} and {WEIGHTS}, as "
            "`save` writes it"
        ) from error


def _number(value: object) -> int | float:
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")
