"""Inventories of names, version 2 of Sphinx's format: four lines of text, then, compressed, one
line per object, ``name domain:role priority address displayed-name``.

A site writes one, for links of other projects. Those of Python and PyTorch are in ``documented``,
from where ``docs_src/documented.py`` renews them. Any other that the settings name is fetched once,
and then stays in the user's cache. Where it cannot be fetched, its names are no links, and one
warning says so.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

from pylit.cache import digest, user_cache
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Definition, DefinitionKind, PageLink, Target

#: Seconds without an answer, and bytes: numpy's inventory has 200 KB.
_PATIENCE, _MOST = 5, 10_000_000
_OBJECT = re.compile(r"^(\S+)[ \t]+py:(\w+)[ \t]+-?\d+[ \t]+(\S+)[ \t]", re.MULTILINE)
#: Kind of a definition -> its role; what has another role is taken for a function.
_ROLES: Mapping[DefinitionKind, str] = {
    "module": "module",
    "class": "class",
    "function": "function",
    "method": "method",
    "constant": "data",
}
_KINDS: Mapping[str, DefinitionKind] = {"module": "module", "class": "class", "exception": "class"}
#: The inventories of the generator, and where what they name is documented.
DOCUMENTED = Path(__file__).with_name("documented")
ADDRESSES = {
    "python": "https://docs.python.org/3/",
    "pytorch": "https://docs.pytorch.org/docs/stable/",
}


class Inventory(Mapping[str, Target]):
    """Names with their addresses. A target is made when it is asked for: of thousands, few are.

    Args:
        entries: The role of each name, and its address, in which ``$`` at the end is the name.
    """

    def __init__(self, entries: Mapping[str, tuple[str, str]]) -> None:
        self._entries = entries

    def __or__(self, other: "Inventory") -> "Inventory":
        return Inventory({**self._entries, **other._entries})

    def __getitem__(self, name: str) -> Target:
        role, url = self._entries[name]
        definition = Definition(_KINDS.get(role, "function"), name, "", 0, "")
        return Target(definition, url[:-1] + name if url.endswith("$") else url)

    def get(self, name: str, default: Any = None) -> Any:
        """The target of a name. Most that are asked for have none, and an exception is slow."""
        return self[name] if name in self._entries else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def inventory(
    project: str, version: str, targets: Iterable[Target], prose: Iterable[PageLink] = ()
) -> bytes:
    """``objects.inv``, for links of Sphinx projects: definitions, and prose pages as documents."""
    lines = {
        _object(t.definition.dotted, f"py:{_ROLES[t.definition.kind]}", 1, t.url) for t in targets
    }
    for page in prose:
        lines.add(_object(page.url.removesuffix(".html"), "std:doc", -1, page.url, page.title))
    header = (
        "# Sphinx inventory version 2\n"
        f"# Project: {' '.join(project.split())}\n"
        f"# Version: {version}\n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    body = "".join(sorted(lines)).encode()
    return header.encode() + zlib.compress(body, 9)


def _object(name: str, role: str, priority: int, url: str, shown: str = "-") -> str:
    # `$` stands for the object's name, which most anchors end with.
    if name and url.endswith(name):
        url = url.removesuffix(name) + "$"
    return f"{name} {role} {priority} {url} {' '.join(shown.split())}\n"


@cache
def documented() -> Mapping[str, Target]:
    """The names that are documented by Python or PyTorch."""
    files = ((DOCUMENTED / f"{name}.inv", address) for name, address in ADDRESSES.items())
    found = (read_inventory(path.read_bytes(), address) for path, address in files)
    return reduce(or_, found)


def read_inventories(wanted: Sequence[str], root: Path, report: Report) -> Inventory:
    """The documented names of other projects; `wanted` are the values of the setting."""
    found = Inventory({})
    for each in wanted:
        address, _, path = each.partition(" ")
        address = address.removesuffix("objects.inv").rstrip("/") + "/"
        try:
            data = (root / path.strip()).read_bytes() if path else _fetched(address)
            found |= read_inventory(data, address)
        except (OSError, ValueError, zlib.error) as error:
            message = f"the names of {address} are no links: {error}"
            hint = "with a network, build again; or name a copy of it, 'ADDRESS PATH'"
            fault = ("inventories", 0, 0, "inventory", message, hint)
            report.add(Diagnostic(*fault, severity=Severity.WARNING))
    return found


def _fetched(address: str) -> bytes:
    kept = user_cache() / "inventories" / f"{digest(address)[:16]}.inv"
    if kept.is_file():
        return kept.read_bytes()
    data, fault = _answer(address)
    if fault:
        raise OSError(fault)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(data)
    return data


@cache
def _answer(address: str) -> tuple[bytes, str]:
    """What a server sends, or why it does not. It is asked once: a server of pages builds often."""
    if not address.startswith(("https://", "http://")):
        return b"", "its address does not begin with https://"
    # Nearly no build asks a server, and what it takes to ask is slow to import.
    from urllib.request import urlopen

    try:
        with urlopen(f"{address}objects.inv", timeout=_PATIENCE) as answer:
            data: bytes = answer.read(_MOST)
        read_inventory(data)
    except (OSError, ValueError, zlib.error) as error:
        return b"", str(error)
    return data, ""


@cache
def read_inventory(data: bytes, address: str = "") -> Inventory:
    """The names of an inventory, with their addresses below that of its project.

    Raises:
        ValueError, zlib.error: It is no inventory, or damaged.
    """
    *head, packed = data.split(b"\n", 4)
    if len(head) < 4 or head[0] != b"# Sphinx inventory version 2":
        raise ValueError("it is no inventory of Sphinx, version 2")
    unpacked = zlib.decompressobj().decompress(packed, 10 * _MOST).decode("utf-8")
    found = _OBJECT.findall(unpacked)
    return Inventory({name: (role, address + place) for name, role, place in found})
