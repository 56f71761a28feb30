"""Notebooks as pages of the site: their code and what came of it, links inwards, files beside."""

import json
from pathlib import Path

import notebook_tools as tools
import pytest
from notebook_tools import BASE
from site_tools import FILES, make_site, succeed

from pylit.diagnostics import Report
from pylit.notebooks.command import surroundings
from pylit.notebooks.document import as_text, document
from pylit.notebooks.pages import LARGEST_DRAWING, Notebooks, read_notebooks

SMALL = "https://example.org/small/"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tools.tree(tmp_path)


def shown(root: Path, *outputs, report: Report | None = None) -> Notebooks:
    """The pages of a site whose notebook has these outputs in its last cell."""
    made = document(tools.cells(root), "grow")
    [c for c in made["cells"] if c["cell_type"] == "code"][-2]["outputs"] = list(outputs)
    tools.write(root / "notebooks/grow.ipynb", as_text(made))
    return read_notebooks(surroundings(root)[0], report or Report())


def drawn(**data):
    kinds = {"svg": "image/svg+xml", "png": "image/png", "text": "text/plain", "html": "text/html"}
    found = {kinds[kind]: value for kind, value in data.items()}
    return {"data": found, "metadata": {}, "output_type": "display_data"}


def text_of(found: Notebooks) -> str:
    (module,) = found.modules
    return module.source.text


def test_it_is_a_page_of_its_own_with_the_file_beside_it(root: Path):
    found = shown(root)
    (module,) = found.modules
    assert (module.source.name, module.source.display) == ("notebooks/grow", "notebooks/grow.ipynb")
    assert module.front_matter == {"title": "Grow", "summary": "A tree, cell by cell."}
    assert list(found.files) == ["notebooks/grow.ipynb"]
    assert json.loads(found.files["notebooks/grow.ipynb"])["nbformat"] == 4
    assert text_of(found).startswith(
        "[The page](../pkg/root.html) · [Open in Colab](https://colab."
    )
    assert "· [Download](grow.ipynb)\n" in text_of(found)


def test_what_was_printed(root: Path):
    text = text_of(
        shown(
            root, {"name": "stdout", "output_type": "stream", "text": ["1 < 2\n", "\n", "& on\n"]}
        )
    )
    assert '<pre class="fence out">1 &lt; 2\n\n&amp; on</pre>' in text


def test_drawings_are_part_of_the_page_if_they_are_small(root: Path):
    small = "<svg>\n\n <title>a</title>\n</svg>"
    found = shown(root, drawn(svg=small, html="<b>no</b>"))
    assert '<figure class="out"><svg> <title>a</title> </svg></figure>' in text_of(found)
    large = f"<svg>{'<rect/>' * LARGEST_DRAWING}</svg>"
    found = shown(root, drawn(svg=large))
    expected = '<figure class="out"><img src="grow-1.svg" alt="Nothing." loading="lazy"></figure>'
    assert expected in text_of(found)
    assert found.files["notebooks/grow-1.svg"] == large.encode()


@pytest.mark.parametrize("text", ["{", '{"cells": []}', '{"cells": [{"source": "x"}]}'])
def test_what_is_no_notebook_is_reported(root: Path, text: str):
    shown(root)
    (root / "notebooks/odd.ipynb").write_text(text)
    report = Report()
    found = read_notebooks(surroundings(root)[0], report)
    assert len(found.modules) == 1
    (fault,) = report
    assert (fault.path, fault.code) == ("notebooks/odd.ipynb", "notebook")
    assert "make notebooks" in fault.hint


def test_a_site_shows_them_and_pages_lead_to_them(tmp_path: Path):
    """From the page of a model to the page of its notebook, and from there to the file."""
    text = as_text(document(tools.cells(tools.tree(tmp_path / "tree")), "one"))
    for old, new in ((BASE, SMALL), ("pkg/leaf.html", "pkg/one.html"), ("pkg/root", "pkg/two")):
        text = text.replace(old, new)
    module = FILES["pkg/one.py"].replace("paper:", "notebook: notebooks/one.ipynb\npaper:")
    root = make_site(tmp_path / "site", {"notebooks/one.ipynb": text, "pkg/one.py": module})
    succeed(root)
    site = root / "site"
    page = (site / "pkg/one.html").read_text()
    assert '<li><a href="../notebooks/one.html">Notebook</a></li>' in page
    colab = "https://colab.research.google.com/github/someone/small/blob/main/notebooks/one.ipynb"
    assert f'<li><a href="{colab}">Open in Colab</a></li>' in page
    notebook = (site / "notebooks/one.html").read_text()
    assert '<a href="one.ipynb">Download</a>' in notebook
    assert (site / "notebooks/one.ipynb").read_text() == text
