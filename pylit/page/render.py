"""Pages to HTML: the templates of a theme, filled in.

A template gets the `PageView` as ``page``, its sections as ``rows``, the `SiteView` as ``site``,
and ``href``, which turns an address from the site's root into one that leads there from the page,
so that a site works wherever it lies: on a server, in a folder of a server, or on a disk.
"""

import posixpath
import re
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pylit.page.metadata import bibtex, structured
from pylit.page.rows import rows
from pylit.page.view import PageView, SiteView
from pylit.prose.slugs import slugify

#: Fonts of every page, and those that a formula needs to be laid out, by what it contains.
FONTS = ("serif", "sans", "mono", "serif-italic")
MATH_FONTS = {"<mjx-c": ("mjx-ncm-n", "mjx-ncm-zero"), "<mjx-break": ("mjx-ncm-brk",)}

_ABSOLUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
#: Inline code and formulas of up to 20 characters, such as ``[T, B, C]``, stay on one line; in the
#: narrowest window they fit into a list inside a list. Longer ones are marked, for they are few.
_LONG = re.compile(r'<code(?=>[^<]{21})|<mjx-container(?=[^>]* data-tex="[^"]{21})')


class Renderer:
    """The templates of a theme, for the pages of one site.

    Args:
        folders: Of the templates, and of ``cards`` for the home page, in the order in which they
            are searched; a page is shown by the template named after its kind.
        site: What every template may know.
        stamp: Of the templates: with another, they are read again.
    """

    def __init__(self, folders: tuple[Path, ...], site: SiteView, stamp: str = "") -> None:
        self._site = site
        self._environment = _environment(folders, stamp)

    def page(self, view: PageView) -> str:
        """The HTML of a page."""
        base = self._site.base_url
        view = replace(view, card="") if self._site.bare else view
        address = canonical(base, view.url) if base else ""
        return self._environment.get_template(f"{view.kind}.html").render(
            page=view,
            site=self._site,
            rows=rows(view.sections),
            preloads=() if self._site.bare else _preloads(view),
            href=partial(relative, view.url),
            canonical=address,
            structured=structured(view, self._site, address),
            bibtex=bibtex(view, self._site, address),
            minutes=f"{view.minutes} minute{'s' * (view.minutes > 1)}",
        )


@lru_cache(maxsize=4)
def _environment(folders: tuple[Path, ...], stamp: str) -> Environment:
    """The templates of some folders, compiled once for all builds of a process."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["breakable"] = breakable
    environment.filters["slug"] = slugify
    return environment


def _preloads(view: PageView) -> tuple[str, ...]:
    """The fonts that a page surely uses: asked for at once, they come before it is painted."""
    notes = (view.title_html, view.summary_html, view.body, *(s.note for s in view.sections))
    used = [fonts for sign, fonts in MATH_FONTS.items() if any(sign in note for note in notes)]
    return FONTS + tuple(chain.from_iterable(used))


def breakable(note: str) -> Markup:
    """The HTML of a note, with the class ``l`` on what is too long for a line of its own."""
    return Markup(_LONG.sub(r'\g<0> class="l"', note))


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
    result = posixpath.relpath(path or from_url, posixpath.dirname(from_url) or ".")
    if path.endswith("/"):
        result += "/"
    # "a:b.html" would be read as an address with the scheme "a".
    if ":" in result.partition("/")[0]:
        result = f"./{result}"
    return result + hash_ + anchor
