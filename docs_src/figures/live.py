"""Pictures of the trained models, each above the button that runs its model in the page."""

import json
from collections import defaultdict
from pathlib import Path
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy

import labml_nn
from docs_src.live.recall import RecallGame, delivered_model
from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.checkpoint import load_run
from labml_nn.recurrent.linear_attention import feature_map
from labml_nn.transformers import modern
from pylit.figures import draw
from pylit.figures.draw import WIDTH, Figure, Panel, Table, frame, grid, heat_map

RESULTS = Path(__file__).parents[1] / "results"
WEIGHTS = Path(__file__).parents[1] / "live" / "weights"


def attention():
    """The head that attends to the line break after a name."""
    model, vocabulary = _trained("autoregressive")
    said = "ROMEO:\nWhat"
    tokens = torch.tensor([vocabulary.index(letter) for letter in said])[:, None]
    weights = attention_maps(model, tokens, vocabulary=vocabulary)[1].weights[:, :, 0, 0]
    letters = [letter.replace("\n", "↵") for letter in said]
    panel = _map(
        weights.tolist(),
        title="layer 2, head 1",
        down="query",
        across="key",
        rows=letters,
        columns=letters,
    )
    return Figure(
        [panel],
        f"A map of {len(said)} queries by as many keys: after the line break, queries give it "
        f"{weights[7:, 6].mean():.2f} of their weight on average.",
        live="attention",
    )


@torch.no_grad()
def units():
    """Hidden units that are easy to read, along a speech."""
    model, vocabulary = _trained("elman")
    said = "EMILIA:\nMy lord!"
    state, rows = None, []
    for token in torch.tensor([vocabulary.index(letter) for letter in said]):
        _, state = model(token[None, None], state)
        rows.append([state[1, 0, 29].item(), state[0, 0, 59].item()])
    panel = heat_map(
        [list(row) for row in zip(*rows, strict=True)],
        title="two hidden units",
        rows=["unit 30", "unit 60"],
        columns=[letter.replace("\n", "↵").replace(" ", "␣") for letter in said],
        most=1.0,
    )
    return Figure(
        [panel],
        "Two hidden units along a speech: unit 30 of layer 2 is negative in the name of the "
        "speaker and positive elsewhere, unit 60 of layer 1 is positive at most vowels.",
        live="units",
    )


@torch.no_grad()
def decays():
    """What two heads of a Mamba-2 keep at each character: one forgets at punctuation."""
    model, vocabulary = _trained("mamba2")
    said = "now? must he submit?\n"
    tokens = torch.tensor([vocabulary.index(letter) for letter in said])[:, None]
    kept = []

    def watch(mixer, inputs, _):
        delta = mixer.in_proj(inputs[0])[..., -mixer.heads :] + mixer.dt_bias
        kept.append((-mixer.A_log.exp() * torch.nn.functional.softplus(delta)).exp()[:, 0])

    with model.layers[1].mixer.register_forward_hook(watch):
        model(tokens)
    panel = heat_map(
        [kept[0][:, head].tolist() for head in (0, 2)],
        title="kept, layer 2 (dark: all of it)",
        rows=["head 1", "head 3"],
        columns=[letter.replace(" ", "␣").replace("\n", "↵") for letter in said],
        most=1.0,
    )
    at = said.index("?")
    return Figure(
        [panel],
        f"Two rows of shares that are kept. At the first question mark head 1 keeps "
        f"{kept[0][at, 0]:.2f} and head 3 {kept[0][at, 2]:.2f}.",
        live="decay",
    )


#: What a head of linear attention has read.
ROMEO = "ROMEO:\nBut, soft!"


@torch.no_grad()
def _read_matrix():
    """The weights of the last query of a head, and its memory without the sum of the keys."""
    model, vocabulary = _trained("linear_attention")
    tokens = torch.tensor([vocabulary.index(letter) for letter in ROMEO])[:, None]
    mixer, seen = model.layers[0].mixer, []
    with mixer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
        memory = model(tokens)[1].layers[0][0][0, 0, :, :-1]
    # Queries and keys of the head, from the layer's own submodules.
    parts = [mixer.query(seen[0]), mixer.key(seen[0]), mixer.value(seen[0])]
    q, k = mixer.conv(torch.cat(parts, -1))[0].chunk(3, -1)[:2]
    q, k = (feature_map(one.unflatten(-1, (mixer.heads, -1)))[:, 0, 0] for one in (q, k))
    return (k @ q[-1] / (k @ q[-1]).sum()).tolist(), memory


def matrix():
    """The memory of a head of linear attention, and the weights that it stands for."""
    (weights, memory), said = _read_matrix(), ROMEO
    most, side, top = memory.abs().max().item(), 9.0, 40.0
    held = [
        draw.title("the memory"),
        draw.text(0, 30, "down: numbers of a key; across: of a value"),
    ]
    cells = defaultdict(str)
    for i, row in enumerate(memory.tolist()):
        for j, value in enumerate(row):
            place = draw.square(j * side, top + i * side, side, side)
            cells[5 if value > 0 else 4, round(abs(value) / most, 1)] += place
    held += [
        draw.element("path", f"f t{tone}", d=d, fill_opacity=f"{share:g}")
        for (tone, share), d in sorted(cells.items())
        if share
    ]
    held.append(draw.element("rect", "b", x=0, y=top, width=24 * side, height=24 * side))
    counts = draw.Plot(
        (0, len(said)),
        (0, 0.14),
        title="weights of the last query",
        height=120,
        x_ticks=(),
        y_ticks=(0, 0.05, 0.1),
    )
    step = (counts.right - counts.left) / len(said)
    for t, (letter, weight) in enumerate(zip(said, weights, strict=True)):
        x, y = counts.at(t, weight)
        size = {"x": x + 1, "y": y, "width": step - 2, "height": counts.bottom - y}
        counts.add(draw.element("rect", "f t0", fill_opacity=".7", **size))
        words = letter.replace("\n", "↵").replace(" ", "␣")
        counts.add(draw.text(x + step / 2, counts.bottom + 14, words, "middle", "on"))
    x, y = counts.at(0, 1 / len(said))
    counts.add(draw.line(x, y, counts.right, y, "l t4 thin d"))
    counts.add(draw.text(counts.right, counts.at(0, 0.125)[1], "dashed: all equal", "end"))
    return Figure(
        [draw.Panel(WIDTH, top + 24 * side + 4, tuple(held)), counts.panel()],
        "Left, the memory of a head after seventeen characters: a matrix of 24 by 24 numbers. "
        f"Right, how much each character counts for the last query: {min(weights):.2f} to "
        f"{max(weights):.2f}, where equal weights would be {1 / len(said):.2f}.",
        live="matrix",
    )


#: Pairs of letters and digits, as the panel of DeltaNet shows them first.
PAIRS = "a3b7a1c5b2a9"


@torch.no_grad()
def deltas():
    """Dot products of the keys at the digits of a line, in a DeltaNet that learned to recall."""
    model = delivered_model("delta_net")
    tokens = RecallGame.words().encode(PAIRS)[:, None]
    mixer, x = model.layers[0].mixer, model.layers[0].norm_mixer(model.embedding(tokens))
    qkv, _ = mixer.conv(torch.cat([mixer.query(x), mixer.key(x), mixer.value(x)], dim=-1))
    k = torch.nn.functional.silu(qkv)[1::2, 0, 32:64].unflatten(-1, (2, -1))[:, 1]
    k = torch.nn.functional.normalize(k, dim=-1)
    products = (k @ k.T).tril()
    pairs = [PAIRS[t : t + 2] for t in range(0, len(PAIRS), 2)]
    left, top, w, h = 40.0, 54.0, 40.0, 26.0
    parts = [
        draw.title("dot products of the keys"),
        draw.text(left, 30, "of this digit … and of that one →"),
    ]
    above = [[j > i for j in range(6)] for i in range(6)]
    parts += grid(left, top, products, 1, w, h, most=1.0, digits=2, hidden=above)
    for i, pair in enumerate(pairs):
        parts.append(draw.text(left - 6, top + (i + 0.5) * h + 4, pair, "end", "t1"))
        parts.append(draw.text(left + (i + 0.5) * w, top - 5, pair, "middle", "t1"))
        for j in range(i + 1):
            if pairs[j][0] == pair[0]:
                parts.append(frame(left + j * w, top + i * h, w, h, 1))
    same = [products[i, j].item() for i in range(6) for j in range(i) if pairs[i][0] == pairs[j][0]]
    others = [
        abs(products[i, j].item()) for i in range(6) for j in range(i) if pairs[i][0] != pairs[j][0]
    ]
    return Figure(
        [Panel(WIDTH, top + 6 * h + 4, tuple(parts))],
        f"A triangle: a row and a column for each of the pairs {', '.join(pairs)}. Two keys of the "
        f"same letter have a dot product of {min(same):.2f} or more, and keys of different letters "
        f"one between −{max(others):.2f} and {max(others):.2f}.",
        live="deltas",
    )


@torch.no_grad()
def forgets():
    """What is left at each character of a line of what was written at each one before."""
    model, vocabulary = _trained("delta_net")
    said = "What must the king"
    mixer = model.layers[0].mixer
    tokens = torch.tensor([vocabulary.index(letter) for letter in said])[:, None]
    x = model.layers[0].norm_mixer(model.embedding(tokens))
    duration = torch.nn.functional.softplus(mixer.alpha(x) + mixer.dt_bias)
    logs = (-mixer.A_log.exp() * duration)[:, 0, 0].cumsum(0)
    left = (logs[:, None] - logs).exp().tril()
    letters = [letter.replace(" ", "␣") for letter in said]
    panel = heat_map(
        left.tolist(),
        title="layer 1, head 1: what is left (dark: all of it)",
        rows=letters,
        columns=letters,
        down="read here",
        across="written there",
        most=1.0,
        cell=14,
    )
    return Figure(
        [panel],
        "A triangle: a row for each character of a line, a column for each one before it. In each "
        "word much is left of its letters; at the next space it is gone.",
        live="forgets",
    )


@torch.no_grad()
def memory():
    """The head of the Feedback Transformer that keeps the line break in view."""
    model, vocabulary = _trained("feedback")
    said = "ROMEO:\nWhat"
    state, rows = None, []
    with labml_nn.kernels.disabled():
        for token in torch.tensor([vocabulary.index(letter) for letter in said]):
            _, state = model(token[None, None], state)
            attn = model.transformer.layers[1].attn.attn
            found = [] if attn is None else attn[:, 0, 3].tolist()
            rows.append(found + [0.0] * (len(said) - len(found)))
    letters = [letter.replace("\n", "↵") for letter in said]
    panel = _map(
        rows,
        title="layer 2, head 4",
        down="step",
        across="memory slot",
        rows=letters,
        columns=letters,
    )
    return Figure(
        [panel],
        f"A map of {len(said)} steps by as many memory slots, of which each step sees those before "
        f"it. The last step gives {rows[-1][6]:.2f} of its weight to the line break.",
        live="memory",
    )


@torch.no_grad()
def cross():
    """What the first letters of a reply attend to."""
    model, vocabulary = _trained("encoder_decoder")
    said, reply = "BENVOLIO:\nGood-morrow, cousin.", "MERCUTIO:"
    source = torch.tensor([vocabulary.index(letter) for letter in said])[:, None]
    target = [model.config.start_token, *(vocabulary.index(letter) for letter in reply[:-1])]
    with labml_nn.kernels.disabled():
        model(torch.tensor(target)[:, None], model.encode(source))
    weights = model.transformer.decoder.layers[1].src_attn.attn[:, :10, 0, 1]
    panel = _map(
        weights.tolist(),
        title="layer 2, head 2",
        down="reply",
        across="source",
        rows=list(reply),
        columns=[*said[:9], "↵"],
    )
    return Figure(
        [panel],
        f"A map of {len(reply)} reply tokens by the first 10 source tokens. The first row gives "
        f"{weights[0, 6]:.2f} of its weight to the I of BENVOLIO.",
        live="cross",
    )


@torch.no_grad()
def positions():
    """How much each character of a text costs, with positions and without."""
    model, vocabulary = _trained("autoregressive")
    said = "ROMEO:\nWhat must"
    tokens = torch.tensor([vocabulary.index(letter) for letter in said])[:, None]
    rows = []
    for rotate in (modern.rotate, lambda x, positions, base=1.0: x):
        with patch.object(modern, "rotate", rotate):
            logits, _ = model(tokens[:-1])
        rows.append(cross_entropy(logits[:, 0], tokens[1:, 0], reduction="none").tolist())
    panel = heat_map(
        rows,
        title="loss of each character",
        rows=["with positions", "without"],
        columns=[letter.replace("\n", "↵").replace(" ", "␣") for letter in said[1:]],
    )
    means = [sum(row) / len(row) for row in rows]
    return Figure(
        [panel],
        f"The loss of each character of a text. With positions it is {means[0]:.2f} nats on "
        f"average, without {means[1]:.2f}.",
        live="positions",
    )


#: A line that ends, and the beginning of the next one.
LINES = "What must the king do now? must he submit?\nThe king shall do"


@torch.no_grad()
def clock():
    """The gates and the state of a cell of the LSTM that knows what is left of a line."""
    model, vocabulary = _trained("lstm")
    first, cell = model.lstm.cells
    below = above = h = c = torch.zeros(1, model.config.d_hidden)
    rows = []
    for x in _embedded(model, vocabulary, LINES):
        below, above = first(x, below, above)
        sums = cell.hidden_lin(h) + cell.input_lin(below)
        h, c = cell(below, h, c)
        gates = torch.sigmoid(sums.view(4, -1)[:2, 56]).tolist()
        rows.append([*gates, c[0, 56].item()])
    names = (("input gate", 0, 1), ("forget gate", 0, 1), ("cell state", 5, 2))
    return Figure(
        [_bars(rows[-18:], "layer 2, cell 57", names, LINES[-18:])],
        "A cell along the beginning of a line. The forget gate closes at the line break. The input "
        "gate is open at the first two letters, and nearly closed from then on. The cell state "
        "hardly changes within a word, and falls at each space.",
        live="lstm_gates",
    )


@torch.no_grad()
def line():
    """The gates and the state of a cell of the GRU that knows what is left of a line."""
    model, vocabulary = _trained("gru")
    first, cell = model.gru.cells
    below = h = torch.zeros(1, model.config.d_hidden)
    rows = []
    for x in _embedded(model, vocabulary, LINES):
        below = first(x, below)
        sums = cell.input_lin(below) + cell.hidden_lin(h)
        h = cell(below, h)
        gates = torch.sigmoid(sums.view(3, -1)[:2, 99]).tolist()
        rows.append([*gates, h[0, 99].item()])
    return Figure(
        [
            _strips(
                rows[-27:-9],
                "layer 2, cell 100",
                ["reset gate", "update gate", "state"],
                LINES[-27:-9],
            )
        ],
        "A cell at the end of a line and the beginning of the next one. Its state has fallen below "
        "0. At the line break and the letter after it the update gate is closed, and the state "
        "becomes 1. From then on the gate is open, and the state stays.",
        live="gru_gates",
    )


def recall():
    """What the six models of the recall game know of lines with more and more pairs."""
    names = {
        "elman": "Elman network",
        "lstm": "LSTM",
        "attention": "transformer",
        "linear_attention": "linear attention",
        "mamba2": "Mamba-2",
        "delta_net": "DeltaNet",
    }
    found = {}
    for name, title in names.items():
        script = WEIGHTS.joinpath(f"recall_{name}.js").read_text(encoding="utf-8")
        found[title] = json.loads(script[script.index("{") : script.rindex("}") + 1])["right"]
    lengths = next(iter(found.values()))["pairs"]
    sides = {"once": "each letter comes once", "again": "half of the pairs overwrite"}
    panels = [
        heat_map(
            [shares[side] for shares in found.values()],
            title=title,
            rows=list(found),
            columns=[str(n) for n in lengths],
            across="pairs",
            most=1.0,
        )
        for side, title in sides.items()
    ]
    rows = [
        [title, words, *(f"{100 * share:.0f}" for share in shares[side])]
        for side, words in sides.items()
        for title, shares in found.items()
    ]
    last = {title: (shares["once"][-1], shares["again"][-1]) for title, shares in found.items()}
    said = ", ".join(f"{title} {a:.0%} and {b:.0%}" for title, (a, b) in last.items())
    return Figure(
        panels,
        f"Two maps, a row for each model and a column for each number of pairs. With "
        f"{lengths[-1]} pairs the right answers are, with each letter once and with overwritten "
        f"letters: {said}.",
        table=Table(
            ["model", "lines", *map(str, lengths)],
            rows,
            title="Right answers in percent, by the number of pairs",
            align="lw" + "r" * len(lengths),
        ),
        live="recall",
    )


def _embedded(model, vocabulary, said):
    """The embeddings of a text, `[T, 1, C]`."""
    return model.embedding(torch.tensor([[vocabulary.index(letter)] for letter in said]))


def _bars(rows, title, names, letters):
    """Bars for each letter, in a strip for each name, with its tone and the most that it shows."""
    left, step, high = 78.0, 11.6, 34.0
    parts = [draw.title(title)]
    for k, (name, tone, most) in enumerate(names):
        foot = 56.0 + k * (high + 12)
        parts.append(draw.text(0, foot - 10, name, classes=f"t{tone}"))
        for value in (0, most):
            y = foot - high * value / most
            parts.append(draw.line(left, y, WIDTH, y, "g"))
            parts.append(draw.text(left - 5, y + 4, draw.shown(value), "end"))
        for t, row in enumerate(rows):
            tall = high * min(row[k] / most, 1)
            size = {"x": left + t * step + 1, "y": foot - tall, "width": step - 2, "height": tall}
            parts.append(draw.element("rect", f"f t{tone}", fill_opacity=".7", **size))
    end = 56 + (len(names) - 1) * (high + 12) + 18
    for t, letter in enumerate(letters):
        seen = letter.replace("\n", "↵").replace(" ", "␣")
        parts.append(draw.text(left + (t + 0.5) * step, end, seen, "middle", "on"))
    return draw.Panel(WIDTH, end + 6, tuple(parts))


def _strips(rows, title, names, letters):
    """What some letters gave, a row for each name."""
    return heat_map(
        [list(row) for row in zip(*rows, strict=True)],
        title=title,
        rows=names,
        columns=[letter.replace("\n", "↵").replace(" ", "␣") for letter in letters],
        most=1.0,
    )


def _trained(name):
    run = load_run(RESULTS / name)
    return run.model(), run.vocabulary.texts


def _map(weights, **options):
    """A heat map of attention, with room for a letter at each row and column."""
    return heat_map(weights, cell=14.0, most=1.0, **options)
