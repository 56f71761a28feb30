"""Notebooks in another language, ``notebooks/zh/NAME.ipynb``.

Texts come from the translations of the site, `docs_src/locale`: those of the recipe from the file
of the notebook's page, those of a chapter from the file of its module. What is not translated is
in English. The code is that of the English notebook, with its comments and the words of its plots
in the language; so the outputs are those of the run of the English one, and its pictures have
English words.

One cell is added before all others, for a reader who cannot reach Colab or GitHub: it names the
place of the text, and a font that has the language. Neither Colab nor a plain Linux has one.
Matplotlib would then draw a box for each character, so the cell has the English of the words, and
puts it back where it finds no font.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from docs_src.notebooks import OWN, NotebookError
from docs_src.notebooks.document import NotebookBuilder, cell, code_cells, numbered
from pylit.languages.blocks import read_blocks
from pylit.languages.language import FOLDER
from pylit.languages.translations import in_words
from pylit.model import HAN

#: Lines of code with words of a plot, the strings in them, and what a string leaves to the run.
_PLOT = re.compile(
    r"\b(set|show)(_\w+)?\(|\b(label|title|titles|rows|names|panels)\b.*="
    r"|\bcurves\[|^ +\(axes\[|^ +\"[^\"]*\",$"
)
_SHOWN = re.compile(r'(f?)"([^"\n]+)"')
_FIELD = re.compile(r"\{[^}]*\}")
#: The end of a line of a paragraph, which is no space beside Chinese.
_WIDE = f"{HAN.pattern[1:-1]}\u3000-\u303f\uff00-\uff65“”‘’…"
_JOINED = re.compile(f"(?<=[{_WIDE}])\\n *(?=[{_WIDE}])")
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)


class Translator:
    """Makes the notebooks of a language from those in English."""

    def __init__(self, root: Path, language: str, names: Sequence[str]) -> None:
        self._folder, self._out = (
            root / "docs_src" / FOLDER / language,
            root / "notebooks" / language,
        )
        table = tomllib.loads((self._folder / "notebooks.toml").read_text("utf-8"))
        #: The cell that is added, and words of links and plots, by the English ones.
        self._first: Mapping[str, str] = table["first"]
        self._words: Mapping[str, str] = table["words"]
        written = {path.stem: path for path in (self._folder / "notebooks").glob("*.md")}
        self.names = [name for name in names if name in written]
        self._blocks = {
            name: [
                block for block in read_blocks(written[name].read_text("utf-8"))[1] if block.text
            ]
            for name in self.names
        }
        heads = (block for blocks in self._blocks.values() for block in blocks)
        words = {**self._words, **{block.original: block.text for block in heads}}
        self._builder = NotebookBuilder(root, language, words)

    def path(self, name: str) -> Path:
        """The file of a notebook."""
        return self._out / f"{name}.ipynb"

    def document(self, name: str, english: NotebookNode) -> NotebookNode:
        """The notebook, with the outputs of the one in English."""
        known = {block.hash: block.text for block in self._blocks[name]}
        titles = {block.place: block.text for block in self._blocks[name]}
        made: NotebookNode = deepcopy(english)
        head, *others = self._builder.cells(name)
        # The sentence about the run is of the document, not of the recipe.
        cells = [head, made.cells[1], *others]
        if [one.cell_type for one in cells] != [one.cell_type for one in made.cells]:
            raise NotebookError(
                f"{name}: the cells in {self._folder.name} are others than in English"
            )
        for one, other in zip(made.cells, cells, strict=True):
            chapter = "chapter" in one.metadata.get(OWN, {})
            if one.cell_type == "code":
                one.source = other.source if chapter else self._plots(one.source)
            else:
                text = one.source if chapter else in_words(one.source, known)
                # What the page of the notebook does not show is on the page of the module.
                one.source = _unwrapped(other.source if text == one.source else text)
        made.cells[0].source = "\n\n".join(f"# {titles['title']}\n{titles['summary']}".split("\n"))
        made.metadata[OWN].language = self._folder.name
        code = self._first["code"].strip().replace("ENGLISH = {}", self._english(made))
        made.cells[2:2] = [cell("markdown", self._first["text"].strip()), cell("code", code)]
        for number, one in enumerate(code_cells(made), 1):
            one.execution_count = number
            for output in one.outputs:
                if "execution_count" in output:
                    output.execution_count = number
        return numbered(made, name)

    def _plots(self, source: str) -> str:
        """Code whose plots have words of the language."""

        def shown(match: re.Match[str]) -> str:
            return f'{match[1]}"{self._words.get(match[2], match[2])}"'

        return "\n".join(
            _SHOWN.sub(shown, line) if _PLOT.search(line) else line for line in source.split("\n")
        )

    def _english(self, made: NotebookNode) -> str:
        """A table of the words of the plots of a notebook: patterns, and their English formats."""
        code = "\n".join(one.source for one in code_cells(made))
        table = {
            _FIELD.sub("(.*)", words): _FIELD.sub("{}", english)
            for english, words in self._words.items()
            if f'"{words}"' in code
        }
        # What says most comes first: `(.*) 个头` matches whatever ends so.
        order = sorted(table, key=lambda pattern: -len(pattern.replace("(.*)", "")))
        lines = "".join(f'    "{pattern}": "{table[pattern]}",\n' for pattern in order)
        return f"ENGLISH = {{\n{lines}}}"


def _unwrapped(text: str) -> str:
    """Markdown whose paragraphs have no line breaks between Chinese characters."""
    parts = _FENCE.split(text)
    parts[::2] = [_JOINED.sub("", part) for part in parts[::2]]
    return "".join(parts)
