"""Figures of `labml_nn.optimizers.muon`."""

from importlib.metadata import metadata

import torch

from labml_nn.optimizers.muon import COEFFICIENTS, orthogonalise
from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from pylit.figures.draw import Figure, Plot, Table

#: Some text to learn from: what PyTorch says of itself.
TEXT = metadata("torch").get_payload()[3700:6100]


def before_and_after():
    """The singular values of the gradient of a small model, and of what becomes of it."""
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    config = AutoregressiveConfig(n_vocab=len(letters), d_model=64, n_layers=2, dropout_prob=0.0)
    model = AutoregressiveTransformer(config)
    tokens = torch.tensor([letters.index(letter) for letter in TEXT]).view(8, -1).T
    model.loss(tokens[:-1], tokens[1:]).backward()
    gradient = model.stack.layers[0].feed_forward.layer1.weight.grad
    values = {
        "gradient": torch.linalg.svdvals(gradient),
        "step": torch.linalg.svdvals(orthogonalise(gradient)),
    }
    shown = {name: (value / value.max()).tolist() for name, value in values.items()}
    count = len(shown["gradient"])
    plot = Plot(
        (1, count),
        (1e-4, 1),
        x_label="singular value, the largest first",
        y_label="beside the largest",
        log=True,
        height=110,
    )
    for tone, (name, value) in enumerate(shown.items()):
        plot.line(range(1, count + 1), value, tone, label=name, dashed=bool(tone))
    half = {name: value[count // 2 - 1] for name, value in shown.items()}
    return Figure(
        [plot.panel()],
        f"Singular values of the gradient of a {gradient.shape[0]} by {gradient.shape[1]} matrix "
        f"fall steeply: the one in the middle is {half['gradient']:.4f} of the largest. In the "
        f"step it is {half['step']:.2f} of it.",
        Table(
            ["number", *shown],
            [
                [str(i), *(f"{value[i - 1]:.4f}" for value in shown.values())]
                for i in (1, 2, 4, 8, 16, 32, count)
            ],
        ),
    )


def polynomials():
    """Five rounds of two polynomials, for singular values on a logarithmic axis."""
    sizes = [10 ** (exponent / 20) for exponent in range(-80, 1)]
    names = {"Muon": COEFFICIENTS, "textbook": (1.5, -0.5, 0.0)}
    made = {name: [_five(size, by) for size in sizes] for name, by in names.items()}
    plot = Plot(
        (-4, 0),
        (0, 1.25),
        x_label="singular value, 10 to the power of",
        y_label="after five rounds",
        height=110,
    )
    powers = [exponent / 20 for exponent in range(-80, 1)]
    for tone, (name, values) in enumerate(made.items()):
        plot.line(powers, values, tone, label=name, dashed=bool(tone))
    rows = [
        [f"{size:g}", *(f"{_five(size, by):.3f}" for by in names.values())]
        for size in (0.0001, 0.001, 0.002, 0.01, 0.1, 0.5, 1.0)
    ]
    return Figure(
        [plot.panel()],
        f"Of 0.01 Muon's polynomial makes {_five(0.01, COEFFICIENTS):.2f} and the textbook's "
        f"{_five(0.01, names['textbook']):.2f}. Muon's goes up and down around 1, the textbook's "
        "reaches it from below.",
        Table(["singular value", *names], rows),
    )


def _five(size, coefficients):
    a, b, c = coefficients
    for _ in range(5):
        size = a * size + b * size**3 + c * size**5
    return size
