"""Figures of `labml_nn.transformers.positional_encoding`."""

import math

import torch

from labml_nn.transformers.positional_encoding import get_positional_encoding
from pylit.figures.draw import (
    WIDTH,
    Figure,
    Knob,
    Panel,
    Plot,
    Stage,
    Table,
    arrow,
    box,
    element,
    heat_map,
    short,
    text,
)

#: Where tokens are embedded.
EMBEDDING = "models.html#EmbeddingsWithPositionalEncoding"


def waves():
    """A few features along the positions."""
    table = get_positional_encoding(64, 49)[:, 0]
    hands = (0, 8)
    panels = []
    for hand in hands:
        plot = Plot((0, 48), (-1, 1), title=f"hand {hand}", x_label="position", height=80)
        plot.line(range(49), table[:, 2 * hand].tolist(), 0, label="sine")
        plot.line(range(49), table[:, 2 * hand + 1].tolist(), 1, label="cosine", dashed=True)
        panels.append(plot.panel())
    # Half a turn is over when the sine is no longer positive.
    half = [int((table[1:, 2 * hand] <= 0).int().argmax()) + 1 for hand in hands]
    return Figure(
        panels,
        f"The sine of hand 0 is below 0 from position {half[0]} on and comes back, that of "
        f"hand 8 first at position {half[1]}. Each cosine is a quarter of a turn ahead.",
    )


def heat():
    """The whole table."""
    table = get_positional_encoding(8, 32)[:, 0]
    panel = heat_map(
        table.T.tolist(),
        down="feature",
        across="position",
        rows=[str(i) if i % 4 == 0 else "" for i in range(8)],
        columns=[str(i) if i % 10 == 0 else "" for i in range(32)],
    )
    still = int(((table.amax(0) - table.amin(0)) < 0.1).sum())
    return Figure(
        [panel],
        "A table of 8 features by 32 positions. In the first features the sign changes "
        f"every three positions, and ever more slowly further down; {still} features change "
        "by less than 0.1.",
    )


def products():
    """How similar two positions are, by their distance."""
    table = get_positional_encoding(128, 121, dtype=torch.float64)[:, 0]
    found = (table @ table[60]).tolist()
    plot = Plot((-60, 60), (0, 64), x_label="distance", y_label="dot product", height=100)
    plot.line(range(-60, 61), found)
    rows = [[str(k), f"{found[60 - k]:.2f}", f"{found[60 + k]:.2f}"] for k in (0, 1, 2, 5, 20, 60)]
    return Figure(
        [plot.panel()],
        f"A peak of {found[60]:.0f} at distance 0; {found[65]:.1f} is left at a distance of 5 "
        f"and {found[120]:.1f} at 60, on both sides alike, with ripples on the way.",
        Table(["distance", "before", "after"], rows),
    )


def clocks():
    """One hand along all positions, and all hands at one of them; both can be chosen."""
    hands, length, hand, position = 12, 49, 3, 10
    table = get_positional_encoding(2 * hands, length, dtype=torch.float64)[:, 0]
    # How far each hand turns from one position to the next.
    turns = [math.atan2(table[1, 2 * i], table[1, 2 * i + 1]) for i in range(hands)]
    plot = Plot((0, length - 1), (-1, 1), title="one hand", x_label="position", height=80)
    for tone, (name, feature) in enumerate((("sine", 2 * hand), ("cosine", 2 * hand + 1))):
        values = table[:, feature].tolist()
        plot.line(range(length), values, tone, label=name, dashed=bool(tone), hook=name)
        x, y = plot.at(position, values[position])
        plot.add(element("circle", f"f t{tone}", cx=x, cy=y, r=4, data_p=f"{name}-dot"))
    sine, cosine = (table[position, 2 * hand + i].item() for i in (0, 1))
    once = f"{2 * math.pi / turns[hand]:.1f}".removesuffix(".0")
    (left, middle), (right, _), (_, top) = plot.at(0, 0), plot.at(length - 1, 0), plot.at(0, 1)
    return Figure(
        [plot.panel(), _dials(table[position].tolist(), hand)],
        f"The waves of hand {hand} along {length} positions, and {hands} dials at position "
        f"{position}: hand 0 has gone round more than once, hand {hand} shows {sine:.2f} and "
        f"{cosine:.2f}, and from the middle on hands stand nearly upright.",
        stage=Stage(
            "clocks",
            [
                Knob("hand", "Hand", 0, hands - 1, 1, hand),
                Knob("position", "Position", 0, length - 1, 1, position),
            ],
            {
                "turns": [round(turn, 7) for turn in turns],
                "length": length,
                "left": round(left, 2),
                "step": round((right - left) / (length - 1), 4),
                "middle": round(middle, 2),
                "high": round(middle - top, 2),
            },
            f"Hand {hand} goes round once in {once} positions. At position {position} it shows "
            f"{sine:.2f} and {cosine:.2f}.",
        ),
    )


def _dials(row, chosen):
    """All hands at one position, each on a dial of its own."""
    parts = [text(0, 11, "all hands", classes="h")]
    for i in range(len(row) // 2):
        x, y = 18 + 36 * (i % 8), 38 + 52 * (i // 8)
        angle = math.degrees(math.atan2(row[2 * i], row[2 * i + 1])) % 360
        tone = 1 if i == chosen else 4
        turned = {"d": "M0 0V-12", "data_p": "hand", "transform": f"rotate({short(angle)})"}
        dial = element("circle", "l thin", r=14) + element("path", "l thick", **turned)
        parts.append(element("g", f"t{tone}", dial, transform=f"translate({x} {y})"))
        parts.append(text(x, y + 28, str(i), "middle"))
    return Panel(WIDTH, 124, tuple(parts))


def diagram():
    """Where the encodings enter, as the bottom of Figure 1 of the paper, and their matrix."""
    table = get_positional_encoding(32, 24)[:, 0]
    matrix = heat_map(
        table.tolist(),
        title="row p is added at position p",
        down="position",
        across="feature",
        rows=[str(p) if p % 4 == 0 else "" for p in range(24)],
        columns=[str(i) if i % 8 == 0 else "" for i in range(32)],
        cell=8.0,
    )
    return Figure(
        [_bottom(), matrix],
        "Left, from bottom to top, the same for encoder and decoder: tokens are embedded and "
        "scaled by the square root of C, the positional encodings are added, dropout follows, "
        "and the sum enters the layers. Right: a matrix of 24 positions by 32 features. Its "
        "first features change sign from row to row, and the last ones hardly change.",
    )


def _bottom():
    """Embeddings and encodings, and their sum, in encoder and decoder."""
    middle, height, parts = WIDTH / 2, 26.0, []
    layers, dropout, plus, embedding, tokens = 24.0, 66.0, 120.0, 148.0, 192.0
    parts.append(text(0, 11, "sum at the bottom of both stacks", classes="h"))
    encoding = "#get_positional_encoding"
    parts.append(box(middle, plus - height / 2, 76, height, "sinusoids", 1, encoding))
    for x, stack, source in ((44.0, "encoder", "source"), (244.0, "decoder", "target")):
        parts.append(box(x, layers, 88, height, f"{stack}, × L", 0))
        parts.append(arrow(x, dropout, x, layers + height, "l t4"))
        parts.append(box(x, dropout, 88, height, "dropout", 4, "#PositionalEncoding.forward"))
        parts.append(arrow(x, plus - 6, x, dropout + height, "l t4"))
        parts.append(element("circle", "l t4", cx=x, cy=plus, r=6))
        parts.append(text(x, plus + 3.5, "+", "middle"))
        side = -1 if x < middle else 1
        parts.append(arrow(middle + side * 38, plus, x - side * 6, plus, "l t1"))
        parts.append(arrow(x, embedding, x, plus + 6, "l t4"))
        parts.append(box(x, embedding, 88, height, "embedding √C", 2, EMBEDDING))
        parts.append(arrow(x, tokens, x, embedding + height, "l t4"))
        parts.append(text(x, tokens + 12, f"{source} tokens", "middle"))
    return Panel(WIDTH, tokens + 18, tuple(parts))
