r"""Notes as the cells of a notebook say them.

A notebook is read far from the site: in Colab, on GitHub, in Jupyter. There a relative link leads
nowhere, ``[@fan2020feedback]`` is a riddle, and ``\begin{align}`` needs dollars around it. What
only the site can show, such as a figure that runs, becomes a link to it.
"""

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pylit.addresses import HOME, module_url, prose_url
from pylit.model import SourceFile
from pylit.notebooks import NotebookError
from pylit.references import BIBLIOGRAPHY, Work
from pylit.syntax import CITATION, CITATION_PART

_FENCED = re.compile(r"^ *(```+|~~~+)[^\n]*\n.*?(?:^ *\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_HEADING = re.compile(r"^(#{1,6}) (.*?)(?:[ \t]*\{#[\w.-]+\})?[ \t]*$", re.MULTILINE)
_ALERT = re.compile(r"^((?:> ?)+)\[!(\w+)\][ \t]*$", re.MULTILINE)
_QUOTED = re.compile(r"^> ?", re.MULTILINE)
_ALIGNED = re.compile(r"^\\begin\{(align|gather)(\*?)\}(.*?)\\end\{\1\2\}", re.M | re.S)
_FIGURE = re.compile(r"!\[((?:(?!!\[).)*?)\]\((?:figure|table):[\w.]+\)", re.DOTALL)
#: A link; what it says may hold brackets, such as those of ``x[0]``.
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\(([^()\s]+)\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
#: Paragraphs that keep their lines: lists, tables, formulas, quotations, code.
_SHAPED = re.compile(r"\s*([*+-] |\d+\. |\||\$\$|>|```| {4}|\\begin)")

#: What to look for, and what stands there instead.
Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


@dataclass(frozen=True, slots=True)
class NoteText:
    """Turns notes of a module into Markdown that stands by itself."""

    #: Absolute address of the site; without one, links into it are words.
    base_url: str
    works: Mapping[str, Work]
    #: The modules of the site, by their names and by their paths.
    sources: Mapping[str, SourceFile]
    source: SourceFile

    def page(self, words: str) -> str:
        """Words that lead to the page of the module."""
        return f"[{words}]({self.base_url}{module_url(self.source)})" if self.base_url else words

    def markdown(self, text: str, deeper: int = 1) -> str:
        """A note as a cell shows it; its headings go `deeper`."""
        figure = "The page of this chapter on the site has a figure:"
        if self.base_url:
            figure = f"On {self.page('the page of this chapter')} there is a figure:"
        rules: tuple[Rule, ...] = (
            (_HEADING, lambda m: f"{'#' * min(len(m[1]) + deeper, 6)} {m[2]}"),
            (_ALERT, lambda m: f"{m[1]}**{m[2].capitalize()}**\n{m[1].rstrip()}"),
            (_ALIGNED, r"$$\n\\begin{\1ed}\3\\end{\1ed}\n$$"),
            (_FIGURE, rf"*{figure}* \1"),
            (_LINK, self._link),
            (CITATION, self._citation),
        )
        done, parts = 0, []
        for code in _FENCED.finditer(text):
            parts += [_ruled(text[done : code.start()], rules), code[0]]
            done = code.end()
        return "".join([*parts, _ruled(text[done:], rules)]).strip("\n")

    def comment(self, text: str, width: int = 10_000) -> str:
        """A note that stays inside of code, in plain words, on lines of at most `width` columns."""
        rules: tuple[Rule, ...] = (
            (_ALERT, lambda m: f"> {m[2].capitalize()}:"),
            (_QUOTED, ""),
            (_HEADING, r"\2"),
            (CITATION, self._citation),
            (_LINK, r"\1"),
        )
        blocks = []
        for block in re.split(r"\n[ \t]*\n", _FIGURE.sub("", text)):
            plain = _ruled(block, rules)
            if plain != block and not _SHAPED.match(plain):
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
            address = f"({self.base_url}{BIBLIOGRAPHY}#{work.key})"
            shown.append(f"[{text}]{address}" if self.base_url else text)
        return "; ".join(shown)

    def _link(self, match: re.Match[str]) -> str:
        """A link that leads there from anywhere; words alone if it cannot."""
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
            raise NotebookError(f"{here}: the link {written!r} leads nowhere; {hint}")
        address = self.base_url + ("" if page == HOME else page) + mark + anchor
        return f"[{words}]({address})"


def _ruled(text: str, rules: Iterable[Rule]) -> str:
    for pattern, new in rules:
        text = pattern.sub(new, text)
    return text
