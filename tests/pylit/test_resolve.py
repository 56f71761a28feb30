"""Names followed to where they are defined: through imports, scopes and values; in notes."""

import sys
import time

import pytest
from linked_sources import LAYERS, Project, links, module, named

from pylit.source.names import Index, targets

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


def test_imports():
    project = Project(
        {
            "pkg/__init__.py": "from .layers import Layer",
            "pkg/layers.py": LAYERS,
            "pkg/sub/__init__.py": "",
            "pkg/sub/m.py": """
                import pkg.layers as la
                from pkg.layers import Layer as L
                from ..layers import make
                from .. import layers
                pkg.layers.Layer
                la.SIZE, L, make(), layers.make
            """,
            "m.py": "import pkg\npkg.Layer\npkg.absent",
        }
    )
    assert "; ".join(project.links("pkg/sub/m.py")) == (
        "2 pkg -> pkg; 2 layers -> pkg.layers; 3 pkg -> pkg; 3 layers -> pkg.layers;"
        " 3 Layer -> pkg.layers.Layer; 4 layers -> pkg.layers; 4 make -> pkg.layers.make;"
        " 5 layers -> pkg.layers; 7 SIZE -> pkg.layers.SIZE; 7 L -> pkg.layers.Layer;"
        " 7 make -> pkg.layers.make; 7 make -> pkg.layers.make"
    )
    assert project.links("m.py") == ["1 pkg -> pkg", "2 Layer -> pkg.layers.Layer", "3 pkg -> pkg"]


STAR = "from layers import *\nLayer, make, SIZE, _hidden, len"
CIRCLE = "from m import x\nfrom m import *\ndef y(): ..."


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        (STAR, {"layers": LAYERS + "def _hidden(): ...\n"},
         "1 layers -> layers; 2 Layer -> layers.Layer; 2 make -> layers.make;"
         " 2 SIZE -> layers.SIZE; 2 len -> len"),
        ("from numpy import *\nsum\ndef f(): ...\nf", {}, "4 f -> m.f"),
        ("from b import x\nfrom b import *\nx\ny", {"b": CIRCLE}, "1 b -> b; 2 b -> b; 4 y -> b.y"),
        # What stands in a module is no link to itself.
        ("class A:\n    def f(self): ...\ndef g(): ...\nSIZE = 1", {}, ""),
        ("class A:\n  @property\n  def f(self): ...\n  @f.setter\n  def f(self, x): ...", {},
         "2 property -> property; 4 f -> m.A.f"),
    ],
)  # fmt: skip
def test_links(text, others, expected):
    assert "; ".join(links(text, **others)) == expected


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


# --- scopes ---------------------------------------------------------------------------------------


HIDING = [
    *("def f(make): make", "def f(*make): make", "def f(*, make=1): make"),
    *("lambda make: make", "[make for make in ()]", "{make: 1 for make in ()}"),
    "def f():\n    for make in (): make",
    "def f():\n    with f() as make: make",
    "def f():\n    try: f()\n    except ValueError as make: make",
    "def f():\n    import make\n    make",
    "def f():\n    if (make := 1): make",
    "def f():\n    [make := 1 for _ in ()]\n    make",
    "def f():\n    del make\n    make",
    "def f():\n    make += 1",
    "def f():\n    (a, [make, *b]) = 1\n    make",
    "def f(x):\n    match x:\n        case [make, *_]: make",
    "def f(x):\n    match x:\n        case {1: 2, **make}: make",
    "def f(make):\n    def g(): make",
]
SHOWING = [
    *("def f(a=make): ...", "def f(make: make): ...", "def f(make=make) -> make: ..."),
    *("@make\ndef f(make): ...", "lambda make=make: 1", "f'{make}'"),
    "class A:\n    make = 1\n    def f(self): make",
    "class A:\n    def make(self): make",
    "def f():\n    def g(): make",
    "def f():\n    make\ndef g():\n    make = 1",
]
if sys.version_info >= (3, 12):  # which has type parameters
    HIDING += [
        "class A[make]:\n    def f(self, x: make) -> make: make",
        *("class A[make](list[make]): ...", "def f[make](x: make) -> make: make"),
        *("def f[*make](*x: *make): ...", "def f[**make](*x: make.args): ..."),
        *("type A[make] = list[make]", "type make = int\nmake"),
    ]
    SHOWING += [
        *("type A = list[make]", "@make\nclass A[make]: ...", "def f[a: make](x: a): ..."),
        "class A[make]: ...\nmake",
    ]


@pytest.mark.parametrize("body", HIDING + SHOWING)
def test_a_local_name_hides_the_global_one(body):
    found = [link for link in links(f"def make(): ...\n{body}") if "make -> m.make" in link]
    assert bool(found) == (body in SHOWING)


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


CLASS = """
    from a import Layer
    class Net(Layer):
        norm: Layer
        def __init__(self, given: Layer, optional: Layer | None, unknown):
            super().__init__()
            self.one = Layer()
            self.two = given
            self.three = optional
            self.four = unknown
            self.five = None
            self.six = self.seven = Layer()
        def forward(self, x):
            {use}
        def set(self):
            self.five = Layer()
            self.six = x()
        @classmethod
        def build(cls): return cls.set
        @staticmethod
        def help(self): return self.set
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("self.one", "one -> a.Layer"),
        ("self.two", "two -> a.Layer"),
        ("self.four", None),
        ("self.five", "five -> a.Layer"),
        ("self.six", None),
        ("self.norm", "norm -> a.Layer"),
        ("self.one.forward()", "forward -> a.Layer.forward"),
        ("self.one.reset()", "reset -> a.Base.reset"),
        ("self.forward(x)", "forward -> m.Net.forward"),
        ("self.reset()", "reset -> a.Base.reset"),
        ("super().forward()", "forward -> a.Layer.forward"),
        ("Net.forward", "forward -> m.Net.forward"),
        ("(lambda: self.reset)()", "reset -> a.Base.reset"),
        ("x.forward()", None),
        ("self = x; self.reset()", None),
    ],
)
def test_attributes_and_methods(use, expected):
    shown = links(CLASS.replace("{use}", use), a=LAYERS)
    here = [link[3:] for link in shown if link.startswith("14 ")]
    here = [link for link in here if not link.startswith(("super", "Net"))]
    assert (here[-1] if here else None) == expected
    assert "19 set -> m.Net.set" in shown
    assert not [link for link in shown if link.startswith("21 ")]


def test_methods_are_searched_in_python_s_order():
    for classes, expected in (
        ("class A(Base): ...\nclass B(Base):\n  def f(self): ...\nclass C(A, B):", "m.B.f"),
        ("class C(unknown.Thing, Base):", "m.Base.f"),
    ):
        text = (
            f"import unknown\nclass Base:\n  def f(self): ...\n{classes}\n  def g(self): self.f()"
        )
        assert links(text)[-1].endswith(f" f -> {expected}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("layer = Layer()\nlayer.forward()", "forward -> a.Layer.forward"),
        ("layer = Layer()\nlayer = make()\nlayer.forward()", None),
        ("layer = make()\nlayer.forward()", None),
        ("layer: Layer = make()\nlayer.forward()", "forward -> a.Layer.forward"),
        ("layer: Optional[Layer]\nlayer.forward()", "forward -> a.Layer.forward"),
        ("layer: list[Layer]\nlayer.forward()", None),
        ("layer: list[Layer]\nlayer.append(1)", "append -> list.append"),
        ("layer = Layer()\nresult = layer.forward\nresult", None),
        ("for layer in [Layer()]: layer.forward()", None),
        ("', '.join(x)", "join -> str.join"),
        ("y: Float[Tensor, 'T B']\ny.view()", "view -> torch.Tensor.view"),
        ("y = nn.Linear(1, 2)\ny.forward(x)", "forward -> torch.nn.Linear.forward"),
        ("def build() -> Layer: ...\nbuild().reset()", "reset -> a.Base.reset"),
        ("@no_grad()\ndef build() -> Layer: ...\nbuild().reset()", "reset -> a.Base.reset"),
        ("@unknown\ndef build() -> Layer: ...\nbuild().reset()", None),
        ("async def build() -> Layer: ...\nbuild().reset()", None),
        ("def build() -> Layer: ...\ndef build() -> int: ...\nbuild().reset()", None),
        ("class build:\n    def __new__(cls) -> Layer: ...\nbuild().reset()", None),
    ],
)
def test_what_a_name_holds(body, expected):
    inside = " build" not in body
    head = "from a import Base, Layer, make\nfrom typing import Optional, Union\n"
    head += "from jaxtyping import Float\nfrom torch import Tensor, nn\n"
    body = "\n".join("    " * inside + line for line in body.split("\n"))
    text = f"{head}{'def f(x):' * inside}\n{body}"
    last = f"{len(text.splitlines())} "
    shown = [x.removeprefix(last) for x in links(text, a=LAYERS) if x.startswith(last)]
    shown = [x for x in shown if not x.startswith(("Layer", "Tensor", "build"))]
    assert (shown[-1] if shown else None) == expected


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
