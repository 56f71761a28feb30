"""Names followed to where they are defined: through imports, scopes and values; in notes."""

import re
import sys
import time
from pathlib import Path

import pytest
from linked_sources import LAYERS, Project, module, named

from pylit.source.names import Index, targets

GOLDEN = Path(__file__).parent / "golden/names"
FILES = {
    "pkg/__init__.py": "from .a import Layer as Public\nfrom .b import *\nfrom . import a as also",
    "pkg/a.py": "class Layer:\n    def forward(self): ...\nhidden = 1",
    "pkg/b.py": "from .a import Layer\ndef make(): ...\ndef _private(): ...\nbusy = make()",
}


def found(dotted, files=FILES):
    target = Project(files).lookup(dotted)
    return target.definition.dotted if target else None


def test_lookup():
    names = {
        "pkg.a.Layer": "pkg.Public pkg.Layer *.Layer",
        "pkg.a.Layer.forward": "pkg.Public.forward pkg.b.Layer.forward",
        "pkg.b.make": "pkg.make",
        None: "pkg._private . pkg. other pkg.absent pkg.a.Layer.absent pkg.a.hidden.x *.forward",
    }
    for expected, asked in names.items():
        assert {found(name) for name in asked.split()} == {expected}
    assert found("") is None and found("pkg.also.Layer") == "pkg.a.Layer"


def test_a_name_that_two_modules_define_is_ambiguous():
    files = FILES | {"c.py": "class Layer: ..."}
    assert found("*.Layer", files) is None
    assert Project(files).resolver("pkg/b.py").inline("*.Layer") is None


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


MODULES = {
    "a.py": LAYERS,
    "layers.py": LAYERS + "def _hidden(): ...\n",
    "circle.py": "from m import x\nfrom m import *\ndef y(): ...",
    "pkg/__init__.py": "from .layers import Layer",
    "pkg/layers.py": LAYERS,
    "pkg/sub/__init__.py": "",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.txt")))
def test_the_comment_behind_a_line_names_its_links(name):
    if name == "type_parameters" and sys.version_info < (3, 12):
        pytest.skip("Python has type parameters since 3.12")
    path = "pkg/sub/m.py" if name == "imports" else "m.py"
    written = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    lines = re.sub(r"  # .*", "", written).split("\n")
    for link in reversed(Project(MODULES | {path: "\n".join(lines)}).links(path)):
        number, _, names = link.partition(" ")
        line, _, others = lines[int(number) - 1].partition("  # ")
        lines[int(number) - 1] = f"{line}  # {names}{'; ' * bool(others)}{others}"
    assert "\n".join(lines) == written


def test_what_other_modules_say_comes_through_lookup_alone():
    project = Project({"a.py": LAYERS, "m.py": "from a import Layer\nLayer().reset()"})
    assert project.links("m.py")[-1] == "2 reset -> a.Base.reset"
    assert {"a", "a.Layer", "a.Base", "a.Base.reset"} <= set(project.asked)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("def f(): ...\nx = 'ä€𝄞', f()  # ü\n", {(2, 11)}),
        ("class A:\n    def f(self): ...\n(A\n   .\n   f)\n", {(3, 1), (5, 3)}),
        ("def f(): ...\nx = '''\x0c'''\nf()\n", {(3, 0)}),
        *[(text, set()) for text in ("def f(:", "x = '\0'", "(" * 500, "a" + ".a" * 5000, "")],
    ],
)
def test_positions(text, places):
    assert set(Project({"m.py": text}).resolver("m.py").tokens()) == places


def test_a_function_inside_a_function_is_linked_to_its_line():
    found = Project({"m.py": "def f():\n    def g(): ...\n    g()\n"}).resolver("m.py").tokens()
    assert {place: link.url for place, link in found.items()} == {(3, 4): "m.html#L2"}


def test_time_is_linear_in_the_bindings_of_a_name():
    project = Project({"m.py": "x = 1\n" + "x = f(x)\nx.a = x.b\n" * 5_000})
    before = time.process_time()
    assert len(project.resolver("m.py").tokens()) == 15_000
    assert time.process_time() - before < 3


# --- classes and values ---------------------------------------------------------------------------

NET = """
    import torch.nn as nn
    from .base import Base, helper
    SIZE: int = 3
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
            for self.step in (): ...
            given.other = Base()
        def reset(self) -> Base:
            self.state = {}
            self.count += 1
"""


def test_what_others_may_learn_of_a_module():
    known = targets(module("pkg/sub/net.py", NET), "page.html")
    names = known["pkg.sub.net"].attributes
    assert (names["nn"], names["Base"], names["loop"]) == ("torch.nn", "pkg.sub.base.Base", "")
    assert "Net" not in names and "SIZE" not in names
    net = known["pkg.sub.net.Net"]
    assert net.bases == ("pkg.sub.base.Base", "torch.nn.Module", "")
    base, kinds = "pkg.sub.base.Base", {"kind": "builtins.str", "size": "builtins.int"}
    kinds |= {"base": base, "given": base, "norm": "torch.nn.LayerNorm", "state": "builtins.dict"}
    assert net.attributes == kinds | dict.fromkeys(["memory", "count", "step"], "")


# --- notes ----------------------------------------------------------------------------------------

NOTED = {
    "pkg/__init__.py": "",
    "pkg/mha.py": """
        import torch
        class MultiHeadAttention(torch.nn.Module):
            def get_scores(self): ...
        class Prepare: ...
        def encode(): ...
    """,
    "pkg/m.py": """
        import math
        from torch import nn
        from .mha import MultiHeadAttention
        class FeedbackAttention(MultiHeadAttention):
            heads: int
            def __init__(self): self.attn = MultiHeadAttention()
            def forward(self, query): ...
        def subsequent_mask(seq_len): ...
        def mask(): ...
        SIZE = 3
        size = 4
    """,
}
WORDS = [
    "x", "d_model", "True", "None", "len", "list", "input", "size", "seq_len", "encode", "mha",
    "self", "self.attn", "forward", "a + b", "", "()", "1.5", "x.y", "nn.nonsense", "Generator",
    "FeedbackAttention.nonsense", "FeedbackAttention.heads", "math.nonsense", "pkg/absent.py",
    "[T, B, C]", "Float", "--out", "a.b.c()", "mask_x", "*.Prepare",
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("FeedbackAttention", "pkg.m.FeedbackAttention"),
        ("subsequent_mask", "pkg.m.subsequent_mask"),
        ("@mask", "pkg.m.mask"),
        ("FeedbackAttention.forward", "pkg.m.FeedbackAttention.forward"),
        ("FeedbackAttention.get_scores(a, b)", "pkg.mha.MultiHeadAttention.get_scores"),
        ("MultiHeadAttention", "pkg.mha.MultiHeadAttention"),
        ("mha.Prepare", "pkg.mha.Prepare"),
        ("Prepare", "pkg.mha.Prepare"),
        ("pkg.mha.MultiHeadAttention", "pkg.mha.MultiHeadAttention"),
        ("pkg/mha.py", "pkg.mha"),
        ("mha.py", "pkg.mha"),
        ("torch.einsum", "torch.einsum"),
        ("F.softmax", "torch.nn.functional.softmax"),
        ("functools.partial", "functools.partial"),
        ("len(x)", "len"),
        ("ValueError", "ValueError"),
        *dict.fromkeys(WORDS).items(),
    ],
)
def test_inline_code(code, expected):
    assert named(Project(NOTED).resolver("pkg/m.py").inline(code)) == expected


@pytest.mark.parametrize("within", ["FeedbackAttention", "FeedbackAttention.forward"])
def test_inline_code_within_a_class(within):
    resolver = Project(NOTED).resolver("pkg/m.py")
    words = "self.forward self.attn forward subsequent_mask attn self.absent"
    found = [named(resolver.inline(code, within=within)) for code in words.split()]
    method, mask = "pkg.m.FeedbackAttention.forward", "pkg.m.subsequent_mask"
    assert found == [method, "pkg.mha.MultiHeadAttention", method, mask, None, None]
