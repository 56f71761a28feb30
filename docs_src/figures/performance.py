"""What the benchmarks have measured: tables and curves out of `docs_src/results/performance`."""

import json
import math
from datetime import date
from pathlib import Path
from statistics import mean

from pylit.figures.draw import LINE, Figure, Plot, Table, text

RESULTS = Path(__file__).parents[1] / "results"
#: What stands for a number that nobody has measured yet.
MISSING = "—"
KV, LUCIDRAINS = "labml-nn, KV", "feedback-transformer-pytorch"
#: Of a contest's rows; all else says what a row is about.
MEASURED = {"name", "ms", "low", "high", "processor_ms", "ratio", "processor_ratio", "rounds"}
#: What says of a row where it was measured, and how a page writes that.
LAYOUT = {
    "d_model": "{} wide",
    "seq_len": "{} steps",
    "length": "{} steps",
    "context": "context {}",
    "texts": "{} texts",
    "batch": "{} texts",
    "layers": "{} layers",
}
SHORT = {KV: "KV", LUCIDRAINS: "peer", "loop of nn.Linear": "loop"}


# The feedback transformer.


def feedback_a():
    """Training and reading, in the smaller setting."""
    return _feedback("A")


def feedback_b():
    """The larger one."""
    return _feedback("B")


def _feedback(setting):
    table = _best("feedback", "speed")
    head = ["form", "train, ms", "× KV", "× peer", "of limit"]
    head += ["forward, ms", "× KV", "× peer"]
    measured = {
        (row["work"], row["form"]): row for row in _rows(table) if row["setting"] == setting
    }
    if not measured:
        return _nothing(head)
    rows = []
    for form in dict.fromkeys(form for _, form in measured):
        cells = [form]
        for work in ("train", "forward"):
            row, peer = measured.get((work, form)), measured.get((work, LUCIDRAINS))
            cells += [
                _number(row and row["ms"]),
                _number(row and row["ratio"]),
                _number(row and peer and peer["ms"] / row["ms"]),
            ]
            if work == "train":
                cells.append(_percent(row and row["share"]))
        rows.append(cells)
    sizes = {}
    for row in _rows(_best("feedback", "models")):
        if row["setting"] == setting:
            sizes.setdefault(row["parameters"], []).append(row["form"])
    told = "; ".join(f"{size:,} in {', '.join(forms)}" for size, forms in sizes.items())
    notes = [
        "× KV: how many times as fast as FeedbackTransformerKV of labml-nn 0.5.1, median over the "
        f"rounds. × peer: the same of {LUCIDRAINS}, from the medians. Parameters: {told}."
    ]
    return Table(head, rows, notes=[*notes, *_origin([table], measured.values())])


def feedback_cores():
    """One thread and more."""
    tables = _tables("feedback", "speed")
    threads = sorted(tables)
    head = ["form", "setting", *(f"{n} thread{'s' * (n > 1)}, ms" for n in threads), "gain"]
    if len(threads) < 2:
        return _nothing(["form", "setting", "1 thread, ms", "2 threads, ms", "gain"])
    times = {
        n: {
            (row["form"], row["setting"]): row["ms"]
            for row in tables[n]["rows"]
            if row["work"] == "train"
        }
        for n in threads
    }
    rows = []
    for key in times[threads[-1]]:
        few, many = times[threads[0]].get(key), times[threads[-1]][key]
        cells = [_number(times[n].get(key)) for n in threads]
        rows.append([*key, *cells, _number(few and few / many)])
    notes = ["Training steps. Gain: the first time by the last."]
    return Table(head, rows, align="ll" + "r" * (len(head) - 2), notes=notes)


def feedback_memory():
    """The most that tensors take, over the length of a text."""
    return _memory("feedback")


def feedback_growth():
    """Training steps over each size, with both axes logarithmic."""
    return _growth("feedback")


def feedback_exponents():
    """The powers of the sizes that time grows with."""
    return _exponents("feedback")


# Others.


def elman():
    """Settings beside nn.RNN."""
    return _beside("elman")


def elman_growth():
    """Training steps over each size."""
    return _growth("elman")


def elman_exponents():
    """The powers of the sizes that time grows with."""
    return _exponents("elman")


def elman_memory():
    """The most that tensors take, over the length of a text."""
    return _memory("elman")


def attention():
    """Multi-head attention beside that of PyTorch."""
    return _beside("attention")


def attention_memory():
    """The most that it takes."""
    return _memory("attention")


def generation():
    """A token at a time."""
    return _beside("generation")


def build():
    """The pages of a package."""
    return _beside("build")


# What parts of a training are worth.

#: The recipes of `benchmarks/training.py`, in words.
RECIPES = {
    "nanoGPT": "nanoGPT's recipe",
    "all": "the preset",
    "all, a third of the time": "the preset, in a third of the time",
    "AdamW for all parameters": "AdamW, not Muon",
    "learned positions": "learned positions, not rotary ones",
    "the peer's shape": "4 layers of 128, not 3 of 96",
    "the peer's batch": "12 windows of 64, not 8 of 128",
    "no QK norm": "no QK norm",
    "layer norm": "LayerNorm, not RMSNorm",
    "GELU": "GELU, not squared ReLU",
    "no zeros at the start": "no outputs that start at zero",
    "with biases": "with biases",
}
CURVES = {
    "nanoGPT": "nanoGPT",
    "all": "preset",
    "all, a third of the time": "in a third",
}


def training():
    """Losses at equal time, with one part of the preset taken away."""
    runs = _training()
    head = ["recipe", "updates", "loss", "from – to", "difference", "at every seed"]
    if not runs.get("all"):
        return _nothing(head)
    preset = _losses(runs["all"])
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
                f"{mean(losses) - mean(preset):+.3f}".replace("-", "−") if name != "all" else "",
                _verdict(losses, preset) if name != "all" else "",
            ]
        )
    some = [run for found in runs.values() for run in found]
    hardware, seeds = some[0]["hardware"], max(len(found) for found in runs.values())
    threads = some[0]["threads"]
    off = max(abs(run["peer_times"] / _share(run) - 1) for run in some)
    notes = [
        f"All took the time that was meant, within {100 * off:.0f} %. Difference: how much higher "
        "the loss is than the preset's. At every seed: whether the ranges of the seeds lie apart. "
        f"Mean of {seeds} seeds; {hardware['name']}, {threads} thread{'s' * (threads > 1)}."
    ]
    return Table(head, rows, align="lrrrrl", notes=notes)


def training_curves():
    """Validation losses over time, of which one is what the peer's whole training takes."""
    runs = {name: found for name, found in _training().items() if name in CURVES}
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


def _training():
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


def _verdict(losses, preset):
    if min(losses) > max(preset):
        return "higher"
    return "lower" if max(losses) < min(preset) else "cannot tell"


def _over_time(run):
    """Points of a curve, in shares of the peer's time."""
    whole = run["seconds"] / run["peer_times"]
    points = [(wall / whole, loss) for _, loss, wall, _ in run["curve"]]
    # The last step may be measured twice: as one of the marks, and as the end.
    return [*points[:3], points[-1]]


# What the tables of any benchmark have in common.


def _beside(name, table="speed"):
    """One line for each work, with the first form's time, and how many times as fast others are."""
    tables = _tables(name, table)
    if not tables:
        return _nothing(["setting", "threads", "peer, ms", "ours"])
    lines = {}
    for threads in sorted(tables, reverse=True):
        for row in tables[threads]["rows"]:
            lines.setdefault((_where(row), str(threads)), {})[_form(row)] = row
    every = [row for measured in lines.values() for row in measured.values()]
    forms = list(dict.fromkeys(_form(row) for row in every))
    first = next(_form(row) for row in every if row["ratio"] == 1)
    others = [form for form in forms if form != first]
    has_share = any(row.get("share") for row in every)
    rows = []
    for line, measured in lines.items():
        cells = [_number(measured[first]["ms"] if first in measured else None)]
        cells += [_number(measured[o]["ratio"] if o in measured else None) for o in others]
        if has_share:
            cells.append(_percent(max(row.get("share") or 0 for row in measured.values())))
        rows.append([*line, *cells])
    head = ["setting", "threads", f"{first}, ms", *(f"× {_short(other)}" for other in others)]
    head += ["of limit"] if has_share else []
    notes = [f"×: how many times as fast as {first}, median over the rounds."]
    if has_share:
        notes[0] += " Of limit: the share that the fastest reaches."
    return Table(head, rows, notes=[*notes, *_origin(tables.values(), every)])


def _form(row):
    return row.get("form") or row["name"]


def _where(row):
    """What a row is about, but for its form."""
    words = []
    for key, value in row.items():
        if key in MEASURED | {"form", "share", "setting"} or isinstance(value, float):
            continue
        if key == "layers" and value == 1:
            continue
        words.append(LAYOUT.get(key, "{}" if isinstance(value, str) else f"{key} {{}}"))
        words[-1] = words[-1].format(value)
    return ", ".join(words) or row.get("setting", "")


def _memory(name):
    """Forms over lengths."""
    table = _best(name, "memory")
    if table is None:
        return _nothing(["form", "128 steps", "256 steps"])
    lengths = sorted({row["length"] for row in table["rows"]})
    found = {(row["form"], row["length"]): row["mib"] for row in table["rows"]}
    rows = [
        [form, *(_number(found.get((form, length)), 0) for length in lengths)]
        for form in dict.fromkeys(form for form, _ in found)
    ]
    notes = ["MiB, forward and backward. Parameters and their gradients were there before."]
    return Table(["form", *(f"{length} steps" for length in lengths)], rows, notes=notes)


def _growth(name):
    """A panel for each size that grows."""
    rows = _rows(_best(name, "growth"))
    panels = []
    told = []
    for axis in dict.fromkeys(row["axis"] for row in rows) or ["steps"]:
        found = [row for row in rows if row["axis"] == axis]
        sizes = sorted({row["size"] for row in found}) or [32, 256]
        times = [row["ms"] for row in found] or [1, 1000]
        ends = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)))
        xs = (math.log2(sizes[0]) - 0.15, math.log2(sizes[-1]) + 0.15)
        plot = Plot(xs, ends, title=f"over {axis}", y_label="ms", log=True, height=170, x_ticks=())
        for size in sizes:
            plot.add(text(plot.at(math.log2(size), 1)[0], plot.bottom + LINE, f"{size}", "middle"))
        for tone, form in enumerate(dict.fromkeys(row["form"] for row in found)):
            own = sorted((row["size"], row["ms"]) for row in found if row["form"] == form)
            at = [math.log2(size) for size, _ in own]
            plot.line(at, [ms for _, ms in own], tone, label=_short(form))
            plot.dots(at, [ms for _, ms in own], tone)
            told.append(f"{form}, {axis} {own[0][0]} to {own[-1][0]}: ")
            told[-1] += f"{_number(own[0][1])} to {_number(own[-1][1])} ms"
        panels.append(plot.panel())
    return Figure(
        panels,
        "Milliseconds of a training step over sizes, both axes logarithmic, with a line for each "
        f"form. {'; '.join(told) or 'Nothing was measured yet'}.",
    )


def _exponents(name):
    table = _best(name, "exponents")
    if table is None:
        return _nothing(["form", "over steps", "over width"])
    axes = list(dict.fromkeys(row["axis"] for row in table["rows"]))
    found = {(row["form"], row["axis"]): row["exponent"] for row in table["rows"]}
    sizes = {row["axis"]: row.get("sizes") for row in table["rows"]}
    rows = [
        [form, *(_number(found.get((form, axis)), 2) for axis in axes)]
        for form in dict.fromkeys(form for form, _ in found)
    ]
    ends = [f"{axis} from {sizes[axis][0]} to {sizes[axis][-1]}" for axis in axes if sizes[axis]]
    return Table(
        ["form", *(f"over {axis}" for axis in axes)],
        rows,
        notes=[f"{'; '.join(ends)}."] if ends else [],
    )


def _tables(name, table):
    """A table of a benchmark, by the number of threads."""
    # The folder is listed, so that a build sees a file that is new.
    folder = RESULTS / "performance"
    paths = {path.stem: path for path in sorted(folder.glob("*.json"))} if folder.exists() else {}
    if name not in paths:
        return {}
    tables = json.loads(paths[name].read_text(encoding="utf-8"))["tables"]
    return {found["threads"]: found for found in tables if found["table"] == table}


def _best(name, table):
    """With the most threads, or `None`."""
    tables = _tables(name, table)
    return tables[max(tables)] if tables else None


def _rows(table):
    return table["rows"] if table else []


def _nothing(head):
    """For tables that nobody has measured."""
    row = ["not measured here", *[MISSING] * (len(head) - 1)]
    return Table(head, [row], notes=["The command make bench measures it."])


def _number(value, digits=None):
    """Three digits, or as many as stand before the point."""
    if value is None:
        return MISSING
    if digits is None:
        digits = 0 if value >= 100 else 1 if value >= 10 else 2
        if 0 < value < 0.1:
            return f"{value:.2g}"
    return f"{value:,.{digits}f}".replace("-", "−")


def _percent(value):
    return MISSING if value is None else f"{100 * value:.0f} %"


def _short(form):
    """For a legend."""
    return SHORT.get(form, form.removeprefix("ours, "))


def _origin(tables, rows=()):
    """On what, when, and how steadily."""
    places = {}
    for table in tables:
        machine, threads = table["machine"], table["threads"]
        day = date.fromisoformat(table["date"])
        place = (
            f"{machine['processor']}, {machine['cores']} cores, {machine['vectors']}; PyTorch "
            f"{machine['torch']}; {day.day} {day:%B %Y}, commit {(table['commit'] or '?')[:7]}"
        )
        rate = f"{table['matmul_gflops']:.0f} GFLOP/s with {threads} thread{'s' * (threads > 1)}"
        places.setdefault(place, []).append(rate)
    notes = [f"{place}. Limit: {', '.join(rates)}." for place, rates in places.items()]
    spreads = [(row["high"] - row["low"]) / row["ms"] for row in rows if row.get("rounds", 0) > 2]
    if spreads:
        notes.append(
            f"Half of the rounds of a form lie within {100 * mean(spreads):.0f} % of each other on "
            f"average, and within {100 * max(spreads):.0f} % at worst."
        )
    return notes
