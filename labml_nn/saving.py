r"""
---
title: Saving and loading models
summary: >
  A model in a folder: its configuration as JSON and its parameters as safetensors,
  written atomically, and compared before they are loaded.
---

A trained model is its parameters and the knowledge of what to do with them. A folder
has a file for each:

```text
my_model/
    config.json          which model it is, and its configuration
    model.safetensors    parameters and buffers, by name
```

**Loading runs no code of a file.** Reading a pickle executes what it contains.
`config.json` only names a model and the fields of its
[configuration](language_model.py), and
[safetensors](https://github.com/huggingface/safetensors) holds arrays. The class comes
from the library, by the model's name, never from the file.

**An interrupted save must not cost the old model.** New files are written completely
under other names, and then renamed, which is one atomic step for the file system.

**A mismatch must not go unnoticed.** A model with 8 heads that is loaded as one with 4
has parameters of the same shapes, and generates garbage. So the file of parameters
contains a copy of `config.json`, which loading compares, and a checksum: the format
detects a truncated file, but not a flipped bit.
"""

import json
import os
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = 1  # raised when older versions of the library cannot read the files
# One entry of the header of `model.safetensors`: several are written in random order,
# and equal models make equal files.
ENTRY, CHECKSUM = "labml_nn", "crc32"

Folder = str | PathLike[str]


@dataclass(frozen=True)
class Description:
    """
    ## Description of a model

    * `model` is its name, such as `"elman"`
    * `class_name` is its class with the module, to recognise subclasses
    * `config` holds the fields of its configuration
    """

    model: str
    class_name: str
    config: Mapping[str, Any]

    @classmethod
    def of(cls, model: type, config: Any) -> "Description":
        """`model` is a class, and `config` the dataclass from which it is built."""
        values = {field.name: getattr(config, field.name) for field in fields(config)}
        return cls(_name(model), f"{model.__module__}.{model.__qualname__}", values)

    def text(self) -> str:
        """JSON. Raises `TypeError` for a field that JSON cannot express."""
        values = dict(self.config)
        document = {
            "format": FORMAT,
            "model": self.model,
            "class": self.class_name,
            "config": values,
        }
        try:
            written = json.dumps(document, indent=2, default=_number, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"the configuration {values} cannot be written to {CONFIG}: "
                f"{error}; use numbers, strings, booleans, None, or lists of them"
            ) from error
        return written + "\n"

    @classmethod
    def parse(cls, text: str | bytes, source: Path) -> "Description":
        """
        `source` is the path of the file, for messages. Raises `ValueError` for a text
        that `text` did not write, or a newer version of the library.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ValueError(
                f"{source} is damaged, it is not JSON: {error}; save the model again"
            ) from error
        keys = {"format": int, "model": str, "class": str, "config": dict}
        if not isinstance(document, dict) or not all(
            isinstance(document.get(key), kind) for key, kind in keys.items()
        ):
            raise ValueError(
                f"{source} does not describe a model of this library; expected "
                f"{', '.join(keys)}, as `save` writes them"
            )
        if document["format"] > FORMAT:
            raise ValueError(
                f"{source} has format {document['format']}, and this version of "
                f"labml-nn reads up to {FORMAT}; install a newer version"
            )
        # JSON has lists only; in a frozen configuration they are tuples.
        config = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document["config"].items()
        }
        return cls(document["model"], document["class"], config)

    def check_class(self, model: type) -> None:
        """Raises `ValueError` if this does not describe the class `model`."""
        if self.model != _name(model):
            raise ValueError(
                f"the folder holds the model {self.model!r} ({self.class_name}), not "
                f"{_name(model)!r}; use labml_nn.load(folder), or `load` of its class"
            )

    def differences(self, other: "Description") -> list[str]:
        """The fields in which two descriptions differ, as `heads: 4 and 8`."""
        mine = {"model": self.model, **self.config}
        theirs = {"model": other.model, **other.config}
        return [
            f"{name}: {mine.get(name)!r} and {theirs.get(name)!r}"
            for name in mine | theirs
            if mine.get(name) != theirs.get(name)
        ]


def save_model(model: nn.Module, description: Description, folder: Folder) -> None:
    """
    ## Save

    * `model` may be on any device but `meta`
    * `folder` is created if it does not exist; other files in it are left alone

    If the process dies between the two renamings of `replace`, new parameters are
    beside the old `config.json`; loading reports the difference, if there is one.

    Raises `ValueError` for a model on `meta`, `TypeError` for a configuration that JSON
    cannot express, `NotADirectoryError` if `folder` is a file, and `OSError` if writing
    fails. The files that were there before are then unchanged.
    """
    text = description.text()
    state = model.state_dict(keep_vars=True)
    owners = _owners(state)
    tensors = {name: state[name] for name in dict.fromkeys(owners.values())}
    weights = pack(tensors, {"description": text})
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(
            f"`folder` ({folder}) is a file or lies below one; expected a folder, or a "
            "path at which to create one"
        ) from error
    replace({folder / WEIGHTS: weights, folder / CONFIG: text.encode()})


def read_description(folder: Folder) -> Description:
    """
    ## Read the description

    Raises `FileNotFoundError`, or `ValueError` if `config.json` is damaged.
    """
    path = Path(folder) / CONFIG
    return Description.parse(_read(path), path)


def load_parameters(model: nn.Module, description: Description, folder: Folder) -> None:
    """
    ## Load the parameters

    * `model` was built from `description`, which was read from `folder`

    Parameters keep the dtype in which they were saved; `load_state_dict` would convert
    them. Raises `FileNotFoundError`, or a `ValueError` that lists what does not match;
    then `model` is unchanged.
    """
    path = Path(folder) / WEIGHTS
    saved, metadata = unpack(_read(path), path)
    if "description" in metadata:
        written = Description.parse(metadata["description"], path)
        if differences := description.differences(written):
            raise ValueError(
                f"{path} was not saved together with the {CONFIG} beside it: "
                f"{'; '.join(differences)}; save the model again, or copy both files"
            )
    state = model.state_dict(keep_vars=True)
    owners = _owners(state)
    _check_match({name: state[name] for name in owners.values()}, saved, path)

    # Buffers that are not saved, such as sinusoids, get the dtype of the parameters.
    dtypes = {tensor.dtype for tensor in saved.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        model.to(dtypes.pop())
    for name, tensor in model.state_dict(keep_vars=True).items():
        tensor.data = saved[owners[name]].to(tensor.device, copy=True)


def _owners(state: Mapping[str, Tensor]) -> dict[str, str]:
    """
    ### Tied parameters

    One parameter may have two names, such as an embedding that is the output matrix as
    well. It is saved once, under its first name. Returns that name for each name.
    """
    first: dict[int, str] = {}
    for name, tensor in state.items():
        if tensor.is_meta:
            raise ValueError(
                f"`{name}` is on the device `meta` and has no values; allocate memory "
                "with model.to_empty(device=...) and initialise it"
            )
        first.setdefault(id(tensor), name)
    return {name: first[id(tensor)] for name, tensor in state.items()}


def _check_match(
    own: Mapping[str, Tensor], saved: Mapping[str, Tensor], path: Path
) -> None:
    faults = []
    for name in sorted(own.keys() | saved.keys()):
        if name not in saved:
            faults.append(f"`{name}` {list(own[name].shape)} is missing in the file")
        elif name not in own:
            faults.append(f"`{name}` {list(saved[name].shape)} is not in the model")
        elif _kind(saved[name]) != _kind(own[name]):
            faults.append(
                f"`{name}` has {_shown(saved[name])} in the file, and "
                f"{_shown(own[name])} in the model"
            )
    if faults:
        more = [f"and {len(faults) - 8} more"] if len(faults) > 8 else []
        listed = "\n  ".join([*faults[:8], *more])
        raise ValueError(
            f"{path} does not fit the model that {CONFIG} describes:\n  {listed}\n"
            "was it saved by another version of the model?"
        )


@contextmanager
def same_random_state() -> Iterator[None]:
    """
    ## Random state

    Building a model draws random parameters, which loading then replaces. Inside this
    block the draws leave the CPU's generator unchanged.
    """
    with torch.random.fork_rng(devices=[]):
        yield


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """
    ## Tensors to bytes

    A safetensors file is the length of its header in 8 bytes, the header in JSON, and
    the tensors. The checksum is in the header and covers the tensors, so they are
    serialised twice.
    """
    from safetensors.torch import save

    # Copies, because the format does not allow tensors that share memory.
    whole = {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in tensors.items()
    }
    entry = {**metadata, CHECKSUM: _checksum(save(whole))}
    return save(whole, {ENTRY: json.dumps(entry)})


def unpack(data: bytes, source: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """
    ## Bytes to tensors

    Returns tensors and metadata; files of other programs have no metadata of ours.
    Raises `ValueError` for damaged data; `source` is the path, for the message.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    advice = "copy it again, or save the model again"
    try:
        tensors: dict[str, Tensor] = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        text = header.get("__metadata__", {}).get(ENTRY, "{}")
        metadata: dict[str, str] = {**json.loads(text)}
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(
            f"{source} is damaged, or no safetensors file: {error}; {advice}"
        ) from error
    if metadata.get(CHECKSUM, _checksum(data)) != _checksum(data):
        raise ValueError(
            f"{source} is damaged: its checksum is not that of its tensors; {advice}"
        )
    return tensors, metadata


def replace(contents: Mapping[Path, bytes]) -> None:
    """
    ## Replace files atomically

    * `contents` are paths in existing folders, and the new contents of the files

    Each file is written under a temporary name in the same folder, random because two
    processes may save into it, and flushed to the disk with `fsync`; then all are
    renamed. If anything fails before, the old files are unchanged, and no temporary
    file remains. Raises `OSError` if writing fails.
    """
    new = {
        path: path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        for path in contents
    }
    try:
        for path, data in contents.items():
            with new[path].open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for path, written in new.items():
            written.replace(path)
    finally:
        for written in new.values():
            written.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"there is no {path}; expected a folder with {CONFIG} and {WEIGHTS}, as "
            "`save` writes it"
        ) from error


def _checksum(data: bytes) -> str:
    start = 8 + int.from_bytes(data[:8], "little")
    return f"{zlib.crc32(memoryview(data)[start:]):08x}"


def _name(model: type) -> str:
    return getattr(model, "name", "") or model.__qualname__


# Precisions may differ, and shapes and integers for floats may not.
def _kind(tensor: Tensor) -> tuple[torch.Size, bool, bool, bool]:
    is_bool = tensor.dtype == torch.bool
    return tensor.shape, tensor.is_floating_point(), tensor.is_complex(), is_bool


def _shown(tensor: Tensor) -> str:
    return f"shape {list(tensor.shape)} and dtype {tensor.dtype}"


# NumPy's numbers, which `json` does not know.
def _number(value: object) -> int | float:
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")
