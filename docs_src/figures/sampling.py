"""Figures of `labml_nn.sampling`."""

import ast
from collections import Counter
from itertools import pairwise
from pathlib import Path

import torch

from labml_nn import sampling
from labml_nn.sampling import Temperature
from pylit.figures.draw import WIDTH, Figure, Knob, Stage, Table, bar_list

#: A letter, and how many of those that follow it are shown by themselves.
LETTER, SHOWN = "t", 9
#: Pixels for the values in words.
ROOM = 52.0


def temperature():
    """What follows a letter in a real text, at any temperature."""
    found = _followers()
    logits = torch.tensor([count for _, count in found], dtype=torch.float64).log()[None]
    names = [{" ": "space"}.get(letter, letter) for letter, _ in found[:SHOWN]]
    labels = [*names, "others"]

    def shares(tau):
        all_of_them = Temperature(tau).distribution(logits)[0]
        return [*all_of_them[:SHOWN].tolist(), float(all_of_them[SHOWN:].sum())]

    now = shares(1.0)
    panel = bar_list(
        labels, now, [f"{100 * x:.1f} %" for x in now], most=1.0, room=ROOM, hook="bar"
    )
    left = float(panel.parts[1].partition(' x="')[2].partition('"')[0])
    fair = torch.exp(torch.special.entr(Temperature(1.0).distribution(logits)).sum()).item()
    shown = {tau: shares(tau) for tau in (0.5, 1.0, 2.0)}
    rows = [
        [label, *(f"{100 * shown[tau][i]:.1f} %" for tau in shown)]
        for i, label in enumerate(labels)
    ]
    return Figure(
        [panel],
        f"Bars for what follows the letter {LETTER}: {names[0]} {now[0]:.0%}, {names[1]} "
        f"{now[1]:.0%}, {names[2]} {now[2]:.0%}, and on down. At a temperature of 0.5 the first "
        f"has {shown[0.5][0]:.0%}, at 2 {shown[2.0][0]:.0%}.",
        Table(["letter", *(f"τ = {tau:g}" for tau in shown)], rows),
        Stage(
            "temperature",
            [Knob("temperature", "Temperature", 0.1, 3.0, 0.1, 1.0)],
            {
                "logits": [round(float(z - logits.max()), 4) for z in logits[0]],
                "labels": labels,
                "scale": WIDTH - left - ROOM,
            },
            f"As undecided as between {fair:.1f} letters that are equally likely.",
        ),
    )


def _followers():
    """Letters and spaces that follow the letter in the introduction of the page, most first."""
    module = ast.parse(Path(sampling.__file__).read_text(encoding="utf-8"))
    text = " ".join((ast.get_docstring(module) or "").lower().split())
    pairs = pairwise(text)
    after = Counter(b for a, b in pairs if a == LETTER and (b.isalpha() or b == " "))
    return sorted(after.items(), key=lambda item: (-item[1], item[0]))
