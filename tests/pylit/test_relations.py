"""What definitions are built from and what uses them."""

import re
from pathlib import Path

import pytest
from linked_sources import Project
from site_tools import SITE, edit, make_site, read, succeed

from pylit.model import Uses

PARTS = '''"""Parts."""


class Part:
    """A part."""

    def work(self) -> int:
        return 1


def make() -> Part:
    """Makes one."""
    return Part()


def check(part: Part) -> None:
    """Says nothing."""


class _Hidden:
    pass
'''


def used(text: str) -> Uses:
    project = Project({"m.py": text, "parts.py": PARTS})
    resolver = project.resolver("m.py")
    return resolver.uses(resolver.tokens())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A(Part): ...", {"A": ("parts.html#Part",)}),
        ("def a(x: Part): ...", {"a": ("parts.html#Part",)}),
        # A method counts for its class, once.
        ("def a():\n    return make(), Part().work(), make()", {"a": ("make", "Part")}),
        # Decorators belong to what they decorate, and code outside of definitions to nothing.
        ("@make\ndef a(): ...\nx = Part()", {"a": ("make",)}),
        # What is inside counts for what is at the top.
        ("class A:\n    class B:\n        def c(self):\n            make()", {"A": ("make",)}),
        # Python's and PyTorch's own are no parts.
        ("def a(x: int):\n    return len(nn.Linear(1, 2))", {"a": ()}),
        # One that is defined twice, and one that is not whole.
        ("if x:\n    def a(): make()\nelse:\n    def a(): Part()", {"a": ("make", "Part")}),
        ("def a(:", {}),
    ],
)
def test_what_definitions_use(text: str, expected: dict[str, tuple[str, ...]]) -> None:
    full = {
        name: tuple(f"parts.html#{part.removeprefix('parts.html#')}" for part in parts)
        for name, parts in expected.items()
    }
    assert used(f"from torch import nn\nfrom parts import Part, make\n{text}\n") == full


FILES = {
    "pkg/one.py": '"""One."""\n\n' + PARTS.partition("\n\n\n")[2],
    "pkg/two.py": '''"""Two."""

from pkg.one import Part, _Hidden, check, make


def _helper() -> Part:
    return make() or _again()


def _again() -> Part:
    return _helper()


class Whole(Part):
    """
    ## The whole

    Of parts.
    """

    def __init__(self) -> None:
        check(_helper())
        self.hidden = _Hidden()


def bare():
    return Whole(), bare()
''',
}


def lines(root: Path, page: str) -> list[str]:
    """The rows of the table at the end of a page, as text."""
    text = read(root, page)
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td></tr>', text)
    plain = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]
    return [f"{name}: from {built or '-'}; by {used or '-'}" for name, built, used in plain]


def test_a_table_of_links_ends_the_page(tmp_path: Path) -> None:
    root = make_site(tmp_path, FILES)
    succeed(root)
    two = read(root, "pkg/two.html")
    assert '<a class="x" href="one.html#Part" data-x="pkg.one.Part">Part</a>' in two
    # Helpers are replaced by what they use; what returns nothing, and what is private, is no part.
    # None is built from itself.
    assert lines(root, "pkg/two.html") == [
        "Whole: from Part, make; by bare",
        "bare: from Whole; by -",
    ]
    assert lines(root, "pkg/one.html") == [
        "Part: from -; by make, Whole",
        "make: from Part; by Whole",
    ]


RELATION = """
[[relation]]
decorator = "kernel_for"
on_function = "Kernel <for>"
on_argument = "Also computed by the kernel"
"""
KERNELS = {
    "docs_src/site.toml": SITE + RELATION,
    "pkg/kernels.py": '"""Kernels."""\n\n\ndef kernel_for(method, owner):\n    return id\n',
    "pkg/lesson.py": '''"""Lesson."""


class Layer:
    """A layer."""

    def forward(self, x):
        """One pass."""
        return x
''',
    "pkg/fast.py": '''"""Fast."""

from pkg.kernels import kernel_for
from pkg.lesson import Layer


@kernel_for(Layer.forward, owner=Layer)
def fused(layer, x):
    """In one call."""
    return x


@staticmethod
def other(layer, x):
    """No kernel."""
    return Layer.forward(layer, x)
''',
}


def test_a_decorator_relates_its_function_to_its_argument(tmp_path: Path) -> None:
    root = make_site(tmp_path, KERNELS)
    succeed(root)
    lesson = read(root, "pkg/lesson.html")
    assert 'the kernel <a class="x" href="fast.html#fused" data-x="pkg.fast.fused">' in lesson
    fast = read(root, "pkg/fast.html")
    assert 'Kernel &lt;for&gt; <a class="x" href="lesson.html#Layer.forward"' in fast
    assert fast.count("Kernel &lt;for") == 1
    # It is a matter of the settings alone: no other decorator says anything.
    edit(root, "docs_src/site.toml", RELATION, "")
    succeed(root)
    assert "by the kernel" not in read(root, "pkg/lesson.html")
