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

**An interrupted save does not cost the old model.** New files are written completely
under other names, and then renamed, which is one atomic step for the file system.

**A mismatch is an error.** A model with 8 heads that is loaded as one with 4 has
parameters of the same shapes, and generates garbage. So the header of the parameters
contains a copy of `config.json`, which loading compares.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor, nn

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = 1  # raised when older versions of the library cannot read the files

Folder: TypeAlias = str | PathLike[str]
# What `config.json` holds: "format", "model", "class" and "config".
Description: TypeAlias = dict[str, Any]


def user_path(path: Folder) -> Path:
    """
    ## Paths of a user

    `~` and `~name` are home folders, in every argument and flag that names a path. A
    shell replaces them in `--out ~/run`, and some leave `--out=~/run` as it is. Raises
    `ValueError` if there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(
            f"the home folder in {path} is not known; write the path in full"
        ) from None


def cache_folder() -> Path:
    """
    ## Where files are kept that can be made or fetched again

    `$XDG_CACHE_HOME/labml_nn`, by default `~/.cache/labml_nn`. Raises
    `FileNotFoundError` for a user without a home folder, as in some containers, unless
    `XDG_CACHE_HOME` is set.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named, "labml_nn")
    try:
        return Path.home() / ".cache/labml_nn"
    except RuntimeError:
        raise FileNotFoundError(
            "the user has no home folder; XDG_CACHE_HOME can name a folder for caches"
        ) from None


def save_model(model: nn.Module, name: str, config: Any, folder: Folder) -> None:
    """
    ## Save

    * `model` may be on any device but `meta`
    * `name` is its name, such as `"elman"`
    * `config` is the dataclass from which it was built
    * `folder` is created if it does not exist; other files in it are left alone; `~` is
      the home folder
    """
    from safetensors.torch import save

    kind = type(model)
    document = {
        "format": FORMAT,
        "model": name,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "config": asdict(config),
    }
    # Numbers of NumPy have `item`, which returns Python's.
    text = json.dumps(document, indent=2, default=lambda x: x.item(), allow_nan=False)

    # Copies, because the format does not allow tensors that share memory.
    tensors = {
        tensor_name: tensor.detach().to("cpu", copy=True).contiguous()
        for tensor_name, tensor in _tensors(model).items()
    }

    # The header has one entry: several would be written in random order, and equal
    # models make equal files.
    weights = save(tensors, {"labml_nn": json.dumps({"description": text})})
    folder = user_path(folder)
    if folder.is_file():
        raise FileExistsError(
            f"{folder} is a file, and a model is saved as two files in a folder; "
            "choose another path"
        )
    folder.mkdir(parents=True, exist_ok=True)
    replace({folder / WEIGHTS: weights, folder / CONFIG: f"{text}\n".encode()})


def read_description(folder: Folder) -> Description:
    path = user_path(folder) / CONFIG
    return _parse(_read(path), path)


def load_parameters(model: nn.Module, description: Description, folder: Folder) -> None:
    """
    ## Load the parameters

    * `model` was built from `description`, which was read from `folder`

    Parameters keep the dtype in which they were saved; `load_state_dict` would convert
    them.
    """
    path = user_path(folder) / WEIGHTS
    saved, entry = _unpack(_read(path), path)
    if "description" in entry:
        written = _parse(entry["description"], path)
        if differences := _differences(written["config"], description["config"]):
            raise ValueError(
                f"{path} was not saved together with the {CONFIG} beside it: "
                f"{differences}; save the model again, or copy both files"
            )
    if differences := _differences(_kinds(saved), _kinds(_tensors(model))):
        raise ValueError(
            f"{path} does not fit the model that {CONFIG} describes: {differences}; "
            "was it saved by another version of the model?"
        )

    # Buffers that are not saved, such as sinusoids, get the dtype of the parameters.
    dtypes = {tensor.dtype for tensor in saved.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        model.to(dtypes.pop())
    for name, tensor in _tensors(model).items():
        tensor.data = saved[name].to(tensor.device, copy=True)


def replace(contents: Mapping[Path, bytes]) -> None:
    """
    ## Replace files atomically

    * `contents` are paths in existing folders, and the new contents of the files

    Each file is written under a temporary name in the same folder, random because two
    processes may save into it, and flushed to the disk with `fsync`; then all are
    renamed. If writing fails, the old files are unchanged.
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


# One parameter may have two names, such as an embedding that is the output matrix as
# well. It is saved once, under its first name.
def _tensors(model: nn.Module) -> dict[str, Tensor]:
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first.setdefault(id(tensor), (name, tensor))
    return dict(first.values())


def _parse(text: str | bytes, path: Path) -> Description:
    try:
        document: Description = json.loads(text)
        version, *_ = (document[key] for key in ("format", "model", "class"))
        document["config"] = {  # JSON has lists only; a frozen configuration has tuples
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document["config"].items()
        }
        is_newer = version > FORMAT
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} does not describe a model as `save` writes it; save the model "
            "again, or copy the file again"
        ) from error
    if is_newer:
        raise ValueError(
            f"{path} has format {version}, and this version of labml-nn reads up to "
            f"{FORMAT}; install a newer version"
        )
    return document


def _unpack(data: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    # Files of other programs have no entry of ours.
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged, incomplete or no safetensors file; copy it again, or "
            "save the model again"
        ) from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return tensors, json.loads(header.get("__metadata__", {}).get("labml_nn", "{}"))


# The first eight differences between a file and what it is compared with.
def _differences(file: dict[str, Any], expected: dict[str, Any]) -> str:
    different = [
        f"`{name}` is {file.get(name, 'missing')}, not {expected.get(name, 'missing')}"
        for name in sorted(file | expected)
        if file.get(name) != expected.get(name)
    ]
    return ", ".join(different[:8])


# Precisions may differ, and shapes and integers for floats may not.
def _kinds(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    return {
        name: f"{'float' if x.is_floating_point() else x.dtype} {list(x.shape)}"
        for name, x in tensors.items()
    }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"there is no {path}; expected a folder with {CONFIG} and {WEIGHTS}, as "
            "`save` writes it"
        ) from error
