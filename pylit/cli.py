"""What to begin with: the settings of a site (``pylit init``), and a page (``pylit new``).

The skeleton of a page is ``docs_src/skeleton.py.jinja``: a small module that works, with
every part that a page has, so that an author replaces what is there and forgets nothing.
"""

import argparse
import keyword
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from pylit.build import Builder
from pylit.config import load_config
from pylit.diagnostics import Report
from pylit.node.process import NodeError, find_node, set_up, user_cache
from pylit.outcome import Options, Progress, tell
from pylit.pool import cores

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
        from pylit.serve import serve

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
