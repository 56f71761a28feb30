"""What a module's syntax says: of the names in sight, and of what others may learn of it."""

import pytest
from linked_sources import Project, links, module

from pylit.code.values import PUBLIC, targets

TEXT = """
    import torch.nn as nn
    from .base import Base, helper
    from ..above import thing
    __all__ = ["Net", "SIZE"]

    SIZE: int = 3
    default = Base()
    linear = nn.Linear
    for loop in (): ...

    class Net(Base[int], nn.Module, helper()):
        kind = "net"
        size: "int | None"
        def __init__(self, given: Base, *, norm: nn.LayerNorm | None = None):
            self.base = Base(1)
            self.given = given
            self.norm = norm
            self.memory = None
            self.state = None
            self.count = 0
            for self.step in (): ...
            given.other = Base()
        def reset(self) -> Base:
            self.state = {}
            self.count += 1
        @property
        def first(self) -> Base: ...
"""


def facts(name):
    return targets(module("pkg/sub/net.py", TEXT), "page.html")[f"pkg.sub.net{name}"]


def test_a_module_re_exports_what_it_imports():
    names = facts("").attributes
    assert names["nn"] == "torch.nn"
    assert names["Base"] == "pkg.sub.base.Base"
    assert names["thing"] == "pkg.above.thing"
    assert names[PUBLIC] == "Net SIZE"
    assert names["loop"] == ""
    assert "Net" not in names and "SIZE" not in names


def test_a_class_has_bases_and_attributes_with_their_classes():
    net = facts(".Net")
    assert net.bases == ("pkg.sub.base.Base", "torch.nn.Module", "")
    assert net.attributes == {
        "kind": "builtins.str",
        "size": "builtins.int",
        "base": "pkg.sub.base.Base",
        "given": "pkg.sub.base.Base",
        "norm": "torch.nn.LayerNorm",
        "memory": "",
        "state": "builtins.dict",
        "count": "",
        "step": "",
    }


def test_of_several_definitions_of_a_name_there_is_one_target():
    text = "class A:\n  @property\n  def f(self): ...\n  @f.setter\n  def f(self, value): ..."
    project = Project({"m.py": text})
    assert project.targets["m.A.f"].url == "m.html#A.f"
    assert project.links("m.py") == ["2 property -> property", "4 f -> m.A.f"]


@pytest.mark.parametrize(
    "body",
    [
        "def f(make): make",
        "def f(*make): make",
        "def f(*, make=1): make",
        "def f(**make): make",
        "lambda make: make",
        "[make for make in ()]",
        "{make: 1 for make in ()}",
        "def f():\n    for make in (): make",
        "def f():\n    with f() as make: make",
        "def f():\n    try: f()\n    except ValueError as make: make",
        "def f():\n    import make\n    make",
        "def f():\n    make = 1\n    make",
        "def f():\n    if (make := 1): make",
        "def f():\n    [make := 1 for _ in ()]\n    make",
        "def f():\n    del make\n    make",
        "def f():\n    make += 1",
        "def f():\n    (a, [make, *b]) = 1\n    make",
        "def f(x):\n    match x:\n        case [make, *_]: make",
        "def f(x):\n    match x:\n        case {1: 2, **make}: make",
        "def f(make):\n    def g(): make",
        "def f():\n  def g():\n    nonlocal make\n    make = 1\n  make = 2\n  make",
    ],
)
def test_a_local_name_hides_the_global_one(body):
    found = links(f"def make(): ...\n{body}")
    assert not [link for link in found if "make ->" in link]


@pytest.mark.parametrize(
    "body",
    [
        "def f(a=make): ...",
        "def f(a: make): ...",
        "def f(make=make): ...",
        "def f() -> make: ...",
        "@make\ndef f(make): ...",
        "lambda make=make: 1",
        "[make for x in make]",
        "[make for make in make]",
        "class A:\n    make = 1\n    def f(self): make",
        "class A:\n    make = 1\n    [make for x in ()]",
        "class A:\n    def make(self): make",
        "def f():\n    def g(): make",
        "def f():\n    make\ndef g():\n    make = 1",
        "f'{make}'",
    ],
)
def test_a_global_name_in_sight_is_linked(body):
    assert [x for x in links(f"def make(): ...\n{body}") if "make -> m.make" in x]


def test_a_function_inside_a_function_is_linked_to_its_line():
    project = Project({"m.py": "def f():\n    def g(): ...\n    g()\n"})
    ((position, link),) = project.resolver("m.py").tokens().items()
    assert (position, link.url) == ((3, 4), "m.html#L2")


def test_a_definition_does_not_link_to_itself():
    assert links("class A:\n    def f(self): ...\ndef g(): ...\nSIZE = 1") == []
