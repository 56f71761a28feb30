"""The command line: ``python build_site.py``.

Exit status: 0 when the site is built, 1 when the input has faults, 2 when the command has, 130
after Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from pylit.diagnostics import Report
from pylit.pipeline.build import REPOSITORY, Builder, Options
from pylit.pipeline.pool import cores
from pylit.pipeline.progress import Silent, Watcher
from pylit.pipeline.summary import tell
from pylit.site.config import load_config
from pylit.skeleton import SkeletonError, begin_page


class Parser(argparse.ArgumentParser):
    """Knows the nearest option to a misspelt one."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command, and what was probably meant."""
        options = [o for action in self._actions for o in action.option_strings]
        unknown = message.removeprefix("unrecognized arguments:") != message
        for word in message.split() if unknown else ():
            near = get_close_matches(word.partition("=")[0], options, n=1)
            if word.startswith("-") and near:
                message += f"; did you mean {near[0]}?"
        self.exit(2, f"{self.prog}: {message}\nTry `{self.prog} --help`.\n")


def parser() -> Parser:
    """The options, and what they mean."""
    result = Parser(
        prog="build_site.py",
        description="Render annotated Python as side by side pages: notes left, code right.",
        epilog="Without --source it builds the site that docs_src/site.toml describes.",
        allow_abbrev=False,
    )
    add = result.add_argument
    add(
        "--source",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a package, a folder of modules or a .py file to render instead; may be repeated. "
        "It is read, never imported or run",
    )
    add("--out", type=Path, metavar="DIR", help="where the site goes (default: site/)")
    add(
        "--jobs",
        type=_positive,
        default=cores(),
        metavar="N",
        help="processes that work side by side (default: one per core, here %(default)s)",
    )
    add("--serve", action="store_true", help="show the site in a browser, and again at each edit")
    add("--port", type=_port, metavar="P", help="port for --serve (default: 8000; 0: any free one)")
    add(
        "--check",
        action="store_true",
        help="build and check everything, write nothing, and fail on warnings too",
    )
    add(
        "--new",
        type=Path,
        metavar="FILE",
        help="write the skeleton of a page, such as labml_nn/foo.py, and stop",
    )
    add("--verbose", action="store_true", help="show every warning")
    add("--title", default="", help="title of a site made with --source")
    add("--base-url", default="", metavar="URL", help="address of a site made with --source")
    add("--cache", type=Path, metavar="DIR", help="what builds remember (default: .cache/pylit)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    options = parser()
    given = options.parse_args(argv)
    _check_combination(options, given)
    if given.new:
        return new_page(given.new)
    settings = Options(
        out=given.out or REPOSITORY / "site",
        sources=tuple(given.source),
        cache=given.cache or REPOSITORY / ".cache" / "pylit",
        jobs=given.jobs,
        check=given.check,
        title=given.title,
        base_url=given.base_url and given.base_url.rstrip("/") + "/",
    )
    try:
        if given.serve:
            from pylit.serving.serve import serve  # A web server takes time to import.

            port = 8000 if given.port is None else given.port
            return serve(settings, port, lambda: build(settings, verbose=given.verbose))
        return build(settings, verbose=given.verbose)
    except KeyboardInterrupt:
        print("\nInterrupted; the site is as it was.", file=sys.stderr)
        return 130


def build(options: Options, *, verbose: bool) -> int:
    """Build once and tell what came of it; the result is the exit status."""
    with Builder(options) as builder, _bar() as watcher:
        outcome = builder.build(watcher)
    tell(outcome, options, verbose=verbose or options.check)
    return 1 if outcome.report.failed or (options.check and len(outcome.report)) else 0


def new_page(path: Path) -> int:
    """Begin a page of this repository's site; the result is the exit status."""
    report = Report()
    docs = REPOSITORY / "docs_src"
    config = load_config(docs / "site.toml", "docs_src/site.toml", report)
    if config is None:
        print(*report, sep="\n", file=sys.stderr)
        return 1
    template = docs / "skeleton.py.jinja"
    try:
        begun = begin_page(path, root=REPOSITORY, sources=config.sources, template=template)
    except SkeletonError as error:
        print(f"build_site.py: {error}", file=sys.stderr)
        return 2
    print(f"{begun} is begun. See it beside the others with `python build_site.py --serve`.")
    return 0


def _check_combination(options: Parser, given: argparse.Namespace) -> None:
    if given.new and (given.source or given.serve or given.check or given.out):
        options.error("--new writes one file and builds nothing; give it alone")
    if given.check and given.serve:
        options.error("--check writes nothing, so there is nothing to --serve; choose one")
    if given.port is not None and not given.serve:
        options.error("--port is for --serve")
    if not given.source and (given.title or given.base_url):
        options.error("--title and --base-url are for --source; else docs_src/site.toml says them")
    if given.base_url and not given.base_url.startswith(("https://", "http://")):
        options.error(f"--base-url {given.base_url!r}: expected https://…")
    if given.source and given.out is None and not given.check:
        options.error("--source needs --out DIR: site/ is for the site of this repository")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 on")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a port, 0 to 65535")
    return int(text)


def _bar() -> AbstractContextManager[Watcher]:
    """A progress bar where somebody can see one."""
    if not sys.stderr.isatty():
        return nullcontext(Silent())
    from rich.console import Console  # Only a terminal has to wait for it.

    from pylit.pipeline.bar import Bar

    return Bar(Console(stderr=True))
