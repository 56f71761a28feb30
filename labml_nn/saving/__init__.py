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

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from labml_nn.saving.description import CONFIG, Description
from labml_nn.saving.files import pack, replace, unpack

WEIGHTS = "model.safetensors"

__all__ = [
    "Description",
    "Folder",
    "load_parameters",
    "read_description",
    "same_random_state",
    "save_model",
]

# A folder, by its name or as a path.
Folder = str | PathLike[str]


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
    for name, tensor in sorted(saved.items()):
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
# A file that is not there is a common mistake, and gets more than its name.
def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"there is no {path}; expected a folder with {CONFIG} and {WEIGHTS}, as "
            "`save` writes it"
        ) from error


# ## Exercises
#
# **1.** You have renamed a parameter of your model. Rescue the folders that were saved
# before.
#
# <details><summary>Answer</summary>
#
# Read the numbers, give them their new names, and write them with the same metadata.
#
# ```python
# import tempfile
# from pathlib import Path
# import labml_nn
# from labml_nn.saving.files import pack, replace, unpack
#
# def rename(path, old, new):
#     tensors, metadata = unpack(path.read_bytes(), path)
#     tensors[new] = tensors.pop(old)
#     replace({path: pack(tensors, metadata)})
#
# model = labml_nn.create("elman", n_vocab=65)
# with tempfile.TemporaryDirectory() as folder:
#     model.save(folder)
#     path = Path(folder) / "model.safetensors"
#     rename(path, "output_bias", "bias")  # as it was called once, say
#     try:
#         labml_nn.load(folder)
#     except ValueError as error:
#         assert "`output_bias` [65] is missing in the file" in str(error)
#         assert "`bias` [65] is not in the model" in str(error)
#     rename(path, "bias", "output_bias")
#     assert labml_nn.load(folder).config == model.config
# ```
#
# </details>
#
# **2.** How much smaller is the file of a model in bfloat16, and what does it cost?
#
# <details><summary>Answer</summary>
#
# Half as large. A number keeps 8 significant bits, so it is off by at most one part in
# 256. That is little for a model that is only asked, and too much for one that is to be
# trained on: an update smaller than that is rounded away.
#
# ```python
# import tempfile
# from pathlib import Path
# import torch
# import labml_nn
#
# model = labml_nn.create("elman", n_vocab=65)
# with tempfile.TemporaryDirectory() as folder:
#     path = Path(folder) / "model.safetensors"
#     model.save(folder)
#     whole = path.stat().st_size
#     before = model.embedding.weight.clone()
#     model.bfloat16().save(folder)
#     assert 0.49 < path.stat().st_size / whole < 0.51
#     after = labml_nn.load(folder).float().embedding.weight
# error = (after - before).abs() / before.abs()
# assert 0 < error.max() <= 1 / 256
# ```
#
# </details>
#
# **3.** Start a larger model with the embeddings of a smaller one that was saved.
#
# <details><summary>Answer</summary>
#
# The rest has other shapes, and `load` would rightly refuse it. But the names tell what
# is what.
#
# ```python
# import tempfile
# from pathlib import Path
# import torch
# import labml_nn
# from labml_nn.saving.files import unpack
#
# small = labml_nn.create("elman", n_vocab=65, d_model=32, d_hidden=48)
# large = labml_nn.create("elman", n_vocab=65, d_model=32, d_hidden=96)
# with tempfile.TemporaryDirectory() as folder:
#     small.save(folder)
#     path = Path(folder) / "model.safetensors"
#     tensors, _ = unpack(path.read_bytes(), path)
# with torch.no_grad():
#     large.embedding.weight.copy_(tensors["embedding.weight"])
# assert torch.equal(large.embedding.weight, small.embedding.weight)
# ```
#
# </details>
