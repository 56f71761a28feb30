r"""
---
title: What a flag means
summary: The help of the command line, taken from the notes of the configurations.
---

Every field of a configuration is explained once, in the note of its class:

```text
* `d_k`, `d_v` are the features that a head has for a query or a key, and for a
  value; $C / H$ if not given
```

The site shows that note, and the command line should say the same. If its help were
written down a second time, one of the two would soon be wrong. So it is read from the
note. What is made for a page, TeX, links and quotes of the literature, becomes what a
terminal can show:

```python
from labml_nn.experiments.command_line.meanings import meanings
from labml_nn.transformers.autoregressive import AutoregressiveConfig

assert meanings(AutoregressiveConfig)["d_v"] == (
    "the features that a head has for a query or a key, and for a value; C / H if not "
    "given"
)
```
"""

import inspect
import re
from dataclasses import fields

# A point of a list, with the lines that are indented below it; and at its beginning the
# names of fields.
POINT = re.compile(r"^\* (.+(?:\n  .*)*)", re.MULTILINE)
NAMES = re.compile(r"((?:`\w+`(?:, | and |, and )?)+)(:| is| are)?\s+(?=\S)")


def meanings(config: type) -> dict[str, str]:
    """
    ## Fields and what they mean

    * `config` is a dataclass whose docstring, or that of a class from which it is made,
      has a point for each field

    A field is explained where it is declared. A point may begin with several fields,
    and mention another further on; that is better than no explanation.

    Returns the meaning of each field in plain text, an empty one if there is none.
    """
    return {field.name: _meaning(config, field.name) for field in fields(config)}


def _meaning(config: type, name: str) -> str:
    family = [one for one in config.__mro__ if one is not object]
    declared = [one for one in family if name in inspect.get_annotations(one)]
    points = [point for one in [*declared, *family] for point in _points(one)]
    for names, meaning in points:
        if name in names:
            return meaning
    return next((meaning for _, meaning in points if name in meaning.split()), "")


def _points(config: type) -> list[tuple[list[str], str]]:
    # What each point begins with, and what it says then.
    points = []
    for point in POINT.findall(inspect.cleandoc(config.__doc__ or "")):
        if begin := NAMES.match(text := " ".join(point.split())):
            names = re.findall(r"\w+", begin[1].replace(" and ", " "))
            points.append((names, plain(text[begin.end() :])))
    return points


# ## For a terminal
#
# What is left out or replaced, one after the other.
PLAIN = (
    (re.compile(r" ?\(?\[-?@[^\]]*\](?:\([^)]*\))?\)?"), ""),  # works that are cited
    (re.compile(r" \(§[\d.]+\)"), ""),
    (re.compile(r"`None`"), "none"),  # as it is typed
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),  # links
    (re.compile(r"\\(?:var)?epsilon"), "ε"),
    (re.compile(r"\\tau"), "τ"),
    (re.compile(r"\\times"), "×"),
    (re.compile(r"\\cdot"), "·"),
    (re.compile(r"\\sqrt\{?(\w+)\}?"), r"√\1"),
    (re.compile(r"\\(\w+)|[${}`]|\\[;,]"), r"\1"),
)


def plain(text: str) -> str:
    r"""
    * `text` is of a note, with Markdown and TeX

    Returns it without: `$\varepsilon$`, say, becomes ε.
    """
    for pattern, other in PLAIN:
        text = pattern.sub(other, text)
    return text.strip()
