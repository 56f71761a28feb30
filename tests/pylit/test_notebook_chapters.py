"""A module as the cells of a notebook: nothing lost, nothing twice, and it reads by itself."""

from pathlib import Path

import notebook_tools as tools
import pytest
from notebook_tools import BASE, replace, texts

from pylit.notebooks.model import NotebookError
from pylit.notebooks.standalone import stand_alone


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tools.tree(tmp_path)


def cell_with(found: list[str], part: str) -> str:
    (one,) = [text for text in found if part in text]
    return one


def test_the_order_is_that_of_the_page(root: Path):
    kinds = [
        (cell.kind, cell.text.split("\n")[0], cell.chapter.removeprefix("pkg."))
        for cell in tools.cells(root)
    ]
    assert kinds == [
        ("markdown", "# Grow", ""),
        ("markdown", "Look at me/repo.", ""),
        ("markdown", "## Set up", ""),
        ("code", "import os", ""),
        ("markdown", "## A leaf", "leaf"),
        ("code", "import math", "leaf"),
        ("code", "def _check(x):", "leaf"),
        ("markdown", "### One leaf", "leaf"),
        ("code", "class Leaf:", "leaf"),
        ("markdown", "## The root", "root"),
        ("code", "DOUBLE = FACTOR", "root"),
        ("markdown", "A note above a function.", "root"),
        ("code", "def root(x):", "root"),
        ("markdown", "### Differences", "root"),
        ("markdown", "## Grow it", ""),
        ("code", "x = 3", ""),
        ("code", 'print(f"{root(x):.2f} of root", x)', ""),
        ("markdown", "## Exercises", ""),
        ("markdown", "**1.** Grow it.", ""),
        ("markdown", "## The package", ""),
        ("code", '# %pip install "labml-nn @ git+https://github.com/me/repo"', ""),
    ]


def test_cells_run_one_after_the_other(root: Path, capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    for code in texts(root, "code"):
        exec(code, names)
    assert capsys.readouterr().out == "15.14 of root 3\n"
    assert names["Leaf"].__module__ == names.get("__name__", "builtins")


def test_what_methods_have_to_say_stands_above_the_class_and_its_titles_in_it(root: Path):
    note = cell_with(texts(root, "markdown"), "### One leaf")
    assert "#### `__init__`\n\n* `x` is a number" in note
    assert "#### Twice · `double`\n\n$$y = 2 x$$" in note
    assert "One line stays." not in note
    code = cell_with(texts(root, "code"), "class Leaf")
    assert code == tools.textwrap.dedent(
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


def test_links_citations_and_formulas_work_far_from_the_site(root: Path):
    note = cell_with(texts(root, "markdown"), "## A leaf")
    assert f"[the root]({BASE}pkg/root.html#Root)" in note
    assert f"[Elman 1990, §2]({BASE}bibliography.html#elman1990finding)" in note
    assert "$$\n\\begin{aligned}\ny = 2 x\n\\end{aligned}\n$$" in note
    leaf = cell_with(texts(root, "markdown"), "### One leaf")
    assert f"*On [the page of this chapter]({BASE}pkg/leaf.html) there is a figure:* How" in leaf


def test_exercises_are_asked_once_at_the_end(root: Path):
    found = texts(root, "markdown")
    assert sum("Grow it.\n" in text for text in found) == 1
    assert "```python\nfrom pkg.root import root" in found[-2]
    assert "### Differences\n\nNone." in found[-5]


def test_imports_of_what_is_in_a_cell_go_and_others_come_once(root: Path):
    code = "\n".join(texts(root, "code"))
    assert code.count("import math") == 1
    assert "from pkg" not in code
    assert "__all__" not in code


@pytest.mark.parametrize(
    ("line", "name", "one", "other"),
    [
        ("FACTOR = 3", "FACTOR", "pkg.root.FACTOR", "pkg.leaf.FACTOR"),
        ("from os import name as DOUBLE", "DOUBLE", "pkg.leaf.FACTOR", "os.name"),
    ],
)
def test_two_things_of_one_name_are_an_error(
    root: Path, line: str, name: str, one: str, other: str
):
    replace(root / "pkg/root.py", "import math\n", f"import math\n\n{line}\n")
    with pytest.raises(NotebookError) as error:
        tools.cells(root)
    assert str(error.value) == (
        f"pkg.root: `{name}` is {one}, and in the same notebook it is {other}; "
        "rename one of the two, or take one module less apart"
    )


@pytest.mark.parametrize(
    ("chapters", "kept", "gone"),
    [
        ("pkg.leaf(FACTOR,_check,Leaf)", "class Leaf", "def root"),
        ("pkg.leaf(-_check) pkg.root(-root)", "FACTOR = 2", "_check"),
    ],
)
def test_a_chapter_may_take_some_definitions(root: Path, chapters: str, kept: str, gone: str):
    replace(root / "docs_src/notebooks/grow.md", "pkg.leaf pkg.root", chapters)
    code = "\n".join(texts(root, "code"))
    assert kept in code and gone not in code


def test_code_stands_alone():
    code = tools.textwrap.dedent(
        """\
        class Layer(nn.Module):
            def __init__(self, size: int, bias: bool | None = None) -> None:
                super().__init__()
                check_sizes(
                    size=size,
                )
                if bias is None:
                    check_sizes(size=size)

                self.size = size

            # A kernel attaches here.
            @reference
            def forward(
                self,
                x: Float[Tensor, "T #B *axes"] | None = None,
                *,
                y: Int[Tensor, " B"],
            ) -> tuple[Float[Tensor, "T _"], Bool[Tensor, ""]]:
                return check_sizes(size=1), x

            def both(self, x: Float[Tensor, "T"], n: int, y: Int[Tensor, "B"]) -> Tensor:
                return x
        """
    )
    assert stand_alone(code, {"check_sizes", "reference"}) == tools.textwrap.dedent(
        """\
        class Layer(nn.Module):
            def __init__(self, size: int, bias: bool | None = None) -> None:
                super().__init__()

                self.size = size

            def forward(
                self,
                x: Tensor | None = None,  # [T, B|1, …]
                *,
                y: Tensor,  # [B]
            ) -> tuple[Tensor, Tensor]:  # [T, ·], []
                return check_sizes(size=1), x

            def both(self, x: Tensor, n: int, y: Tensor) -> Tensor:  # x [T], y [B]
                return x
        """
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("pkg/leaf.py", "root.py#Root", "rot.py", "pkg/leaf.py: the link 'rot.py' leads nowhere"),
        ("pkg/leaf.py", "[@elman1990finding, §2]", "[@elmann]", "pkg/leaf.py cites 'elmann'"),
        ("docs_src/notebooks/grow.md", "pkg.leaf pkg", "pkg.leav pkg", "no module `pkg.leav`"),
        ("docs_src/notebooks/grow.md", "pkg.leaf pkg", "pkg.leaf(Leaf pkg", "is no chapter"),
        ("docs_src/notebooks/grow.md", "pkg.leaf pkg", "pkg", "take `pkg.leaf` as a chapter"),
        ("docs_src/notebooks/grow.md", "page: pkg.root", "page: pkg.leaf", "sets no exercises"),
        ("docs_src/notebooks/grow.md", "{{model}}", "{{modell}}", "known values: branch, "),
    ],
)
def test_what_is_wrong_is_said(root: Path, file: str, old: str, new: str, told: str):
    replace(root / file, old, new)
    with pytest.raises(NotebookError) as error:
        tools.cells(root)
    assert told in str(error.value)
