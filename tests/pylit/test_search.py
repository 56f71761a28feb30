"""The search index: the terms of notes, and MiniSearch's opinion of what we write."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_tools import NODE_MODULES, THEME

from pylit.model import SearchDocument
from pylit.node import find_node
from pylit.page.search import SearchIndex, search_files, terms

DOCUMENTS = [
    SearchDocument("a.html", "page", "Attention over a memory", "Attention over a memory", "Fan"),
    SearchDocument("a.html#FA", "definition", "FeedbackAttention", "Attention over a memory", ""),
    SearchDocument("a.html#c", "heading", "Café </script>", "Other", "word " * 90),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", ["hello", "world"]),
        ("FeedbackAttention", ["feedbackattention", "feedback", "attention"]),
        ("subsequent_mask", ["subsequent_mask", "subsequent", "mask"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
        ("a.b", ["a", "b"]),
        ("Café naïve", ["cafe", "naive"]),
        ("d_k 注意力", ["d_k", "d", "k", "注意力"]),
        ("", []),
    ],
)
def test_terms(text: str, expected: list[str]):
    assert list(terms(text)) == expected


def read(files: Mapping[str, bytes]) -> dict[str, Any]:
    """What a script hands over."""
    text = files["assets/search-index.js"].decode()
    found = json.loads(text.removeprefix("pylit.index(").removesuffix(");\n"))
    assert isinstance(found, dict)
    return found


def test_the_index_is_a_script_that_no_text_can_break_out_of():
    (name, data), *rest = search_files(DOCUMENTS).items()
    text = data.decode()
    assert (name, rest) == ("assets/search-index.js", [])
    assert text.startswith("pylit.index({")
    assert "</script" not in text
    assert json.loads(text.removeprefix("pylit.index(").removesuffix(");\n").replace("<\\/", "</"))


def test_an_edited_index_is_that_of_a_new_one():
    index = SearchIndex()
    first, second, third = DOCUMENTS
    edited = [
        DOCUMENTS,
        [first, replace(second, text="a memory, a new one"), third],
        [replace(first, title="Fan"), replace(second, text="one"), third],
        [replace(first, title="Fan"), third],
        [third, *DOCUMENTS],
        [],
    ]
    for documents in edited:
        assert index.files(documents) == search_files(documents)


def run_in_node(script: str, folder: Path) -> object:
    """What a script prints, with the theme's own cutting of terms and MiniSearch at hand."""
    if not (NODE_MODULES / "minisearch").is_dir():
        pytest.skip("npm packages are not installed")
    module = folder / "try.cjs"
    terms_js = (THEME / "js" / "search" / "10-terms.js").read_text(encoding="utf-8")
    library = json.dumps(str(NODE_MODULES / "minisearch" / "dist" / "cjs" / "index.cjs"))
    module.write_text(f"{terms_js}\nconst MiniSearch = require({library});\n{script}", "utf-8")
    run = subprocess.run([find_node(), module], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_browser_and_generator_cut_terms_alike(tmp_path: Path):
    samples = [
        "FeedbackAttention",
        "subsequent_mask",
        "HTTPServer2",
        "Café naïve",
        "d_k 注意力",
        "__init__",
    ]
    script = f"console.log(JSON.stringify({json.dumps(samples)}.map(terms)))"
    assert run_in_node(script, tmp_path) == [list(terms(sample)) for sample in samples]


def test_minisearch_builds_the_same_index(tmp_path: Path):
    documents = [
        {"id": n, "title": d.title, "page": d.page, "text": d.text, "kind": d.kind, "url": d.url}
        for n, d in enumerate(DOCUMENTS)
    ]
    script = f"""
    const index = new MiniSearch({{
      fields: ["title", "page", "text"], tokenize: terms, processTerm: term => term,
    }});
    index.addAll({json.dumps(documents)});
    console.log(JSON.stringify(index));
    """
    theirs, ours = run_in_node(script, tmp_path), read(search_files(DOCUMENTS))
    assert isinstance(theirs, dict)
    for part in ("documentCount", "nextId", "documentIds", "fieldIds", "fieldLength", "dirtCount"):
        assert theirs[part] == ours[part], part
    assert theirs["serializationVersion"] == ours["serializationVersion"]
    assert sorted(theirs["index"]) == ours["index"]
    assert ours["averageFieldLength"] == pytest.approx(theirs["averageFieldLength"], abs=1e-3)
