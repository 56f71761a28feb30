"""Every notebook runs from its first cell to its last, and trains the model that stands in it.

The settings are smaller than `tiny`: a few updates on a few thousand characters.
"""

import copy
import math
import re
from pathlib import Path

import pytest

from pylit.notebooks.command import surroundings
from pylit.notebooks.document import Maker, document
from pylit.notebooks.execution import executed
from pylit.notebooks.model import PARAMETERS
from pylit.notebooks.reading import source_of
from pylit.notebooks.recipe import read_recipes

ROOT = Path(__file__).parents[2]
AROUND, SOURCES = surroundings(ROOT)
RECIPES = {recipe.name: recipe for recipe in read_recipes(AROUND)}
NAMES = ("autoregressive", "elman", "encoder_decoder", "feedback", "mha", "positional_encoding")

SMALL = """
model_fields = {}
training_fields = {
    "steps": 3,
    "batch_size": 4,
    "seq_len": 24,
    "warmup_steps": 1,
    "sample_tokens": 5,
    "evaluate_every": 0,
    "sample_every": 0,
}
"""
GROWING = 'training_fields |= {"initial_seq_len": 8, "grow_steps": 2}\n'

#: Looks at the models that were trained: each part that has a class in the notebook is of it.
LOOK = """
trained = list(models.values()) if "models" in globals() else [model]
written = {name: kind for name, kind in globals().items() if isinstance(kind, type)
           and kind.__module__ == "__main__"}
used = set()
for one in trained:
    for part in one.modules():
        name = type(part).__name__
        if name in written:
            assert type(part) is written[name], f"{name} is not the notebook's"
            used.add(name)
        else:
            assert name not in PARTS, f"{name} should be the notebook's"
print("USED", *sorted(used))
"""

#: The parts of each model that a reader can change.
PARTS = {
    "autoregressive": "AutoregressiveTransformer Encoder Generator"
    " TokenAndPositionEmbedding TransformerLayer",
    "elman": "Elman ElmanCell ElmanLanguageModel ElmanLayer",
    "encoder_decoder": "Decoder Encoder EncoderDecoder EncoderDecoderLanguageModel"
    " Generator TokenEmbedding TransformerLayer",
    "feedback": "FeedbackAttention FeedbackLanguageModel FeedbackTransformerKV"
    " FeedbackTransformerLayer",
    "mha": "AutoregressiveTransformer PrepareForMultiHeadAttention"
    " RotaryMultiHeadAttention TokenAndPositionEmbedding",
    "positional_encoding": "AutoregressiveTransformer TokenAndPositionEmbedding",
}

SPEECHES = (
    "ROMEO:\nIs the day so young?\n\nBENVOLIO:\nBut new struck nine; good-morrow.\n\n"
    "KING RICHARD III:\nA horse! a horse! To be, or not: what light, A. M. T. I. J.\n\n"
    "JULIET:\nBut, soft! what light through yonder window; Ay me!\n\n"
)


@pytest.fixture(scope="session")
def maker() -> Maker:
    return Maker(AROUND, SOURCES)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "plays.txt"
    path.write_text(SPEECHES * 20, encoding="utf-8")
    return path


def small(name: str, maker: Maker) -> dict:
    """The notebook with few updates, and a look at what was trained, at its end."""
    made = copy.deepcopy(document(maker.cells(RECIPES[name]), name))
    settings = [cell for cell in made["cells"] if PARAMETERS in cell["metadata"].get("tags", ())]
    assert len(settings) == 1
    settings[0]["source"] = [SMALL, GROWING if name == "feedback" else ""]
    last = copy.deepcopy(settings[0])
    last["source"] = [f"PARTS = {PARTS[name].split()}\n", LOOK]
    made["cells"].append({**last, "id": "look", "metadata": {}})
    return made


def outputs(made: dict) -> list[dict]:
    return [output for cell in made["cells"] for output in cell.get("outputs", ())]


def run(made: dict, text: Path) -> tuple[dict, str]:
    ran = executed(made, {"LABML_NN_DATA": str(text), "LABML_NN_PRESET": "tiny"}, strict=True)
    streams = [one for one in outputs(ran) if one["output_type"] == "stream"]
    assert {one["name"] for one in streams} <= {"stdout"}, "something was said on stderr"
    return ran, "".join("".join(one["text"]) for one in streams)


def test_there_are_six():
    assert tuple(RECIPES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_trains_its_own_model(name: str, maker: Maker, text: Path):
    ran, said = run(small(name, maker), text)
    (used,) = re.findall(r"^USED (.*)$", said, re.MULTILINE)
    assert used.split() == PARTS[name].split()
    losses = [float(loss) for loss in re.findall(r"validation loss (\d+\.\d+)", said)]
    assert losses and all(0 < loss < 8 for loss in losses)
    kinds = [kind for one in outputs(ran) for kind in one.get("data", {})]
    drawn = sum(kind in ("image/svg+xml", "image/png") for kind in kinds)
    assert drawn >= 2, kinds  # the curve, and what it looks at or has in mind


def test_an_edit_in_a_cell_changes_what_is_trained(maker: Maker, text: Path):
    """A model with constant logits keeps the loss of the uniform distribution to the end."""
    made = small("elman", maker)
    (cell,) = [
        cell
        for cell in made["cells"]
        if cell["cell_type"] == "code" and "class ElmanLanguageModel" in source_of(cell)
    ]
    signs = len(set(SPEECHES))
    code = source_of(cell)
    edited = code.replace("logits = F.linear(", "logits = 0 * F.linear(")
    assert edited != code
    cell["source"] = [edited]
    _, said = run(made, text)
    assert f"validation loss {math.log(signs):.3f}" in said
