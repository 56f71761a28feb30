"""What each model remembers: its state as a picture, answers on tasks of memory, and its size."""

import json
import math
import sys
from functools import cache
from pathlib import Path
from statistics import median

import torch

import labml_nn
from docs_src.gates import CANDIDATE, GATE, GREY, KEPT, number, pipe, rounded, valve
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.delta_net import delta_rule_loop
from labml_nn.recurrent.elman import ElmanLayer
from labml_nn.recurrent.gated_delta_net import gated_delta_rule_loop
from labml_nn.recurrent.linear_attention import linear_attention_loop
from labml_nn.recurrent.mamba2 import ssd_loop
from pylit.figures.draw import (
    WIDTH,
    Figure,
    Panel,
    Table,
    arrow,
    bar_list,
    element,
    grid,
    line,
    listed,
    ribbon,
    short,
    shown,
    square,
    text,
    title,
)

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "results")]

from results import MISSING, RESULTS  # noqa: E402
from studies import BEST_MEMORY_RATE, CHOSEN_ON, MEMORY, MEMORY_RATES, results_of  # noqa: E402

#: Tokens after which a state is measured, and the bytes of a number.
LENGTHS, BYTES = (48, 1024, 8192), 4
#: The models, as this page calls them.
NAMES = {
    "elman": "Elman network",
    "gru": "GRU",
    "lstm": "LSTM",
    "autoregressive": "transformer",
    "feedback": "Feedback Transformer",
    "linear_attention": "linear attention",
    "mamba2": "Mamba-2",
    "delta_net": "DeltaNet",
    "gated_delta_net": "Gated DeltaNet",
}
KEY, VALUE, QUERY = 1, 2, 3

# --- States at one scale --------------------------------------------------------------------------

#: Numbers of a layer, the side of a square that is one number, and rows of keys that come.
FEATURES, SIDE, ROWS = 8, 8.0, (0, 3, 5, 3)
#: What each model keeps, and what a token does to it.
KEEPS = {
    "elman": ("Elman network, 1990", "8 numbers", "all are rewritten"),
    "lstm": ("LSTM, 1997", "8 shown, 8 kept", "added, through gates"),
    "gru": ("GRU, 2014", "8 numbers", "kept or replaced"),
    "autoregressive": ("transformer, 2017", "16 for each token", "appended"),
    "feedback": ("Feedback Transformer, 2020", "16 for each token", "once for all layers"),
    "linear_attention": ("linear attention, 2020", "8 by 8 numbers", "added"),
    "mamba2": ("Mamba-2, 2024", "8 by 8 numbers", "fades, then added"),
    "delta_net": ("DeltaNet, 2021 and 2024", "8 by 8 numbers", "replaced at its key"),
    "gated_delta_net": ("Gated DeltaNet, 2024", "8 by 8 numbers", "fades, then replaced"),
}
#: How much is left where all fades.
FADES = 0.5


@torch.no_grad()
def _states():
    """The states before and after a token, by the lessons' own code."""
    torch.manual_seed(2)
    x = torch.randn(len(ROWS), 1, FEATURES)
    k = torch.eye(FEATURES)[list(ROWS)].view(-1, 1, 1, FEATURES)
    v = (0.3 + torch.rand(len(ROWS), 1, 1, FEATURES)).square()
    one, empty = torch.ones(len(ROWS), 1, 1), torch.zeros(1, 1, FEATURES, FEATURES)
    fades = (FADES * one).log()
    elman = ElmanLayer(FEATURES, FEATURES)
    gru, lstm = GRU(FEATURES, FEATURES, 1), LSTM(FEATURES, FEATURES, 1)
    gru.cells[0].hidden_lin.bias[FEATURES : 2 * FEATURES] = 6 * torch.randn(FEATURES)
    h = [torch.zeros(1, FEATURES)]
    for x_t in x:
        h.append(elman.cell(x_t, h[-1]))
    found = {}
    for n in (len(ROWS) - 1, len(ROWS)):
        part = [each[:n] for each in (k, k, v)]
        kept = lstm(x[:n])[1]
        pairs = torch.stack((x[:n, 0].abs(), v[:n, 0, 0]), 1)
        now = {
            "elman": h[n].t(),
            "gru": gru(x[:n])[1][0].t(),
            "lstm": torch.cat((kept.h[0], kept.c[0])).t(),
            "autoregressive": pairs,
            "feedback": pairs,
            "linear_attention": linear_attention_loop(*part, empty)[1][0, 0],
            "mamba2": ssd_loop(*part, fades[:n], empty)[1][0, 0],
            "delta_net": delta_rule_loop(*part, one[:n], empty)[1][0, 0],
            "gated_delta_net": gated_delta_rule_loop(*part, one[:n], fades[:n], empty)[1][0, 0],
        }
        for name, state in now.items():
            found.setdefault(name, []).append(state)
    return found


def _squares(numbers, tone, most):
    """A square for each number, given with its place; the larger the number, the stronger."""
    paths = {}
    for x, y, value in numbers:
        level = round(0.1 + 0.8 * min(abs(value) / most, 1), 1)
        # A stroke as wide as it is long.
        stroke = f"M{short(x)} {short(y + SIDE / 2)}h{short(SIDE - 1)}"
        paths[level] = paths.get(level, "") + stroke
    return [
        element("path", f"c t{tone}", d=d, stroke_opacity=f"{level}", stroke_width=SIDE - 1)
        for level, d in sorted(paths.items())
    ]


def states():
    """The state of each model before and after a token, a small square for each number."""
    found, panels, high = _states(), [], FEATURES * SIDE
    for name, (head, size, change) in KEEPS.items():
        parts, top, x = [title(head)], 22.0, 0.0
        most = max(one.abs().max().item() for one in found[name])
        for i, state in enumerate(found[name]):
            if state.dim() == 2:
                state, tones, apart = state.t()[:, None], (KEPT,), SIDE
            else:  # a key and a value for each token
                tones, apart = (KEY, VALUE), 2 * SIDE + 3
            for j, tone in enumerate(tones):
                columns = enumerate(state[:, j].tolist())
                places = (
                    (x + t * apart + j * SIDE, top + row * SIDE, value)
                    for t, column in columns
                    for row, value in enumerate(column)
                )
                parts += _squares(places, tone, most)
            x += len(state) * apart
            if not i:
                parts.append(arrow(x + 6, top + high / 2, x + 24, top + high / 2, f"l t{GREY}"))
                x += 31
        left = 173.0
        parts.append(text(left, top + high / 2 - 5, size, classes="on"))
        parts.append(text(left, top + high / 2 + 13, change))
        panels.append(Panel(WIDTH, top + high + 4, tuple(parts)))
    told = "; ".join(f"{head}: {size}, {change}" for head, size, change in KEEPS.values())
    return Figure(panels, f"Nine states before and after one more token. {told}.")


# --- One line, seven memories ---------------------------------------------------------------------

#: The facts, and the keys of their names.
FACTS = (("Ann", 3), ("Ben", 2), ("Ann", 5))
PEOPLE = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0)}


def _told(tokens):
    """The facts as one-hot names and numbers of apples in tenths, `[T, 1, 3]`."""
    return torch.tensor([[*PEOPLE[name], count / 10] for name, count in tokens])[:, None]


@torch.no_grad()
def _rewritten():
    torch.manual_seed(4)
    layer, h, found = ElmanLayer(3, 4), torch.zeros(1, 4), []
    for x_t in _told(FACTS):
        h = layer.cell(2 * x_t, h)
        found.append(h[0].tolist())
    return found


def rewritten():
    """Four numbers of an Elman network after each fact."""
    found, parts = _rewritten(), [title("four numbers of the state")]
    w, h, top = 52.0, 25.0, 26.0
    for t, ((name, count), state) in enumerate(zip(FACTS, found, strict=True)):
        x = 14.0 + t * 102
        parts += grid(x, top, [[one] for one in state], KEPT, w, h, digits=2, most=1)
        parts.append(text(x + w / 2, top + 4 * h + 18, f"{name} {count}", "middle", "on"))
        if t:
            y = top + 2 * h
            parts.append(arrow(x - 46, y, x - 5, y, f"l t{KEPT} thick"))
    told = "; ".join(
        f"{name} {count}: {listed(state, 2)}"
        for (name, count), state in zip(FACTS, found, strict=True)
    )
    return Figure([Panel(WIDTH, top + 4 * h + 26, tuple(parts))], f"Three vectors. {told}.")


@torch.no_grad()
def _added():
    """Two cells by hand: one counts facts, the other those about Ann."""
    lstm = LSTM(3, 2, 1).double()
    for parameter in lstm.parameters():
        parameter.zero_()
    sums = torch.tensor([[10, 10, 0], [10, -10, 0]] + [[10, 10, 0]] * 6)  # i, f, g, o
    lstm.cells[0].input_lin.weight.copy_(sums)
    found, state = [], None
    for x_t in _told(FACTS).double():
        _, state = lstm(x_t[None], state)
        found.append(state.c.flatten().tolist())
    return found


def added():
    """Two cells of an LSTM, with the valves in front of their sums."""
    found, parts, said = _added(), [], []
    for i, (head, top) in enumerate((("a cell for all facts", 11.0), ("a cell for Ann", 135.0))):
        lane = top + 31
        parts.append(title(head, top))
        parts += number(16, lane, 0, KEPT, w=30, h=26)
        for t, (name, _) in enumerate(FACTS):
            x = 16.0 + (t + 1) * 86
            old = found[t - 1][i] if t else 0.0
            gate = found[t][i] - old
            parts.append(arrow(x - 70, lane, x - 18, lane, f"l t{KEPT} thick"))
            tone = CANDIDATE if gate > 0.5 else GREY
            parts += pipe(((x - 44, lane + 56), (x - 44, lane + 4)), tone)
            parts += valve(x - 44, lane + 30, gate, r=12)
            parts.append(text(x - 44, lane + 70, name, "middle", "on"))
            parts.append(text(x - 28, lane + 34, f"+{rounded(gate)}", classes=f"t{GATE}"))
            parts += number(x, lane, found[t][i], KEPT, w=30, h=26)
        said.append(f"{head}: {listed([round(state[i]) for state in found])}")
    return Figure(
        [Panel(WIDTH, 242, tuple(parts))],
        f"Two lines of numbers, to which valves add 1 or nothing. {'; '.join(said)}.",
    )


def appended():
    """Three keys and values, compared with the key of Ann."""
    keys = torch.tensor([PEOPLE[name] for name, _ in FACTS])
    values = torch.tensor([float(count) for _, count in FACTS])
    weights = torch.softmax(10 * keys @ torch.tensor(PEOPLE["Ann"]), 0)
    parts, top, h = [title("a list of keys and values")], 40.0, 34.0
    parts += [text(0, 33, "query", classes=f"t{QUERY}"), text(110, 33, "key", classes=f"t{KEY}")]
    parts.append(text(190, 33, "value", "middle", f"t{VALUE}"))
    parts.append(text(0, top + 1.5 * h + 4, "Ann?", classes="on"))
    for t, ((name, count), weight) in enumerate(zip(FACTS, weights.tolist(), strict=True)):
        y = top + (t + 0.5) * h
        parts.append(ribbon(36, top + 1.5 * h, 104, y, weight, 0, 10))
        parts += grid(108, y - 13, [PEOPLE[name]], KEY, 26, 26, most=2)
        parts += grid(176, y - 13, [[count]], VALUE, 28, 26, most=8)
        parts.append(text(214, y + 4, f"× {shown(round(weight, 2))}"))
    found = (weights @ values).item()
    parts.append(text(190, top + 3 * h + 18, f"= {rounded(found)}", "middle", "sum"))
    return Figure(
        [Panel(WIDTH, top + 3 * h + 26, tuple(parts))],
        f"The query Ann is compared with the keys Ann, Ben and Ann. Their weights are "
        f"{listed(weights.tolist(), 2)}, the values (3, 2, 5), and the answer is {rounded(found)}.",
    )


def _columns(head, steps, signs):
    """Memories with a row for Ann and one for Ben, and what is done between them."""
    parts, top, w, h = [title(head)], 30.0, 44.0, 28.0
    gap = (WIDTH - 36 - len(steps) * w) / max(len(steps) - 1, 1)
    for i, rows in enumerate(steps):
        x = 32.0 + i * (w + gap)
        parts += grid(x, top, [[row] for row in rows], KEPT, w, h, most=8)
        if i:
            middle, y = x - gap / 2, top + h
            parts.append(arrow(x - gap + 4, y + 6, x - 5, y + 6, f"l t{GREY}"))
            for j, words in enumerate(signs[i - 1]):
                parts.append(text(middle, y - 3 - 15 * j, words, "middle", "on" if not j else ""))
    for j, name in enumerate(PEOPLE):
        parts.append(text(26, top + (j + 0.5) * h + 4, name, "end"))
    told = ", then ".join(listed(rows) for rows in steps)
    return Figure(
        [Panel(WIDTH, top + 2 * h + 4, tuple(parts))], f"Numbers of Ann and Ben. {head}: {told}."
    )


def _after(loop, *rates):
    """The memory after each of the facts, as the loop of a lesson makes it."""
    k = torch.tensor([PEOPLE[name] for name, _ in FACTS]).view(-1, 1, 1, 2)
    v = torch.tensor([float(count) for _, count in FACTS]).view(-1, 1, 1, 1)
    found = []
    for n in range(1, len(FACTS) + 1):
        given = [each[:n] for each in (k, k, v, *rates)]
        found.append(loop(*given, torch.zeros(1, 1, 2, 1))[1].flatten().tolist())
    return found


ONES = torch.ones(len(FACTS), 1, 1)


def summed():
    """The memory of linear attention."""
    found = _after(linear_attention_loop)
    return _columns("each fact is added", found, (("Ben + 2",), ("Ann + 5",)))


def faded():
    """The memory of Mamba-2, when half of it is left at each token."""
    found = _after(ssd_loop, (FADES * ONES).log())
    signs = (("Ben + 2", "× 0.5"), ("Ann + 5", "× 0.5"))
    return _columns("all fades, then the fact is added", found, signs)


def corrected():
    """The memory of DeltaNet."""
    found = _after(delta_rule_loop, ONES)
    return _columns("the difference is written", found, (("Ben + 2",), ("Ann + 2", "5 − 3")))


def emptied():
    """The memory of Gated DeltaNet, and a token that clears it."""
    found = _after(gated_delta_rule_loop, ONES, torch.zeros_like(ONES))
    left = 0.1
    cleared = [round(left * one, 6) for one in found[-1]]
    signs = (("Ann + 2", "5 − 3"), ("end", f"× {left}"))
    return _columns("corrected, and then cleared", [found[1], found[2], cleared], signs)


# --- Tasks ----------------------------------------------------------------------------------------


def _answers(task):
    """The share of right answers of each model and seed, in percent."""
    found = results_of(task, RESULTS)
    return {name: [100 * run.result["accuracy"] for run in runs] for name, runs in found.items()}


def bench():
    """The tasks of memory and a text, at equal parameters."""
    on_tasks = [_answers(task) for task in CHOSEN_ON]
    on_text = results_of("models", RESULTS)
    rows = []
    for name in MEMORY:
        losses = [run.loss for run in on_text[name]]
        answers = (_spread(of[name], ".0f") for of in on_tasks)
        rows.append([NAMES[name], *answers, _spread(losses, ".2f")])
    notes = [
        "Tasks: right answers in percent, with 115,000 to 121,000 parameters. Tiny Shakespeare: "
        "the loss in nats per character, where less is better, with about 204,000 parameters. "
        "Median of five seeds, with the lowest and the highest where they differ."
    ]
    return Table(["model", *CHOSEN_ON, "Tiny Shakespeare"], rows, notes=notes)


def _dots(values, head, *, low=0.0, high=100.0, guess=None, ticks=(0, 50, 100), axis=""):
    """A row for each model, and a point for each of its seeds."""
    left, right, top, step = 136.0, WIDTH - 8, 26.0, 17.0
    bottom = top + step * len(values)

    def place(value):
        return left + (value - low) / (high - low) * (right - left)

    parts = [title(head)]
    for tick in ticks:
        parts.append(line(place(tick), top - 6, place(tick), bottom, "g"))
        parts.append(text(place(tick), bottom + 14, shown(tick), "middle"))
    if guess is not None:
        parts.append(line(place(guess), top - 6, place(guess), bottom, f"l t{GREY} thin d"))
    for i, (name, seeds) in enumerate(values.items()):
        y = top + i * step + 6
        parts.append(text(left - 10, y + 4, NAMES[name], "end"))
        for value in seeds:
            look = {"cx": place(value), "cy": y, "r": 4, "fill_opacity": ".5"}
            parts.append(element("circle", f"f t{KEPT}", **look))
    if axis:
        parts.append(text(right, bottom + 28, axis, "end"))
    told = "; ".join(f"{NAMES[name]} {_spread(seeds, '.3g')}" for name, seeds in values.items())
    panel = Panel(WIDTH, bottom + (32 if axis else 18), tuple(parts))
    return Figure([panel], f"A row for each model, a point for each of five seeds. {told}.")


def recall():
    """Right answers on recall."""
    return _dots(_answers("recall"), "recall: right answers in percent", guess=1.6)


def overwrite():
    """Right answers on overwrite."""
    return _dots(_answers("overwrite"), "overwrite: right answers in percent", guess=1.6)


def parity():
    """Right answers on parity."""
    return _dots(_answers("parity"), "parity: right answers in percent", guess=50)


def on_text():
    """The loss on Tiny Shakespeare."""
    found = results_of("models", RESULTS)
    losses = {name: [run.loss for run in found[name]] for name in MEMORY}
    look = {"low": 1.7, "high": 2.0, "ticks": (1.7, 1.8, 1.9, 2.0), "axis": "nats per character"}
    return _dots(losses, "Tiny Shakespeare: loss, less is better", **look)


def _causes(head, first, labels):
    """Bars: the first seed as it is, and with one thing changed."""
    kept = json.loads((HERE.parent / "results/memory_causes.json").read_text(encoding="utf-8"))
    shares = {run["label"]: 100 * run["accuracy"] for run in kept}
    named = [*first.items(), *((words, shares[label]) for words, label in labels.items())]
    words, values = [one[0] for one in named], [one[1] for one in named]
    panel = bar_list(words, values, [f"{x:.0f} %" for x in values], title=head, most=100, room=44)
    told = ", ".join(f"{one} {value:.0f} %" for one, value in named)
    return panel, f"{head}: {told}"


def forgetting():
    """Why Gated DeltaNet does worse."""
    panel, told = _causes(
        "Gated DeltaNet on recall",
        {"as it is": _answers("recall")["gated_delta_net"][0]},
        {
            "rate 0.01": "Gated DeltaNet, rate 0.01",
            "slow fading": "Gated DeltaNet, slow forgetting",
            "no second gate": "Gated DeltaNet, no output gate",
        },
    )
    return Figure([panel], f"{told}.")


def finding():
    """Why the models with a list do not find the later value."""
    answers = _answers("overwrite")
    panels = [
        _causes(
            f"{NAMES[name]} on overwrite",
            {"as it is": answers[name][0]},
            {words: f"{label}, {change}" for words, change in changes.items()},
        )
        for name, label, changes in (
            (
                "feedback",
                "feedback",
                {"rate 0.003": "rate 0.003", "3,200 updates": "four times the updates"},
            ),
            (
                "autoregressive",
                "transformer",
                {
                    "rate 0.01": "rate 0.01",
                    "3,200 updates": "four times the updates",
                    "four keys": "4 keys",
                },
            ),
        )
    ]
    return Figure([panel for panel, _ in panels], f"{'; '.join(told for _, told in panels)}.")


def scale():
    """States as squares, whose areas are their bytes."""
    most = _sizes("autoregressive")[1]
    big = WIDTH - 4
    unit = big / math.sqrt(most)
    left, top, told = 2.0, 22.0, []
    parts = [title("states of one sequence: areas are bytes")]
    parts.append(element("path", f"k t{KEY}", d=square(left, top, big, big), fill_opacity=".05"))
    parts.append(text(left + 5, top + 18, "transformer after 1,024 tokens", classes="on"))
    always = ("mamba2", "linear_attention", "delta_net", "gated_delta_net", "lstm", "elman", "gru")
    for x, head, tone, names in (
        (left + 5, "after 48 tokens", KEY, ("autoregressive", "feedback")),
        (left + 140, "always", KEPT, always),
    ):
        parts.append(text(x, top + 46, head))
        y = top + 54
        for name in names:
            size = _sizes(name)[0]
            side = unit * math.sqrt(size)
            look = {"d": square(x, y, side, side), "fill_opacity": ".4"}
            parts.append(element("path", f"k t{tone}", **look))
            at = (x + max(side + 6, 40), y + side / 2 + 4) if tone == KEPT else (x, y + side + 15)
            parts.append(text(*at, NAMES[name]))
            y += side + 28 if tone == KEY else max(side + 4, 15)
            told.append(f"{NAMES[name]}, {head}: {size:,}")
    return Figure(
        [Panel(WIDTH, top + big + 4, tuple(parts))],
        f"Squares inside a large one, that of the transformer after 1,024 tokens, {most:,} bytes. "
        f"{'; '.join(told)}.",
    )


def state():
    """The bytes of one sequence's state after so many tokens."""
    rows = []
    for name in MEMORY:
        sizes = _sizes(name)
        rows.append([NAMES[name], *(f"{size:,}" for size in sizes)])
    head = ["model", *(f"after {length:,} tokens" for length in LENGTHS)]
    notes = [
        "Bytes of the state of one sequence, with numbers of 4 bytes: the models of the tasks, "
        "with two layers. The feedback memory and the cache of the transformer are as long as "
        "the text here."
    ]
    return Table(head, rows, notes=notes)


def rates():
    """Right answers after half of the updates, for three learning rates."""
    found = results_of("memory_rates", RESULTS)
    rows = []
    for name in MEMORY:
        row = [NAMES[name]]
        for task, best in BEST_MEMORY_RATE.items():
            for rate in MEMORY_RATES:
                runs = found[f"{task}-{name}-{rate:g}"]
                mark = " ✓" if rate == best[name] else ""
                row.append((f"{100 * runs[0].result['accuracy']:.0f}" if runs else MISSING) + mark)
        rows.append(row)
    head = ["model", *(f"{task}, {rate:g}" for task in BEST_MEMORY_RATE for rate in MEMORY_RATES)]
    notes = [
        "Right answers in percent after half of the updates, one seed that is not used again. ✓ is "
        "the rate with the lowest loss, which was taken."
    ]
    return Table(head, rows, notes=notes)


@cache
def _sizes(name):
    """
    A state has a fixed size or grows with the text, by as much at each token. So two short texts
    are enough.
    """
    run = MEMORY[name]
    longest = {"max_len": 16} if name in ("autoregressive", "feedback") else {}
    model = labml_nn.create(run.experiment, n_vocab=130, **run.model, **longest).eval()
    sizes = []
    with torch.no_grad(), labml_nn.kernels.disabled():
        for length in (8, 12):
            _, after = model(torch.zeros(length, 1, dtype=torch.long))
            sizes.append(sum(part.numel() for part in _tensors(after)))
    short, long = sizes
    return [BYTES * (short + (long - short) // 4 * (length - 8)) for length in LENGTHS]


def _tensors(value):
    """Tensors of floating-point numbers in tuples and dataclasses."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    parts = value if isinstance(value, tuple | list) else getattr(value, "__dict__", {}).values()
    return [one for part in parts for one in _tensors(part)]


def _spread(values, digits):
    if not values:
        return MISSING
    low, middle, high = (f"{x:{digits}}" for x in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} – {high})"
