"""Addresses of things that other projects document: Python's library, and PyTorch."""

import builtins
import sys

from pylit.model import Link

PYTHON = "https://docs.python.org/3/library/"
PYTORCH = "https://docs.pytorch.org/docs/stable/"


def external_link(dotted: str) -> Link | None:
    """Link to the documentation of a full dotted name, or None where there may be no such page."""
    name = dotted.removeprefix("builtins.")
    top, _, rest = name.partition(".")
    if top == "torch" and rest.startswith("nn.") and rest[3:4].isupper() and rest.count(".") == 1:
        return Link(f"{PYTORCH}generated/{name}.html", name, external=True)
    if not rest and hasattr(builtins, name):
        page = "exceptions" if name[0].isupper() else "functions"
        return Link(f"{PYTHON}{page}.html#{name}", name, external=True)
    if not rest and name in sys.stdlib_module_names and not name.startswith("_"):
        return Link(f"{PYTHON}{name}.html", name, external=True)
    return None


def is_external_class(dotted: str) -> bool:
    """Whether calling a documented name makes an instance of it."""
    name = dotted.removeprefix("builtins.")
    if "." not in name:
        return isinstance(getattr(builtins, name, None), type)
    return name.rpartition(".")[2][:1].isupper() and external_link(dotted) is not None
