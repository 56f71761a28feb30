"""Addresses of things that other projects document: Python and its library, and PyTorch.

The names, and the pages they are on, are kept in ``names/*.txt``: there is a link only to what is
known to be documented, and a build neither imports PyTorch nor asks the network.
"""

from functools import cache
from pathlib import Path

from pylit.model import Link

_NAMES = Path(__file__).with_name("names")
_SITES = {
    "python": "https://docs.python.org/3/",
    "pytorch": "https://docs.pytorch.org/docs/stable/",
}
_MARKS = {"/": "module", "^": "class"}


def external_link(dotted: str) -> Link | None:
    """Link to the documentation of a full dotted name, or None where there may be no entry."""
    name = dotted.removeprefix("builtins.")
    url, _ = documented().get(name, ("", ""))
    return Link(url, name, external=True) if url else None


def external_kind(dotted: str) -> str:
    """Whether a documented name is that of a "module" or of a "class"; else empty."""
    return documented().get(dotted.removeprefix("builtins."), ("", ""))[1]


@cache
def documented() -> dict[str, tuple[str, str]]:
    """Address and kind of all that there is an entry for; the tables say how they are written."""
    found = {}
    for site, root in _SITES.items():
        page = owner = ""
        for line in _NAMES.joinpath(f"{site}.txt").read_text("utf-8").splitlines():
            words = line.split()
            if not line.startswith((" ", "#")):
                page = words.pop()
            elif line.startswith("  ") and not line.startswith("    "):
                owner = words.pop(0).removeprefix("-")
            for word in words if not line.startswith("#") else ():
                name = f"{owner}.{word.rstrip('/^')}".lstrip(".")
                kind = _MARKS.get(word[-1], "")
                address = f"{page}#module-{name}" if kind == "module" else f"{page}#{name}"
                if page == "generated/":
                    address = f"{page}{name}.html"
                elif page == "generated/#":
                    address = f"generated/{owner}.html#{name}"
                elif "#" in page:
                    address = page
                found[name] = root + address, kind
    return found
