"""What the runs of the studies have measured, in tables and drawings."""

import sys
from pathlib import Path

from pylit.figures.draw import (
    LETTER,
    LINE,
    WIDTH,
    Figure,
    Panel,
    Plot,
    Table,
    element,
    line,
    text,
)

RESULTS = Path(__file__).parents[1] / "results"
sys.path.append(str(RESULTS))

from studies import (  # noqa: E402
    BEST_RATE,
    DEPTHS,
    NAMES,
    RATES,
    STATES,
    Spread,
    at_equal,
    comparable,
    final,
    results_of,
)

#: What stands for a run that nobody has made yet.
MISSING = "—"
#: The trained model that comes along is the gated one.
SHIPPED_NAMES = {**NAMES, "delta_net": NAMES["gated_delta_net"]}


def _models_table():
    """The models at equal updates and at equal time."""
    found = results_of("models", RESULTS)
    on_text = _on_text()
    shortest = _shortest(found)
    rows = []
    for name, results in found.items():
        spread = final(results) if results else None
        at_time = at_equal(results, shortest, "process_seconds") if results else None
        rows.append(
            [
                NAMES[name] + ("" if name in STATES else " *"),
                STATES.get(name, "list"),
                f"{results[0].parameters:,}" if results else MISSING,
                _loss(spread),
                _range(spread),
                f"{_mean(results, 'process_seconds'):.0f}" if results else MISSING,
                _loss(at_time),
                _range(at_time),
            ]
        )
    updates = max((runs[0].last.step for runs in on_text.values()), default=0)
    head = ["model", "state", "parameters", f"loss after {updates:,} updates", "from – to"]
    head += ["CPU seconds", f"loss after {shortest:.0f} s", "from – to"]
    notes = ["* The loss of a reply, which cannot be compared with the loss of a text."]
    return Table(head, rows, align="ll" + "r" * 6, notes=[*notes, *_origin(found)])


def ranges():
    """The losses of the models on a text: a point for the mean, and a line for the range."""
    on_text = _on_text()
    shortest = _shortest(results_of("models", RESULTS))
    after = {name: final(runs) for name, runs in on_text.items()}
    timed = {name: at_equal(runs, shortest, "process_seconds") for name, runs in on_text.items()}
    order = sorted(after, key=lambda name: after[name].mean)
    fast = min(timed, key=lambda name: timed[name].mean)
    panels = [
        _range_panel("equal updates", {name: after[name] for name in order}),
        _range_panel("equal CPU time", {name: timed[name] for name in order}),
    ]
    told = [
        ", ".join(f"{NAMES[name]} {of[name].mean:.2f}" for name in sorted(of, key=of.get))
        for of in (after, timed)
    ]
    return Figure(
        panels,
        "The losses of nine models in nats per character, each with a point for the mean of the "
        "seeds and a line from the lowest to the highest. From the lowest mean, at equal updates: "
        f"{told[0]}. At equal CPU time: {told[1]}.",
        table=_models_table(),
        says=f"At equal updates {NAMES[order[0]]} has the lowest mean, {after[order[0]].mean:.2f}; "
        f"at equal CPU time {NAMES[fast]}, {timed[fast].mean:.2f}.",
    )


def _range_panel(title, spreads, kind_of=STATES, names=NAMES):
    """A row for each model, on one axis."""
    kinds = list(dict.fromkeys(kind_of.values()))
    low = min((s.low for s in spreads.values()), default=1.5) - 0.02
    high = max((s.high for s in spreads.values()), default=2.5) + 0.02
    left = max(len(names[name]) for name in kind_of) * LETTER + 8
    top, step = 2 * LINE + 10, 17.0
    bottom = top + step * len(spreads)

    def at(loss):
        return left + (loss - low) / (high - low) * (WIDTH - 8 - left)

    parts = [text(0, LINE - 3, title, classes="h")]
    x = left
    for tone, kind in enumerate(kinds if len(kinds) > 1 else ()):
        parts.append(element("circle", f"f t{tone}", cx=x + 3, cy=2 * LINE - 7, r=3))
        parts.append(text(x + 10, 2 * LINE - 3, kind))
        x += len(kind) * LETTER + 26
    tick = -(-low // 0.1) / 10
    while tick < high:
        parts.append(line(at(tick), top, at(tick), bottom, "g"))
        parts.append(text(at(tick), bottom + LINE, f"{tick:.1f}", "middle"))
        tick += 0.1
    for i, (name, spread) in enumerate(spreads.items()):
        y, tone = top + step * (i + 0.5), kinds.index(kind_of[name])
        parts.append(text(left - 6, y + 4, names[name], "end"))
        parts.append(line(at(spread.low), y, at(spread.high), y, f"l t{tone}"))
        parts.append(element("circle", f"f t{tone}", cx=at(spread.mean), cy=y, r=3))
    parts.append(text(WIDTH, bottom + 2 * LINE, "loss", "end"))
    return Panel(WIDTH, bottom + 2 * LINE + 4, tuple(parts))


def _on_text():
    """The runs on a text that goes on, by model. Their losses can be ranked."""
    found = results_of("models", RESULTS)
    on_text = {name: found[name] for name in STATES if found[name]}
    _same_question([run for runs in on_text.values() for run in runs])
    return on_text


def _shortest(found):
    """What the shortest run took: every curve reaches so far."""
    return min((run.last.process_seconds for runs in found.values() for run in runs), default=0.0)


def _depth_table():
    """Transformers with and without feedback, for each number of layers."""
    found = results_of("feedback_depth", RESULTS)
    _same_question([run for runs in found.values() for run in runs])
    rows = []
    for layers in DEPTHS:
        pair = [found[f"{kind}-{layers}"] for kind in ("transformer", "feedback")]
        spreads = [final(runs) if runs else None for runs in pair]
        row = [str(layers)]
        for runs, spread in zip(pair, spreads, strict=True):
            row += [f"{runs[0].parameters:,}" if runs else MISSING, _loss(spread), _range(spread)]
        ordinary, feedback = spreads
        if ordinary and feedback:
            row.append(f"{ordinary.mean - feedback.mean:+.3f}".replace("-", "−"))
        else:
            row.append(MISSING)
        rows.append(row)
    head = ["layers", "parameters", "transformer", "from – to"]
    head += ["parameters", "with feedback", "from – to", "gain"]
    notes = [
        "Losses, and the parameters of either model. Gain is how much lower the loss is with "
        "feedback."
    ]
    return Table(head, rows, notes=[*notes, *_origin(found)])


def depth_curve():
    """The same, as two lines over the number of layers."""
    found = results_of("feedback_depth", RESULTS)
    spreads = {
        kind: {n: final(found[f"{kind}-{n}"]) for n in DEPTHS if found[f"{kind}-{n}"]}
        for kind in ("transformer", "feedback")
    }
    values = [x for of in spreads.values() for s in of.values() for x in (s.low, s.high)]
    low, high = (min(values) - 0.02, max(values) + 0.02) if values else (1.5, 2.5)
    plot = Plot(
        (0.5, len(DEPTHS) + 0.5), (low, high), y_label="validation loss", height=150, x_ticks=()
    )
    for i, layers in enumerate(DEPTHS, 1):
        plot.note(i, low, f"{layers} layers" if layers > 1 else "1 layer", "middle")
    for tone, (kind, of) in enumerate(spreads.items()):
        if not of:
            continue
        xs = [list(DEPTHS).index(layers) + 1 for layers in of]
        plot.line(xs, [s.mean for s in of.values()], tone, label=kind)
        plot.dots(xs, [s.mean for s in of.values()], tone)
        for x, s in zip(xs, of.values(), strict=True):
            plot.line([x, x], [s.low, s.high], tone)
    told = "; ".join(
        f"{kind} " + ", ".join(f"{s.mean:.2f} with {n}" for n, s in of.items())
        for kind, of in spreads.items()
        if of
    )
    return Figure(
        [plot.panel()],
        "Validation losses over the number of layers, one line for transformers and one for "
        f"those with feedback: {told or 'nothing yet, the runs are still to be made'}.",
        table=_depth_table(),
        says=f"Mean losses by layers: {told}.",
    )


def heads_chart():
    """The same as points and ranges."""
    return _ablation_chart(
        "heads", _heads_table(), lambda n: "1 head" if n == "1" else f"{n} heads"
    )


def positions_chart():
    """The same as points and ranges."""
    return _ablation_chart("positions", _positions_table(), str)


def _heads_table():
    """One, two, four and eight heads."""
    return _ablation("heads", "heads", lambda label: label)


def _positions_table():
    """Ways to say where a letter stands."""
    return _ablation("positions", "positions", lambda label: label)


def rates():
    """Losses after a short run, for each learning rate."""
    found = results_of("rates", RESULTS)
    rows = []
    for name, best in BEST_RATE.items():
        row = [NAMES[name]]
        for rate in RATES:
            runs = found[f"{name}-{rate:g}"]
            mark = " ✓" if rate == best else ""
            row.append((f"{final(runs).mean:.3f}" if runs else MISSING) + mark)
        rows.append(row)
    runs = [run for runs in found.values() for run in runs]
    steps = runs[0].last.step if runs else 0
    notes = [f"Validation loss after {steps:,} updates, one seed. ✓ is the rate that was taken."]
    return Table(["model", *(f"{rate:g}" for rate in RATES)], rows, notes=notes)


def shipped():
    """The trained models that come along."""
    rows = []
    found = results_of("shipped", RESULTS)
    for name, runs in found.items():
        row = [SHIPPED_NAMES[name], *[MISSING] * 5]
        if runs:
            (run,) = runs
            size = (RESULTS / name / "model/model.safetensors").stat().st_size
            row[1:] = [
                f"{run.parameters:,}",
                f"{size / 1e6:.2f}",
                f"{run.last.step:,}",
                f"{run.last.process_seconds:.0f}",
                f"{run.result['best_validation_loss']:.3f}",
            ]
        rows.append(row)
    head = ["model", "parameters", "MB", "updates", "CPU seconds", "loss"]
    notes = ["The loss of the encoder–decoder is that of a reply."]
    return Table(head, rows, notes=[*notes, *_origin(found)])


def _ablation_chart(study, table, label):
    """A point for the mean of each variant, and a line for its range."""
    spreads = {name: final(runs) for name, runs in results_of(study, RESULTS).items() if runs}
    names, order = {name: label(name) for name in spreads}, sorted(spreads, key=spreads.get)
    told = ", ".join(f"{names[name]} {spreads[name].mean:.3f}" for name in order)
    panel = _range_panel("validation loss", spreads, dict.fromkeys(spreads, ""), names)
    says = f"Mean losses from the lowest: {told}."
    return Figure(
        [panel], f"A point for each mean, a line for each range. {says}", table, says=says
    )


def _ablation(study, what, name):
    found = results_of(study, RESULTS)
    _same_question([run for runs in found.values() for run in runs])
    rows = []
    for label, runs in found.items():
        spread = final(runs) if runs else None
        seconds = f"{_mean(runs, 'process_seconds'):.0f}" if runs else MISSING
        size = f"{runs[0].parameters:,}" if runs else MISSING
        rows.append([name(label), size, _loss(spread), _range(spread), seconds])
    head = [what, "parameters", "loss", "from – to", "CPU seconds"]
    return Table(head, rows, notes=_origin(found))


def _same_question(runs):
    """Raises for runs on different texts: a table would compare what cannot be."""
    if runs:
        comparable(runs)


def _origin(found):
    """On what text, machine and versions: one sentence, of all that there were."""
    runs = [run for runs in found.values() for run in runs]
    missing = sum(not runs for runs in found.values())
    notes = []
    if missing:
        notes.append(f"{MISSING} stands for runs that are still to be made.")
    if runs:
        seeds = max(len(runs) for runs in found.values())
        text = " and ".join(sorted({run.corpus for run in runs}))
        machine = " and ".join(sorted({_machine(run) for run in runs}))
        torch = " and ".join(sorted({str(run.run["versions"]["torch"]) for run in runs}))
        notes.append(
            f"{text}; {'mean of ' + str(seeds) + ' seeds' if seeds > 1 else 'one seed'}; "
            f"{machine}; PyTorch {torch}."
        )
    return notes


def _machine(run):
    hardware = run.run["hardware"]
    threads = hardware.get("threads")
    cores = f", {threads} thread{'s' if threads != 1 else ''}" if threads else ""
    return f"{hardware.get('name') or hardware['device']}{cores}"


def _mean(runs, spent):
    return sum(getattr(run.last, spent) for run in runs) / len(runs)


def _loss(spread: Spread | None):
    return f"{spread.mean:.3f}" if spread else MISSING


def _range(spread: Spread | None):
    return f"{spread.low:.3f} – {spread.high:.3f}" if spread else MISSING
