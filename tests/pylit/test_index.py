from linked_sources import Project

from pylit.code.resolve import Index

FILES = {
    "pkg/__init__.py": "from .a import Layer as Public\nfrom .b import *\nfrom . import a as also",
    "pkg/a.py": "class Layer:\n    def forward(self): ...\nhidden = 1",
    "pkg/b.py": "from .a import Layer\ndef make(): ...\ndef _private(): ...\nbusy = make()",
}


def found(dotted, files=FILES):
    target = Project(files).lookup(dotted)
    return target.definition.dotted if target else None


def test_names_through_imports():
    assert found("pkg.Public") == "pkg.a.Layer"
    assert found("pkg.Public.forward") == "pkg.a.Layer.forward"
    assert found("pkg.also.Layer") == "pkg.a.Layer"
    assert found("pkg.b.Layer.forward") == "pkg.a.Layer.forward"


def test_names_through_star_imports():
    assert found("pkg.make") == "pkg.b.make"
    assert found("pkg.Layer") == "pkg.a.Layer"
    assert found("pkg._private") is None


def test_what_is_not_there():
    for dotted in ("", ".", "pkg.", "other", "pkg.absent", "pkg.a.Layer.absent", "pkg.a.hidden.x"):
        assert found(dotted) is None


def test_bare_names_that_one_module_defines():
    assert found("*.Layer") == "pkg.a.Layer"
    assert found("*.make") == "pkg.b.make"
    assert found("*.forward") is None
    assert found("*.Layer", FILES | {"c.py": "class Layer: ..."}) is None


def test_the_answer_does_not_depend_on_what_was_asked_before():
    circle = {
        "a.py": "from b import *\nfrom c import x",
        "b.py": "from a import *\nfrom a import x as y",
        "c.py": "from b import y as x\ndef z(): ...\nfrom a import z as w",
        "d.py": "from c import *\nfrom a import *",
    }
    names = [f"{module}.{name}" for module in "abcd" for name in "wxyz"]
    project = Project(circle)
    alone = {name: Index(project.targets).lookup(name) for name in names}
    for order in (names, names[::-1], names[::2] + names[1::2]):
        index = Index(project.targets)
        assert {name: index.lookup(name) for name in order} == alone
    assert alone["d.z"] is not None
