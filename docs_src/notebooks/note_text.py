r"""Notes as Markdown for a notebook.

A notebook is read outside the site: in Colab, on GitHub, in Jupyter. There relative links are
broken, citations such as ``[@fan2020feedback]`` are not resolved, and ``\begin{align}`` needs
dollar signs around it. Features of the site, such as figures, become links to it.
"""

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from urllib.parse import unquote

from docs_src.notebooks import NotebookError
from pylit.addresses import HOME, module_url, prose_url
from pylit.model import HAN, SourceFile
from pylit.notes.citations import BIBLIOGRAPHY, Work
from pylit.notes.syntax import CITATION, CITATION_PART

#: Fenced code; its second group is the fence.
_FENCED = re.compile(r"^( *(```+|~~~+)[^\n]*\n.*?(?:^ *\2[`~]*[ \t]*$|\Z))", re.M | re.S)
_HEADING = re.compile(r"^(#{1,6}) (.*?)(?:[ \t]*\{#[\w.-]+\})?[ \t]*$", re.MULTILINE)
_ALERT = re.compile(r"^((?:> ?)+)\[!(\w+)\][ \t]*$", re.MULTILINE)
_QUOTED = re.compile(r"^> ?", re.MULTILINE)
_ALIGNED = re.compile(r"^\\begin\{(align|gather)(\*?)\}(.*?)\\end\{\1\2\}", re.M | re.S)
_FIGURE = re.compile(r"!\[((?:(?!!\[).)*?)\]\((?:figure|table):[\w.]+\)", re.DOTALL)
#: A link; its text may contain brackets, such as those of ``x[0]``.
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\(([^()\s]+)\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
#: Blocks that are not wrapped: lists, tables, formulas, quotations, code.
_UNWRAPPED = re.compile(r"\s*([*+-] |\d+\. |\||\$\$|>|```| {4}|\\begin)")

#: A pattern and its replacement.
Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


@dataclass(frozen=True, slots=True)
class NoteText:
    """Converts notes of a module into Markdown that does not need the site."""

    #: Absolute address of the site; without one, links to it become plain text.
    base_url: str
    works: Mapping[str, Work]
    #: The modules of the site, by their names and by their paths.
    sources: Mapping[str, SourceFile]
    source: SourceFile
    #: Words of another language, by the English ones.
    words: Mapping[str, str] = field(default_factory=dict)
    #: The address of a page in the language, by that in English.
    moved: Callable[[str], str] = str

    def say(self, words: str) -> str:
        """Words in the language of the notebook."""
        return self.words.get(words, words)

    def page(self, words: str) -> str:
        """A link to the page of the module."""
        return self._site_link(words, module_url(self.source))

    def markdown(self, text: str, deeper: int = 1) -> str:
        """A note as the text of a cell; its headings are `deeper` by so many levels."""
        figure = self.say("The page of this chapter on the site has a figure:")
        if self.base_url:
            page = self.page(self.say("the page of this chapter"))
            figure = self.say("On {} there is a figure:").format(page)
        rules: tuple[Rule, ...] = (
            (_HEADING, lambda m: f"{'#' * min(len(m[1]) + deeper, 6)} {m[2]}"),
            (_ALERT, lambda m: f"{m[1]}**{self.say(m[2].capitalize())}**\n{m[1].rstrip()}"),
            (_ALIGNED, r"$$\n\\begin{\1ed}\3\\end{\1ed}\n$$"),
            (_FIGURE, rf"*{figure}* \1"),
            (_LINK, self._link),
            (CITATION, self._citation),
        )
        parts = _FENCED.split(text)
        pairs = zip_longest(parts[::3], parts[1::3], fillvalue="")
        return "".join(_replaced(words, rules) + code for words, code in pairs).strip("\n")

    def comment(self, text: str, width: int = 10_000) -> str:
        """A note as plain text for a comment, on lines of at most `width` columns."""
        rules: tuple[Rule, ...] = (
            (_ALERT, lambda m: f"> {self.say(m[2].capitalize())}:"),
            (_QUOTED, ""),
            (_HEADING, r"\2"),
            (CITATION, self._citation),
            (_LINK, r"\1"),
        )
        blocks = []
        for block in re.split(r"\n[ \t]*\n", _FIGURE.sub("", text)):
            plain = _replaced(block, rules)
            if HAN.search(plain) and not _UNWRAPPED.match(plain):
                plain = _wrapped(plain, width)
            elif plain != block and not _UNWRAPPED.match(plain):
                plain = textwrap.fill(
                    " ".join(plain.split()), width, break_long_words=False, break_on_hyphens=False
                )
            blocks.append(plain.strip("\n"))
        return "\n\n".join(filter(None, blocks))

    def _citation(self, brackets: re.Match[str]) -> str:
        shown = []
        for part in brackets[1].split(";"):
            match = CITATION_PART.fullmatch(part)
            if match is None:
                return brackets[0]
            work = self.works.get(match["key"])
            if work is None:
                hint = "add it to docs_src/references.bib"
                raise NotebookError(f"{self.source.display} cites {match['key']!r}; {hint}")
            place = " ".join((match["place"] or "").split())
            text = ", ".join(filter(None, (work.year if match["bare"] else work.name, place)))
            shown.append(self._site_link(text, f"{BIBLIOGRAPHY}#{work.key}"))
        return "; ".join(shown)

    def _link(self, match: re.Match[str]) -> str:
        """A link of a note with an absolute address."""
        words, written = match.groups()
        if _SCHEME.match(written) or not self.base_url:
            return match[0] if _SCHEME.match(written) else words
        target, mark, anchor = written.partition("#")
        name, here = unquote(target) or self.source.name, self.source.display
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), name))
        if found := self.sources.get(path) or self.sources.get(name):
            page = module_url(found)
        elif path.endswith(".md"):
            page = prose_url(path.removeprefix("docs_src/pages/")[:-3])
        else:
            hint = "write the path of a module or of a page of docs_src/pages"
            raise NotebookError(f"{here}: the link {written!r} has no target; {hint}")
        return self._site_link(words, ("" if page == HOME else page) + mark + anchor)

    def _site_link(self, words: str, url: str) -> str:
        return f"[{words}]({self.base_url}{self.moved(url)})" if self.base_url else words


#: Where a line of Chinese may end: after a word of letters with its punctuation, or a character.
_PIECE = re.compile(r"\s*[（《“‘]*(?:[!-~]+|.)[，。；：、！？）》”’]*")
#: A line end that is no space, between Chinese signs, and after a Chinese mark.
_NO_SPACE = re.compile(
    r"(?<=[\u2e80-\uffef])\n *(?=[\u2e80-\uffef])|(?<=[\u3000-\u303f\uff00-\uffef])\n *"
)


def _wrapped(text: str, width: int) -> str:
    """Chinese on lines of at most `width` columns; a character is two columns wide."""
    lines, used = [""], 0
    for piece in _PIECE.findall(_NO_SPACE.sub("", text).replace("\n", " ")):
        wide = sum(1 + (sign > "\u2e7f") for sign in piece)
        if used and used + wide > width:
            lines.append("")
            used, piece = 0, piece.lstrip()
        lines[-1] += piece
        used += wide
    return "\n".join(lines)


def _replaced(text: str, rules: Iterable[Rule]) -> str:
    for pattern, new in rules:
        text = pattern.sub(new, text)
    return text
