"""``python -m docs_src.notebooks``: update the notebooks, and run those whose code has changed.

Exit status: 0 on success, 1 if a notebook cannot be made or run or, with ``--check``, is not up to
date; 2 for an invalid command line, 130 after Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from docs_src.notebooks import OWN, NotebookError
from docs_src.notebooks.document import NotebookBuilder, as_text, has_run
from docs_src.notebooks.execution import execute
from docs_src.notebooks.translation import Translator
from pylit.languages.language import FOLDER

REPOSITORY = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    options = argparse.ArgumentParser(prog="python -m docs_src.notebooks", description=__doc__)
    add = options.add_argument
    add("names", nargs="*", metavar="NAME", help="notebooks, such as feedback (default: all)")
    mode = options.add_mutually_exclusive_group().add_argument
    mode("--execute", action="store_true", help="run them even if the code is unchanged")
    mode("--check", action="store_true", help="write nothing; fail if a notebook is not up to date")
    add("--root", type=Path, default=REPOSITORY, metavar="DIR", help="the folder with docs_src")
    given = options.parse_args(argv)
    try:
        builder = NotebookBuilder(given.root)
        names = given.names or builder.names
        if unknown := set(names).difference(builder.names):
            known = ", ".join(builder.names)
            raise NotebookError(f"there is no notebook {min(unknown)!r}; there are {known}")
        folders = (given.root / "docs_src" / FOLDER).glob("*/notebooks.toml")
        others = [Translator(given.root, folder.parent.name, builder.names) for folder in folders]
        current = [
            _update(builder, name, others, check=given.check, force=given.execute) for name in names
        ]
    except NotebookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the notebooks that were not finished are unchanged.")
        return 130
    return 0 if all(current) else 1


def _update(
    builder: NotebookBuilder, name: str, others: Sequence[Translator], *, check: bool, force: bool
) -> bool:
    """Write a notebook if it is not up to date or, with `check`, report it; whether it is now. The
    same for those in other languages, which have its outputs.
    """
    made = builder.document(name)
    stale = force or not has_run(made)
    if stale and not check:
        print(f"{name}: running …", flush=True)
        made = builder.document(name, execute(made))
        print(f"{name}: {made.metadata[OWN].run.seconds:.0f} s")
    current = _write(builder.path(name), name, as_text(made), stale=stale, check=check)
    for other in others:
        if name in other.names:
            path = other.path(name)
            text, shown = as_text(other.document(name, made)), f"{path.parent.name}/{name}"
            current &= _write(path, shown, text, stale=stale, check=check)
    return current


def _write(path: Path, name: str, text: str, *, stale: bool, check: bool) -> bool:
    if path.is_file() and path.read_text(encoding="utf-8") == text and not (stale and check):
        print(f"{name}: up to date")
    elif check:
        message = f"notebooks/{name}.ipynb is not up to date, or has not run"
        print(f"error: {message}; run `make notebooks`", file=sys.stderr)
        return False
    else:
        # The file is replaced as a whole, so that an interruption leaves the old one.
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
        print(f"{name}: written")
    return True


if __name__ == "__main__":
    sys.exit(main())
