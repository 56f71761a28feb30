"""A small site of one's own in a temporary folder, and ways to look at what became of it."""

import atexit
import hashlib
import re
from html import unescape
from pathlib import Path

from pylit.build import Builder
from pylit.runs.tasks import Worker
from pylit.site.options import Options
from pylit.site.outcome import Outcome

REPOSITORY = Path(__file__).parents[2]
CACHE = REPOSITORY / ".cache" / "tests"
#: The child process of all builds of a session, so that it imports PyTorch once.
CHILD = Worker(1, stays=True)
atexit.register(CHILD.close)

SITE = """\
title = "Small"
summary = "A small site."
base_url = "https://example.org/small/"
repository = "someone/small"
sources = ["pkg"]
docstrings = "markdown"

[[group]]
title = "All"
pages = ["pkg", "pkg.one", "pkg.two"]

[[path]]
title = "The path"
pages = ["pkg.one", "pkg.two", "notes"]
"""

FILES = {
    "docs_src/site.toml": SITE,
    "docs_src/pages/index.md": """\
---
title: Home
summary: Where it begins.
---

See [one](pkg/one.py).
""",
    "docs_src/pages/notes.md": "# Notes on $x^2$\n\nA page about `One`, [two](../../pkg/two.py).\n",
    "pkg/__init__.py": '"""The package."""\n',
    "pkg/one.py": '''"""
---
title: The first
summary: Number one.
paper: 1706.03762
---

It has $a + b$ and `One.say`.
"""


class One:
    """
    ## What is one

    More than none.
    """

    def say(self) -> int:
        # A note on the body, with $c$.
        return 1
''',
    "pkg/two.py": '''"""Two builds on `One`."""

from pkg.one import One


def two() -> int:
    """Twice one."""
    return 2 * One().say()
''',
}


def make_site(root: Path, files: dict[str, str] | None = None) -> Path:
    """Write the files of a site, those given in the place of the usual ones; "" leaves one out."""
    for name, text in (FILES | (files or {})).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_text(text, encoding="utf-8")
    return root


def figures(**alts: str) -> str:
    """A file of figures: an empty plot with this alternative text for each name."""
    head = "from pylit.figures.draw import Figure, Plot\n\nAXES = Plot((0, 1), (0, 1)).panel()\n"
    plots = (f"def {n}():\n    return Figure([AXES], {alt!r})\n" for n, alt in alts.items())
    return "\n\n".join([head, *plots])


def edit(root: Path, name: str, old: str, new: str) -> None:
    """Replace a text of a file, which has it; a file that is not there begins empty."""
    path = root / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def cache(root: Path) -> Path:
    """A cache that is new but for fonts and formulas, which all tests share."""
    folder = root / ".cache"
    folder.mkdir(exist_ok=True)
    for name in ("fonts", "maths", "mathfonts"):
        (CACHE / name).mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(CACHE / name)
    return folder


def options(root: Path, **changes: object) -> Options:
    """Build the site at `root` into ``root/site``."""
    values = {"root": root, "out": root / "site", "jobs": 1, "run": True} | changes
    if "cache" not in values:
        values["cache"] = cache(root)
    return Options(**values)  # type: ignore[arg-type]


def build(root: Path, *, worker: Worker | None = CHILD, **changes: object) -> Outcome:
    """One build, in a process's worth of state of its own but for the child process."""
    chosen = options(root, **changes)
    shared = worker if chosen.run and chosen.jobs == 1 else None
    with Builder(chosen, shared) as builder:
        return builder.build()


def succeed(root: Path, **changes: object) -> Outcome:
    """A build without a fault."""
    outcome = build(root, **changes)
    assert not len(outcome.report), "\n".join(map(str, outcome.report))
    return outcome


def faults(outcome: Outcome) -> list[tuple[str, int, str]]:
    """Path, line and code of each."""
    return [(d.path, d.line, d.code) for d in outcome.report]


def read(root: Path, name: str) -> str:
    """A file of the site that was built at `root`."""
    return (root / "site" / name).read_text(encoding="utf-8")


def listing(html: str) -> str:
    """What a page says, for a person to read.

    Lines have their numbers, links their addresses, formulas their TeX; marks of what has changed
    are in braces.
    """
    page = html.partition("<main")[2].partition("<header")[2].partition(">")[2]
    page = re.split('<nav class="turn"|<aside class="share"|</main>', page)[0]
    for pattern, shown in (
        (r'<mjx-container data-tex="([^"]*)".*?</mjx-container>', r"$\1$"),
        (r'<h(\d) id="([^"]+)">', r"== \2: "),
        (r'<i class="n" id="L(\d+)"></i>', r"\1 "),
        ('<code class="at">', "> "),
        (r'<(?:li|p|span) [^>]*\bid="([^"]+)"[^>]*>', r"#\1 "),
        (r'<div class="hunk ([\w ]+)">', r"-- \1\n"),
        (r'<a [^>]*href="([^"]*)"[^>]*>(.*?)</a>', r"[\2](\1)"),
        (r"<del>(\n?)", r"\1{-"),
        (r"<ins>(\n?)", r"\1{+"),
        ("</(del|ins)>", "}"),
        (r"<pre|</(div|details|pre|summary|p|li|dt|cite)>", r"\n\g<0>"),
        (r"<[^>]*>|\}(<[^>]*>)*\{[-+]", ""),
    ):
        page = re.sub(pattern, shown, page, flags=re.DOTALL)
    return "".join(f"{line.rstrip()}\n" for line in unescape(page).split("\n") if line.strip())


def golden(name: str) -> str:
    """A text of the folder ``golden/pages``."""
    return (Path(__file__).parent / f"golden/pages/{name}.txt").read_text(encoding="utf-8")


def tree(folder: Path) -> dict[str, str]:
    """Every file with a digest of its content."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pages(folder: Path) -> set[str]:
    """The pages that are written."""
    return {name for name in tree(folder) if name.endswith(".html")}
