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
#: Attributes that a class has from its base are documented with the base.
_BASES = {
    "torch.nn.parameter.": "torch.Tensor.",
    "torch.nn.": "torch.nn.Module.",
    "torch.optim.lr_scheduler.": "torch.optim.lr_scheduler.LRScheduler.",
    "torch.optim.": "torch.optim.Optimizer.",
    "torch.distributions.": "torch.distributions.distribution.Distribution.",
    "pathlib.": "pathlib.PurePath.",
}
#: Public names of things that are documented under a longer one.
_ALIASES = {
    "torch.inference_mode": "torch.autograd.grad_mode.inference_mode",
    "torch.nn.Buffer": "torch.nn.parameter.Buffer",
    "torch.nn.Parameter": "torch.nn.parameter.Parameter",
    "torch.nn.UninitializedBuffer": "torch.nn.parameter.UninitializedBuffer",
    "torch.nn.UninitializedParameter": "torch.nn.parameter.UninitializedParameter",
    "torch.set_grad_enabled": "torch.autograd.grad_mode.set_grad_enabled",
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
    owner, _, attribute = name.rpartition(".")
    owner = _ALIASES.get(owner, owner)
    names = [_ALIASES.get(name, name), f"{owner}.{attribute}"]
    if external_kind(owner) == "class":
        names += [base + attribute for start, base in _BASES.items() if owner.startswith(start)]
    known = documented()
    return next((Link(known[n].url, n, external=True) for n in names if n in known), None)


def external_kind(dotted: str) -> Kind:
    """Whether a documented name is that of a module or of a class; else empty."""
    name = dotted.removeprefix("builtins.")
    found = documented().get(_ALIASES.get(name, name))
    return found.kind if found is not None else ""


@cache
def documented() -> dict[str, _Documented]:
    """Everything that there is an entry for, by its full name."""
    found: dict[str, _Documented] = {}
    for site, root in _SITES.items():
        found.update(_read((_NAMES / f"{site}.txt").read_text(encoding="utf-8"), root))
    for name, entry in list(found.items()):
        # `torch.distributions.normal.Normal` is imported as `torch.distributions.Normal`.
        parts = name.split(".")
        if name.startswith("torch.distributions.") and len(parts) == 4 and entry.kind == "class":
            found.setdefault(f"torch.distributions.{parts[3]}", entry)
    return found


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
