"""A notebook as a file: the same for the same source, with the outputs that still hold."""

import copy
import json
from pathlib import Path

import nbformat
import pytest

from pylit.notebooks.document import as_text, document, has_run
from pylit.notebooks.execution import tidied
from pylit.notebooks.model import Cell, NotebookError, read_document

RUN = {
    "date": "2026-11-21",
    "hardware": "two threads of a processor",
    "preset": "tiny",
    "python": "3.12.1",
    "seconds": 83.6,
    "torch": "2.13.0",
}
CELLS = [
    Cell("markdown", "# Title"),
    Cell("code", "x = 1", chapter="pkg.a"),
    Cell("markdown", "Text."),
    Cell("code", "print(x)", tags=("parameters",), alt="A number."),
    Cell("code", "print(x)"),
]


def ran(made):
    """A notebook as if it had run."""
    result = copy.deepcopy(made)
    result["metadata"]["labml_nn"]["run"] = RUN
    for count, cell in enumerate(c for c in result["cells"] if c["cell_type"] == "code"):
        cell["execution_count"] = count + 1
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": [f"{count}\n"]}]
    return result


def printed(made):
    return ["".join(output["text"]) for cell in made["cells"] for output in cell.get("outputs", [])]


def test_it_is_a_notebook_as_jupyter_knows_it():
    made = document(CELLS, "t")
    nbformat.validate(made)
    assert json.loads(as_text(made)) == made
    assert [cell["cell_type"] for cell in made["cells"]][:3] == ["markdown", "markdown", "code"]
    assert "Not run yet" in "".join(made["cells"][1]["source"])
    assert made["cells"][2]["metadata"] == {"labml_nn": {"chapter": "pkg.a"}}
    assert made["cells"][4]["metadata"] == {
        "labml_nn": {"alt": "A number."},
        "tags": ["parameters"],
    }


def test_the_same_source_makes_the_same_file_and_every_cell_has_a_name():
    assert as_text(document(CELLS, "t")) == as_text(document(CELLS, "t"))
    ids = [cell["id"] for cell in document(CELLS, "t")["cells"]]
    assert len(set(ids)) == len(ids)
    other = [
        cell["id"] for cell in document([CELLS[0], Cell("code", "y = 2"), *CELLS[1:]], "t")["cells"]
    ]
    assert set(ids) < set(other)  # a new cell changes the names of no others


def test_outputs_stay_as_long_as_the_code_does():
    old = ran(document(CELLS, "t"))
    reworded = [CELLS[0], CELLS[1], Cell("markdown", "Better text."), *CELLS[3:]]
    made = document(reworded, "t", old)
    assert printed(made) == ["0\n", "1\n", "2\n"]
    assert has_run(made)
    assert "on two threads of a processor, on 2026-11-21" in "".join(made["cells"][1]["source"])
    assert document(reworded, "t", made) == made

    changed = [CELLS[0], Cell("code", "x = 2"), *CELLS[2:]]
    made = document(changed, "t", old)
    assert printed(made) == []
    assert not has_run(made)


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', ""])
def test_a_damaged_file_is_told(tmp_path: Path, text: str):
    path = tmp_path / "t.ipynb"
    path.write_text(text)
    with pytest.raises(NotebookError, match=r"^t\.ipynb .*make notebooks"):
        read_document(path)
    assert read_document(tmp_path / "none.ipynb") is None


def stream(text, name="stdout"):
    return {"name": name, "output_type": "stream", "text": text}


def test_of_a_progress_bar_the_last_state_is_left():
    bar = [stream("  0%|\r 50%|##", "stderr"), stream("\r100%|####\x1b[0m\n", "stderr")]
    (one,) = tidied([*bar, stream("\n")])
    assert one == {"name": "stderr", "output_type": "stream", "text": ["100%|####\n"]}
