"""Pages as HTML, by the templates of the theme."""

import re
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pylit.addresses import canonical, relative, slugify
from pylit.model import SiteView
from pylit.pages import PageView
from pylit.rows import rows

#: Fonts of every page, and those that a formula needs to be laid out, by what it contains.
FONTS = ("serif", "sans", "mono", "serif-italic")
MATH_FONTS = {"<mjx-c": ("mjx-ncm-n", "mjx-ncm-zero"), "<mjx-break": ("mjx-ncm-brk",)}

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
        view = replace(view, card="") if self._site.bare else view
        return self._environment.get_template(f"{view.kind}.html").render(
            page=view,
            site=self._site,
            rows=rows(view.sections),
            preloads=() if self._site.bare else _preloads(view),
            href=partial(relative, view.url),
            canonical=self._site.base_url and canonical(self._site.base_url, view.url),
            minutes=f"{view.minutes} minute{'s' * (view.minutes > 1)}",
        )


@lru_cache(maxsize=4)
def _environment(folders: tuple[Path, ...], stamp: str) -> Environment:
    """The templates of some folders, compiled once for all builds of a process."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        extensions=["jinja2.ext.do"],
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
