"""Tables of symbols on a page: what they link, what they are refused for, and what they cost."""

import re

import pytest
from linked_sources import module
from site_tools import build, edit, make_site, read, succeed

from pylit.notes.symbols import symbol_rows

MODULE = '''\
r"""
---
title: Attention
summary: What asks and what answers.
---

$$\\operatorname{Attention}(Q, K) = \\operatorname{softmax}\\left(Q_t K^\\top / \\sqrt{d}\\right)$$

| Symbol | Code | Meaning |
|:--|:--|:--|
| $Q$ | `query` of `attend` | what asks |
| $K$ | `key` of `attend` | what answers |
| $E$ | `scores` | how well $Q$ fits $K$ |
| $W^Q$, $W^K$ | `maps` | the maps |
| $d$ | `self.d_k` and so on | features |
| $S$, $T$ | | lengths |
"""


class Attention:
    """Multiplies $Q$ by $K_s$, and $W^Q$ by nothing."""

    def __init__(self, d_k, maps):
        # The root of $d$.
        self.d_k = d_k
        self.maps = maps

    def attend(self, query, key):
        scores = query @ key
        return scores / self.d_k

    def forward(self, query, key):
        return self.attend(query @ self.maps[0], key)
'''


@pytest.mark.parametrize(
    ("row", "symbols", "names"),
    [
        ("| $Q$ | `query` |", ["Q"], ["query"]),
        ("| $K$, $V$ | `k`, `v` of `attend` |", ["K", "V"], ["k of attend", "v of attend"]),
        ("| $K$ | `k` of `f` and `g`, `l` |", ["K"], ["k of f", "k of g", "l"]),
        ("| $W$, $b$ | `layer.weight`, `.bias` |", ["W", "b"], ["layer.weight", "layer.bias"]),
        ("| $x$ | `self.outputs[l]`, `z[..., 0]` |", ["x"], ["outputs", "z"]),
        ("| $S$, $T$ | |", ["S", "T"], []),
        ("| | `mask` |", [], ["mask"]),
    ],
)
def test_a_row(row, symbols, names):
    text = f'r"""\n| Symbol | Code |\n|:--|---|\n{row}\n"""'
    ((found, variables),) = symbol_rows(module("m.py", text))
    shown = [".".join(v.path) + (f" of {v.within}" if v.within else "") for v in variables]
    assert (found, shown) == (symbols, names)


def code(html):
    """The code of a page, its marks as ``{1:name}``."""
    lines = "".join(re.findall(r"<code[^>]*>(<i class=\"n.*?)</code>", html, re.DOTALL))
    lines = re.sub(r'<i class="n"[^>]*></i>', "", lines)
    marked = re.sub(r'<(var|a) class="(?:x )?y([\dy ]+)"[^>]*>(\w+)</\1>', r"{\2:\3}", lines)
    return re.sub(r"<[^>]*>", "", marked)


def test_symbols_and_variables_have_a_class_in_common(tmp_path):
    succeed(make_site(tmp_path, {"pkg/one.py": MODULE}))
    html = read(tmp_path, "pkg/one.html")
    marks = re.findall(r'<mjx-c[^>]* class="y(\d+) [^>]*>(.)</mjx-c>', html)
    # Those of the equation; one in each row, and two in a meaning; then those of the notes.
    equation, rows, notes = "1𝑄 2𝐾 1𝑄 2𝐾 6𝑑", "1𝑄 2𝐾 3𝐸 1𝑄 2𝐾 4𝑊 5𝑊 6𝑑", "1𝑄 2𝐾 4𝑊 6𝑑"
    assert " ".join(map("".join, marks)) == f"{equation} {rows} {notes}"
    shown = code(html)
    for line in (
        "def attend(self, {1:query}, {2:key}):",
        "{3:scores} = {1:query} @ {2:key}",
        "return {3:scores} / self.{6:d_k}",
        "self.{4 y5:maps} = {4 y5:maps}",
        "def forward(self, query, key):",
        "self.attend(query @ self.{4 y5:maps}[0], key)",
    ):
        assert line in shown
    # The names in the table have the same classes.
    assert ("y1", "query") in re.findall(r'<code class="([y\d ]*)">(\w*)</code>', html)


def test_the_table_may_stand_behind_the_code(tmp_path):
    """As a comment, folded; then the same variables are linked, and faults have their places."""
    head, table = MODULE[: MODULE.index("| Symbol")], MODULE[MODULE.index("| Symbol") :]
    table, rest = table.split('"""\n', 1)
    comment = "".join(f"# {line}\n" for line in table.splitlines())
    folded = f"# <details><summary>Symbols</summary>\n#\n{comment}#\n# </details>\n"
    moved = f'{head}"""\n{rest}\n\n{folded}'
    succeed(make_site(tmp_path, {"pkg/one.py": moved}))
    shown = code(read(tmp_path, "pkg/one.html"))
    assert "def attend(self, {1:query}, {2:key}):" in shown
    assert "{3:scores} = {1:query} @ {2:key}" in shown
    edit(tmp_path, "pkg/one.py", "| `scores` |", "| `skores` |")
    (fault,) = [d for d in build(tmp_path).report if d.code == "symbol-unknown"]
    line = moved.splitlines()[fault.line - 1].replace("scores", "skores")
    assert line[fault.column - 1 :].startswith("skores") or "`skores`" in line


RENAMED = (
    "scores = query @ key\n        return scores",
    "score = query @ key\n        return score",
)


@pytest.mark.parametrize(
    ("old", "new", "fault", "hint"),
    [
        (*RENAMED, "13:10: error[symbol-unknown]: `pkg.one` has no `scores`",
         "did you mean `score`?"),
        ("| $E$ |", "| $E$, $F$, $G$ |", "", ""),
        ("| $E$ | `scores` |", "| $E$, $F$, $G$ | `scores`, `maps` |",
         "13:20: error[symbol-pairs]: 3 symbols and 2 names do not pair up",
         "give each symbol a name, or all of them one, or a row to each"),
    ],
    ids=["variable", "one for all", "pairs"],
)  # fmt: skip
def test_a_name_that_the_code_does_not_have_fails_the_build(tmp_path, old, new, fault, hint):
    outcome = build(make_site(tmp_path, {"pkg/one.py": MODULE.replace(old, new, 1)}))
    found = [d for d in outcome.report if d.code.startswith("symbol") and "`key`" not in d.message]
    assert [d.hint for d in found] == [hint] * bool(fault)
    assert all(str(d).startswith(f"pkg/one.py:{fault}\n") for d in found)
    assert (tmp_path / "site").exists() == (not fault)


def test_a_foreign_package_is_linked_and_never_complained_of(tmp_path):
    wrong = MODULE.replace("| `scores` |", "| `score` |").replace("`maps`", "`maps`, `x`, `y`")
    make_site(tmp_path, {"pkg/one.py": wrong})
    succeed(tmp_path, sources=(tmp_path / "pkg",), check=False)
    html = read(tmp_path, "pkg/one.html")
    assert "{1:query}, {2:key}" in code(html)
    assert "y3" not in code(html).split("attend", 1)[1].split("return", 1)[0]
