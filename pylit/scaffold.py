"""What ``init`` and ``new`` write: the settings of a site, and the beginning of a page.

A new page begins as ``docs_src/skeleton.py.jinja``, else as the theme's: a small module that works.
A lesson begins as the folder ``docs_src/skeleton``: a file for each template, at the path of the
template, in which FOLDER is the folder of the page, and NAME its name.
"""

import json
import keyword
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from pylit.config import PYPROJECT, SITE_TOML, in_pyproject, load_config, metadata
from pylit.diagnostics import Report
from pylit.site.options import THEME
from pylit.source.discover import NOT_OF_A_PACKAGE

#: The beginning of a page: the site's own, else that of the theme.
SKELETON = "skeleton.py.jinja"
#: The templates of a lesson, in ``docs_src``.
LESSON = "skeleton"


_SETTINGS = """\
# The site of {name}: `pylit serve` shows it while you write, `pylit build` writes it to site/.
title = {title}
summary = {summary}
sources = ["{source}"]
exclude = [{exclude}]

# Lists of pages; a `[[path]]` is read in its order. A page in no list is found all the same.
# [[path]]
# title = "Begin here"
# summary = "What a reader of these pages learns."
# pages = ["{name}"]
"""


class CommandError(Exception):
    """A command that cannot be carried out: the reason and a way out."""


def init_site(package: Path, root: Path) -> Path:
    """Write ``docs_src/site.toml`` for a package, or a module, in the folder `root`."""
    target, root = package.resolve(), root.resolve()
    if not target.exists() or root not in target.parents:
        raise CommandError(f"there is no {package} in {root}; name a package or a .py file in it")
    name, about = target.stem, metadata(root)
    found = (each for each in NOT_OF_A_PACKAGE if any(target.glob(f"**/{each}")))
    text = _SETTINGS.format(
        name=name,
        title=json.dumps(about.get("name", name), ensure_ascii=False),
        summary=json.dumps(about.get("description", ""), ensure_ascii=False),
        source=target.relative_to(root).as_posix(),
        exclude=", ".join(f'"{each}"' for each in found),
    )
    if in_pyproject(root) and not (root / SITE_TOML).exists():
        raise CommandError(f"[tool.pylit] in {root / PYPROJECT} has settings already; edit them")
    return _write(root / SITE_TOML, text)


def init_workflow(root: Path) -> Path:
    """Write the workflow that publishes the site with GitHub Pages."""
    text = (THEME / "site.yml").read_text(encoding="utf-8")
    return _write(root / ".github/workflows/site.yml", text)


def new_page(path: Path, root: Path) -> Path:
    """Write the skeleton of the module `path` in a source of the site at `root`."""
    words, own = _words(path, root), root / "docs_src" / SKELETON
    template = own if own.is_file() else THEME / SKELETON
    return _write(path.resolve(), _filled(template, words))


def new_lesson(path: Path, root: Path) -> list[Path]:
    """Write a file for each template of a lesson; none if one of them exists."""
    words, folder = _words(path, root), root.resolve() / "docs_src" / LESSON
    templates = sorted(folder.rglob("*.jinja"))
    if not templates:
        raise CommandError(f"there are no templates in {folder}; begin with the page alone")
    above = path.resolve().parent.relative_to(root.resolve()).as_posix()
    files = {}
    for template in templates:
        name = template.relative_to(folder).as_posix().removesuffix(".jinja")
        target = root.resolve() / name.replace("FOLDER", above).replace("NAME", words["name"])
        files[target] = _filled(template, words)
        if target.exists():
            raise CommandError(f"{target} exists already; choose another name")
    return [_write(target, text) for target, text in files.items()]


def _words(path: Path, root: Path) -> dict[str, str]:
    """What templates say of the module `path`."""
    report = Report()
    config = load_config(root, report)
    if config is None:
        raise CommandError("\n".join(map(str, report)))
    target, root = path.resolve(), root.resolve()
    if target.suffix != ".py":
        raise CommandError(f"{target.name} is no Python file; give it a name that ends in .py")
    sources = [root / name for name in config.sources]
    if not {target, *target.parents}.intersection(sources):
        named = f"the sources of the site ({', '.join(config.sources)})"
        raise CommandError(f"{target} is in none of {named}; add it to docs_src/site.toml first")
    folder = target.parent.parent if target.name == "__init__.py" else target.parent
    # A source may be a module, or a folder of modules that is no package.
    if not (_is_package(folder) or {target, folder}.intersection(sources)):
        raise CommandError(f"{folder} is no package; begin with {folder}/__init__.py")
    top = next(above for above in (folder, *folder.parents) if not _is_package(above))
    parts = target.relative_to(top).with_suffix("").parts
    parts = parts[:-1] if target.name == "__init__.py" else parts
    if bad := [part for part in parts if not part.isidentifier() or keyword.iskeyword(part)]:
        names = ", ".join(bad)
        raise CommandError(f"{names} cannot be imported; choose a name of letters, digits and _")
    words = parts[-1].strip("_").split("_")
    return {
        "package": ".".join(parts[:-1]),
        "name": parts[-1],
        "title": " ".join(words).capitalize(),
        "class_name": "".join(word.capitalize() for word in words),
    }


def _filled(template: Path, words: Mapping[str, str]) -> str:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(template.read_text(encoding="utf-8")).render(words)


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            raise CommandError(f"{path} exists already; edit it, or choose another name") from None
        raise CommandError(f"{path} cannot be written ({error.strerror or error})") from None
    return path
