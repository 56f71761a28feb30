"""The child process: runs the functions of ``docs_src/figures``, each within limits.

``python -P -m pylit.figures.child`` reads one order as JSON from its standard input and writes a
line of JSON for each function, in order, as it is done.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pylit.figures.figure import Figure
from pylit.figures.table import Table
from pylit.runs.confined import Order, leave, limits, load, ordered, same_every_time, told
from pylit.runs.curiosity import Curiosity


@dataclass
class Seen:
    """What a run has read: sources by running them, and other files by opening them."""

    curiosity: Curiosity
    sources: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    #: Of which the names of their files were asked for: one more may change a figure.
    folders: set[str] = field(default_factory=set)
    on: bool = False

    def call(self, frame: FrameType, event: str, argument: object) -> None:
        """For `sys.setprofile`."""
        if event == "call":
            self.sources.add(frame.f_code.co_filename)
            self.curiosity.ran(frame.f_code)

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        """For `sys.addaudithook`."""
        if not self.on or not arguments or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        if name in ("os.listdir", "os.scandir"):
            self.folders.add(os.path.realpath(os.fsdecode(arguments[0])))
        elif name == "open":
            # Without a mode it is a file descriptor of `os.open`; read or not, it counts.
            if isinstance(arguments[1], str) and not set(arguments[1]) & set("r+"):
                return
            self.files.add(os.path.realpath(os.fsdecode(arguments[0])))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside."""
        self.sources, self.files, self.folders, self.on = set(), set(), set(), True
        before = sys.getprofile()
        sys.setprofile(self.call)
        try:
            yield
        finally:
            sys.setprofile(before)
            self.on = False


def main() -> None:
    """Draw what is ordered."""
    order, answer = ordered()
    seen = Seen(
        Curiosity([*order["roots"], *{str(Path(work["file"]).parent) for work in order["work"]}])
    )
    sys.addaudithook(seen.event)
    loaded: dict[str, ModuleType | dict[str, Any]] = {}
    for work in order["work"]:
        path = Path(work["file"])
        if work["file"] not in loaded:
            loaded[work["file"]] = _loaded(path, order, seen.curiosity)
        module = loaded[work["file"]]
        if isinstance(module, ModuleType):
            answer(_drawn(module, work["function"], path, order, seen))
        else:
            answer(module)


def _loaded(path: Path, order: Order, curiosity: Curiosity) -> ModuleType | dict[str, Any]:
    """The module, or an answer that says why there is none."""
    try:
        with limits(order["seconds"], order["bytes"]), curiosity.watching():
            return load(path, "figures_")
    except BaseException as error:
        return {"error": told(error, path, order)}


def _drawn(
    module: ModuleType, function: str, path: Path, order: Order, seen: Seen
) -> dict[str, Any]:
    """The answer of one function."""
    same_every_time()
    try:
        with limits(order["seconds"], order["bytes"]), seen.watching():
            figure = getattr(module, function)()
        shown = _shown(figure, function)
        # A lone half of a character cannot be written: better said here than by the build.
        "".join(shown.values()).encode()
    except BaseException as error:
        return {"error": told(error, path, order)}
    return {
        **shown,
        **seen.curiosity.told(),
        "sources": sorted(seen.sources),
        "files": sorted(seen.files),
        "folders": sorted(seen.folders),
    }


def _shown(figure: object, function: str) -> dict[str, str]:
    """What pages show of what a function returned."""
    if isinstance(figure, Figure):
        alt = figure.alt.strip()
        return {"kind": "figure", "picture": figure.picture(), "below": figure.below(), "alt": alt}
    if isinstance(figure, Table):
        # A table needs no words beside it: it is made of words.
        return {"kind": "table", "picture": figure.cells(), "below": figure.below(), "alt": ""}
    kind = type(figure).__name__
    raise TypeError(f"`{function}` returns a {kind}, expected a Figure or a Table")


if __name__ == "__main__":
    main()
    leave()
