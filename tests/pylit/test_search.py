"""What search knows of a page; what it finds is tested in the browser, on the built site."""

import json
import re
import subprocess
from itertools import accumulate
from pathlib import Path
from typing import Any

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


def test_a_text_belongs_to_the_heading_or_the_definition_that_it_stands_under() -> None:
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


def page(number: int) -> SearchPage:
    parts = (
        Part("decay", "Decay", "An ant."),
        Part(f"Net{number}.forward", "", "Ants at work.", "definition"),
    )
    text = "An ant" + " that works" * (number % 3)
    return counted(SearchPage(f"p{number}.html", f"Page {number}", ("net",), text, parts))


def scripts(count: int) -> dict[str, Any]:
    """What each script of an index of so many pages hands over."""
    with SearchIndex() as index:
        for number in range(count):
            index.add(page(number), number % 2)
        files = dict(index.files())
    found = {}
    for path, data in files.items():
        name = path.removeprefix("assets/").removesuffix(".js")
        text = data.decode().removeprefix(f'pylit.found("{name}",').removesuffix(");\n")
        found[name] = json.loads(re.sub(r"(shards|chunks):", r'"\1":', text))
    return found


def test_terms_lead_to_entries_and_entries_to_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylit.outputs.search._TERMS", 100)
    monkeypatch.setattr("pylit.outputs.search._TEXTS", 300)
    found = scripts(10)
    shards, chunks = found["search-index"]["shards"], found["search-index"]["chunks"]
    terms = {t: told for n in range(len(shards)) for t, told in found[f"search/terms-{n}"].items()}
    assert [next(iter(found[f"search/terms-{n}"])) for n in range(len(shards))] == shards
    assert len(shards) > 3 and list(terms) == sorted(terms)
    # Steps from entry to entry, each followed by a score: of three entries a page is the first.
    assert terms["=page4"][0] == 12 and terms["=net4forward"][0] == 14
    titled = terms["decay"]
    assert list(accumulate(titled[::2])) == list(range(1, 30, 3))
    assert titled[3] == pytest.approx(2.5 * titled[1], abs=2), "a rank tells"
    assert "ants" in found["search/words"].split() and "=net" not in found["search/words"]
    texts = [one for n in range(len(chunks)) for one in found[f"search/texts-{n}"]]
    assert [one[:3] for one in texts] == [[3 * n, f"p{n}.html", f"Page {n}"] for n in range(10)]
    assert len(chunks) > 2 and set(chunks) <= {one[0] for one in texts}
    assert texts[0][4] == [["decay", "An ant.", "Decay"], ["Net0.forward", "Ants at work."]]


def test_of_a_term_that_occurs_everywhere_the_best_entries_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = scripts(20)["search/terms-0"]["page"]
    monkeypatch.setattr("pylit.outputs.search._MOST", 4)
    cut = scripts(20)["search/terms-0"]["page"]
    assert len(cut) == 8 < len(whole)
    assert min(cut[1::2]) == sorted(whole[1::2])[-4]


def run_in_node(code: str, *parts: str) -> Any:
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


def test_queries_and_texts_have_the_same_terms() -> None:
    texts = ["FeedbackAttention's kv_cache2, GPT-2", "naïve Über-Maß ﬁne ½ x² ℝ", "__init__ a__b"]
    texts += ["日本語のテキスト Ελλάς", "HTTPServer2Go i18n ÅngströmUnit", "_x 1e-3 d_k"]
    texts += ["QKᵀ/√d_k, a Square root and square-roots"]
    texts += ["Transformer模型，第3章：注意力（attention）", "力 の_a模型_b〇々 ガー・ア𠀀𠀁豈ﾃｽﾄ"]
    found = run_in_node(f"{json.dumps(texts)}.map(terms)", "10-terms")
    assert found == [terms(text) for text in texts]


def test_chinese_is_found_by_pairs_of_characters() -> None:
    assert terms("Transformer模型") == ["transformer", "模型"]
    assert terms("注意力机制。用 2 头") == ["注意", "意力", "力机", "机制", "用", "2", "头"]


CHINESE = {
    "多头注意力": "Transformer的注意力让每个位置查看所有位置。",
    "循环网络": "隐状态把过去的信息带到下一步" * 20 + "，而注意力直接查看过去。",
    "意外": "注册一个模块，留意力度，在Transformer里。",
}


def in_chinese(code: str) -> Any:
    """What an expression is where the scripts have the index of three Chinese pages."""
    with SearchIndex() as index:
        for number, (title, text) in enumerate(CHINESE.items()):
            index.add(counted(SearchPage(f"zh/{number}.html", title, (), text, ())), 0)
        files = {path: data.decode() for path, data in index.files()}
    there = {path.replace("assets/", "zh/"): script for path, script in files.items()}
    code = f"(globalThis.index = {json.dumps(there)}, {code})"
    return run_in_node(code, "10-terms", "20-index")


def test_queries_in_chinese() -> None:
    asked = {
        "注意力": ["多头注意力", "循环网络"],
        "注": ["意外", "多头注意力", "循环网络"],
        "transformer 注意": ["多头注意力"],
        "trnasformer": ["意外", "多头注意力"],
        "隐状态是什么": ["循环网络"],
        "卷积": [],
    }
    titles = "const titles = async (text) => (await query(text)).map(({ title }) => title);"
    each = f"for (const text of {json.dumps([*asked])}) found[text] = await titles(text);"
    code = f"await (async () => {{ const found = {{}}; {titles} {each} return found; }})()"
    assert in_chinese(code) == asked


def test_excerpts_and_marks_where_there_are_no_spaces() -> None:
    text = CHINESE["循环网络"]
    code = "(await query('注意力')).map(({text, terms}) => [excerpt(text, terms), marking(terms)])"
    (first, _), (excerpt, marking) = in_chinese(code)
    assert first == CHINESE["多头注意力"]
    assert excerpt.startswith("… ") and excerpt.endswith("，而注意力直接查看过去。")
    assert len(excerpt) < 50 and excerpt[2:] in text
    assert re.findall(f"(?:{marking})+", excerpt + "意和力") == ["注意力"]


def test_excerpts_are_cut_between_words() -> None:
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
def test_formulas_in_words(tex: str, words: str) -> None:
    assert tex_to_text(tex) == words


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
