"""Names followed to where they are defined: through imports, classes, values, and from notes."""

import builtins
import time

import pytest
from linked_sources import LAYERS, Project, links, named

from pylit.code.values import Index

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


class TestImports:
    def test_absolute_aliased_and_relative(self):
        project = Project(
            {
                "pkg/__init__.py": "",
                "pkg/layers.py": LAYERS,
                "pkg/sub/__init__.py": "",
                "pkg/sub/m.py": """
                    import pkg.layers
                    import pkg.layers as la
                    from pkg.layers import Layer as L
                    from ..layers import make
                    from .. import layers
                    pkg.layers.Layer
                    la.SIZE
                    L
                    make()
                    layers.make
                """,
            }
        )
        assert project.links("pkg/sub/m.py") == [
            "2 pkg -> pkg",
            "2 layers -> pkg.layers",
            "3 pkg -> pkg",
            "3 layers -> pkg.layers",
            "4 pkg -> pkg",
            "4 layers -> pkg.layers",
            "4 Layer -> pkg.layers.Layer",
            "5 layers -> pkg.layers",
            "5 make -> pkg.layers.make",
            "6 layers -> pkg.layers",
            "7 Layer -> pkg.layers.Layer",
            "8 SIZE -> pkg.layers.SIZE",
            "9 L -> pkg.layers.Layer",
            "10 make -> pkg.layers.make",
            "11 make -> pkg.layers.make",
        ]

    def test_follows_re_exports_through_packages(self):
        project = Project(
            {
                "pkg/__init__.py": "from .inner import Layer",
                "pkg/inner/__init__.py": "from .layers import Layer",
                "pkg/inner/layers.py": LAYERS,
                "m.py": "import pkg\npkg.Layer\npkg.absent",
            }
        )
        assert project.links("m.py") == [
            "1 pkg -> pkg",
            "2 Layer -> pkg.inner.layers.Layer",
            "3 pkg -> pkg",
        ]

    def test_a_star_import_takes_public_names(self):
        text = "from layers import *\nLayer\nmake\nSIZE\n_hidden\nlen"
        assert links(text, layers=LAYERS + "def _hidden(): ...\n") == [
            "1 layers -> layers",
            "2 Layer -> layers.Layer",
            "3 make -> layers.make",
            "4 SIZE -> layers.SIZE",
            "6 len -> len",
        ]

    def test_an_unknown_star_import_may_hide_anything(self):
        assert links("from numpy import *\nsum\ndef f(): ...\nf") == ["4 f -> m.f"]

    def test_circles_of_re_exports_end(self):
        project = Project(
            {
                "a.py": "from b import x\nfrom b import *\nx\ny",
                "b.py": "from a import x\nfrom a import *\ndef y(): ...",
            }
        )
        assert project.links("a.py") == ["1 b -> b", "2 b -> b", "4 y -> b.y"]

    def test_what_other_modules_say_comes_through_lookup_alone(self):
        project = Project({"a.py": LAYERS, "m.py": "from a import Layer\nLayer().reset()"})
        assert project.links("m.py")[-1] == "2 reset -> a.Base.reset"
        assert {"a", "a.Layer", "a.Base", "a.Base.reset"} <= set(project.asked)


class TestPositions:
    def test_offsets_count_characters(self):
        project = Project({"m.py": "def f(): ...\nx = 'ä€𝄞', f()  # ü\n"})
        assert list(project.resolver("m.py").tokens()) == [(2, 11)]

    def test_attributes_on_later_lines(self):
        text = "class A:\n    def f(self): ...\n(A\n   .\n   f)\n"
        project = Project({"m.py": text})
        assert set(project.resolver("m.py").tokens()) == {(3, 1), (5, 3)}

    def test_a_form_feed_does_not_move_lines(self):
        text = "def f(): ...\nx = '''\x0c'''\nf()\n"
        assert list(Project({"m.py": text}).resolver("m.py").tokens()) == [(3, 0)]

    @pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 500, "a" + ".a" * 5000, ""])
    def test_source_that_does_not_parse_or_is_too_deep_has_no_links(self, text):
        assert links(text) == []


def test_time_is_linear_in_the_bindings_of_a_name():
    project = Project({"m.py": "x = 1\n" + "x = f(x)\nx.a = x.b\n" * 10_000})
    before = time.process_time()
    assert len(project.resolver("m.py").tokens()) == 30_000
    assert time.process_time() - before < 5


class TestInline:
    FILES = {  # noqa: RUF012
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
        ],
    )
    def test_names_of_things(self, code, expected):
        assert named(Project(self.FILES).resolver("pkg/m.py").inline(code)) == expected

    @pytest.mark.parametrize(
        "code",
        [
            "x", "d_model", "True", "None", "len", "list", "input", "size", "seq_len", "encode",
            "mha", "self", "self.attn", "forward", "a + b", "", "()", "1.5", "x.y", "nn.nonsense",
            "FeedbackAttention.nonsense", "FeedbackAttention.heads", "math.nonsense",
            "pkg/absent.py", "[T, B, C]", "Float", "--out", "a.b.c()", "mask_x", "*.Prepare",
            "Generator",
        ],
    )  # fmt: skip
    def test_ordinary_words(self, code):
        assert Project(self.FILES).resolver("pkg/m.py").inline(code) is None

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("self.forward", "pkg.m.FeedbackAttention.forward"),
            ("self.attn", "pkg.mha.MultiHeadAttention"),
            ("forward", "pkg.m.FeedbackAttention.forward"),
            ("subsequent_mask", "pkg.m.subsequent_mask"),
            ("attn", None),
            ("self.absent", None),
        ],
    )
    @pytest.mark.parametrize("within", ["FeedbackAttention", "FeedbackAttention.forward"])
    def test_within_a_class(self, code, expected, within):
        resolver = Project(self.FILES).resolver("pkg/m.py")
        assert named(resolver.inline(code, within=within)) == expected

    def test_a_name_that_two_modules_define_is_ambiguous(self):
        project = Project(self.FILES | {"other.py": "class Prepare: ..."})
        assert project.resolver("pkg/m.py").inline("Prepare") is None


def test_every_public_builtin_name_is_safe_to_ask_for():
    resolver = Project({"m.py": ""}).resolver("m.py")
    for name in dir(builtins):
        link = resolver.inline(f"{name}()")
        assert link is None or link.external


class TestClasses:
    TEXT = """
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
    def test_attributes_and_methods(self, use, expected):
        found = [
            link for link in links(self.TEXT.replace("{use}", use), a=LAYERS) if link[:3] == "14 "
        ]
        attributes = [link[3:] for link in found if not link[3:].startswith(("super", "Net"))]
        assert (attributes[-1] if attributes else None) == expected

    def test_classmethods_have_the_class_and_staticmethods_nothing(self):
        found = links(self.TEXT.replace("{use}", "..."), a=LAYERS)
        assert "19 set -> m.Net.set" in found
        assert not [link for link in found if link.startswith("21 ")]

    def test_methods_are_searched_in_python_s_order(self):
        text = """
            class Base:
                def f(self): ...
            class A(Base): ...
            class B(Base):
                def f(self): ...
            class C(A, B):
                def g(self): self.f()
        """
        assert links(text)[-1] == "8 f -> m.B.f"

    def test_behind_an_unknown_base_there_is_doubt(self):
        text = """
            import unknown
            class Base:
                def f(self): ...
            class A(unknown.Thing, Base):
                def g(self): self.f()
            class B(Base, unknown.Thing):
                def g(self): self.f()
        """
        assert [x for x in links(text) if " f ->" in x] == ["8 f -> m.Base.f"]


class TestValues:
    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ("layer = Layer()\nlayer.forward()", "forward -> a.Layer.forward"),
            ("layer = Layer()\nlayer = make()\nlayer.forward()", None),
            ("layer = make()\nlayer.forward()", None),
            ("layer: Layer = make()\nlayer.forward()", "forward -> a.Layer.forward"),
            ("layer: Optional[Layer]\nlayer.forward()", "forward -> a.Layer.forward"),
            ("layer: Union[Layer, Base]\nlayer.forward()", None),
            ("layer: list[Layer]\nlayer.forward()", None),
            ("layer: list[Layer]\nlayer.append(1)", "append -> list.append"),
            ("layer = Layer()\nresult = layer.forward\nresult", None),
            ("for layer in [Layer()]: layer.forward()", None),
            ("', '.join(x)", "join -> str.join"),
            ("y: Float[Tensor, 'T B']\ny.view()", "view -> torch.Tensor.view"),
            ("y = nn.Linear(1, 2)\ny.forward(x)", "forward -> torch.nn.Linear.forward"),
        ],
    )
    def test_what_a_local_name_holds(self, body, expected):
        head = (
            "from a import Base, Layer, make\nfrom typing import Optional, Union\n"
            "from jaxtyping import Float\nfrom torch import Tensor, nn\ndef f(x):\n"
        )
        text = head + "\n".join("    " + line for line in body.split("\n"))
        last = str(len(text.split("\n")))
        found = [
            x.removeprefix(f"{last} ") for x in links(text, a=LAYERS) if x.startswith(f"{last} ")
        ]
        found = [x for x in found if not x.startswith(("Layer", "Tensor"))]
        assert (found[-1] if found else None) == expected

    @pytest.mark.parametrize(
        ("definition", "expected"),
        [
            ("def build() -> Layer: ...", "reset -> a.Base.reset"),
            ("@no_grad()\ndef build() -> Layer: ...", "reset -> a.Base.reset"),
            ("@unknown\ndef build() -> Layer: ...", None),
            ("async def build() -> Layer: ...", None),
            ("def build(): ...", None),
            ("def build() -> Layer: ...\ndef build() -> int: ...", None),
            ("class build:\n    def __new__(cls) -> Layer: ...", None),
        ],
    )
    def test_a_call_gives_what_the_function_is_declared_to_return(self, definition, expected):
        text = f"from a import Layer\n{definition}\nbuild().reset()"
        found = [x.partition(" ")[2] for x in links(text, a=LAYERS) if " reset " in x]
        assert found == ([expected] if expected else [])
