import pytest
from linked_sources import LAYERS, links


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
            ("y = nn.Linear(1, 2)\ny.parameters()", "parameters -> torch.nn.Module.parameters"),
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

    def test_a_call_of_an_instance_runs_its_forward(self):
        text = """
            import torch.nn as nn
            class Own(nn.Module):
                def forward(self): ...
            class Plain:
                def forward(self): ...
            class Callable:
                def __call__(self): ...
            class Net(nn.Module):
                def __init__(self):
                    self.own, self.other = Own(), 1
                    self.layer = Own()
                    self.norm = nn.LayerNorm(3)
                def forward(self, own: Own, plain: Plain, call: Callable):
                    own()
                    plain()
                    call()
                    self.layer()
                    self.norm()
                    self.own()
        """
        assert [link for link in links(text) if int(link.split()[0]) > 14] == [
            "15 own -> m.Own.forward",
            "16 plain -> m.Plain",
            "17 call -> m.Callable.__call__",
            "18 layer -> m.Own.forward",
            "19 norm -> torch.nn.LayerNorm",
        ]
