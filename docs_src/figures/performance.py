"""What the benchmarks have measured, in tables and curves: see `benchmarks/tables.py`."""

from statistics import median

from benchmarks.tables import (
    LUCIDRAINS,
    MISSING,
    beside,
    exponents,
    growth,
    memory,
    nothing,
    number,
    on_gpu,
    origin,
    percent,
    rows_of,
    tables_of,
    widest,
)
from pylit.figures.draw import Table

# The feedback transformer.


def feedback_a():
    """Training and reading, in the smaller setting."""
    return _feedback("A")


def feedback_b():
    """The larger one."""
    return _feedback("B")


def _feedback(setting):
    table = widest("feedback", "speed")
    head = ["form", "train, ms", "× KV", "× peer", "of limit"]
    head += ["forward, ms", "× KV", "× peer"]
    measured = {
        (row["work"], row["form"]): row for row in rows_of(table) if row["setting"] == setting
    }
    if not measured:
        return nothing(head)
    rows = []
    for form in dict.fromkeys(form for _, form in measured):
        cells = [form]
        for work in ("train", "forward"):
            row, peer = measured.get((work, form)), measured.get((work, LUCIDRAINS))
            cells += [
                number(row and row["ms"]),
                number(row and row["ratio"]),
                number(row and peer and peer["ms"] / row["ms"]),
            ]
            if work == "train":
                cells.append(percent(row and row["share"]))
        rows.append(cells)
    sizes = {}
    for row in rows_of(widest("feedback", "models")):
        if row["setting"] == setting:
            sizes.setdefault(row["parameters"], []).append(row["form"])
    told = "; ".join(f"{size:,} in {', '.join(forms)}" for size, forms in sizes.items())
    notes = [
        "× KV: how many times as fast as FeedbackTransformerKV of labml-nn 0.5.1, median over the "
        f"rounds. × peer: the same of {LUCIDRAINS}, from the medians. Parameters: {told}."
    ]
    return Table(head, rows, notes=[*notes, *origin([table], measured.values())])


def feedback_cores():
    """One thread and more."""
    tables = tables_of("feedback", "speed")
    threads = sorted(tables)
    head = ["form", "setting", *(f"{n} thread{'s' * (n > 1)}, ms" for n in threads), "gain"]
    if len(threads) < 2:
        return nothing(["form", "setting", "1 thread, ms", "2 threads, ms", "gain"])
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
        cells = [number(times[n].get(key)) for n in threads]
        rows.append([*key, *cells, number(few and few / many)])
    notes = ["Training steps. Gain: the first time by the last."]
    return Table(head, rows, align="ll" + "r" * (len(head) - 2), notes=notes)


def feedback_memory():
    """The most that tensors take, over the length of a text."""
    return memory("feedback")


def feedback_growth():
    """Training steps over each size, with both axes logarithmic."""
    return growth("feedback")


def feedback_exponents():
    """The powers of the sizes that time grows with."""
    return exponents("feedback")


# Others.


def elman():
    """Settings beside nn.RNN."""
    return beside("elman")


def elman_growth():
    """Training steps over each size."""
    return growth("elman")


def elman_exponents():
    """The powers of the sizes that time grows with."""
    return exponents("elman")


def elman_memory():
    """The most that tensors take, over the length of a text."""
    return memory("elman")


def attention():
    """Multi-head attention beside that of PyTorch."""
    return beside("attention")


def attention_layer():
    """A whole layer of a transformer."""
    return beside("attention", "layer")


def attention_anywhere():
    """Ours beside PyTorch's alone, in many sizes: how it is at worst, and at best."""
    tables = tables_of("attention", "anywhere")
    head = ["kind", "threads", "sizes", "at worst", "where", "median", "at best"]
    lines = {}
    for threads in sorted(tables, reverse=True):
        for row in tables[threads]["rows"]:
            if row["ratio"] != 1:
                line = (f"{row['kind']}, {row['work']}", str(threads))
                lines.setdefault(line, []).append(row)
    if not lines:
        return nothing(head)
    rows = []
    for line, found in lines.items():
        ratios = sorted(row["ratio"] for row in found)
        worst = min(found, key=lambda row: row["ratio"])
        place = f"T {worst['length']}, B {worst['texts']}"
        shown = [number(ratio) for ratio in (ratios[0], median(ratios), ratios[-1])]
        rows.append([*line, str(len(found)), shown[0], place, *shown[1:]])
    notes = ["How many times as fast as PyTorch's: the median over the rounds of each size."]
    return Table(head, rows, notes=[*notes, *origin(tables.values())])


def attention_memory():
    """The most that it takes."""
    return memory("attention")


def generation():
    """A token at a time, after a text that grows."""
    table = widest("generation", "tokens")
    if table is None:
        return nothing(["model", "ms a token"])
    alone = [row for row in table["rows"] if row["texts"] == 1]
    contexts = sorted({row["context"] for row in alone})
    most = max(row["texts"] for row in table["rows"])
    # Added to zero, a small power below it is no "−0.00".
    powers = {
        (row["model"], row["form"]): round(row["exponent"], 2) + 0.0
        for row in rows_of(widest("generation", "growth"))
    }
    rows = []
    for model, form in dict.fromkeys((row["model"], row["form"]) for row in alone):
        own = {
            (row["context"], row["texts"]): row
            for row in table["rows"]
            if (row["model"], row["form"]) == (model, form)
        }
        last, many = own.get((contexts[-1], 1)), own.get((contexts[-1], most))
        cells = [own.get((context, 1)) for context in contexts]
        rows.append(
            [
                f"{model}: {form}",
                *(number(row and row["ms"], 3 if row and row["ms"] < 1 else None) for row in cells),
                number(last and last["ratio"]),
                number(powers.get((model, form)), 2),
                number(many and many["ms"], 3 if many and many["ms"] < 1 else None),
            ]
        )
    head = ["model: form", *(f"{context}, ms" for context in contexts), "×", "exponent"]
    head.append(f"{most} texts")
    notes = [
        "Milliseconds for one more token, after so many. ×: how many times as fast as the first "
        f"form of the model, after {contexts[-1]}. Exponent: of the context. {most} texts: "
        f"milliseconds for a token of each, after {contexts[-1]}."
    ]
    return Table(head, rows, notes=[*notes, *origin([table], table["rows"])])


def written():
    """A whole text, sampling included."""
    table = widest("generation", "written")
    if table is None:
        return nothing(["model", "ms a token"])
    counts = sorted({row["texts"] for row in table["rows"]})
    found = {(row["model"], row["texts"]): row["ms"] for row in table["rows"]}
    rows = [
        [model, *(number(found.get((model, count)), 3) for count in counts)]
        for model in dict.fromkeys(model for model, _ in found)
    ]
    head = ["model", *(f"{n} text{'s' * (n > 1)}, ms" for n in counts)]
    return Table(head, rows, notes=origin([table], table["rows"]))


def build():
    """Packages of others, by each generator."""
    table = widest("build", "speed")
    if table is None:
        return nothing(["package", "generator", "seconds", "pages", "MB"])
    sites = {(row["setting"], row["form"]): row for row in rows_of(widest("build", "sites"))}
    rows = []
    for row in table["rows"]:
        site = sites.get((row["setting"], row["form"]))
        size = [str(site["pages"]), number(site["mb"], 1)] if site else [MISSING, MISSING]
        cells = [number(row["ms"] / 1000), number(row["processor_ms"] / 1000)]
        rows.append([row["setting"], row["form"], *cells, *size])
    head = ["package", "generator", "seconds", "of processor", "pages", "MB"]
    does = {row["form"]: row["does"] for row in sites.values()}
    notes = [f"{form}: {what}." for form, what in does.items()]
    return Table(head, rows, align="llrrrr", notes=[*notes, *origin([table], table["rows"])])


def build_growth():
    """More and more modules of a package."""
    table = widest("build", "growth")
    if table is None:
        return nothing(["modules", "seconds"])
    forms = list(dict.fromkeys(row["form"] for row in table["rows"]))
    found = {(row["modules"], row["form"]): row for row in table["rows"]}
    rows = [
        [str(modules), *(number(found[modules, form]["ms"] / 1000) for form in forms)]
        for modules in dict.fromkeys(row["modules"] for row in table["rows"])
    ]
    powers = {row["form"]: row["exponent"] for row in table["rows"]}
    rows.append(["exponent", *(number(powers[form]) for form in forms)])
    return Table(
        ["modules", *(f"{form}, s" for form in forms)],
        rows,
        notes=["The exponent is that of the lines: modules are not alike."],
    )


def build_own():
    """This site, after an edit."""
    table = widest("build", "own")
    if table is None:
        return nothing(["edited", "seconds"])
    forms = list(dict.fromkeys(row["form"] for row in table["rows"]))
    found = {(row["edited"], row["form"]): row["ms"] / 1000 for row in table["rows"]}
    rows = [
        [edited, *(number(found.get((edited, form))) for form in forms)]
        for edited in dict.fromkeys(edited for edited, _ in found)
    ]
    head = ["edited", *(f"{form}, s" for form in forms)]
    return Table(head, rows, notes=origin([table], table["rows"]))


# On a GPU, where there was one.


def feedback_gpu():
    """The feedback transformer in all its forms."""
    return on_gpu(("feedback", "speed"))


def others_gpu():
    """Elman nets, attention, and a token at a time."""
    return on_gpu(("elman", "speed"), ("attention", "speed"), ("generation", "tokens"))
