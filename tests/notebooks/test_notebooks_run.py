"""Every notebook runs from its first cell to its last, and trains the model that stands in it.

The settings are smaller than `tiny`: a few updates on a few thousand characters.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sweeps import swept

from docs_src.lessons import LESSONS
from docs_src.notebooks.document import NotebookBuilder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MAKER = NotebookBuilder(ROOT)
NAMES = MAKER.names
#: One of each kind of network; of the others a stored run is held to be one of their code.
RUN = "mha", "autoregressive", "encoder_decoder", "feedback", "elman", "gru", "mamba2", "delta_net"

SMALL = """
d_model, heads, n_layers, dropout, d_hidden = 24, 2, 2, 0.1, 20
seq_len, longest, batch_size = 14, 90, 3
steps, learning_rate = 3, 1e-3
"""
#: A notebook needs none of these: it has to run where they are not installed.
ALONE = """
import importlib.abc, sys, warnings

warnings.simplefilter("error")

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"labml_nn", "pylit", "jaxtyping", "beartype", "labml"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""

#: Looks at the models that were trained: each submodule that has a class in the notebook is of it,
#: and tells which classes are of no use to them.
LOOK = """
trained = list(models.values()) if "models" in globals() else [model]
written = {kind for kind in globals().values() if isinstance(kind, type)
           and kind.__module__ == "__main__" and issubclass(kind, nn.Module)}
used = {type(part) for one in trained for part in one.modules()}
print("USED", *(kind.__name__ for kind in used & written))
print("UNUSED", *(kind.__name__ for kind in written if not any(issubclass(u, kind) for u in used)))
assert all(kind.__module__.startswith("torch.") for kind in used - written)
"""


SPEECHES = (
    "ROMEO:\nIs the day so young?\n\nBENVOLIO:\nBut new struck nine; good-morrow.\n\n"
    "KING RICHARD III:\nA horse! a horse! To be, or not: what light, A. M. T. I. J.\n\n"
    "JULIET:\nBut, soft! what light through yonder window; Ay me!\n\n"
)


#: Runs code: what it printed, how many pictures it showed, and the traceback of a failure.
Run = Callable[[str], dict[str, Any]]


def small(name: str) -> str:
    """The code of the notebook with few updates, and a look at what was trained, at its end."""
    cells = [*MAKER.cells(name)]
    (settings,) = [one for one in cells if "parameters" in one.metadata.get("tags", ())]
    settings.source = SMALL
    code = [ALONE, *(one.source for one in cells if one.cell_type == "code"), LOOK]
    return "\n\n".join(code)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """In a fork of a process that all notebooks share; Jupyter is run by `test_notebooks_made`."""
    path = tmp_path_factory.mktemp("text") / "plays.txt"
    path.write_text(SPEECHES * 20, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, HERE / "run_cells.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"LABML_NN_DATA": str(path)},
        cwd=path.parent,
        text=True,
    ) as process:
        assert process.stdin and process.stdout

        def run(code: str) -> dict[str, Any]:
            print(json.dumps(code), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


def test_there_is_one_for_each_lesson():
    assert set(LESSONS) <= set(NAMES)


@pytest.mark.parametrize("name", swept(NAMES, *RUN))
def test_it_runs_by_itself_and_trains_the_model_that_stands_in_it(name: str, run: Run):
    ran = run(small(name))
    assert not ran["error"], ran["error"]
    assert not ran["stderr"]
    said = ran["stdout"]
    (used,), (unused,) = (re.findall(f"(?m)^{word}(.*)$", said) for word in ("USED", "UNUSED"))
    assert len(used.split()) >= 3
    # What a reader changes below changes the model; above the chapters stands a shorter one.
    recipe = (ROOT / f"docs_src/notebooks/{name}.md").read_text(encoding="utf-8")
    above, _, _ = recipe.partition("<!-- chapters -->")
    assert set(unused.split()) <= set(re.findall(r"(?m)^class (\w+)", above))
    losses = [float(loss) for loss in re.findall(r"validation loss (\d+\.\d+)", said)]
    assert losses and all(0 < loss < 8 for loss in losses)
    assert ran["pictures"] >= 2  # the curve, and what it attends to or has in mind
    if name == "feedback":
        assert "gradcheck: True" in said
        (worst,) = re.findall(r"relative difference (\S+)", said)
        assert float(worst) < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_it_is_python_for_any_version_that_colab_may_have(name: str):
    for one in MAKER.cells(name):
        if one.cell_type == "code":
            ast.parse(one.source, feature_version=(3, 11))
            assert "jaxtyping" not in one.source and "labml_nn." not in one.source
