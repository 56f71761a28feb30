"""Chapter two: Ann, Ben and Cleo in a memory that also fades."""

import math
from functools import cache

import torch

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
from docs_src.tasks import gated_delta_net as task
from docs_src.tasks import results
from labml_nn.recurrent.gated_delta_net import gated_delta_rule_loop
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Knob,
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
    shown,
    text,
    title,
)

#: The last token of the example, and how much is left when its chapter begins.
CLEO, LEFT = ("Cleo", (5, 0)), 0.1
FIRST = SENTENCES[:2]


@cache
def _read(pairs=(*FIRST, CLEO), alpha=LEFT):
    """What the last key finds before, the error, and the memory, which fades before the last."""
    k = torch.tensor([PEOPLE[name] for name, _ in pairs]).view(-1, 1, 1, 2)
    v = torch.tensor([what for _, what in pairs], dtype=torch.float).view(-1, 1, 1, 2)
    fades = torch.tensor([1.0] * (len(pairs) - 1) + [alpha]).view(-1, 1, 1)
    one, empty = torch.ones_like(fades), torch.zeros(1, 1, 2, 2)
    last, old = len(pairs) - 1, empty
    if last:
        given = (part[:last] for part in (k, k, v, one, fades.log()))
        _, old = gated_delta_rule_loop(*given, empty)
    answer = alpha * (k[last, 0, 0] @ old[0, 0])
    _, memory = gated_delta_rule_loop(k, k, v, one, fades.log(), empty)
    return answer.tolist(), (v[last, 0, 0] - answer).tolist(), memory[0, 0].tolist()


def _before(alpha=1.0):
    """The memory after the first chapter, faded."""
    return [[alpha * number for number in what] for _, what in FIRST]


def chapters():
    """What Cleo's key finds when chapter two begins: without fading and with it."""
    panels, said, w = [], [], 48.0
    key = PEOPLE[CLEO[0]]
    for words, alpha in (("DeltaNet", 1.0), ("Gated DeltaNet", LEFT)):
        parts, y = [title(words)], 58.0
        states = (("chapter one", _before()), ("chapter two", _before(alpha)))
        for i, (head, rows) in enumerate(states):
            x = 34.0 + i * 146
            parts.append(text(x + w, 33, head, "middle", "on"))
            parts += draw_memory(x, y, rows, w, names=() if i else ROWS)
            said.append(f"{words}, {head}: {listed(rows[0])}, {listed(rows[1])}")
        parts.append(arrow(136, y + 28, 174, y + 28, f"l t{GREY}"))
        if alpha < 1:
            parts.append(text(155, y + 20, f"× {shown(alpha)}", "middle", "on"))
        found = [
            sum(k * row[j] for k, row in zip(key, _before(alpha), strict=True)) for j in range(2)
        ]
        parts.append(text(174, y + 84, "Cleo?", "end", f"t{QUERY} on"))
        parts += grid(180, y + 66, [found], GREY, w, 28, most=5)
        parts.append(frame(179, y + 65, 2 * w + 2, 30, ERROR if alpha == 1 else VALUE))
        verdict = "of chapter one" if alpha == 1 else "nearly nothing"
        tone = ERROR if alpha == 1 else VALUE
        parts.append(text(180 + w, y + 110, verdict, "middle", f"t{tone}"))
        said.append(f"there Cleo's key finds {listed(found)}, {verdict}")
        panels.append(Panel(WIDTH, y + 114, tuple(parts)))
    return Figure(panels, f"Two memories. {'; '.join(said)}.")


def fading():
    """The whole memory, times 0.1."""
    parts, x, w = [title("chapter two: α = 0.1")], 62.0, 42.0
    parts += [text(0, 73, f"{shown(LEFT)}  ×", classes="on")]
    parts += draw_memory(x + 20, 40, _before(), w, 30)
    parts.append(text(x + 2 * w + 32, 74, "=", "middle", "on"))
    parts += draw_memory(x + 2 * w + 46, 40, _before(LEFT), w, 30, names=())
    return Figure(
        [Panel(WIDTH, 104, tuple(parts))],
        f"{shown(LEFT)} times the memory with the rows (3, 1) and (2, 4) is (0.3, 0.1) and "
        "(0.2, 0.4).",
    )


def rule():
    """Fade, read, error, write: for Cleo, or for another."""
    answer, error, after = _read()
    faded, value, key = _before(LEFT), CLEO[1], PEOPLE[CLEO[0]]
    x, w, h = 104.0, 66.0, 44.0
    fade = [title("fade"), text(0, 96, "α ×", classes="on"), *draw_fruits(x, 48, w)]
    fade += draw_cells(x, 48, faded, MEMORY, w, h, "faded", change="old")
    for i in range(2):
        for j in range(2):
            words = f"{shown(LEFT)} · {shown(_before()[i][j])}"
            at = x + (j + 0.5) * w, 48 + i * h + 16
            fade.append(hook(text(*at, words, "middle", f"t{GREY}"), "old"))
        fade.append(text(x - 8, 48 + (i + 0.5) * h + 4, ROWS[i], "end"))

    read = [title("read"), *draw_look(key, faded, answer, hooks=True)]
    read += [text(0, 84, "key", classes=f"t{KEY}"), text(222, 144, "the answer")]

    w, h = 54.0, 32.0
    wrong = [title("error"), *draw_fruits(x, 48, w)]
    rows = ((value, VALUE, "value", "value"), (answer, GREY, "answer", "− answer"))
    for i, (numbers, tone, name, words) in enumerate((*rows, (error, ERROR, "error", "= error"))):
        y = 48 + i * h + (12 if i == 2 else 0)
        wrong += draw_cells(x, y, [numbers], tone, w, h, name)
        wrong.append(text(x - 10, y + h / 2 + 4, words, "end", "" if tone == GREY else f"t{tone}"))
    wrong.append(line(x - 62, 48 + 2 * h + 6, x + 2 * w, 48 + 2 * h + 6, "g"))

    w, y, h = 72.0, 84.0, 44.0
    write = [title("write"), text(x - 10, 50, "error", "end", f"t{ERROR}")]
    write += draw_cells(x, 32, [error], ERROR, w, 28, "error")
    write += draw_cells(x - 52, y, [[one] for one in key], KEY, 38, h, "key", 2.0)
    write += [text(x - 7, y + (i + 0.5) * h + 4, "×", "middle") for i in range(2)]
    write += draw_cells(x, y, after, MEMORY, w, h, "after", change="change")
    for i in range(2):
        for j in range(2):
            words = sum_of(faded[i][j], key[i] * error[j])
            at = x + (j + 0.5) * w, y + i * h + 16
            write.append(hook(text(*at, words, "middle", f"t{ERROR}"), "change"))
        write.append(text(x + 2 * w + 6, y + (i + 0.5) * h + 4, ROWS[i]))
    write += draw_fruits(x, y, w)
    panels = [Panel(WIDTH, 176, tuple(parts)) for parts in (fade, read, wrong, write)]
    told = (
        f"The key {listed(key)} finds {listed(answer)} of what was there before, and the error is "
        f"{listed(error)}."
    )
    return Figure(
        panels,
        f"Four pictures. Fade: the memory times {shown(LEFT)}. Read: the key {listed(key)} finds "
        f"{listed(answer)}. Error: {listed(error)}. Write: the memory is {listed(after[0])}, "
        f"{listed(after[1])}.",
        stage=Stage(
            "fading",
            [
                Choice(
                    "who",
                    "Now comes",
                    ("Ann", "Ben", "Cleo"),
                    2,
                    sets=(
                        {"key": 0, "apples": 1, "pears": 1},
                        {"key": 1, "apples": 6, "pears": 4},
                        {"key": 0.8, "apples": 5, "pears": 0},
                    ),
                ),
                Knob("alpha", "α, share kept", 0, 1, 0.05, LEFT),
                Knob("key", "Key, second number", 0, 1, 0.1, 0.8),
                Knob("apples", "Value, apples", 0, 6, 1, 5),
                Knob("pears", "Value, pears", 0, 6, 1, 0),
            ],
            {"memory": _before(), **STAGE},
            told,
            ("fade", "read", "error", "write"),
        ),
    )


def fresh():
    """What Ann's and Ben's keys find after Cleo: in an empty memory, a faded one, and another."""
    parts, x, w, said = [title("after Cleo was written")], 36.0, 42.0, []
    pairs = (
        ("was empty", _read((CLEO,), 1.0)[2]),
        ("has faded", _read()[2]),
        ("has not faded", _read((*FIRST, CLEO), 1.0)[2]),
    )
    for i, (head, rows) in enumerate(pairs):
        parts.append(text(x + w - 1, 34, head, "middle", "on"))
        parts += grid(x, 42, rows, MEMORY, w - 2, 30, most=5)
        if i:
            parts.append(frame(x - 1, 41, 2 * w - 2, 62, VALUE if i == 1 else ERROR))
        said.append(f"{head}: {listed(rows[0], 3)}, {listed(rows[1], 3)}")
        x += 2 * w + 1
    parts += [text(32, 61 + 30 * i, f"{one}?", "end", f"t{QUERY}") for i, one in enumerate(ROWS)]
    return Figure(
        [Panel(WIDTH, 108, tuple(parts))],
        "Three memories after Cleo was written, with what Ann's key and Ben's key find. "
        f"{'; '.join(said)}.",
    )


def chain():
    """The formula as boxes, with the numbers of Cleo."""
    answer, error, _ = _read()
    to = "#gated_delta_rule_loop"
    levels = (
        ("memory before", MEMORY, "", (("S", MEMORY), ("ₜ₋₁", MEMORY)), "(3, 1), (2, 4)"),
        (
            "fade: α S",
            MEMORY,
            to,
            (("S′", MEMORY), ("ₜ", MEMORY)),
            ", ".join(map(listed, _before(LEFT))),
        ),
        ("read: k S′", GREY, to, (), listed(answer)),
        ("error: v − answer", ERROR, to, (), listed(error)),
        ("write: + β kᵀ error", MEMORY, to, (("S", MEMORY), ("ₜ", MEMORY)), "(3.1, −0.13), …"),
        ("ask: q S", QUERY, to, (("y", None), ("ₜ", None)), "(5, 0)"),
    )
    return Figure(
        [draw_chain(levels, 78.0, 132)],
        "A chain of boxes: the memory before, fade, read, error, write, ask. The faded memory also "
        f"leads to the box that writes. For Cleo the answer is {listed(answer)}, the error "
        f"{listed(error)}.",
    )


def two_ways():
    """Two ways to lose something: one row, or all of it."""
    panels = []
    ways = (
        ("β: what Ann has is replaced", [[0.0, 0.0], _before()[1]], "β, value (0, 0)"),
        ("α: all fades", _before(LEFT), "α"),
    )
    for words, rows, name in ways:
        parts, w = [title(words)], 42.0
        parts += draw_memory(34, 40, _before(), w, 30)
        parts.append(arrow(124, 72, 184, 72, f"l t{GREY}"))
        parts.append(text(154, 62, name.split(",", maxsplit=1)[0], "middle", "on"))
        parts += draw_memory(192, 40, rows, w, 30, names=())
        panels.append(Panel(WIDTH, 104, tuple(parts)))
    return Figure(
        panels,
        "Left, Ann's key comes with the value (0, 0), and her row is (0, 0) afterwards; Ben's row "
        "is (2, 4) as before. Right, all numbers are a tenth of what they were.",
    )


def left_over():
    """What is left of a memory after some tokens."""
    plot = Plot(
        (0, 50),
        (0, 1),
        title="what is left, if α is always the same",
        x_label="tokens later",
        height=120,
        y_ticks=(0, 0.5, 1),
    )
    steps = range(51)
    for alpha, at, dx, dy in ((0.99, 30, 0, 0.06), (0.9, 10, 0.7, 0.02), (0.5, 2.3, 0.6, 0.0)):
        plot.line(steps, [alpha**t for t in steps], MEMORY)
        plot.note(at + dx, alpha**at + dy, f"α = {alpha}")
    return Figure(
        [plot.panel()],
        f"Three curves that fall from 1. After ten tokens {0.99**10:.2f} is left with α = 0.99, "
        f"{0.9**10:.2f} with 0.9 and {0.5**10:.3f} with 0.5.",
    )


#: Powers a of four heads, and where each curve has its name.
POWERS = ((0.1, 1.3, 0.94), (1, 0.35, 0.48), (4, -1.0, 0.34), (16, -3.5, 0.48))


def powers():
    """What a head keeps over the sum z, for different powers a."""
    plot = Plot(
        (-6, 4),
        (0, 1.05),
        title="α = σ(−z)ᵃ",
        x_label="z, a sum of the token",
        height=130,
        x_ticks=range(-6, 5, 2),
        y_ticks=(0, 0.5, 1),
    )
    zs = [i / 10 for i in range(-60, 41)]
    at = math.log(0.1 / 0.9)
    plot.add(line(plot.at(at, 0)[0], plot.at(at, 1)[1], *plot.at(at, 0), f"l t{GREY} d"))
    rows = []
    for a, x, y in POWERS:
        plot.note(x, y, f"a = {a}", "end" if a == 16 else "start")
        kept = [1 / (1 + math.exp(z)) ** a for z in zs]
        plot.line(zs, kept, MEMORY)
        here, there = plot.at(at, 0.9**a)
        plot.add(element("circle", f"f t{MEMORY}", cx=here, cy=there, r=4))
        rows.append(f"{0.9**a:.2f} with a = {a}")
    return Figure(
        [plot.panel()],
        "Four curves that fall from 1 to 0 as z grows; the larger the power a, the earlier. Where "
        f"the sigmoid is 0.9, a head keeps {', '.join(rows)}.",
    )


#: What a head has found, and the sums of its two gates.
FOUND, SUMS = (2.0, -1.0), (2.0, -4.0)


def second_gate():
    """The SiLU of two sums, times what a head has found."""
    plot = Plot(
        (-6, 3),
        (-0.6, 3),
        title="the gate, z · σ(z)",
        x_label="z",
        height=112,
        x_ticks=range(-6, 4, 2),
        y_ticks=(0, 1, 2, 3),
    )
    zs = [i / 10 for i in range(-60, 31)]
    plot.line(zs, torch.nn.functional.silu(torch.tensor(zs)).tolist(), GREY)
    gates = torch.nn.functional.silu(torch.tensor(SUMS)).tolist()
    for z, gate in zip(SUMS, gates, strict=True):
        x, y = plot.at(z, gate)
        plot.add(element("circle", f"f t{GREY}", cx=x, cy=y, r=4.5))
        words = f"{shown(z)} → {shown(gate, 2)}"
        plot.add(text(x - 9 if z > 0 else x, y - 9, words, "end" if z > 0 else "middle", "on halo"))
    passed = [gate * one for gate, one in zip(gates, FOUND, strict=True)]
    parts, x, w = [title("what goes on")], 96.0, 64.0
    rows = ((FOUND, MEMORY, "found"), (gates, GREY, "× gate"), (passed, VALUE, "= passes"))
    for i, (numbers, tone, words) in enumerate(rows):
        y = 30.0 + i * 34 + (8 if i == 2 else 0)
        parts += grid(x, y, [numbers], tone, w, 28, most=4, digits=2 if i else None)
        parts.append(text(x - 10, y + 18, words, "end", "on" if i == 2 else ""))
    parts.append(line(x - 64, 100, x + 2 * w, 100, "g"))
    return Figure(
        [plot.panel(), Panel(WIDTH, 142, tuple(parts))],
        f"Left, a curve that is nearly 0 for negative z and nearly z for large ones: at "
        f"{shown(SUMS[0])} it is {shown(gates[0], 2)}, and at {shown(SUMS[1])} "
        f"{shown(gates[1], 2)}. Right, {listed(FOUND)} times these is {listed(passed, 2)}.",
    )


# --- The task -------------------------------------------------------------------------------------

#: Pairs of two chapters, and the names that are asked.
TOLD = ((("Ann", 3), ("Ben", 7), ("Ann", 1)), (("Cleo", 5), ("Ben", 2)))
ASKED = (("Ben?", "2"), ("Ann?", "none"))


def asked():
    """Two chapters, and what is right in the second."""
    parts, x, y = [title("only this chapter counts")], 18.0, 46.0
    for number, pairs in enumerate(TOLD):
        left = x
        for name, what in pairs:
            parts.append(text(x, y, name, "middle", f"t{KEY}"))
            parts.append(cell(x - 15, y + 8, 30, 28, *((VALUE, 0.3) if number else (GREY, 0.04))))
            parts.append(text(x, y + 27, str(what), classes="n" if number else "z"))
            x += 38
        parts.append(text((left + x - 38) / 2, y + 56, f"chapter {number + 1}", "middle"))
        if not number:
            parts.append(line(x - 15, y - 12, x - 15, y + 60, f"l t{GREY} d"))
            x += 8
    x += 8
    for name, answer in ASKED:
        parts.append(text(x, y, name, "middle", f"t{QUERY}"))
        parts.append(text(x, y + 27, answer, "middle", "sum"))
        x += 40
    return Figure(
        [Panel(WIDTH, y + 62, tuple(parts))],
        "Three pairs of chapter one: Ann 3, Ben 7, Ann 1. Two of chapter two: Cleo 5, Ben 2. Then "
        "Ben is asked, and 2 is right; Ann is asked, and none is right.",
    )


def by_chapter():
    """Right answers by the pairs of the chapter so far: names with a number, and names without."""
    panels, said = [], []
    tones = dict(zip(task.MODELS, (MEMORY, GREY), strict=True))
    kinds = (("have", "asked: a name with a number"), ("none", "asked: a name without one"))
    for kind, words in kinds:
        found = results("gated_delta_net", f"{kind}_by_pairs")
        plot = Plot(
            (1, task.PAIRS[-1]),
            (0, 1.05),
            title=words,
            x_label="pairs of the chapter so far",
            height=150,
            x_ticks=(1, 4, 8, 12, 16),
            y_ticks=(0, 0.5, 1),
        )
        for model, runs in found.items():
            for run in runs:
                plot.line(task.PAIRS, run, tones[model])
        with_, without = (0.88, 0.22) if kind == "have" else (0.3, 0.62)
        if kind == "have":
            plot.add(text(*plot.at(16, with_), "with α, five runs", "end", f"t{MEMORY}"))
        plot.add(text(*plot.at(16, without), "without α, five runs", "end"))
        panels.append(plot.panel())
    rows = []
    for model in task.MODELS:
        shares = [results("gated_delta_net", name)[model] for name in ("all", "have", "none")]
        rows.append([model, *(f"{min(one):.2f} to {max(one):.2f}" for one in shares)])
        said.append(f"{rows[-1][2]} and {rows[-1][3]} ({model})")
    return Figure(
        panels,
        "Right answers over the pairs of a chapter. Left, of names that have a number in this "
        f"chapter; right, of names that have none: {'; '.join(said)}.",
        Table(["network", "all", "with a number", "without"], rows),
    )


def mixed():
    """Four layers of a large model: three Gated DeltaNets, and attention."""
    parts, x = [title("four layers of a large model")], 110.0
    for i in range(4):
        y = 128.0 - i * 34
        words, tone = ("attention", KEY) if i == 3 else ("Gated DeltaNet", MEMORY)
        parts.append(box(x, y, 150, 24, words, tone))
        parts.append(text(x + 86, y + 16, "a growing list" if i == 3 else "a fixed memory"))
        if i:
            parts.append(arrow(x, y + 34, x, y + 26, f"l t{GREY}"))
    return Figure(
        [Panel(WIDTH, 156, tuple(parts))],
        "Four boxes from below: three times Gated DeltaNet with a fixed memory, then attention "
        "with a growing list.",
    )
