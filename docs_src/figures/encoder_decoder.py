"""The encoder–decoder: a question goes through one layer by hand, and a trained model answers it.

Numbers by hand come out of the lesson's own `TransformerLayer`, whose matrices are chosen; those of
the answers, out of the model of ``docs_src/results/answers.py``.
"""

import json
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from docs_src.results.answers import WORDS, answer, question, tokens, trained
from docs_src.tasks import results
from docs_src.tasks.encoder_decoder import LENGTHS
from labml_nn import kernels
from labml_nn.experiments.checkpoint import load_run
from labml_nn.sampling import Temperature, generate
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    EmbeddingsWithPositionalEncoding,
    Encoder,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Panel,
    Plot,
    Stage,
    Table,
    arrow,
    box,
    cell,
    element,
    frame,
    grid,
    hook,
    line,
    listed,
    ribbon,
    shown,
    text,
    title,
    word,
)

#: Tones: weights, keys, values, queries, everything else, memory, errors.
A, K, V, Q, GREY, MEMORY, LOSS = range(7)

# --- The question, and a layer with matrices that we chose ---------------------------------------

SOURCE = ("who", "sleeps", "?")
FEATURES = ("question", "verb", "alive", "mark")
#: 1 is yes and −1 is no, so that each word has mean 0 and variance 1.
X = torch.tensor([[1.0, -1, 1, -1], [-1, 1, 1, -1], [1, -1, -1, 1]])


def _layer():
    """A layer in which *who* looks for what somebody does."""
    layer = TransformerLayer(
        d_model=4,
        self_attn=MultiHeadAttention(1, 4, 0.0),
        feed_forward=FeedForward(4, 1, 0.0),
        dropout_prob=0.0,
    )
    attention, network = layer.self_attn, layer.feed_forward
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(name.startswith("norm") and name.endswith("weight"))
        attention.query.linear.weight[0] = torch.tensor([1.0, 0, 1, 0])
        attention.key.linear.weight[0] = torch.tensor([0.0, 1, 1, 0])
        attention.value.linear.weight[1] = torch.tensor([0.0, 1, 1, 0])
        attention.output.weight.copy_(torch.eye(4))
        network.layer1.weight[0], network.layer1.bias[0] = torch.tensor([1.0, 1, 1, 0]), -1
        network.layer2.weight[0] = 1
    return layer


def _pass():
    """What the layer computes on the way: tensors by name, each without the axis of the batch."""
    layer, x = _layer(), X[:, None]
    attention, network = layer.self_attn, layer.feed_forward
    with torch.no_grad(), kernels.disabled():
        z = layer.norm_self_attn(x)
        q, k, v = attention.query(z), attention.key(z), attention.value(z)
        after = layer.residual(
            x, layer.norm_self_attn, lambda z: attention(query=z, key=z, value=z)
        )
        assert attention.attn is not None
        weights = attention.attn[:, :, 0, 0]
        read = layer.norm_ff(after)
        fits = network.layer1(read)
        out = layer(x=x, mask=None)
    found = {"q": q[:, 0, 0], "k": k[:, 0, 0], "v": v[:, 0, 0], "weights": weights}
    rest = {"after": after, "read": read, "fits": fits, "says": network(read), "out": out}
    return found | {name: tensor[:, 0].detach() for name, tensor in rest.items()}


def _rows(matrix, names, digits=None):
    """A matrix in words."""
    return "; ".join(
        f"{name} {listed(row, digits)}" for name, row in zip(names, matrix.tolist(), strict=True)
    )


def _labels(left, top, w, names=FEATURES):
    return [text(left + (j + 0.5) * w, top - 6, name, "middle") for j, name in enumerate(names)]


def _words(left, top, h, names=SOURCE):
    return [word(left - 8, top + (i + 0.5) * h + 5, name, "end") for i, name in enumerate(names)]


def _brief(value, digits=2):
    """A number with so many decimals; a whole one has none."""
    return shown(value, None if round(value, digits).is_integer() else digits)


def _exact(x, y, row, tone, w, h, digits=3):
    """A row of cells, whose whole numbers have no decimals."""
    found = grid(x, y, [row], tone, w, h, most=4.0, digits=0)
    for j, value in enumerate(row.tolist()):
        words = _brief(value, digits)
        kind = "n" if round(value, digits) else "z"
        found.append(text(x + (j + 0.5) * w, y + h / 2 + 4, words, classes=kind))
    return found


def features():
    """The features of the three words."""
    left, top, w, h = 60.0, 20.0, 56.0, 28.0
    parts = [*_labels(left, top, w), *_words(left, top, h), *grid(left, top, X, GREY, w, h)]
    return Figure(
        [Panel(WIDTH, top + 3 * h + 2, tuple(parts))],
        f"A row of four numbers for each word, ({', '.join(FEATURES)}): {_rows(X, SOURCE)}.",
    )


def head():
    """What *who* receives from attention."""
    found = _pass()
    panels, alt = _attended("who", *(found[name] for name in ("q", "k", "v")))
    return Figure(panels, alt)


def across():
    """What *the* receives from the memory: a query of its own, keys and values of the source."""
    with torch.no_grad():
        memory = F.layer_norm(_pass()["out"], (4,))
    k, v = torch.zeros(2, 3, 4)
    k[:, 0], v[:, 1] = memory[:, 1], memory[:, 1] + memory[:, 2]
    names = ("what it asks for", "verb", "verb + alive")
    panels, alt = _attended("the", torch.tensor([[4.0, 0, 0, 0]]), k, v, names)
    return Figure(panels, alt)


def _attended(asks, q, k, v, names=("question + alive", "verb + alive", "verb + alive")):
    """One query with its keys and values, in two panels, and what they show."""
    scores = (q @ k.T / 2)[0]
    weights = scores.softmax(0)
    left, top, w, h = 60.0, 74.0, 30.0, 30.0
    end = left + 4 * w
    first = [title(f"query of {asks}, and all keys")]
    first += [text(left - 8, 42, "query", "end", f"t{Q}"), *grid(left, 24, q[:1], Q, w, 28)]
    first += [text(end + 8, 42, names[0]), text(left, top - 5, names[1])]
    first += [text(left - 8, top - 5, "keys", "end", f"t{K}")]
    first += [text(end + 40, top - 5, "q · k", "end"), text(end + 92, top - 5, "÷ √4", "end")]
    first += _words(left, top, h)
    for i, score in enumerate(scores.tolist()):
        first += _exact(left, top + i * h, k[i], K, w, h, 1)
        y = top + (i + 0.5) * h + 4
        first.append(text(end + 40, y, _brief(2 * score), "end", "num"))
        first.append(text(end + 92, y, _brief(score), "end", "sum"))

    # Room for the bars.
    bar, start, w = 42.0, 136.0, 38.0
    second = [title("weights, and the average of all values")]
    second += [text(left, top - 5, "weight", "start", f"t{A}")]
    second += [text(start - 8, top - 24, "values", "end", f"t{V}")]
    second += [text(start, top - 24, names[2]), text(start + 1.5 * w, top - 5, "verb", "middle")]
    for i, weight in enumerate(weights.tolist()):
        y, length = top + i * h, max(weight * bar, 1)
        size = {"x": left, "y": y + 8, "width": length, "height": h - 16}
        second.append(element("rect", f"f t{A}", fill_opacity="0.6", **size))
        second.append(text(left + length + 3, y + h / 2 + 4, shown(weight, 3), classes="num"))
    second += _words(left, top, h)
    for i, row in enumerate(v):
        second += _exact(start, top + i * h, row, V, w, h, 2)
    below = top + 3 * h + 8
    second.append(line(start, below - 4, start + 4 * w, below - 4, f"l t{V}"))
    second.append(text(start - 8, below + 18, "average", "end", f"t{V}"))
    average = weights @ v
    second += _exact(start, below, average, V, w, 28)
    height = below + 30
    return [Panel(WIDTH, height, tuple(first)), Panel(WIDTH, height, tuple(second))], (
        f"The query of {asks} is {listed(q[0])}. Keys: {_rows(k, SOURCE, 2)}. Scores: "
        f"{listed(scores, 2)}. Weights: {listed(weights, 3)}. Values: {_rows(v, SOURCE, 2)}. "
        f"Average: {listed(average, 3)}."
    )


def _sum(before, added, after, name, tone, top=20.0):
    """The features of *who*, what is added to them, and the sum; and where the drawing ends."""
    left, w, h = 76.0, 52.0, 30.0
    rows = ((before, GREY, "who"), (added, tone, name), (after, GREY, "sum"))
    parts = _labels(left, top, w)
    for i, (row, tone, name) in enumerate(rows):
        y = top + i * (h + 4) + (4 if i == 2 else 0)
        draw = word if i == 0 else text
        parts.append(draw(left - 20, y + h / 2 + 4, name, "end"))
        parts.append(text(left - 12, y + h / 2 + 4, ("", "+", "=")[i], classes="on"))
        parts += _exact(left, y, row, tone, w, h)
    y = top + 2 * (h + 4)
    parts.append(line(left, y, left + 4 * w, y, f"l t{GREY}"))
    return parts, y + h + 6


def added():
    """What attention returns is added to the features."""
    found = _pass()
    before, after = X[0], found["after"][0]
    parts, height = _sum(before, after - before, after, "attention", V)
    return Figure(
        [Panel(WIDTH, height, tuple(parts))],
        f"Who has the features {listed(before)}. Attention returns "
        f"{listed(after - before, 3)}. The sum is {listed(after, 3)}.",
    )


def normalised():
    """Layer normalisation of (2, 0, 4, 2), in three steps."""
    x = torch.tensor([2.0, 0, 4, 2])
    norm = nn.LayerNorm(4)
    centred = x - x.mean()
    plain = norm(x).detach().round(decimals=3)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 1, 2, 1]))
        norm.bias.copy_(torch.tensor([0.0, 0, 0, 1]))
    last = norm(x).detach().round(decimals=3)
    left, top, w, h, gap = 118.0, 4.0, 42.0, 28.0, 10.0
    root = x.var(unbiased=False).sqrt().item()
    rows = (
        (x, "features x"),
        (centred, f"minus the mean, {shown(x.mean())}"),
        (plain, f"divided by {root:.3f}"),
        (last, "times g, plus b"),
    )
    parts = []
    for i, (row, name) in enumerate(rows):
        y = top + i * (h + gap)
        parts.append(text(left - 8, y + h / 2 + 4, name, "end", "on" if i == 0 else ""))
        parts += _exact(left, y, row, GREY, w, h, 2)
    said = "; ".join(f"{name}: {listed(row, 3)}" for row, name in rows)
    return Figure([Panel(WIDTH, top + 4 * h + 3 * gap + 2, tuple(parts))], f"Four rows. {said}.")


def feed_forward():
    """A pattern compared with each token, what the ReLU lets through, and what is added."""
    found = _pass()
    read, fits = (found[name].round(decimals=2) for name in ("read", "fits"))
    pattern = _layer().feed_forward.layer1.weight.detach()
    left, top, w, h = 60.0, 78.0, 42.0, 30.0
    first = [title("does the pattern fit?")]
    for j, name in enumerate(FEATURES):
        first.append(text(left + (j + 0.5) * w, 34, name, "middle", "s"))
    first.append(text(left - 8, 58, "pattern", "end"))
    first += grid(left, 40, pattern, A, w, 28, most=2.0)
    first += _words(left, top, h)
    for i, row in enumerate(read):
        first += _exact(left, top + i * h, row, GREY, w, h, 2)
    end = left + 4 * w
    first.append(text(end + 58, 58, "sum − 1", "end"))
    for i, fit in enumerate(fits[:, 0].tolist()):
        kind = "sum" if fit > 0 else "num"
        first.append(text(end + 56, top + (i + 0.5) * h + 4, shown(fit, 2), "end", kind))

    plot = Plot((-2.5, 2.5), (-0.4, 2.5), title="the ReLU: nothing below 0 passes", height=88)
    plot.line([-2.5, 0, 2.5], [0, 0, 2.5], GREY)
    for name, fit in zip(SOURCE, fits[:, 0].tolist(), strict=True):
        x, y = plot.at(fit, max(fit, 0))
        plot.add(element("circle", f"f t{A}", cx=x, cy=y, r=4))
        plot.add(word(x - 12, y - 8, name))
    return Figure(
        [Panel(WIDTH, top + 3 * h + 2, tuple(first)), plot.panel()],
        f"The pattern {listed(pattern[0])} meets the normalised features: "
        f"{_rows(read, SOURCE, 2)}. Their products minus 1 are {listed(fits[:, 0], 2)}; the ReLU "
        f"makes {listed(F.relu(fits[:, 0]), 2)} of them.",
    )


def fed():
    """What the feed-forward network adds to *who*."""
    found = _pass()
    before, added, after = found["after"][0], found["says"][0], found["out"][0]
    parts, height = _sum(before, added, after, "W₂ says", A)
    return Figure(
        [Panel(WIDTH, height, tuple(parts))],
        f"Who has the features {listed(before, 3)}. The network adds {listed(added, 3)}, which "
        f"makes {listed(after, 3)}.",
    )


def lookup():
    """The row of *who* in the table, and its vector with the position."""
    embed = EmbeddingsWithPositionalEncoding(4, len(VOCABULARY), 5)
    with torch.no_grad():
        for name, row in zip(SOURCE, X, strict=True):
            embed.linear.weight[VOCABULARY.index(name)] = row / 2
        x = embed(torch.tensor([[VOCABULARY.index("who")]]))[0, 0]
    number = VOCABULARY.index("who")
    table, position = embed.linear.weight.detach(), embed.positional_encodings[0, 0]
    left, top, w, h = 92.0, 20.0, 44.0, 20.0
    first = [title("the table E")]
    for i, name in enumerate(VOCABULARY):
        y, near = top + i * h, i == number
        first.append(text(14, y + 14, str(i), "end", "on" if near else ""))
        first.append(word(24, y + 14, name, "start", "" if near else "small"))
        if name in SOURCE:
            first += grid(left, y, table[i : i + 1], GREY, w, h, most=2.0, dim=() if near else (0,))
        else:
            first.append(cell(left + 1, y + 1, 4 * w - 2, h - 2, GREY, 0.03, "far"))
    first.append(frame(left - 1, top + number * h - 1, 4 * w + 2, h + 2, GREY))

    second, left, h = [title("the vector of who, at position 0")], 92.0, 28.0
    rows = ((2 * table[number], "√4 · row 3"), (position, "+ position 0"), (x.detach(), "= x"))
    for i, (row, name) in enumerate(rows):
        y = top + 20 + i * (h + 8)
        second.append(text(left - 8, y + h / 2 + 4, name, "end", "on"))
        second += grid(left, y, [row], GREY, w, h, most=2.0)
    height = top + len(VOCABULARY) * 20.0 + 2
    return Figure(
        [Panel(WIDTH, height, tuple(first)), Panel(WIDTH, top + 20 + 3 * (h + 8), tuple(second))],
        f"Left, a table with a row for each of {len(VOCABULARY)} words; row {number}, that of who, "
        f"is framed. Right: twice the row is {listed(2 * table[number])}, the vector of position 0 "
        f"is {listed(position)}, and their sum is {listed(x.detach())}.",
    )


# --- Who sees what -------------------------------------------------------------------------------

VOCABULARY = ("padding", "start", "end", "who", "sleeps", "?", "the", "dog")
TARGET = ("start", "the", "dog")
NEXT = ("the", "dog", "end")


def _answered():
    """Of *who sleeps ?*: its memory, the words that are written, and the first head's weights."""
    model, verbs = trained(), ("sleeps",)
    source = tokens([question(verbs)])
    target = tokens([["start", *answer(verbs)]])
    mask = subsequent_mask(len(target))
    with torch.no_grad(), kernels.disabled():
        memory = model.encode(source, None)
        logits = model.generator(model.decode(memory, None, target, mask))
    written = [WORDS[i] for i in logits[:, 0].argmax(-1).tolist()]
    return memory, written, model.decoder.layers[0].src_attn.attn[:, :, 0, 0]


def whole():
    """A question goes in, three vectors stand between, and an answer comes out."""
    memory, written, weights = _answered()
    xs, ts, floor = (52.0, 146.0, 240.0), (366.0, 460.0, 554.0), 214.0
    parts = [
        element("rect", f"l t{GREY}", x=16, y=134, width=260, height=44, rx=6),
        text(146, 160, "encoder", "middle", "large"),
        element("rect", f"l t{GREY}", x=330, y=60, width=260, height=118, rx=6),
        text(460, 86, "decoder", "middle", "large"),
        text(146, 32, "memory", "middle", f"large t{MEMORY}"),
    ]
    for x, name in zip(xs, SOURCE, strict=True):
        parts += [word(x, floor + 22, name, size="large"), arrow(x, floor - 6, x, 180, "l t4")]
        parts.append(arrow(x, 132, x, 106, "l t4"))
    for j, x in enumerate(xs):
        column = memory[j, 0, :4, None]
        parts += grid(x - 11, 42, column, MEMORY, 22, 15, most=2.0, digits=0)
    # Only one token is followed; the lines of the others would lie on its own.
    followed, low = 1, 158
    for s, source_x in enumerate(xs):
        weight = weights[followed, s].item()
        parts.append(ribbon(source_x, 104, ts[followed], low, weight, A, 9, True))
    x, most = ts[followed], int(weights[followed].argmax())
    share = shown(weights[followed, most], 2)
    parts.append(text((xs[most] + x) / 2, (104 + low) / 2 - 12, share, "middle", "big halo t0"))
    for t, (x, name, said) in enumerate(zip(ts, TARGET, written, strict=True)):
        parts.append(word(x, floor + 22, name, size="large"))
        parts += [line(x, floor - 6, x, low, "l t4"), arrow(x, low, x, 98, "l t4")]
        parts.append(element("circle", f"f t{A if t == followed else GREY}", cx=x, cy=low, r=4))
        parts += [arrow(x, 58, x, 40, "l t4"), word(x, 28, said, size="large")]
    return Figure(
        [Panel(600, floor + 38, tuple(parts))],
        f"The words {' '.join(SOURCE)} go into the encoder, and three vectors come out, the "
        f"memory. The decoder reads {', '.join(TARGET)} and writes {', '.join(written)}; lines "
        f"lead to it from the memory. Those of {TARGET[followed]} are as thick as its weights: "
        f"{listed(weights[followed], 2)}.",
    )


def written():
    """Three steps, each with one more token."""
    w, h, top, panel = 54.0, 30.0, 22.0, []
    panel += [text(0, 12, "written so far"), text(236, 12, "next", "middle")]
    for t, said in enumerate(NEXT):
        y = top + t * (h + 8)
        for i, name in enumerate(TARGET[: t + 1]):
            panel.append(cell(i * (w + 2) + 1, y, w, h, GREY, 0.12))
            panel.append(word(i * (w + 2) + w / 2, y + 20, name))
        panel.append(arrow((t + 1) * (w + 2) + 4, y + h / 2, 202, y + h / 2, "l t4"))
        panel.append(cell(208, y, w, h, A, 0.2))
        panel.append(word(208 + w / 2, y + 20, said))
    steps = "; ".join(f"after {' '.join(TARGET[: t + 1])}: {said}" for t, said in enumerate(NEXT))
    return Figure([Panel(WIDTH, top + 3 * h + 18, tuple(panel))], f"Three steps. {steps}.")


def masks():
    """Which tokens each attention may look at."""
    causal = ~subsequent_mask(3)[:, :, 0]
    free = torch.zeros(3, 3, dtype=torch.bool)
    panels, w, left, top = [], 42.0, 56.0, 44.0
    for name, rows, columns, hidden in (
        ("encoder", SOURCE, SOURCE, free),
        ("decoder: itself", TARGET, TARGET, causal),
        ("decoder: memory", TARGET, SOURCE, free),
    ):
        parts = [title(name)]
        for j, column in enumerate(columns):
            parts.append(word(left + (j + 0.5) * w, top - 8, column, size="small"))
        parts += _words(left, top, 30, rows)
        ones = torch.ones(3, 3)
        parts += grid(left, top, ones, A, w, 30, most=2.0, digits=0, hidden=hidden.tolist())
        panels.append(Panel(204, top + 92, tuple(parts)))
    hidden = "start does not see the and dog, and the does not see dog"
    return Figure(
        panels,
        "Three tables of three rows, the tokens that look, by three columns, those that they look "
        f"at. In the encoder and in cross-attention all is open. In the decoder {hidden}.",
    )


def crossing():
    """The weights of cross-attention as numbers, in the model of the first picture."""
    _, written, weights = _answered()
    w, left, top, h = 52.0, 56.0, 44.0, 30.0
    parts = [text(left, 11, "keys and values: the memory", classes=f"t{K}")]
    for j, name in enumerate(SOURCE):
        parts.append(word(left + (j + 0.5) * w, top - 8, name, size="small"))
    parts += _words(left, top, h, TARGET)
    parts += grid(left, top, weights, A, w, h, most=1.0, digits=3)
    for i, name in enumerate(written):
        y = top + (i + 0.5) * h
        parts += [arrow(left + 3 * w + 8, y, left + 3 * w + 30, y, "l t4")]
        parts.append(word(left + 3 * w + 38, y + 5, name, "start"))
    said = "; ".join(f"{name} {listed(row, 3)}" for name, row in zip(TARGET, weights, strict=True))
    return Figure(
        [Panel(WIDTH, top + 3 * h + 4, tuple(parts))],
        f"Weights of the queries of {', '.join(TARGET)} for {', '.join(SOURCE)}: {said}. Then "
        f"{', '.join(written)} is written.",
    )


def teacher():
    """All positions of the answer in one pass, each with its label."""
    w, h, left, top = 50.0, 34.0, 66.0, 44.0
    hidden = (~subsequent_mask(3)[:, :, 0]).tolist()
    parts = [text(left, 12, "input"), text(left + 3 * w + 54, 12, "label", "middle", f"t{LOSS}")]
    for j, name in enumerate(TARGET):
        parts.append(word(left + (j + 0.5) * w, top - 8, name))
    parts += [text(left - 8, top + (t + 0.5) * h + 4, f"position {t}", "end") for t in range(3)]
    parts += grid(left, top, torch.ones(3, 3), A, w, h, most=2.0, digits=0, hidden=hidden)
    for t, said in enumerate(NEXT):
        y = top + (t + 0.5) * h
        parts.append(arrow(left + 3 * w + 6, y, left + 3 * w + 24, y, "l t4"))
        parts.append(cell(left + 3 * w + 28, y - 14, 54, 28, LOSS, 0.14))
        parts.append(word(left + 3 * w + 55, y + 5, said))
    seen = "; ".join(
        f"position {t} sees {' '.join(TARGET[: t + 1])} and is asked for {said}"
        for t, said in enumerate(NEXT)
    )
    return Figure(
        [Panel(left + 3 * w + 86, top + 3 * h + 4, tuple(parts))], f"{seen.capitalize()}."
    )


# --- From a vector to the next word ---------------------------------------------------------------

LOGITS = {"the": 3.0, "dog": 1.0, "who": 0.0, "sleeps": 0.0, "end": 0.0}


def logits():
    """Logits become probabilities."""
    given = torch.tensor(list(LOGITS.values()))
    powers, shares = given.exp(), given.softmax(0)
    left, top, h = 60.0, 22.0, 26.0
    parts = [text(92, 12, "logit", "end"), text(146, 12, "exp", "end")]
    parts.append(text(160, 12, "probability", "start", f"t{A}"))
    for i, name in enumerate(LOGITS):
        y = top + i * h
        parts.append(word(left - 8, y + 18, name, "end"))
        parts.append(text(92, y + 17, shown(given[i]), "end", "num"))
        parts.append(text(146, y + 17, shown(powers[i], 3), "end", "num"))
        size = {"x": 160, "y": y + 4, "width": shares[i].item() * 84, "height": h - 9}
        parts.append(element("rect", f"f t{A}", fill_opacity="0.6", **size))
        parts.append(text(164 + shares[i].item() * 84, y + 17, shown(shares[i], 3), classes="num"))
    below = top + len(LOGITS) * h
    parts.append(line(100, below + 2, 146, below + 2, "l t4"))
    parts.append(text(146, below + 18, shown(powers.sum(), 3), "end", "sum"))
    return Figure(
        [Panel(WIDTH, below + 24, tuple(parts))],
        f"Logits of {', '.join(LOGITS)}: {listed(given)}. Exponentials: {listed(powers, 3)}, in "
        f"sum {powers.sum():.3f}. Probabilities: {listed(shares, 3)}.",
    )


def loss():
    """The loss of a label, by its probability."""
    shares = torch.tensor(list(LOGITS.values())).softmax(0)
    plot = Plot(
        (0, 1), (0, 4), x_label="probability of the right word", y_label="loss in nats", height=120
    )
    xs = [i / 100 for i in range(2, 101)]
    plot.line(xs, [-math.log(x) for x in xs], LOSS)
    losses = {}
    for name in ("the", "dog"):
        p = shares[list(LOGITS).index(name)].item()
        losses[name] = -math.log(p)
        plot.dots([p], [losses[name]], LOSS)
        plot.note(p + 0.03, losses[name] + 0.22, f"{name}: {losses[name]:.2f}")
    return Figure(
        [plot.panel()],
        f"A curve that falls from 4 nats at a small probability to 0 at 1. If the right word is "
        f"the, the loss is {losses['the']:.2f}, if it is dog, {losses['dog']:.2f}.",
    )


# --- Writing -------------------------------------------------------------------------------------

STEPS = ("Article", "Noun", "And", "Article", "Noun", "End")
#: The first is drawn, and was not in the training.
QUESTIONS = (("sleeps", "sings"), ("sings", "sleeps"), ("eats", "runs"), ("runs", "eats"))
#: How thick a weight of 1 is, and how long the bar of a probability of 1.
LOOK, BAR = 9.0, 150.0
#: Places of the words of a question, and of those of the answer so far.
ASKED, SAID = (20.0, 82.0, 144.0, 206.0, 264.0), (20.0, 68.0, 112.0, 156.0, 198.0, 240.0)


def _answers(verbs):
    """What the small model does while it answers a question, step by step."""
    model, asked = trained(), question(verbs)
    written = tokens([["start"]])
    steps = []
    with torch.no_grad(), kernels.disabled():
        memory = model.encode(tokens([asked]), None)
        for _ in STEPS:
            mask = subsequent_mask(len(written))
            features = model.decode(memory, None, written, mask)
            shares, found = model.generator(features[-1, 0]).softmax(0).topk(2)
            weights = model.decoder.layers[0].src_attn.attn[-1, :, 0, 0]
            steps.append(
                {
                    "input": WORDS[int(written[-1])],
                    "weights": [round(weight, 4) for weight in weights.tolist()],
                    "names": [WORDS[i] for i in found.tolist()],
                    "shares": [round(share, 4) for share in shares.tolist()],
                }
            )
            written = torch.cat([written, found[:1, None]])
    return {"asked": asked, "steps": steps}


def _looks(answers, t):
    """What the stage says of a step."""
    step = answers["steps"][t]
    most = step["weights"].index(max(step["weights"]))
    most, written = answers["asked"][most], step["names"][0]
    return f"After “{step['input']}” it looks most at “{most}”, and writes “{written}”."


def writing():
    """The small model writes an answer, one token a step."""
    answers = [_answers(verbs) for verbs in QUESTIONS]
    found, panels, low = answers[0], [], 100.0
    for t, (name, step) in enumerate(zip(STEPS, found["steps"], strict=True)):
        parts = [title(f"{t + 1}  {name}")]
        for x, asked, weight in zip(ASKED, found["asked"], step["weights"], strict=True):
            parts.append(ribbon(SAID[t], low - 16, x, 42, weight, A, LOOK, hook="look"))
            parts.append(hook(word(x, 36, asked), "asked"))
        for x, before in zip(SAID, found["steps"][: t + 1], strict=False):
            parts.append(hook(word(x, low, before["input"], size="small"), "said"))
        for i, (token, share) in enumerate(zip(step["names"], step["shares"], strict=True)):
            y = low + 18 + i * 18
            parts.append(hook(word(64, y + 11, token, "end", "small"), "next"))
            size = {"x": 72, "y": y, "width": max(share * BAR, 0.5), "height": 12}
            parts.append(element("rect", f"f t{A}", fill_opacity="0.6", **size, data_p="bar"))
            number = text(78 + share * BAR, y + 11, shown(share, 3), classes="num")
            parts.append(hook(number, "share"))
        panels.append(Panel(WIDTH, low + 54, tuple(parts)))
    said = "; ".join(
        f"{t + 1}. it looks most at {found['asked'][step['weights'].index(max(step['weights']))]} "
        f"({max(step['weights']):.2f}) and writes {step['names'][0]} ({step['shares'][0]:.3f})"
        for t, step in enumerate(found["steps"])
    )
    questions = [" ".join(answer["asked"]) for answer in answers]
    return Figure(
        panels,
        f"Six steps answer “{questions[0]}”. {said}.",
        stage=Stage(
            "writing",
            [Choice("question", "question", questions)],
            {"answers": answers, "look": LOOK, "bar": BAR},
            _looks(found, 0),
            STEPS,
        ),
    )


# --- All source vectors or one --------------------------------------------------------------------


def bottleneck():
    """Answers that are right, by the length of the source, with all vectors and with their mean."""
    found = results("encoder_decoder", "by_length")
    first = []
    for row, (name, tone) in enumerate((("all vectors", MEMORY), ("their mean", GREY))):
        y = 16.0 + row * 88
        first.append(text(0, y + 26, name))
        xs = [92.0 + 30 * i for i in range(5)]
        for x in xs:
            first += grid(x - 9, y, [[1], [1], [1]], tone, 18, 16, most=2.0, digits=0)
        if row == 0:
            first += [ribbon(x, y + 50, 262, y + 24, 0.2, A) for x in xs]
        else:
            first += [line(x, y + 50, 152, y + 64, f"l t{GREY} thin") for x in xs]
            first += grid(143, y + 64, [[1], [1], [1]], tone, 18, 16, most=2.0, digits=0)
            first.append(ribbon(162, y + 88, 262, y + 30, 0.6, A))
        first.append(text(WIDTH, y + 16, "decoder", "end"))
    plot = Plot(
        (2, 10),
        (0, 1),
        x_label="digits",
        y_label="share of numbers all right",
        height=140,
        y_ticks=(0, 0.5, 1),
    )
    lengths, said = list(LENGTHS), []
    for tone, (name, label) in zip((MEMORY, GREY), (("all", "all"), ("one", "mean")), strict=True):
        runs = torch.tensor(found[name])
        for seed, run in enumerate(runs.tolist()):
            plot.line(lengths, run, tone, label="" if seed else label)
        middle = runs.mean(0).tolist()
        said.append(f"with {label}, {middle[0]:.2f} of 2 digits and {middle[-1]:.2f} of 10")
    return Figure(
        [Panel(WIDTH, 222, tuple(first)), plot.panel()],
        "Left, a decoder that sees five source vectors, and one that sees their mean. Right, a "
        f"line for each of five seeds: right answers, on average, {'; '.join(said)}.",
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
BOX, HEIGHT, STEP = 114.0, 26.0, 62.0
LEFT, RIGHT = 74.0, 216.0
BOTTOM = 330.0


def diagram():
    """Encoder on the left, decoder on the right, the memory between them."""
    stacks = {"encoder": _stack(Encoder), "decoder": _stack(Decoder)}
    parts, tops = [], {}
    for (name, stack), x in zip(stacks.items(), (LEFT, RIGHT), strict=True):
        sublayers = [part for part in NAMES if getattr(stack.layers[0], part) is not None]
        tokens = "source" if name == "encoder" else "start, and target"
        parts.append(text(x, BOTTOM + 68, tokens, "middle"))
        parts.append(arrow(x, BOTTOM + 54, x, BOTTOM + 39, "l t4"))
        embedded = "#EmbeddingsWithPositionalEncoding"
        parts.append(box(x, BOTTOM + 12, BOX, HEIGHT, "token + position", 4, embedded))
        y, before = BOTTOM - 50, BOTTOM + 12
        frame = y + HEIGHT + 28
        for part in sublayers:
            shown = "causal attention" if (name, part) == ("decoder", "self_attn") else None
            parts.append(arrow(x, before, x, y + HEIGHT, "l t4"))
            tone, words = 1 if "attn" in part else 2, shown or NAMES[part]
            parts.append(box(x, y, BOX, HEIGHT, words, tone, "#TransformerLayer.forward"))
            # The residual connection leads past the sub-layer, to the sum behind it.
            side = x - BOX / 2 - 7
            start, end = y + HEIGHT + 21, y - 10
            parts.append(line(x, start, side, start, "l t4 thin"))
            parts.append(line(side, start, side, end, "l t4 thin"))
            parts.append(arrow(side, end, x - 6, end, "l t4 thin"))
            parts.append(element("circle", "l t4", cx=x, cy=end, r=5))
            parts.append(text(x, end + 3.5, "+", "middle"))
            parts.append(text(x + 8, y + HEIGHT + 14, "norm"))
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
        parts.append(text(x + BOX / 2, top + 14, "× L", "end"))
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
        [Panel(WIDTH, BOTTOM + 74, tuple(parts))],
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
