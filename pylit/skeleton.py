"""What to begin with: the settings of a site, and a page (``build_site.py --new pkg/foo.py``).

The skeleton of a page is ``docs_src/skeleton.py.jinja``: a small module that works, with
every part that a page has, so that an author replaces what is there and forgets nothing.
"""

import keyword
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

SETTINGS = """\
# The site of {name}: `pylit serve` shows it while you write, `pylit build` writes it to site/.
title = "{name}"
summary = "What {name} is, in a sentence."
sources = ["{source}"]

# Lists of pages; a `[[path]]` is read in its order. A page in no list is found all the same.
# [[path]]
# title = "Begin here"
# summary = "What a reader of these pages learns."
# pages = ["{name}"]
"""


class SkeletonError(Exception):
    """What is asked for cannot be begun, and why, and what to do."""


def begin_site(package: Path, root: Path) -> Path:
    """Write ``docs_src/site.toml`` for a package, or a module, in the folder `root`.

    Raises `SkeletonError` where there is no such package, or the site is begun already.
    """
    target = package.resolve()
    written = Path("docs_src", "site.toml")
    if not target.is_relative_to(root.resolve()) or target == root.resolve():
        raise SkeletonError(f"{package} is not below {root}; begin in the folder that holds it")
    if not target.exists():
        raise SkeletonError(f"there is no {package} in {root}; name a package or a .py file in it")
    if (root / written).exists():
        raise SkeletonError(f"{written} is there already; edit it, or see it with `pylit serve`")
    (root / written).parent.mkdir(exist_ok=True)
    source = target.relative_to(root.resolve()).as_posix()
    text = SETTINGS.format(name=target.stem, source=source)
    (root / written).write_text(text, encoding="utf-8")
    return written


def begin_page(path: Path, *, root: Path, sources: Sequence[str], template: Path) -> Path:
    """Write the skeleton of the module `path`, and return where it was written.

    * `path` is relative to the working directory, or absolute; it lies in one of the `sources`
      of the site, which are relative to `root`
    * `template` is the skeleton

    Raises `SkeletonError` for a place where no module of the site can be. Nothing is overwritten.
    """
    target = path.resolve()
    parts = _dotted(target, root, sources)
    if target.exists():
        raise SkeletonError(f"{path} is there already; choose another name, or edit it")
    if target.name != "__init__.py" and not target.with_name("__init__.py").exists():
        package = path.with_name("__init__.py")
        raise SkeletonError(f"{path.parent} is no package; begin with --new {package}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # `x` refuses a file that has come to be in the meantime.
    with target.open("x", encoding="utf-8") as file:
        file.write(_fill(template, parts))
    return target


def _dotted(target: Path, root: Path, sources: Sequence[str]) -> list[str]:
    """The parts of the module's dotted name."""
    if target.suffix != ".py":
        raise SkeletonError(f"{target.name} is no Python file; give it a name that ends in .py")
    inside = [name for name in sources if target.is_relative_to((root / name).resolve())]
    if not inside:
        named = " or ".join(f"{name}/" for name in sources)
        raise SkeletonError(f"{target} is not in the site; its sources are in {named}")
    parts = list(target.relative_to(root.resolve()).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    wrong = [part for part in parts if not part.isidentifier() or keyword.iskeyword(part)]
    if wrong:
        usable = "".join(c if c.isalnum() else "_" for c in wrong[0]).lower()
        usable = f"_{usable}" if not usable.isidentifier() or keyword.iskeyword(usable) else usable
        raise SkeletonError(f"{wrong[0]!r} cannot be imported in Python; try {usable!r}")
    if len(parts) < 2:
        raise SkeletonError(f"{target} would be the package itself; name a module in it")
    return parts


def _fill(template: Path, parts: Sequence[str]) -> str:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    words = parts[-1].strip("_").split("_")
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        package=".".join(parts[:-1]),
        name=parts[-1],
        title=" ".join(words).capitalize(),
        class_name="".join(word.capitalize() for word in words),
    )
