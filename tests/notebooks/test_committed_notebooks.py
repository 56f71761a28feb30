"""The notebooks of the repository are those that their sources make, with outputs of a real run."""

import io
import json
import os
import re
import tokenize
from pathlib import Path

import nbformat
import pytest

from docs_src.notebooks import OWN
from docs_src.notebooks.document import NotebookBuilder, as_text, code_cells, has_run
from docs_src.notebooks.translation import Translator
from pylit.diagnostics import Report
from pylit.source.pages import split_front_matter as split

ROOT = Path(__file__).parents[2]
MAKER = NotebookBuilder(ROOT)
NAMES = MAKER.names
CHINESE = Translator(ROOT, "zh", NAMES)
MADE = [name for name in CHINESE.names if CHINESE.path(name).is_file()]


def program(source: str) -> list[str]:
    """What code does: its names, operators and numbers, whatever its strings say."""
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in found if token.type in kinds]


def traces(text: str) -> list[str]:
    """What only the site understands, outside code and formulas: its links, citations, anchors."""
    shown = re.sub(r"(?s)```.*?```|`[^`\n]*`|\$\$.*?\$\$", "", text)
    return re.findall(r"\]\((?!https?://)|\[-?@|\{#|^\\begin|\[!", shown, re.M)


def test_no_notebook_without_a_recipe():
    assert sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb")) == NAMES
    assert {path.stem for path in (ROOT / "notebooks/zh").iterdir()} <= {*CHINESE.names}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_its_sources_say_with_small_outputs_of_a_run(name: str):
    """If this fails, run `make notebooks`."""
    made = MAKER.document(name)
    text = as_text(made)
    assert text == MAKER.path(name).read_text(encoding="utf-8")
    assert has_run(made) and len(text) < 500_000
    nbformat.validate(made)
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for output in (output for cell in code for output in cell.outputs):
        assert output.output_type != "error" and output.get("name") != "stderr", output
        # The letters of a picture may spell anything.
        words = {kind: said for kind, said in output.get("data", {}).items() if "image" not in kind}
        told = json.dumps([output.get("text"), words])
        assert not re.search(r"/(home|root|tmp|work|Users)/", told)


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_of_code_finds_no_trace_of_the_site(name: str):
    """Links lead somewhere from anywhere; what only the site understands is gone."""
    for cell in MAKER.cells(name):
        text = cell.source
        if cell.cell_type == "markdown":
            assert not traces(text), text
            assert text.count("<details>") == text.count("</details>")
        else:
            comments = "\n".join(re.findall(r"(?m)^ *# .*$", text))
            assert not re.search(r"\]\(\S+\)|\[-?@|\[!", comments), comments


@pytest.mark.parametrize("name", NAMES)
def test_its_page_leads_to_it(name: str):
    page = ROOT / MAKER.recipe(name)[0]["page"].replace(".", "/")
    path = page / "__init__.py" if page.is_dir() else page.with_suffix(".py")
    values, _, _ = split(path.read_text(encoding="utf-8").split('"""')[1], Report())
    assert values["notebook"] == f"notebooks/{name}.ipynb"


def test_more_heads_did_not_help_in_the_stored_run():
    """The notebook says so below the outputs of its training."""
    document = nbformat.read(MAKER.path("mha"), as_version=4)
    outputs = "".join(o.get("text", "") for c in document.cells for o in c.get("outputs", []))
    found = dict(re.findall(r"(\d) heads: validation loss ([\d.]+)", outputs))
    losses = [float(found[heads]) for heads in "1248"]
    assert losses == sorted(losses)


@pytest.mark.parametrize("name", MADE)
def test_the_chinese_notebook_has_the_code_and_the_outputs_of_the_english_one(name: str):
    """If this fails, run `make notebooks`."""
    english = MAKER.document(name)
    made = CHINESE.document(name, english)
    assert as_text(made) == CHINESE.path(name).read_text(encoding="utf-8")
    nbformat.validate(made)
    first, *code = code_cells(made)
    for one, other in zip(code, code_cells(english), strict=True):
        assert program(one.source) == program(other.source)
        said, told = ([o.get("data", o.get("text")) for o in c.outputs] for c in (one, other))
        assert said == told
    assert "DATA = " in first.source and not first.outputs
    texts = [cell.source for cell in made.cells if cell.cell_type == "markdown"]
    assert not [text for text in texts if traces(text)]


def test_its_first_cell_takes_the_text_that_a_reader_names(tmp_path, monkeypatch):
    first, *_ = code_cells(CHINESE.document("elman", MAKER.document("elman")))
    monkeypatch.setenv("LABML_NN_DATA", "before")
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context():
        exec(first.source, {})
        assert os.environ["LABML_NN_DATA"] == "before"
        exec(first.source.replace('DATA = ""', 'DATA = "/a/text.txt"'), {})
    assert os.environ["LABML_NN_DATA"] == "/a/text.txt"


@pytest.mark.parametrize("name", MADE)
def test_its_plots_have_the_english_words_where_no_font_has_chinese(name: str, monkeypatch):
    """Matplotlib would draw a box for each character. The first cell may run twice."""
    pytest.importorskip("matplotlib")
    from matplotlib import font_manager, rc_context
    from matplotlib.text import Text

    def shown(source: str) -> list[str]:
        return [re.sub(r"\{[^}]*\}", "1", words) for words in re.findall(r'"([^"\n]+)"', source)]

    english = MAKER.document(name)
    first, *code = code_cells(CHINESE.document(name, english))
    monkeypatch.setattr(Text, "set_text", Text.set_text)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [])
    with rc_context():
        exec(first.source, namespace := {})
        exec(first.source, namespace)
        for one, other in zip(code, code_cells(english), strict=True):
            if "chapter" not in one.metadata.get(OWN, {}):
                for chinese, words in zip(shown(one.source), shown(other.source), strict=True):
                    assert Text(0, 0, chinese).get_text() == words
