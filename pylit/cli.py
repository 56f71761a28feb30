"""The command ``pylit``: ``build``, ``serve`` and ``init``; and the flags of ``build_site.py``.

Exit status: 0 when the site is built, 1 when the input has faults, 2 when the command has, 130
after Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from pylit.diagnostics import Report
from pylit.node.packages import NodeError, find_node, set_up, user_cache
from pylit.pipeline.build import Builder, Options
from pylit.pipeline.outcome import Progress, tell
from pylit.pipeline.pool import cores
from pylit.site.config import load_config
from pylit.skeleton import SkeletonError, begin_page, begin_site


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``pylit``; the result is the exit status."""
    parser = Parser(
        prog="pylit",
        description="Render annotated Python as side by side pages: notes left, code right.",
        epilog="`pylit COMMAND --help` explains the options of a command.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    build = commands.add_parser("build", help="write a site as files", allow_abbrev=False)
    serve = commands.add_parser(
        "serve", help="show it in a browser, anew at each edit", allow_abbrev=False
    )
    for command in (build, serve):
        command.add_argument(
            "source",
            nargs="*",
            type=Path,
            metavar="SOURCE",
            help="a folder with docs_src/site.toml (default: this one), whose site is built and "
            "whose traces and figures are run; or a package, a folder of modules or .py files of "
            "anybody's, which are read and never imported or run",
        )
        _add_shared(command)
    build.add_argument("--check", action="store_true", help=_CHECK)
    serve.add_argument("--port", type=_port, metavar="P", help=_PORT)
    init = commands.add_parser("init", help="begin the site of a package", allow_abbrev=False)
    init.add_argument("package", type=Path, metavar="PACKAGE", help="a package in this folder")
    given = parser.parse_args(argv)
    if given.command == "init":
        return init_site(given.package)
    root, sources = Path.cwd(), given.source
    if not sources or (len(sources) == 1 and _has_site(sources[0])):
        root, sources = Path(*sources).absolute(), []
        if not _has_site(root):
            parser.error(
                f"there is no docs_src/site.toml in {root}; write one with `pylit init PACKAGE`, "
                "or name a package to render, `pylit build PACKAGE`"
            )
    options = _options(parser, given, root, sources, root / "site" if not sources else Path("site"))
    return _run(options, given, serve=given.command == "serve")


def build_site(root: Path, argv: Sequence[str] | None = None) -> int:
    """Run ``build_site.py`` for the repository `root`; the result is the exit status."""
    parser = Parser(
        prog="build_site.py",
        description="Render annotated Python as side by side pages: notes left, code right.",
        epilog="Without --source it builds the site that docs_src/site.toml describes.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--source",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a package, a folder of modules or a .py file to render instead; may be repeated. "
        "It is read, never imported or run",
    )
    _add_shared(parser)
    add("--serve", action="store_true", help="show the site in a browser, and again at each edit")
    add("--port", type=_port, metavar="P", help=_PORT)
    add("--check", action="store_true", help=_CHECK)
    add(
        "--new",
        type=Path,
        metavar="FILE",
        help="write the skeleton of a page, such as labml_nn/foo.py, and stop",
    )
    given = parser.parse_args(argv)
    if given.new:
        if given.source or given.serve or given.check or given.out:
            parser.error("--new writes one file and builds nothing; give it alone")
        return new_page(root, given.new)
    if given.check and given.serve:
        parser.error("--check writes nothing, so there is nothing to --serve; choose one")
    if given.port is not None and not given.serve:
        parser.error("--port is for --serve")
    if given.source and given.out is None and not given.check:
        parser.error("--source needs --out DIR: site/ is for the site of this repository")
    given.cache = given.cache or root / ".cache" / "pylit"
    return _run(
        _options(parser, given, root, given.source, root / "site"), given, serve=given.serve
    )


_CHECK = "build and check everything, write nothing, and fail on warnings too"
_PORT = "port of the server (default: 8000; 0: any free one)"


def _add_shared(parser: argparse.ArgumentParser) -> None:
    """The options of every command that builds."""
    add = parser.add_argument
    add("--out", type=Path, metavar="DIR", help="where the site goes (default: site/)")
    add(
        "--jobs",
        type=_positive,
        default=cores(),
        metavar="N",
        help="processes that work side by side (default: one per core, here %(default)s)",
    )
    add("--verbose", action="store_true", help="show every warning")
    add("--title", default="", help="title of a site without docs_src/site.toml")
    add("--base-url", default="", metavar="URL", help="address of such a site")
    add("--cache", type=Path, metavar="DIR", help="what builds remember")


def _options(
    parser: Parser, given: argparse.Namespace, root: Path, sources: Sequence[Path], out: Path
) -> Options:
    if not sources and (given.title or given.base_url):
        parser.error(
            "--title and --base-url are for other sources than a site's, whose site.toml says them"
        )
    if given.base_url and not given.base_url.startswith(("https://", "http://")):
        parser.error(f"--base-url {given.base_url!r}: expected https://…")
    return Options(
        root=root,
        out=given.out or out,
        sources=tuple(sources),
        cache=given.cache or user_cache(),
        jobs=given.jobs,
        check=getattr(given, "check", False),
        title=given.title,
        base_url=given.base_url and given.base_url.rstrip("/") + "/",
    )


def _run(options: Options, given: argparse.Namespace, *, serve: bool) -> int:
    """Build, or serve; the result is the exit status."""
    try:
        options = replace(options, lacking=_lacking())
        if serve:
            from pylit.serving.serve import serve as show  # A web server takes time to import.

            port = 8000 if given.port is None else given.port
            return show(options, port, lambda: build(options, verbose=given.verbose))
        return build(options, verbose=given.verbose)
    except KeyboardInterrupt:
        print("\nInterrupted; the site is as it was.", file=sys.stderr)
        return 130


def _lacking() -> str:
    """Why the site has to do without Node and what comes from npm; empty when both are there."""
    try:
        find_node()
        set_up()
    except NodeError as error:
        return str(error)
    return ""


def build(options: Options, *, verbose: bool) -> int:
    """Build once and tell what came of it; the result is the exit status."""
    line = Progress(sys.stderr)
    with Builder(options) as builder:
        outcome = builder.build(line)
    line.end()
    tell(outcome, options, verbose=verbose or options.check)
    return 1 if outcome.report.failed or (options.check and len(outcome.report)) else 0


def init_site(package: Path) -> int:
    """Begin the site of a package in this folder; the result is the exit status."""
    try:
        written = begin_site(package, Path.cwd())
    except SkeletonError as error:
        print(f"pylit: {error}", file=sys.stderr)
        return 2
    print(f"{written} is written. `pylit serve` shows the site while you write.")
    return 0


def new_page(root: Path, path: Path) -> int:
    """Begin a page of the repository's site; the result is the exit status."""
    report = Report()
    docs = root / "docs_src"
    config = load_config(docs / "site.toml", "docs_src/site.toml", report)
    if config is None:
        print(*report, sep="\n", file=sys.stderr)
        return 1
    template = docs / "skeleton.py.jinja"
    try:
        begun = begin_page(path, root=root, sources=config.sources, template=template)
    except SkeletonError as error:
        print(f"build_site.py: {error}", file=sys.stderr)
        return 2
    print(f"{begun} is begun. See it beside the others with `python build_site.py --serve`.")
    return 0


def _has_site(folder: Path) -> bool:
    return (folder / "docs_src" / "site.toml").is_file()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 on")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a port, 0 to 65535")
    return int(text)
