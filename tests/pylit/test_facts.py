from linked_sources import Project, module

from pylit.code.facts import PUBLIC, STARS, targets

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


def test_a_star_import_is_kept_and_makes_built_in_names_doubtful():
    text = "from .more import *\nfrom m import *\nSIZE: int = 3\nclass A(Base, Exception): ..."
    found = targets(module("pkg/net.py", text), "page.html")
    assert found["pkg.net"].attributes == {STARS: "pkg.more m"}
    assert found["pkg.net.A"].bases == ("pkg.net.Base", "")
    assert found["pkg.net.SIZE"].bases == ()


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


def test_a_constant_has_the_class_of_its_value():
    assert facts(".SIZE").bases == ("builtins.int",)
    assert facts(".default").bases == ("pkg.sub.base.Base",)


def test_a_function_has_the_class_that_it_returns():
    assert facts(".Net.reset").bases == ("pkg.sub.base.Base",)
    assert facts(".Net.__init__").bases == facts(".Net.first").bases == ()


def test_of_several_definitions_of_a_name_there_is_one_target():
    text = "class A:\n  @property\n  def f(self): ...\n  @f.setter\n  def f(self, value): ..."
    project = Project({"m.py": text})
    assert project.targets["m.A.f"].url == "m.html#A.f"
    assert project.links("m.py") == ["2 property -> property", "4 f -> m.A.f"]
