"""What parts of the training preset are worth: losses in equal time."""

import json
from pathlib import Path
from statistics import mean

from pylit.figures.draw import Figure, Plot, Table

RESULTS = Path(__file__).parents[1] / "results"
MISSING = "—"
#: The recipes that were compared, in words.
RECIPES = {
    "nanoGPT": "nanoGPT's recipe",
    "the preset": "the preset",
    "the preset, a third of the time": "the preset, in a third of the time",
    "every part": "every part",
    "every part, a third of the time": "every part, in a third of the time",
    "AdamW for all parameters": "AdamW, not Muon",
    "learned positions": "learned positions, not rotary ones",
    "the peer's shape": "4 layers of 128, not 3 of 96",
    "the peer's batch": "12 windows of 64, not 8 of 128",
    "no QK norm": "no QK norm",
    "with biases": "with biases",
    "no zeros at the start": "no outputs that start at zero",
    "layer norm": "LayerNorm, not RMSNorm",
    "GELU": "GELU, not squared ReLU",
}
#: What the others are compared with.
WHOLE = "every part"
CURVES = {
    "nanoGPT": "nanoGPT",
    "the preset": "preset",
    "the preset, a third of the time": "in a third",
}


def recipes():
    """Losses at equal time: every part, all but one of them, and what was chosen."""
    runs = _runs()
    head = ["recipe", "updates", "loss", "from – to", "difference", "at every seed"]
    if not runs.get(WHOLE):
        raise LookupError("training: the ablation was not measured; leave its table out")
    whole = _losses(runs[WHOLE])
    rows = []
    for name, label in RECIPES.items():
        found = runs.get(name)
        if not found:
            rows.append([label, *[MISSING] * (len(head) - 1)])
            continue
        losses = _losses(found)
        rows.append(
            [
                label,
                f"{mean(run['steps'] for run in found):,.0f}",
                f"{mean(losses):.3f}",
                f"{min(losses):.3f} – {max(losses):.3f}",
                f"{mean(losses) - mean(whole):+.3f}".replace("-", "−") if name != WHOLE else "",
                _verdict(losses, whole) if name != WHOLE else "",
            ]
        )
    some = [run for found in runs.values() for run in found]
    hardware, seeds = some[0]["hardware"], max(len(found) for found in runs.values())
    threads = some[0]["threads"]
    off = max(abs(run["peer_times"] / _share(run) - 1) for run in some)
    notes = [
        f"All took the time that was meant, within {100 * off:.0f} %. Difference: how much higher "
        "the loss is than that with every part. At every seed: whether the ranges of the seeds lie "
        "apart. "
        f"Mean of {seeds} seeds; {hardware['name']}, {threads} thread{'s' * (threads > 1)}."
    ]
    return Table(head, rows, align="lrrrrl", notes=notes)


def curves():
    """Validation losses over time, of which one is what the peer's whole training takes."""
    runs = {name: found for name, found in _runs().items() if name in CURVES}
    losses = [loss for found in runs.values() for run in found for _, loss, *_ in run["curve"]]
    ends = (min(losses) - 0.05, max(losses) + 0.05) if losses else (1.5, 2.5)
    ticks = [n / 10 for n in range(14, 30, 2) if ends[0] < n / 10 < ends[1]]
    plot = Plot(
        (0, 1.05), ends, x_label="share of the time", y_label="loss", height=170, y_ticks=ticks
    )
    for tone, name in enumerate(name for name in CURVES if runs.get(name)):
        marks = list(zip(*(_over_time(run) for run in runs[name]), strict=False))
        xs = [mean(x for x, _ in points) for points in marks]
        ys = [mean(y for _, y in points) for points in marks]
        plot.line(xs, ys, tone, label=CURVES[name])
        plot.dots(xs, ys, tone)
    told = ", ".join(
        f"{RECIPES[name]} {mean(_losses(runs[name])):.2f}" for name in CURVES if runs.get(name)
    )
    return Figure(
        [plot.panel()],
        "Validation losses over the share of the time that nanoGPT's recipe takes for its 2,000 "
        f"updates, means over the seeds. At the end: {told or 'nothing yet'}.",
    )


def _runs():
    """The runs of the ablation by recipe."""
    path = RESULTS / "training_ablation.json"
    runs = {}
    if "training_ablation.json" in {other.name for other in RESULTS.glob("*.json")}:
        for run in json.loads(path.read_text(encoding="utf-8"))["runs"]:
            runs.setdefault(run["recipe"], []).append(run)
    return runs


def _share(run):
    """Of the peer's time, as it was meant."""
    return 1 / 3 if "a third" in run["recipe"] else 1


def _losses(runs):
    return [run["validation_loss"] for run in runs]


def _verdict(losses, whole):
    if min(losses) > max(whole):
        return "higher"
    return "lower" if max(losses) < min(whole) else "cannot tell"


def _over_time(run):
    """Points of a curve, in shares of the peer's time."""
    whole = run["seconds"] / run["peer_times"]
    points = [(wall / whole, loss) for _, loss, wall, _ in run["curve"]]
    # The last step may be measured twice: as one of the marks, and as the end.
    return [*points[:3], points[-1]]
