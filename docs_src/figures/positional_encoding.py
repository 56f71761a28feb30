"""Figures of `labml_nn.transformers.positional_encoding`."""

import torch

from labml_nn.transformers.positional_encoding import get_positional_encoding
from pylit.figures.draw import Figure, Plot, Table, heat_map


def waves():
    """A few features along the positions."""
    table = get_positional_encoding(64, 49)[:, 0]
    positions = range(49)
    panels = []
    for features, title in (((0, 1), "hand 0, fast"), ((16, 17), "hand 8"), ((32, 33), "hand 16, slow")):
        plot = Plot((0, 48), (-1, 1), title=title, x_label="position", height=80, y_ticks=(-1, 0, 1))
        for tone, (feature, word) in enumerate(zip(features, ("sin", "cos"), strict=True)):
            values = table[:, feature].tolist()
            plot.line(positions, values, tone, dashed=bool(tone), label=f"{feature}: {word}")
        panels.append(plot.panel())
    rows = [
        [str(p), *(f"{table[p, f].item():.3f}" for f in (0, 1, 16, 17, 32, 33))]
        for p in (0, 1, 2, 3, 12, 24, 48)
    ]
    return Figure(
        panels,
        "Features 0 and 1 go up and down every 6.3 positions, features 16 and 17 every "
        "63, and features 32 and 33 are at "
        f"{table[48, 32].item():.2f} and {table[48, 33].item():.2f} after 48.",
        Table(("position", *(f"feature {f}" for f in (0, 1, 16, 17, 32, 33))), rows),
    )


def heat():
    """The whole table."""
    table = get_positional_encoding(32, 48)[:, 0]
    panel = heat_map(
        table.T.tolist(),
        down="feature",
        across="position",
        rows=[str(i) if i % 8 == 0 else "" for i in range(32)],
        columns=[str(i) if i % 12 == 0 else "" for i in range(48)],
    )
    still = int((table.std(0) < 0.1).sum())
    return Figure(
        [panel],
        "A table of 32 features by 48 positions. Stripes change sign every three "
        f"positions in the first features and ever more slowly below; {still} features "
        "hardly change at all.",
    )


def products():
    """How similar two positions are, by their distance."""
    table = get_positional_encoding(128, 201, dtype=torch.float64)[:, 0]
    first = (table @ table[100]).tolist()
    far = range(-100, 101)
    plot = Plot((-100, 100), (0, 64), x_label="distance", y_label="dot product", height=110)
    plot.line(far, first)
    shown = (0, 1, 2, 5, 10, 20, 50, 100)
    rows = [[str(k), f"{first[100 + k]:.2f}", f"{first[100 - k]:.2f}"] for k in shown]
    return Figure(
        [plot.panel()],
        f"The product is {first[100]:.0f} at distance 0, {first[105]:.1f} at 5 and "
        f"{first[200]:.1f} at 100, the same to both sides.",
        Table(("distance", "after", "before"), rows),
    )
