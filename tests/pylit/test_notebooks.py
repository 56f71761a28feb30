"""Notebooks as pages of the site: their text, code and outputs, with the files beside them."""

import base64
import json

from site_tools import FILES, make_site, read, succeed

from pylit.cli import main
from pylit.diagnostics import Report
from pylit.site.notebooks import read_notebooks

BASE = "https://example.org/small/"
#: The beginning of a picture of 3 by 2 pixels.
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02"
DRAWN = {"data": {"image/png": base64.b64encode(PNG).decode()}}
COLAB = "https://colab.research.google.com/github/someone/small/blob/main/notebooks/grow.ipynb"
LINKS = f"[The page]({BASE}pkg/one.html) · [Open in Colab]({COLAB})"


def note(text, **about):
    return {"cell_type": "markdown", "source": text.splitlines(True), "metadata": about}


def code(text, *outputs, **about):
    return note(text, **about) | {"cell_type": "code", "outputs": list(outputs)}


CELLS = [
    note(f"# Grow\n\nA tree, cell by cell.\n\n{LINKS}"),
    note("Begin here."),
    note("## A leaf\n\nIts first paragraph.\n\nMore of it.", maker={"chapter": "pkg.one"}),
    code("x = 3", {"text": ["1 < 2\n\n", "& on\n"]}, DRAWN, maker={"alt": "Nothing."}),
]


LONG = note("# 长")


def written(cells):
    return json.dumps({"cells": cells})


def test_a_notebook_is_a_page_with_its_file_and_its_pictures_beside_it(tmp_path):
    (tmp_path / "grow.ipynb").write_text(written(CELLS))
    (module,), files = read_notebooks(tmp_path, BASE, report := Report())
    assert not report
    assert (module.source.name, module.source.display) == ("notebooks/grow", "notebooks/grow.ipynb")
    assert module.front_matter == {"title": "Grow", "summary": "A tree, cell by cell."}
    image = '<img src="grow-1.png" alt="Nothing." width="3" height="2" loading="lazy">'
    assert module.source.text.split("\n\n") == [
        f"[The page](../pkg/one.html) · [Open in Colab]({COLAB}) · [Download](grow.ipynb)",
        "Begin here.",
        "## A leaf",
        "Its first paragraph.",
        "```python\nx = 3\n```",
        '<pre class="fence out">1 &lt; 2',
        "&amp; on</pre>",
        f'<figure class="out">{image}</figure>\n',
    ]
    pictures = {"notebooks/grow-1.png": PNG}
    assert files == {"notebooks/grow.ipynb": written(CELLS).encode()} | pictures


def test_a_site_shows_the_notebook_of_each_language_and_pages_lead_to_it(tmp_path):
    """From the page of a model to the page of its notebook, and from there to the file."""
    module = FILES["pkg/one.py"].replace("paper:", "notebook: notebooks/grow.ipynb\npaper:")
    files = {"notebooks/grow.ipynb": written(CELLS), "notebooks/zh/grow.ipynb": written([LONG])}
    make_site(tmp_path, files | {"pkg/one.py": module})
    assert main(["translate", "zh", "notebooks/grow"], tmp_path) == 0
    with (tmp_path / "docs_src/locale/zh/words.toml").open("a", encoding="utf-8") as words:
        words.write('"Nothing." = "空无一物。"\n')
    succeed(tmp_path)
    lesson = read(tmp_path, "pkg/one.html")
    assert '<li><a href="../notebooks/grow.html">Notebook</a></li>' in lesson
    assert f'<li><a href="{COLAB}">Open in Colab</a></li>' in lesson
    for place, cells, about in (("", CELLS, "Nothing."), ("zh/", [LONG], "空无一物。")):
        html = read(tmp_path, f"{place}notebooks/grow.html")
        assert 'href="grow.ipynb"' in html and f'alt="{about}"' in html
        assert json.loads(read(tmp_path, f"{place}notebooks/grow.ipynb"))["cells"] == cells


def test_it_may_begin_in_any_way(tmp_path):
    """Nothing of a notebook that nobody made for us is lost."""
    for name, cell in {
        "by_hand": code("import math"),
        "short": note("# Only a title"),
        "wide": note("# Many words\nIn two\nlines.\n\nMore.\n\n* a\n"),
    }.items():
        (tmp_path / f"{name}.ipynb").write_text(written([cell]))
    modules, _ = read_notebooks(tmp_path, "", report := Report())
    assert not report
    assert [(*m.front_matter.values(), m.source.text.partition("\n\n")[2]) for m in modules] == [
        ("by hand", "", "```python\nimport math\n```\n"),
        ("Only a title", "", ""),
        ("Many words", "In two lines.", "More.\n\n* a\n"),
    ]


def test_what_is_no_notebook_is_reported(tmp_path):
    for number, text in enumerate(("{", '{"cells": []}', '{"cells": [{"source": "x"}]}', "[]")):
        (tmp_path / f"odd{number}.ipynb").write_text(text)
    modules, files = read_notebooks(tmp_path, BASE, report := Report())
    odd = [(f"notebooks/odd{number}.ipynb", "notebook") for number in range(4)]
    assert [(fault.path, fault.code) for fault in report] == odd
    assert not modules and not files


def test_what_is_pasted_what_failed_drawings_and_raw_cells_are_shown(tmp_path):
    failed = {"output_type": "error", "ename": "F", "evalue": "never", "traceback": []}
    pasted = base64.b64encode(PNG).decode()
    svg = "<svg xmlns='http://www.w3.org/2000/svg'></svg>"
    cells = [
        note("# Grow"),
        note("---\nkernel: mine\n---\n") | {"cell_type": "raw"},
        note("See ![a curve](attachment:my%20c.png).")
        | {"attachments": {"my c.png": {"image/png": pasted}}},
        code("1 / 0", failed | {"traceback": ["\x1b[31mE\x1b[0m: <no>"]}),
        code("2 / 0", failed),
        code("draw()", {"data": {"image/svg+xml": [svg], "text/plain": "<Figure>"}}),
        code("photo()", {"data": {"image/jpeg": pasted}}),
        note("Lost: ![gone](attachment:gone.png)."),
    ]
    (tmp_path / "grow.ipynb").write_text(written(cells))
    (module,), files = read_notebooks(tmp_path, "", report := Report())
    text = module.source.text
    assert not report
    assert "```text\n---\nkernel: mine\n---\n```" in text
    assert "See ![a curve](grow-1.png)." in text and files["notebooks/grow-1.png"] == PNG
    assert '<pre class="fence out">E: &lt;no&gt;</pre>' in text
    assert '<pre class="fence out">F: never</pre>' in text
    assert '<img src="grow-2.svg"' in text and files["notebooks/grow-2.svg"] == svg.encode()
    assert '<img src="grow-3.jpg"' in text and "<Figure>" not in text
    # What is not there is a broken link, which the audit tells.
    assert "![gone](gone.png)" in text
