"""Where each source is written: its dotted name is its path. See decision 002."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from unicodedata import category
from urllib.parse import quote, unquote

from pylit.diagnostics import Report
from pylit.model import Draft, SourceFile

HOME = "index.html"
MISSING = "404.html"
#: Lists of the pages, beside the home page of a site with reading paths.
ALL, HOOD = "all.html", "under-the-hood.html"
#: Folder of the pages that compare two modules.
COMPARED = "compare"
#: The dialect of a README, whose headings have the anchors that GitHub gives them.
GITHUB = "github"
#: The folder of all cards in the site.
CARDS = "assets/cards/"
#: The files that are pages beside Python ones.
CPP_SUFFIXES = (".cpp", ".h")
#: Bytes of a file's name: file systems take 255, and a cache or an editor may append to it.
MAX_NAME_LENGTH = 240

_ABSOLUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
_ARXIV = re.compile(r"(?:arxiv:)?(\d{4}\.\d{4,5}(?:v\d+)?)", re.IGNORECASE)


def module_url(source: SourceFile) -> str:
    """``pkg/mha.html`` for ``pkg.mha``, ``pkg/index.html`` for the package ``pkg`` itself.

    A module called ``index`` would take its package's place, and ``404`` that of the page which
    servers show when there is none; they keep their ``.py``.
    """
    path = "/".join(quote(part, safe="") for part in source.name.split("."))
    if source.is_package:
        return f"{path}/index.html"
    reserved = path.rpartition("/")[2].lower() == "index" or path == "404"
    return f"{path}.py.html" if reserved else f"{path}.html"


def prose_url(name: str) -> str:
    """``guide/start.html`` for ``docs_src/pages/guide/start.md``."""
    return quote(name) + ".html"


def replay_url(url: str) -> str:
    """``replays/pkg/mha.js`` for the page ``pkg/mha.html``."""
    return f"replays/{url.removesuffix('.html')}.js"


def compare_url(old: str, new: str) -> str:
    """``compare/pkg.rnn...pkg.lstm.html``: the modules ``pkg.rnn`` and ``pkg.lstm`` compared."""
    return f"{COMPARED}/{quote(f'{old}...{new}', safe='')}.html"


def file_path(url: str) -> str:
    """The file that an address from the site's root names."""
    return unquote(url)


class PageAddresses:
    """The pages of a site by address; two sources with the same one are a fault."""

    def __init__(self, report: Report) -> None:
        self._report = report
        #: Address in lower case -> each address with that -> its source.
        self._sources: dict[str, dict[str, str]] = {}

    def claim(self, url: str, source: SourceFile) -> bool:
        """Give `url` to `source`, unless it is taken, or no file can have it."""
        near = self._sources.setdefault(url.casefold(), {})
        parts, taken = file_path(url).split("/"), url in near
        bad = any(not part.strip(".") or len(part.encode()) > MAX_NAME_LENGTH for part in parts)
        message, hint = "", "rename one of the two"
        if bad:
            message, hint = "has a name that no page can have", "give it a shorter, plain one"
        elif taken:
            message = f"would be written to `{url}`, as `{near[url]}` is"
        elif near:
            # Some disks and servers take `A.html` for `a.html`, and lose one of the two.
            message = f"differs from `{next(iter(near.values()))}` only in upper and lower case"
        if message:
            place = source.display, 0, 0
            self._report.fault(source.own, place, "page-collision", message, hint)
        if not bad:
            near.setdefault(url, source.display)
        return not bad and not taken


def canonical(base_url: str, url: str) -> str:
    """The absolute address of a page: a folder's ``index.html`` is the folder itself."""
    folder, slash, name = url.rpartition("/")
    return base_url + (folder + slash if name == "index.html" else url)


def relative(from_url: str, to_url: str) -> str:
    """How the page at `from_url` writes a link to `to_url`, both from the site's root.

    Absolute addresses stay as they are; an anchor of the page itself is the anchor alone.
    """
    if _ABSOLUTE.match(to_url) or not to_url:
        return to_url
    path, hash_, anchor = to_url.partition("#")
    if path in ("", from_url) and anchor:
        return f"#{anchor}"
    result = _path(from_url.rpartition("/")[0], path or from_url) + "/" * path.endswith("/")
    # "a:b.html" would be read as an address with the scheme "a".
    scheme = ":" in result.partition("/")[0]
    return "./" * scheme + result + hash_ + anchor


@lru_cache(maxsize=10_000)
def _path(folder: str, path: str) -> str:
    """The menu and the bar of each page have the same links as those of its neighbours."""
    return posixpath.relpath(path, folder or ".")


class Anchors:
    """The anchors of one page.

    Args:
        reserved: Anchors that the page makes itself, such as the names of its classes: a heading
            "Softmax" beside a function ``softmax`` becomes ``softmax-section``.
        github: Whether headings have the anchors that GitHub gives them: the second "Usage" is
            ``usage-1``, and that is no fault.
    """

    def __init__(self, reserved: Iterable[str] = (), *, github: bool = False) -> None:
        self.github = github
        #: Anchors that GitHub gives, and those of this page in their place.
        self.renamed: dict[str, str] = {}
        self._reserved = frozenset(reserved)
        self._taken = set(self._reserved)
        #: The number of the last of the headings with the same words.
        self._numbers: Counter[str] = Counter()
        #: The headings around the next one, by their levels as written and on the page.
        self._open: list[tuple[int, int]] = [(0, 1)]  # The title.

    def claim(self, anchor: str) -> bool:
        """Take an anchor that an author chose. False when the page has it already."""
        free = anchor not in self._taken
        self._taken.add(anchor)
        return free

    def slug(self, text: str, chosen: str = "") -> tuple[str, bool]:
        """Anchor for a heading, the one that its author chose if there is one, and whether it is
        the first of that name on the page. A second one gets a number, so that the page is valid.
        """
        if chosen and self.claim(chosen):
            return chosen, True
        base = github_slug(text) if self.github else slugify(chosen or text)
        if base in self._reserved:
            self.renamed[base] = base = f"{base}-section"
        if self.claim(base):
            return base, not chosen
        first = 1 if self.github else 2
        numbers = count(self._numbers[base] + first)
        found = next(n for n in numbers if self.claim(f"{base}-{n}"))
        self._numbers[base] = found - first + 1
        return f"{base}-{found}", self.github

    def level(self, written: int) -> int:
        """Level on the page for a heading written with `written` signs ``#``.

        A heading is one level below the one that contains it, so that none is ever skipped, and
        headings written alike under the same parent come out alike.
        """
        while self._open[-1][0] >= written:
            self._open.pop()
        level = min(self._open[-1][1] + 1, 6)
        self._open.append((written, level))
        return level


def slugify(text: str) -> str:
    """Words in lower case joined by hyphens, as GitHub does it: letters of any script are kept."""
    words = re.sub(r"[^\w\s-]", "", text.lower())
    return re.sub(r"[\s_-]+", "-", words).strip("-") or "section"


def github_slug(text: str) -> str:
    """The anchor of a heading on GitHub, where each space is a hyphen and underscores stay."""
    kept = (c for c in text.strip().lower() if c.isalnum() or c in "_- " or category(c)[0] == "M")
    return "".join(kept).replace(" ", "-") or "section"


def paper_url(paper: str) -> str:
    """The address of a paper: written out, or an arXiv number."""
    number = _ARXIV.fullmatch(paper.strip())
    if number:
        return f"https://arxiv.org/abs/{number[1]}"
    return paper.strip() if paper.strip().startswith(("https://", "http://")) else ""


def card_url(draft: Draft) -> str:
    """Address of a page's card; sources of C++ have none, nor do pages of other packages."""
    has_one = draft.own and not is_cpp(draft.display)
    return f"{CARDS}{draft.original.removesuffix('.html')}.png" if has_one else ""


def text_url(draft: Draft) -> str:
    """Where the page is as Markdown; empty for one that is put together of others."""
    return f"{draft.url}.md" if draft.own and draft.display != draft.url else ""


def is_cpp(path: str) -> bool:
    """Whether a file is C++, by its path."""
    return path.endswith(CPP_SUFFIXES)
