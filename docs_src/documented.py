"""Renew the names of Python's and PyTorch's documentation that the generator knows.

    python docs_src/documented.py            # from the inventories that the two publish
    python docs_src/documented.py FOLDER     # from copies of them, python.inv and pytorch.inv

Where neither is to be had, the names that are there stay, as far as the installed PyTorch has them.
A name of PyTorch that is documented under a longer one, such as
``torch.nn.parameter.Parameter``, is known under its public one as well.
"""

import builtins
import importlib
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pylit.model import Definition, Target
from pylit.source.inventories import ADDRESSES, DOCUMENTED, inventory, read_inventory


def published(name: str, folder: Path | None) -> bytes:
    """An inventory: a copy in a folder, that of its project, or the one that is there."""
    if folder and (folder / f"{name}.inv").is_file():
        return (folder / f"{name}.inv").read_bytes()
    try:
        with urllib.request.urlopen(f"{ADDRESSES[name]}objects.inv", timeout=20) as answer:
            data: bytes = answer.read()
            return data
    except OSError as error:
        print(f"{name}: {error}; its names are those that were there")
        return (DOCUMENTED / f"{name}.inv").read_bytes()


def installed(dotted: str) -> object | None:
    """What a full name is in this environment; None for a name of nothing."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
            for part in parts[length:]:
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return found
    return None


def python(found: Mapping[str, Target]) -> dict[str, Target]:
    """The names of Python, those that need no import with their module."""
    return {
        f"builtins.{name}" if hasattr(builtins, name.partition(".")[0]) else name: target
        for name, target in found.items()
    }


def pytorch(found: Mapping[str, Target]) -> dict[str, Target]:
    """The names that the installed PyTorch has, and shorter ones of the same things."""
    names = {
        n: t for n, t in found.items() if t.definition.kind == "module" or installed(n) is not None
    }
    for name, target in [*names.items()]:
        thing, (*packages, last) = installed(name), name.split(".")
        for length in range(1, len(packages)):
            short = ".".join([*packages[:length], last])
            if callable(thing) and installed(short) is thing:
                names.setdefault(short, target)
    return names


def main() -> None:
    """Write both inventories."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else None
    for name, title, select in (("python", "Python", python), ("pytorch", "PyTorch", pytorch)):
        data = published(name, folder)
        version = data.split(b"\n")[2].decode().rpartition(" ")[2]
        targets = [
            replace(target, definition=Definition(target.definition.kind, dotted, "", 0, ""))
            for dotted, target in select(read_inventory(data)).items()
        ]
        (DOCUMENTED / f"{name}.inv").write_bytes(inventory(title, version, targets))
        print(f"{name} {version}: {len(targets)} names")


if __name__ == "__main__":
    main()
