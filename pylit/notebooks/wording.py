r"""Notes as the cells of a notebook say them.

A notebook is read far from the site: in Colab, on GitHub, in Jupyter. There a relative link leads
nowhere, ``[@fan2020feedback]`` is a riddle, and ``\begin{align}`` needs dollars around it. What
only the site can show, such as a figure that runs, becomes a link to it.
"""

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from pylit.model import SourceFile
from pylit.notebooks import NotebookError
from pylit.prose.syntax import BRACKETS, PART
from pylit.prose.works import BIBLIOGRAPHY, Work
from pylit.site.addresses import HOME, module_url, prose_url

_FENCED = re.compile(r"^ *(```+|~~~+)[^\n]*\n.*?(?:^ *\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_HEADING = re.compile(r"^(#{1,6}) (.*?)(?:[ \t]*\{#[\w.-]+\})?[ \t]*$", re.MULTILINE)
_ALERT = re.compile(r"^((?:> ?)+)\[!(\w+)\][ \t]*$", re.MULTILINE)
_QUOTED = re.compile(r"^> ?", re.MULTILINE)
_ALIGNED = re.compile(r"^\\begin\{(align|gather)(\*?)\}(.*?)\\end\{\1\2\}", re.M | re.S)
_FIGURE = re.compile(r"!\[((?:(?!!\[).)*?)\]\((?:figure|table):[\w.]+\)", re.DOTALL)
_TARGET = re.compile(r"\]\(([^()\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\([^()\s]+\)")
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:|//"
_INSIDE = re.compile(rf"(?<!!)\[([^\[\]]+)\]\((?!{_SCHEME})[^()\s]+\)")
#: Paragraphs that keep their lines: lists, tables, formulas, quotations, code.
_SHAPED = re.compile(r"\s*([*+-] |\d+\. |\||\$\$|>|```| {4}|\\begin)")

#: What to look for, and what stands there instead.
Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


class Wording:
    """Turns notes of modules into Markdown that stands by itself.

    Args:
        base_url: Absolute address of the site; without one, links into it are words.
        works: The bibliography.
        sources: The modules of the site.
    """

    def __init__(
        self, base_url: str, works: Mapping[str, Work], sources: Iterable[SourceFile]
    ) -> None:
        self._base_url, self._works = base_url, works
        self._sources = {name: one for one in sources for name in (one.name, one.display)}

    def page(self, words: str, source: SourceFile) -> str:
        """Words that lead to the page of a module."""
        base = self._base_url
        return f"[{words}]({base}{module_url(source)})" if base else words

    def markdown(self, text: str, source: SourceFile, *, deeper: int = 1) -> str:
        """A note of `source` as a cell shows it; its headings go `deeper`."""
        figure = "The page of this chapter on the site has a figure:"
        links: Rule = _INSIDE, r"\1"
        if self._base_url:
            figure = f"On {self.page('the page of this chapter', source)} there is a figure:"
            links = _TARGET, lambda m: f"]({self._address(m[1], source)})"
        rules: tuple[Rule, ...] = (
            (_HEADING, lambda m: f"{'#' * min(len(m[1]) + deeper, 6)} {m[2]}"),
            (_ALERT, lambda m: f"{m[1]}**{m[2].capitalize()}**\n{m[1].rstrip()}"),
            (_ALIGNED, r"$$\n\\begin{\1ed}\3\\end{\1ed}\n$$"),
            (_FIGURE, rf"*{figure}* \1"),
            links,
            (BRACKETS, lambda m: self._citation(m[1], source, self._base_url)),
        )
        done, parts = 0, []
        for code in _FENCED.finditer(text):
            parts += [_ruled(text[done : code.start()], rules), code[0]]
            done = code.end()
        return "".join([*parts, _ruled(text[done:], rules)]).strip("\n")

    def comment(self, text: str, source: SourceFile, width: int = 10_000) -> str:
        """A note that stays inside of code, in plain words, on lines of at most `width` columns."""
        rules: tuple[Rule, ...] = (
            (_ALERT, lambda m: f"> {m[2].capitalize()}:"),
            (_QUOTED, ""),
            (_HEADING, r"\2"),
            (_LINK, r"\1"),
            (BRACKETS, lambda m: self._citation(m[1], source)),
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

    def _citation(self, inside: str, source: SourceFile, base_url: str = "") -> str:
        shown = []
        for part in inside.split(";"):
            match = PART.fullmatch(part)
            if match is None:
                return f"[{inside}]"
            work = self._works.get(match["key"])
            if work is None:
                hint = "add it to docs_src/references.bib"
                raise NotebookError(f"{source.display} cites {match['key']!r}; {hint}")
            place = " ".join((match["place"] or "").split())
            text = ", ".join(filter(None, (work.year if match["bare"] else work.name, place)))
            shown.append(f"[{text}]({base_url}{BIBLIOGRAPHY}#{work.key})" if base_url else text)
        return "; ".join(shown)

    def _address(self, written: str, source: SourceFile) -> str:
        """Where a link of a note leads, from anywhere."""
        if re.match(_SCHEME, written):
            return written
        target, mark, anchor = written.partition("#")
        name = unquote(target)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source.display), name))
        if found := self._sources.get(path if target else source.name) or self._sources.get(name):
            page = module_url(found)
        elif path.endswith(".md"):
            page = prose_url(path.removeprefix("docs_src/pages/")[:-3])
        else:
            hint = "write the path of a module or of a page of docs_src/pages"
            raise NotebookError(f"{source.display}: the link {written!r} leads nowhere; {hint}")
        return self._base_url + ("" if page == HOME else page) + mark + anchor


def _ruled(text: str, rules: Iterable[Rule]) -> str:
    for pattern, new in rules:
        text = pattern.sub(new, text)
    return text
