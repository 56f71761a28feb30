"""A small site with a package of two modules and a recipe, in a folder of its own."""

import textwrap
from pathlib import Path

from pylit.notebooks.command import surroundings
from pylit.notebooks.document import Maker
from pylit.notebooks.recipe import read_recipes

BASE = "https://example.org/nn/"

LEAF = r'''
r"""
---
title: A leaf
summary: What others are made of.
---

It *doubles*, see [the root](root.py#Root) and [@elman1990finding, §2].

\begin{align}
y = 2 x
\end{align}
"""

import math
from collections.abc import Sequence

__all__ = ["Leaf"]

FACTOR = 2


def _check(x):
    # > [!WARNING]
    # > Zero is [no leaf](root.py), says [@elman1990finding].
    if x == 0:
        raise ValueError("zero")


class Leaf:
    r"""
    ## One leaf

    ![How it grows.](figure:leaves.one)
    """

    size: Sequence = ()

    def __init__(self, x):
        """
        * `x` is a number
        """
        _check(x)
        self.x = x

    def double(self):
        r"""
        ### Twice

        $$y = 2 x$$
        """
        # A note inside of a method stays there.
        return FACTOR * self.x

    def short(self):
        """One line stays."""
        return math.floor(self.x)
'''

ROOT = r'''
"""
---
title: The root
summary: It holds a leaf.
---

It is made of a [leaf](leaf.py).
"""

import math

from pkg.leaf import Leaf, FACTOR as DOUBLE


# A note above a function.
def root(x):
    """
    ## Grow

    Returns a number.
    """
    return Leaf(x).double() * DOUBLE + math.pi


# ## Differences
#
# None.
#
# ## Exercises
#
# **1.** Grow it.
#
# <details><summary>Answer</summary>
#
# ```python
# from pkg.root import root
#
# assert root(1) > 4
# ```
#
# </details>
'''

BIB = """
@article{elman1990finding,
  author = {Elman, Jeffrey L.},
  title = {Finding structure in time},
  journal = {Cognitive Science},
  year = {1990},
  doi = {10.1207/s15516709cog1402_1},
}
"""

RECIPE = """
---
title: Grow
summary: A tree, cell by cell.
experiment: tree
model: root
page: pkg.root
chapters: pkg.leaf pkg.root
---

Look at {{repository}}.

<!-- include: setup -->

<!-- chapters -->

## Grow it

```python parameters
x = 3
```

```python alt="Nothing."
print(f"{root(x):.2f} of {{model}}", {{"{{"}}x})
```

## Exercises

<!-- exercises -->
"""

SITE = f"""
title = "t"
base_url = "{BASE}"
repository = "me/repo"
branch = "main"
sources = ["pkg"]
"""


def tree(root: Path) -> Path:
    """The site, written to a folder."""
    files = {
        "pkg/__init__.py": "",
        "pkg/leaf.py": LEAF,
        "pkg/root.py": ROOT,
        "docs_src/site.toml": SITE,
        "docs_src/references.bib": BIB,
        "docs_src/pages/letters.md": "# Letters\n",
        "docs_src/notebooks/grow.md": RECIPE.replace('{{"{{"}}x}', "x"),
        "docs_src/notebooks/parts/setup.md": "## Set up\n\n```python\nimport os\n```\n",
    }
    for name, text in files.items():
        write(root / name, text)
    return root


def write(path: Path, text: str) -> None:
    """A file, in a folder that may have to be made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    """An edit of a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def cells(root: Path):
    """The cells of the one recipe of a site."""
    around, sources = surroundings(root)
    (recipe,) = read_recipes(around)
    return Maker(around, sources).cells(recipe)


def texts(root: Path, kind: str) -> list[str]:
    """The texts of its cells of one kind."""
    return [cell.text for cell in cells(root) if cell.kind == kind]
