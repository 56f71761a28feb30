"""What search knows of a page; what it finds is tested in the browser, on the built site."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pylit_sources import parse

from pylit.code.scopes import targets
from pylit.diagnostics import Report
from pylit.prose.plaintex import plain_tex
from pylit.site.drafts import Drafter, Order
from pylit.site.search import read_aliases, search_files, search_page

TEXT = '''"""
# Memory, $\\hat{m}$

An opening.

## Decay

By $\\frac{1}{2}$ each step.
"""


class Memory:
    """What is remembered."""

    def read(self) -> int:
        """Read it."""
        # All of it.
        return 1
'''


def test_a_text_belongs_to_the_heading_or_the_definition_that_it_stands_under() -> None:
    module = parse(TEXT)
    draft = Drafter(targets(module, "pkg/mod.html"))(Order(module, "pkg/mod.html", False, "key"))
    page = replace(search_page(draft, module), rank=2)
    assert (page.title, page.names, page.text) == ("Memory, m", ("mod",), "An opening.")
    assert page.parts == (
        ("decay", "Decay", "By 1/2 each step."),
        ("Memory", "", "What is remembered."),
        ("Memory.read", "", "Read it. All of it."),
    )
    (name, data), *rest = search_files([page]).items()
    assert (name, rest) == ("assets/search-index.js", [])
    read = json.loads(data.decode().removeprefix("pylit.index(").removesuffix(");\n"))
    assert read[0][:3] == ["pkg/mod.html", 2, "Memory, m"]
    assert read[0][5][:2] == [
        ["decay", "By 1/2 each step.", "Decay"],
        ["Memory", "What is remembered."],
    ]


@pytest.mark.parametrize(
    ("tex", "words"),
    [
        (r"\mathop{Attention}(Q, K) = \frac{Q K^\top}{\sqrt{d_k}}", "Attention(Q, K) = (QKᵀ)/√d_k"),
        (r"d_{\text{model}} \le 2^{10}", "d_model ≤ 2¹⁰"),
        (r"h_{t - 1}^{(l)} \in \mathbb{R}^n", "h_(t−1)^((l)) ∈ Rⁿ"),
        (r"\log p(x_t \mid x_{<t})", "log p(x_t | x_(<t))"),
        (r"\lambda\Sigma\quad\{a\}, 50\%", "λΣ {a}, 50%"),
    ],
)
def test_formulas_in_words(tex: str, words: str) -> None:
    assert plain_tex(tex) == words


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ('[aliases]\n"pkg.mod" = ["m"]\n', ""),
        ('[aliases]\n"pkg.mud" = ["m"]\n', "docs_src/aliases.toml:2: there is no page `pkg.mud`"),
        ("[alias]\n", "docs_src/aliases.toml: 'aliases'"),
    ],
)
def test_aliases_name_pages(table: str, fault: str, tmp_path: Path) -> None:
    report = Report()
    (tmp_path / "aliases.toml").write_text(table)
    read_aliases(tmp_path / "aliases.toml", ["pkg.mod"], report)
    assert [f"{d.path}:{d.line}: {d.message}".replace(":0", "") for d in report] == [fault] * bool(
        fault
    )
