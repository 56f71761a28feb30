"""The names of other projects' documentation, from the inventories that Sphinx and pylit write.

An inventory is fetched once, and then stays in the user's cache. Where it cannot be fetched, its
names are no links, and one warning says so.
"""

import re
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pylit.cache import digest, user_cache
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Definition, Target

#: Seconds without an answer, and bytes: numpy's inventory has 200 KB.
_PATIENCE, _MOST = 5, 10_000_000
_OBJECT = re.compile(r"(\S+)\s+py:(\w+)\s+-?\d+\s+(\S+)\s")
_KINDS: Mapping[str, Literal["module", "class"]] = {
    "module": "module",
    "class": "class",
    "exception": "class",
}


def read_inventories(wanted: Sequence[str], root: Path, report: Report) -> dict[str, Target]:
    """The documented names of other projects; `wanted` are the values of the setting."""
    found: dict[str, Target] = {}
    for each in wanted:
        address, _, path = each.partition(" ")
        address = address.removesuffix("objects.inv").rstrip("/") + "/"
        try:
            data = (root / path.strip()).read_bytes() if path else _fetched(address)
            found |= _targets(address, data)
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
    try:
        with urllib.request.urlopen(f"{address}objects.inv", timeout=_PATIENCE) as answer:
            data: bytes = answer.read(_MOST)
        _targets(address, data)
    except (OSError, ValueError, zlib.error) as error:
        return b"", str(error)
    return data, ""


@cache
def _targets(address: str, data: bytes) -> dict[str, Target]:
    return dict(_objects(address, data))


def _objects(address: str, data: bytes) -> Iterator[tuple[str, Target]]:
    *head, packed = data.split(b"\n", 4)
    if len(head) < 4 or head[0] != b"# Sphinx inventory version 2":
        raise ValueError("it is no inventory of Sphinx, version 2")
    unpacked = zlib.decompressobj().decompress(packed, 10 * _MOST).decode("utf-8")
    for line in unpacked.split("\n"):
        if entry := _OBJECT.match(line):
            name, role, place = entry.groups()
            place = place[:-1] + name if place.endswith("$") else place
            definition = Definition(_KINDS.get(role, "function"), name, "", 0, "")
            yield name, Target(definition, address + place)
