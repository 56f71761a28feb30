"""What decides whether an earlier build still holds: the version of the generator, and what the
file system says of each file that a build may read.

A file whose size, times and place on the disk are the same has the same content: every edit sets
the time at which the system last touched it, which no program can set back. A file that was touched
right before the build, or in it, could be edited again without that time moving on; then there is
nothing to remember, and the next build looks at contents, as it does after any doubt.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from pylit.cache import digest
from pylit.pipeline.outcome import Options
from pylit.runs import versions
from pylit.tex.maths import versions as versions_of_formulas

_PYLIT = Path(__file__).resolve().parents[1]
#: The packages whose version can change a page.
_PACKAGES = ("markdown-it-py", "mdit-py-plugins", "Pygments", "Jinja2", "pybtex")
#: Nanoseconds in which two edits may get the same time; the second is for disks that count seconds.
_TICK, _SECONDS = 20_000_000, 2_000_000_000
#: Folders that are not looked at, and what folders hold that are not.
_UNREAD = {"__pycache__", "node_modules"}
_SKIPPED = {"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"}


def generator_digest() -> str:
    """Changes with every edit to this package, to the Node scripts, and with every new version."""
    code = [path for path in sorted(_PYLIT.rglob("*")) if path.suffix in (".py", ".txt")]
    return digest(_versions(), versions_of_formulas(), *(path.read_bytes() for path in code))


@cache
def _versions() -> str:
    return " ".join([sys.version, *map(version, _PACKAGES)])


def inputs(options: Options, config: object) -> tuple[str, int]:
    """What the file system says of everything that a build may read, in one digest.

    Also when the last of it was touched, as late as it may have been.
    """
    told, newest = [repr(replace(options, jobs=0, cache=None)), repr(config), *versions()], 0
    known = {os.path.realpath(path) for path in (options.out, options.cache) if path}
    tops = (_PYLIT, options.theme, *(options.sources or [options.root]))
    # Packages around a source give its modules their names.
    around = (f"{p}/__init__.py" for s in options.sources for p in s.resolve().parents)
    lock = options.node_modules / ".package-lock.json"
    for path in chain([lock], around, *(_paths(top, known) for top in tops)):
        # Of a link, what it leads to as well.
        for look in (os.lstat, os.stat):
            try:
                found = look(path)
            except (OSError, ValueError):
                told.append(f"{path} -")
                break
            touched = found.st_ctime_ns
            told.append(f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns} {touched}")
            newest = max(newest, touched + (_TICK if touched % 10**9 else _SECONDS))
    return digest(*told), newest


def _paths(top: Path, known: set[str]) -> Iterator[str | Path]:
    """A file, or all in a folder but for what is hidden, environments, caches and `known` folders.

    Those that it walks become known.
    """
    if not top.is_dir():
        yield top
    for folder, inside, files in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in known or (folder != str(top) and not _SKIPPED.isdisjoint([*inside, *files])):
            inside.clear()
            continue
        known.add(real)
        inside[:] = sorted(n for n in inside if n[0] != "." and n not in _UNREAD)
        yield from (f"{folder}/{name}" for name in sorted(files) if name[0] != ".")
