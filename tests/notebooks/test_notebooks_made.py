"""Notebooks: made of modules, nothing lost, nothing twice; run, and kept."""

import re
import textwrap
from pathlib import Path
from unittest.mock import Mock

import nbformat
import pytest

from docs_src.notebooks import NotebookError
from docs_src.notebooks import __main__ as command
from docs_src.notebooks.document import NotebookBuilder, as_text, cell, document, has_run

BASE = "https://example.org/nn/"

LEAF = r'''
r"""
---
title: A leaf
summary: What others are made of.
---

It *doubles*, see [the root](root.py#Root), [pkg.root](pkg.root), [letters](letters.md#a),
[home](../index.md), [above](#top), [PyTorch](https://pytorch.org) and
[@elman1990finding, §2].

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

#: Shapes in signatures, which become comments.
TYPED = """
from jaxtyping import Bool, Float, Int
from labml_nn.kernels import reference
from torch import Tensor, nn


class Layer(nn.Module):
    # A kernel attaches here.
    @reference
    def forward(
        self,
        x: Float[Tensor, "T #B *axes"] | None = None,
        *,
        y: Int[Tensor, " B"],
    ) -> tuple[Float[Tensor, "T _"], Bool[Tensor, ""]]:
        return x

    def both(self, x: Float[Tensor, "T"], n: int, y: Int[Tensor, "B"]) -> Tensor:
        return x
"""

BIB = """
@article{elman1990finding, author = {Elman, Jeffrey L.}, title = {Finding structure in time},
  journal = {Cognitive Science}, year = {1990}, doi = {10.1207/s15516709cog1402_1}}
"""

RECIPE = """
---
title: Grow
summary: A tree, cell by cell.
page: pkg.root
chapters: pkg.leaf pkg.root
---

Look at it.

<!-- include: setup -->

<!-- chapters -->

## Grow it

```python parameters
x = 3
```

```python alt="Nothing."
print(f"{root(x):.2f} of root", x)
```

## Exercises

<!-- exercises -->
"""

TREE = {
    "pkg/__init__.py": "",
    "pkg/leaf.py": LEAF,
    "pkg/root.py": ROOT,
    "pkg/typed.py": TYPED,
    "docs_src/site.toml": f'title = "t"\nbase_url = "{BASE}"\nsources = ["pkg"]\n'
    'repository = "me/repo"\nbranch = "main"\n',
    "docs_src/references.bib": BIB,
    "docs_src/notebooks/grow.md": RECIPE,
    "docs_src/notebooks/parts/setup.md": "## Set up\n\n```python\nimport os\n```\n",
}
GROW, ROOT_FILE = "docs_src/notebooks/grow.md", "pkg/root.py"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.lstrip("\n"), encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small site with a recipe."""
    for name, text in TREE.items():
        write(tmp_path / "tree" / name, text)
    return tmp_path / "tree"


def cells(root: Path) -> list[nbformat.NotebookNode]:
    return [*NotebookBuilder(root).cells("grow")]


def texts(root: Path, kind: str) -> list[str]:
    return [cell.source for cell in cells(root) if cell.cell_type == kind]


def cell_with(found: list[str], part: str) -> str:
    (one,) = [text for text in found if part in text]
    return one


#: Of each cell its kind, its chapter and its first line.
ORDER = """
markdown -    # Grow
markdown -    Look at it.
markdown -    ## Set up
code     -    import os
markdown leaf ## A leaf
code     leaf import math
code     leaf def _check(x):
markdown leaf ### One leaf
code     leaf class Leaf:
markdown root ## The root
code     root DOUBLE = FACTOR
markdown root A note above a function.
code     root def root(x):
markdown root ### Differences
markdown -    ## Grow it
code     -    x = 3
code     -    print(f"{root(x):.2f} of root", x)
markdown -    ## Exercises
markdown -    **1.** Grow it.
markdown -    ## The package
code     -    # %pip install "labml-nn @ git+https://github.com/me/repo"
"""


def test_the_order_is_that_of_the_page_and_cells_run(root: Path, capsys):
    found = cells(root)
    chapters = [c.metadata.get("labml_nn", {}).get("chapter", "pkg.-")[4:] for c in found]
    seen = [
        f"{cell.cell_type:8} {chapter:4} {cell.source.splitlines()[0]}"
        for cell, chapter in zip(found, chapters, strict=True)
    ]
    assert seen == ORDER.strip().splitlines()
    code, names = texts(root, "code"), {}
    for text in code:
        exec(text, names)
    assert capsys.readouterr().out == "15.14 of root 3\n"
    # Imports of what is in a cell go, others come once.
    together = "\n".join(code)
    assert together.count("import math") == 1
    assert "from pkg" not in together and "__all__" not in together
    # Exercises are set once, at the end, with their answers.
    notes = texts(root, "markdown")
    assert sum("Grow it.\n" in note for note in notes) == 1
    assert "```python\nfrom pkg.root import root" in notes[-2]


def test_notes_of_methods_stand_above_the_class_and_their_titles_in_it(root: Path):
    note = cell_with(texts(root, "markdown"), "### One leaf")
    assert "#### `__init__`\n\n* `x` is a number" in note
    assert "#### Twice · `double`\n\n$$y = 2 x$$" in note
    assert "One line stays." not in note
    assert f"*On [the page of this chapter]({BASE}pkg/leaf.html) there is a figure:* How" in note
    assert cell_with(texts(root, "code"), "class Leaf") == textwrap.dedent(
        '''\
        class Leaf:
            """One leaf."""

            size: Sequence = ()

            def __init__(self, x):
                _check(x)
                self.x = x

            def double(self):
                """Twice."""
                # A note inside of a method stays there.
                return FACTOR * self.x

            def short(self):
                """One line stays."""
                return math.floor(self.x)'''
    )
    check = cell_with(texts(root, "code"), "def _check")
    assert "    # Warning: Zero is no leaf, says Elman 1990.\n    if" in check


LINKS = {
    "the root": "pkg/root.html#Root",
    "pkg.root": "pkg/root.html",
    "letters": "pkg/letters.html#a",
    "home": "",
    "above": "pkg/leaf.html#top",
    "Elman 1990, §2": "bibliography.html#elman1990finding",
}


@pytest.mark.parametrize("base", [BASE, ""])
def test_links_citations_and_formulas_work_far_from_the_site(root: Path, base: str):
    """Where the address of the site is unknown, there are words in place of links."""
    replace(root / "docs_src/site.toml", BASE, base)
    note = cell_with(texts(root, "markdown"), "## A leaf")
    assert "$$\n\\begin{aligned}\ny = 2 x\n\\end{aligned}\n$$" in note
    links = dict(re.findall(r"\[(.*?)\]\((.*?)\)", note))
    links.pop("The page of this chapter", None)
    assert links.pop("PyTorch") == "https://pytorch.org" and all(words in note for words in LINKS)
    assert links == ({words: base + address for words, address in LINKS.items()} if base else {})


@pytest.mark.parametrize(
    ("chapters", "kept", "gone"),
    [
        ("pkg.leaf(FACTOR,_check,Leaf)", "class Leaf", "def root"),
        ("pkg.leaf(-_check) pkg.root(-root)", "FACTOR = 2", "_check"),
    ],
)
def test_a_chapter_may_take_some_definitions(root: Path, chapters: str, kept: str, gone: str):
    replace(root / GROW, "pkg.leaf pkg.root", chapters)
    code = "\n".join(texts(root, "code"))
    assert kept in code and gone not in code


def test_code_stands_alone(root: Path):
    replace(root / GROW, "pkg.leaf pkg.root", "pkg.typed")
    code = texts(root, "code")
    assert cell_with(code, "from torch import Tensor, nn")
    assert cell_with(code, "class Layer") == textwrap.dedent(
        """\
        class Layer(nn.Module):
            def forward(
                self,
                x: Tensor | None = None,  # [T, B|1, …]
                *,
                y: Tensor,  # [B]
            ) -> tuple[Tensor, Tensor]:  # [T, ·], []
                return x

            def both(self, x: Tensor, n: int, y: Tensor) -> Tensor:  # x [T], y [B]
                return x"""
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("pkg/leaf.py", "root.py#Root", "rot.py", "pkg/leaf.py: the link 'rot.py' has no target"),
        ("pkg/leaf.py", "[@elman1990finding, §2]", "[@elmann]", "pkg/leaf.py cites 'elmann'"),
        (GROW, "pkg.leaf pkg", "pkg.leav pkg", "no module `pkg.leav`"),
        (GROW, "pkg.leaf pkg", "pkg", "take `pkg.leaf` as a chapter"),
        (GROW, "page: pkg.root", "page: pkg.leaf", "has no exercises"),
        (GROW, "page: pkg.root\n", "", "has no `page`"),
        (GROW, "include: setup", "include: setups", "includes `setups`"),
        (ROOT_FILE, "import math", "FACTOR = 3", "it is pkg.leaf.FACTOR; rename"),
        (ROOT_FILE, "import math", "from os import name as DOUBLE", "it is os.name; rename"),
    ],
)
def test_what_is_wrong_is_said(root: Path, file: str, old: str, new: str, told: str):
    replace(root / file, old, new)
    with pytest.raises(NotebookError) as error:
        cells(root)
    assert told in str(error.value)


RUN = {"date": "2026-11-21", "hardware": "two threads of a processor", "seconds": 83.6}
RUN |= {"python": "3.12.1", "torch": "2.13.0"}
CELLS = [
    cell("markdown", "# Title"),
    cell("code", "x = 1", chapter="pkg.a"),
    cell("markdown", "Text."),
    cell("code", "print(x)", ["parameters"], alt="A number."),
    cell("code", "print(x)"),
]


def printed(made) -> list[str]:
    return [output["text"] for cell in made.cells for output in cell.get("outputs", [])]


def test_a_document_is_a_notebook_and_the_same_for_the_same_source():
    made = document(CELLS, "t")
    nbformat.validate(made)
    assert as_text(made) == as_text(document(CELLS, "t"))
    assert nbformat.reads(as_text(made), 4) == made
    assert "Not run yet" in made.cells[1].source
    assert made.cells[2].metadata == {"labml_nn": {"chapter": "pkg.a"}}
    about = {"labml_nn": {"alt": "A number."}, "tags": ["parameters"]}
    assert made.cells[4].metadata == about
    # Every cell has a name, and a new cell changes those of no others.
    ids = {cell.id for cell in made.cells}
    more = document([CELLS[0], cell("code", "y = 2"), *CELLS[1:]], "t").cells
    assert len(ids) == len(made.cells) and ids < {cell.id for cell in more}


def test_outputs_stay_as_long_as_the_code_does():
    old = document(CELLS, "t")
    old.metadata["labml_nn"]["run"] = RUN
    for count, one in enumerate(c for c in old.cells if c.cell_type == "code"):
        one.outputs = [stream(f"{count}\n")]
    reworded = [CELLS[0], CELLS[1], cell("markdown", "Better text."), *CELLS[3:]]
    made = document(reworded, "t", old)
    assert printed(made) == ["0\n", "1\n", "2\n"] and has_run(made)
    assert "on two threads of a processor, on 2026-11-21" in made.cells[1].source
    assert document(reworded, "t", made) == made
    x = cell("code", "# A comment that was not there.\n" + CELLS[1].source)
    made = document([CELLS[0], x, *CELLS[2:]], "t", old)
    assert printed(made) == ["0\n", "1\n", "2\n"] and made.cells[2].source == x.source
    for changed in ("x = 2", "%pip install x"):
        made = document([CELLS[0], cell("code", changed), *CELLS[2:]], "t", old)
        assert printed(made) == [] and not has_run(made)


def stream(text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("stream", text=text)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the notebooks that were run; running takes no time here."""
    found: list[str] = []

    def execute(made):
        found.append(made.metadata.labml_nn.notebook)
        made.metadata.labml_nn.run = RUN
        return made

    monkeypatch.setattr(command, "execute", execute)
    return found


def run(root: Path, *arguments: str) -> int:
    return command.main(["--root", str(root), *arguments])


def test_what_has_changed_is_made_and_run(root: Path, runs: list[str], capsys):
    file = root / "notebooks" / "grow.ipynb"
    assert run(root, "--check") == 1
    assert "grow.ipynb is not up to date" in capsys.readouterr().err
    assert run(root) == 0 and runs == ["grow"]
    first = file.read_bytes()
    assert run(root, "--check") == run(root) == 0
    assert runs == ["grow"] and file.read_bytes() == first
    replace(root / "pkg/leaf.py", "It *doubles*", "It *really doubles*")
    assert run(root, "--check") == 1 and run(root, "grow") == 0
    assert runs == ["grow"] and b"really" in file.read_bytes()
    replace(root / "pkg/leaf.py", "FACTOR = 2", "FACTOR = 4")
    assert run(root) == 0 and runs == ["grow"] * 2
    assert run(root, "--execute") == 0 and runs == ["grow"] * 3
    assert [path.name for path in file.parent.iterdir()] == ["grow.ipynb"]


def test_a_run_that_fails_leaves_the_notebook(root: Path, runs: list[str], capsys, monkeypatch):
    assert run(root) == 0
    before = (root / "notebooks/grow.ipynb").read_bytes()
    replace(root / "pkg/leaf.py", "FACTOR = 2", "FACTOR = 0")
    for fault, status in ((NotebookError("grow: a cell failed"), 1), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr(command, "execute", Mock(side_effect=fault))
        assert run(root) == status
        assert (root / "notebooks/grow.ipynb").read_bytes() == before
    assert "error: grow: a cell failed" in capsys.readouterr().err


def test_what_cannot_be_made_is_said(root: Path, capsys):
    assert run(root, "gorw") == 1
    assert "there is no notebook 'gorw'; there are grow" in capsys.readouterr().err
    for text in ("{", "[]", '{"cells": 3}', ""):
        write(root / "notebooks/grow.ipynb", text)
        assert run(root) == 1
        assert capsys.readouterr().err.startswith("error: grow.ipynb ")


BAR = r"""print("\x1b[31m  0%|\r 50%|##\r100%|####\x1b[0m")
"""
DRAW = """
class Plot:
    def _repr_mimebundle_(self, **_):
        return {"text/plain": "a plot", "image/png": "iVBORw0KGgo="}, {"x": 1}

print("")
Plot()
"""


def test_a_real_run_and_one_that_fails(root: Path, capsys):
    """In a process of its own, with what it printed, and where and when that was."""
    replace(root / GROW, "x = 3\n", f"x = 3\n{BAR}```\n\n```python{DRAW}")
    assert run(root) == 0
    made = nbformat.read(root / "notebooks/grow.ipynb", 4)
    *_, bar, drawn, last, _ = (cell for cell in made.cells if cell.cell_type == "code")
    assert last.outputs == [stream("15.14 of root 3\n")]
    # Of a progress bar the last state is left, and of a drawing the best.
    assert bar.outputs == [stream("100%|####\n")]
    (plot,) = drawn.outputs
    assert (plot.data, plot.metadata) == ({"image/png": "iVBORw0KGgo="}, {})
    told = made.metadata.labml_nn.run
    assert told.seconds > 0 and told.hardware and told.python
    assert told.hardware in made.cells[1].source
    replace(root / GROW, "x = 3", "x = 0")
    assert run(root) == 1
    error = capsys.readouterr().err
    assert "grow: a cell failed" in error and "ValueError: zero" in error
