"""Addresses of things that other projects document: Python and its library, and PyTorch.

The names, and the pages they are on, are kept in ``names/*.txt``: there is a link only to what is
known to be documented, and a build neither imports PyTorch nor asks the network.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pylit.model import Link

_NAMES = Path(__file__).with_name("names")
_SITES = {
    "python": "https://docs.python.org/3/",
    "pytorch": "https://docs.pytorch.org/docs/stable/",
}
Kind = Literal["module", "class", ""]
_MARKS: dict[str, Kind] = {"/": "module", "^": "class"}


class _Documented(NamedTuple):
    """A name that a documentation site has an entry for."""

    url: str
    kind: Kind


def external_link(dotted: str) -> Link | None:
    """Link to the documentation of a full dotted name, or None where there may be no entry."""
    name = dotted.removeprefix("builtins.")
    found = documented().get(name)
    return Link(found.url, name, external=True) if found else None


def external_kind(dotted: str) -> Kind:
    """Whether a documented name is that of a module or of a class; else empty."""
    found = documented().get(dotted.removeprefix("builtins."))
    return found.kind if found else ""


@cache
def documented() -> dict[str, _Documented]:
    """Everything that there is an entry for, by its full name."""
    tables = ((_NAMES.joinpath(f"{site}.txt").read_text("utf-8"), _SITES[site]) for site in _SITES)
    return {name: entry for table, root in tables for name, entry in _read(table, root)}


def _read(table: str, root: str) -> Iterator[tuple[str, _Documented]]:
    """The entries of a table of names; `table` itself says how it is written."""
    page = owner = ""
    for line in table.splitlines():
        words = line.split()
        if not line.startswith((" ", "#")):
            page = line
            continue
        if line.startswith("  ") and not line.startswith("    "):
            owner = words.pop(0).removeprefix("-")
        for word in words if line.startswith(" ") else ():
            name = f"{owner}.{word.rstrip('/^')}".lstrip(".")
            kind = _MARKS.get(word[-1], "")
            address = f"{page}#module-{name}" if kind == "module" else f"{page}#{name}"
            if page == "generated/":
                address = f"{page}{name}.html"
            elif page == "generated/#":
                address = f"generated/{owner}.html#{name}"
            elif "#" in page:
                address = page
            yield name, _Documented(root + address, kind)
