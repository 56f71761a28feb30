"""What decides whether an earlier build still holds: the version of the generator, and what the
file system says of each file that a build may read.

A file whose size, times and place on the disk are the same has the same content: every edit sets
the time at which the system last touched it, which no program can set back. A file that was touched
right before the build, or in it, could be edited again without that time moving on; then there is
nothing to remember, and the next build looks at contents, as it does after any doubt.
"""

import hashlib
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pylit.cache import digest
from pylit.pipeline.outcome import Options
from pylit.runs import versions
from pylit.tex.maths import versions as versions_of_formulas

_PYLIT = Path(__file__).resolve().parents[1]
#: The packages whose version can change a page.
_PACKAGES = ("markdown-it-py", "mdit-py-plugins", "linkify-it-py", "Pygments", "Jinja2", "pybtex")
#: Nanoseconds in which two edits may get the same time; the second is for disks that count seconds.
_TICK, _SECONDS = 20_000_000, 2_000_000_000
_SKIPPED = {"__pycache__", "node_modules"}
_SKIPPED_IF_HOLDING = {"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"}


def generator_digest() -> str:
    """Changes with every edit to this package, to the Node scripts, and with every new version."""
    code = [path for path in sorted(_PYLIT.rglob("*")) if path.suffix in (".py", ".txt")]
    return digest(*_versions(), versions_of_formulas(), *(path.read_bytes() for path in code))


@cache
def _versions() -> tuple[str, ...]:
    found = [sys.version]
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return tuple(found)


class Traces:
    """What the file system says of some files, in one digest."""

    def __init__(self) -> None:
        self._hasher = hashlib.sha256()
        #: When the last of them was touched, as late as it may have been.
        self.newest = 0

    @property
    def digest(self) -> str:
        """Equal for files that are unchanged."""
        return self._hasher.hexdigest()

    def note(self, *texts: str) -> None:
        """What else decides whether anything has changed."""
        self._hasher.update("".join(f"{text}\n" for text in texts).encode(errors="surrogatepass"))

    def file(self, path: str | Path) -> None:
        """One file, and for a link what it leads to as well."""
        for follow in (False, True):
            try:
                found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - many files
            except (OSError, ValueError):
                self.note(f"{path} -")
                return
            told = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            self.note(f"{path} {told}")
            touched = found.st_ctime_ns
            self.newest = max(self.newest, touched + (_TICK if touched % 10**9 else _SECONDS))

    def folder(self, top: Path, without: Collection[Path] = ()) -> None:
        """A file, or all files in a folder but for hidden ones, environments and caches."""
        if not top.is_dir():
            self.file(top)
        known = {os.path.realpath(path) for path in without}
        for folder, inside, files in os.walk(top, followlinks=True):
            real = os.path.realpath(folder)
            skipped = folder != str(top) and not _SKIPPED_IF_HOLDING.isdisjoint([*inside, *files])
            if skipped or real in known:
                inside.clear()
                continue
            known.add(real)
            inside[:] = sorted(n for n in inside if n not in _SKIPPED and n[0] != ".")
            for name in sorted(name for name in files if name[0] != "."):
                self.file(f"{folder}/{name}")


def inputs(options: Options, config: object) -> Traces:
    """What the file system says of everything that a build may read."""
    found = Traces()
    found.note(repr(replace(options, jobs=0, cache=None)), repr(config), *versions())
    found.file(options.node_modules / ".package-lock.json")
    found.folder(_PYLIT)
    found.folder(options.theme)
    for source in options.sources:
        found.folder(source)
        # Packages around a source give its modules their names.
        for folder in source.resolve().parents:
            found.note(str((folder / "__init__.py").is_file()))
    if not options.sources:
        found.folder(options.root, without=[options.out, options.cache or options.out])
    return found
