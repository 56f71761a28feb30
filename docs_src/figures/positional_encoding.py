"""Figures of `labml_nn.transformers.positional_encoding`."""

import torch

from labml_nn.transformers.positional_encoding import get_positional_encoding
from pylit.figures.draw import Figure, Plot, Table, heat_map


def waves():
    """A few features along the positions."""
    table = get_positional_encoding(64, 49)[:, 0]
    hands = (0, 8, 16)
    panels = []
    for hand in hands:
        plot = Plot((0, 48), (-1, 1), title=f"hand {hand}", x_label="position", height=80)
        plot.line(range(49), table[:, 2 * hand].tolist(), 0, label="sine")
        plot.line(range(49), table[:, 2 * hand + 1].tolist(), 1, label="cosine", dashed=True)
        panels.append(plot.panel())
    features = [f for hand in hands for f in (2 * hand, 2 * hand + 1)]
    rows = [
        [str(p), *(f"{table[p, f].item():.3f}" for f in features)]
        for p in (0, 1, 2, 3, 6, 12, 24, 48)
    ]
    # Half a turn is over when the sine is no longer positive.
    half = [int((table[1:, 2 * hand] <= 0).int().argmax()) + 1 for hand in (0, 8)]
    return Figure(
        panels,
        f"The sine of hand 0 is below 0 from position {half[0]} on and comes back, that of "
        f"hand 8 first at position {half[1]}; hand 16 has reached {table[48, 32].item():.2f} "
        "at position 48, still on its way up. Each cosine is a quarter of a turn ahead.",
        Table(["position", *(f"feature {f}" for f in features)], rows),
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
        tones=(0, 1),
    )
    still = int(((table.amax(0) - table.amin(0)) < 0.1).sum())
    return Figure(
        [panel],
        "A table of 32 features by 48 positions. In the first features the sign changes "
        f"every three positions, and ever more slowly further down; {still} features change "
        "by less than 0.1.",
    )


def products():
    """How similar two positions are, by their distance."""
    table = get_positional_encoding(128, 201, dtype=torch.float64)[:, 0]
    found = (table @ table[100]).tolist()
    plot = Plot((-100, 100), (0, 64), x_label="distance", y_label="dot product", height=100)
    plot.line(range(-100, 101), found)
    rows = [
        [str(k), f"{found[100 - k]:.2f}", f"{found[100 + k]:.2f}"]
        for k in (0, 1, 2, 5, 10, 20, 50, 100)
    ]
    return Figure(
        [plot.panel()],
        f"A peak of {found[100]:.0f} at distance 0; {found[105]:.1f} is left at a distance of 5 "
        f"and {found[200]:.1f} at 100, on both sides alike, with ripples on the way.",
        Table(["distance", "before", "after"], rows),
    )
