"""Ann, Ben and Cleo in a memory that replaces; layers of DeltaNet; how much a memory recalls."""

from functools import cache

import torch
from torch.nn import functional as F

from docs_src.matrix_memory import (
    ERROR,
    GREY,
    KEY,
    MEMORY,
    PEOPLE,
    QUERY,
    ROWS,
    SENTENCES,
    STAGE,
    VALUE,
    draw_cells,
    draw_chain,
    draw_fruits,
    draw_look,
    draw_memory,
    sum_of,
)
from docs_src.tasks import delta_net as task
from docs_src.tasks import results
from labml_nn.recurrent.delta_net import delta_rule_chunks, delta_rule_loop
from labml_nn.recurrent.linear_attention import linear_attention_chunks
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Knob,
    Panel,
    Plane,
    Plot,
    Stage,
    Table,
    arc,
    arrow,
    box,
    cell,
    element,
    frame,
    grid,
    hatch,
    hook,
    knot,
    line,
    listed,
    shown,
    tag,
    text,
    title,
)

FEATURES, BATCH = 16, 400
KEYS, ROUNDS = 8, (1, 2, 3, 4, 6, 8)
PAIRS = 64
AGES = (0, 1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 63)
#: The rates of the rule that are drawn; adding has none.
RULES = {"adding": None, "delta rule": 1.0, "β = 0.3": 0.3}
#: Where each curve has its name, on the left and on the right.
NAMES = {
    "adding": ((2.6, 0.36), (63, 0.34)),
    "delta rule": ((8, 0.9), (4, 0.9)),
    "β = 0.3": ((8, 0.58), (14, 0.53)),
}

# --- Ann, Ben and Cleo ----------------------------------------------------------------------------


@cache
def _read(count, beta=1.0, add=False):
    """What the key of the last of some sentences finds before, the error, and the memory after."""
    who, what = zip(*SENTENCES[:count], strict=True) if count else ((), ())
    k = torch.tensor([PEOPLE[name] for name in who]).view(-1, 1, 1, 2)
    v = torch.tensor(what, dtype=torch.float).view(-1, 1, 1, 2)
    memory, answer = torch.zeros(1, 1, 2, 2), torch.zeros(2)
    for t in range(count):
        answer = k[t, 0, 0] @ memory[0, 0]
        if add:
            memory = memory + k[t, ..., None] * v[t, ..., None, :]
        else:
            now = slice(t, t + 1)
            rate = torch.full((1, 1, 1), beta if t + 1 == count else 1.0)
            _, memory = delta_rule_loop(k[now], k[now], v[now], rate, memory)
    error = v[-1, 0, 0] - answer if count else answer
    return answer.tolist(), error.tolist(), memory[0, 0].tolist()


def sentences():
    """What is known after each of three sentences, if it is added and if it replaces."""
    panels, said = [], []
    for words, add in (("adding", True), ("replacing", False)):
        parts, w, y = [title(words)], 40.0, 58.0
        for i in range(3):
            x, rows = 28.0 + i * 90, _read(i + 1, add=add)[2]
            parts.append(text(x + w, 33, f"sentence {i + 1}", "middle", "on"))
            parts += draw_memory(x, y, rows, w, names=() if i else ROWS)
            said.append(f"{words} {listed(rows[0])}, {listed(rows[1])}")
        parts.append(frame(x - 1, y - 1, 2 * w + 2, 30, ERROR if add else VALUE))
        result = "wrong" if add else "right"
        tone = ERROR if add else VALUE
        parts.append(text(x + w, y + 74, result, "middle", f"t{tone}"))
        panels.append(Panel(WIDTH + 12, y + 78, tuple(parts)))
    return Figure(
        panels,
        "Two rows of tables of who has how many apples and pears, after each of three sentences: "
        f"{'; '.join(said)}. What Ann has is wrong if it was added.",
    )


def _product(name, what):
    """The outer product of a key and a value, as a table of multiplication."""
    key, x, y = PEOPLE[name], 116.0, 74.0
    parts = [title(f"{name}: {listed(what)}"), text(x - 78, y + 33, "key", classes=f"t{KEY}")]
    parts += grid(x - 50, y, [[one] for one in key], KEY, 34, 28, most=2)
    parts += [text(x - 10, y + 33, "×", "middle", "on")]
    parts += grid(x, y - 38, [what], VALUE, 46, 28, most=8)
    parts.append(text(x + 100, y - 20, "value", classes=f"t{VALUE}"))
    parts += draw_fruits(x, y - 38, 46)
    product = [[a * b for b in what] for a in key]
    parts += grid(x, y, product, MEMORY, 46, 28, most=5)
    parts += [text(x + 100, y + 18 + 28 * i, f"{one}’s row") for i, one in enumerate(ROWS)]
    return Panel(WIDTH, y + 58, tuple(parts)), product


def writing():
    """The first two sentences: key times value is a matrix with one row."""
    (first, a), (second, b) = (_product(*one) for one in SENTENCES[:2])
    return Figure(
        [first, second],
        "Two tables of multiplication, with a key of two numbers on the left and a value of two "
        f"numbers above. The key of Ann gives {listed(a[0])} in the first row and zeros in the "
        f"second. That of Ben gives zeros in the first row and {listed(b[1])} in the second.",
    )


def reading():
    """Asking for Ann."""
    rows, key = _read(2)[2], PEOPLE["Ann"]
    found = [sum(k * row[j] for k, row in zip(key, rows, strict=True)) for j in range(2)]
    parts = [title("Ann?"), *draw_look(key, rows, found, tone=QUERY)]
    parts.append(text(104 + 116, 144, "what she has"))
    return Figure(
        [Panel(WIDTH, 158, tuple(parts))],
        f"The query {listed(key)} stands beside the memory with the rows {listed(rows[0])} and "
        f"{listed(rows[1])}. The rows times its numbers, added up, are {listed(found)}.",
    )


def adding():
    """The third sentence, added."""
    before, after = _read(2)[2], _read(3, add=True)[2]
    new = [[a - b for a, b in zip(*both, strict=True)] for both in zip(after, before, strict=True)]
    w, parts, x = 34.0, [title("the third sentence is added")], 32.0
    for rows, sign in ((before, "+"), (new, "="), (after, "")):
        parts += grid(x, 40, rows, MEMORY, w, 30, most=5)
        parts.append(text(x + 2 * w + 10, 74, sign, "middle", "on"))
        x += 2 * w + 20
    parts += [text(26, 59 + 30 * i, one, "end") for i, one in enumerate(ROWS)]
    parts.append(frame(x - 2 * w - 22, 39, 2 * w + 4, 32, ERROR))
    parts.append(text(x - w - 20, 122, f"{shown(after[0][0])} apples?", "middle", f"t{ERROR}"))
    parts += [text(32 + w, 32, "before", "middle"), text(32 + 3 * w + 20, 32, "new", "middle")]
    parts.append(text(32 + 5 * w + 40, 32, "after", "middle"))
    return Figure(
        [Panel(WIDTH, 130, tuple(parts))],
        f"The memory {listed(before[0])}, {listed(before[1])} plus {listed(new[0])}, "
        f"{listed(new[1])} is {listed(after[0])}, {listed(after[1])}.",
    )


def rule():
    """Read, error, write, ask: for the third sentence, or for one that the reader makes."""
    answer, error, after = _read(3)
    before, (_, value), key = _read(2)[2], SENTENCES[2], PEOPLE["Ann"]
    read = [title("read"), *draw_look(key, before, answer, hooks=True)]
    read.append(text(0, 84, "key", classes=f"t{KEY}"))
    read.append(text(222, 144, "the answer"))

    x, w, h = 104.0, 54.0, 32.0
    wrong = [title("error"), *draw_fruits(x, 48, w)]
    rows = ((value, VALUE, "value", "value"), (answer, GREY, "answer", "− answer"))
    for i, (numbers, tone, name, words) in enumerate((*rows, (error, ERROR, "error", "= error"))):
        y = 48 + i * h + (12 if i == 2 else 0)
        wrong += draw_cells(x, y, [numbers], tone, w, h, name)
        wrong.append(text(x - 10, y + h / 2 + 4, words, "end", "" if tone == GREY else f"t{tone}"))
    wrong.append(line(x - 62, 48 + 2 * h + 6, x + 2 * w, 48 + 2 * h + 6, "g"))

    change = [[k * one for one in error] for k in key]
    x, w, y, h = 104.0, 66.0, 84.0, 44.0
    write = [title("write"), text(x - 10, 50, "β × error", "end", f"t{ERROR}")]
    write += draw_cells(x, 32, [error], ERROR, w, 28, "written")
    write += draw_cells(x - 52, y, [[one] for one in key], KEY, 38, h, "key", 2.0)
    write += [text(x - 7, y + (i + 0.5) * h + 4, "×", "middle") for i in range(2)]
    write += draw_cells(x, y, after, MEMORY, w, h, "after", change="change")
    for i in range(2):
        for j in range(2):
            words = sum_of(before[i][j], change[i][j])
            at = x + (j + 0.5) * w, y + i * h + 16
            write.append(hook(text(*at, words, "middle", f"t{ERROR}"), "change"))
        write.append(text(x + 2 * w + 8, y + (i + 0.5) * h + 4, ROWS[i]))
    write += draw_fruits(x, y, w)

    ask, w = (
        [
            title("ask"),
            text(0, 36, "name"),
            *_headed(62, "has", VALUE),
            *_headed(176, "finds", MEMORY),
        ],
        52.0,
    )
    has = [value, _read(2)[2][1], value]
    keys = [PEOPLE["Ann"], PEOPLE["Ben"], key]
    found = [
        [sum(a * row[j] for a, row in zip(one, after, strict=True)) for j in range(2)]
        for one in keys
    ]
    for i, name in enumerate(("Ann", "Ben", "this key")):
        y = 44.0 + i * 40
        ask.append(text(0, y + 20, name))
        ask += draw_cells(62, y, [has[i]], VALUE, 50, 32, "has")
        ask += draw_cells(176, y, [found[i]], MEMORY, 56, 32, "found")
        off = element(
            "rect", f"l t{ERROR}", x=174, y=y - 1, width=114, height=34, rx=3, stroke_opacity=0
        )
        ask.append(hook(off, "off"))
    panels = [Panel(WIDTH, 176, tuple(parts)) for parts in (read, wrong, write, ask)]
    told = (
        f"The key {listed(key)} finds {listed(answer)}. The error is {listed(error)}, and 1 of it "
        f"is written. Then the key finds {listed(found[2])}."
    )
    return Figure(
        panels,
        f"Four pictures. Read: the key {listed(key)} finds {listed(answer)}. Error: the value "
        f"{listed(value)} minus this answer is {listed(error)}. Write: key times error is added, "
        f"and the memory is {listed(after[0])}, {listed(after[1])}. Ask: Ann finds "
        f"{listed(found[0])} and Ben {listed(found[1])}.",
        stage=Stage(
            "rule",
            [
                Choice("before", "The memory knows", ("Ann, Ben", "Ann, Ben, Ann")),
                Choice(
                    "who",
                    "Now comes",
                    ("Ann", "Ben", "Cleo"),
                    sets=(
                        {"key": 0, "apples": 1, "pears": 1},
                        {"key": 1, "apples": 6, "pears": 4},
                        {"key": 0.8, "apples": 5, "pears": 0},
                    ),
                ),
                Knob("key", "Key, second number", 0, 1, 0.1, 0),
                Knob("beta", "β, share written", 0, 1, 0.1, 1),
                Knob("apples", "Value, apples", 0, 6, 1, 1),
                Knob("pears", "Value, pears", 0, 6, 1, 1),
            ],
            {"memories": [before, _read(3)[2]], **STAGE},
            told,
            ("read", "error", "write", "ask"),
        ),
    )


def _headed(x, words, tone):
    return [text(x + 52, 36, words, "middle", f"t{tone}")]


def rules():
    """What linear attention writes, and what DeltaNet writes."""
    panels = []
    for name, delta in (("linear attention", False), ("DeltaNet", True)):
        parts = [title(f"{name} writes the {'error' if delta else 'value'}")]
        parts += [*grid(96, 30, [[0.4, 0.2], [0.3, 0.5]], MEMORY, 40, 26, digits=0, most=1)]
        parts.append(arrow(30, 56, 92, 56, f"l t{KEY} thick"))
        parts.append(text(0, 60, "key", classes=f"t{KEY}"))
        parts.append(text(236, 140, "value", classes=f"t{VALUE}"))
        if delta:
            parts.append(line(178, 56, 206, 56, f"l t{GREY} thick"))
            parts.append(arrow(206, 56, 206, 125, f"l t{GREY} thick"))
            parts.append(text(212, 82, "answer"))
            parts.append(arrow(232, 136, 217, 136, f"l t{VALUE} thick"))
            parts.append(knot(206, 136, "−", ERROR))
            parts.append(line(196, 136, 136, 136, f"l t{ERROR} thick"))
            parts.append(arrow(136, 136, 136, 86, f"l t{ERROR} thick"))
            parts.append(text(128, 124, "error", "end", f"t{ERROR}"))
        else:
            parts.append(line(230, 136, 136, 136, f"l t{VALUE} thick"))
            parts.append(arrow(136, 136, 136, 86, f"l t{VALUE} thick"))
        panels.append(Panel(WIDTH, 152, tuple(parts)))
    return Figure(
        panels,
        "Left, in linear attention a key and a value lead into the memory. Right, in DeltaNet the "
        "key also leads out of it with an answer, which is subtracted from the value; the error "
        "leads into the memory.",
    )


# --- The task -------------------------------------------------------------------------------------

#: Pairs of the picture, and the names that are asked after them.
TOLD = (("Ann", 3), ("Ben", 7), ("Ann", 1), ("Cleo", 5), ("Ben", 2), ("Ann", 9))


def asked():
    """Six pairs, and two questions: arcs lead to the number that counts."""
    parts, step, y = [title("only the last number counts")], 40.0, 78.0
    xs = [20 + i * step for i in range(len(TOLD))]
    last = {name: i for i, (name, _) in enumerate(TOLD)}
    for i, (name, number) in enumerate(TOLD):
        counts = last[name] == i
        parts.append(text(xs[i], y, name, "middle", f"t{KEY}"))
        parts.append(cell(xs[i] - 15, y + 8, 30, 28, *((VALUE, 0.3) if counts else (GREY, 0.04))))
        parts.append(text(xs[i], y + 27, str(number), classes="n" if counts else "z"))
    x = xs[-1] + step + 6
    parts.append(text(x, y, "Ann?", "middle", f"t{QUERY}"))
    parts.append(text(x, y + 27, str(TOLD[last["Ann"]][1]), "middle", "sum"))
    for i, (name, _) in enumerate(TOLD):
        if name == "Ann":
            tone, weight = (QUERY, 0.3) if i == last["Ann"] else (GREY, 0.05)
            parts.append(
                arc(
                    xs[i],
                    x - 4,
                    y - 14,
                    16 + 7 * (len(TOLD) - i),
                    weight,
                    tone,
                    near=i == last["Ann"],
                )
            )
    return Figure(
        [Panel(WIDTH, 122, tuple(parts))],
        "Six pairs of a name and a number: "
        + ", ".join(f"{name} {number}" for name, number in TOLD)
        + f". Then Ann is asked, and the right answer is {TOLD[last['Ann']][1]}, her last number.",
    )


def overwriting():
    """The share of right answers, by how many numbers a name has got: five seeds of each model."""
    found = results("delta_net", "by_times")
    plot = Plot(
        (1, task.TIMES[-1]),
        (0, 1.05),
        title="right answers, five runs each",
        x_label="numbers that the name has got so far",
        height=170,
        x_ticks=(1, 4, 8, 12, 16, 20, 24),
        y_ticks=(0, 0.5, 1),
    )
    tones = dict(zip(task.MODELS, (MEMORY, GREY), strict=True))
    for model, runs in found.items():
        # Equal runs are one line.
        for run in dict.fromkeys(map(tuple, runs)):
            plot.line(task.TIMES, run, tones[model])
    guess = 1 / task.NUMBERS
    plot.line((1, task.TIMES[-1]), (guess, guess), GREY, dashed=True)
    plot.add(text(*plot.at(24, 0.92), "writes the error: 1.00, all five", "end", f"t{MEMORY}"))
    plot.add(text(*plot.at(5, 0.36), "writes the value"))
    plot.add(text(*plot.at(24, 0.02), "guessing", "end", "halo"))
    rows = []
    times = (1, 2, 4, 8, 16, 24)
    for model, runs in found.items():
        shares = [[run[n - 1] for run in runs] for n in times]
        rows.append([model, *(f"{min(one):.2f} to {max(one):.2f}" for one in shares)])
    ends = {model: [run[-1] for run in runs] for model, runs in found.items()}
    return Figure(
        [plot.panel()],
        "The share of right answers over the numbers that a name has got. After "
        f"{task.TIMES[-1]} of them it is "
        + ", ".join(f"{min(one):.2f} to {max(one):.2f} ({model})" for model, one in ends.items())
        + ".",
        Table(["numbers so far", *map(str, times)], rows),
    )


# --- Similar keys ---------------------------------------------------------------------------------


def directions():
    """The keys of Ann, Ben and Cleo as arrows, and what Cleo's key finds."""
    plane = Plane((0, 1), (0, 1), 116, 30, 40)
    parts = [title("three keys in a plane"), *plane.axes()]
    for key in PEOPLE.values():
        parts.append(plane.vector(*key, KEY))
    x, y = plane.at(*PEOPLE["Cleo"])
    parts.append(line(x, y, x, plane.at(0, 0)[1], f"l t{KEY} thin d"))
    parts.append(line(x, y, plane.at(0, 0)[0], y, f"l t{KEY} thin d"))
    parts.append(text(x + 5, y - 5, "Cleo", classes="on halo"))
    parts.append(text(plane.at(1, 0)[0] + 8, plane.at(1, 0)[1] + 4, "Ann (1, 0)", classes="on"))
    parts.append(text(plane.at(0, 1)[0] + 8, plane.at(0, 1)[1] - 8, "Ben (0, 1)", classes="on"))
    parts.append(text(x + 4, plane.at(0, 0)[1] - 6, "0.6", classes=f"t{KEY}"))
    parts.append(text(plane.at(0, 0)[0] + 6, y + 15, "0.8", classes=f"t{KEY}"))
    rows, (answer, *_) = _read(3)[2], _read(4)
    look = [title("Cleo’s key finds a bit of both"), *draw_look(PEOPLE["Cleo"], rows, answer)]
    look.append(text(222, 144, "the answer"))
    return Figure(
        [Panel(WIDTH, 176, tuple(parts)), Panel(WIDTH, 176, tuple(look))],
        "Left, three arrows of length 1: the key of Ann to the right, that of Ben upwards, and "
        f"that of Cleo between them. Right, Cleo's key times the rows {listed(rows[0])} and "
        f"{listed(rows[1])} is {listed(answer)}.",
    )


def disturbed():
    """What all three have, and what their keys find after Cleo was written."""
    after, said = _read(4)[2], []
    parts = [title("after Cleo was written"), text(116, 34, "has", "middle", f"t{VALUE}")]
    parts.append(text(228, 34, "finds", "middle", f"t{MEMORY}"))
    for i, (name, what) in enumerate((SENTENCES[2], SENTENCES[1], SENTENCES[3])):
        y = 42.0 + i * 36
        found = [
            sum(k * row[j] for k, row in zip(PEOPLE[name], after, strict=True)) for j in range(2)
        ]
        parts.append(text(0, y + 19, name))
        parts += grid(68, y, [what], VALUE, 48, 30, most=8)
        parts += grid(174, y, [found], MEMORY, 56, 30, most=5)
        if max(abs(a - b) for a, b in zip(found, what, strict=True)) > 0.01:
            parts.append(frame(173, y, 114, 30, ERROR))
        said.append(f"{name} has {listed(what)} and finds {listed(found)}")
    return Figure([Panel(WIDTH, 152, tuple(parts))], f"{'; '.join(said)}.")


def first_and_last():
    """Of 64 pairs, the first, the last and all: how often each memory finds its value."""
    parts, y, said = [title("the value is found")], 30.0, []
    for name, words, tone in (("adding", "adding", GREY), ("delta rule", "replacing", MEMORY)):
        shares = _by_age(RULES[name])
        parts.append(text(0, y + 4, words, classes="on"))
        rows = (("first pair", shares[-1]), ("last pair", shares[0]), ("all", _of_all(RULES[name])))
        for which, share in rows:
            y += 18
            size = {"x": 84, "y": y - 8, "width": max(share * 150, 1), "height": 13}
            parts.append(text(76, y + 3, which, "end"))
            strength = ".8" if which == "all" else ".45"
            parts.append(element("rect", f"f t{tone}", fill_opacity=strength, **size))
            parts.append(
                text(90 + share * 150, y + 3, f"{share:.0%}".replace("%", " %"), classes="num")
            )
            said.append(f"{words}, {which}: {share:.0%}")
        y += 26
    return Figure(
        [Panel(WIDTH, y - 10, tuple(parts))],
        f"Bars for {PAIRS} pairs in a memory for {FEATURES} features. {'; '.join(said)}.",
    )


# --- β, gradient descent, formula -----------------------------------------------------------------


def believe():
    """The answer moves towards the value, as far as β says."""
    answer, value = _read(3)[0], SENTENCES[2][1]
    left, unit, y = 40.0, 56.0, 76.0
    parts = [title("Ann’s apples, after the third sentence")]
    parts.append(line(left, y, left + 4 * unit, y, f"l t{GREY}"))
    for n in range(5):
        parts.append(line(left + n * unit, y - 4, left + n * unit, y + 4, f"l t{GREY}"))
        parts.append(text(left + n * unit, y + 44, str(n), "middle"))
    for beta, words in ((0.0, "β = 0"), (0.5, "β = 0.5"), (1.0, "β = 1")):
        x = left + _read(3, beta)[2][0][0] * unit
        parts.append(element("circle", f"f t{MEMORY}", cx=x, cy=y, r=6))
        parts.append(text(x, y + 23, words, "middle", "on"))
    start, end = left + answer[0] * unit, left + value[0] * unit
    parts.append(arrow(start, y - 22, end + 3, y - 22, f"l t{ERROR} thick"))
    parts.append(text((start + end) / 2, y - 30, "error: −2", "middle", f"t{ERROR}"))
    parts.append(text(start + 6, y - 18, "answer"))
    parts.append(text(end - 8, y - 18, "value", "end", f"t{VALUE}"))
    return Figure(
        [Panel(WIDTH, 126, tuple(parts))],
        "A line of numbers from 0 to 4. The answer is 3 apples, and the value 1. With β = 0 Ann "
        "keeps 3, with 0.5 she has 2, with 1 she has 1.",
    )


def descent():
    """The losses whose steps are the writes of both rules, over one number of the memory."""
    start, value = _read(2)[2][0][0], SENTENCES[2][1][0]
    left = Plot(
        (-1, 4),
        (0, 2.5),
        title="DeltaNet: ½ (1 − S)²",
        x_label="S, Ann’s apples",
        height=116,
        x_ticks=range(-1, 5),
        y_ticks=(0, 1, 2),
    )
    xs = [i / 10 - 1 for i in range(43)]
    left.line(xs, [(value - x) ** 2 / 2 for x in xs], GREY)
    for beta, words, at, dx in (
        (0.0, "3", "start", 9),
        (0.5, "β = 0.5", "start", 9),
        (1.0, "β = 1", "middle", 0),
    ):
        s = _read(3, beta)[2][0][0]
        x, y = left.at(s, (value - s) ** 2 / 2)
        left.add(element("circle", f"f t{ERROR}", cx=x, cy=y, r=5))
        if beta:
            left.add(text(x + dx, y - 10 if beta == 1 else y + 4, words, at, "on halo"))
        else:
            left.add(text(x - 10, y - 2, "before: loss 2", "end", "on halo"))
            left.add(line(x - 26, y + 27, x + 17, y - 17.7, f"l t{GREY} d"))
            left.add(text(x + 3, y + 26, "slope 2", "start", "on halo"))
    right = Plot(
        (-1, 4),
        (-6, 1.5),
        title="linear attention: −S · 1",
        x_label="S, Ann’s apples",
        height=116,
        x_ticks=range(-1, 5),
        y_ticks=(-4, -2, 0),
    )
    right.line((-1, 4), (1, -4), GREY)
    for s, words in ((start, "before: 3"), (start + value, "after: 4")):
        x, y = right.at(s, -s)
        right.add(element("circle", f"f t{ERROR}", cx=x, cy=y, r=5))
        right.add(text(x - 8, y + 15, words, "end", "on halo"))
    return Figure(
        [left.panel(), right.panel()],
        "Left, a parabola with its lowest point at 1 apple. From 3 a step with β = 1 leads to that "
        "point, and with β = 0.5 half of the way. Right, a line that falls without end: a step "
        "leads from 3 to 4 apples.",
    )


def chain():
    """The first formula as boxes, with the numbers of Ann's second sentence."""
    answer, error, after = _read(3)
    to = "#delta_rule_loop"
    levels = (
        ("memory before", MEMORY, "", (("S", MEMORY), ("ₜ₋₁", MEMORY)), "(3, 1), (2, 4)"),
        ("read: k S", GREY, to, (), listed(answer)),
        ("error: v − answer", ERROR, to, (), listed(error)),
        (
            "write: + β kᵀ error",
            MEMORY,
            to,
            (("S", MEMORY), ("ₜ", MEMORY)),
            ", ".join(map(listed, after)),
        ),
        ("ask: q S", QUERY, to, (("y", None), ("ₜ", None)), listed(after[0])),
    )
    return Figure(
        [draw_chain(levels, 96.0, 164)],
        "A chain of boxes: the memory before, read, error, write, ask. The memory before also "
        f"leads to the box that writes. For Ann the numbers are {listed(answer)}, {listed(error)}, "
        f"and then {listed(after[0])}.",
    )


def transition():
    """With β = 0.5: what is left of the old memory, and what is written; for Ann, and for Cleo."""
    beta, panels, said = 0.5, [], []
    for count, (name, value) in ((3, SENTENCES[2]), (4, SENTENCES[3])):
        key, before = PEOPLE[name], _read(count - 1)[2]
        keep = [[(i == j) - beta * key[i] * key[j] for j in range(2)] for i in range(2)]
        left = [
            [sum(keep[i][m] * before[m][j] for m in range(2)) for j in range(2)] for i in range(2)
        ]
        new = [[beta * a * b for b in value] for a in key]
        after = _read(count, beta)[2]
        w, parts = 41.0, [title(f"{name} comes with {listed(value)}")]
        rows = (
            ("transition", keep, "·", before, "=", left),
            ("… + write", left, "+", new, "=", after),
        )
        for row, (words, *cells) in enumerate(rows):
            x, y = 0.0, 42.0 + row * 88
            parts.append(text(0, y - 7, words))
            for at in range(0, 5, 2):
                matrix = cells[at]
                tone, most = (KEY, 1) if matrix is keep else (MEMORY, 5)
                parts += grid(x, y, matrix, tone, w, 27, most=most)
                if at < 4:
                    parts.append(text(x + 2 * w + 10, y + 31, cells[at + 1], "middle", "on"))
                x += 2 * w + 21
        panels.append(Panel(WIDTH, 42 + 88 + 58, tuple(parts)))
        said.append(
            f"{name}: the matrix {listed(keep[0])}, {listed(keep[1])} times the memory "
            f"{listed(before[0])}, {listed(before[1])} is {listed(left[0])}, {listed(left[1])}. "
            f"{listed(new[0])}, {listed(new[1])} is added, and the memory is {listed(after[0])}, "
            f"{listed(after[1])}."
        )
    return Figure(panels, " ".join(said))


def at_once():
    """The errors from those before: as arcs, and as a system of equations."""
    keys = [PEOPLE[name] for name, _ in SENTENCES]
    errors = [_read(t + 1)[1] for t in range(4)]
    table = [[sum(a * b for a, b in zip(k, one, strict=True)) for one in keys] for k in keys]
    parts, xs, y = [title("each error from those before")], [34.0, 104.0, 174.0, 248.0], 116.0
    for end in range(1, 4):
        for t in range(end):
            if not table[end][t]:
                continue
            high, last = (84 - 22 * t, 6 * t) if end == 3 else (34, 0)
            parts.append(arc(xs[t], xs[end] - 9 + last, y - 16, high, table[end][t] / 3, KEY))
            middle = (xs[t] + xs[end]) / 2 - (26 - 8 * t if end == 3 else 14)
            at = middle, y - 14 - 0.75 * high
            parts.append(text(*at, shown(table[end][t]), "middle", "on halo"))
    for t, (name, what) in enumerate(SENTENCES):
        parts.append(cell(xs[t] - 33, y - 14, 66, 26, ERROR, 0.14))
        parts.append(text(xs[t], y + 3, listed(errors[t]), "middle", "on"))
        parts.append(text(xs[t], y + 30, name, "middle", f"t{KEY}"))
        parts.append(text(xs[t], y + 46, listed(what), "middle", f"t{VALUE}"))
    w, h, x, top = 35.0, 28.0, 0.0, 44.0
    system = [title("four equations, four unknowns")]
    for words, at, tone in (
        ("dot products", 2 * w, KEY),
        ("errors", 181, ERROR),
        ("values", 257, VALUE),
    ):
        system.append(text(at, top - 8, words, "middle", f"t{tone}"))
    for i in range(4):
        for j in range(4):
            at = x + j * w + 1, top + i * h + 1, w - 2, h - 2
            if j > i:
                system.append(hatch(*at))
                continue
            system.append(cell(*at, KEY, 0.05 + 0.3 * table[i][j]))
            look = "n" if table[i][j] else "z"
            system.append(
                text(x + (j + 0.5) * w, top + (i + 0.5) * h + 4, shown(table[i][j]), classes=look)
            )
        for at, words, tone in (
            (148, f"u{_below(i + 1)}", ERROR),
            (229, listed(SENTENCES[i][1]), VALUE),
        ):
            wide = 66 if tone == ERROR else 58
            system.append(cell(at + 1, top + i * h + 1, wide - 2, h - 2, tone, 0.14))
            system.append(text(at + wide / 2, top + (i + 0.5) * h + 4, words, "middle", "on"))
    system.append(text(144, top + 2 * h + 4, "·", "middle", "on"))
    system.append(text(221, top + 2 * h + 4, "=", "middle", "on"))
    return Figure(
        [Panel(WIDTH, y + 52, tuple(parts)), Panel(WIDTH, y + 52, tuple(system))],
        f"Left, four errors in a row: {', '.join(map(listed, errors))}. Lines lead from each to "
        "those that follow, with the dot products of their keys: "
        + "; ".join(f"{listed(table[i][:i])} to error {i + 1}" for i in range(1, 4))
        + ". Right, the same numbers as a triangular matrix times the four errors: its rows are "
        "the four values.",
    )


def price():
    """What attention keeps and what a memory keeps, after 2, 4 and 8 tokens."""
    parts, x = [title("kept after 2, 4 and 8 tokens")], 74.0
    parts += [text(0, 46, "attention"), text(0, 102, "DeltaNet")]
    for count in (2, 4, 8):
        for row, tone in ((0, KEY), (1, VALUE)):
            parts += grid(x, 28 + 13 * row, [[0.5] * count], tone, 11, 13, digits=0, most=1)
        parts += grid(x, 84, [[0.5, 0.3], [0.2, 0.6]], MEMORY, 15, 15, digits=0, most=1)
        parts.append(text(x, 132, str(count), classes="on"))
        x += max(count, 4) * 11 + 20
    return Figure(
        [Panel(WIDTH, 138, tuple(parts))],
        "Attention keeps a key and a value for each of 2, 4 and 8 tokens. The memory of DeltaNet "
        "is a square of the same size each time.",
    )


# --- The layer, and random pairs ------------------------------------------------------------------


def layer():
    """From the input at the bottom to the output at the top; the memory lies across."""
    return _layer(gated=False)


def gated_layer():
    """The same with a memory that fades, and a gate."""
    return _layer(gated=True)


def _layer(gated):
    last = {"β": 173, "α": 219, "gate": 266} if gated else {"β": 198}
    columns = (
        {"q": 26, "k": 76, "v": 126, **last} if gated else {"q": 30, "k": 86, "v": 142, **last}
    )
    wide = 42 if gated else 46
    rail, bottom, convolved, unit, memory, norm, top = 272, 234, 186, 158, 92, 54, 8
    inside, loop = f"#{'Gated' * gated}DeltaNet", f"#{'gated_' * gated}delta_rule_loop"
    forward = f"{inside}.forward"
    parts = [
        text(WIDTH / 2, 298, "x", "middle"),
        line(WIDTH / 2, 286, WIDTH / 2, rail, "l t4"),
        line(columns["q"], rail, max(columns.values()), rail, "l t4"),
    ]
    for name, x in columns.items():
        parts += [
            arrow(x, rail, x, bottom + 23, "l t4"),
            box(x, bottom, wide, 22, "linear", 0, inside),
        ]
        if name != "gate":
            parts.append(text(x + 5, memory + 53, name))
        if name in "qkv":
            words = (
                text(x, convolved + y, one, "middle") for y, one in ((15, "conv"), (29, "SiLU"))
            )
            inside_box = box(x, convolved, wide, 36, "", 4) + "".join(words)
            parts += [
                arrow(x, bottom, x, convolved + 37, "l t0"),
                tag("a", inside_box, href="#ShortConvolution"),
            ]
    for name in "qk":
        x = columns[name]
        parts += [
            line(x, convolved, x, unit + 22, "l t0"),
            box(x, unit, wide, 22, "L2", 0, forward),
            arrow(x, unit, x, memory + 37, "l t0"),
        ]
    # What makes numbers from 0 to 1, and the gate.
    bounds = {"β": "σ", "α": "σᵃ", "gate": "SiLU"} if gated else {"β": "σ"}
    for name, words in bounds.items():
        x = columns[name]
        parts += [
            arrow(x, bottom, x, convolved + 30, "l t0"),
            box(x, convolved + 7, wide + 2, 22, words, 0, forward),
        ]
        if name != "gate":
            parts.append(arrow(x, convolved + 7, x, memory + 37, "l t0"))
    end = columns["α"] if gated else columns["β"]
    middle = (columns["q"] + end) / 2
    words = "fade, " * gated + "read, correct the memory"
    parts += [
        arrow(columns["v"], convolved, columns["v"], memory + 37, "l t0"),
        # A memory for each head.
        *(box(middle + 4 * k, memory - 4 * k, 204, 36, "", 5) for k in (2, 1)),
        element("rect", "o", x=middle - 102, y=memory, width=204, height=36, rx=4),
        box(middle, memory, 204, 36, words, 5, loop),
        arrow(middle, memory - 8, middle, norm + 23, "l t0"),
        box(middle, norm, 60, 22, "norm", 0, forward),
    ]
    if not gated:
        parts.append(text(middle + 116, memory + 8, "one for"))
        parts.append(text(middle + 116, memory + 22, "each head"))
    out = columns["v"] if gated else middle
    if gated:
        # What the heads found passes the gate.
        gate = columns["gate"]
        parts += [
            line(middle, norm, middle, 40, "l t0"),
            arrow(middle, 40, gate - 11, 40, "l t0"),
            arrow(gate, convolved + 7, gate, 51, "l t0"),
            text(gate - 5, memory - 20, "gate", "end"),
            element("circle", "l t0", cx=gate, cy=40, r=10),
            text(gate, 44, "×", "middle"),
            line(gate, 30, gate, top + 11, "l t0"),
            arrow(gate, top + 11, out + 25, top + 11, "l t0"),
        ]
    else:
        parts.append(arrow(middle, norm, middle, top + 23, "l t0"))
    parts += [
        box(out, top, 50, 22, "linear", 0, inside),
        arrow(out - 25, top + 11, 60, top + 11, "l t0"),
        text(50, top + 15, "y", "middle"),
    ]
    return Figure(
        [Panel(WIDTH, 304, tuple(parts))],
        f"The input x goes through {'six' if gated else 'four'} linear projections. Query, key "
        "and value then pass a short convolution and a SiLU, and query and key are divided by "
        f"their length. All of them reach the memory, of which each head has one, with the "
        f"number{'s alpha and' * gated} beta, from 0 to 1. What the "
        f"query finds there is normalised, {'multiplied by a gate, ' * gated}and projected to the "
        "output y.",
    )


def recall():
    """Left: pairs whose values change again and again. Right: more pairs than fit."""
    changing = {name: [_rewritten(rate, n) for n in ROUNDS] for name, rate in RULES.items()}
    many = {name: _by_age(rate) for name, rate in RULES.items()}
    left = Plot(
        (1, ROUNDS[-1]),
        (0, 1),
        height=140,
        title=f"{KEYS} keys, each written again",
        x_label="times that each key was written",
    )
    right = Plot(
        (0, AGES[-1]),
        (0, 1),
        height=140,
        title=f"{PAIRS} keys, each written once",
        x_label="pairs written since",
    )
    for tone, name in enumerate(RULES):
        for plot, at, shares, (x, y) in zip(
            (left, right), (ROUNDS, AGES), (changing[name], many[name]), NAMES[name], strict=True
        ):
            plot.line(at, shares, tone)
            plot.note(x, y, name, "end" if x == at[-1] else "start")
    rows = [
        [name, *(f"{share:.2f}" for share in (*changing[name][:2], changing[name][-1]))]
        + [f"{many[name][AGES.index(age)]:.2f}" for age in (0, 8, 63)]
        for name in RULES
    ]
    first, last = changing["adding"][0], changing["adding"][-1]
    new, old = many["adding"][0], many["adding"][-1]
    return Figure(
        [left.panel(), right.panel()],
        f"Left: the sum finds {first:.0%} of the values when each key is written once, and "
        f"{last:.0%} when it is written {ROUNDS[-1]} times. The delta rule finds "
        f"{changing['delta rule'][-1]:.0%}. Right: the sum finds {new:.0%} of the last "
        f"values and {old:.0%} of the first ones. The delta rule finds all of the last "
        f"values, {many['delta rule'][AGES.index(8)]:.0%} of those that were written eight pairs "
        "before, and hardly any of the first ones.",
        Table(["memory", "1 write", "2", f"{ROUNDS[-1]}", "last pair", "8 before", "63"], rows),
    )


def _written(rate, keys, values):
    """The memory after these pairs, `[B, 1, D, D]`; with `rate` None it is their sum."""
    empty = torch.zeros(BATCH, 1, FEATURES, FEATURES)
    if rate is None:
        return linear_attention_chunks(keys, keys, values, empty)[1]
    beta = torch.full(keys.shape[:-1], rate)
    return delta_rule_chunks(keys, keys, values, beta, empty)[1]


def _found(memory, keys, values):
    """Whether the answer to each key is nearest in direction to its own value, `[T, B]`."""
    answers = torch.einsum("tbhd,bhde->tbe", keys, memory)
    nearest = torch.einsum("tbe,sbe->tbs", answers, values[:, :, 0]).argmax(-1)
    return (nearest == torch.arange(len(keys))[:, None]).float()


def _directions(seed, *sizes):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*sizes, BATCH, 1, FEATURES, generator=generator), dim=-1)


def _rewritten(rate, rounds):
    """The share of keys that find their last value among all values that were ever written."""
    keys, values = _directions(1, KEYS), _directions(2, rounds, KEYS)
    memory = _written(rate, keys.repeat(rounds, 1, 1, 1), values.flatten(0, 1))
    # The values of the last round come first, where their keys are.
    found = _found(memory, keys, values.flip(0).flatten(0, 1))
    return found.mean().item()


@cache
def _shares(rate):
    """The share of pairs that are found, for each number of pairs that were written since."""
    keys, values = _directions(3, PAIRS), _directions(4, PAIRS)
    return _found(_written(rate, keys, values), keys, values).mean(1).flip(0).tolist()


def _by_age(rate):
    return [_shares(rate)[age] for age in AGES]


def _of_all(rate):
    return sum(_shares(rate)) / PAIRS


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
