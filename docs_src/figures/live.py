"""Pictures of the trained models, each above the button that runs its model in the page."""

import json
from pathlib import Path
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy

import labml_nn
from docs_src.live.recall import RecallGame, delivered_model
from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.checkpoint import load_run
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
        title="kept, layer 2",
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


@torch.no_grad()
def matrix():
    """The memory of a head of linear attention, after two words."""
    model, vocabulary = _trained("linear_attention")
    said = ("ROMEO:", "ROMEO:\nBut, soft!")
    panels, largest = [], []
    for text in said:
        tokens = torch.tensor([vocabulary.index(letter) for letter in text])[:, None]
        memory = model(tokens)[1].layers[0][0][0, 0, :, :-1]
        largest.append(memory.abs().max().item())
        title = "after " + text.replace("\n", "↵")
        panels.append(heat_map(memory.tolist(), title=title, down="key", across="value", cell=9.0))
    return Figure(
        panels,
        "The memory of a head after six characters and after seventeen: a matrix of the same size, "
        f"whose largest number grows from {largest[0]:.1f} to {largest[1]:.1f}.",
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
        rows.append([*gates, c[0, 56].item() / 2])
    return Figure(
        [
            _strips(
                rows[-18:],
                "layer 2, cell 57",
                ["input gate", "forget gate", "half the state"],
                LINES[-18:],
            )
        ],
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
        "elman": "Elman",
        "lstm": "LSTM",
        "attention": "attention",
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
