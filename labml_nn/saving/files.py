r"""
---
title: Tensors in a file
summary: >
  The format of the numbers, a checksum against bits that fall over, and how a file is
  replaced so that nobody ever sees half of it.
---

`torch.save` of a whole model stores its numbers together with instructions how to build
the objects around them. Reading the file *carries the instructions out*, whatever they
are: a checkpoint from a stranger is a program from a stranger. A
[safetensors](https://github.com/huggingface/safetensors) file holds no instructions. It
is made of three parts:

| Part | Size | Content |
|:--|:--|:--|
| length | 8 bytes, lowest first | how long the header is |
| header | that many bytes | JSON: name, dtype, shape and place of each tensor |
| numbers | the rest | all tensors, one behind the other |

Its readers refuse a file that is too short or too long. They do not notice a bit that
fell over on the way, and a model with a wrong bit in the exponent of one weight may
well go on talking, and talk nonsense. So `pack` adds a checksum of the numbers, in a
place that the format leaves for such things. Files that other programs wrote without it
can be read all the same.
"""

import json
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

NOTES, CHECKSUM = "labml_nn", "crc32"


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """
    ## Tensors to bytes

    * `tensors` have names, and may be on any device
    * `metadata` is text that goes into the header

    The checksum stands before the numbers and is known only after them, so they are
    packed twice. That is a copy in memory, and cheap beside the disk. It and `metadata`
    are one entry of the header: several would come in a new order every time, and the
    same model would not make the same file.
    """
    # safetensors is imported where it is needed: who never saves needs none.
    from safetensors.torch import save

    # Copies, because the format refuses tensors that share some of their memory.
    whole = {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in tensors.items()
    }
    checksum = _checksum(save(whole))
    return save(whole, {NOTES: json.dumps({**metadata, CHECKSUM: checksum})})


def unpack(data: bytes, source: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """
    ## Bytes to tensors

    * `data` is the content of a file, and `source` its name, for messages

    Returns tensors and metadata. Raises `ValueError` for anything but what `pack`, or
    another program that knows the format, has made.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    again = "copy it again, or save the model again"
    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        raise ValueError(
            f"{source} is damaged, or no safetensors file: {error}; {again}"
        ) from error
    header = json.loads(data[8 : _start_of_numbers(data)])
    metadata: dict[str, str] = header.get("__metadata__", {})
    if NOTES in metadata:
        try:
            metadata = {**json.loads(metadata[NOTES])}
        except (ValueError, TypeError):
            raise ValueError(
                f"{source} is damaged: what it says of itself is not text; {again}"
            ) from None
    if metadata.get(CHECKSUM, _checksum(data)) != _checksum(data):
        raise ValueError(
            f"{source} is damaged: its numbers are not those that were saved; {again}"
        )
    return tensors, metadata


def _start_of_numbers(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def _checksum(data: bytes) -> str:
    return f"{zlib.crc32(memoryview(data)[_start_of_numbers(data) :]):08x}"


def replace(contents: Mapping[Path, bytes]) -> None:
    """
    ## All new, or all old

    * `contents` are files of one folder, and what shall stand in them

    To open a file for writing empties it. Whoever is stopped then has lost the old and
    not yet written the new. So the new ones are written under other names, beside the
    old, until the disk says that it has them (`fsync`). Only then they are renamed,
    which is one step for the file system: a reader finds the old file or the new one.

    Whatever goes wrong before the renaming leaves the old files as they were, and none
    of the new. Raises `OSError` if the disk refuses.
    """
    new = {path: path.with_name(_other_name(path.name)) for path in contents}
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


def _other_name(name: str) -> str:
    # Two processes that save into one folder do not write into the same new file.
    return f".{name}.{secrets.token_hex(4)}.new"


# ## Exercises
#
# **1.** Read the shapes of all tensors in a file without a library, and without reading
# a single number.
#
# <details><summary>Answer</summary>
#
# The header is JSON, and its length comes first. A program that lists the models of a
# large folder does it in this way.
#
# ```python
# import io
# import json
# import torch
# from labml_nn.saving.files import pack
#
# file = io.BytesIO(pack({"a": torch.zeros(3, 5), "b": torch.ones(2)}, {}))
# length = int.from_bytes(file.read(8), "little")
# header = json.loads(file.read(length))
# shapes = {name: header[name]["shape"] for name in ("a", "b")}
# assert shapes == {"a": [3, 5], "b": [2]}
# ```
#
# </details>
#
# **2.** A cosmic ray flips one bit of a weight. How wrong can the weight become, and
# who notices?
#
# <details><summary>Answer</summary>
#
# A float has one bit of sign, eight of exponent and 23 of fraction. The last bit of the
# fraction changes 0.5 by 0.00000006; the highest of the exponent makes it
# $1.7 \cdot 10^{38}$. The format itself is content with both, the checksum with
# neither.
#
# ```python
# from pathlib import Path
# import torch
# from labml_nn.saving.files import pack, unpack
#
# data = bytearray(pack({"weight": torch.tensor([0.5])}, {}))
# data[-1] ^= 0b0100_0000
# assert torch.frombuffer(data[-4:], dtype=torch.float32) > 1e38
# try:
#     unpack(bytes(data), Path("model.safetensors"))
# except ValueError as error:
#     assert "not those that were saved" in str(error)
# else:
#     raise AssertionError("the damage went unnoticed")
# ```
#
# </details>
#
# **3.** Why must the new files lie in the folder of the old ones, and not in `/tmp`?
#
# <details><summary>Answer</summary>
#
# Renaming changes an entry of a directory and moves no data, which is why it is one
# step. That works only within one file system. `/tmp` is often another one, on another
# disk or in memory; from there the file would have to be copied, and a copy can stop
# half way.
#
# </details>
