"""What to begin with: the settings of a site (``pylit init``), and a page (``pylit new``).

The skeleton of a page is ``docs_src/skeleton.py.jinja``: a small module that works, with
every part that a page has, so that an author replaces what is there and forgets nothing.
"""

import keyword
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from pylit.diagnostics import Report
from pylit.site.config import load_config

_SETTINGS = """\
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
    """Write ``docs_src/site.toml`` for a package, or a module, in the folder `root`."""
    target, root = package.resolve(), root.resolve()
    if not target.exists() or root not in target.parents:
        raise SkeletonError(f"there is no {package} in {root}; name a package or a .py file in it")
    text = _SETTINGS.format(name=target.stem, source=target.relative_to(root).as_posix())
    return _write(root / "docs_src/site.toml", text)


def begin_page(path: Path, root: Path) -> Path:
    """Write the skeleton of the module `path`, which lies in a source of the site at `root`."""
    docs, report = root / "docs_src", Report()
    config = load_config(docs / "site.toml", "docs_src/site.toml", report)
    template = docs / "skeleton.py.jinja"
    if config is None or not template.is_file():
        raise SkeletonError("\n".join(map(str, report)) or f"there is no {template}; write one")
    target, root = path.resolve(), root.resolve()
    sources = [root / name for name in config.sources]
    parts = target.relative_to(root).with_suffix("").parts if root in target.parents else ()
    parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
    bad = [part for part in parts if not part.isidentifier() or keyword.iskeyword(part)]
    for message, wrong in {
        f"{target.name} is no Python file; give it a name that ends in .py": target.suffix != ".py",
        f"{target} is not in the site; its sources are in {', '.join(config.sources)}": (
            not any(source in target.parents for source in sources)
        ),
        f"{', '.join(bad)} cannot be imported in Python; choose a name in letters and _": bad,
        f"{target} would be the package itself; name a module in it": len(parts) < 2,
        f"{path.parent} is no package; begin with {path.parent}/__init__.py": (
            path.name != "__init__.py" and not path.with_name("__init__.py").exists()
        ),
    }.items():
        if wrong:
            raise SkeletonError(message)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    words = parts[-1].strip("_").split("_")
    text = environment.from_string(template.read_text(encoding="utf-8")).render(
        package=".".join(parts[:-1]),
        name=parts[-1],
        title=" ".join(words).capitalize(),
        class_name="".join(word.capitalize() for word in words),
    )
    return _write(path, text)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # `x` refuses a file that is there: nothing is overwritten.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SkeletonError(f"{path} is there already; edit it, or choose another name") from None
    return path
