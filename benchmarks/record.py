"""Keeps what was measured, for the page of the site, and prints it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.device import Place, place_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs_src" / "results" / "performance"
#: Whose state the numbers are of.
SOURCES = ("labml_nn", "pylit", "benchmarks")


def record(
    name: str,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    threads: int,
    place: Place | None = None,
    folder: Path | None = None,
) -> Path:
    """Write the tables of a benchmark to ``<name>.json``, those of a GPU to ``<name>-cuda.json``.

    Each table says for itself on what machine, when and from which commit it was measured. One of
    the same name and number of threads takes the place of the earlier one, others stay.
    """
    place = place or place_of("cpu", threads=threads)
    flags = f" --device {place.device}{' --tf32' * place.tf32}" if place.is_gpu else ""
    path = (folder or RESULTS) / f"{name}{place.suffix}.json"
    about, limit = place.machine(), round(place.gflops(), 1)
    made = [
        {
            "table": table,
            "threads": threads,
            "machine": about,
            "matmul_gflops": limit,
            "date": datetime.now(UTC).date().isoformat(),
            "commit": commit(),
            "rows": [_rounded(row) for row in rows],
        }
        for table, rows in tables.items()
    ]
    kept = [old for old in read(path) if (old["table"], old["threads"]) not in _keys(made)]
    everything = sorted([*kept, *made], key=lambda table: (table["table"], table["threads"]))
    written = {"about": f"python -m benchmarks.{name}{flags}", "tables": everything}
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    aside.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(path)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """The tables that are there."""
    if not path.exists():
        return []
    tables: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["tables"]
    return tables


def _keys(tables: Sequence[Mapping[str, Any]]) -> set[tuple[str, int]]:
    return {(table["table"], table["threads"]) for table in tables}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Five digits are more than any clock is good for."""
    return {
        key: float(f"{value:.5g}") if isinstance(value, float) else value
        for key, value in row.items()
    }


def commit() -> str | None:
    """Of the checkout, with `-dirty` behind it where sources differ; `None` without git."""
    try:
        head = _git("rev-parse", "HEAD")
        return head + ("-dirty" if _git("status", "--porcelain", "--", *SOURCES) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    told = subprocess.run(
        ["git", "-C", str(ROOT), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    )
    return told.stdout.strip()


# Printing.


def show(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str] | Sequence[str],
) -> None:
    """Print a table in Markdown. `columns` are keys of the rows, or keys with their headings."""
    heads = columns if isinstance(columns, Mapping) else {key: key for key in columns}
    print(f"\n{title}\n")
    print(f"| {' | '.join(heads.values())} |")
    numbers = {
        key: all(isinstance(row.get(key), int | float | None) for row in rows) for key in heads
    }
    print("|" + "|".join("--:" if numbers[key] else ":--" for key in heads) + "|")
    for row in rows:
        print(f"| {' | '.join(cell(row.get(key)) for key in heads)} |", flush=True)


def cell(value: object) -> str:
    """A number to three digits, or as many as stand before its point."""
    if value is None:
        return "—"
    if not isinstance(value, float):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    )
