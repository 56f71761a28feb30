"""The pictures of the lesson on the Feedback Transformer, in the order in which it shows them.

Its worked example is a program. The tables of results are those that running the program gives; the
other numbers come out of the lesson's modules, of a trained model and of the kept measurements.
"""

import json
import math
from html import escape
from pathlib import Path
from statistics import fmean

import torch
import torch.fx.experimental.symbolic_shapes  # `autograd.grad` imports it, in a figure's time

import labml_nn
from docs_src.tasks import results
from labml_nn import kernels
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackMemory,
    FeedbackTransformer,
    FeedbackTransformerLayer,
)
from pylit.figures.draw import (
    WIDTH,
    Figure,
    Knob,
    Panel,
    Plot,
    Stage,
    Table,
    arc,
    arrow,
    bar_list,
    box,
    cell,
    element,
    frame,
    grid,
    hook,
    letter,
    line,
    listed,
    ribbon,
    shown,
    text,
    title,
)

RESULTS = Path(__file__).parents[1] / "results"
#: The roles, as tones of `pylit.figures.draw`.
A, K, V, Q, GREY, STATE, ERROR = range(7)

# --- The worked example ---------------------------------------------------------------------------

PROGRAM = ("x = 3", "y = 5", "if y > 4: x = x + 4", "if x > 6: y = y + 1", "print(y)")
#: The variable that a line sets, or prints; and the lines whose results it needs.
SETS, NEEDS = ("x", "y", "x", "y", "y"), ((), (), (0, 1), (1, 2), (3,))


def _states():
    """The values of `x` and `y` after each line, by running it; without `y` at first."""
    values, found = {"print": lambda value: None}, []
    for source in PROGRAM:
        exec(source, values)
        found.append({name: values[name] for name in "xy" if name in values})
    return found


def _known(feedback):
    """The lowest layer at which the result of each line is known.

    A layer sees the outputs of the layer below at earlier lines; with feedback all of memory.
    """
    layers = []
    for needs in NEEDS:
        below = max((layers[line] for line in needs), default=-1)
        layers.append(min(below + 1, 1) if feedback else below + 1)
    return layers


def _code(x, y, words):
    """A line of the program."""
    return element("text", "on", escape(words), x=x, y=y, style="font-family:var(--mono)")


def _result(t):
    """What a line sets or prints, with its value."""
    value = _states()[t][SETS[t]]
    return f"{value}" if PROGRAM[t].startswith("print") else f"{SETS[t]} = {value}"


def program():
    """The program, and what its reader keeps in mind after each line."""
    top, h, left, w = 44.0, 38.0, 190.0, 49.0
    parts = [title("the program"), text(left + w, 11, "in your mind", "middle", "h")]
    for j, name in enumerate("xy"):
        parts.append(text(left + (j + 0.5) * w, 27, name, "middle", f"t{STATE}"))
    found = _states()
    for t, (source, state) in enumerate(zip(PROGRAM, found, strict=True)):
        y = top + t * h
        parts += [text(0, y + 4, str(t)), _code(14, y + 4, source)]
        for j, (name, value) in enumerate(state.items()):
            x = left + j * w
            fresh = not source.startswith("print") and SETS[t] == name
            parts.append(cell(x + 5, y - 12, w - 10, 24, STATE, 0.4 if fresh else 0.08))
            parts.append(text(x + w / 2, y + 4, str(value), classes="n" if fresh else "z"))
            # A value is carried on; a condition looks at the other one.
            if t and name in found[t - 1]:
                parts.append(arrow(x + w / 2, y - h + 13, x + w / 2, y - 13, f"l t{STATE} thin"))
            if t and fresh and NEEDS[t]:
                other = left + (1 - j) * w
                side = w - 4 if other < x else 4
                start, end = other + side, x + w - side
                parts.append(arrow(start, y - h + 10, end, y - 10, f"l t{STATE} thick"))
    end = top + len(PROGRAM) * h - 10
    parts.append(text(left + 1.5 * w, end, f"prints {_result(4)}", "middle", "on"))
    said = "; ".join(
        f"after {source}: {', '.join(f'{k} is {v}' for k, v in state.items())}"
        for source, state in zip(PROGRAM, found, strict=True)
    )
    return Figure(
        [Panel(WIDTH, end + 8, tuple(parts))],
        f"A program of five lines, and beside it the values that its reader keeps in mind: {said}.",
    )


# --- Which cell knows what ------------------------------------------------------------------------

#: Rows of the table of cells: where the first begins, and its height.
TOP, HIGH = 42.0, 40.0


def _lines(parts, left):
    """The lines of the program, one below the other."""
    for t, source in enumerate(PROGRAM):
        y = TOP + t * HIGH + HIGH / 2
        drawn = _code(14, y + 4, source)
        parts += [text(0, y + 4, str(t)), drawn if NEEDS[t] else hook(drawn, "line")]
        parts.append(line(0, y + HIGH / 2, left - 8, y + HIGH / 2, "g"))


def _cell(x, t, words, w, strength, name):
    """A cell of line `t`, with what is known there."""
    y = TOP + t * HIGH + 6
    ground = cell(x, y, w, HIGH - 12, STATE, strength)
    kind = "n" if strength > 0.1 else "z"
    return ground + hook(text(x + w / 2, y + HIGH / 2 - 2, words, classes=kind), name)


def _edge(x1, y1, x2, y2, name):
    """From a result to the cell that needs it."""
    return line(x1, y1, x2, y2, f"l t{A} thick").replace(
        " ", f' data-p="{name}" stroke-opacity="1" ', 1
    )


def layers():
    """At which layer of a Transformer the result of each line is known first."""
    found, values = (
        _known(False),
        [state[name] for state, name in zip(_states(), SETS, strict=True)],
    )
    left, step, w, count = 160.0, 33.0, 26.0, max(_known(False)) + 1
    parts = [title("Transformer: all lines at once")]
    _lines(parts, left)
    for layer in range(count):
        x = left + layer * step + w / 2
        parts.append(text(x, 34, str(layer), "middle", "on"))
    parts.append(text(left - 8, 34, "layer", "end"))
    for t, needs in enumerate(NEEDS):
        for s in needs:
            x, y = left + found[t] * step, TOP + (t + 0.5) * HIGH
            parts.append(_edge(x - step + w, TOP + (s + 0.5) * HIGH, x, y, f"to{found[t]}"))
    for t in range(len(PROGRAM)):
        for layer in range(count):
            is_known = layer >= found[t]
            words, strength = (str(values[t]), 0.35) if is_known else ("?", 0.05)
            parts.append(_cell(left + layer * step, t, words, w, strength, f"layer{layer}"))
    end = TOP + len(PROGRAM) * HIGH
    parts.append(hook(frame(left - 4, 20, w + 8, end - 22, A), "at"))
    said = "; ".join(f"line {t}, {_result(t)}, at layer {layer}" for t, layer in enumerate(found))
    return Figure(
        [Panel(WIDTH, end + 4, tuple(parts))],
        f"The five lines of the program, with a cell for each of the layers 0 to {count - 1}. A "
        f"cell holds the result of its line, or a question mark. Known first: {said}. Lines lead "
        "to a cell from the results that it needs, always from the layer below.",
        stage=Stage(
            "layers",
            [*_numbers(), Knob("layers", "Layers", 0, count - 1, 1, count - 1)],
            {"known": found, "left": left - 4, "wide": step},
            "Layer 0 knows 2 of 5 results.",
            ("As written", "Layer 1", "Layer 2", "Layer 3"),
        ),
    )


def _numbers():
    """The numbers that a reader may change: those of the first two lines."""
    return [Knob(name, f"{name} =", 0, 9, 1, _states()[1][name]) for name in "xy"]


def memory():
    """The same with feedback: one layer, and a memory whose slots are written step by step."""
    found, values = _known(True), [state[name] for state, name in zip(_states(), SETS, strict=True)]
    left, w, at = 160.0, 28.0, 240.0
    parts = [title("with feedback: one line after the other")]
    _lines(parts, left)
    parts.append(text(left + w / 2, 34, "layer 1", "middle", "on"))
    parts.append(text(at + 24, 34, "memory", "middle", f"t{STATE}"))
    for t, needs in enumerate(NEEDS):
        y = TOP + (t + 0.5) * HIGH
        for s in range(t):
            near = s in needs
            start = TOP + (s + 0.5) * HIGH + (6 if s else 4)
            way = ribbon(at, start, left + w, y - 4, 0.25 if near else 0.05, A, near=near)
            parts.append(hook(way, f"by{t}"))
        parts.append(hook(arrow(left + w, y + 4, at - 1, y + 4, f"l t{STATE}"), f"by{t}"))
    for t, value in enumerate(values):
        parts.append(_cell(left, t, str(value), w, 0.35, "layer"))
        parts.append(_cell(at, t, f"{SETS[t]} = {value}", 47, 0.25, "slot"))
    parts.append(hook(frame(left - 6, TOP, WIDTH - left + 5, 2 * HIGH, A), "at"))
    said = "; ".join(f"line {t}, {_result(t)}, at layer {layer}" for t, layer in enumerate(found))
    return Figure(
        [Panel(WIDTH, TOP + len(PROGRAM) * HIGH + 4, tuple(parts))],
        "The five lines, one step each. Layer 1 of a step reads the slots of memory that earlier "
        f"steps have written, and what it finds goes into the slot of its own step. Known: {said}.",
        stage=Stage(
            "memory",
            _numbers(),
            {"sets": SETS, "top": TOP, "high": HIGH},
            f"After step 1 memory has 2 slots. The last one says {_result(1)}.",
            ("Write", "Read, write", "The difference", "And so on"),
        ),
    )


def shortcut():
    """A sum in one layer: the average of all updates, times their number."""
    updates = torch.tensor([1.0, 1, 0, 1, 1])
    count, w, x0 = len(updates), 44.0, 66.0
    weight = torch.zeros(count).softmax(0)[0].item()
    mean = updates.mean().item()
    parts = [title("a sum in one layer")]
    parts.append(text(x0 - 8, 46, "each adds", "end"))
    parts += grid(x0, 28, [updates], V, w, 28)
    goal = x0 + count * w / 2
    for j in range(count):
        parts.append(ribbon(x0 + (j + 0.5) * w, 58, goal, 92, weight, A, 14))
    parts.append(text(0, 84, f"weights {shown(weight)} each", classes=f"t{A}"))
    parts.append(cell(goal - 22, 92, 44, 26, V, 0.3))
    parts.append(text(goal, 109, shown(mean), classes="n"))
    parts.append(text(goal - 32, 109, "average", "end"))
    parts.append(text(goal + 30, 109, f"× {count} = {shown(mean * count)}", classes="sum"))
    return Figure(
        [Panel(WIDTH, 122, tuple(parts))],
        f"Five lines that add {listed(updates)}. Attention with the weight {shown(weight)} for "
        f"each has the average {shown(mean)}, and times 5 this is the sum, {shown(mean * count)}.",
    )


# --- The task -----------------------------------------------------------------------------------


def accuracy():
    """How many programs a model follows: by layers after 16 lines, and line by line."""
    last, lines = results("feedback", "accuracy"), results("feedback", "lines")
    depths = [int(name[-1]) for name in last if name.startswith("transformer")]
    percent = [0, 20, 40, 60, 80, 100]
    plot = Plot(
        (0.7, depths[-1] + 0.3), (0, 103), title="right at line 15, of 100 programs",
        x_label="layers", x_ticks=depths, y_ticks=percent, height=150,
    )  # fmt: skip
    best, means = [100 * value for value in last["feedback 1"]], []
    for depth in depths:
        found = [100 * value for value in last[f"transformer {depth}"]]
        plot.dots([depth] * len(found), found, GREY)
        means.append(fmean(found))
    plot.line(depths, means, GREY)
    plot.dots([1] * len(best), best, STATE)
    plot.add(text(*plot.at(1.12, 91), "one layer with feedback", classes=f"t{STATE}"))
    plot.note(depths[-1] + 0.25, means[-1] + 9, "Transformer", "end")

    steps = range(len(lines["feedback 1"][0]))
    course = Plot(
        (0, steps[-1]), (0, 103), title="right at each line, of 100 programs", x_label="line",
        x_ticks=[0, 5, 10, 15, 20, 25, 30], y_ticks=percent, height=150,
    )  # fmt: skip
    course.add(line(*course.at(15, 0), *course.at(15, 103), "g d"))
    course.note(15.6, 32, "longer than any")
    course.note(15.6, 23, "in training")
    for name, runs in lines.items():
        ys = [100 * fmean(run[t] for run in runs) for t in steps]
        tone = STATE if name.startswith("feedback") else GREY
        course.line(steps, ys, tone)
        if tone == GREY:
            # The number of layers stands on its line, between two of which one is above a half.
            t = next(t for t in steps if ys[t + 1] < 50)
            at = t + (ys[t] - 50) / (ys[t] - ys[t + 1])
            x, y = course.at(at, 50)
            course.add(text(x, y + 4, name[-1], "middle", "on halo"))
        else:
            course.add(text(*course.at(31, ys[-1] - 13), "feedback", "end", f"t{STATE}"))
            course.add(text(*course.at(31, ys[-1] + 3), f"{ys[-1]:.0f}", "end", "on halo"))
    course.add(text(*course.at(3.6, 47.5), "layers", "end", "halo"))
    said = "; ".join(
        f"{name}: {fmean(runs) * 100:.0f}, from {100 * min(runs):.0f} to {100 * max(runs):.0f}"
        for name, runs in last.items()
    )
    rows = [
        [name.replace("feedback", "with feedback,").replace("transformer", "Transformer,")
         + (" layer" if name.endswith(" 1") else " layers"),
         *(f"{100 * fmean(run[t] for run in runs):.0f}" for t in (2, 3, 4, 7, 15, 31))]
        for name, runs in lines.items()
    ]  # fmt: skip
    return Figure(
        [plot.panel(), course.panel()],
        "Left, of how many programs in 100 a model knows x and y after line 15, five runs each. "
        f"Model, layers: {said}. Right, the same after each of the lines 0 to 31; all models begin "
        "at 100.",
        Table(["line", "2", "3", "4", "7", "15", "31"], rows),
    )


# --- What is written, and how it is read --------------------------------------------------------

#: What the embedding and two layers have computed at step 2, and the layer weights.
OUTPUTS = torch.tensor([[4.0, 0], [10, 0], [7, 0]])
LAYER_WEIGHTS = torch.tensor([1.0, 1, 18]).log()


def mixture():
    """The layer weights become shares, and the shares mix the outputs to a memory vector."""
    shares = LAYER_WEIGHTS.softmax(0)
    names, left, h, top = ("embedding", "layer 1", "layer 2"), 72.0, 30.0, 42.0
    first = [title("shares"), text(left + 30, 30, "weight", "end")]
    first += [text(left + 74, 30, "exp", "end"), text(left + 86, 30, "share", classes=f"t{A}")]
    for i, name in enumerate(names):
        y, a = top + i * h, LAYER_WEIGHTS[i].item()
        first += [text(left - 8, y + 18, name, "end")]
        first.append(text(left + 30, y + 18, shown(a, 2), "end", "num"))
        first.append(text(left + 74, y + 18, shown(math.exp(a)), "end", "num"))
        size = {"x": left + 86, "y": y + 4, "width": shares[i].item() * 110, "height": 20}
        first.append(element("rect", f"f t{A}", **size, fill_opacity=".6"))
        end = left + 92 + size["width"]
        first.append(text(end, y + 18, shown(shares[i], 2), classes=f"num t{A}"))
    y = top + 3 * h
    first += [line(left + 44, y + 2, left + 74, y + 2, "g"), text(left + 36, y + 18, "sum", "end")]
    first.append(text(left + 74, y + 18, shown(LAYER_WEIGHTS.exp().sum()), "end", "num"))

    w, gap = 44.0, 18.0
    parts, at = shares[:, None] * OUTPUTS, left + 2 * 30 + gap
    second = [title("the memory vector of step 2")]
    second += [
        text(left + 30, 30, "output", "middle"),
        text(at + w, 30, "share × output", "middle"),
    ]
    second += grid(left, top, OUTPUTS, STATE, 30, h, most=10)
    second += grid(at, top, parts, STATE, w, h, digits=1, most=10)
    for i, name in enumerate(names):
        second.append(text(left - 8, top + i * h + 19, name, "end"))
    second.append(line(at, y + 4, at + 2 * w, y + 4, f"l t{STATE}"))
    second += grid(at, y + 8, [parts.sum(0)], STATE, w, h, digits=1, most=10)
    second.append(letter(at - 10, y + 27, ("m", STATE), at="end"))
    words = f"slot 2: {_result(2)}"
    second.append(text(at + w, y + h + 24, words, "middle", f"t{STATE}"))
    said = "; ".join(
        f"{name} {listed(o)}, layer weight {shown(a, 2)}, share {shown(s, 2)}"
        for name, o, a, s in zip(names, OUTPUTS, LAYER_WEIGHTS, shares, strict=True)
    )
    return Figure(
        [Panel(WIDTH, y + 24, tuple(first)), Panel(WIDTH, y + h + 28, tuple(second))],
        f"Three outputs of step 2: {said}. Shares times outputs add up to the memory vector "
        f"{listed(parts.sum(0), 2)}.",
    )


#: The head of the example, at step 3: its query, and keys, values and distances of three slots.
QUERY = torch.tensor([2.0, 0])
KEYS = torch.tensor([[2.0, 0], [0, 2], [2, 0]])
VALUES = torch.tensor([[3.0, 0], [0, 5], [7, 0]])
BIASES = torch.tensor([-4.0, -2, 0])


def _read_slots(biases=BIASES):
    """Scores after the division, weights and average of the three slots, by the module."""
    attention = FeedbackAttention(1, 2, 0.0, is_kv_precomputed=True, max_distance=3)
    with torch.no_grad(), kernels.disabled():
        for linear in (attention.query.linear, attention.output):
            linear.weight.copy_(torch.eye(2))
        attention.output.bias.zero_()
        attention.key_pos_bias.copy_(biases[:, None])
        keys, values = KEYS[:, None, None], VALUES[:, None, None]
        scores = attention.get_scores(QUERY[None, None], keys)[:, 0, 0]
        found = attention(query=QUERY[None], key=keys, value=values)[0]
        scaled = scores * attention.scale
        weights = scaled.softmax(0)
    return scaled, weights, found


def reading():
    """A head of step 3 reads three slots: match and distance, weights, average."""
    scaled, weights, found = _read_slots()
    columns, now, top = (68.0, 134.0, 200.0), 262.0, 72.0
    first = [title("at step 3: match and distance")]
    for s, x in enumerate(columns):
        first.append(arc(now - 8 * (2 - s), x, top - 2, 58 - 14 * s, weights[s].item(), A, 10))
        first.append(cell(x - 29, top, 58, 26, STATE, 0.25))
        first.append(text(x, top + 17, _result(s), classes="n"))
        first += grid(x - 26, top + 42, [KEYS[s]], K, 26, 26)
        match, bias = KEYS[s] @ QUERY, -BIASES[s]
        sums = f"{shown(match)} − {shown(bias)} = {shown(match - bias)}"
        for y, words in (
            (86, str(3 - s)),
            (106, sums),
            (126, shown(scaled[s], 2)),
        ):
            first.append(text(x, top + y, words, "middle", "num"))
    first.append(cell(now - 26, top, 52, 26, Q, 0.12))
    first.append(text(now, top + 17, "x ?", classes="n"))
    first += grid(now - 26, top + 42, [QUERY], Q, 26, 26)
    first.append(text(now, top + 86, "query", "middle", f"t{Q}"))
    for y, words, tone in (
        (17, "slot", f"t{STATE}"),
        (59, "key", f"t{K}"),
        (86, "distance", ""),
        (106, "score", ""),
        (126, "/ √2", ""),
    ):
        first.append(text(0, top + y, words, classes=tone))

    parts, high, foot, goal = weights[:, None] * VALUES, 44.0, 78.0, 160.0
    second = [title("weights, values and average"), text(0, foot - 4, "weight", classes=f"t{A}")]
    for s, x in enumerate((90.0, 160.0, 230.0)):
        tall = max(weights[s].item() * high, 1)
        bar = {"x": x - 26, "y": foot - tall, "width": 52, "height": tall}
        second.append(element("rect", f"f t{A}", **bar, fill_opacity=".6"))
        second.append(text(x, foot - tall - 5, shown(weights[s], 3), "middle", "num"))
        second += grid(x - 26, foot + 4, [VALUES[s]], V, 26, 26)
        second.append(ribbon(x, foot + 55, goal, foot + 90, weights[s].item(), A, 10))
        second.append(text(x, foot + 49, listed(parts[s], 3), "middle", "num halo"))
    second.append(text(0, foot + 21, "value", classes=f"t{V}"))
    second.append(text(0, foot + 49, "product"))
    second += grid(goal - 50, foot + 92, [found], V, 50, 28, digits=3, most=7)
    second.append(text(0, foot + 110, "average"))
    said = "; ".join(
        f"slot {s}: key {listed(KEYS[s])}, match {shown(KEYS[s] @ QUERY)}, bias "
        f"{shown(BIASES[s])}, weight {shown(weights[s], 3)}, value {listed(VALUES[s])}"
        for s in range(3)
    )
    return Figure(
        [Panel(WIDTH, top + 132, tuple(first)), Panel(WIDTH, foot + 122, tuple(second))],
        f"The query {listed(QUERY)} meets three slots. {said}. The average of the values is "
        f"{listed(found, 3)}.",
    )


# --- The whole model ----------------------------------------------------------------------------

STEPS, LAYERS = 3, 2
#: Distance of two steps, and of two rows of boxes.
ACROSS, UP, HEIGHT, LINES = 95.0, 60.0, 26.0, 42.0


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
    model = _model(STEPS, LAYERS)
    attended = []
    model.layers[0].attn.register_forward_pre_hook(
        lambda module, _, named: attended.append(len(named["key"])), with_kwargs=True
    )
    model(torch.randn(STEPS, 2, 12))
    return len(model.weights), max(attended)


def _model(steps, n_layers):
    layer = FeedbackTransformerLayer(
        d_model=12,
        attn=FeedbackAttention(3, 12, 0.0, max_distance=steps),
        feed_forward=FeedForward(12, 20, 0.0),
        dropout_prob=0.0,
    )
    return FeedbackTransformer(layer, n_layers)


def _steps(levels):
    bottom = LINES + 34 + levels * UP
    parts = [text(0, 11, "memory", classes="h")]
    for t in range(STEPS):
        x = 45 + t * ACROSS
        read, write = x - 33, x + 33
        for level in range(levels):
            y = bottom - HEIGHT - level * UP
            if not level:
                parts.append(box(x, y, 48, HEIGHT, f"x{_below(t)}", GREY))
            else:
                to = "#FeedbackTransformerLayer"
                parts.append(box(x, y, 48, HEIGHT, f"layer {level}", GREY, to))
                parts.append(arrow(x, y + UP, x, y + HEIGHT, f"l t{GREY}"))
                if t:
                    parts.append(arrow(read, y + HEIGHT / 2, x - 24, y + HEIGHT / 2, f"l t{A}"))
            # What each level adds to the memory vector leaves on the right.
            parts.append(line(x + 24, y + 7, write, y + 7, f"l t{STATE}"))
        parts.append(arrow(write, bottom - HEIGHT + 7, write, LINES + HEIGHT, f"l t{STATE}"))
        parts.append(
            box(write, LINES, 30, HEIGHT, f"m{_below(t)}", STATE, "#FeedbackTransformer.read")
        )
        for reader in range(t + 1, STEPS):
            # Each step reads from a rail of its own, which only the slots before it join.
            rail, to = LINES - 10 * reader, read + (reader - t) * ACROSS
            start = LINES if reader == t + 1 else rail + 10
            parts.append(line(write, start, write, rail, f"l t{A}"))
            if not t:
                parts.append(line(write, rail, to, rail, f"l t{A}"))
                down = bottom - HEIGHT - UP + HEIGHT / 2
                parts.append(line(to, rail, to, down, f"l t{A}"))
        parts.append(text(x, bottom + 16, f"step {t}", "middle"))
    return Panel(WIDTH, bottom + 20, tuple(parts))


#: From bottom to top: words, tone, the gap below and the code.
INSIDE = (
    ("norm", GREY, 30, "#FeedbackTransformerLayer.forward"),
    ("attention with distances", A, 14, "#FeedbackAttention.get_scores"),
    ("norm", GREY, 30, "#FeedbackTransformerLayer.forward"),
    ("feed-forward network", GREY, 14, "../feed_forward.html"),
)


def _layer():
    x, width = 165.0, 176.0
    total = LINES + 34 + 3 * UP + 20
    y = total - 18
    parts = [text(0, 11, "one layer at step t", classes="h")]
    parts.append(text(x, total - 4, "output of the layer below", "middle"))
    for i, (words, tone, gap, to) in enumerate(INSIDE):
        parts.append(arrow(x, y, x, y - gap, f"l t{GREY}"))
        if i % 2 == 0:
            start = y - 14
        y -= gap + HEIGHT
        parts.append(box(x, y, width, HEIGHT, words, tone, to))
        if "attention" in words:
            level = y + HEIGHT / 2
            parts.append(text(0, level - 6, "memory", classes=f"t{STATE}"))
            parts.append(arrow(0, level, x - width / 2, level, f"l t{A}"))
            parts.append(text(0, level + 16, "keys, values"))
        if i % 2:
            side, end = x + width / 2 + 12, y - 10
            parts += [
                line(x, start, side, start, f"l t{GREY} thin"),
                line(side, start, side, end, f"l t{GREY} thin"),
                arrow(side, end, x + 6, end, f"l t{GREY} thin"),
                line(x, y, x, end + 5, f"l t{GREY}"),
                element("circle", f"l t{GREY}", cx=x, cy=end, r=5),
                text(x, end + 3.5, "+", "middle"),
            ]
            y = end - 5
    parts.append(arrow(x, y, x, y - 14, f"l t{GREY}"))
    parts.append(text(x, y - 18, "output", "middle"))
    return Panel(WIDTH, total, tuple(parts))


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


# --- Gradient, price, Shakespeare ---------------------------------------------------------------


def hops():
    """Two ways of a gradient from a late step to an early slot: step by step, and in one hop."""
    count, x0, step = 6, 36.0, 43.0
    top, low, model = 62.0, 132.0, _model(count, 1)
    # Where a gradient arrives, if all slots but the first are cut off: only the direct way is left.
    x_seq = torch.randn(count, 1, 12, requires_grad=True)
    with kernels.disabled():
        _, memory = model.scan(x_seq[: count - 1])
        keys = torch.cat([memory.keys[:1], memory.keys[1:].detach()])
        output, _ = model.scan(x_seq[count - 1 :], FeedbackMemory(keys, keys))
        (gradient,) = torch.autograd.grad(output.sum() + output.square().sum(), x_seq)
    arrived = [t for t in range(count - 1) if gradient[t].any()]
    parts = [title("from the loss of step 5 back to slot 0")]
    for t in range(count):
        x = x0 + t * step
        parts.append(box(x, low, 30, 26, f"m{_below(t)}" if t < count - 1 else "", STATE))
        parts.append(text(x, low + 42, f"step {t}", "middle"))
    last = x0 + (count - 1) * step
    parts.append(text(last, low + 17, "loss", "middle", f"t{ERROR}"))
    for t in range(count - 1):
        x = x0 + (t + 1) * step
        parts.append(arrow(x - 15, low + 13, x - step + 16, low + 13, f"l t{ERROR}"))
    for t in arrived:
        parts.append(arc(last - 6, x0 + t * step, low - 2, 84, 0.4, ERROR, 9))
    parts.append(text((x0 + last) / 2, top - 12, "1 hop, through attention", "middle", f"t{ERROR}"))
    parts.append(
        text((x0 + last) / 2, low - 8, f"{count - 1} hops, step by step", "middle", "halo")
    )
    return Figure(
        [Panel(WIDTH, low + 46, tuple(parts))],
        f"A row of {count - 1} memory slots and the loss of step {count - 1}. A chain of "
        f"{count - 1} arrows leads from the loss back to slot 0, slot by slot, and one arc leads "
        "there directly.",
    )


def schedule():
    """In which order the cells of a model are computed: its sequential steps."""
    steps, count, w, h, left, top = 5, 3, 42.0, 30.0, 56.0, 30.0
    orders = [
        [[layer for _ in range(steps)] for layer in range(count, 0, -1)],
        [[t * count + layer for t in range(steps)] for layer in range(count, 0, -1)],
    ]
    panels = []
    for name, order in zip(("Transformer", "with feedback"), orders, strict=True):
        most = max(map(max, order))
        parts = [title(f"{name}: {most} steps, one after the other")]
        parts += grid(left, top, order, GREY if name == "Transformer" else STATE, w, h, most=15)
        for i in range(count):
            parts.append(text(left - 8, top + i * h + 19, f"layer {count - i}", "end"))
        for t in range(steps):
            parts.append(text(left + (t + 0.5) * w, top + count * h + 16, f"{t}", "middle"))
        parts.append(text(left - 8, top + count * h + 16, "token", "end"))
        panels.append(Panel(WIDTH, top + count * h + 22, tuple(parts)))
    return Figure(
        panels,
        f"Two tables of {count} layers by {steps} tokens; the number of a cell says when it is "
        "computed. In a Transformer all cells of a layer have the same number, from 1 to 3. With "
        "feedback the numbers go up through the layers of one token, then of the next, to 15.",
    )


def kept():
    """What generation has to remember of earlier tokens."""
    tokens, count, side, gap, left, top = 5, 3, 19.0, 5.0, 64.0, 28.0
    panels = []
    for name, rows in (("Transformer", range(count)), ("shared memory", [1])):
        parts = [title(f"{name}: {2 * len(rows)} vectors a token")]
        for i in rows:
            y = top + i * 28
            words = f"layer {count - i}" if len(rows) > 1 else "all layers"
            parts.append(text(left - 8, y + 14, words, "end"))
            for x in (left + t * (2 * side + gap) for t in range(tokens)):
                parts += [cell(x, y, side, 20, K, 0.3), cell(x + side, y, side, 20, V, 0.3)]
                parts.append(letter(x + side / 2, y + 14, ("k", K), at="middle"))
                parts.append(letter(x + 1.5 * side, y + 14, ("v", V), at="middle"))
        panels.append(Panel(WIDTH, top + 28 * count, tuple(parts)))
    return Figure(
        panels,
        f"What is kept of {tokens} tokens. In a Transformer of {count} layers a key and a value of "
        "each token in each layer; with feedback one key and one value of each token.",
    )


def times():
    """A training step of both models, by the code of their pages and with kernels."""
    tables = json.loads((RESULTS / "performance/feedback.json").read_text())["tables"]
    (rows,) = (table["rows"] for table in tables if table["table"] == "architectures")
    ms = {row["form"]: row["ms"] for row in rows}
    names = ("Transformer", "Feedback Transformer")
    labels, panels, said = ("Transformer", "with feedback"), [], []
    for form, words in (("as on its page", "the code of the page"), ("kernels", "with kernels")):
        values = [ms[f"{name}, {form}"] for name in names]
        found = [f"{value:,.0f} ms" for value in values]
        panels.append(bar_list(labels, values, found, title=words, most=1200))
        said.append(f"{words}: {', '.join(map(' '.join, zip(labels, found, strict=True)))}")
    return Figure(panels, f"A training step, {'; '.join(said)}.")


def shakespeare():
    """The loss on Shakespeare by layers, with feedback and without."""
    depths, low = (1, 2, 4, 8), []
    kinds = (("transformer", "Transformer", GREY), ("feedback", "feedback", STATE))
    plot = Plot(
        (0, 3), (1.84, 2.06), title="loss on Shakespeare, five runs each", x_label="layers",
        y_label="lower is better", x_ticks=[], y_ticks=[1.85, 1.9, 1.95, 2.0, 2.05], height=150,
    )  # fmt: skip
    lines = (RESULTS / "feedback_depth.jsonl").read_text("utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    for kind, label, tone in kinds:
        means = []
        for i, depth in enumerate(depths):
            of = [run["result"] for run in runs if run["label"] == f"{kind}-{depth}"]
            found = [result["validation_loss"] for result in of]
            plot.dots([i] * len(found), found, tone)
            means.append(fmean(found))
        plot.line(range(4), means, tone, label=label)
        low.append(f"{label}: {listed(means, 2)}")
    for i, depth in enumerate(depths):
        plot.add(text(*plot.at(i, 1.824), str(depth), "end" if i == 3 else "middle"))
    return Figure(
        [plot.panel()],
        f"Loss by layers, for 1, 2, 4 and 8 of them, mean of five runs. {'; '.join(low)}.",
    )


def shares():
    """The layer weights of a trained model, as shares."""
    model = labml_nn.load(RESULTS / "feedback/model")
    found = model.transformer.weights.detach().softmax(0).tolist()
    names = ("input", "layer 1", "layer 2")
    return Figure(
        [
            bar_list(
                names, found, [f"{100 * share:.0f} %" for share in found],
                title="shares in a memory vector", most=0.6,
            )
        ],
        "Shares of a trained model: "
        f"{', '.join(f'{n} {100 * s:.0f} %' for n, s in zip(names, found, strict=True))}.",
    )  # fmt: skip
