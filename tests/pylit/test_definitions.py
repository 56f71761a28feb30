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
        ("def f(a: int = 1, /, *b: str, **c: float):", ""),
        ('def f(eps=1e-5, mask=0x10, s="it\'s"):', ""),
        ('def f(x: Float[Tensor, "T #B C"]):', ""),
        ("def größe(ä='é', ö: 'ü' = 1):", ""),
        (
            "def f(  # why\n  a,\n  b=[\n    1,\n    2,\n  ],\n) -> (\n  int):",
            "f(a, b=[1, 2]) -> (int)",
        ),
        ("def f(x='''one\ntwo'''):", "f(x='''one two''')"),
        ("class f:", "f"),
        ("class f(A, b.C[int], metaclass=M, **kw):", ""),
        ("class f(\n    A,  # first\n    B,\n):", "f(A, B)"),
        ("@decorated(\n    1\n)\ndef f(x):", "f(x)"),
    ],
)
def test_signatures(header: str, signature: str) -> None:
    (definition,) = defined(f"{header}\n    pass\n").values()
    assert definition.signature == (signature or header.partition(" ")[2].removesuffix(":"))
    assert definition.dotted == f"pkg.mod.{definition.qualname}"


NESTED = """\
@first
@second
class A:
    '''Class.'''
    @property
    def method(self):
        '''Method.'''
        def local():
            class Hidden: ...
    class B:
        async def inner(self): ...
if fast:
    def f(): ...
else:
    for x in y:
        def h(): ...
match z:
    case 1:
        def i(): ...
try:
    from x import j
except ImportError:
    def j(first): ...
@typing.overload
def k(x: int): ...
def k(x): "Does."
class C:
    @property
    def p(self): ...
    @p.setter
    def p(self, value): ...
def j(second): ...
l = None
def l(): ...
"""


def test_kinds_lines_and_nesting_and_one_definition_for_each_name() -> None:
    found = defined(NESTED)
    assert " ".join(f"{name}:{d.kind}:{d.line}" for name, d in found.items()) == (
        "A:class:3 A.method:method:6 A.B:class:10 A.B.inner:method:11 f:function:13 h:function:16"
        " i:function:19 j:function:23 k:function:26 C:class:27 C.p:method:29 l:function:34"
    )
    opened = [section.definition for section in parse(NESTED).sections if section.definition]
    assert opened == list(found)


CONSTANTS = """\
# How many heads.
# At once.
HEADS = 8

#: How wide.
width: int = 512

kind: str
a = b = 1
d, (e, f) = g.h, i[0] = 1, (2, 3)
__all__ = ["HEADS"]
HEADS = 9
LONG = "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"
SPLIT = {
    1: 2,
}
if TYPE_CHECKING:
    T = TypeVar("T")
else:
    T = None
for j in k:
    pass
count += 1
(walrus := 1)
class A:
    attribute = 1
def o():
    local = 1
"""


def test_constants() -> None:
    constants = [d for d in defined(CONSTANTS).values() if d.kind == "constant"]
    places = " ".join(f"{d.qualname}:{d.line}" for d in constants)
    assert places == "HEADS:3 width:6 kind:8 a:9 b:9 d:10 LONG:13 SPLIT:14 T:18"
    shown = ["HEADS = 8", "width: int = 512", "kind: str", "a = b = 1", "a = b = 1"]
    shown += ["d, (e, f) = g.h, i[0] = 1, (2, 3)", "LONG = …", "SPLIT = …", 'T = TypeVar("T")']
    assert [d.signature for d in constants] == shown
