"""What a build is given: its options, the generator, and all files that it may read.

A build without faults is remembered with the version of the generator and the state that the file
system reports for each file that it may read. A file with the same inode, size and times has the
same content, since no program can set back the time of the last change. A file that changed right
before the build, or during it, could change again within the same clock tick: such a build is not
remembered.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pylit.cache import digest
from pylit.languages.annotations import FOLDER
from pylit.node.process import MODULES
from pylit.notes.tex import versions as versions_of_formulas
from pylit.runs.tasks import versions
from pylit.source.installed import module_file

_PYLIT = Path(__file__).resolve().parents[1]
THEME = _PYLIT / "theme"
#: The packages whose version can change a page.
_PACKAGES = ("markdown-it-py", "mdit-py-plugins", "Pygments", "Jinja2", "pybtex")
#: Nanoseconds in which two edits may get the same time; the second is for disks that count seconds.
_TICK, _SECONDS = 20_000_000, 2_000_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """The sources of a build, its output folder and its settings."""

    #: The folder that holds ``docs_src``.
    root: Path
    out: Path
    #: Packages to render instead of the site's own sources.
    sources: tuple[Path, ...] = ()
    #: None caches in memory only.
    cache: Path | None = None
    jobs: int = 1
    #: Write nothing, and fail on warnings; or fail on them alone.
    check: bool = False
    strict: bool = False
    #: Whether traces, replays and figures may run: code of the site's folder, with the rights of
    #: who builds it. What earlier builds have recorded is shown in any case.
    run: bool = False
    #: Whether builds follow each other while an author works.
    serving: bool = False
    title: str = ""
    base_url: str = ""
    theme: Path = THEME
    node_modules: Path = MODULES
    #: Why Node or its packages are missing; empty when both are there.
    missing_node: str = ""

    @property
    def docs(self) -> Path:
        """The folder of everything but Python sources; a foreign package has none."""
        return (_PYLIT / "nowhere" if self.sources else self.root) / "docs_src"


@cache
def generator_digest() -> str:
    """Changes with every edit to this package, to the Node scripts, and with every new version."""
    code = [path for path in sorted(_PYLIT.rglob("*")) if path.suffix in (".py", ".inv")]
    packages = (sys.version, *map(version, _PACKAGES), versions_of_formulas())
    return digest(*packages, *(path.read_bytes() for path in code))


def inputs(options: Options, config: object) -> tuple[str, int]:
    """A digest of the state of all files that a build may read, and the last time of change."""
    state, newest = [repr(replace(options, jobs=0, cache=None)), repr(config), *versions()], 0
    for path in _files(options):
        try:
            found = Path(path).stat()
        except OSError:
            state.append(f"{path} -")
            continue
        changed = found.st_ctime_ns
        state.append(f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns} {changed}")
        newest = max(newest, changed + (_TICK if changed % 10**9 else _SECONDS))
    return digest(*state), newest


def _files(options: Options) -> Iterator[str | Path]:
    """All files that are not hidden, in environments, in caches or in the output folder."""
    yield options.node_modules / ".package-lock.json"
    # The code of others that notes are on.
    notes = options.docs / FOLDER
    for path in sorted(notes.rglob("*.md")):
        if code := module_file(path.relative_to(notes).with_suffix(".py").as_posix()):
            yield code
    # Packages around a source are part of the names of its modules.
    yield from (p / "__init__.py" for s in options.sources for p in s.resolve().parents)
    seen = {os.path.realpath(path) for path in (options.out, options.cache) if path}
    for top in (_PYLIT, options.theme, *(options.sources or [options.root])):
        if not top.is_dir():
            yield top
        for folder, inside, files in os.walk(top, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen or "pyvenv.cfg" in files:
                inside.clear()
                continue
            seen.add(real)
            skipped = {"__pycache__", "node_modules"}
            inside[:] = sorted(n for n in inside if n[0] != "." and n not in skipped)
            yield from (f"{folder}/{name}" for name in sorted(files) if name[0] != ".")
