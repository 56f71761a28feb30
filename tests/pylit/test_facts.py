from linked_sources import Project, module

from pylit.code.scopes import PUBLIC, targets

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
