"""Inside a child process: what runs read of the texts of modules.

Nearly every run computes, and asks for no docstring and no source: an edit to a note cannot change
what came of it. A few do ask. A figure may tell the words of a page, a table the fields of a
configuration as their class explains them. So the child notes down whose code asked. It forgets
nothing between runs: what one has read may be kept by a module, and reach the next from there.
"""

import dis
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

_ASKING = frozenset({"__doc__", "getdoc", "pydoc"})
_IMPORTING = "<frozen importlib"


class Curiosity:
    """Watches which code asks for notes, and which sources are read without being imported.

    Args:
        roots: Folders of the packages, and of the files that declare runs.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(f"{os.path.realpath(root)}{os.sep}" for root in roots)
        #: Files -> whether they belong to the packages. An environment may lie in the same folder.
        self._known: dict[str, bool] = {}
        #: Files with code that asked for notes.
        self.asked: set[str] = set()
        #: Sources that were opened to be read.
        self.read: set[str] = set()
        sys.addaudithook(self._opened)

    def ran(self, code: CodeType) -> None:
        """Look at code that begins to run."""
        if self._is_own(code.co_filename) and _asks(code):
            self.asked.add(os.path.realpath(code.co_filename))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at all code that runs inside, such as that of modules as they are imported."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def told(self) -> dict[str, list[str]]:
        """For an answer: everything up to now."""
        return {"asked": sorted(self.asked), "read": sorted(self.read)}

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        # For calls alone: a tracer that returns nothing is not told of lines.
        self.ran(frame.f_code)

    def _is_own(self, file: str) -> bool:
        if file not in self._known:
            environment = (f"{sys.prefix}{os.sep}", f"{sys.base_prefix}{os.sep}")
            path = os.path.realpath(file)
            self._known[file] = path.startswith(self._roots) and not path.startswith(environment)
        return self._known[file]

    def _opened(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name != "open" or not isinstance(arguments[0], str) or not arguments[0].endswith(".py"):
            return
        # The frame above this one is that of whoever called `open`.
        imported = sys._getframe(1).f_code.co_filename.startswith(_IMPORTING)
        if not imported and self._is_own(path := os.path.realpath(arguments[0])):
            self.read.add(path)


def _asks(code: CodeType) -> bool:
    """Whether code mentions docstrings other than to set its own."""
    if not _ASKING.isdisjoint(code.co_names):
        steps = (step for step in dis.get_instructions(code) if step.argval in _ASKING)
        if any(not step.opname.startswith("STORE") for step in steps):
            return True
    return any(isinstance(one, str) and one in _ASKING for one in code.co_consts)
