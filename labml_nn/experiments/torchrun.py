r"""
---
title: What torchrun says, and what silence means
summary: >
  A process learns from variables of its environment which one it is, and from a broken
  connection that another one is gone.
---

`torchrun` starts the same program several times. It cannot pass arguments, since those
are yours, so it sets variables of the environment:

| Variable | Example | Meaning |
|:--|:--|:--|
| `WORLD_SIZE` | `4` | how many processes there are, on all machines |
| `RANK` | `2` | which of them this one is, from 0 |
| `LOCAL_RANK` | `0` | which one on its machine |
| `MASTER_ADDR`, `MASTER_PORT` | `10.0.0.7`, `29500` | where they meet |

They can also be left over from something else, or be set by hand and by halves. A
process that believes in others which do not exist waits for them, and somebody waits
for it. So they are read with care.
"""

import re
from collections.abc import Mapping

from torch import distributed as dist

__all__ = ["first_line", "is_silence", "read_announcement"]


def read_announcement(given: Mapping[str, str]) -> tuple[int, int, int]:
    """
    ## Who am I?

    * `given` are the variables by name

    Returns rank, size and local rank, `(0, 1, 0)` if nothing was said of others. Raises
    `ValueError` for variables that are missing, or cannot be.
    """
    if "WORLD_SIZE" not in given:
        return 0, 1, 0
    size = _number(given, "WORLD_SIZE", least=1)
    if size == 1:
        return 0, 1, 0
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not given.get(name):
            raise ValueError(_incomplete(name, size))
    rank = _number(given, "RANK", size=size)
    return rank, size, _number(given, "LOCAL_RANK", size=size)


def _number(
    given: Mapping[str, str], name: str, *, size: int | None = None, least: int = 0
) -> int:
    if name not in given:
        raise ValueError(_incomplete(name, size))
    text = given[name]
    if not text.isdecimal() or int(text) < least:
        raise ValueError(
            f"the environment variable {name} ({text!r}) must be a whole number of at "
            f"least {least}; torchrun sets it, and `unset {name}` takes it away"
        )
    if size is not None and int(text) >= size:
        raise ValueError(
            f"the environment variable {name} ({text}) must be below WORLD_SIZE "
            f"({size}); let torchrun set both"
        )
    return int(text)


def _incomplete(name: str, size: int | None) -> str:
    return (
        f"the environment says that there are {size} processes (WORLD_SIZE), but not "
        f"{name}; start with torchrun, or `unset WORLD_SIZE` to train with one"
    )


# ## Silence
#
# What Gloo, NCCL and the store say when somebody is not there any more. Gloo's errors
# are plain `RuntimeError`s, as are many others, so their words have to do.
SILENCE = (
    *("connection closed", "connection reset", "connection refused", "broken pipe"),
    *("timed out", "timeout"),
)


def is_silence(error: RuntimeError) -> bool:
    """
    Whether `error` says that another process cannot be heard, and not that something
    else is wrong.
    """
    if isinstance(error, dist.DistError):
        return True
    words = str(error).lower()
    return any(sign in words for sign in SILENCE)


def first_line(error: Exception) -> str:
    """
    What an error says first: Gloo's begin with a place in its source, and end in
    advice to its authors.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    said = re.sub(r"^(\[\S+:\d+\] )+", "", lines[0])
    return said.split(". ")[0].rstrip(". ")
