"""What search knows of a page; what it finds is tested in the browser, on the built site."""

import json
import re
import subprocess

import pytest
from pylit_sources import draft, parse

from pylit.diagnostics import Report
from pylit.node.process import NodeError, find_node
from pylit.notes.tex import tex_to_text
from pylit.outputs.search import (
    Part,
    SearchIndex,
    SearchPage,
    counted,
    read_aliases,
    search_page,
    terms,
)
from pylit.site.options import THEME

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
        found = 1
        # **Why once?** The square root of one is one, so a second time adds nothing.
        return found
'''


def test_a_text_belongs_to_the_heading_or_the_definition_that_it_stands_under():
    module = parse(TEXT)
    page = search_page(draft(module), module)
    assert (page.title, page.names, page.text) == ("Memory, m", ("mod",), "An opening.")
    asked = "Why once? The square root of one is one, so a second time adds nothing."
    assert page.parts == (
        Part("decay", "Decay", "By 1/2 each step."),
        Part("Memory", "", "What is remembered.", "definition"),
        Part("Memory.read", "", "Read it. All of it.", "definition"),
        Part("L20", asked, asked, "note"),
    )


def run_in_node(code, *parts):
    """What an expression is after scripts of the search have run."""
    scripts = [(THEME / "js/search" / f"{part}.js").read_text(encoding="utf-8") for part in parts]
    code = f"{BROWSER}{''.join(scripts)}(async () => console.log(JSON.stringify({code})))()"
    try:
        done = subprocess.run([find_node(), "-e", code], capture_output=True, check=True)
    except NodeError as error:
        pytest.skip(str(error))
    return json.loads(done.stdout)


#: What the scripts use of a browser; `index` has the scripts of an edition, by address.
BROWSER = """
globalThis.window = { pylit: { load: async (name) => eval(index[name]) } };
globalThis.pylit = window.pylit;
globalThis.document = { documentElement: { dataset: { edition: "zh/" } } };
"""


def test_queries_and_texts_have_the_same_terms():
    texts = ["FeedbackAttention's kv_cache2, GPT-2", "naïve Über-Maß ﬁne ½ x² ℝ", "__init__ a__b"]
    texts += ["日本語のテキスト Ελλάς", "HTTPServer2Go i18n ÅngströmUnit", "_x 1e-3 d_k"]
    texts += ["QKᵀ/√d_k, a Square root and square-roots"]
    texts += ["Transformer模型，第3章：注意力（attention）", "力 の_a模型_b〇々 ガー・ア𠀀𠀁豈ﾃｽﾄ"]
    found = run_in_node(f"{json.dumps(texts)}.map(terms)", "10-terms")
    assert found == [terms(text) for text in texts]


def with_index(pages, code):
    """What an expression is where the scripts have the index of these pages."""
    with SearchIndex() as index:
        for number, page in enumerate(pages):
            index.add(counted(page), number % 2)
        files = {path: data.decode() for path, data in index.files()}
    there = {path.replace("assets/", "zh/"): script for path, script in files.items()}
    code = f"(globalThis.index = {json.dumps(there)}, {code})"
    return run_in_node(code, "10-terms", "20-index"), len(files)


def answers(pages, asked):
    """The addresses that each query finds, and how many files the index has."""
    each = "await Promise.all(asked.map(async (text) => (await query(text)).map(({ url }) => url)))"
    found, files = with_index(pages, f"await (async (asked) => {each})({json.dumps(asked)})")
    return dict(zip(asked, found, strict=True)), files


def page(number):
    entry = f"Net{number}.forward"
    parts = Part("decay", "Decay", "An ant."), Part(entry, "", "Ants at work.", "definition")
    return SearchPage(f"p{number}.html", f"Page {number}", ("net",), "It waits." * number, parts)


def test_an_index_in_many_files_answers_like_one_in_few(monkeypatch):
    asked = ["decay", "page 4", "net4forward", "work", "waits", "nothing"]
    found, few = answers([*map(page, range(10))], asked)
    monkeypatch.setattr("pylit.outputs.search._TERMS", 100)
    monkeypatch.setattr("pylit.outputs.search._TEXTS", 300)
    again, many = answers([*map(page, range(10))], asked)
    assert again == found and many > few + 5
    # A rank tells: here each second page has a higher one.
    ranked = [*range(1, 10, 2), *range(0, 10, 2)]
    assert found["decay"] == [f"p{n}.html#decay" for n in ranked]
    assert found["page 4"][0] == "p4.html" and found["nothing"] == []
    assert found["net4forward"][0] == "p4.html#Net4.forward"
    assert {*found["work"]} == {f"p{n}.html#Net{n}.forward" for n in range(10)}


def test_of_a_term_that_occurs_everywhere_the_best_entries_are_kept(monkeypatch):
    pages = [*map(page, range(20))]
    whole = answers(pages, ["page"])[0]["page"]
    monkeypatch.setattr("pylit.outputs.search._MOST", 4)
    cut = answers(pages, ["page"])[0]["page"]
    assert len(cut) == 4 < len(whole) and cut == whole[:4]


CHINESE = {
    "多头注意力": "Transformer的注意力让每个位置查看所有位置。",
    "循环网络": "隐状态把过去的信息带到下一步" * 20 + "，而注意力直接查看过去。",
    "意外": "注册一个模块，留意力度，在Transformer里。",
}
ATTENTION, RECURRENT, ACCIDENT = CHINESE
CHINESE_PAGES = [SearchPage(title, title, (), text, ()) for title, text in CHINESE.items()]


def test_queries_in_chinese():
    expected = {
        "注意力": [ATTENTION, RECURRENT],
        "注": [ACCIDENT, ATTENTION, RECURRENT],
        "transformer 注意": [ATTENTION],
        "trnasformer": [ACCIDENT, ATTENTION],
        "隐状态是什么": [RECURRENT],
        "卷积": [],
    }
    assert answers(CHINESE_PAGES, [*expected])[0] == expected


def test_excerpts_and_marks_where_there_are_no_spaces():
    text = CHINESE[RECURRENT]
    code = "(await query('注意力')).map(({text, terms}) => [excerpt(text, terms), marking(terms)])"
    (first, _), (excerpt, marking) = with_index(CHINESE_PAGES, code)[0]
    assert first == CHINESE[ATTENTION]
    assert excerpt.startswith("… ") and excerpt.endswith("，而注意力直接查看过去。")
    assert len(excerpt) < 50 and excerpt[2:] in text
    assert re.findall(f"(?:{marking})+", excerpt + "意和力") == ["注意力"]


def test_excerpts_are_cut_between_words():
    text = "one two three " * 10 + "gradient " + "four five six " * 20
    found = run_in_node(f"excerpt({json.dumps(text)}, ['gradient'])", "10-terms", "20-index")
    words = found.split(" ")
    assert words[0] == words[-1] == "…" and set(words[1:-1]) <= set(text.split())
    assert "gradient" in words and len(found) <= 165


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
def test_formulas_in_words(tex, words):
    assert tex_to_text(tex) == words


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ('[aliases]\n"pkg.mod" = ["m"]\n', []),
        ('[aliases]\n"pkg.mud" = ["m"]\n', [(2, "there is no page `pkg.mud`")]),
        ("[alias]\n", [(0, "'aliases'")]),
    ],
)
def test_aliases_name_pages(table, fault, tmp_path):
    (tmp_path / "aliases.toml").write_text(table)
    read_aliases(tmp_path / "aliases.toml", ["pkg.mod"], report := Report())
    assert [(d.line, d.message) for d in report] == fault
