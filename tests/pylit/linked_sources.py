"""What the tests of links share: small projects from strings, and their links as readable text."""

import re
import textwrap

from pylit_sources import source

from pylit.diagnostics import Report
from pylit.model import Link, Module
from pylit.source.names import Index, Resolver, targets
from pylit.source.parse import parse_module


def module(path: str, text: str) -> Module:
    """The file at `path` below the top of a project, parsed."""
    name, package = path.removesuffix(".py").replace("/", "."), path.endswith("__init__.py")
    name = name.removesuffix(".__init__")
    return parse_module(source(textwrap.dedent(text), name=name, package=package), Report())


#: A module that others import from.
LAYERS = """
class Base:
    def reset(self): ...

class Layer(Base):
    def forward(self): ...

def make(): ...

SIZE = 3
"""


class Project:
    """Modules that know each other."""

    def __init__(self, files: dict[str, str]) -> None:
        self.modules = {path: module(path, text) for path, text in files.items()}
        self.targets = {}
        for path, each in self.modules.items():
            self.targets.update(targets(each, path.replace(".py", ".html")))
        self.index = Index(self.targets)
        self.asked: list[str] = []

    def lookup(self, dotted):
        self.asked.append(dotted)
        return self.index.lookup(dotted)

    def resolver(self, path: str) -> Resolver:
        return Resolver(self.modules[path], self.lookup)

    def links(self, path: str) -> list[str]:
        """``line name -> dotted`` of each link in the module at `path`, in order."""
        lines = self.modules[path].source.lines
        shown = []
        found = self.resolver(path).tokens()
        for line, offset in sorted(found):
            word = re.match(r"\w+", lines[line - 1][offset:])
            assert word is not None, (line, offset)
            shown.append(f"{line} {word[0]} -> {found[line, offset].name}")
        return shown


def links(text: str, **others: str) -> list[str]:
    """Links of one module ``m``; `others` are further modules of the project, by name."""
    files = {f"{name}.py": other for name, other in others.items()}
    return Project({"m.py": text, **files}).links("m.py")


def named(link: Link | None) -> str | None:
    """The dotted name that a link leads to."""
    return link.name if link else None
