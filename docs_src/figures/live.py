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


@torch.no_grad()
def units():
    """Hidden units that are easy to read, along two speeches."""
    model, vocabulary = _model("elman")
    said = "EMILIA:\nMy lord!\n\nROMEO:\nSpeak"
    state, rows = None, []
    for token in torch.tensor([vocabulary.index(letter) for letter in said]):
        _, state = model(token[None, None], state)
        rows.append([state[1, 0, 29].item(), state[0, 0, 59].item()])
    panel = heat_map(
        [list(row) for row in zip(*rows, strict=True)],
        title="two hidden units",
        rows=["layer 2, unit 30", "layer 1, unit 60"],
        columns=[letter.replace("\n", "↵").replace(" ", "␣") for letter in said],
        most=1.0,
    )
    return Figure(
        [panel],
        "Two hidden units along two speeches: the first is negative in the names of the speakers "
        "and positive elsewhere, the second is positive at vowels.",
        live="units",
    )


@torch.no_grad()
def memory():
    """The head of the feedback transformer that keeps the line break in view."""
    model, vocabulary = _model("feedback")
    said = "ROMEO:\nWhat"
    state, rows = None, []
    with labml_nn.kernels.disabled():
        for token in torch.tensor([vocabulary.index(letter) for letter in said]):
            _, state = model(token[None, None], state)
            attn = model.transformer.layers[1].attn.attn
            found = [] if attn is None else attn[:, 0, 3].tolist()
            rows.append(found + [0.0] * (len(said) - len(found)))
    letters = [letter.replace("\n", "↵") for letter in said]
    panel = heat_map(
        rows,
        title="layer 2, head 4",
        down="step",
        across="memory slot",
        rows=letters,
        columns=letters,
        cell=14.0,
        most=1.0,
    )
    return Figure(
        [panel],
        f"A map of {len(said)} steps by as many memory slots, of which each step sees those before "
        f"it. The last step gives {rows[-1][6]:.2f} of its weight to the line break.",
        live="memory",
    )


def _model(name):
    folder = RESULTS / name
    known = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    return labml_nn.load(folder / "model"), known["characters"]
