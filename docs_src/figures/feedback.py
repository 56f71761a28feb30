"""The Feedback Transformer as Figure 2 of its paper draws it, and the inside of a layer."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerLayer,
)
from pylit.figures.draw import WIDTH, Figure, Panel, arrow, box, element, line, text

STEPS, LAYERS = 3, 2
#: Distance of two steps, and of two rows of boxes.
ACROSS, UP, HEIGHT = 95.0, 60.0, 26.0
TOP = 42.0


def diagram():
    """Three steps with the memory that they write and read, and one layer at one step."""
    levels, slots = _run()
    return Figure(
        [_steps(levels), _layer()],
        f"Left: {STEPS} steps of a model of {LAYERS} layers, side by side. At each step the "
        f"{levels} outputs, from the embedding to the top layer, lead to one memory vector. "
        "From the memory vectors of all earlier steps a line leads to every layer of the next "
        f"step; at the last one it carries {slots} vectors. Right: the inside of a layer, from "
        "bottom to top: normalisation, attention to the memory with distances, sum "
        "with the input, normalisation, feed-forward network, sum.",
    )


def _run():
    """How many outputs a step of a real model sums up, and to how many slots the last attends."""
    layer = FeedbackTransformerLayer(
        d_model=12,
        attn=FeedbackAttention(3, 12, 0.0, max_distance=STEPS),
        feed_forward=FeedForward(12, 20, 0.0),
        dropout_prob=0.0,
    )
    model = FeedbackTransformer(layer, LAYERS)
    attended = []
    model.layers[0].attn.register_forward_pre_hook(
        lambda module, _, named: attended.append(len(named["key"])), with_kwargs=True
    )
    model(torch.randn(STEPS, 2, 12))
    return len(model.weights), max(attended)


def _steps(levels):
    bottom = TOP + 34 + levels * UP
    parts = [text(0, 11, "memory", classes="h")]
    for t in range(STEPS):
        x = 45 + t * ACROSS
        read, write = x - 33, x + 33
        for level in range(levels):
            y = bottom - HEIGHT - level * UP
            if not level:
                parts.append(box(x, y, 48, HEIGHT, f"x{_below(t)}", 4))
            else:
                parts.append(
                    box(x, y, 48, HEIGHT, f"layer {level}", 0, "#FeedbackTransformerLayer")
                )
                parts.append(arrow(x, y + UP, x, y + HEIGHT, "l t4"))
                if t:
                    parts.append(arrow(read, y + HEIGHT / 2, x - 24, y + HEIGHT / 2, "l t2"))
            # What each level adds to the memory vector leaves on the right.
            parts.append(line(x + 24, y + 7, write, y + 7, "l t1"))
        parts.append(arrow(write, bottom - HEIGHT + 7, write, TOP + HEIGHT, "l t1"))
        parts.append(box(write, TOP, 30, HEIGHT, f"m{_below(t)}", 1, "#FeedbackTransformer.read"))
        for reader in range(t + 1, STEPS):
            # Each step reads from a rail of its own, which only the slots before it join.
            rail, to = TOP - 10 * reader, read + (reader - t) * ACROSS
            parts.append(line(write, TOP if reader == t + 1 else rail + 10, write, rail, "l t2"))
            if not t:
                parts.append(line(write, rail, to, rail, "l t2"))
                down = bottom - HEIGHT - UP + HEIGHT / 2
                parts.append(line(to, rail, to, down, "l t2"))
        parts.append(text(x, bottom + 16, f"step {t}", "middle"))
    return Panel(WIDTH, bottom + 20, tuple(parts))


#: From bottom to top: words, tone, the gap below and the code.
INSIDE = (
    ("norm", 4, 30, "#FeedbackTransformerLayer.forward"),
    ("attention with distances", 2, 14, "#FeedbackAttention.get_scores"),
    ("norm", 4, 30, "#FeedbackTransformerLayer.forward"),
    ("feed-forward network", 0, 14, "../feed_forward.html"),
)


def _layer():
    x, width = 165.0, 176.0
    total = TOP + 34 + 3 * UP + 20
    y = total - 18
    parts = [text(0, 11, "one layer at step t", classes="h")]
    parts.append(text(x, total - 4, "output of the layer below", "middle"))
    for i, (words, tone, gap, to) in enumerate(INSIDE):
        parts.append(arrow(x, y, x, y - gap, "l t4"))
        if i % 2 == 0:
            start = y - 14
        y -= gap + HEIGHT
        parts.append(box(x, y, width, HEIGHT, words, tone, to))
        if "attention" in words:
            level = y + HEIGHT / 2
            parts.append(text(0, level - 6, "memory"))
            parts.append(arrow(0, level, x - width / 2, level, "l t2"))
            parts.append(text(0, level + 14, "keys, values"))
        if i % 2:
            side, end = x + width / 2 + 12, y - 10
            parts += [
                line(x, start, side, start, "l t4 thin"),
                line(side, start, side, end, "l t4 thin"),
                arrow(side, end, x + 6, end, "l t4 thin"),
                line(x, y, x, end + 5, "l t4"),
                element("circle", "l t4", cx=x, cy=end, r=5),
                text(x, end + 3.5, "+", "middle"),
            ]
            y = end - 5
    parts.append(arrow(x, y, x, y - 14, "l t4"))
    parts.append(text(x, y - 18, "output", "middle"))
    return Panel(WIDTH, total, tuple(parts))


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
