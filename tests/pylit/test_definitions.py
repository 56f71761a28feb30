"""What a module defines, with signatures on one line and summaries."""

import pytest
from pylit_sources import parse

from pylit.model import Definition


def defined(text: str) -> dict[str, Definition]:
    """The definitions of `text` by name, without the module itself."""
    module, *others = parse(text).definitions
    assert (module.kind, module.qualname, module.line) == ("module", "", 1)
    assert [d.line for d in others] == sorted(d.line for d in others)
    assert all("\n" not in d.signature for d in others)
    return {d.qualname: d for d in others}


@pytest.mark.parametrize(
    ("header", "signature"),
    [
        ("async def f(x) -> None:", "async f(x) -> None"),
        ("def f(a, /, b, *, c):", "f(a, /, b, *, c)"),
        ("def f(a: int = 1, *b: str, **c: float):", "f(a: int = 1, *b: str, **c: float)"),
        ('def f(eps=1e-5, mask=0x10, s="it\'s"):', 'f(eps=1e-5, mask=0x10, s="it\'s")'),
        ('def f(x: Float[Tensor, "T #B C"]):', 'f(x: Float[Tensor, "T #B C"])'),
        ("def größe(ä='é', ö: 'ü' = 1):", "größe(ä='é', ö: 'ü' = 1)"),
        (
            "def f(  # why\n  a,  # first\n  b=[\n    1,  # one\n    2,\n  ],\n) -> (\n  int):",
            "f(a, b=[1, 2]) -> (int)",
        ),
        ("def f(x='''one\ntwo'''):", "f(x='''one two''')"),
        ("class f:", "f"),
        ("class f(A, b.C[int], metaclass=M, **kw):", "f(A, b.C[int], metaclass=M, **kw)"),
        ("class f(\n    A,  # first\n    B,\n):", "f(A, B)"),
        ("@decorated(\n    1\n)\ndef f(x):", "f(x)"),
    ],
)
def test_signatures(header: str, signature: str) -> None:
    (definition,) = defined(f"{header}\n    pass\n").values()
    assert definition.signature == signature
    assert definition.dotted == f"pkg.mod.{definition.qualname}"


def test_kinds_lines_and_nesting() -> None:
    found = defined(
        """\
@first
@second
class A:
    '''Class.'''
    attribute = 1

    @property
    def method(self):
        '''Method.'''

        def local():
            class Hidden: ...

    class B:
        async def inner(self): ...

if fast:
    def f(): ...
elif slow:
    with context:
        def g(): ...
for x in y:
    def h(): ...
match z:
    case 1:
        def i(): ...
"""
    )
    assert {name: (d.kind, d.line) for name, d in found.items()} == {
        "A": ("class", 3),
        "A.method": ("method", 8),
        "A.B": ("class", 14),
        "A.B.inner": ("method", 15),
        "f": ("function", 18),
        "g": ("function", 21),
        "h": ("function", 23),
        "i": ("function", 26),
    }
    assert (found["A"].summary, found["A.method"].summary) == ("Class.", "Method.")


def test_one_definition_for_each_name() -> None:
    text = """\
try:
    from x import f
except ImportError:
    def f(first): ...
@typing.overload
def g(x: int): ...
@overload
def g(x: str): ...
def g(x): "Does."
class A:
    @property
    def p(self): ...
    @p.setter
    def p(self, value): ...
def f(second): ...
h = None
def h(): ...
"""
    found = defined(text)
    assert {name: (d.line, d.signature) for name, d in found.items()} == {
        "f": (4, "f(first)"),
        "g": (9, "g(x)"),
        "A": (10, "A"),
        "A.p": (12, "p(self)"),
        "h": (17, "h()"),
    }
    assert found["g"].summary == "Does."
    sections = parse(text).sections
    opened = [(s.definition, s.code.first) for s in sections if s.definition and s.code]
    assert opened == [("f", 4), ("g", 9), ("A", 10), ("A.p", 11), ("h", 17)]


def test_constants() -> None:
    found = defined(
        """\
# How many heads.
# At once.
HEADS = 8

#: How wide.
width: int = 512

kind: str
a = b = c = 1
d, (e, f) = g.h, i[0] = 1, (2, 3)
__all__ = ["HEADS"]
HEADS = 9
LONG = "01234567890123456789012345678901234567890123456789012345678901234567890123456789"
SPLIT = {
    1: 2,
}
if TYPE_CHECKING:
    T = TypeVar("T")
else:
    try:
        T = None
    except* E:
        n = 0
    with x as y:
        m = 1
for j in k:
    pass
count += 1
(walrus := 1)
class A:
    attribute = 1
def o():
    local = 1
"""
    )
    assert {n: (d.line, d.signature) for n, d in found.items() if d.kind == "constant"} == {
        "HEADS": (3, "HEADS = 8"),
        "width": (6, "width: int = 512"),
        "kind": (8, "kind: str"),
        "a": (9, "a = b = c = 1"),
        "b": (9, "a = b = c = 1"),
        "c": (9, "a = b = c = 1"),
        "d": (10, "d, (e, f) = g.h, i[0] = 1, (2, 3)"),
        "LONG": (13, "LONG = …"),
        "SPLIT": (14, "SPLIT = …"),
        "T": (18, 'T = TypeVar("T")'),
        "n": (23, "n = 0"),
        "m": (25, "m = 1"),
    }
    assert found["HEADS"].summary == "How many heads.\nAt once."
    assert found["width"].summary == "How wide."
    assert found["kind"].summary == ""


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ('def f():\n    """\n    ## Title\n\n    A $\\frac{a}{b}$.\n    """', "A $\\frac{a}{b}$."),
        ("# Above.\n@x\ndef f(): ...", "Above."),
        ("# Above.\n# fmt: off\ndef f(): ...", "Above."),
        ("# Not mine.\n\ndef f(): ...", ""),
        ("def größe(): '''é'''; f = 1", "é"),
        ("def f():\n    '''Doc.'''; return 1", "Doc."),
        ("def f():\n    f'{a}'", ""),
    ],
)
def test_summaries(text: str, summary: str) -> None:
    (definition,) = (d for d in defined(text).values() if d.kind == "function")
    assert definition.summary == summary
