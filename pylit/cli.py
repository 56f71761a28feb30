"""The command ``pylit``; ``build_site.py`` is the same for one repository, and builds unless told
to do something else.

Exit status: 0 when the site is built, 1 when the input has faults, 2 when the command has, 130
after Ctrl-C.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pylit.node.packages import NodeError, find_node, set_up, user_cache
from pylit.pipeline.build import Builder
from pylit.pipeline.outcome import Options, Progress, tell
from pylit.pipeline.pool import cores
from pylit.skeleton import SkeletonError, begin_page, begin_site

_COMMANDS = {
    "build": "write a site as files",
    "serve": "show it in a browser, anew at each edit",
    "init": "begin the site of a package in this folder: pylit init PACKAGE",
    "new": "begin a page, from docs_src/skeleton.py.jinja: pylit new PACKAGE/PAGE.py",
}
_SOURCE = """\
A SOURCE is a folder with docs_src/site.toml (default: this one), whose site is built and whose
traces and figures are run; or a package, a folder of modules or .py files of anybody's, which are
read and never imported or run.
"""


def _parser(prog: str) -> argparse.ArgumentParser:
    commands = "\n".join(f"  {name:6} {meaning}" for name, meaning in _COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} {{{'|'.join(_COMMANDS)}}} [SOURCE ...] [options], or {prog} --help",
        description="Render annotated Python as side by side pages: notes left, code right.\n\n"
        + commands,
        epilog=_SOURCE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("words", nargs="*", help=argparse.SUPPRESS)
    add("--source", action="append", default=[], metavar="SOURCE", help="the same as SOURCE")
    add("--serve", action="store_true", help="the same as the command `serve`")
    add("--new", metavar="FILE", help="the same as the command `new`")
    add("--out", type=Path, metavar="DIR", help="where the site goes (default: site/)")
    add("--check", action="store_true", help="write nothing, and fail on warnings too")
    add("--port", type=int, metavar="P", help="of the server (default: 8000; 0: any free one)")
    told = "processes that work side by side (default: one per core, here %(default)s)"
    add("--jobs", type=int, default=cores(), metavar="N", help=told)
    add("--verbose", action="store_true", help="show every warning")
    add("--title", default="", help="title of a site without docs_src/site.toml")
    add("--base-url", default="", metavar="URL", help="address of such a site")
    add("--cache", type=Path, metavar="DIR", help="what builds remember")
    return parser


def main(argv: Sequence[str] | None = None, home: Path | None = None) -> int:
    """Run ``pylit``, or ``build_site.py`` of a repository `home`; gives the exit status."""
    parser = _parser("build_site.py" if home else "pylit")
    given = parser.parse_intermixed_args(argv)
    command, *names = given.words or ["build" if home else "no command"]
    if command not in _COMMANDS:
        parser.error(f"{command}: expected one of {', '.join(_COMMANDS)}")
    command = "new" if given.new else "serve" if given.serve else command
    names += [*given.source, *([given.new] if given.new else [])]
    root, base, port = home or Path.cwd(), given.base_url, given.port
    begins, serving = command in ("init", "new"), command == "serve"
    sources = [] if begins else [Path(name) for name in names]
    if not home and len(sources) == 1 and _has_site(sources[0]):
        root, sources = sources[0].absolute(), []
    for message, wrong in {
        f"`{command}` writes one file and builds nothing; give one name alone": begins
        and (len(names) != 1 or given.serve or given.check or given.out),
        f"there is no docs_src/site.toml in {root}; write one with `pylit init PACKAGE`, or name a "
        "package to render, `pylit build PACKAGE`": not (begins or sources or _has_site(root)),
        "--check writes nothing, so there is nothing to serve; choose one": given.check and serving,
        "--port is for a server; add --serve": port is not None and not serving,
        f"--port {port}: expected a port, 0 to 65535": not 0 <= (port or 0) <= 65535,
        f"--jobs {given.jobs}: expected a whole number from 1 on": given.jobs < 1,
        "--source needs --out DIR: site/ is for the site of this repository": (
            home and sources and not (given.out or given.check)
        ),
        "--title and --base-url are for a site without site.toml, which says them": (
            not sources and (given.title or base)
        ),
        f"--base-url {base!r}: expected https://…": base and not re.match("https?://", base),
    }.items():
        if wrong:
            parser.error(message)
    try:
        if begins:
            begun = (begin_site if command == "init" else begin_page)(Path(names[0]), root)
            print(f"{begun} is begun. `{parser.prog} serve` shows it while you write.")
            return 0
        options = Options(
            root=root,
            out=given.out or (Path("site") if sources else root / "site"),
            sources=tuple(sources),
            cache=given.cache or (home / ".cache" / "pylit" if home else user_cache()),
            jobs=given.jobs,
            check=given.check,
            title=given.title,
            base_url=base and base.rstrip("/") + "/",
            lacking=_lacking(),
        )
        if not serving:
            return build(options, verbose=given.verbose)
        from pylit.serve import serve  # A web server takes time to import.

        port = 8000 if port is None else port
        return serve(options, port, lambda: build(options, verbose=given.verbose))
    except SkeletonError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted; the site is as it was.", file=sys.stderr)
        return 130


def build(options: Options, *, verbose: bool) -> int:
    """Build once and tell what came of it; the result is the exit status."""
    with Builder(options, Progress(sys.stderr)) as builder:
        outcome = builder.build()
    tell(outcome, options, verbose=verbose or options.check)
    return 1 if outcome.report.failed or (options.check and len(outcome.report)) else 0


def _lacking() -> str:
    """Why the site has to do without Node and what comes from npm; empty when both are there."""
    try:
        find_node()
        set_up()
    except NodeError as error:
        return str(error)
    return ""


def _has_site(folder: Path) -> bool:
    return (folder / "docs_src" / "site.toml").is_file()
