"""The command behind ``make notebooks``.

Exit status: 0 when all is well, 1 when a notebook cannot be made or run, or, with ``--check``, is
not what its sources say; 2 for a command that cannot be, 130 after Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from pylit.diagnostics import Report
from pylit.notebooks.document import Maker, as_text, document, has_run
from pylit.notebooks.execution import executed
from pylit.notebooks.model import Document, NotebookError, Recipe, Surroundings, read_document
from pylit.notebooks.recipe import read_recipes
from pylit.site.config import load_config

REPOSITORY = Path(__file__).resolve().parents[2]


def parser() -> argparse.ArgumentParser:
    """The options, and what they mean."""
    result = argparse.ArgumentParser(prog="python -m pylit.notebooks", description=__doc__)
    add = result.add_argument
    add("names", nargs="*", metavar="NAME", help="notebooks, such as feedback (default: all)")
    add("--execute", action="store_true", help="run them, also where the code is as it was")
    add("--no-execute", action="store_true", help="make the cells only")
    add("--check", action="store_true", help="write nothing; fail if a notebook is not up to date")
    add("--root", type=Path, default=REPOSITORY, metavar="DIR", help="the folder with docs_src")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    options = parser()
    given = options.parse_args(argv)
    if given.execute and (given.no_execute or given.check):
        options.error("--execute does not go with --no-execute or --check")
    try:
        around, sources = surroundings(given.root)
        maker = Maker(around, sources)
        recipes = _chosen(read_recipes(around), given.names)
        if given.check:
            return _check(recipes, maker, around)
        for recipe in recipes:
            _make(recipe, maker, around, force=given.execute, run=not given.no_execute)
    except NotebookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the notebooks that were not finished are as they were.")
        return 130
    return 0


def surroundings(root: Path) -> tuple[Surroundings, Sequence[str]]:
    """The site in `root`, and the folders of its packages. Raises `NotebookError` without one."""
    report = Report()
    config = load_config(root / "docs_src" / "site.toml", "docs_src/site.toml", report)
    if config is None:
        raise NotebookError("\n".join(map(str, report)))
    around = Surroundings(root, config.base_url, config.repository, config.branch)
    return around, config.sources


def generated(recipe: Recipe, maker: Maker, around: Surroundings) -> tuple[Document, str]:
    """A notebook as its sources say, with the outputs that still hold; and the file as it is."""
    path = around.notebooks / f"{recipe.name}.ipynb"
    old = read_document(path)
    text = path.read_text(encoding="utf-8") if old is not None else ""
    return document(maker.cells(recipe), recipe.name, old), text


def _chosen(recipes: Sequence[Recipe], names: Sequence[str]) -> Iterator[Recipe]:
    known = {recipe.name: recipe for recipe in recipes}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise NotebookError(f"there is no notebook {name!r}; {hint}")
    return (recipe for recipe in recipes if not names or recipe.name in names)


def _check(recipes: Iterator[Recipe], maker: Maker, around: Surroundings) -> int:
    stale = []
    for recipe in recipes:
        made, text = generated(recipe, maker, around)
        if as_text(made) != text:
            stale.append(f"notebooks/{recipe.name}.ipynb is not what its sources say")
        elif not has_run(made):
            stale.append(f"notebooks/{recipe.name}.ipynb has not run since its code changed")
    for line in stale:
        print(f"error: {line}; run `make notebooks`", file=sys.stderr)
    return 1 if stale else 0


def _make(recipe: Recipe, maker: Maker, around: Surroundings, *, force: bool, run: bool) -> None:
    made, text = generated(recipe, maker, around)
    path = around.notebooks / f"{recipe.name}.ipynb"
    if run and (force or not has_run(made)):
        print(f"{recipe.name}: running …", flush=True)
        ran = executed(made)
        made = document(maker.cells(recipe), recipe.name, ran)
        seconds = ran["metadata"]["labml_nn"]["run"]["seconds"]
        print(f"{recipe.name}: {seconds:.0f} s")
    if as_text(made) != text:
        _write(path, as_text(made))
        print(f"{recipe.name}: written")
    else:
        print(f"{recipe.name}: as it was")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
