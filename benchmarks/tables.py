"""What was recorded, in tables and curves for pages.

The functions of `docs_src/figures/performance.py` are made of these.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any

from pylit.figures.draw import LINE, Figure, Plot, Table, text

Row = Mapping[str, Any]
Recorded = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "docs_src" / "results"
#: What stands for a number that nobody has measured yet.
MISSING = "—"
KV, LUCIDRAINS = "labml-nn, KV", "feedback-transformer-pytorch"
#: Of a contest's rows; all else says what a row is about.
MEASURED = {
    *("name", "ms", "low", "high", "processor_ms", "ratio", "processor_ratio", "rounds"),
    *("tokens_s", "launches", "kernels"),
}
#: What says of a row where it was measured, and how a page writes that.
LAYOUT = {
    "d_model": "{} wide",
    "seq_len": "{} steps",
    "length": "{} steps",
    "context": "context {}",
    "texts": "{} texts",
    "batch": "{} texts",
    "layers": "{} layers",
    "dropout": "dropout {}",
    "work": "{}",
}
SHORT = {KV: "KV", LUCIDRAINS: "peer", "loop of nn.Linear": "nn.Linear"}


def beside(name: str, table: str = "speed") -> Table:
    """One line for each work, with the first form's time, and how many times as fast others are."""
    tables = tables_of(name, table)
    if not tables:
        return nothing(["setting", "threads", "peer, ms", "ours"])
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for threads in sorted(tables, reverse=True):
        for row in tables[threads]["rows"]:
            lines.setdefault((place_of(row), str(threads)), {})[form_of(row)] = row
    every = [row for measured in lines.values() for row in measured.values()]
    forms = list(dict.fromkeys(form_of(row) for row in every))
    first = next(form_of(row) for row in every if row["ratio"] == 1)
    others = [form for form in forms if form != first]
    has_share = any(row.get("share") for row in every)
    rows = []
    for line, measured in lines.items():
        cells = [number(measured[first]["ms"] if first in measured else None)]
        cells += [number(measured[o]["ratio"] if o in measured else None) for o in others]
        if has_share:
            cells.append(percent(max(row.get("share") or 0 for row in measured.values())))
        rows.append([*line, *cells])
    head = ["setting", "threads", f"{first}, ms", *(f"× {short(other)}" for other in others)]
    head += ["of limit"] if has_share else []
    notes = [f"×: how many times as fast as {first}, median over the rounds."]
    if has_share:
        notes[0] += " Of limit: the share that the fastest reaches."
    return Table(head, rows, notes=[*notes, *origin(tables.values(), every)])


def on_gpu(*parts: tuple[str, str]) -> Table:
    """Each form, with what is counted on a GPU besides. `parts` are benchmarks and their tables."""
    head = ["work", "form", "ms", "×", "tokens a second", "launches", "kernels", "of limit"]
    tables = [table for name, part in parts if (table := widest(f"{name}-cuda", part))]
    if not tables:
        return nothing(head, 'make bench FLAGS="--device cuda" measures it, where there is one.')
    every = [row for table in tables for row in table["rows"]]
    rows = []
    for row in every:
        setting = "" if row.get("length") or row.get("seq_len") else row.get("setting", "")
        place = place_of(row)
        cells = [number(row["ms"]), number(row["ratio"])]
        cells += [number(row.get(key), 0) for key in ("tokens_s", "launches", "kernels")]
        words = place if setting in place else f"{setting}, {place}"
        rows.append([words, form_of(row), *cells, percent(row.get("share"))])
    notes = [
        "×: how many times as fast as the first form, median over the rounds. Launches: what the "
        "processor starts. Kernels: what runs on the GPU then."
    ]
    notes += origin(tables, every)
    return Table(head, rows, align="llrrrrrr", notes=notes)


def form_of(row: Row) -> str:
    """Who ran."""
    return str(row.get("form") or row["name"])


def place_of(row: Row) -> str:
    """What a row is about, but for its form."""
    words: list[str] = []
    for key, value in row.items():
        is_letter = key == "setting" and len(value) == 1  # sizes beside it say more
        if key in MEASURED | {"form", "share", "mib"} or is_letter:
            continue
        if (key, value) in (("layers", 1), ("dropout", 0)):
            continue
        words.append(LAYOUT.get(key, "{}" if isinstance(value, str) else f"{key} {{}}"))
        words[-1] = words[-1].format(value).removesuffix("s" if value == 1 else "")
    return ", ".join(words) or str(row.get("setting", ""))


def memory(name: str, table: str = "memory") -> Table:
    """Forms, and what they take where."""
    found = widest(name, table)
    if found is None:
        return nothing(["form", "MiB"])
    places = list(dict.fromkeys(place_of(row) for row in found["rows"]))
    taken = {(form_of(row), place_of(row)): row["mib"] for row in found["rows"]}
    rows = [
        [form, *(number(taken.get((form, place)), 0) for place in places)]
        for form in dict.fromkeys(form for form, _ in taken)
    ]
    notes = ["MiB, forward and backward. Parameters and their gradients were there before."]
    return Table(["form", *places], rows, notes=notes)


def growth(name: str) -> Figure:
    """A panel for each size that grows."""
    rows = rows_of(widest(name, "growth"))
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
            plot.line(at, [ms for _, ms in own], tone, label=short(form))
            plot.dots(at, [ms for _, ms in own], tone)
            told.append(f"{form}, {axis} {own[0][0]} to {own[-1][0]}: ")
            told[-1] += f"{number(own[0][1])} to {number(own[-1][1])} ms"
        panels.append(plot.panel())
    return Figure(
        panels,
        "Milliseconds of a training step over sizes, both axes logarithmic, with a line for each "
        f"form. {'; '.join(told) or 'Nothing was measured yet'}.",
    )


def exponents(name: str) -> Table:
    """The powers of sizes that fit best."""
    table = widest(name, "exponents")
    if table is None:
        return nothing(["form", "over steps", "over width"])
    axes = list(dict.fromkeys(row["axis"] for row in table["rows"]))
    found = {(row["form"], row["axis"]): row["exponent"] for row in table["rows"]}
    sizes = {row["axis"]: row.get("sizes") for row in table["rows"]}
    rows = [
        [form, *(number(found.get((form, axis)), 2) for axis in axes)]
        for form in dict.fromkeys(form for form, _ in found)
    ]
    ends = [f"{axis} from {sizes[axis][0]} to {sizes[axis][-1]}" for axis in axes if sizes[axis]]
    return Table(
        ["form", *(f"over {axis}" for axis in axes)],
        rows,
        notes=[f"{'; '.join(ends)}."] if ends else [],
    )


def tables_of(name: str, table: str) -> dict[int, Recorded]:
    """A table of a benchmark, by the number of threads."""
    # Folders are listed, so that a build sees a file that is new, and a folder.
    folder = RESULTS / "performance"
    is_there = folder.name in {path.name for path in RESULTS.glob("*")}
    paths = {path.stem: path for path in sorted(folder.glob("*.json"))} if is_there else {}
    if name not in paths:
        return {}
    tables = json.loads(paths[name].read_text(encoding="utf-8"))["tables"]
    return {found["threads"]: found for found in tables if found["table"] == table}


def widest(name: str, table: str) -> Recorded | None:
    """With the most threads, or `None`."""
    tables = tables_of(name, table)
    return tables[max(tables)] if tables else None


def rows_of(table: Recorded | None) -> list[Row]:
    """Its rows, if there is one."""
    found: list[Row] = table["rows"] if table else []
    return found


def nothing(head: Sequence[str], way: str = "The command make bench measures it.") -> Table:
    """For tables that nobody has measured."""
    row = ["not measured here", *[MISSING] * (len(head) - 1)]
    return Table(head, [row], notes=[way])


def number(value: float | None, digits: int | None = None) -> str:
    """Three digits, or as many as stand before the point."""
    if value is None:
        return MISSING
    if digits is None:
        digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
        if 0 < value < 0.1:
            return f"{value:.2g}"
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(value: float | None) -> str:
    """Of a share."""
    return MISSING if value is None else f"{100 * value:.0f} %"


def short(form: str) -> str:
    """For a legend."""
    return SHORT.get(form, form.removeprefix("ours, "))


def origin(tables: Iterable[Recorded], rows: Iterable[Row] = ()) -> list[str]:
    """On what, when, and how steadily; and the limit, where shares of it are given."""
    rows = list(rows)
    has_share = any(row.get("share") for row in rows)
    places: dict[str, list[str]] = {}
    for table in tables:
        machine, threads = table["machine"], table["threads"]
        day = date.fromisoformat(table["date"])
        place = (
            f"{machine['processor']}, {machine['cores']} cores, {machine['vectors']}; PyTorch "
            f"{machine['torch']}; {day.day} {day:%B %Y}, commit {(table['commit'] or '?')[:7]}"
        )
        words = f"{threads} thread{'s' * (threads > 1)}"
        words += f", limit {table['matmul_gflops']:.0f} GFLOP/s" if has_share else ""
        if words not in places.setdefault(place, []):
            places[place].append(words)
    notes = [f"{place}; {'; '.join(threads)}." for place, threads in places.items()]
    spreads = [(row["high"] - row["low"]) / row["ms"] for row in rows if row.get("rounds", 0) > 2]
    if spreads:
        notes.append(
            f"Half of the rounds of a form lie within {100 * mean(spreads):.0f} % of each other on "
            f"average, and within {100 * max(spreads):.0f} % at worst."
        )
    return notes
