r"""
---
title: A download that cannot leave half a file
summary: >
  Fetch a megabyte, wait no longer than is reasonable, believe only what has the right
  checksum, and put it where the next run finds it.
---

A download is a few lines of Python, and it works on the day it is written. Later the
network is gone, or the server answers with a page that says "please log in", or someone
presses Ctrl-C in the middle, or eight processes start at the same moment and all of
them write into one file. The worst is not the run that fails. It is the next one, which
finds a file with the right name and the wrong content, and trains on it.

So the text stays in memory until it is complete and its checksum is right. Then it is
written under another name and renamed, which is [one step for the file
system](../../saving.py). Whoever looks sees no file, or all of it. Eight
processes rename eight equal files, one over the other, and nothing is lost but work.
"""

import hashlib
import logging
import os
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import gettempdir
from threading import Thread
from urllib.request import urlopen

from labml_nn.saving import replace

__all__ = ["ADDRESS", "FILE", "SHA256", "cache_folder", "download", "read_kept"]

log = logging.getLogger(__name__)

# Where everybody has it from, and how it is recognised.
ADDRESS = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
    "tinyshakespeare/input.txt"
)
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SIZE = 1_115_394
FILE = "tinyshakespeare.txt"

# Seconds until somebody answers, and then until all of it is here.
ANSWERS_WITHIN, ENDS_WITHIN = 4.0, 60.0


def cache_folder() -> Path:
    """
    ## Where downloads are kept

    `$XDG_CACHE_HOME/labml_nn`, or `~/.cache/labml_nn` if the variable is not set. A
    user without a home, as in some containers, has the folder for temporary files. What
    lies there can be deleted at any time: it is fetched again.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "labml_nn"
    try:
        return Path.home() / ".cache" / "labml_nn"
    except RuntimeError:
        return Path(gettempdir()) / "labml_nn"


def read_kept(folder: Path) -> str:
    """
    ## What is there from an earlier run

    The checksum is computed every time. That costs a millisecond or two, and no run is
    misled by a file that somebody has edited.

    Returns the text. Raises `FileNotFoundError` if there is none, and `ValueError` for
    another text.
    """
    path = folder / FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"there is no {path}") from error
    return _checked(data, str(path))


def download(folder: Path) -> str:
    """
    ## Fetch it

    Who waits is not who fetches. Finding the server, connecting to each of its
    addresses and reading have limits of their own, or none. So another thread does all
    that, and this one looks at the clock. The other is a *daemon*: if it still hangs
    when the program ends, nobody waits for it.

    There is one attempt. If it fails there are other ways to the text, and a program
    that tries again and again is a burden to a server that is in trouble already.

    * `folder` is where the next run shall find it

    Returns the text. Raises `OSError` if there is no answer, none in time, or one that
    is an error, and `ValueError` for an answer that is another text.
    """
    answers: SimpleQueue[bytes | Exception | None] = SimpleQueue()
    Thread(target=_fetch, args=(ADDRESS, answers), daemon=True).start()
    answer = _wait(answers, ANSWERS_WITHIN, "no answer")
    if answer is None:
        answer = _wait(answers, ENDS_WITHIN, "not all of it came")
    if not isinstance(answer, bytes):
        raise ConnectionError(f"{ADDRESS}: {answer}") from answer
    text = _checked(answer, f"what {ADDRESS} sent")

    # A text that cannot be kept is a text all the same.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace({folder / FILE: answer})
    except OSError as error:
        log.warning("The next run has to download again: %s", error)
    return text


def _wait(
    answers: "SimpleQueue[bytes | Exception | None]", seconds: float, what: str
) -> bytes | Exception | None:
    try:
        return answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"{ADDRESS}: {what} within {seconds:g} seconds") from None


# ## The thread
#
# It reports twice: when somebody answers, and when all is here. One byte more than we
# want is asked for. That is enough to notice a wrong answer, even one that never ends.
def _fetch(address: str, answers: "SimpleQueue[bytes | Exception | None]") -> None:
    try:
        with urlopen(address, timeout=ENDS_WITHIN) as response:
            answers.put(None)
            answers.put(response.read(SIZE + 1))
    except (OSError, HTTPException, ValueError) as error:
        answers.put(error)


def _checked(data: bytes, name: str) -> str:
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        size = f"more than {SIZE:,}" if len(data) > SIZE else f"{len(data):,}"
        raise ValueError(
            f"{name} is not Tiny Shakespeare: {size} bytes with the SHA-256 "
            f"{found[:12]}…, where {SIZE:,} with {SHA256[:12]}… were expected"
        )
    return data.decode()


# ## Exercises
#
# **1.** Why compare a checksum, when the size is known as well? And why is the sum of
# all bytes not good enough?
#
# <details><summary>Answer</summary>
#
# A file of the right size can have another content: a disk that was full, a proxy that
# puts zeros where something is missing, an editor that turns `'` into `"`. A sum does
# not see what changed places. SHA-256 changes half of its bits for any change.
#
# ```python
# from hashlib import sha256
#
# text = b"But, soft! what light through yonder window breaks?"
# other = b"But, soft! what light through yonder widnow breaks?"
# assert len(text) == len(other) and sum(text) == sum(other)
# first, second = (int(sha256(x).hexdigest(), 16) for x in (text, other))
# assert 90 < (first ^ second).bit_count() < 166  # of 256
# ```
#
# </details>
#
# **2.** A server sends one byte each second. Every read of a program with a time-out of
# ten seconds succeeds. How long does a megabyte take, and what helps?
#
# <details><summary>Answer</summary>
#
# Thirteen days. The time-out of a connection limits the silence between two bytes, not
# the whole. A limit of the whole needs a clock that is looked at by somebody who does
# not wait for bytes. Here the clock is the time-out of a queue:
#
# ```python
# import time
# from queue import Empty, SimpleQueue
# from threading import Thread
#
# def slow_server(queue):
#     for _ in range(100):
#         time.sleep(0.01)  # never silent for long
#     queue.put(b"all of it")
#
# queue = SimpleQueue()
# begun = time.monotonic()
# Thread(target=slow_server, args=(queue,), daemon=True).start()
# try:
#     queue.get(timeout=0.1)
# except Empty:
#     waited = time.monotonic() - begun
# assert 0.1 <= waited < 0.6
# ```
#
# </details>
#
# **3.** Two processes find the cache empty at the same moment. What happens if both
# open the file for writing, and what if both write another file and rename it?
#
# <details><summary>Answer</summary>
#
# To open for writing empties the file, also for the one who has just written it. Who
# reads in between gets a part. A name that is given to another file takes nothing away
# from those who have the old one open:
#
# ```python
# import tempfile
# from pathlib import Path
# from labml_nn.saving import replace
#
# with tempfile.TemporaryDirectory() as folder:
#     path = Path(folder) / "text.txt"
#     replace({path: b"the first"})
#     with path.open("rb") as reader:
#         replace({path: b"the second"})
#         assert reader.read() == b"the first"  # whole
#     with path.open("rb") as reader:
#         path.open("wb").close()  # the other way
#         assert reader.read() == b""
# ```
#
# </details>
