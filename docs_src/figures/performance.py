"""Charts and tables of what `make bench` recorded in docs_src/results/performance.

What was not measured is not shown: the build stops.
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import mean, median

from pylit.figures.draw import Figure, Table, bar_list

RESULTS = Path(__file__).parents[1] / "results"
MISSING = "—"
PEER = "feedback-transformer-pytorch"


def machines():
    """Where and when each benchmark ran."""
    head = ["benchmark", "processor", "cores", "threads", "PyTorch", "day", "commit"]
    lines = []
    for path in sorted((RESULTS / "performance").glob("*.json")):
        tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
        for one in tables:
            machine, day = one["machine"], date.fromisoformat(one["date"])
            processor = f"{machine['processor']}, {machine['vectors']}"
            cells = [processor, str(machine["cores"]), str(one["threads"]), machine["torch"]]
            cells += [f"{day.day} {day:%B %Y}", (one["commit"] or "?")[:7]]
            lines.append([path.stem, *cells])
    return Table(head, list(map(list, dict.fromkeys(map(tuple, lines)))), align="lwrrlll")


def _bars(name, part, is_wanted, label, title, value="ms", most=None):
    """Bars of the rows of a record, with what they say as text."""
    _, rows = _read(name, part, is_wanted)
    shown = [f"{_number(row[value])} {'ms' if value == 'ms' else '×'}" for row in rows]
    values = [row[value] for row in rows]
    labels = [label(row) for row in rows]
    words = f"{title}: " + "; ".join(map(" ".join, zip(labels, shown, strict=True)))
    return bar_list(labels, values, shown, title=title, most=most), words, rows


def _chart(bars, says, table):
    """A figure of some lists of bars, a sentence, and the table that they are from."""
    return Figure(
        [panel for panel, _, _ in bars],
        ". ".join(words for _, words, _ in bars),
        table=table,
        says=says,
    )


def overview():
    """How much faster a training step is, the median over the settings of a lesson's benchmark."""
    lessons = (
        ("Feedback Transformer", "feedback", "ours, C++ kernel", "labml-nn 0.5.1"),
        ("Elman network", "elman", "ours, C++ kernel", "nn.RNN"),
        ("attention", "attention", "ours", "labml-nn 0.5.1"),
    )
    lines, ratios = [], []
    for lesson, name, form, rival in lessons:
        _, rows = _read(name, "speed", lambda row, form=form: row["form"] == form)
        found = sorted(row["ratio"] for row in rows if row["work"] == "train")
        ratios.append(median(found))
        lines.append(
            [
                lesson,
                rival,
                str(len(found)),
                *map(_number, (*ratios[-1:], *found[:: len(found) - 1])),
            ]
        )
    head = ["lesson", "beside", "settings", "×", "least", "most"]
    shown = [f"{line[3]} ×" for line in lines]
    words = "; ".join(f"{line[0]} {line[3]} times as fast as {line[1]}" for line in lines)
    return Figure(
        [
            bar_list(
                [line[0] for line in lines], ratios, shown, title="training step, times as fast"
            )
        ],
        f"A training step: {words}.",
        table=Table(head, lines, align="llrrrr"),
        says=f"Medians over the settings: {words}.",
    )


def feedback_chart():
    """A training step in each implementation, at both settings."""

    def bars(setting, title):
        def is_wanted(row):
            return row["setting"] == setting and row["work"] == "train"

        return _bars("feedback", "speed", is_wanted, lambda row: row["form"], title)

    both = bars("A", "training step, smaller setting"), bars("B", "training step, larger setting")
    small, large = (_number(rows[-1]["ratio"]) for _, _, rows in both)
    says = (
        f"The C++ kernel trains {small} and {large} times as fast as the faster model of "
        "labml-nn 0.5.1."
    )
    return _chart(both, says, _feedback_a_table())


def _range(rows):
    ratios = sorted(row["ratio"] for row in rows)
    return f"{_number(ratios[0])} to {_number(ratios[-1])} times"


def elman_chart():
    """How much faster than nn.RNN, at each setting."""

    def bars(work, title):
        def is_wanted(row):
            return row["form"] == "ours, C++ kernel" and row["work"] == work

        def label(row):
            layers = f", {row['layers']} layers" if row["layers"] > 1 else ""
            return f"{row['units']} units, B {row['batch']}{layers}"

        return _bars("elman", "speed", is_wanted, label, title, "ratio")

    both = (
        bars("train", "training step, times as fast as nn.RNN"),
        bars("forward", "forward pass, times as fast"),
    )
    says = (
        f"With its kernel the layer trains {_range(both[0][2])} as fast as nn.RNN, and runs "
        f"forward {_range(both[1][2])} as fast."
    )
    return _chart(both, says, _elman_table())


def attention_chart():
    """Ours and PyTorch's beside labml-nn's."""

    def bars(work, title):
        def is_wanted(row):
            return row["form"] != "labml-nn" and row["work"] == work

        return _bars(
            "attention",
            "speed",
            is_wanted,
            lambda row: f"{row['form']}, {row['setting']}",
            title,
            "ratio",
        )

    both = (
        bars("train", "training step, times as fast as labml-nn"),
        bars("forward", "forward pass, times as fast"),
    )
    ours, theirs = (
        [row for row in both[0][2] if row["form"] == form] for form in ("ours", "PyTorch")
    )
    says = (
        f"Attention trains {_range(ours)} as fast as in labml-nn 0.5.1, and nn.MultiheadAttention "
        f"{_range(theirs)}."
    )
    return _chart(both, says, _attention_table())


def mixers_chart():
    """The fastest form of each layer, for the longest sequence."""
    _, rows = _read("mixers", "speed", lambda row: row["work"] == "train")
    longest = max(row["length"] for row in rows)
    chosen = ("attention", "LSTM", "linear attention, chunks", "DeltaNet, chunks")
    chosen += ("Gated DeltaNet, chunks", "Mamba-2, chunks")

    def bars(work, title):
        def is_wanted(row):
            return (row["work"], row["length"]) == (work, longest) and row["form"] in chosen

        return _bars("mixers", "speed", is_wanted, lambda row: row["form"], title)

    both = (
        bars("train", f"forward and backward, {longest:,} tokens"),
        bars("forward", f"forward, {longest:,} tokens"),
    )
    times = {row["form"]: row["ms"] for row in both[0][2]}
    fastest = min(times, key=times.__getitem__)
    ratio = _number(times["attention"] / times[fastest])
    says = (
        f"At {longest:,} tokens {fastest.replace(',', ' in')} takes the least time in training. "
        f"Attention takes {ratio} times as much."
    )
    return _chart(both, says, mixers())


def generation_chart():
    """A token after the longest context, one sequence."""
    _, rows = _read("generation", "tokens")
    last = max(row["context"] for row in rows)

    def bars(form, title, value="ms"):
        def is_wanted(row):
            return (row["context"], row["batch"], row["form"]) == (last, 1, form)

        return _bars("generation", "tokens", is_wanted, lambda row: row["model"], title, value)

    both = (
        bars("re-reads the context", f"re-reading {last} tokens"),
        bars("ours, decoding step", "from the state, times as fast", "ratio"),
    )
    says = (
        f"After {last} tokens a step from the state is {_range(both[1][2])} as fast as reading "
        "them anew."
    )
    return _chart(both, says, _generation_table())


def _feedback_a_table():
    """Training and inference at the smaller setting."""
    return _feedback("A")


def feedback_b():
    """The larger setting."""
    return _feedback("B")


def _feedback(setting):
    head = ["implementation", "train, ms", "× KV", "× peer", "of limit"]
    head += ["forward, ms", "× KV", "× peer"]
    table, rows = _read("feedback", "speed", lambda row: row["setting"] == setting)
    found = {(row["work"], row["form"]): row for row in rows}
    lines = []
    for form in dict.fromkeys(form for _, form in found):
        cells = [form]
        for work in ("train", "forward"):
            row, peer = found.get((work, form), {}), found.get((work, PEER), {})
            times = peer["ms"] / row["ms"] if peer and row else None
            cells += [_number(row.get("ms")), _number(row.get("ratio")), _number(times)]
            if work == "train":
                cells.append(_percent(row.get("share")))
        lines.append(cells)
    note = (
        "× KV: speed-up over FeedbackTransformerKV of labml-nn 0.5.1, the median over the rounds. "
        f"× peer: over {PEER}, from the medians."
    )
    return _finished(head, lines, table, rows, note)


def _memory(name, keys):
    """MiB by implementation and setting."""
    table, rows = _read(name, "memory")
    settings = list(dict.fromkeys(_words(row, keys) for row in rows))
    found = {(row["form"], _words(row, keys)): row["mib"] for row in rows}
    lines = [
        [form, *(_number(found.get((form, setting)), 0) for setting in settings)]
        for form in dict.fromkeys(form for form, _ in found)
    ]
    note = "MiB for forward and backward, beyond parameters and their gradients."
    return _finished(["implementation", *(settings or ["MiB"])], lines, table, (), note)


def feedback_memory():
    """Over the sequence length."""
    return _memory("feedback", {"seq_len": "T {}"})


def attention_memory():
    """Of forward and backward pass."""
    return _memory("attention", {"setting": "{}"})


def _beside(name, part, keys):
    """A line for each setting: the first implementation's time, and the others' speed-ups."""
    table, rows = _read(name, part)
    forms = list(dict.fromkeys(row["form"] for row in rows))
    lines = []
    for setting in dict.fromkeys(_words(row, keys) for row in rows):
        own = {row["form"]: row for row in rows if _words(row, keys) == setting}
        cells = [_number(own[forms[0]]["ms"])] if forms[0] in own else [MISSING]
        lines.append([setting, *cells, *(_number(own.get(f, {}).get("ratio")) for f in forms[1:])])
    head = ["setting", *(forms and [f"{forms[0]}, ms", *(f"× {form}" for form in forms[1:])])]
    note = f"×: speed-up over {forms[0]}, the median over the rounds." if forms else ""
    return _finished(head if forms else ["setting", "ms"], lines, table, rows, note)


def _elman_table():
    """Beside nn.RNN."""
    keys = {"work": "{}", "units": "{} units", "seq_len": "T {}", "batch": "B {}"}
    return _beside("elman", "speed", {**keys, "layers": "{} layers"})


def _attention_table():
    """Two large settings."""
    return _beside("attention", "speed", {"work": "{}", "setting": "{}"})


def attention_layer():
    """Training of a whole layer."""
    return _beside("attention", "layer", {"setting": "{}"})


def attention_sizes():
    """Ours beside PyTorch's over many sizes: the worst, the median and the best."""
    table, rows = _read("attention", "sizes", lambda row: row["form"] == "ours")
    lines = []
    for kind in dict.fromkeys(f"{row['kind']}, {row['work']}" for row in rows):
        own = [row for row in rows if f"{row['kind']}, {row['work']}" == kind]
        ratios = sorted(row["ratio"] for row in own)
        worst = min(own, key=lambda row: row["ratio"])
        where = f"T {worst['length']}, B {worst['batch']}"
        middle, best = _number(median(ratios)), _number(ratios[-1])
        lines.append([kind, str(len(own)), _number(ratios[0]), where, middle, best])
    head = ["kind", "sizes", "worst", "where", "median", "best"]
    note = "Speed-up over `nn.MultiheadAttention`, the median over the rounds of each size."
    return _finished(head, lines, table, (), note.replace("`", ""))


def mixers():
    """A sequence, forward and with backward, by length."""
    return _mixers(lambda row: True)


def linear_attention():
    """Its three forms, beside attention."""
    return _mixers(lambda row: row["form"].removeprefix("linear ").startswith("attention"))


def delta_net():
    """Its two forms, without a gate and with one, beside attention."""
    return _mixers(lambda row: row["form"].startswith("attention") or "Delta" in row["form"])


def _mixers(is_wanted):
    table, rows = _read("mixers", "speed", is_wanted)
    columns = list(dict.fromkeys((row["work"], row["length"]) for row in rows))
    found = {(row["form"], row["work"], row["length"]): row["ms"] for row in rows}
    lines = [
        [form, *(_number(found.get((form, *column))) for column in columns)]
        for form in dict.fromkeys(row["form"] for row in rows)
    ]
    head = ["layer", *(f"{work}, T {length:,}" for work, length in columns or [("forward", 0)])]
    note = (
        "Milliseconds, the median over the rounds. Train is forward and backward. A reference is "
        "the same layer without our kernel. PyTorch's alone leaves attention to PyTorch."
    )
    return _finished(head, lines, table, (), note, _where(table))


def mixers_tokens():
    """One more token, and the state that it needs."""
    table, rows = _read("mixers", "tokens")
    lengths = list(dict.fromkeys(row["length"] for row in rows))
    found = {(row["form"], row["length"]): row for row in rows}
    lines = []
    for form in dict.fromkeys(row["form"] for row in rows):
        own = [found[form, length] for length in lengths]
        lines.append([form, *(_number(row["ms"]) for row in own)])
        lines[-1] += [f"{row['bytes']:,}" for row in own]
    head = ["layer", *(f"after {length:,}, ms" for length in lengths or [0])]
    head += [f"bytes after {length:,}" for length in lengths or [0]]
    return _finished(head, lines, table, (), "Milliseconds for a token.", _where(table))


def _generation_table():
    """One more token, over contexts and batches."""
    table, rows = _read("generation", "tokens")
    contexts = sorted({row["context"] for row in rows})
    most = max((row["batch"] for row in rows), default=8)
    last = contexts[-1] if contexts else 0
    lines = []
    for model, form in dict.fromkeys((row["model"], row["form"]) for row in rows):
        own = {
            (row["context"], row["batch"]): row
            for row in rows
            if (row["model"], row["form"]) == (model, form)
        }
        cells = [_number(own[context, 1]["ms"]) for context in contexts]
        cells += [_number(own[last, 1]["ratio"]), _number(own[last, most]["ms"])]
        lines.append([f"{model}: {form}", *cells])
    head = ["model: implementation", *(f"{c}, ms" for c in contexts or ["context"])]
    head += ["×", f"batch of {most}, ms"]
    note = (
        f"Milliseconds for one more token after a context of so many. ×: speed-up over re-reading "
        f"the context, at {last}. Batch of {most}: milliseconds for one token of each, at {last}."
    )
    return _finished(head, lines, table, rows, note)


def text():
    """A whole text, sampling included."""
    table, rows = _read("generation", "text")
    batches = sorted({row["batch"] for row in rows})
    found = {(row["form"], row["batch"]): row["ms"] for row in rows}
    lines = [
        [model, *(_number(found[model, batch]) for batch in batches)]
        for model in dict.fromkeys(row["form"] for row in rows)
    ]
    head = ["model", *(f"batch of {batch}, ms a token" for batch in batches or [1])]
    return _finished(head, lines, table, rows)


# From records to cells.


def _read(name, part, is_wanted: Callable = lambda row: True):
    """The table measured with the most threads, and its rows.

    Raises `LookupError` where nothing was measured.
    """
    # Folders are listed, so that a build notices a file that is new.
    folder = RESULTS / "performance"
    there = folder.name in {path.name for path in RESULTS.glob("*")}
    paths = {path.stem: path for path in sorted(folder.glob("*.json"))} if there else {}
    missing = f"{name}: {part} was not measured; run make bench NAMES={name}, or leave it out"
    if name not in paths:
        raise LookupError(missing)
    tables = json.loads(paths[name].read_text(encoding="utf-8"))["tables"]
    found = [table for table in tables if table["table"] == part]
    if not found:
        raise LookupError(missing)
    table = max(found, key=lambda one: one["threads"])
    return table, [row for row in table["rows"] if is_wanted(row)]


def _words(row, keys):
    return ", ".join(text.format(row.get(key)) for key, text in keys.items())


def _where(table):
    """The machine in a sentence, for tables of other pages."""
    machine, threads = table["machine"], table["threads"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {threads} "
        f"thread{'s' * (threads > 1)}, PyTorch {machine['torch']}."
    )


def _finished(head, lines, table, rows, *notes):
    """A table, what it means, and how far its rounds lie apart; `machines` says where."""
    notes = [*filter(None, notes)]
    spreads = [(row["high"] - row["low"]) / row["ms"] for row in rows if row.get("rounds", 0) > 2]
    if spreads:
        notes.append(
            f"Half of the rounds of an implementation lie within {100 * mean(spreads):.0f} % of "
            f"each other on average, and within {100 * max(spreads):.0f} % at worst."
        )
    return Table(head, lines, notes=notes)


def _number(value, digits=None):
    """Three digits, or as many as stand before the point."""
    if value is None:
        return MISSING
    if digits is None:
        if 0 < value < 0.1:
            return f"{value:.2g}"
        digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{digits}f}".replace("-", "−")


def _percent(value):
    """Of a share."""
    return MISSING if value is None else f"{100 * value:.0f} %"
