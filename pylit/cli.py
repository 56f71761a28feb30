"""The command line: ``pylit build``, ``serve``, ``init``, ``new``, ``translate`` and ``notes``."""

import argparse
import atexit
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from pylit import __version__
from pylit.annotate import NotesError, annotate
from pylit.build import Builder
from pylit.cache import Cache, user_cache
from pylit.config import has_settings, load_config
from pylit.languages.language import CODE
from pylit.node.process import NodeError, find_node, set_up
from pylit.scaffold import CommandError, init_site, init_workflow, new_lesson, new_page
from pylit.site.inputs import Site
from pylit.site.options import Options
from pylit.site.outcome import Outcome, print_outcome
from pylit.site.pool import cores
from pylit.site.stages import parse_pages
from pylit.translate import TranslationError, list_missing, translate


def _written(given: argparse.Namespace, root: Path) -> Iterator[Path]:
    if given.command == "new":
        yield from new_lesson(given.path, root) if given.lesson else [new_page(given.path, root)]
        return
    if not (given.path or given.github):
        raise CommandError("name a package, `init PACKAGE`, or a workflow, `init --github`")
    if given.path:
        yield init_site(given.path, root)
    if given.github:
        yield init_workflow(root)


def _translated(given: argparse.Namespace, root: Path) -> Iterator[str]:
    if not has_settings(root):
        raise CommandError(f"there is no docs_src/site.toml in {root}; go to the folder of a site")
    if not CODE.fullmatch(given.language):
        raise CommandError(f"{given.language} is no language; expected such as zh or pt-BR")
    outcome, options = Outcome(), Options(root=root, out=root / "site")
    if config := load_config(root, outcome.report):
        site = Site(options, config, Cache(None), "", outcome)
        modules = [site.written(page) for page in parse_pages(site) if page.source.own]
    if outcome.report.failed:
        raise CommandError("\n".join(map(str, outcome.report)))
    if given.missing:
        return list_missing(site, modules, given.language)
    return translate(site, modules, given.language, given.pages)


def _count(text: str) -> int:
    """A number of processes."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of processes; expected 1 or more")
    return int(text)


def _path(text: str) -> Path:
    """A path, in which ``~`` is the home folder, also where no shell has seen to it."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        message = f"the home folder in {text} is not known; write the path in full"
        raise argparse.ArgumentTypeError(message) from None


def _parser(prog: str) -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    add = shared.add_argument
    add("sources", nargs="*", type=_path, metavar="SOURCE", help="a site or packages to render")
    add("--out", type=_path, metavar="DIR", help="the output folder (default: site/)")
    jobs = "number of processes (default: one per core, here %(default)s)"
    add("--jobs", type=_count, default=cores(), metavar="N", help=jobs)
    run = "run the site's traces and figures: code of its folder, with your rights"
    add("--run", action="store_true", help=run)
    add("--verbose", action="store_true", help="show every warning")
    add("--title", default="", help="title of a site without docs_src/site.toml")
    add("--base-url", default="", metavar="URL", help="address of such a site")
    add("--cache", type=_path, metavar="DIR", help="the folder of cached results")
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Render annotated Python as side by side pages: notes left, code right.",
        epilog="A SOURCE is a folder with docs_src/site.toml (default: this one), whose site is "
        "built, and whose traces and figures run with --run; or a package, a folder of modules or "
        ".py files by any author, which are read and never imported or run.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", parents=[shared], help="write a site as files")
    check = "write nothing, and fail on warnings too"
    build.add_argument("--check", action="store_true", help=check)
    strict = "fail on warnings too, though the site is written"
    build.add_argument("--strict", action="store_true", help=strict)
    about = "show a site in a browser, and rebuild it at each edit"
    serve = commands.add_parser("serve", parents=[shared], help=about)
    port = "of the server (default: %(default)s; 0: any free one)"
    serve.add_argument("--port", type=int, default=8000, metavar="P", help=port)
    serve.set_defaults(check=False, strict=False)
    about = "write the settings of a site for a package in this folder"
    init = commands.add_parser("init", help=about)
    init.add_argument("path", nargs="?", type=_path, metavar="PACKAGE")
    workflow = "write a workflow, too, that publishes the site with GitHub Pages"
    init.add_argument("--github", action="store_true", help=workflow)
    new = commands.add_parser("new", help="write the beginning of a new page")
    new.add_argument("path", type=_path, metavar="PACKAGE/PAGE.py")
    lesson = "write all that docs_src/skeleton has templates for: figures, runs, tests"
    new.add_argument("--lesson", action="store_true", help=lesson)
    about = "write or refresh the files of the site's pages in another language"
    into = commands.add_parser("translate", help=about)
    into.add_argument("language", metavar="LANGUAGE", help="such as zh or pt-BR")
    pages = "pages to begin: package.module, or a page of docs_src/pages"
    into.add_argument("pages", nargs="*", metavar="PAGE", help=pages)
    missing = "write nothing, and list what is shown in English"
    into.add_argument("--missing", action="store_true", help=missing)
    about = "begin or refresh notes on a module that others have written"
    notes = commands.add_parser("notes", help=about)
    notes.add_argument("module", metavar="PACKAGE.MODULE", help="an installed module")
    names = "classes and functions to begin with (default: all public ones)"
    notes.add_argument("names", nargs="*", metavar="NAME", help=names)
    return parser


def main(argv: Sequence[str] | None = None, home: Path | None = None) -> int:
    """Run ``pylit``, or ``build_site.py`` of a repository `home`; returns the exit status."""
    # What a terminal of another encoding cannot show is shown as \xe9; nothing fails.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    parser = _parser("build_site.py" if home else "pylit")
    argv, about = sys.argv[1:] if argv is None else argv, ("--help", "--version")
    if home and (not argv or (argv[0].startswith("--") and argv[0] not in about)):
        argv = ["build", *argv]
    given = parser.parse_args(argv)
    try:
        if given.command in ("init", "new"):
            for path in _written(given, home or Path.cwd()):
                print(f"Wrote {path}.")
            print(f"`{parser.prog} serve` shows the site while you write.")
            return 0
        if given.command == "translate":
            for line in _translated(given, home or Path.cwd()):
                print(line)
            sys.stdout.flush()
            return 0
        if given.command == "notes":
            root = home or Path.cwd()
            for line in annotate(root / "docs_src", given.module, given.names):
                print(line)
            return 0
        options = _options(given, home)
        if given.command == "build":
            return build(options, verbose=given.verbose)
        from pylit.serve import serve

        return serve(options, given.port, partial(build, options, verbose=given.verbose))
    except (CommandError, NotesError, TranslationError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # Its reader, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\nInterrupted; the site is unchanged.", file=sys.stderr)
        return 130


def _options(given: argparse.Namespace, home: Path | None) -> Options:
    root, sources, missing = home or Path.cwd(), given.sources, ""
    if not home and len(sources) == 1 and has_settings(sources[0]):
        root, sources = sources[0].absolute(), []
    if not sources and not has_settings(root):
        ways = "write one with `pylit init PACKAGE`, or name a package, `pylit build PACKAGE`"
        raise CommandError(f"there is no docs_src/site.toml in {root}; {ways}")
    if home and sources and not (given.out or given.check):
        raise CommandError("a SOURCE needs --out DIR: site/ is for the site of this repository")
    if not sources and (given.title or given.base_url):
        raise CommandError("--title and --base-url are for a SOURCE without docs_src/site.toml")
    address = urlsplit(given.base_url)
    if given.base_url and not (address.scheme in ("https", "http") and address.hostname):
        raise CommandError(f"--base-url {given.base_url}: expected https://…")
    try:
        find_node()
        set_up()
    except NodeError as error:
        missing = str(error)
    return Options(
        root=root,
        out=given.out or (Path("site") if sources else root / "site"),
        sources=tuple(sources),
        cache=_cache(given.cache, home / ".cache" / "pylit" if home else user_cache()),
        jobs=given.jobs,
        check=given.check,
        strict=given.strict,
        # Who runs the script of a repository runs its code already.
        run=given.run or home is not None,
        title=given.title,
        base_url=given.base_url and given.base_url.rstrip("/") + "/",
        missing_node=missing,
    )


def _cache(given: Path | None, usual: Path) -> Path:
    """The folder of cached results; where the usual one cannot be written, a temporary one."""
    folder = given or usual
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        reason = f"{folder} cannot be written ({error.strerror or error})"
    if given:
        raise CommandError(f"--cache {reason}; name another folder")
    print(f"{reason}: nothing is cached; --cache DIR names another folder.", file=sys.stderr)
    temporary = tempfile.mkdtemp(prefix="pylit-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary)


def build(options: Options, *, verbose: bool) -> int:
    """Build once and print the outcome; returns the exit status."""
    with Builder(options) as builder:
        outcome = builder.build()
    strict = options.strict or options.check
    print_outcome(outcome, options, verbose=verbose or strict)
    return 1 if outcome.report.failed or (strict and len(outcome.report)) else 0
