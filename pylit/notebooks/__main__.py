"""``python -m pylit.notebooks``: make the notebooks anew, and run those whose code has changed.

Exit status: 0 when all is well, 1 when a notebook cannot be made or run, or, with ``--check``, is
not what its sources say; 2 for a command that cannot be, 130 after Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pylit.notebooks import OWN, NotebookError
from pylit.notebooks.document import Maker, as_text, has_run
from pylit.notebooks.execution import executed

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
        maker = Maker(given.root)
        for name in given.names:
            if name not in maker.names:
                near = get_close_matches(name, maker.names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(maker.names)}"
                raise NotebookError(f"there is no notebook {name!r}; {hint}")
        names = given.names or maker.names
        if given.check:
            stale = [fault for name in names if (fault := _stale(maker, name))]
            for fault in stale:
                print(f"error: {fault}; run `make notebooks`", file=sys.stderr)
            return int(bool(stale))
        for name in names:
            _make(maker, name, force=given.execute)
    except NotebookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the notebooks that were not finished are as they were.")
        return 130
    return 0


def _stale(maker: Maker, name: str) -> str:
    """How the file of a notebook is not what it should be, if it is not."""
    made, path = maker.document(name), maker.path(name)
    if not path.is_file() or as_text(made) != path.read_text(encoding="utf-8"):
        return f"notebooks/{path.name} is not what its sources say"
    return "" if has_run(made) else f"notebooks/{path.name} has not run since its code changed"


def _make(maker: Maker, name: str, *, force: bool) -> None:
    made, path = maker.document(name), maker.path(name)
    if force or not has_run(made):
        print(f"{name}: running …", flush=True)
        made = maker.document(name, executed(made))
        print(f"{name}: {made.metadata[OWN].run.seconds:.0f} s")
    text = as_text(made)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        print(f"{name}: as it was")
        return
    # Whole or not at all.
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    print(f"{name}: written")


if __name__ == "__main__":
    sys.exit(main())
