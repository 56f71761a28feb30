"""Pictures of the trained models, each above the button that runs its model in the page."""

import json
from pathlib import Path

import torch

import labml_nn
from labml_nn.attention_maps import attention_maps
from pylit.figures.draw import Figure, heat_map

RESULTS = Path(__file__).parents[1] / "results"


def attention():
    """The head that attends to the line break after a name."""
    model, vocabulary = _model("autoregressive")
    said = "ROMEO:\nWhat"
    tokens = torch.tensor([vocabulary.index(letter) for letter in said])[:, None]
    weights = attention_maps(model, tokens, vocabulary=vocabulary)[1].weights[:, :, 0, 0]
    letters = [letter.replace("\n", "↵") for letter in said]
    panel = heat_map(
        weights.tolist(),
        title="layer 2, head 1",
        down="query",
        across="key",
        rows=letters,
        columns=letters,
        cell=14.0,
        most=1.0,
    )
    return Figure(
        [panel],
        f"A map of {len(said)} queries by as many keys: after the line break, queries give it "
        f"{weights[7:, 6].mean():.2f} of their weight on average.",
        live="attention",
    )


def _model(name):
    folder = RESULTS / name
    known = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    return labml_nn.load(folder / "model"), known["characters"]
