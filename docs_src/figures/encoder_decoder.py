"""The encoder–decoder as Figure 1 of the paper draws it, with the sub-layers of a built model."""

import json
import math
from pathlib import Path

import torch
from torch import nn

from labml_nn.experiments.checkpoint import load_run
from labml_nn.sampling import Temperature, generate
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Decoder, Encoder, TransformerLayer
from pylit.figures.draw import (
    WIDTH,
    Figure,
    Panel,
    Plot,
    Table,
    arrow,
    box,
    element,
    line,
    text,
)

RESULT = Path(__file__).parents[1] / "results/encoder_decoder"
#: Speeches to reply to. The second and the third are not in the plays.
SPEECHES = ("GREMIO:\nGood morrow, neighbour Baptista.", "ROMEO:\nWho sleeps?", "JULIET:\nNo.")

#: What a sub-layer of a layer is called, in the order in which `forward` runs them.
NAMES = {
    "self_attn": "self-attention",
    "src_attn": "cross-attention",
    "feed_forward": "feed-forward",
}
BOX, HEIGHT, STEP = 114.0, 26.0, 48.0
LEFT, RIGHT = 74.0, 216.0
BOTTOM = 282.0


def diagram():
    """Encoder on the left, decoder on the right, the memory between them."""
    stacks = {"encoder": _stack(Encoder), "decoder": _stack(Decoder)}
    parts, tops = [], {}
    for (name, stack), x in zip(stacks.items(), (LEFT, RIGHT), strict=True):
        sublayers = [part for part in NAMES if getattr(stack.layers[0], part) is not None]
        source = "source tokens" if name == "encoder" else "target, shifted"
        parts.append(text(x, BOTTOM + 54, source, "middle"))
        parts.append(arrow(x, BOTTOM + 42, x, BOTTOM + 36, "l t4"))
        embedded = "#EmbeddingsWithPositionalEncoding"
        parts.append(box(x, BOTTOM + 12, BOX, HEIGHT, "token + position", 4, embedded))
        y, before = BOTTOM - 30, BOTTOM + 12
        frame = y + HEIGHT + 13
        for part in sublayers:
            shown = "masked attention" if (name, part) == ("decoder", "self_attn") else None
            parts.append(arrow(x, before, x, y + HEIGHT, "l t4"))
            tone, words = 1 if "attn" in part else 2, shown or NAMES[part]
            parts.append(box(x, y, BOX, HEIGHT, words, tone, "#TransformerLayer.forward"))
            # The residual connection leads past the sub-layer, to the sum behind it.
            side = x - BOX / 2 - 7
            start, end = y + HEIGHT + 9, y - 10
            parts.append(line(x, start, side, start, "l t4 thin"))
            parts.append(line(side, start, side, end, "l t4 thin"))
            parts.append(arrow(side, end, x - 6, end, "l t4 thin"))
            parts.append(element("circle", "l t4", cx=x, cy=end, r=5))
            parts.append(text(x, end + 3.5, "+", "middle"))
            parts.append(text(x + 8, y + HEIGHT + 10, "norm"))
            if part == "src_attn":
                parts.append(line(LEFT, tops["encoder"], LEFT, tops["encoder"] - 8, "l t0"))
                middle, level = (LEFT + RIGHT) / 2 - 3, y + HEIGHT / 2
                parts.append(line(LEFT, tops["encoder"] - 8, middle, tops["encoder"] - 8, "l t0"))
                parts.append(line(middle, tops["encoder"] - 8, middle, level, "l t0"))
                parts.append(arrow(middle, level, x - BOX / 2, level, "l t0"))
                parts.append(text(LEFT + 4, tops["encoder"] - 13, "memory", "middle"))
            before, y = end - 5, end - 10 - STEP + 12
        top = before - 6
        parts.append(
            element(
                "rect",
                "l t4 d",
                x=x - BOX / 2 - 12,
                y=top,
                width=BOX + 18,
                height=frame - top,
                rx=6,
            )
        )
        parts.append(text(x + BOX / 2 + 4, top + 12, "× L", "end"))
        parts.append(arrow(x, before, x, top - 14, "l t4"))
        norm = f"#{name.title()}.forward"
        parts.append(box(x, top - 14 - HEIGHT, BOX, HEIGHT, "layer norm", 4, norm))
        tops[name] = top - 14 - HEIGHT
    y = tops["decoder"] - 14 - HEIGHT
    parts.append(arrow(RIGHT, tops["decoder"], RIGHT, y + HEIGHT, "l t4"))
    parts.append(box(RIGHT, y, BOX, HEIGHT, "generator, softmax", 3, "#Generator"))
    parts.append(arrow(RIGHT, y, RIGHT, y - 10, "l t4"))
    parts.append(text(RIGHT, y - 15, "next token", "middle"))
    return Figure(
        [Panel(WIDTH, BOTTOM + 60, tuple(parts))],
        "Two columns. Encoder: embedding with position, then L layers of self-attention and "
        "feed-forward network. Decoder: the same with cross-attention between the two, to which "
        "an arrow leads from the encoder's output, and a generator with softmax at the top. "
        "A layer norm stands in front of each sub-layer and at the end of both. Around each "
        "sub-layer and its layer norm a residual connection leads to a sum.",
    )


def _stack(kind: type[nn.Module]) -> nn.Module:
    layer = TransformerLayer(
        d_model=4,
        self_attn=MultiHeadAttention(1, 4),
        src_attn=MultiHeadAttention(1, 4) if kind is Decoder else None,
        feed_forward=FeedForward(4, 4),
        dropout_prob=0.0,
    )
    return kind(layer, 1)


def training():
    """The losses of the shipped run, as it kept them."""
    found = json.loads((RESULT / "result.json").read_text(encoding="utf-8"))
    curve, config = found["curve"], found["run"]["model"]["config"]
    trained, tested = curve["train"], curve["validation"]
    end, best = found["result"]["step"], found["result"]["validation_loss"]
    guess = math.log(config["n_vocab"])
    plot = Plot((0, end), (1.0, 4.4), x_label="updates", y_label="nats per letter", height=150)
    for tone, (name, points) in enumerate((("training", trained), ("validation", tested))):
        plot.line([p[0] for p in points], [p[1] for p in points], tone, label=name)
    return Figure(
        [plot.panel()],
        f"Two curves that fall quickly at first and then ever more slowly, from {guess:.1f} nats "
        f"per letter, the loss of guessing, to {best:.2f} on replies of the validation split "
        f"after {end:,} updates.",
    )


def replies():
    """What the shipped model writes, at a low temperature."""
    run = load_run(RESULT)
    model, letters = run.model(), run.vocabulary.texts
    rows = []
    for seed, speech in enumerate(SPEECHES):
        source = torch.tensor([letters.index(letter) for letter in speech])[:, None]
        written = generate(model, source, 60, Temperature(0.5), seed=seed)[:, 0].tolist()
        end = model.config.end_token
        reply = "".join(letters[i] for i in written[: (*written, end).index(end)])
        rows.append([speech.replace("\n", " "), reply.replace("\n", " ")])
    return Table(["speech", "reply"], rows, align="ll")
