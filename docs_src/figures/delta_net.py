"""Layers of DeltaNet, and how well a memory of a fixed size recalls pairs."""

import torch
from torch.nn import functional as F

from labml_nn.recurrent.delta_net import delta_rule_chunks
from labml_nn.recurrent.linear_attention import linear_attention_chunks
from pylit.figures.draw import WIDTH, Figure, Panel, Plot, Table, arrow, box, element, line, text

FEATURES, BATCH = 16, 400
KEYS, ROUNDS = 8, (1, 2, 3, 4, 6, 8)
PAIRS = 64
AGES = (0, 1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 63)
#: The rates of the rule that are drawn; the sum has none.
RULES = {"sum": None, "delta rule": 1.0, "β = 0.3": 0.3}
#: Where each curve has its name, on the left and on the right.
NAMES = {
    "sum": ((2.6, 0.36), (63, 0.34)),
    "delta rule": ((8, 0.9), (4, 0.9)),
    "β = 0.3": ((8, 0.58), (14, 0.53)),
}


def layer():
    """From the input at the bottom to the output at the top; the memory lies across."""
    return _layer(gated=False)


def gated_layer():
    """The same with a memory that fades, and a gate."""
    return _layer(gated=True)


def _layer(gated):
    last = {"β α": 198, "gate": 250} if gated else {"β": 198}
    columns = {"q": 30, "k": 86, "v": 142, **last}
    rail, bottom, convolved, unit, memory, norm, top = 268, 230, 194, 158, 92, 54, 8
    inside, loop = f"#{'Gated' * gated}DeltaNet", f"#{'gated_' * gated}delta_rule_loop"
    forward = f"{inside}.forward"
    parts = [
        text(WIDTH / 2, 294, "x", "middle"),
        line(WIDTH / 2, 282, WIDTH / 2, rail, "l t4"),
        line(columns["q"], rail, max(columns.values()), rail, "l t4"),
    ]
    for name, x in columns.items():
        parts += [
            arrow(x, rail, x, bottom + 23, "l t4"),
            box(x, bottom, 44, 22, "linear", 0, inside),
            text(x + 5, memory + 53, name),
        ]
        if name in "qkv":
            parts += [
                arrow(x, bottom, x, convolved + 23, "l t0"),
                box(x, convolved, 44, 22, "conv", 4, "#ShortConvolution"),
            ]
    for name in "qk":
        x = columns[name]
        parts += [
            arrow(x, convolved, x, unit + 23, "l t0"),
            box(x, unit, 44, 22, "L2", 0, forward),
            arrow(x, unit, x, memory + 37, "l t0"),
        ]
    middle = (columns["q"] + 198) / 2
    parts += [
        arrow(columns["v"], convolved, columns["v"], memory + 37, "l t0"),
        arrow(198, bottom, 198, memory + 37, "l t0"),
        box(middle, memory, 212, 36, "fade, " * gated + "read, correct the memory", 2, loop),
        arrow(middle, memory, middle, norm + 23, "l t0"),
        box(middle, norm, 60, 22, "norm", 0, forward),
    ]
    end = columns["v"] if gated else middle
    if gated:
        # What the heads found passes the gate.
        gate = columns["gate"]
        parts += [
            line(middle, norm, middle, 40, "l t0"),
            arrow(middle, 40, gate - 11, 40, "l t0"),
            arrow(gate, bottom, gate, 51, "l t0"),
            element("circle", "l t0", cx=gate, cy=40, r=10),
            text(gate, 44, "×", "middle"),
            line(gate, 30, gate, top + 11, "l t0"),
            arrow(gate, top + 11, end + 25, top + 11, "l t0"),
        ]
    else:
        parts.append(arrow(middle, norm, middle, top + 23, "l t0"))
    parts += [
        box(end, top, 50, 22, "linear", 0, inside),
        arrow(end - 25, top + 11, 60, top + 11, "l t0"),
        text(50, top + 15, "y", "middle"),
    ]
    return Figure(
        [Panel(WIDTH, 300, tuple(parts))],
        f"The input x goes through {'five' if gated else 'four'} linear projections. Query, key "
        "and value then pass a short convolution, and query and key are divided by their length. "
        f"All of them reach the memory, with the number{'s alpha and' * gated} beta. What the "
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
    first, last = changing["sum"][0], changing["sum"][-1]
    return Figure(
        [left.panel(), right.panel()],
        f"Left: the sum finds {first:.0%} of the values when each key is written once, and "
        f"{last:.0%} when it is written {ROUNDS[-1]} times. The delta rule finds "
        f"{changing['delta rule'][-1]:.0%}. Right: the sum finds {many['sum'][0]:.0%} of the last "
        f"values and {many['sum'][-1]:.0%} of the first ones. The delta rule finds all of the last "
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


def _by_age(rate):
    """The share of pairs that are found, by how many were written since."""
    keys, values = _directions(3, PAIRS), _directions(4, PAIRS)
    found = _found(_written(rate, keys, values), keys, values).mean(1).flip(0)
    return [found[age].item() for age in AGES]
