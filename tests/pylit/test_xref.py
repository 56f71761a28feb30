import builtins

import pytest
from linked_sources import LAYERS, Project, links, named


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
                "pkg/__init__.py": "from .inner import Layer, nn as networks",
                "pkg/inner/__init__.py": "from .layers import Layer\nfrom torch import nn",
                "pkg/inner/layers.py": LAYERS,
                "m.py": "import pkg\npkg.Layer\npkg.networks.Linear\npkg.absent",
            }
        )
        assert project.links("m.py") == [
            "1 pkg -> pkg",
            "2 Layer -> pkg.inner.layers.Layer",
            "3 Linear -> torch.nn.Linear",
            "4 pkg -> pkg",
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

    def test_a_carriage_return_or_form_feed_does_not_move_lines(self):
        text = "def f(): ...\nx = '''\r\x0c'''\nf()\n"
        assert list(Project({"m.py": text}).resolver("m.py").tokens()) == [(3, 0)]

    @pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 500, "a" + ".a" * 5000, ""])
    def test_source_that_does_not_parse_or_is_too_deep_has_no_links(self, text):
        assert links(text) == []


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
