r"""Notes as the cells of a notebook say them.

A notebook is read far from the site: in Colab, on GitHub, in Jupyter. There a relative link leads
nowhere, ``[@fan2020feedback]`` is a riddle, and ``\begin{align}`` needs dollars around it. What
only the site can show, such as a figure that runs, becomes a link to it.
"""

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from pylit.model import SourceFile
from pylit.notebooks.model import NotebookError
from pylit.prose.syntax import BRACKETS, PART
from pylit.prose.works import BIBLIOGRAPHY, Work
from pylit.site.addresses import HOME, prose_url

_FENCE = re.compile(r"^ *(```+|~~~+)")
_HEADING = re.compile(r"^(#{1,6}) (.*?)(?:[ \t]*\{#[\w.-]+\})?[ \t]*$", re.MULTILINE)
_ALERT = re.compile(r"^((?:> ?)+)\[!(\w+)\][ \t]*$", re.MULTILINE)
_ALIGNED = re.compile(r"^\\begin\{(align|gather)(\*?)\}(.*?)\\end\{\1\2\}", re.M | re.S)
_FIGURE = re.compile(r"!\[((?:(?!!\[).)*?)\]\((?:figure|table):([\w.]+)\)", re.DOTALL)
_TARGET = re.compile(r"\]\(([^()\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\([^()\s]+\)")
#: A link without a scheme, into the site.
INSIDE = re.compile(r"(?<!!)\[([^\[\]]+)\]\((?![A-Za-z][A-Za-z0-9+.-]*:|//|#)[^()\s]+\)")
_ANCHOR = re.compile(r"""<a (?:id|name)=["'][^"']*["']></a>\n*""")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
#: Paragraphs that keep their lines: lists, tables, formulas, quotations, code.
_SHAPED = re.compile(r"\s*([*+-] |\d+\. |\||\$\$|>|```| {4}|\\begin)")


class Wording:
    """Turns notes of modules into Markdown that stands by itself.

    Args:
        root: The folder that holds ``docs_src`` and the package.
        base_url: Absolute address of the site.
        works: The bibliography.
    """

    def __init__(self, root: Path, base_url: str, works: Mapping[str, Work]) -> None:
        self._root = root
        self.base_url = base_url
        self._works = works

    def markdown(self, text: str, source: SourceFile, page: str, *, deeper: int = 1) -> str:
        """A note as a cell shows it; its headings go `deeper`.

        `page` is the address of its page from the site's root: what stands only there is linked.
        """

        def words(part: str) -> str:
            part = _ANCHOR.sub("", part)
            part = _HEADING.sub(lambda m: f"{'#' * min(len(m[1]) + deeper, 6)} {m[2]}", part)
            part = _ALERT.sub(lambda m: f"{m[1]}**{m[2].capitalize()}**\n{m[1].rstrip()}", part)
            part = _ALIGNED.sub(
                lambda m: f"$$\n\\begin{{{m[1]}ed}}{m[3]}\\end{{{m[1]}ed}}\n$$", part
            )
            part = _FIGURE.sub(lambda m: self._figure(m[1], page), part)
            part = _TARGET.sub(lambda m: f"]({self._address(m[1], source, page)})", part)
            if not self.base_url:  # A link to the site would lead nowhere.
                part = INSIDE.sub(r"\1", part)
            return BRACKETS.sub(
                lambda m: self._citation(m[1], source, linked=bool(self.base_url)), part
            )

        return "\n".join(_outside_code(text, words)).strip("\n")

    def comment(self, text: str, source: SourceFile, width: int) -> str:
        """A note that stays inside of code, in plain words, on lines of at most `width` columns."""
        blocks = re.split(r"\n[ \t]*\n", _FIGURE.sub("", text))
        return "\n\n".join(filter(None, (self._plain(b, source, width) for b in blocks)))

    def _plain(self, block: str, source: SourceFile, width: int) -> str:
        plain = _ALERT.sub(lambda m: f"> {m[2].capitalize()}:", block)
        if plain.lstrip().startswith(">"):
            plain = re.sub(r"^> ?", "", plain, flags=re.MULTILINE)
        plain = _HEADING.sub(lambda m: m[2], plain)
        plain = _LINK.sub(r"\1", plain)
        plain = BRACKETS.sub(lambda m: self._citation(m[1], source, linked=False), plain)
        if plain == block or _SHAPED.match(plain):
            return plain.strip("\n")
        return textwrap.fill(
            " ".join(plain.split()), width, break_long_words=False, break_on_hyphens=False
        )

    def _figure(self, caption: str, page: str) -> str:
        if not self.base_url:
            return f"*The page of this chapter on the site has a figure:* {caption}"
        return (
            f"*On [the page of this chapter]({self.base_url}{page}) there is a figure:* {caption}"
        )

    def _citation(self, inside: str, source: SourceFile, *, linked: bool) -> str:
        shown = []
        for part in inside.split(";"):
            match = PART.fullmatch(part)
            if match is None:
                return f"[{inside}]"
            work = self._works.get(match["key"])
            if work is None:
                hint = "add it to docs_src/references.bib"
                raise NotebookError(f"{source.display} cites {match['key']!r}; {hint}")
            name = work.year if match["bare"] else work.name
            place = " ".join((match["place"] or "").split())
            text = f"{name}, {place}" if place else name
            address = f"{self.base_url}{BIBLIOGRAPHY}#{work.key}"
            shown.append(f"[{text}]({address})" if linked else text)
        return "; ".join(shown)

    def _address(self, written: str, source: SourceFile, page: str) -> str:
        """Where a link of a note leads, from anywhere."""
        if _SCHEME.match(written):
            return written
        target, mark, anchor = written.partition("#")
        if not target:
            return f"{self.base_url}{page}#{anchor}"
        found = self._page(unquote(target), source, page)
        if found is None:
            hint = "write the path of a module or of a page of docs_src/pages"
            raise NotebookError(f"{source.display}: the link {written!r} leads nowhere; {hint}")
        return self.base_url + found + mark + anchor

    def _page(self, target: str, source: SourceFile, page: str) -> str | None:
        for start in (source.display, page):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(start), target))
            name = path.removeprefix("docs_src/pages/")
            if path.endswith(".py") and (self._root / path).is_file():
                return path_url(path)
            if path.endswith(".html") and start == page:
                return path
            if path.endswith(".md") and not name.startswith("docs_src"):
                return "" if prose_url(name[:-3]) == HOME else prose_url(name[:-3])
        dotted = target.replace(".", "/") if re.fullmatch(r"[\w.]+", target) else ""
        for path in (f"{dotted}.py", f"{dotted}/__init__.py"):
            if dotted and (self._root / path).is_file():
                return path_url(path)
        return None


def path_url(path: str) -> str:
    """The address of a module's page from the path of its file, both from the root."""
    if path.endswith("/__init__.py"):
        return path.removesuffix("__init__.py") + "index.html"
    return path.removesuffix(".py") + ".html"


def _outside_code(text: str, change: Callable[[str], str]) -> Iterator[str]:
    """The parts of a note, those that are no fenced code `change`d."""
    part: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            part.append(line)
            if match and match[1].startswith(fence) and not line.strip().strip(fence[0]):
                yield "\n".join(part)
                part, fence = [], ""
        elif match:
            if part:
                yield change("\n".join(part))
            part, fence = [line], match[1]
        else:
            part.append(line)
    if part:
        yield "\n".join(part) if fence else change("\n".join(part))
