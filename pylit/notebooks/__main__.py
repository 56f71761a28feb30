"""``python -m pylit.notebooks``: make the notebooks anew, and run those whose code has changed.

Exit status: 0 when all is well, 1 when a notebook cannot be made or run, or, with ``--check``, is
not what its sources say; 2 for a command that cannot be, 130 after Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pylit.notebooks import OWN, NotebookError
from pylit.notebooks.document import NotebookBuilder, as_text, has_run
from pylit.notebooks.execution import execute

REPOSITORY = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    options = argparse.ArgumentParser(prog="python -m pylit.notebooks", description=__doc__)
    add = options.add_argument
    add("names", nargs="*", metavar="NAME", help="notebooks, such as feedback (default: all)")
    mode = options.add_mutually_exclusive_group().add_argument
    mode("--execute", action="store_true", help="run them, also where the code is as it was")
    mode("--check", action="store_true", help="write nothing; fail if a notebook is not up to date")
    add("--root", type=Path, default=REPOSITORY, metavar="DIR", help="the folder with docs_src")
    given = options.parse_args(argv)
    try:
        maker = NotebookBuilder(given.root)
        names = given.names or maker.names
        if unknown := [name for name in names if name not in maker.names]:
            known = ", ".join(maker.names)
            raise NotebookError(f"there is no notebook {unknown[0]!r}; there are {known}")
        fine = [_renewed(maker, name, check=given.check, force=given.execute) for name in names]
    except NotebookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the notebooks that were not finished are as they were.")
        return 130
    return 0 if all(fine) else 1


def _renewed(maker: NotebookBuilder, name: str, *, check: bool, force: bool) -> bool:
    """Whether a notebook is what its sources say; unless this is but a check, it is made so."""
    made, path = maker.document(name), maker.path(name)
    stale = force or not has_run(made)
    if stale and not check:
        print(f"{name}: running …", flush=True)
        made = maker.document(name, execute(made))
        print(f"{name}: {made.metadata[OWN].run.seconds:.0f} s")
    text = as_text(made)
    if path.is_file() and path.read_text(encoding="utf-8") == text and not (stale and check):
        print(f"{name}: as it was")
    elif check:
        told = f"notebooks/{path.name} is not what its sources say, or they have not run"
        print(f"error: {told}; run `make notebooks`", file=sys.stderr)
        return False
    else:
        # Whole or not at all.
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
        print(f"{name}: written")
    return True


if __name__ == "__main__":
    sys.exit(main())
