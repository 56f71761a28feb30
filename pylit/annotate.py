"""``pylit notes torch.nn.modules.activation``: notes on the code of others, begun or refreshed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pylit.diagnostics import Report, nearest
from pylit.languages.annotations import FOLDER, begun, refreshed
from pylit.languages.blocks import save
from pylit.site.annotated import note_files, open_notes
from pylit.source.discover import read_source
from pylit.source.installed import installed, module_file, package_of
from pylit.source.parse import parse_module

_OPENING = """---
package: {package}
versions: "=={version}.*"
title: {module}
summary: >
  What a reader learns here.
---

What is read first.
"""


class NotesError(Exception):
    """Notes that cannot be written: the reason and a way out."""


def annotate(docs: Path, module: str, names: Sequence[str]) -> Iterator[str]:
    """Begin the notes on a module, or refresh them, and say which of them have no place."""
    report, place = Report(), module.replace(".", "/")
    path = next(filter(None, map(module_file, (f"{place}.py", f"{place}/__init__.py"))), None)
    if path is None:
        raise NotesError(f"there is no module {module} written in Python; install its package")
    place += "/__init__" * (path.name == "__init__.py")
    shown = f"docs_src/{FOLDER}/{place}.md"
    file = next((one for one in note_files(docs, report) if one.display == shown), None)
    if file is None:
        source = read_source(path, name=module, display=f"{place}.py", own=False, report=report)
        if source is None:
            raise NotesError("\n".join(map(str, report)))
        parsed = parse_module(source, report)
        known = {definition.qualname for definition in parsed.definitions}
        if unknown := [name for name in names if name not in known]:
            hint = nearest(unknown[0], known, "name a class or a function")
            raise NotesError(f"{module} does not define {unknown[0]}; {hint}")
        package = package_of(module)
        found = installed(package)
        version = ".".join(found.version.split(".")[:2]) if found else "0"
        opening = _OPENING.format(package=package, version=version, module=module)
        _write(docs / FOLDER / f"{place}.md", opening + begun(parsed, names))
        yield f"Wrote {shown}."
        yield "`pylit serve` shows the page while you write."
        return
    opened = open_notes(file, report)
    if opened is None:
        raise NotesError("\n".join(map(str, report)))
    text, lost = refreshed(opened[0], file, report)
    if text != file.text:
        _write(file.path, text)
    for one in lost:
        yield f"{shown}:{one.block.head}: {one.message}; {one.hint}"
    yield f"{shown}: {text.count(' → ')} to read again, {len(lost)} without a place"


def _write(path: Path, text: str) -> None:
    try:
        save(path, text)
    except OSError as error:
        reason = error.strerror or error
        raise NotesError(f"{path} cannot be written ({reason}); make it writable") from None
