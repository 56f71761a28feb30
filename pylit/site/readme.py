"""The README of a project as the text of its home page, and its changelog as a page.

It is written for GitHub: badges and other pictures from elsewhere, HTML that centres them, and
links to files of the repository. Pages of a site load nothing from elsewhere, so pictures and tags
go, and links lead to the repository; where that is unknown, their words stay. See decision 043.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from markdown_it import MarkdownIt

from pylit.addresses import GITHUB
from pylit.cache import digest
from pylit.config import SiteConfig
from pylit.diagnostics import Report
from pylit.model import Module
from pylit.notes.markdown import MAX_DEPTH, RESERVED
from pylit.source.discover import leaves, read_source
from pylit.source.pages import text_module

_CODE = re.compile(r"(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_COMMENT = re.compile(r"<!--.*?-->|<(?:picture|source|img|svg)\b[^>]*>", re.DOTALL)
_HEADING = re.compile(r"<h([1-6])\b[^>]*>\s*(.*?)\s*</h\1>", re.DOTALL | re.IGNORECASE)
_ANCHOR = re.compile(r"<a\b[^>]*?\bhref=\"([^\"\s]*)\"[^>]*>(.*?)</a>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>")
#: What a link may lead to: the id of a tag, or the name of a link.
_NAMED = re.compile(r"""(?:\bid|^<a\b[^>]*?\bname)\s*=\s*["']([^"'\s<>]+)""", re.IGNORECASE)
_PICTURE = r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])"
#: A line of pictures, each perhaps in a link.
_PICTURES = re.compile(
    rf"^(?:[ \t]*(?:\[{_PICTURE}\](?:\([^)]*\)|\[[^\]]*\])?|{_PICTURE}))+[ \t\\]*$", re.MULTILINE
)
_LINK = re.compile(r"\[([^\[\]]+)\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
_DEFINED = re.compile(r"^( {0,3}\[(?!\^)[^\]]+\]:\s*)(\S+)", re.MULTILINE)
#: Characters times tags: each pattern seeks the end of each tag, in a second or two.
MOST = 100_000_000
CHANGELOG = "CHANGELOG.md"
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#")


def read_readme(root: Path, config: SiteConfig, report: Report) -> Iterator[Module]:
    """The README of the project in `root` as its home page, unless there is none in Markdown."""
    about = {"title": config.title, "summary": config.summary}
    return _read(root, config.readme, "index", about, config, report)


def read_changelog(root: Path, config: SiteConfig, report: Report) -> Iterator[Module]:
    """The changelog of the project in `root` as a page."""
    return _read(root, CHANGELOG, "changelog", {}, config, report)


def _read(
    root: Path, file: str, name: str, about: dict[str, str], config: SiteConfig, report: Report
) -> Iterator[Module]:
    path = root / file
    if path.suffix.lower() != ".md" or not path.is_file():
        return
    if leaves(path, os.path.realpath(root), file, own=False, report=report):
        return
    source = read_source(path, name=name, display=file, own=False, report=report)
    if source is not None:
        tree = f"https://github.com/{config.repository}/blob/{config.branch}/"
        text = for_pages(source.text, tree if config.repository else "")
        source = replace(source, docstrings=GITHUB)
        module = text_module(replace(source, text=text), about, text, 1)
        yield replace(module, source=replace(module.source, digest=digest(text, repr(about))))


def for_pages(text: str, tree: str) -> str:
    """A README without pictures and HTML, line for line; `tree` is the address of its folder.

    One that is all tags stays as it is: its HTML is then shown as text.
    """

    def target(address: str) -> str:
        return address if _ELSEWHERE.match(address) else tree and tree + address.removeprefix("./")

    def link(found: re.Match[str]) -> str:
        address = target(found[2])
        return f"[{found[1]}]({address})" if address else found[1]

    def prose(part: str) -> str:
        part = _CODE.sub(code, part)
        # What is indented inside of a tag would be code without it.
        part = _COMMENT.sub(_lines, re.sub(r"^[ \t]+(?=<[a-zA-Z/])", "", part, flags=re.MULTILINE))
        part = _ANCHOR.sub(anchor, part)
        part = _HEADING.sub(heading, part)
        part = _PICTURES.sub("", _TAG.sub(place, part))
        part = _DEFINED.sub(lambda d: d[1] + (target(d[2]) or "#"), _LINK.sub(link, part))
        return re.sub("\ue000(\\d+)\ue001", lambda place: codes[int(place[1])], part)

    def code(found: re.Match[str]) -> str:
        codes.append(found[0])
        return f"\ue000{len(codes) - 1}\ue001"

    def place(found: re.Match[str]) -> str:
        """What links to a tag lead to."""
        named = _NAMED.search(found[0].partition(">")[0])
        return f'<a name="{named[1]}"></a>' if named else ""

    def anchor(found: re.Match[str]) -> str:
        words = found[2].strip()
        return f"{place(found)}[{words}]({found[1]})" if words else place(found)

    def heading(found: re.Match[str]) -> str:
        return f"{'#' * int(found[1])} {place(found)}{' '.join(found[2].split())}"

    if len(text) * text.count("<") > MOST:
        return text
    codes: list[str] = []
    lines, shown, at = RESERVED.sub("", text).split("\n"), [], 0
    tokens = MarkdownIt("commonmark", {"maxNesting": MAX_DEPTH}).parse("\n".join(lines))
    blocks = [token.map for token in tokens if token.type in ("fence", "code_block") and token.map]
    for first, after in [*blocks, [len(lines), len(lines)]]:
        if first > at:
            shown.append(prose("\n".join(lines[at:first])))
        shown += lines[first:after]
        at = after
    return "\n".join(shown)


def _lines(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
