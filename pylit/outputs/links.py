"""The audit: every link on every finished page has a target.

It reads the final HTML, so it checks the links of authors, of the highlighter and of templates
alike. For the link of an author, the diagnostic names the line of the source.
"""

import html
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from pylit.diagnostics import Report, nearest

#: Comments, scripts and styles hold no links; everything else that opens is a tag.
_TAG = re.compile(
    r"<!--.*?-->|<(script|style)\b([^>]*)>.*?</\1\s*>|<[a-zA-Z][^\s>/]*((?:\s[^<>]*)?)>", re.S
)
#: Every attribute with a value, so that nothing is read inside the value of another.
_ATTRIBUTE = re.compile(
    r"""\s(?:(href|src|srcset|id)|[^\s"'<>=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))"""
)

#: No page holds it: the highlighter and Markdown show another sign for it.
_BETWEEN = "\0"
_LINE = re.compile(r"L\d+")
#: As many names are compared with a misspelt one; more would take longer than the build.
_COMPARED = 300


@dataclass(frozen=True, slots=True)
class AuditedPage:
    """A finished page, and where its author's links were written."""

    url: str
    #: As `links_and_anchors` reads them, in two texts: those of thousands of pages fit in memory.
    anchors: str
    hrefs: str
    #: Path of the source, as diagnostics name it.
    display: str
    #: An address as its author wrote it -> the line of its first use, and the text of that line.
    references: Mapping[str, tuple[int, str]]
    #: Whether a broken link is an error.
    strict: bool


def links_and_anchors(page: str) -> tuple[str, str]:
    """Anchors of a page, and its addresses as they are written, each once, read off its tags.

    PageAddresses of anchors of the page itself are left out: they are valid.
    """
    anchors: dict[str, None] = {}
    hrefs: dict[str, None] = {}
    for tag in _TAG.finditer(page):
        for name, double, single, bare in _ATTRIBUTE.findall(tag[2] or tag[3] or ""):
            value = html.unescape(double or single or bare).replace(_BETWEEN, "")
            if name == "id":
                anchors.setdefault(value)
            elif name == "srcset":
                hrefs.update(dict.fromkeys(part.split()[0] for part in value.split(",") if part))
            elif name:
                hrefs.setdefault(value)
    others = (href for href in hrefs if not (href[:1] == "#" and href[1:] in anchors))
    return _BETWEEN.join(anchors), _BETWEEN.join(others)


def audit(pages: Sequence[AuditedPage], files: Iterable[str], report: Report) -> None:
    """Report every relative address that leads to no file, or to an anchor its page lacks."""
    anchors = {page.url: page.anchors for page in pages}
    known = {*files, *anchors}
    for page in pages:
        for href in page.hrefs.split(_BETWEEN):
            if fault := _fault(page.url, href, known, anchors):
                line, source = page.references.get(href, (0, ""))
                place = (page.display, line, source.find(href) + 1)
                report.fault(page.strict, place, *fault, source)


@lru_cache(maxsize=200)
def _apart(anchors: str) -> frozenset[str]:
    return frozenset(anchors.split(_BETWEEN))


def _fault(
    url: str, href: str, files: set[str], anchors: Mapping[str, str]
) -> tuple[str, str, str] | None:
    """Code, message and hint for an address that leads nowhere, or None."""
    try:
        parts = _split(href)
    except ValueError:
        return "link-broken", f"`{href}` is not an address", "write it as RFC 3986 says"
    if parts.scheme or parts.netloc:
        return None
    if parts.path.startswith("/"):
        hint = "write the address relative to the page, so that it works from any folder"
        return "link-broken", f"`{href}` starts at the root of the server", hint
    target = _target(url.rpartition("/")[0], parts.path) if parts.path else url
    if target not in files:
        hint = _nearest(unquote(parts.path), target, files)
        return "link-broken", f"`{href}` leads to no page", hint
    anchor = unquote(parts.fragment)
    # The empty fragment is the top of the page; a text fragment is for the browser.
    if not anchor or anchor.startswith(":~:") or target not in anchors:
        return None
    there = _apart(anchors[target])
    if anchor in there:
        return None
    return "anchor-broken", f"`{href}` leads to no anchor", _near(anchor, there)


_split = lru_cache(maxsize=100_000)(urlsplit)


@lru_cache(maxsize=100_000)
def _target(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(path)))


def _nearest(path: str, target: str, files: set[str]) -> str:
    if path.endswith("/") or path in (".", ".."):
        return "name the page, `…/index.html`: folders do not open from a disk"
    # A misspelt folder is more common than a misspelt name, and quicker to find.
    same = [file for file in files if posixpath.basename(file) == posixpath.basename(target)]
    if len(same) == 1:
        return f"did you mean `{same[0]}`?"
    return _near(target, files)


def _near(word: str, known: Iterable[str]) -> str:
    # Anchors of lines are never what was intended; long words are slow to compare.
    words = sorted(k for k in known if abs(len(k) - len(word)) < 12 and not _LINE.fullmatch(k))
    return nearest(word, words[:_COMPARED], "check the spelling")
