"""What definitions are built from and what uses them."""

import re

import pytest
from linked_sources import Project
from site_tools import SITE, edit, make_site, read, succeed

PARTS = '''"""One."""

class Part:
    def work(self) -> int:
        return 1

def make() -> Part: ...
def check(part: Part) -> None: ...
class _Hidden: ...
'''


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A(Part): ...", {"A": ["Part"]}),
        ("def a(x: Part): ...", {"a": ["Part"]}),
        # A method counts for its class, once.
        ("def a():\n    return make(), Part().work(), make()", {"a": ["make", "Part"]}),
        # Decorators belong to what they decorate, and code outside of definitions to nothing.
        ("@make\ndef a(): ...\nx = Part()", {"a": ["make"]}),
        # What is inside counts for what is at the top.
        ("class A:\n    class B:\n        def c(self):\n            make()", {"A": ["make"]}),
        # Python's and PyTorch's own are no parts.
        ("def a(x: int):\n    return len(nn.Linear(1, 2))", {"a": []}),
        # One that is defined twice, and one that is not whole.
        ("if x:\n    def a(): make()\nelse:\n    def a(): Part()", {"a": ["make", "Part"]}),
        ("def a(:", {}),
    ],
)
def test_what_definitions_use(text, expected):
    head = "from torch import nn\nfrom parts import Part, make\n"
    resolver = Project({"m.py": f"{head}{text}\n", "parts.py": PARTS}).resolver("m.py")
    found = resolver.uses(resolver.tokens())
    assert found == {name: tuple(f"parts.html#{x}" for x in xs) for name, xs in expected.items()}


FILES = {
    "pkg/one.py": PARTS,
    "pkg/two.py": '''"""Two."""

from pkg.one import Part, _Hidden, check, make

def _helper() -> Part:
    return make() or _again()

def _again() -> Part:
    return _helper()

class Whole(Part):
    """
    ## The whole
    """

    def __init__(self) -> None:
        check(_helper())
        self.hidden = _Hidden()

def bare():
    return Whole(), bare()
''',
}


def lines(root, page):
    """The rows of the table at the end of a page, as text."""
    rows = r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td></tr>'
    found = [re.sub("<[^>]*>", "", "|".join(row)) for row in re.findall(rows, read(root, page))]
    return [re.sub(r"(.*)\|(.*)\|(.*)", r"\1: from \2; by \3", row) for row in found]


def test_a_table_of_links_ends_the_page(tmp_path):
    root = make_site(tmp_path, FILES)
    succeed(root)
    link = '<a class="x" href="one.html#Part" data-x="pkg.one.Part">Part</a>'
    assert link in read(root, "pkg/two.html")
    # Helpers are replaced by what they use; what returns nothing, and what is private, is no part.
    # None is built from itself.
    assert lines(root, "pkg/two.html") == [
        "Whole: from Part, make; by bare",
        "bare: from Whole; by ",
    ]
    assert lines(root, "pkg/one.html") == [
        "Part: from ; by make, Whole",
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
    "pkg/kernels.py": "def kernel_for(method, owner):\n    return id\n",
    "pkg/lesson.py": 'class Layer:\n    def forward(self, x):\n        """One pass."""\n',
    "pkg/fast.py": '''
from pkg.kernels import kernel_for
from pkg.lesson import Layer

@kernel_for(Layer.forward, owner=Layer)
def fused(layer, x):
    """In one call."""

@staticmethod
def other(layer, x):
    """No kernel."""
    return Layer.forward(layer, x)
''',
}


def test_a_decorator_relates_its_function_to_its_argument(tmp_path):
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
